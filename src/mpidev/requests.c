/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for requests, and probes. Operations of this library are generalized
 * requests: MPI tests them; waiting progresses them.
 */
#include <sched.h>
#include <stdlib.h>

#include "mpidev/mpidev_int.h"

/* ---- requests of the program, and of MPI ---- */

/* An array of requests as MPI gets it: operations in the place of persistent requests. */
struct translation {
    MPI_Request *program, *mpi; /* the same array: there is no persistent request */
    MPI_Request one;
    int count;
};

static bool
any_persistent(const struct translation *map)
{
    MPI_Request active;

    for (int i = 0; i < map->count && tp_mpidev_has_persistent(); i++) {
        if (tp_mpidev_persistent_get(map->program[i], &active)) {
            return true;
        }
    }
    return false;
}

/* @return MPI_SUCCESS, MPI_ERR_NO_MEM */
static int
translate(struct translation *map, int count, MPI_Request *requests)
{
    map->program = map->mpi = requests;
    map->count = count;
    if (!any_persistent(map)) {
        return MPI_SUCCESS;
    }
    map->mpi = count == 1 ? &map->one : malloc((size_t)count * sizeof(*map->mpi));
    if (map->mpi == NULL) {
        return tp_mpidev_fail_local(MPI_ERR_NO_MEM);
    }
    for (int i = 0; i < count; i++) {
        map->mpi[i] = requests[i];
        (void)tp_mpidev_persistent_get(requests[i], &map->mpi[i]);
    }
    return MPI_SUCCESS;
}

/* Persistent requests stay as they are; others are what MPI made of them. @return @p error */
static int
translate_back(struct translation *map, int error)
{
    MPI_Request active;

    for (int i = 0; map->mpi != map->program && i < map->count; i++) {
        if (tp_mpidev_persistent_get(map->program[i], &active)) {
            tp_mpidev_persistent_set(map->program[i], map->mpi[i]);
        } else {
            map->program[i] = map->mpi[i];
        }
    }
    if (map->mpi != map->program && map->mpi != &map->one) {
        free(map->mpi);
    }
    return error;
}

#define TRANSLATED(count, requests, call)                                              \
    do {                                                                               \
        struct translation map;                                                        \
        int translated = translate(&map, count, requests);                             \
                                                                                       \
        return translated == MPI_SUCCESS ? translate_back(&map, call) : translated;    \
    } while (0)

/* ---- waits ---- */

/* Repeats a test of MPI while this library has something to progress. */
#define WAIT_BY_TEST(test, wait)                                                       \
    do {                                                                               \
        int flag = 0, error;                                                           \
                                                                                       \
        while (tp_mpidev_progress()) {                                                 \
            error = test;                                                              \
            if (error != MPI_SUCCESS || flag != 0) {                                   \
                return error;                                                          \
            }                                                                          \
            (void)sched_yield();                                                       \
        }                                                                              \
        return wait;                                                                   \
    } while (0)

static int
wait_one(MPI_Request *request, MPI_Status *status)
{
    WAIT_BY_TEST(PMPI_Test(request, &flag, status), PMPI_Wait(request, status));
}

static int
wait_all(int count, MPI_Request *requests, MPI_Status *statuses)
{
    WAIT_BY_TEST(PMPI_Testall(count, requests, &flag, statuses),
                 PMPI_Waitall(count, requests, statuses));
}

static int
wait_any(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    WAIT_BY_TEST(PMPI_Testany(count, requests, index, &flag, status),
                 PMPI_Waitany(count, requests, index, status));
}

static int
wait_some(int count, MPI_Request *requests, int *done, int *indices,
          MPI_Status *statuses)
{
    WAIT_BY_TEST((error = PMPI_Testsome(count, requests, done, indices, statuses),
                  flag = *done != 0, error),
                 PMPI_Waitsome(count, requests, done, indices, statuses));
}

int
MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    TRANSLATED(1, request, wait_one(map.mpi, status));
}

int
MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    TRANSLATED(count, requests, wait_all(count, map.mpi, statuses));
}

int
MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    TRANSLATED(count, requests, wait_any(count, map.mpi, index, status));
}

int
MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[],
             MPI_Status statuses[])
{
    TRANSLATED(count, requests, wait_some(count, map.mpi, done, indices, statuses));
}

/* ---- tests ---- */

int
MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    (void)tp_mpidev_progress();
    TRANSLATED(1, request, PMPI_Test(map.mpi, flag, status));
}

int
MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    (void)tp_mpidev_progress();
    TRANSLATED(count, requests, PMPI_Testall(count, map.mpi, flag, statuses));
}

int
MPI_Testany(int count, MPI_Request requests[], int *index, int *flag,
            MPI_Status *status)
{
    (void)tp_mpidev_progress();
    TRANSLATED(count, requests, PMPI_Testany(count, map.mpi, index, flag, status));
}

int
MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[],
             MPI_Status statuses[])
{
    (void)tp_mpidev_progress();
    TRANSLATED(count, requests, PMPI_Testsome(count, map.mpi, done, indices, statuses));
}

int
MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    MPI_Request active = request;

    (void)tp_mpidev_progress();
    (void)tp_mpidev_persistent_get(request, &active);
    return PMPI_Request_get_status(active, flag, status);
}
