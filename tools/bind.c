/* SPDX-License-Identifier: Apache-2.0 */
/* Finds cores in sysfs and binds processes to them. Without sysfs each processor is a core. */
#include "bind.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

/* Reads a list such as "0,4-5". @return false: there is none */
static bool
read_list(const char *path, cpu_set_t *ret)
{
    FILE *in = fopen(path, "r");
    int first, last, count = 0;

    CPU_ZERO(ret);
    while (in != NULL && fscanf(in, "%d", &first) == 1) {
        last = first;
        if (fscanf(in, "-%d", &last) < 0 || first < 0 || last >= CPU_SETSIZE) {
            break;
        }
        for (; first <= last; first++, count++) {
            CPU_SET(first, ret);
        }
        if (fgetc(in) != ',') {
            break;
        }
    }
    if (in != NULL) {
        fclose(in);
    }
    return count > 0;
}

/* The processors of @p allowed that share a core with processor @p cpu. */
static void
find_core(int cpu, const cpu_set_t *allowed, cpu_set_t *ret)
{
    char path[96];

    snprintf(path, sizeof(path),
             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (read_list(path, ret) && CPU_ISSET(cpu, ret)) {
        CPU_AND(ret, ret, allowed);
    } else {
        CPU_ZERO(ret);
        CPU_SET(cpu, ret);
    }
}

/* Finds core number @p number. @return how many cores there are before it, @p number at most */
static int
find_number(int number, cpu_set_t *ret)
{
    cpu_set_t left;
    int cores = 0;

    if (sched_getaffinity(0, sizeof(left), &left) != 0) {
        return 0;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &left)) {
            continue;
        }
        find_core(cpu, &left, ret);
        if (cores == number) {
            return cores;
        }
        cores++;
        CPU_XOR(&left, &left, ret); /* its other threads are no further core */
    }
    CPU_ZERO(ret);
    return cores;
}

int
bind_count_cores(void)
{
    cpu_set_t none;

    return find_number(CPU_SETSIZE, &none);
}

int
bind_to_core(int core)
{
    cpu_set_t cpus;

    if (find_number(core, &cpus) != core || CPU_COUNT(&cpus) == 0) {
        errno = EINVAL;
        return -1;
    }
    return sched_setaffinity(0, sizeof(cpus), &cpus);
}
