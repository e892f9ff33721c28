/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the ranks of a stand-in share: area.h. */
#include "tests/support/standin/area.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

bool
area_create(char *ret_name, size_t bytes)
{
    static int count;
    int fd;

    snprintf(ret_name, AREA_NAME, "/telpher-standin-%ld-%d", (long)getpid(), count++);
    fd = shm_open(ret_name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        return false;
    }
    close(fd);
    return true;
}

void *
area_join(const char *name, size_t bytes, int size)
{
    int fd = size <= AREA_RANKS ? shm_open(name, O_RDWR, 0) : -1;
    struct area_head *area =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd >= 0) {
        close(fd);
    }
    if (area == MAP_FAILED) {
        return NULL;
    }
    if (atomic_fetch_add(&area->joined, 1) + 1 == size) {
        shm_unlink(name);
    }
    return area;
}

void
area_barrier(struct area_head *area, int size)
{
    int generation = atomic_load(&area->generation);

    if (atomic_fetch_add(&area->arrived, 1) + 1 == size) {
        atomic_store(&area->arrived, 0);
        atomic_fetch_add(&area->generation, 1);
    }
    while (atomic_load(&area->generation) == generation) {
        sched_yield();
    }
}

void *
area_cuda(const char *function)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = driver != NULL ? dlsym(driver, function) : NULL;

    if (symbol == NULL) {
        fprintf(stderr, "stand-in: no %s in libcuda.so.1\n", function);
        exit(EXIT_FAILURE);
    }
    return symbol;
}
