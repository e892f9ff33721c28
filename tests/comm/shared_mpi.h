/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that all ranks of an MPI job on this machine see, to meet without a call of MPI's. */
#ifndef TELPHER_TESTS_COMM_SHARED_MPI_H
#define TELPHER_TESTS_COMM_SHARED_MPI_H

#include "ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <telpher/interop/mpi.h>

/** @p size bytes of 0, to be unmapped. All ranks call it together. */
static inline void *
ranks_share(size_t size)
{
    char name[32];
    void *shared;
    int fd;

    snprintf(name, sizeof(name), "/telpher-ranks-%d", (int)getpid());
    MPI_Bcast(name, sizeof(name), MPI_BYTE, 0, MPI_COMM_WORLD);
    fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    MUST(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(shared != MAP_FAILED);
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
    shm_unlink(name);
    return shared;
}

#endif
