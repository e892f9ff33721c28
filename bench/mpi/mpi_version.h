/* SPDX-License-Identifier: Apache-2.0 */
/* The name of an MPI, for what is compiled with its mpi.h. */
#ifndef BENCH_MPI_VERSION_H
#define BENCH_MPI_VERSION_H

#include <mpi.h>
#include <string.h>

/** The first words of what the library says of itself. */
static inline const char *
bench_mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
    int len = 0;

    MPI_Get_library_version(text, &len);
    text[strcspn(text, ",\n")] = '\0';
    for (char *tab = text; (tab = strchr(tab, '\t')) != NULL;) {
        *tab = ' ';
    }
    return text;
}

#endif
