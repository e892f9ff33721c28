/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the kernels of a call as records of a message; rejects calls that workers
 * could not decode. */
#include <string.h>

#include "offload/offload_int.h"

static telpher_status
unknown(const struct tp_offload_group *g, const char *name, struct tp_error *err)
{
    const char *guess = tp_offload_names_guess(&g->names, name);

    return tp_error_set(
        err, TELPHER_ERR_NOT_FOUND,
        "the workers have no kernel %.100s%s%s%s: register it with TELPHER_KERNEL(), "
        "or "
        "build them with telpher-worker-cc, so that its argument types are known",
        name, guess != NULL ? " (perhaps " : "", guess != NULL ? guess : "",
        guess != NULL ? ")" : "");
}

/* The caller's types as a signature. */
static telpher_status
caller_types(const telpher_launch *l, struct tp_offload_signature *types,
             struct tp_error *err)
{
    telpher_kernel as_kernel = {
        .struct_size = sizeof(as_kernel),
        .argcount = l->argcount,
        .args = l->types,
    };

    return tp_offload_signature_of(&as_kernel, types, err);
}

/* Of the caller's arguments: a bytes argument of length 0 may be NULL. */
static telpher_status
check_args(const telpher_launch *l, struct tp_error *err)
{
    for (uint32_t i = 0; i < l->argcount; i++) {
        if (l->args[i] == NULL && l->sizes[i] != 0) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "kernel %s: argument %u is missing", l->name, i + 1);
        }
    }
    return TELPHER_OK;
}

static telpher_status
check(const struct tp_offload_group *g, const telpher_launch *l, int64_t index,
      struct tp_error *err)
{
    const struct tp_offload_signature *sig = &g->names.known[index].sig;
    struct tp_offload_signature types;
    telpher_status status = TELPHER_OK;

    if (l->argcount != 0 && (l->args == NULL || l->sizes == NULL)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "kernel %s: no arguments, or no sizes of them, were given",
                            l->name);
    }
    if (l->types != NULL) {
        status = caller_types(l, &types, err);
    }
    if (status == TELPHER_OK) {
        status = tp_offload_check(l->name, sig, l->argcount, l->sizes,
                                  l->types != NULL ? &types : NULL, err);
    }
    return status == TELPHER_OK ? check_args(l, err) : status;
}

/* Appends one kernel's record to the scratch buffer. */
static telpher_status
encode(struct tp_offload_group *g, const telpher_launch *l, uint32_t flags,
       struct tp_error *err)
{
    struct tp_offload_record r = {.flags = (uint16_t)flags};
    const struct tp_offload_known *known;
    void *with_arrays[TELPHER_KERNEL_ARGS_MAX];
    uint64_t ids[TELPHER_KERNEL_ARGS_MAX];
    void *const *args = l->args;
    int64_t index = tp_offload_names_find(&g->names, l->name);
    telpher_status status;
    uint8_t *tail;

    if (index < 0) {
        return unknown(g, l->name, err);
    }
    known = &g->names.known[index];
    status = check(g, l, index, err);
    if (status == TELPHER_OK && known->sig.has_arrays) {
        status = tp_offload_array_args(g, l, &known->sig, with_arrays, ids, err);
        args = with_arrays;
    }
    if (status != TELPHER_OK) {
        return status;
    }
    r.kernel = (uint32_t)index;
    r.len = tp_offload_args_len(&known->sig, l->sizes);
    if ((r.len == 0 && l->argcount != 0) || r.len > g->limit_bytes - sizeof(r) ||
        tp_buf_len(&g->scratch) > g->limit_bytes - sizeof(r) - r.len) {
        return tp_error_set(
            err, TELPHER_ERR_LIMIT,
            "kernel %s: the workers take no more than %llu bytes in one "
            "launch (TELPHER_OFFLOAD_LIMIT)",
            l->name, (unsigned long long)g->limit_bytes);
    }
    status = tp_buf_reserve(&g->scratch, sizeof(r) + r.len, &tail);
    if (status != TELPHER_OK) {
        return tp_error_set(err, status,
                            "kernel %s: out of memory for %llu bytes of arguments",
                            l->name, (unsigned long long)r.len);
    }
    memcpy(tail, &r, sizeof(r));
    tp_offload_args_put(&known->sig, args, l->sizes, tail + sizeof(r));
    tp_buf_commit(&g->scratch, sizeof(r) + r.len);
    return TELPHER_OK;
}

telpher_status
tp_offload_encode_all(struct tp_offload_group *g, const struct tp_offload_calls *calls,
                      bool wants_done, bool *ret_ends, struct tp_error *err)
{
    uint64_t sizes[TELPHER_KERNEL_ARGS_MAX];
    telpher_launch room;
    telpher_status status = TELPHER_OK;

    *ret_ends = false;
    for (uint32_t i = 0; i < calls->count && status == TELPHER_OK && !*ret_ends; i++) {
        const telpher_launch *l = calls->get(calls, i, &room, sizes);
        bool last = i + 1 == calls->count;

        if (l == NULL || l->name == NULL) {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "kernel call %u of %u: its name is NULL, or a count or "
                                "size is negative",
                                i + 1, calls->count);
        }
        *ret_ends = l->name[0] == '\0'; /* launches after it have no workers */
        if (!*ret_ends) {
            status = encode(g, l, last && wants_done ? TP_OFFLOAD_DONE : 0, err);
        }
    }
    return status;
}
