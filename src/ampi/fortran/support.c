/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of Fortran whose arguments differ from those of C, and the ends of Fortran programs. */
#include "ampi/fortran/fortran.h"

#include <stdio.h>
#include <string.h>

#include "ampi/attribute.h"
#include "ampi/private.h"
#include "ampi/process.h"

/* ---- arguments ---- */

/* The common block telpher_mpi_places of mpif.h. */
struct places {
    int bottom, in_place, unweighted, weights_empty;
    MPI_Status status, statuses;
    int errcodes;
    char argv, argvs;
};

static const struct places *
find_places(void)
{
    static const struct places none;
    struct tp_ampi_rank *rank = tp_ampi.ctx != NULL ? tp_ampi_current() : NULL;

    if (rank == NULL) {
        return &none;
    }
    if (tp_unlikely(rank->fortran == NULL)) {
        tp_ampi_main main_fn =
            rank->main_fn != NULL ? rank->main_fn : tp_ampi_private_first();

        rank->fortran = tp_ampi_private_find(main_fn, "telpher_mpi_places_");
    }
    return rank->fortran != NULL ? rank->fortran : &none;
}

void *
tp_fortran_buffer(void *at)
{
    const struct places *places = find_places();

    return at == &places->bottom     ? MPI_BOTTOM
           : at == &places->in_place ? MPI_IN_PLACE
                                     : at;
}

int *
tp_fortran_weights(int *weights)
{
    const struct places *places = find_places();

    return weights == &places->unweighted      ? MPI_UNWEIGHTED
           : weights == &places->weights_empty ? MPI_WEIGHTS_EMPTY
                                               : weights;
}

MPI_Status *
tp_fortran_status(MPI_Status *status)
{
    const struct places *places = find_places();

    return status == &places->status || status == &places->statuses ? MPI_STATUS_IGNORE
                                                                    : status;
}

bool
tp_fortran_is_no_argv(const char *argv)
{
    const struct places *places = find_places();

    return argv == &places->argv || argv == &places->argvs;
}

int *
tp_fortran_errcodes(int *errcodes)
{
    return errcodes == &find_places()->errcodes ? MPI_ERRCODES_IGNORE : errcodes;
}

char *
tp_fortran_text(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == ' ') {
        length--;
    }
    while (length > 0 && *text == ' ') {
        text++;
        length--;
    }
    return tp_strndup(text, length, "text of Fortran");
}

void
tp_fortran_pad(const char *text, char *to, size_t length)
{
    size_t used = strnlen(text, TP_FORTRAN_TEXT);

    memcpy(to, text, TP_MIN(used, length));
    if (used < length) {
        memset(to + used, ' ', length - used);
    }
}

/* ---- start and time ---- */

FORTRAN(init, (int *ierror)) { *tp_fortran_error(ierror) = PMPI_Init(NULL, NULL); }

FORTRAN(init_thread, (int *required, int *provided, int *ierror))
{
    *tp_fortran_error(ierror) = PMPI_Init_thread(NULL, NULL, *required, provided);
}

FORTRAN(pcontrol, (int *level)) { (void)PMPI_Pcontrol(*level); }

