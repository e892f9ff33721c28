/* SPDX-License-Identifier: Apache-2.0 */
/* Maps status codes to MPI error codes. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/trace/log.h"
#include "offload/offload_int.h"

enum { CODES = 128 };
static int codes[CODES]; /* of status -i; 0 = not made yet */
static int error_class = -1;

/* With the lock held: codes are made once. */
static int
code_of(telpher_status status)
{
    int *code = &codes[status < 0 && status > -CODES ? -status : 0];
    char text[MPI_MAX_ERROR_STRING];

    if (error_class < 0) {
        if (PMPI_Add_error_class(&error_class) != MPI_SUCCESS) {
            return MPI_ERR_OTHER;
        }
        PMPI_Add_error_string(error_class, "telpher: kernel offload");
    }
    if (*code == 0) {
        if (PMPI_Add_error_code(error_class, code) != MPI_SUCCESS) {
            return MPI_ERR_OTHER;
        }
        snprintf(text, sizeof(text), "telpher: %s", telpher_status_text(status));
        PMPI_Add_error_string(*code, text);
    }
    return *code;
}

int
tp_offload_mpi_error(MPI_Comm comm, telpher_status status, const struct tp_error *err)
{
    int code;

    tp_mutex_lock(&tp_offload_lock);
    code = code_of(status);
    tp_mutex_unlock(&tp_offload_lock);
    tp_error("offload", "%s", tp_error_text(err));
    if (comm != MPI_COMM_NULL) {
        PMPI_Comm_call_errhandler(comm, code);
    }
    return code;
}

telpher_status
tp_offload_public_error(telpher_error *dst, const struct tp_error *err)
{
    if (dst != NULL && err->code != TELPHER_OK) {
        dst->code = err->code;
        snprintf(dst->text, sizeof(dst->text), "%s", tp_error_text(err));
    }
    return err->code;
}
