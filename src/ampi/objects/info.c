/* SPDX-License-Identifier: Apache-2.0 */
/* Info objects. Keys keep the order in which they were set. */
#include "ampi/info.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct entry {
    char key[MPI_MAX_INFO_KEY + 1];
    char value[MPI_MAX_INFO_VAL + 1];
};

struct tp_ampi_info {
    int handle, count;
    struct entry *entries;
};

struct tp_ampi_info *
tp_ampi_info_create(void)
{
    return tp_zalloc(sizeof(struct tp_ampi_info), "MPI info");
}

void
tp_ampi_info_destroy(struct tp_ampi_info *info)
{
    if (info != NULL) {
        tp_free(info->entries);
        tp_free(info);
    }
}

struct tp_ampi_info *
tp_ampi_info_dup(const struct tp_ampi_info *info)
{
    struct tp_ampi_info *copy = tp_ampi_info_create();

    if (copy == NULL || info->count == 0) {
        return copy;
    }
    copy->entries =
        tp_alloc_array((size_t)info->count, sizeof(*copy->entries), "MPI info");
    if (copy->entries == NULL) {
        tp_ampi_info_destroy(copy);
        return NULL;
    }
    memcpy(copy->entries, info->entries, (size_t)info->count * sizeof(*copy->entries));
    copy->count = info->count;
    return copy;
}

int
tp_ampi_info_replace(struct tp_ampi_info **at, MPI_Info handle)
{
    const struct tp_ampi_info *info = tp_ampi_info_get(handle);
    struct tp_ampi_info *copy = info != NULL ? tp_ampi_info_dup(info) : NULL;

    if (info == NULL || copy == NULL) {
        return info == NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    tp_ampi_info_destroy(*at);
    *at = copy;
    return MPI_SUCCESS;
}

int
tp_ampi_info_give_copy(const struct tp_ampi_info *info, MPI_Info *ret)
{
    return tp_ampi_info_give(
        info != NULL ? tp_ampi_info_dup(info) : tp_ampi_info_create(), ret);
}

static struct entry *
locate(const struct tp_ampi_info *info, const char *key)
{
    for (int i = 0; i < info->count; i++) {
        if (strcmp(info->entries[i].key, key) == 0) {
            return &info->entries[i];
        }
    }
    return NULL;
}

const char *
tp_ampi_info_find(const struct tp_ampi_info *info, const char *key)
{
    const struct entry *entry = locate(info, key);

    return entry != NULL ? entry->value : NULL;
}

/* @return an error class, not reported */
static int
set(struct tp_ampi_info *info, const char *key, const char *value)
{
    struct entry *entry = locate(info, key), *more;

    if (entry == NULL) {
        more = tp_realloc_array(info->entries, (size_t)info->count + 1, sizeof(*more),
                                "MPI info");
        if (more == NULL) {
            return MPI_ERR_NO_MEM;
        }
        info->entries = more;
        entry = &more[info->count++];
        (void)snprintf(entry->key, sizeof(entry->key), "%s", key);
    }
    (void)snprintf(entry->value, sizeof(entry->value), "%s", value);
    return MPI_SUCCESS;
}

/* MPI 3.1, 10.3.2: what a process was started with. */
static struct tp_ampi_info *
get_environment(void)
{
    static struct tp_ampi_info info;
    char count[16];

    if (info.count == 0) {
        (void)snprintf(count, sizeof(count), "%u", tp_ampi_world_size());
        (void)set(&info, "command", program_invocation_name);
        (void)set(&info, "maxprocs", count);
    }
    return &info;
}

struct tp_ampi_info *
tp_ampi_info_get(MPI_Info handle)
{
    return handle == MPI_INFO_ENV ? get_environment()
                                  : tp_ampi_handle_get(handle, TP_AMPI_INFO);
}

int
tp_ampi_info_give(struct tp_ampi_info *info, MPI_Info *ret)
{
    *ret = MPI_INFO_NULL;
    if (info != NULL) {
        info->handle = tp_ampi_handle_create(TP_AMPI_INFO, info);
    }
    if (info == NULL || info->handle == 0) {
        tp_ampi_info_destroy(info);
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for an info object");
    }
    *ret = info->handle;
    return MPI_SUCCESS;
}

/* ---- calls ---- */

/* Finds an info object for a call, and reports if there is none. */
static struct tp_ampi_info *
find(MPI_Info handle)
{
    struct tp_ampi_info *info = tp_ampi_info_get(handle);

    if (info == NULL) {
        (void)tp_ampi_error(NULL, MPI_ERR_INFO, "%#x is no info object", handle);
    }
    return info;
}

/* The same; also checks that the key is not too long. */
static struct tp_ampi_info *
find_with_key(MPI_Info handle, const char *key, int *ret_error)
{
    struct tp_ampi_info *info = find(handle);

    *ret_error = info != NULL ? MPI_SUCCESS : MPI_ERR_INFO;
    if (info != NULL &&
        (key == NULL || *key == '\0' || strlen(key) > MPI_MAX_INFO_KEY)) {
        *ret_error = tp_ampi_error(NULL, MPI_ERR_INFO_KEY,
                                   "a key has 1 to %d characters", MPI_MAX_INFO_KEY);
        return NULL;
    }
    return info;
}

int
PMPI_Info_create(MPI_Info *ret)
{
    return tp_ampi_info_give(tp_ampi_info_create(), ret);
}
TP_MPI_NAME(Info_create);

int
PMPI_Info_create_env(int argc, char *argv[], MPI_Info *info)
{
    (void)argc;
    (void)argv;
    return tp_ampi_info_give(tp_ampi_info_dup(get_environment()), info);
}
TP_MPI_NAME(Info_create_env);

int
PMPI_Info_set(MPI_Info handle, const char *key, const char *value)
{
    int error;
    struct tp_ampi_info *info = find_with_key(handle, key, &error);

    if (info == NULL) {
        return error;
    }
    if (value == NULL || strlen(value) > MPI_MAX_INFO_VAL) {
        return tp_ampi_error(NULL, MPI_ERR_INFO_VALUE,
                             "the value of %s has more than %d characters", key,
                             MPI_MAX_INFO_VAL);
    }
    return tp_ampi_error(NULL, set(info, key, value), "no memory for key %s", key);
}
TP_MPI_NAME(Info_set);

int
PMPI_Info_delete(MPI_Info handle, const char *key)
{
    int error;
    struct tp_ampi_info *info = find_with_key(handle, key, &error);
    struct entry *entry;

    if (info == NULL) {
        return error;
    }
    entry = locate(info, key);
    if (entry == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_INFO_NOKEY, "there is no key %s", key);
    }
    memmove(entry, entry + 1,
            (size_t)(info->entries + --info->count - entry) * sizeof(*entry));
    return MPI_SUCCESS;
}
TP_MPI_NAME(Info_delete);

