/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that programs cache on communicators, types and windows. */
#ifndef TELPHER_AMPI_ATTRIBUTE_H
#define TELPHER_AMPI_ATTRIBUTE_H

#include "ampi/ampi_int.h"

/** Values by key, the newest first. */
struct tp_ampi_attribute;

/* Return an error class: that of the program's callback, or KEYVAL, NO_MEM, which they report.
 * @param kind  TP_AMPI_COMM, TYPE or WIN @param object  handle, for the callbacks */
int tp_ampi_keyval_create(enum tp_ampi_kind kind, MPI_Comm_copy_attr_function *copy,
                          MPI_Comm_delete_attr_function *del, int *keyval, void *extra);
int tp_ampi_keyval_free(enum tp_ampi_kind kind, int *keyval);
int tp_ampi_attribute_set(struct tp_ampi_attribute **list, enum tp_ampi_kind kind,
                          int object, int keyval, void *value);
int tp_ampi_attribute_get(struct tp_ampi_attribute *const *list, enum tp_ampi_kind kind,
                          int keyval, void *value, int *flag);
int tp_ampi_attribute_delete(struct tp_ampi_attribute **list, enum tp_ampi_kind kind,
                             int object, int keyval);
/** Copies those whose callback says so from @p object's list to an empty one. */
int tp_ampi_attributes_copy(struct tp_ampi_attribute *const *from, int object,
                            struct tp_ampi_attribute **to);
/** Deletes all, or those before the first whose callback refuses. */
int tp_ampi_attributes_delete(struct tp_ampi_attribute **list, int object);

#endif
