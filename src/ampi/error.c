/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: their texts, and the call of an object's error handler. */
#include <stdio.h>

#include "ampi/errhandler.h"
#include "ampi/process.h"

static char last[MPI_MAX_ERROR_STRING / 2];
static int last_code;

const char *
tp_ampi_error_text(int code)
{
    return code == last_code ? last : NULL;
}

/* Ends the job with the text of the last error. */
static _Noreturn void
end(int code)
{
    if (tp_ampi.ctx != NULL && tp_ampi.ranks != NULL) {
        (void)fprintf(stderr, "telpher-ampi: rank %u: %s\n", tp_ampi_current()->world,
                      last);
    } else {
        (void)fprintf(stderr, "telpher-ampi: %s\n", last);
    }
    tp_ampi_abort(code);
}

int
tp_ampi_raise(MPI_Errhandler handler, int object, int code, const char *fmt,
              va_list args)
{
    struct tp_ampi_errhandler *made;

    (void)vsnprintf(last, sizeof(last), fmt, args);
    last_code = code;
    made = tp_ampi_handle_get(handler, TP_AMPI_ERRHANDLER);
    if (made != NULL) {
        int result = code;

        made->fn(&object, &result);
    } else if (handler == MPI_ERRORS_ARE_FATAL) {
        end(code);
    }
    return code;
}

int
tp_ampi_error(struct tp_ampi_comm *comm, int code, const char *fmt, ...)
{
    const struct tp_ampi_rank *rank = tp_ampi.ctx != NULL ? tp_ampi_current() : NULL;
    va_list args;

    if (code == MPI_SUCCESS) {
        return MPI_SUCCESS;
    }
    if (comm == NULL && rank != NULL) {
        comm = rank->comm_world;
    }
    va_start(args, fmt);
    code = tp_ampi_raise(comm != NULL ? comm->errhandler : MPI_ERRORS_ARE_FATAL,
                         comm != NULL ? comm->handle : MPI_COMM_WORLD, code, fmt, args);
    va_end(args);
    return code;
}
