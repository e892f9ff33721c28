/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of a process: memory and descriptors. */
#ifndef TELPHER_TESTS_OFFLOAD_USAGE_H
#define TELPHER_TESTS_OFFLOAD_USAGE_H

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

enum { USAGE_TAG = 77 };

struct usage {
    long now_kib, peak_kib; /* resident */
    long descriptors;
};

static inline void
usage_of_self(struct usage *ret_usage)
{
    FILE *file = fopen("/proc/self/statm", "r");
    DIR *dir = opendir("/proc/self/fd");
    struct rusage r;
    long pages = 0, all;

    check(file != NULL && fscanf(file, "%ld %ld", &all, &pages) == 2);
    fclose(file);
    ret_usage->now_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    check(getrusage(RUSAGE_SELF, &r) == 0);
    ret_usage->peak_kib = r.ru_maxrss;
    check(dir != NULL);
    ret_usage->descriptors = 0;
    while (readdir(dir) != NULL) {
        ret_usage->descriptors++;
    }
    closedir(dir);
}

#endif
