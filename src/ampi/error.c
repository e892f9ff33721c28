/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: texts, and the handler that a communicator has for them. */
#include <stdarg.h>
#include <stdio.h>

#include "ampi/process.h"

static char last[MPI_MAX_ERROR_STRING];

const char *
tp_ampi_error_text(void)
{
    return last;
}

static MPI_Errhandler
handler_of(const struct tp_ampi_comm *comm)
{
    const struct tp_ampi_rank *rank = tp_ampi.ctx != NULL ? tp_ampi_current() : NULL;

    if (comm == NULL && rank != NULL) {
        comm = rank->comm_world;
    }
    return comm != NULL ? comm->errhandler : MPI_ERRORS_ARE_FATAL;
}

int
tp_ampi_error(struct tp_ampi_comm *comm, int error_class, const char *fmt, ...)
{
    va_list args;

    if (error_class == MPI_SUCCESS) {
        return MPI_SUCCESS;
    }
    va_start(args, fmt);
    (void)vsnprintf(last, sizeof(last), fmt, args);
    va_end(args);
    if (handler_of(comm) == MPI_ERRORS_ARE_FATAL) {
        if (tp_ampi.ctx != NULL && tp_ampi.ranks != NULL) {
            (void)fprintf(stderr, "telpher-ampi: rank %u: %s\n",
                          tp_ampi_current()->world, last);
        } else {
            (void)fprintf(stderr, "telpher-ampi: %s\n", last);
        }
        tp_ampi_abort(error_class);
    }
    return error_class;
}