#define FUNCTION(type, name, Name, params, args)                                       \
    __attribute__((visibility("default"))) type pmpi_##name##_ params;                 \
    __attribute__((visibility("default"), weak, alias("pmpi_" #name "_")))             \
    type mpi_##name##_ params;                                                         \
    type pmpi_##name##_ params { return PMPI_##Name args; }

FUNCTION(double, wtime, Wtime, (void), ())
FUNCTION(double, wtick, Wtick, (void), ())
FUNCTION(MPI_Aint, aint_add, Aint_add, (MPI_Aint * base, MPI_Aint *displacement),
         (*base, *displacement))
FUNCTION(MPI_Aint, aint_diff, Aint_diff, (MPI_Aint * one, MPI_Aint *other),
         (*one, *other))

/* The compiler must not keep a variable in a register across it. */
FORTRAN(f_sync_reg, (void *buffer)) { (void)buffer; }

FORTRAN(status_f082f, (const MPI_Status *from, MPI_Fint *to, int *ierror))
{
    *tp_fortran_error(ierror) = PMPI_Status_f082f(from, to);
}

FORTRAN(status_f2f08, (const MPI_Fint *from, MPI_Status *to, int *ierror))
{
    *tp_fortran_error(ierror) = PMPI_Status_f2f08(from, to);
}

/* ---- generalized requests ---- */

typedef void query_fn(MPI_Aint *extra, MPI_Status *status, int *ierror);
typedef void free_fn(MPI_Aint *extra, int *ierror);
typedef void cancel_fn(MPI_Aint *extra, int *complete, int *ierror);

/* The functions of a request. `extra` is the program's variable, which they may change. */
struct general {
    query_fn *query;
    free_fn *free;
    cancel_fn *cancel;
    MPI_Aint *extra;
};

static int
run_query(void *arg, MPI_Status *status)
{
    const struct general *g = arg;
    int ierror = MPI_SUCCESS;

    g->query(g->extra, status, &ierror);
    return ierror;
}

static int
run_free(void *arg)
{
    struct general *g = arg;
    int ierror = MPI_SUCCESS;

    g->free(g->extra, &ierror);
    tp_free(g);
    return ierror;
}

static int
run_cancel(void *arg, int complete)
{
    const struct general *g = arg;
    int ierror = MPI_SUCCESS;

    g->cancel(g->extra, &complete, &ierror);
    return ierror;
}

FORTRAN(grequest_start, (query_fn * query, free_fn *free_it, cancel_fn *cancel,
                         MPI_Aint *extra, MPI_Request *request, int *ierror))
{
    const struct general functions = {query, free_it, cancel, extra};
    struct general *g = tp_memdup(&functions, sizeof(functions), "MPI request");
    int error = MPI_ERR_NO_MEM;

    if (g != NULL) {
        error = PMPI_Grequest_start(run_query, run_free, run_cancel, g, request);
    }
    if (error != MPI_SUCCESS) {
        tp_free(g);
    }
    *tp_fortran_error(ierror) = error;
}

/* ---- texts of info objects: unchanged if there is no such key; lengths without an end mark ---- */

FORTRAN(info_create_env, (MPI_Info * info, int *ierror))
{
    *tp_fortran_error(ierror) = PMPI_Info_create_env(0, NULL, info);
}

FORTRAN(info_get, (int *info, char *key, int *length, char *value, int *flag,
                   int *ierror, size_t key_length, size_t value_length))
{
    char *c_key = tp_fortran_text(key, key_length), c_value[TP_FORTRAN_TEXT] = "";

    *tp_fortran_error(ierror) = PMPI_Info_get(*info, c_key, *length, c_value, flag);
    if (*flag) {
        tp_fortran_pad(c_value, value, value_length);
    }
    tp_free(c_key);
}

FORTRAN(info_get_string, (int *info, char *key, int *length, char *value, int *flag,
                          int *ierror, size_t key_length, size_t value_length))
{
    char *c_key = tp_fortran_text(key, key_length), c_value[TP_FORTRAN_TEXT] = "";
    int c_length = *length > 0 ? TP_MIN(*length + 1, (int)TP_FORTRAN_TEXT) : 0;

    *tp_fortran_error(ierror) =
        PMPI_Info_get_string(*info, c_key, &c_length, c_value, flag);
    if (*flag && *length > 0) {
        tp_fortran_pad(c_value, value, value_length);
    }
    if (*flag) {
        *length = c_length - 1;
    }
    tp_free(c_key);
}

/* ---- numbers of requests, which begin at 1 ---- */

FORTRAN(waitany, (int *count, MPI_Request *requests, int *index, MPI_Status *status,
                  int *ierror))
{
    *tp_fortran_error(ierror) =
        PMPI_Waitany(*count, requests, index, tp_fortran_status(status));
    *index += *index != MPI_UNDEFINED;
}

FORTRAN(testany, (int *count, MPI_Request *requests, int *index, int *flag,
                  MPI_Status *status, int *ierror))
{
    *tp_fortran_error(ierror) =
        PMPI_Testany(*count, requests, index, flag, tp_fortran_status(status));
    *index += *index != MPI_UNDEFINED;
}

FORTRAN(waitsome, (int *count, MPI_Request *requests, int *outcount, int *indices,
                   MPI_Status *statuses, int *ierror))
{
    *tp_fortran_error(ierror) =
        PMPI_Waitsome(*count, requests, outcount, indices, tp_fortran_status(statuses));
    for (int i = 0; i < *outcount; i++) {
        indices[i]++;
    }
}

FORTRAN(testsome, (int *count, MPI_Request *requests, int *outcount, int *indices,
                   MPI_Status *statuses, int *ierror))
{
    *tp_fortran_error(ierror) =
        PMPI_Testsome(*count, requests, outcount, indices, tp_fortran_status(statuses));
    for (int i = 0; i < *outcount; i++) {
        indices[i]++;
    }
}

/* ---- attributes: integers, by value ---- */

typedef void copy_fn(int *object, int *keyval, MPI_Aint *extra, MPI_Aint *in,
                     MPI_Aint *out, int *flag, int *ierror);
typedef void delete_fn(int *object, int *keyval, MPI_Aint *value, MPI_Aint *extra,
                       int *ierror);
/* Those of MPI 1 take default integers. */
typedef void old_copy_fn(int *object, int *keyval, int *extra, int *in, int *out,
                         int *flag, int *ierror);
typedef void old_delete_fn(int *object, int *keyval, int *value, int *extra,
                           int *ierror);

/* Callbacks of a key. Attributes may outlive the key, so these stay. */
struct callbacks {
    struct callbacks *next;
    copy_fn *copy;
    delete_fn *del;
    old_copy_fn *old_copy;
    old_delete_fn *old_del;
    MPI_Aint extra;
};
static struct callbacks *all_callbacks;

static int
run_copy(int object, int keyval, void *extra, void *in, void *out, int *flag)
{
    struct callbacks *c = extra;
    MPI_Aint from = (MPI_Aint)in, to = 0;
    int ierror = MPI_SUCCESS;

    if (c->copy != NULL) {
        c->copy(&object, &keyval, &c->extra, &from, &to, flag, &ierror);
    } else {
        int old_from = (int)from, old_to = 0, old_extra = (int)c->extra;

        c->old_copy(&object, &keyval, &old_extra, &old_from, &old_to, flag, &ierror);
        to = old_to;
    }
    *(MPI_Aint *)out = to;
    return ierror;
}

static int
run_delete(int object, int keyval, void *value, void *extra)
{
    struct callbacks *c = extra;
    MPI_Aint at = (MPI_Aint)value;
    int ierror = MPI_SUCCESS;

    if (c->del != NULL) {
        c->del(&object, &keyval, &at, &c->extra, &ierror);
    } else {
        int old_at = (int)at, old_extra = (int)c->extra;

        c->old_del(&object, &keyval, &old_at, &old_extra, &ierror);
    }
    return ierror;
}

static struct callbacks *
keep_callbacks(struct callbacks callbacks)
{
    struct callbacks *c = tp_memdup(&callbacks, sizeof(callbacks), "MPI attribute key");

    if (c == NULL) {
        tp_ampi_abort(MPI_ERR_NO_MEM);
    }
    c->next = all_callbacks;
    all_callbacks = c;
    return c;
}

/* The value that Fortran gets of an attribute: the number itself. */
static MPI_Aint
value_of(int keyval, const void *value)
{
    int number;

    switch (tp_ampi_is_predefined(keyval) ? keyval : MPI_WIN_BASE) {
    case MPI_WIN_BASE:
        return (MPI_Aint)value;
    case MPI_WIN_SIZE:
        return *(const MPI_Aint *)value;
    default:
        memcpy(&number, value, sizeof(number));
        return number;
    }
}

#define ATTRIBUTES(Name, name)                                                         \
    FORTRAN(name##_create_keyval, (copy_fn * copy, delete_fn * del, int *keyval,       \
                                   MPI_Aint *extra, int *ierror))                      \
    {                                                                                  \
        struct callbacks *c = keep_callbacks(                                          \
            (struct callbacks){.copy = copy, .del = del, .extra = *extra});            \
        *tp_fortran_error(ierror) =                                                    \
            PMPI_##Name##_create_keyval(run_copy, run_delete, keyval, c);              \
        tp_ampi_keyval_of_fortran(*keyval);                                            \
    }                                                                                  \
    FORTRAN(name##_set_attr, (int *object, int *keyval, MPI_Aint *value, int *ierror)) \
    {                                                                                  \
        *tp_fortran_error(ierror) =                                                    \
            tp_ampi_##Name##_set(*object, *keyval, (void *)*value, true);              \
    }                                                                                  \
    FORTRAN(name##_get_attr,                                                           \
            (int *object, int *keyval, MPI_Aint *value, int *flag, int *ierror))       \
    {                                                                                  \
        void *got = NULL;                                                              \
        *flag = 0;                                                                     \
        *tp_fortran_error(ierror) =                                                    \
            tp_ampi_##Name##_get(*object, *keyval, &got, flag, true);                  \
        if (*flag) {                                                                   \
            *value = value_of(*keyval, got);                                           \
        }                                                                              \
    }

ATTRIBUTES(Comm, comm)
ATTRIBUTES(Type, type)
ATTRIBUTES(Win, win)

/* Callbacks that the standard names. */
#define CALLBACKS(name, integer, copies)                                               \
    FORTRAN(name, (int *object, int *keyval, integer *extra, integer *in,              \
                   integer *out, int *flag, int *ierror))                              \
    {                                                                                  \
        (void)object;                                                                  \
        (void)keyval;                                                                  \
        (void)extra;                                                                   \
        if (copies) {                                                                  \
            *out = *in;                                                                \
        }                                                                              \
        *flag = copies;                                                                \
        *ierror = MPI_SUCCESS;                                                         \
    }
#define DELETES(name, integer)                                                         \
    FORTRAN(name,                                                                      \
            (int *object, int *keyval, integer *value, integer *extra, int *ierror))   \
    {                                                                                  \
        (void)object;                                                                  \
        (void)keyval;                                                                  \
        (void)value;                                                                   \
        (void)extra;                                                                   \
        *ierror = MPI_SUCCESS;                                                         \
    }

CALLBACKS(comm_dup_fn, MPI_Aint, 1)
CALLBACKS(comm_null_copy_fn, MPI_Aint, 0)
DELETES(comm_null_delete_fn, MPI_Aint)
CALLBACKS(type_dup_fn, MPI_Aint, 1)
CALLBACKS(type_null_copy_fn, MPI_Aint, 0)
DELETES(type_null_delete_fn, MPI_Aint)
CALLBACKS(win_dup_fn, MPI_Aint, 1)
CALLBACKS(win_null_copy_fn, MPI_Aint, 0)
DELETES(win_null_delete_fn, MPI_Aint)
CALLBACKS(dup_fn, int, 1)
CALLBACKS(null_copy_fn, int, 0)
DELETES(null_delete_fn, int)

/* ---- MPI 1: addresses and attributes are default integers ---- */

FORTRAN(keyval_create,
        (old_copy_fn * copy, old_delete_fn *del, int *keyval, int *extra, int *ierror))
{
    struct callbacks *c = keep_callbacks(
        (struct callbacks){.old_copy = copy, .old_del = del, .extra = *extra});

    *tp_fortran_error(ierror) =
        PMPI_Comm_create_keyval(run_copy, run_delete, keyval, c);
    tp_ampi_keyval_of_fortran(*keyval);
}

FORTRAN(attr_put, (int *comm, int *keyval, int *value, int *ierror))
{
    *tp_fortran_error(ierror) =
        tp_ampi_Comm_set(*comm, *keyval, (void *)(MPI_Aint)*value, true);
}

FORTRAN(attr_get, (int *comm, int *keyval, int *value, int *flag, int *ierror))
{
    void *got = NULL;

    *flag = 0;
    *tp_fortran_error(ierror) = tp_ampi_Comm_get(*comm, *keyval, &got, flag, true);
    if (*flag) {
        *value = (int)value_of(*keyval, got);
    }
}

FORTRAN(address, (void *at, int *address, int *ierror))
{
    MPI_Aint full = 0;

    *tp_fortran_error(ierror) = PMPI_Get_address(tp_fortran_buffer(at), &full);
    *address = (int)full;
}

FORTRAN(type_extent, (int *type, int *extent, int *ierror))
{
    MPI_Aint lb = 0, full = 0;

    *tp_fortran_error(ierror) = PMPI_Type_get_extent(*type, &lb, &full);
    *extent = (int)full;
}

FORTRAN(type_lb, (int *type, int *displacement, int *ierror))
{
    MPI_Aint lb = 0, extent = 0;

    *tp_fortran_error(ierror) = PMPI_Type_get_extent(*type, &lb, &extent);
    *displacement = (int)lb;
}

FORTRAN(type_ub, (int *type, int *displacement, int *ierror))
{
    MPI_Aint lb = 0, extent = 0;

    *tp_fortran_error(ierror) = PMPI_Type_get_extent(*type, &lb, &extent);
    *displacement = (int)(lb + extent);
}

FORTRAN(type_hvector,
        (int *count, int *length, int *stride, int *old, int *ret, int *ierror))
{
    *tp_fortran_error(ierror) =
        PMPI_Type_create_hvector(*count, *length, *stride, *old, ret);
}

/* @return NULL: no memory */
static MPI_Aint *
widen(const int *displs, int count)
{
    MPI_Aint *wide =
        tp_alloc_array((size_t)TP_MAX(count, 1), sizeof(*wide), "MPI datatype");

    for (int i = 0; wide != NULL && i < count; i++) {
        wide[i] = displs[i];
    }
    return wide;
}

FORTRAN(type_hindexed,
        (int *count, int *lengths, int *displs, int *old, int *ret, int *ierror))
{
    MPI_Aint *wide = widen(displs, *count);

    *tp_fortran_error(ierror) =
        wide != NULL ? PMPI_Type_create_hindexed(*count, lengths, wide, *old, ret)
                     : MPI_ERR_NO_MEM;
    tp_free(wide);
}

FORTRAN(type_struct,
        (int *count, int *lengths, int *displs, int *types, int *ret, int *ierror))
{
    MPI_Aint *wide = widen(displs, *count);

    *tp_fortran_error(ierror) =
        wide != NULL ? PMPI_Type_create_struct(*count, lengths, wide, types, ret)
                     : MPI_ERR_NO_MEM;
    tp_free(wide);
}

/* ---- STOP ---- */

/* telpher-mpifort links STOP and ERROR STOP to these: they end the rank, not the process. */
TELPHER_CALL void __wrap_exit(int code);
TELPHER_CALL void __wrap__gfortran_exit_i4(const int *code);
TELPHER_CALL void __wrap__gfortran_stop_numeric(int code, bool quiet);
TELPHER_CALL void __wrap__gfortran_stop_string(const char *text, size_t length,
                                               bool quiet);
TELPHER_CALL void __wrap__gfortran_error_stop_numeric(int code, bool quiet);
TELPHER_CALL void __wrap__gfortran_error_stop_string(const char *text, size_t length,
                                                     bool quiet);

void
__wrap__gfortran_exit_i4(const int *code) /* CALL EXIT() */
{
    __wrap_exit(code != NULL ? *code : 0);
}

void
__wrap__gfortran_stop_numeric(int code, bool quiet)
{
    if (!quiet && code != 0) {
        (void)fprintf(stderr, "STOP %d\n", code);
    }
    __wrap_exit(code);
}

void
__wrap__gfortran_stop_string(const char *text, size_t length, bool quiet)
{
    if (!quiet && length != 0) {
        (void)fprintf(stderr, "STOP %.*s\n", (int)length, text);
    }
    __wrap_exit(0);
}

void
__wrap__gfortran_error_stop_numeric(int code, bool quiet)
{
    if (!quiet) {
        (void)fprintf(stderr, "ERROR STOP %d\n", code);
    }
    __wrap_exit(code);
}

void
__wrap__gfortran_error_stop_string(const char *text, size_t length, bool quiet)
{
    if (!quiet) {
        (void)fprintf(stderr, "ERROR STOP %.*s\n", (int)length, text);
    }
    __wrap_exit(1);
}
