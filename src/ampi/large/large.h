/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the calls with large counts, whose bodies generate.py writes. */
#ifndef TELPHER_AMPI_LARGE_H
#define TELPHER_AMPI_LARGE_H

#include "ampi/ampi_int.h"

/** One call on its way to the call with counts of type int. */
struct tp_ampi_large {
    int error; /**< the first one, which was reported */
    int type_count, array_count;
    MPI_Datatype types[3]; /**< made for counts that are no int */
    int *arrays[4]; /**< copies of the program's */
};

/** Ranks whose counts an array has. */
enum tp_ampi_large_ranks {
    TP_AMPI_LARGE_OWN,
    TP_AMPI_LARGE_PEERS,
    TP_AMPI_LARGE_ROOT, /**< peers at the root, none elsewhere */
    TP_AMPI_LARGE_SOURCES,
    TP_AMPI_LARGE_DESTINATIONS,
};
int tp_ampi_large_ranks(MPI_Comm comm, enum tp_ampi_large_ranks which, int root);

/** A number that must fit into an int. Sets MPI_ERR_COUNT if it does not */
int tp_ampi_large_int(struct tp_ampi_large *call, MPI_Count number);
/** Elements of a buffer: more than an int counts become one element of *@p type. */
int tp_ampi_large_elements(struct tp_ampi_large *call, MPI_Count count,
                           MPI_Datatype *type);
/** An array whose numbers must fit into an int. @return NULL: @p len is 0, or an error */
int *tp_ampi_large_array(struct tp_ampi_large *call, const MPI_Count *numbers, int len);
/** Frees what the call took. @return its error */
int tp_ampi_large_end(struct tp_ampi_large *call);

#endif
