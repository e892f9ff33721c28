/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hides our own ICD. Loaders read OCL_ICD_VENDORS (a directory; with ocl-icd also one
 * .icd file or a library), OPENCL_VENDOR_PATH (ocl-icd) and OCL_ICD_FILENAMES (Khronos).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/opencl/api.h"

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread, see api.h */

#define OURS "libtelpher-opencl"
#define SYSTEM_DIR "/etc/OpenCL/vendors"

/* Paths that the loader reads, from the environment. */
static const char *
vendors_path(void)
{
    const char *path = getenv("OCL_ICD_VENDORS");

    if (path == NULL || path[0] == '\0') {
        path = getenv("OPENCL_VENDOR_PATH");
    }
    return path == NULL || path[0] == '\0' ? SYSTEM_DIR : path;
}

static bool
ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* Reads an .icd file: one line, the library's name. @return false if unreadable. */
static bool
read_icd(const char *path, char *line, size_t size)
{
    FILE *f = fopen(path, "re");
    bool ok;

    if (f == NULL) {
        return false;
    }
    ok = fgets(line, (int)size, f) != NULL;
    (void)fclose(f);
    return ok;
}

static bool
names_ours(const char *icd_path)
{
    char line[1024];

    return read_icd(icd_path, line, sizeof(line)) && strstr(line, OURS) != NULL;
}

/* Calls fn for every .icd file of a directory, until it says false. */
static bool
each_icd(const char *dir, bool (*fn)(const char *path, const char *name, void *arg),
         void *arg)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    bool go_on = true;

    if (d == NULL) {
        return true;
    }
    while (go_on && (entry = readdir(d)) != NULL) {
        char path[1024];
        int len = snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);

        if (len > 0 && (size_t)len < sizeof(path) && ends_with(entry->d_name, ".icd")) {
            go_on = fn(path, entry->d_name, arg);
        }
    }
    (void)closedir(d);
    return go_on;
}

static bool
is_foreign(const char *path, const char *name, void *arg)
{
    return !names_ours(path);
}

/* True if the loader would find our ICD there. */
static bool
leads_to_ours(const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return !each_icd(path, is_foreign, NULL);
    }
    return strstr(path, OURS) != NULL || (ends_with(path, ".icd") && names_ours(path));
}

/* Copies a foreign .icd file into the private directory. */
static bool
copy_icd(const char *path, const char *name, void *arg)
{
    char line[1024], copy[1024];
    const char *dir = arg;
    FILE *f;
    int len = snprintf(copy, sizeof(copy), "%s/%s", dir, name);

    if (names_ours(path) || len < 0 || (size_t)len >= sizeof(copy) ||
        !read_icd(path, line, sizeof(line))) {
        return true;
    }
    f = fopen(copy, "we");
    if (f == NULL) {
        return false;
    }
    (void)fputs(line, f);
    return fclose(f) == 0;
}

/* Removes our library from a colon-separated list. */
static void
filter_filenames(void)
{
    const char *list = getenv("OCL_ICD_FILENAMES");
    char kept[4096] = "";
    size_t len = 0;

    if (list == NULL || strstr(list, OURS) == NULL || strlen(list) >= sizeof(kept)) {
        return;
    }
    while (*list != '\0') {
        size_t item = strcspn(list, ":");

        if (memmem(list, item, OURS, strlen(OURS)) == NULL) {
            len += (size_t)snprintf(kept + len, sizeof(kept) - len, "%s%.*s",
                                    len == 0 ? "" : ":", (int)item, list);
        }
        list += item + (list[item] == ':');
    }
    (void)setenv("OCL_ICD_FILENAMES", kept, 1);
}

telpher_status
tp_opencl_vendors_hide(char *ret_dir, size_t size, struct tp_error *err)
{
    const char *path = vendors_path(), *tmp = getenv("TMPDIR");
    int len;

    ret_dir[0] = '\0';
    filter_filenames();
    if (!leads_to_ours(path)) {
        return TELPHER_OK;
    }
    len = snprintf(ret_dir, size, "%s/telpher-vendors-XXXXXX",
                   tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (len < 0 || (size_t)len >= size || mkdtemp(ret_dir) == NULL) {
        ret_dir[0] = '\0';
        return tp_error_set_errno(err, errno, "cannot make a directory in %s",
                                  tmp != NULL ? tmp : "/tmp");
    }
    if (!each_icd(path, copy_icd, ret_dir)) {
        int saved = errno;

        tp_opencl_vendors_remove(ret_dir);
        ret_dir[0] = '\0';
        return tp_error_set_errno(err, saved, "cannot copy %s", path);
    }
    (void)setenv("OCL_ICD_VENDORS", ret_dir, 1);
    (void)unsetenv("OPENCL_VENDOR_PATH");
    return TELPHER_OK;
}

static void
open_library(const char *name, size_t len)
{
    char text[1024];

    if (len > 0 && len < sizeof(text)) {
        (void)snprintf(text, sizeof(text), "%.*s", (int)len, name);
        (void)dlopen(text, RTLD_LAZY | RTLD_LOCAL); /* stays */
    }
}

static bool
open_icd(const char *path, const char *name, void *arg)
{
    char line[1024];

    if (read_icd(path, line, sizeof(line))) {
        open_library(line, strcspn(line, " \t\r\n"));
    }
    return true;
}

void
tp_opencl_vendors_open(void)
{
    const char *path = vendors_path(), *list = getenv("OCL_ICD_FILENAMES");
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)each_icd(path, open_icd, NULL);
    } else if (ends_with(path, ".icd")) {
        (void)open_icd(path, path, NULL);
    } else {
        open_library(path, strlen(path));
    }
    while (list != NULL && *list != '\0') {
        size_t item = strcspn(list, ":");

        open_library(list, item);
        list += item + (list[item] == ':');
    }
}

static bool
remove_icd(const char *path, const char *name, void *arg)
{
    (void)unlink(path);
    return true;
}

void
tp_opencl_vendors_remove(const char *dir)
{
    if (dir[0] != '\0') {
        (void)each_icd(dir, remove_icd, NULL);
        (void)rmdir(dir);
    }
}

/* NOLINTEND(concurrency-mt-unsafe) */
