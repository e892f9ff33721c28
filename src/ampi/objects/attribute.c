/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes: keys with callbacks, and lists of values. */
#include "ampi/attribute.h"

#include <stdlib.h>
#include <string.h>

#include "ampi/errhandler.h"
#include "ampi/process.h"
#include "ampi/type.h"
#include "base/alloc.h"
#include "base/config/settings.h"

struct keyval {
    int handle;
    unsigned refs; /* the program's and those of attributes */
    bool freed; /* the program's use has ended */
    enum tp_ampi_kind kind;
    bool fortran; /* its callbacks take numbers */
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *del;
    void *extra;
};

struct tp_ampi_attribute {
    struct tp_ampi_attribute *next;
    struct keyval *key;
    void *value;
    bool number; /* set in Fortran: C gets its address */
};

/* ---- keys ---- */

int
tp_ampi_keyval_create(enum tp_ampi_kind kind, MPI_Comm_copy_attr_function *copy,
                      MPI_Comm_delete_attr_function *del, int *keyval, void *extra)
{
    struct keyval *key = tp_zalloc(sizeof(*key), "MPI attribute key");

    *keyval = MPI_KEYVAL_INVALID;
    if (key != NULL) {
        *key = (struct keyval){.refs = 1,
                               .kind = kind,
                               .copy = copy != NULL ? copy : MPI_COMM_NULL_COPY_FN,
                               .del = del != NULL ? del : MPI_COMM_NULL_DELETE_FN,
                               .extra = extra};
        key->handle = tp_ampi_handle_create(TP_AMPI_KEYVAL, key);
    }
    if (key == NULL || key->handle == 0) {
        tp_free(key);
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for an attribute key");
    }
    *keyval = key->handle;
    return MPI_SUCCESS;
}

static void
unref(struct keyval *key)
{
    if (--key->refs == 0) {
        tp_ampi_handle_destroy(key->handle);
        tp_free(key);
    }
}

void
tp_ampi_keyval_of_fortran(int keyval)
{
    struct keyval *key = tp_ampi_handle_get(keyval, TP_AMPI_KEYVAL);

    if (key != NULL) {
        key->fortran = true;
    }
}

static struct keyval *
find(int keyval, enum tp_ampi_kind kind)
{
    struct keyval *key = tp_ampi_handle_get(keyval, TP_AMPI_KEYVAL);

    if (key == NULL || key->kind != kind) {
        (void)tp_ampi_error(NULL, MPI_ERR_KEYVAL,
                            "%#x is no attribute key of this kind of object", keyval);
        return NULL;
    }
    return key;
}

int
tp_ampi_keyval_free(enum tp_ampi_kind kind, int *keyval)
{
    struct keyval *key = find(*keyval, kind);

    if (key == NULL) {
        return MPI_ERR_KEYVAL;
    }
    if (!key->freed) { /* programs may keep a copy of a key that attributes still use */
        key->freed = true;
        unref(key);
    }
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

/* ---- lists ---- */

/* The value of an attribute as C or Fortran gets it: MPI-3.1, 17.2.7. */
static void *
value_for(struct tp_ampi_attribute *attribute, bool fortran)
{
    return attribute->number && !fortran ? (void *)&attribute->value : attribute->value;
}

/* The pointer to an attribute, or to the end. */
static struct tp_ampi_attribute **
locate(struct tp_ampi_attribute **list, const struct keyval *key)
{
    while (*list != NULL && (*list)->key != key) {
        list = &(*list)->next;
    }
    return list;
}

static int
add(struct tp_ampi_attribute **list, struct keyval *key, void *value, bool number)
{
    struct tp_ampi_attribute *attribute =
        tp_zalloc(sizeof(*attribute), "MPI attribute");

    if (attribute == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for an attribute");
    }
    *attribute = (struct tp_ampi_attribute){
        .next = *list, .key = key, .value = value, .number = number};
    key->refs++;
    *list = attribute;
    return MPI_SUCCESS;
}

int
tp_ampi_attribute_set(struct tp_ampi_attribute **list, enum tp_ampi_kind kind,
                      int object, int keyval, void *value, bool number)
{
    struct keyval *key = find(keyval, kind);
    struct tp_ampi_attribute *attribute;
    int error;

    if (key == NULL) {
        return MPI_ERR_KEYVAL;
    }
    attribute = *locate(list, key);
    if (attribute == NULL) {
        return add(list, key, value, number);
    }
    error = key->del(object, keyval, value_for(attribute, key->fortran), key->extra);
    if (error == MPI_SUCCESS) {
        attribute->value = value;
        attribute->number = number;
    }
    return error;
}

int
tp_ampi_attribute_get(struct tp_ampi_attribute *const *list, enum tp_ampi_kind kind,
                      int keyval, void *value, int *flag, bool number)
{
    struct keyval *key = find(keyval, kind);
    struct tp_ampi_attribute *at = *list;
    void *got;

    *flag = 0;
    if (key == NULL) {
        return MPI_ERR_KEYVAL;
    }
    while (at != NULL && at->key != key) {
        at = at->next;
    }
    if (at != NULL) {
        got = value_for(at, number);
        memcpy(value, &got, sizeof(got));
        *flag = 1;
    }
    return MPI_SUCCESS;
}

/* Deletes what *list points to. */
static int
delete_first(struct tp_ampi_attribute **list, int object)
{
    struct tp_ampi_attribute *attribute = *list;
    struct keyval *key = attribute->key;
    int error =
        key->del(object, key->handle, value_for(attribute, key->fortran), key->extra);

    if (error == MPI_SUCCESS) {
        *list = attribute->next;
        unref(key);
        tp_free(attribute);
    }
    return error;
}

int
tp_ampi_attribute_delete(struct tp_ampi_attribute **list, enum tp_ampi_kind kind,
                         int object, int keyval)
{
    struct keyval *key = find(keyval, kind);
    struct tp_ampi_attribute **at;

    if (key == NULL) {
        return MPI_ERR_KEYVAL;
    }
    at = locate(list, key);
    if (*at == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_KEYVAL, "there is no attribute of %#x",
                             keyval);
    }
    return delete_first(at, object);
}

