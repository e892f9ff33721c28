/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that programs cache on communicators, types and windows. */
#ifndef TELPHER_AMPI_ATTRIBUTE_H
#define TELPHER_AMPI_ATTRIBUTE_H

#include <string.h>

#include "ampi/ampi_int.h"

/** Values by key, the newest first. */
struct tp_ampi_attribute;

/* Return an error class: that of the program's callback, or KEYVAL, NO_MEM, which they report.
 * @param kind  TP_AMPI_COMM, TYPE or WIN @param object  handle, for the callbacks
 * @param number  of Fortran, whose attributes are numbers and no addresses */
int tp_ampi_keyval_create(enum tp_ampi_kind kind, MPI_Comm_copy_attr_function *copy,
                          MPI_Comm_delete_attr_function *del, int *keyval, void *extra);
/** The key's callbacks take numbers. */
void tp_ampi_keyval_of_fortran(int keyval);
int tp_ampi_keyval_free(enum tp_ampi_kind kind, int *keyval);
int tp_ampi_attribute_set(struct tp_ampi_attribute **list, enum tp_ampi_kind kind,
                          int object, int keyval, void *value, bool number);
int tp_ampi_attribute_get(struct tp_ampi_attribute *const *list, enum tp_ampi_kind kind,
                          int keyval, void *value, int *flag, bool number);
int tp_ampi_attribute_delete(struct tp_ampi_attribute **list, enum tp_ampi_kind kind,
                             int object, int keyval);
/** Copies those whose callback says so from @p object's list to an empty one. */
int tp_ampi_attributes_copy(struct tp_ampi_attribute *const *from, int object,
                            struct tp_ampi_attribute **to);
/** Deletes all, or those before the first whose callback refuses. */
int tp_ampi_attributes_delete(struct tp_ampi_attribute **list, int object);

/*
 * TP_AMPI_ATTRIBUTES(kind, name, class of the error, function that finds the object, its structure,
 * function that gets attributes that each object has): calls of C, and those of Fortran
 */
#define TP_AMPI_ATTRIBUTES(kind, name, none, finder, object_type, predefined)          \
    int tp_ampi_##name##_set(int handle, int keyval, void *value, bool number)         \
    {                                                                                  \
        object_type *object = finder(handle);                                          \
                                                                                       \
        return object == NULL ? none                                                   \
                              : tp_ampi_attribute_set(&object->attributes, kind,       \
                                                      handle, keyval, value, number);  \
    }                                                                                  \
    int PMPI_##name##_set_attr(int handle, int keyval, void *value)                    \
    {                                                                                  \
        return tp_ampi_##name##_set(handle, keyval, value, false);                     \
    }                                                                                  \
    TP_MPI_NAME(name##_set_attr);                                                      \
    int PMPI_##name##_delete_attr(int handle, int keyval)                              \
    {                                                                                  \
        object_type *object = finder(handle);                                          \
                                                                                       \
        return object == NULL ? none                                                   \
                              : tp_ampi_attribute_delete(&object->attributes, kind,    \
                                                         handle, keyval);              \
    }                                                                                  \
    TP_MPI_NAME(name##_delete_attr);                                                   \
    int tp_ampi_##name##_get(int handle, int keyval, void *value, int *flag,           \
                             bool number)                                              \
    {                                                                                  \
        object_type *object = finder(handle);                                          \
        void *own;                                                                     \
                                                                                       \
        if (object == NULL) {                                                          \
            return none;                                                               \
        }                                                                              \
        if (predefined(object, keyval, &own)) {                                        \
            memcpy(value, &own, sizeof(own));                                          \
            *flag = 1;                                                                 \
            return MPI_SUCCESS;                                                        \
        }                                                                              \
        return tp_ampi_attribute_get(&object->attributes, kind, keyval, value, flag,   \
                                     number);                                          \
    }                                                                                  \
    int PMPI_##name##_get_attr(int handle, int keyval, void *value, int *flag)         \
    {                                                                                  \
        return tp_ampi_##name##_get(handle, keyval, value, flag, false);               \
    }                                                                                  \
    TP_MPI_NAME(name##_get_attr)

/* @param number  the caller is Fortran */
int tp_ampi_Comm_set(int handle, int keyval, void *value, bool number);
int tp_ampi_Comm_get(int handle, int keyval, void *value, int *flag, bool number);
int tp_ampi_Type_set(int handle, int keyval, void *value, bool number);
int tp_ampi_Type_get(int handle, int keyval, void *value, int *flag, bool number);
int tp_ampi_Win_set(int handle, int keyval, void *value, bool number);
int tp_ampi_Win_get(int handle, int keyval, void *value, int *flag, bool number);

#endif
