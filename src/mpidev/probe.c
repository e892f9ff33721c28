/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes. The length of a message whose content comes apart is in its envelope, so a message as
 * long as an envelope is received, and waits here for its receive. A matched probe
 * (MPI_Mprobe()) gives MPI's own message, with the envelope's length.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "mpidev/mpidev_int.h"

static struct tp_mpidev_found *all; /* in the order that probes found them */

bool
tp_mpidev_has_found(void)
{
    return __atomic_load_n(&all, __ATOMIC_RELAXED) != NULL;
}

static struct tp_mpidev_found **
match(int source, int tag, MPI_Comm comm)
{
    struct tp_mpidev_found **at = &all;

    while (*at != NULL &&
           ((*at)->comm != comm ||
            (source != MPI_ANY_SOURCE && source != (*at)->status.MPI_SOURCE) ||
            (tag != MPI_ANY_TAG && tag != (*at)->status.MPI_TAG))) {
        at = &(*at)->next;
    }
    return at;
}

struct tp_mpidev_found *
tp_mpidev_found_take(int source, int tag, MPI_Comm comm)
{
    struct tp_mpidev_found **at = match(source, tag, comm), *found = *at;

    if (found != NULL) {
        *at = found->next;
    }
    return found;
}

/* Receives a message that a probe has found; tells its length as its receiver will see it. */
static int
take(MPI_Comm comm, MPI_Status *status)
{
    struct tp_mpidev_found *found = calloc(1, sizeof(*found)), **at = &all;
    MPI_Message message;
    MPI_Count len;
    int flag = 0, error = found == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;

    if (error == MPI_SUCCESS) {
        error = PMPI_Improbe(status->MPI_SOURCE, status->MPI_TAG, comm, &flag, &message,
                             MPI_STATUS_IGNORE);
    }
    if (error == MPI_SUCCESS && flag != 0) {
        error = PMPI_Mrecv(found->bytes, TP_MPIDEV_ENVELOPE, MPI_BYTE, &message,
                           &found->status);
    }
    if (error != MPI_SUCCESS || flag == 0) {
        free(found);
        return error;
    }
    if (tp_mpidev_content_is_envelope(found->bytes, TP_MPIDEV_ENVELOPE, &len)) {
        error = PMPI_Status_set_elements_x(status, MPI_BYTE, len);
    }
    found->comm = comm;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = found;
    return error;
}

static int
probe(int source, int tag, MPI_Comm comm, int *ret_flag, MPI_Status *status)
{
    const struct tp_mpidev_found *found = *match(source, tag, comm);
    MPI_Count len = 0;
    int error;

    *ret_flag = 1;
    if (found != NULL) {
        *status = found->status;
        return tp_mpidev_content_is_envelope(found->bytes, TP_MPIDEV_ENVELOPE, &len)
                   ? PMPI_Status_set_elements_x(status, MPI_BYTE, len)
                   : MPI_SUCCESS;
    }
    error = PMPI_Iprobe(source, tag, comm, ret_flag, status);
    if (error == MPI_SUCCESS && *ret_flag != 0 &&
        PMPI_Get_elements_x(status, MPI_BYTE, &len) == MPI_SUCCESS &&
        len == TP_MPIDEV_ENVELOPE) {
        error = take(comm, status);
    }
    return error;
}

int
MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    MPI_Status own;
    int error;

    (void)tp_mpidev_progress();
    if (tp_mpidev_context == NULL || source == MPI_PROC_NULL) {
        return PMPI_Iprobe(source, tag, comm, flag, status);
    }
    tp_mpidev_lock();
    error = probe(source, tag, comm, flag, status != MPI_STATUS_IGNORE ? status : &own);
    tp_mpidev_unlock();
    return tp_mpidev_fail(comm, error);
}

int
MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int error, flag = 0;

    if (tp_mpidev_context == NULL || source == MPI_PROC_NULL) {
        return PMPI_Probe(source, tag, comm, status);
    }
    do {
        error = MPI_Iprobe(source, tag, comm, &flag, status);
    } while (error == MPI_SUCCESS && flag == 0 && sched_yield() == 0);
    return error;
}
