/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: their texts, with the MPI call in front, and the call of an object's error handler. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include "ampi/errhandler.h"
#include "ampi/process.h"

static char last[MPI_MAX_ERROR_STRING / 2];
static int last_code;

const char *
tp_ampi_error_text(int code)
{
    return code == last_code ? last : NULL;
}

/* ---- the call that fails ---- */

struct search {
    const void *library; /* this one: where it begins */
    const char *call; /* NULL: not found yet */
};

/* Takes the name of a frame that is a call of MPI. Ends where the program's frames begin. */
static _Unwind_Reason_Code
look_at(struct _Unwind_Context *frame, void *arg)
{
    struct search *search = arg;
    const char *name;
    Dl_info info;

    if (dladdr((const char *)_Unwind_GetIP(frame) - 1, &info) == 0 ||
        info.dli_fbase != search->library) {
        return _URC_END_OF_STACK;
    }
    name = info.dli_sname != NULL ? info.dli_sname : "";
    name += strncmp(name, "PMPI_", 5) == 0;
    if (strncmp(name, "MPI_", 4) == 0 || strncmp(name, "AMPI_", 5) == 0) {
        search->call = name;
    }
    return _URC_NO_REASON;
}

/*
 * The call of MPI that is on the stack, or NULL. So a call does not have to note its name, which
 * would cost each call that succeeds. CMakeLists.txt keeps the compiler from hiding frames.
 */
static const char *
find_call(void)
{
    struct search search = {NULL, NULL};
    Dl_info info;

    if (dladdr((const void *)(uintptr_t)tp_ampi_raise, &info) != 0) {
        search.library = info.dli_fbase;
        (void)_Unwind_Backtrace(look_at, &search);
    }
    return search.call;
}

/* Length of a call's name without the "_c" of calls with large counts. */
static size_t
base_len(const char *call)
{
    size_t len = strlen(call);

    return len - (strcmp(call + len - 2, "_c") == 0 ? 2 : 0);
}

/* Sets the text of the last error. A text may name the call itself, as collectives do: on a light
 * thread there is no frame of the call. A call with large counts runs the one without "_c". */
static void
set_text(const char *fmt, va_list args)
{
    const char *call = find_call();
    char *text = last;

    if (call != NULL) {
        text += snprintf(last, sizeof(last), "%s: ", call);
    }
    (void)vsnprintf(text, sizeof(last) - (size_t)(text - last), fmt, args);
    if (call != NULL) {
        size_t base = base_len(call);

        if (strncmp(text, call, base) == 0 && strncmp(text + base, ": ", 2) == 0) {
            memmove(text, text + base + 2, strlen(text + base + 2) + 1);
        }
    }
}

/* ---- handlers ---- */

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

    set_text(fmt, args);
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

int
tp_ampi_refuse_null(void)
{
    return tp_ampi_error(NULL, MPI_ERR_ARG, "the address of a result is NULL");
}
