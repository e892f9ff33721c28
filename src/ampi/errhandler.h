/* SPDX-License-Identifier: Apache-2.0 */
/* Error handlers, and the codes and texts of errors. */
#ifndef TELPHER_AMPI_ERRHANDLER_H
#define TELPHER_AMPI_ERRHANDLER_H

#include <stdarg.h>

#include "ampi/ampi_int.h"

struct tp_ampi_errhandler {
    int handle;
    unsigned refs; /**< the program's and those of objects that have it */
    MPI_Comm_errhandler_function *fn;
};

/** Calls an object's error handler. @return @p code, if the handler returns */
int tp_ampi_raise(MPI_Errhandler handler, int object, int code, const char *fmt,
                  va_list args);
/** Replaces *at by a handler, which is @p handler or reported as none. */
int tp_ampi_errhandler_set(MPI_Errhandler *at, MPI_Errhandler handler);
/** One more use of a handler, or one less. Predefined ones are not counted. */
void tp_ampi_errhandler_ref(MPI_Errhandler handler);
void tp_ampi_errhandler_unref(MPI_Errhandler handler);
/** The text of an error class or code, also of one that the program added. */
const char *tp_ampi_class_text(int code);
/** The highest code in use: MPI_LASTUSEDCODE. */
int tp_ampi_last_code(void);

#endif