int
PMPI_Info_get(MPI_Info handle, const char *key, int length, char *value, int *flag)
{
    int error;
    struct tp_ampi_info *info = find_with_key(handle, key, &error);
    const char *text = info != NULL ? tp_ampi_info_find(info, key) : NULL;

    *flag = text != NULL;
    if (text != NULL && length >= 0) {
        (void)snprintf(value, (size_t)length + 1, "%s", text);
    }
    return error;
}
TP_MPI_NAME(Info_get);

int
PMPI_Info_get_string(MPI_Info handle, const char *key, int *length, char *value,
                     int *flag)
{
    int error;
    struct tp_ampi_info *info = find_with_key(handle, key, &error);
    const char *text = info != NULL ? tp_ampi_info_find(info, key) : NULL;

    *flag = text != NULL;
    if (text != NULL) {
        if (*length > 0) {
            (void)snprintf(value, (size_t)*length, "%s", text);
        }
        *length = (int)strlen(text) + 1;
    }
    return error;
}
TP_MPI_NAME(Info_get_string);

int
PMPI_Info_get_valuelen(MPI_Info handle, const char *key, int *length, int *flag)
{
    int error;
    struct tp_ampi_info *info = find_with_key(handle, key, &error);
    const char *text = info != NULL ? tp_ampi_info_find(info, key) : NULL;

    *flag = text != NULL;
    if (text != NULL) {
        *length = (int)strlen(text);
    }
    return error;
}
TP_MPI_NAME(Info_get_valuelen);

int
PMPI_Info_get_nkeys(MPI_Info handle, int *count)
{
    struct tp_ampi_info *info = find(handle);

    if (info == NULL) {
        return MPI_ERR_INFO;
    }
    *count = info->count;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Info_get_nkeys);

int
PMPI_Info_get_nthkey(MPI_Info handle, int n, char *key)
{
    struct tp_ampi_info *info = find(handle);

    if (info == NULL) {
        return MPI_ERR_INFO;
    }
    if (n < 0 || n >= info->count) {
        return tp_ampi_error(NULL, MPI_ERR_ARG, "key %d of %d", n, info->count);
    }
    (void)strcpy(key, info->entries[n].key);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Info_get_nthkey);

int
PMPI_Info_dup(MPI_Info handle, MPI_Info *ret)
{
    struct tp_ampi_info *info = find(handle);

    *ret = MPI_INFO_NULL;
    return info == NULL ? MPI_ERR_INFO : tp_ampi_info_give(tp_ampi_info_dup(info), ret);
}
TP_MPI_NAME(Info_dup);

int
PMPI_Info_free(MPI_Info *handle)
{
    struct tp_ampi_info *info = find(*handle);

    if (info == NULL) {
        return MPI_ERR_INFO;
    }
    if (tp_ampi_is_predefined(*handle)) {
        return tp_ampi_error(NULL, MPI_ERR_INFO,
                             "MPI_INFO_ENV is predefined and cannot be freed");
    }
    tp_ampi_handle_destroy(*handle);
    tp_ampi_info_destroy(info);
    *handle = MPI_INFO_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Info_free);
