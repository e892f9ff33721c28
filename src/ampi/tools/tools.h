/* SPDX-License-Identifier: Apache-2.0 */
/* The tools interface: MPI-4.0, 15.3. Its calls return errors and call no error handler. */
#ifndef TELPHER_AMPI_TOOLS_H
#define TELPHER_AMPI_TOOLS_H

#include "ampi/ampi_int.h"

/** Control variables: the settings. Performance variables: pvar.c. */
int tp_ampi_cvar_count(void);
int tp_ampi_pvar_count(void);
/** MPI_SUCCESS, or NOT_INITIALIZED: MPI_T_init_thread was not called. */
int tp_ampi_tools_check(void);
/** The enumeration of settings that are yes or no. */
MPI_T_enum tp_ampi_tools_switch(void);
/**
 * Copies a text as all queries do: as much as *@p length allows, with its end; *@p length becomes
 * what all of it needs. Either may be NULL.
 */
void tp_ampi_tools_text(const char *text, char *to, int *length);
/** Sets a result that the caller may not want. */
static inline void
tp_ampi_tools_give(int *to, int value)
{
    if (to != NULL) {
        *to = value;
    }
}

#endif
