/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of this machine that a compiler may see: installed software that every user may
 * read, folders of the loaded drivers, drivers' caches, and what the kernel reports about the
 * hardware. SECURITY.md lists them.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "daemon/cache/cache.h"
#include "daemon/executor/program/guard_int.h"

enum { OWN_MAX = 16, DRIVERS_MAX = 64 };

struct tp_exec_paths {
    char *caches[OWN_MAX];
    size_t cache_count;
    char *drivers[DRIVERS_MAX]; /* folders of libraries outside of the system's */
    size_t driver_count;
};

static const char *const system_folders[] = {"/usr/lib",
                                             "/usr/lib32",
                                             "/usr/lib64",
                                             "/usr/libexec",
                                             "/usr/share",
                                             "/usr/bin",
                                             "/usr/local/lib",
                                             "/usr/local/share",
                                             "/usr/local/bin",
                                             "/lib",
                                             "/lib32",
                                             "/lib64",
                                             "/bin",
                                             "/opt",
                                             "/etc/OpenCL",
                                             "/etc/ld.so.cache",
                                             "/usr/include/oclgrind"};

static const char *const kernel_names[] = {"/sys/*",
                                           "/dev/null",
                                           "/dev/zero",
                                           "/dev/random",
                                           "/dev/urandom",
                                           "/dev/nvidia*",
                                           "/dev/dri/*",
                                           "/dev/kfd",
                                           "/proc/cpuinfo",
                                           "/proc/meminfo",
                                           "/proc/stat",
                                           "/proc/version",
                                           "/proc/filesystems",
                                           "/proc/modules",
                                           "/proc/devices",
                                           "/proc/driver/*",
                                           "/proc/sys/*",
                                           "/proc/[0-9]*/maps",
                                           "/proc/[0-9]*/stat",
                                           "/proc/[0-9]*/statm",
                                           "/proc/[0-9]*/status",
                                           "/proc/[0-9]*/mountinfo",
                                           "/proc/[0-9]*/cgroup"};

/* ---- what is installed ---- */

static void
add(char **list, size_t *count, size_t max, char *name)
{
    char real[4096];

    if (name != NULL && *count < max) {
        list[(*count)++] =
            tp_strdup(realpath(name, real) != NULL ? real : name, "paths");
        *count -= list[*count - 1] == NULL;
    }
    tp_free(name);
}

/* Where drivers keep what they compiled, in the order in which they look. */
static const struct {
    const char *variable, *below;
    const char *library; /* part of its name */
} caches[] = {{"POCL_CACHE_DIR", "", "pocl"},
              {"XDG_CACHE_HOME", "/pocl", "pocl"},
              {"HOME", "/.cache/pocl", "pocl"},
              {"CUDA_CACHE_PATH", "", "nvidia"},
              {"HOME", "/.nv/ComputeCache", "nvidia"},
              {"HOME", "/.cache/neo_compiler_cache", "igdrcl"},
              {"HOME", "/.cache/mesa_shader_cache", "usticl"},
              {"HOME", "/.cache/comgr", "amdocl"}};

/* @return name of a cache's folder, NULL: its variable is not set */
static char *
name_cache(size_t i)
{
    const char *value = getenv(caches[i].variable);

    return value != NULL && value[0] == '/' && strcmp(value, "/") != 0
               ? tp_asprintf("paths", "%s%s", value, caches[i].below)
               : NULL;
}

char *
tp_exec_driver_cache(const char *library)
{
    char *name = NULL;

    for (size_t i = 0; name == NULL && i < TP_ARRAY_LEN(caches); i++) {
        if (strcmp(caches[i].library, library) == 0) {
            name = name_cache(i);
        }
    }
    return name;
}

static bool
is_in(const char *name, const char *folder)
{
    size_t len = strlen(folder);

    return strncmp(name, folder, len) == 0 && (name[len] == '/' || name[len] == '\0');
}

static bool
is_in_any(const char *name, char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_in(name, list[i])) {
            return true;
        }
    }
    return false;
}

static bool
is_in_system(const char *name)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(system_folders); i++) {
        if (is_in(name, system_folders[i])) {
            return true;
        }
    }
    return false;
}

/* Adds the folder of a library, and share/ beside it, where drivers have their headers. */
static int
add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct tp_exec_paths *p = arg;
    const char *name = info->dlpi_name, *slash;
    char real[4096];

    if (name == NULL || name[0] != '/' || realpath(name, real) == NULL ||
        is_in_system(real) || is_in_any(real, p->drivers, p->driver_count)) {
        return 0;
    }
    slash = strrchr(real, '/');
    if (slash != real) {
        add(p->drivers, &p->driver_count, DRIVERS_MAX,
            tp_strndup(real, (size_t)(slash - real), "paths"));
        add(p->drivers, &p->driver_count, DRIVERS_MAX,
            tp_asprintf("paths", "%.*s/../share", (int)(slash - real), real));
    }
    return 0;
}

