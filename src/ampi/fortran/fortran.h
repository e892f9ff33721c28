/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the Fortran calls: generate.py writes most calls, support.c has the others. */
#ifndef TELPHER_AMPI_FORTRAN_H
#define TELPHER_AMPI_FORTRAN_H

#include "ampi/ampi_int.h"
#include "base/alloc.h"

enum { TP_FORTRAN_TEXT = 2048 /**< [bytes] of a text that a call returns, at most */ };

/** Defines a call as gfortran names it: MPI_X is mpi_x_, and weak. Integers, handles and logicals
 *  are C's int; the lengths of texts follow the last argument. */
#define FORTRAN(name, params)                                                          \
    __attribute__((visibility("default"))) void pmpi_##name##_ params;                 \
    __attribute__((visibility("default"), weak,                                        \
                   alias("pmpi_" #name "_"))) void mpi_##name##_ params;               \
    void pmpi_##name##_ params

/* Fortran's MPI_BOTTOM and others are places in a common block of the program; each copy of the
 * program has its own. These give what they stand for, or the argument itself. */
void *tp_fortran_buffer(void *at);
int *tp_fortran_weights(int *weights);
MPI_Status *tp_fortran_status(MPI_Status *status);
int *tp_fortran_errcodes(int *errcodes);
/** Is it MPI_ARGV_NULL or MPI_ARGVS_NULL? */
bool tp_fortran_is_no_argv(const char *argv);

/** Where an error goes: mpi_f08 may leave the argument out. */
static inline int *
tp_fortran_error(int *ierror)
{
    static _Thread_local int unused;

    return ierror != NULL ? ierror : &unused;
}

/** MPI_Sizeof() for a kind: the compiler chooses it by the variable's type. */
#define FORTRAN_SIZE(name, bytes)                                                      \
    FORTRAN(sizeof_##name, (const void *descriptor, int *size, int *ierror))           \
    {                                                                                  \
        (void)descriptor;                                                              \
        *size = bytes;                                                                 \
        *tp_fortran_error(ierror) = MPI_SUCCESS;                                       \
    }

/** Operators == and /= of mpi_f08's handles of a kind. */
#define FORTRAN_EQUAL(name)                                                            \
    __attribute__((visibility("default"))) int mpi_f08_eq_##name##_(const int *,       \
                                                                    const int *);      \
    __attribute__((visibility("default"))) int mpi_f08_ne_##name##_(const int *,       \
                                                                    const int *);      \
    int mpi_f08_eq_##name##_(const int *one, const int *other)                         \
    {                                                                                  \
        return *one == *other;                                                         \
    }                                                                                  \
    int mpi_f08_ne_##name##_(const int *one, const int *other)                         \
    {                                                                                  \
        return *one != *other;                                                         \
    }

/** A text of Fortran, which blanks end. The caller frees it. NULL: no memory */
char *tp_fortran_text(const char *text, size_t length);
/** Copies a text into a variable of Fortran. */
void tp_fortran_pad(const char *text, char *to, size_t length);

#endif
