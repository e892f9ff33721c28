/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes from an executor the files of this machine that its drivers do not need, by Landlock.
 * The guard (program/guard.c) answers compilers' questions during a build; this bounds what
 * compilers read later, when a kernel is launched, and what kernels on processors read. They
 * signal no other process, either.
 */
#include "daemon/executor/file_access.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/trace/log.h"
#include "daemon/executor/program/guard_int.h"
#include "device/opencl/api.h"

#ifndef LANDLOCK_ACCESS_FS_REFER /* headers before Linux 5.19 */
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif

enum {
    REFER_VERSION = 2, /* before it, no file can be renamed into another folder */
    SCOPE_VERSION = 6, /* since it, signals can be bound: Linux 6.12 */
    SCOPE_SIGNAL = 1 << 1
};

/* The kernel's struct landlock_ruleset_attr, which older headers have without its end. */
struct ruleset {
    uint64_t files, net, scoped;
};

/* Drivers use caches and temporary files so. */
#define USING                                                                          \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_REFER |                         \
     LANDLOCK_ACCESS_FS_REMOVE_DIR)

/* A later session reads folders by name. So kernels cannot put another folder, or a link to one,
 * in such a place, nor make a device file in one. */
#define HANDLED                                                                        \
    (USING | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_CHAR |              \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* Beside drivers and their caches (guard_paths.c). */
static const char *const common[] = {
    "/usr", "/sbin", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/nvidia", "/etc/localtime",
    "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies",
    /* to find other servers by name */
    "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/nsswitch.conf",
    "/etc/resolv.conf", "/etc/services"};

static void
allow(int rules, const char *name, int how, uint64_t access)
{
    struct landlock_path_beneath_attr rule = {
        .allowed_access = access,
        .parent_fd = open(name, O_PATH | O_CLOEXEC | how),
    };

    if (rule.parent_fd >= 0) { /* else nothing is there */
        (void)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule,
                      0);
        (void)close(rule.parent_fd);
    }
}

static void
allow_reading(const char *name, void *rules)
{
    if (name != NULL && name[0] != '\0') {
        allow(*(const int *)rules, name, 0, LANDLOCK_ACCESS_FS_READ_FILE);
    }
}

static void
allow_folder(const char *name, void *rules)
{
    allow(*(const int *)rules, name, O_DIRECTORY, LANDLOCK_ACCESS_FS_READ_FILE);
}

static void
allow_using(const char *name, void *rules)
{
    allow(*(const int *)rules, name, O_DIRECTORY, USING);
}

/* Allows what a folder has, but disks, entries of @p hidden and, where those are processes,
 * numbers. Links stay links: /dev/core is one to memory of the kernel. */
static void
allow_entries(const char *folder, const char *const *hidden, size_t hidden_count,
              int *rules)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char name[PATH_MAX];

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own */
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        bool shown =
            strchr(".0123456789", entry->d_name[0]) == NULL && entry->d_type != DT_BLK;

        for (size_t i = 0; i < hidden_count; i++) {
            shown = shown && strcmp(entry->d_name, hidden[i]) != 0;
        }
        if (shown) {
            (void)snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
            allow(*rules, name, O_NOFOLLOW, LANDLOCK_ACCESS_FS_READ_FILE);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* Device files and what the kernel reports about the machine and this process. Not memory that
 * programs share by name, nor the kernel's memory and log, nor other processes. */
static void
allow_kernels(int *rules)
{
    static const char *const devices[] = {"shm",  "mqueue", "mem",
                                          "kmem", "port",   "kmsg"};
    static const char *const facts[] = {"kcore",       "kmsg",       "kpagecgroup",
                                        "kpagecount",  "kpageflags", "self",
                                        "thread-self", "keys",       "vmcore"};

    allow_entries("/dev", devices, TP_ARRAY_LEN(devices), rules);
    allow_entries("/proc", facts, TP_ARRAY_LEN(facts), rules);
    allow_reading("/sys", rules);
    /* stays open: else the kernel may make the folder anew, which no rule knows */
    (void)open("/proc/self", O_PATH | O_CLOEXEC);
    allow_reading("/proc/self", rules);
}

/* The executor's own folder: sanitizers and tracers read the program. */
static void
allow_program(int *rules)
{
    char name[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", name, sizeof(name) - 1);
    char *slash;

    name[len > 0 ? len : 0] = '\0';
    slash = strrchr(name, '/');
    if (slash != NULL && slash != name) {
        *slash = '\0';
        allow_reading(name, rules);
    }
}

/* Folders that the environment names, with colons between. */
static void
allow_list(const char *variable, int *rules)
{
    const char *list = getenv(variable); /* NOLINT(concurrency-mt-unsafe): one thread */
    char name[PATH_MAX];

    while (list != NULL && *list != '\0') {
        int len = (int)strcspn(list, ":;");

        if (len > 1 && len < (int)sizeof(name)) { /* not "/" */
            (void)snprintf(name, sizeof(name), "%.*s", len, list);
            allow_reading(name, rules);
        }
        list += len + (list[len] != '\0');
    }
}

static bool
allow_all(int *rules, const char *const *more, size_t more_count)
{
    struct tp_exec_paths *paths;

    tp_exec_paths_make_caches();
    paths = tp_exec_paths_create();
    if (paths == NULL) {
        return false;
    }
    tp_exec_paths_each(paths, allow_folder, allow_using, rules);
    tp_exec_paths_destroy(paths);
    for (size_t i = 0; i < TP_ARRAY_LEN(common); i++) {
        allow_reading(common[i], rules);
    }
    allow_kernels(rules);
    allow_program(rules);
    allow_list("LD_LIBRARY_PATH", rules);
    allow_list("OCL_ICD_VENDORS", rules);
    allow_list("OPENCL_VENDOR_PATH", rules);
    for (size_t i = 0; i < more_count; i++) {
        allow_reading(more[i], rules);
        allow_using(more[i], rules); /* if it is a folder */
    }
    return true;
}

/* Whether a driver is loaded with which the list was not tried: those of GPUs of AMD and
 * Intel, whose kernels reach no file. Such a driver may need files that the list does not name. */
static bool
has_untried_driver(void)
{
    static const char *const names[] = {"libamdocl64.so", "libigdrcl.so"};

    for (size_t i = 0; i < TP_ARRAY_LEN(names); i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);

        if (library != NULL) {
            (void)dlclose(library);
            tp_info("executor",
                    "drivers may read what this user may: %s is loaded; --driver-files "
                    "bounds it, too",
                    names[i]);
            return true;
        }
    }
    return false;
}

void
tp_exec_restrict_files(const char *const *more, size_t more_count, bool untried_too)
{
    long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    const struct ruleset attr = {.files = HANDLED,
                                 .scoped = version >= SCOPE_VERSION ? SCOPE_SIGNAL : 0};
    int rules;

    for (size_t i = 0; i < more_count; i++) {
        if (strcmp(more[i], "/") == 0) {
            return;
        }
    }
    if (!untried_too && has_untried_driver()) {
        return;
    }
    rules = version < REFER_VERSION
                ? -1
                : (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (rules < 0 || !allow_all(&rules, more, more_count) ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) != 0) {
        tp_info("executor",
                "kernels may read what this user may: the system has no Landlock of "
                "Linux 5.19");
    }
    if (rules >= 0) {
        (void)close(rules);
    }
}