static int
is_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    return info->dlpi_name != NULL && strstr(info->dlpi_name, arg) != NULL;
}

void
tp_exec_paths_make_caches(void)
{
    const char *last = "";

    for (size_t i = 0; i < TP_ARRAY_LEN(caches); i++) {
        char *name = strcmp(caches[i].library, last) != 0 ? name_cache(i) : NULL;

        if (name != NULL &&
            dl_iterate_phdr(is_loaded, (void *)(uintptr_t)caches[i].library) != 0) {
            tp_cache_make_folders(name);
            last = caches[i].library;
        }
        tp_free(name);
    }
}

struct tp_exec_paths *
tp_exec_paths_create(void)
{
    struct tp_exec_paths *p = tp_zalloc(sizeof(*p), "paths");

    if (p != NULL) {
        for (size_t i = 0; i < TP_ARRAY_LEN(caches); i++) {
            add(p->caches, &p->cache_count, OWN_MAX, name_cache(i));
        }
        (void)dl_iterate_phdr(add_library, p);
    }
    return p;
}

static void
each(char *const *list, size_t count, void (*fn)(const char *name, void *arg),
     void *arg)
{
    for (size_t i = 0; i < count; i++) {
        fn(list[i], arg);
    }
}

void
tp_exec_paths_each(const struct tp_exec_paths *p,
                   void (*installed)(const char *name, void *arg),
                   void (*cache)(const char *name, void *arg), void *arg)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(system_folders); i++) {
        installed(system_folders[i], arg);
    }
    each(p->drivers, p->driver_count, installed, arg);
    each(p->caches, p->cache_count, cache, arg);
}

static void
free_names(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tp_free(list[i]);
    }
}

void
tp_exec_paths_destroy(struct tp_exec_paths *p)
{
    free_names(p->caches, p->cache_count);
    free_names(p->drivers, p->driver_count);
    tp_free(p);
}

/* ---- calls ---- */

bool
tp_exec_paths_own(const struct tp_exec_paths *p, const char *name)
{
    return is_in_any(name, p->caches, p->cache_count) ||
           strncmp(name, "/proc/", 6) == 0 || strncmp(name, "/sys/", 5) == 0;
}

static bool
is_kernels(const struct tp_exec_call *call, const char *name)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(kernel_names); i++) {
        if (fnmatch(kernel_names[i], name, 0) == 0) {
            return true;
        }
    }
    /* which file is open; not its content */
    return call->nofollow && fnmatch("/proc/[0-9]*/fd/[0-9]*", name, 0) == 0;
}

/* Finds the file as the thread would. @return descriptor of its place, -1 = none */
static int
open_place(const struct tp_exec_call *call)
{
    int flags = O_PATH | O_CLOEXEC | (call->nofollow ? O_NOFOLLOW : 0);
    char path[64];
    int folder, fd;

    if (call->name[0] == '/' || call->folder == AT_FDCWD) {
        return open(call->name, flags);
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)call->thread,
                   call->folder);
    folder = open(path, O_PATH | O_CLOEXEC);
    fd = folder < 0 ? -1 : openat(folder, call->name, flags);
    if (folder >= 0) {
        (void)close(folder);
    }
    return fd;
}

static bool
find_name(int fd, char *name, size_t room)
{
    char path[32];
    ssize_t len;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    len = readlink(path, name, room - 1);
    if (len <= 0) {
        return false;
    }
    name[len] = '\0';
    return true;
}

bool
tp_exec_paths_allow(const struct tp_exec_paths *p, const struct tp_exec_call *call)
{
    bool opens = call->kind == TP_EXEC_CALL_OPEN, allowed = false;
    char name[4096];
    struct stat st;
    int fd;

    if (opens &&
        ((call->flags & O_CREAT) != 0 || (call->flags & O_ACCMODE) == O_WRONLY ||
         (call->flags & O_PATH) != 0)) {
        return true; /* does not read */
    }
    fd = open_place(call);
    if (fd < 0) {
        return true; /* the call itself fails, with the right errno */
    }
    if (find_name(fd, name, sizeof(name)) && fstat(fd, &st) == 0) {
        allowed = (!opens && S_ISDIR(st.st_mode)) || is_in_system(name) ||
                  is_kernels(call, name) ||
                  is_in_any(name, p->caches, p->cache_count) ||
                  is_in_any(name, p->drivers, p->driver_count);
    }
    (void)close(fd);
    return allowed;
}
