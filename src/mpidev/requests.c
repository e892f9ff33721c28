/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for requests, and probes. Operations of this library are generalized
 * requests: MPI tests them; waiting progresses them.
 */
#include <sched.h>

#include "mpidev/mpidev_int.h"

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

int
MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    WAIT_BY_TEST(PMPI_Test(request, &flag, status), PMPI_Wait(request, status));
}

int
MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    WAIT_BY_TEST(PMPI_Testall(count, requests, &flag, statuses),
                 PMPI_Waitall(count, requests, statuses));
}

int
MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    WAIT_BY_TEST(PMPI_Testany(count, requests, index, &flag, status),
                 PMPI_Waitany(count, requests, index, status));
}

int
MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[],
             MPI_Status statuses[])
{
    WAIT_BY_TEST((error = PMPI_Testsome(count, requests, done, indices, statuses),
                  flag = *done != 0, error),
                 PMPI_Waitsome(count, requests, done, indices, statuses));
}

int
MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    (void)tp_mpidev_progress();
    return PMPI_Test(request, flag, status);
}

int
MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    (void)tp_mpidev_progress();
    return PMPI_Testall(count, requests, flag, statuses);
}

int
MPI_Testany(int count, MPI_Request requests[], int *index, int *flag,
            MPI_Status *status)
{
    (void)tp_mpidev_progress();
    return PMPI_Testany(count, requests, index, flag, status);
}

int
MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[],
             MPI_Status statuses[])
{
    (void)tp_mpidev_progress();
    return PMPI_Testsome(count, requests, done, indices, statuses);
}

int
MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    (void)tp_mpidev_progress();
    return PMPI_Request_get_status(request, flag, status);
}