int
tp_ampi_attributes_copy(struct tp_ampi_attribute *const *from, int object,
                        struct tp_ampi_attribute **to)
{
    for (struct tp_ampi_attribute *at = *from; at != NULL; at = at->next) {
        struct keyval *key = at->key;
        void *value = NULL, *given = value_for(at, key->fortran);
        bool kept = at->number;
        int flag = 0;
        int error =
            key->copy(object, key->handle, key->extra, given, (void *)&value, &flag);

        if (kept && !key->fortran) { /* C copies the number if it copies the address */
            kept = value == given;
            value = kept ? at->value : value;
        }
        if (error == MPI_SUCCESS && flag) {
            error = add(to, key, value, kept);
        }
        if (error != MPI_SUCCESS) {
            return error;
        }
    }
    return MPI_SUCCESS;
}

int
tp_ampi_attributes_delete(struct tp_ampi_attribute **list, int object)
{
    int error = MPI_SUCCESS;

    while (*list != NULL && error == MPI_SUCCESS) {
        error = delete_first(list, object);
    }
    return error;
}

/* ---- callbacks of the standard ---- */

int
MPI_COMM_DUP_FN(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

int
MPI_COMM_NULL_COPY_FN(MPI_Comm comm, int keyval, void *extra, void *in, void *out,
                      int *flag)
{
    (void)comm;
    (void)keyval;
    (void)extra;
    (void)in;
    (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

int
MPI_COMM_NULL_DELETE_FN(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    return MPI_SUCCESS;
}

/* ---- calls ---- */

/* Attributes that every communicator has. @return NULL: @p keyval is none of them */
static int *
find_predefined(int keyval)
{
    static int tag_max = TP_AMPI_TAG_MAX, host = MPI_PROC_NULL, io = MPI_ANY_SOURCE,
               global_time = 0, universe, application, last_code;

    const char *part = tp_settings_get("PART");

    application = part != NULL ? atoi(part) : 0;
    universe = (int)tp_ampi_world_size();
    last_code = tp_ampi_last_code();
    switch (keyval) {
    case MPI_TAG_UB:
        return &tag_max;
    case MPI_HOST:
        return &host;
    case MPI_IO:
        return &io;
    case MPI_WTIME_IS_GLOBAL:
        return &global_time;
    case MPI_UNIVERSE_SIZE:
        return &universe;
    case MPI_APPNUM:
        return &application;
    case MPI_LASTUSEDCODE:
        return &last_code;
    default:
        return NULL;
    }
}

int
PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy,
                        MPI_Comm_delete_attr_function *del, int *keyval, void *extra)
{
    return tp_ampi_keyval_create(TP_AMPI_COMM, copy, del, keyval, extra);
}
TP_MPI_NAME(Comm_create_keyval);

int
PMPI_Type_create_keyval(MPI_Type_copy_attr_function *copy,
                        MPI_Type_delete_attr_function *del, int *keyval, void *extra)
{
    return tp_ampi_keyval_create(TP_AMPI_TYPE, copy, del, keyval, extra);
}
TP_MPI_NAME(Type_create_keyval);

int
PMPI_Comm_free_keyval(int *keyval)
{
    return tp_ampi_keyval_free(TP_AMPI_COMM, keyval);
}
TP_MPI_NAME(Comm_free_keyval);

int
PMPI_Type_free_keyval(int *keyval)
{
    return tp_ampi_keyval_free(TP_AMPI_TYPE, keyval);
}
TP_MPI_NAME(Type_free_keyval);

static bool
get_predefined(struct tp_ampi_comm *comm, int keyval, void **ret)
{
    (void)comm;
    *ret = find_predefined(keyval);
    return *ret != NULL;
}

static bool
get_none(struct tp_ampi_type *type, int keyval, void **ret)
{
    (void)type;
    (void)keyval;
    (void)ret;
    return false;
}

TP_AMPI_ATTRIBUTES(TP_AMPI_COMM, Comm, MPI_ERR_COMM, tp_ampi_comm_find,
                   struct tp_ampi_comm, get_predefined);
TP_AMPI_ATTRIBUTES(TP_AMPI_TYPE, Type, MPI_ERR_TYPE, tp_ampi_type_find,
                   struct tp_ampi_type, get_none);
