/* SPDX-License-Identifier: Apache-2.0 */
/* Info objects: texts by key. */
#ifndef TELPHER_AMPI_INFO_H
#define TELPHER_AMPI_INFO_H

#include "ampi/ampi_int.h"

struct tp_ampi_info;

/** The info object of a handle. NULL: there is none, or it is MPI_INFO_NULL. */
struct tp_ampi_info *tp_ampi_info_get(MPI_Info handle);
/** A copy. @return NULL: no memory */
struct tp_ampi_info *tp_ampi_info_dup(const struct tp_ampi_info *info);
/** An empty one. @return NULL: no memory */
struct tp_ampi_info *tp_ampi_info_create(void);
/** Replaces *@p at, which may be NULL, by a copy of the info object of a handle. @return an
 *  error class */
int tp_ampi_info_replace(struct tp_ampi_info **at, MPI_Info handle);
/** Gives the program a copy of @p info, NULL: an empty one. @return an error class */
int tp_ampi_info_give_copy(const struct tp_ampi_info *info, MPI_Info *ret);
void tp_ampi_info_destroy(struct tp_ampi_info *info);
/** The value of @p key. NULL: there is none. */
const char *tp_ampi_info_find(const struct tp_ampi_info *info, const char *key);
/** Gives the program a handle. Takes @p info, also with an error. @return an error class */
int tp_ampi_info_give(struct tp_ampi_info *info, MPI_Info *ret);

#endif
