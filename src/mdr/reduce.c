/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over the elements of an array: each process combines its own elements, then a
 * binary tree of the processes that have elements combines their parts, with its root in
 * process 0. Where elements may move, come and go, and in sections, the root counts
 * contributions instead of processes: a process passes on what it has when all its elements
 * contributed, or when it has nothing to do.
 *
 * An element that inserted others adds their marks to its next contribution; an inserted one
 * subtracts its own from its first. While one of them is missing, the sum is not 0. An element
 * that ends contributes once more, without data.
 */
#include "mdr/object_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

/* ---- operations ---- */

#define FOLD(name, type, better)                                                       \
    static void name(void *into, const void *from, size_t len)                         \
    {                                                                                  \
        type *a = into;                                                                \
        const type *b = from;                                                          \
                                                                                       \
        for (size_t i = 0; i < len / sizeof(type); i++) {                              \
            a[i] = better;                                                             \
        }                                                                              \
    }

FOLD(sum_i64, uint64_t, a[i] + b[i]) /* wraps, as unsigned numbers do */
FOLD(sum_f64, double, a[i] + b[i])
FOLD(min_i64, int64_t, a[i] < b[i] ? a[i] : b[i])
FOLD(min_f64, double, a[i] < b[i] ? a[i] : b[i])
FOLD(max_i64, int64_t, a[i] > b[i] ? a[i] : b[i])
FOLD(max_f64, double, a[i] > b[i] ? a[i] : b[i])
FOLD(sum_i32, uint32_t, a[i] + b[i])
FOLD(sum_f32, float, a[i] + b[i])
FOLD(min_i32, int32_t, a[i] < b[i] ? a[i] : b[i])
FOLD(min_f32, float, a[i] < b[i] ? a[i] : b[i])
FOLD(max_i32, int32_t, a[i] > b[i] ? a[i] : b[i])
FOLD(max_f32, float, a[i] > b[i] ? a[i] : b[i])
FOLD(product_i32, uint32_t, a[i] * b[i])
FOLD(product_i64, uint64_t, a[i] * b[i])
FOLD(product_f32, float, a[i] * b[i])
FOLD(product_f64, double, a[i] * b[i])
FOLD(and_u64, uint64_t, a[i] & b[i])
FOLD(or_u64, uint64_t, a[i] | b[i])
FOLD(xor_u64, uint64_t, a[i] ^ b[i])

static const struct {
    telpher_mdr_op_fn fold;
    size_t bytes; /* of a number */
} built_in[TELPHER_MDR_OP_USER] = {[TELPHER_MDR_SUM_I64] = {sum_i64, 8},
                                   [TELPHER_MDR_SUM_F64] = {sum_f64, 8},
                                   [TELPHER_MDR_MIN_I64] = {min_i64, 8},
                                   [TELPHER_MDR_MIN_F64] = {min_f64, 8},
                                   [TELPHER_MDR_MAX_I64] = {max_i64, 8},
                                   [TELPHER_MDR_MAX_F64] = {max_f64, 8},
                                   [TELPHER_MDR_SUM_I32] = {sum_i32, 4},
                                   [TELPHER_MDR_SUM_F32] = {sum_f32, 4},
                                   [TELPHER_MDR_MIN_I32] = {min_i32, 4},
                                   [TELPHER_MDR_MIN_F32] = {min_f32, 4},
                                   [TELPHER_MDR_MAX_I32] = {max_i32, 4},
                                   [TELPHER_MDR_MAX_F32] = {max_f32, 4},
                                   [TELPHER_MDR_PRODUCT_I32] = {product_i32, 4},
                                   [TELPHER_MDR_PRODUCT_I64] = {product_i64, 8},
                                   [TELPHER_MDR_PRODUCT_F32] = {product_f32, 4},
                                   [TELPHER_MDR_PRODUCT_F64] = {product_f64, 8},
                                   [TELPHER_MDR_AND_U64] = {and_u64, 8},
                                   [TELPHER_MDR_OR_U64] = {or_u64, 8},
                                   [TELPHER_MDR_XOR_U64] = {xor_u64, 8}};

static telpher_mdr_op_fn
op_of(const telpher_mdr *mdr, uint32_t op)
{
    if (op < TELPHER_MDR_OP_USER) {
        return built_in[op].fold;
    }
    op -= TELPHER_MDR_OP_USER;
    return op < mdr->op_count ? mdr->ops[op] : NULL;
}

/* ---- results ---- */

bool
tp_mdr_target_is_valid(telpher_mdr *mdr, const telpher_mdr_target *target, size_t len)
{
    switch (target->kind) {
    case TELPHER_MDR_TO_FUTURE:
        return target->future.rank < mdr->size;
    case TELPHER_MDR_TO_ELEMENT:
        return tp_mdr_check_call(mdr, &target->array, target->entry, len, 0) ==
                   TELPHER_OK &&
               telpher_mdr_home(mdr, &target->array, target->index) != UINT32_MAX;
    case TELPHER_MDR_TO_ALL:
        return tp_mdr_check_call(mdr, &target->array, target->entry, len, 0) ==
               TELPHER_OK;
    default:
        return false;
    }
}

static void
send_result(telpher_mdr *mdr, const struct tp_mdr_reduction *r)
{
    const telpher_mdr_target *t = &r->part.target;
    telpher_status status;

    if (t->kind == TELPHER_MDR_TO_FUTURE) {
        status = telpher_mdr_future_set(mdr, t->future, r->data, r->len);
    } else if (t->kind == TELPHER_MDR_TO_ELEMENT) {
        status = tp_mdr_invoke(mdr, &t->array, t->index, t->entry, r->data, r->len,
                               NULL, 0, NULL);
    } else {
        status = tp_mdr_broadcast(mdr, &t->array, t->entry, r->data, r->len);
    }
    if (status != TELPHER_OK && !mdr->exiting) {
        tp_mdr_fail(mdr, status,
                    "the %zu bytes of result %llu of a reduction cannot be sent: %s",
                    r->len, (unsigned long long)r->part.number,
                    telpher_status_text(status));
    }
}

/* ---- combining ---- */

static uint32_t
child_count(const telpher_mdr *mdr, const struct tp_mdr_array_state *a)
{
    uint64_t first = 2 * (uint64_t)mdr->rank + 1;

    return (first < a->ranks) + (first + 1 < a->ranks);
}

static struct tp_mdr_reduction *
find_reduction(struct tp_mdr_array_state *a, const struct tp_mdr_part *part)
{
    tp_list_for_each_entry(struct tp_mdr_reduction, found, &a->reductions, link) {
        if (found->part.number == part->number &&
            found->part.section == part->section) {
            return found;
        }
    }
    return NULL;
}

static struct tp_mdr_reduction *
make_reduction(struct tp_mdr_array_state *a, const struct tp_mdr_part *part,
               const void *data, size_t len)
{
    struct tp_mdr_reduction *r;

    r = tp_alloc_aligned(16, sizeof(*r) + len, "mdr reduction");
    if (r == NULL) {
        return NULL;
    }
    *r = (struct tp_mdr_reduction){.part = *part, .len = len};
    if (len != 0) {
        memcpy(r->data, data, len);
    }
    r->array = a;
    tp_list_init(&r->partial);
    tp_list_init(&r->link);
    tp_list_push_back(&a->reductions, &r->link);
    return r;
}

static void
drop_reduction(struct tp_mdr_reduction *r)
{
    if (r != NULL) {
        tp_list_remove(&r->link);
        tp_list_remove(&r->partial);
        tp_free(r);
    }
}

/* Passes on a reduction that is complete in this process and its children. */
static void
finish(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct tp_mdr_reduction *r)
{
    const struct tp_mdr_header h = {.kind = TP_MDR_REDUCE, .id = a->proxy.id};

    tp_list_remove(&r->link);
    tp_list_remove(&r->partial);
    if (mdr->rank == 0) {
        struct tp_mdr_section_state *s = tp_mdr_section_of(a, r->part.section);

        *(s != NULL ? &s->completed : &a->completed) += 1;
        a->total += (uint64_t)r->part.joined;
        if (r->part.has_data != 0) {
            send_result(mdr, r);
        }
    } else {
        telpher_status status = tp_mdr_send(mdr, (mdr->rank - 1) / 2, &h, &r->part,
                                            sizeof(r->part), r->data, r->len);

        if (status != TELPHER_OK && !mdr->exiting) {
            tp_mdr_fail(mdr, status,
                        "class %s: this process's part of reduction %llu, %zu bytes, "
                        "cannot be sent to process %u: %s",
                        mdr->classes[a->proxy.class_id]->name,
                        (unsigned long long)r->part.number, r->len, (mdr->rank - 1) / 2,
                        telpher_status_text(status));
        }
    }
    tp_free(r);
}

/* Ends the run if two contributions to a reduction do not fit. */
static bool
check_equal(telpher_mdr *mdr, const struct tp_mdr_array_state *a,
            const struct tp_mdr_reduction *r, const struct tp_mdr_part *part,
            size_t len)
{
    if (r->part.op != part->op || r->len != len ||
        memcmp(&r->part.target, &part->target, sizeof(part->target)) != 0) {
        tp_mdr_fail(mdr, TELPHER_ERR_INVALID,
                    "class %s: contributions to reduction %llu differ in operation, "
                    "length (%zu and %zu bytes) or target",
                    mdr->classes[a->proxy.class_id]->name,
                    (unsigned long long)part->number, r->len, len);
        return false;
    }
    return true;
}

static void
add_counts(struct tp_mdr_reduction *r, const struct tp_mdr_part *part)
{
    r->part.count += part->count;
    r->part.debt += part->debt;
    r->part.joined += part->joined;
}

/* Adds a value to a reduction. @return NULL after an error, which has ended the run */
static struct tp_mdr_reduction *
combine(telpher_mdr *mdr, struct tp_mdr_array_state *a, const struct tp_mdr_part *part,
        const void *data, size_t len)
{
    telpher_mdr_op_fn fold = op_of(mdr, part->op);
    struct tp_mdr_reduction *r = find_reduction(a, part);
    struct tp_mdr_reduction *without = NULL;

    if (r != NULL && r->part.has_data == 0 && part->has_data != 0) {
        without = r;
        r = NULL;
    }
    if (r == NULL) {
        r = fold != NULL ? make_reduction(a, part, data, len) : NULL;
        if (r == NULL) {
            tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                        "class %s: no memory for a reduction",
                        mdr->classes[a->proxy.class_id]->name);
        } else if (without != NULL) {
            r->local = without->local;
            r->children = without->children;
            add_counts(r, &without->part);
            drop_reduction(without);
        }
        return r;
    }
    if (part->has_data != 0) {
        if (!check_equal(mdr, a, r, part, len)) {
            return NULL;
        }
        fold(r->data, data, len);
    }
    add_counts(r, part);
    return r;
}

static bool
is_counted(const struct tp_mdr_array_state *a, const struct tp_mdr_reduction *r)
{
    return a->mobile || r->part.section != 0;
}

/* At the root. */
static bool
is_complete(const struct tp_mdr_array_state *a, const struct tp_mdr_reduction *r)
{
    const struct tp_mdr_section_state *s = tp_mdr_section_of(a, r->part.section);
    uint64_t completed = s != NULL ? s->completed : a->completed;
    uint64_t total = s != NULL ? tp_map_count(&s->members) : a->total;

    return is_counted(a, r) && r->part.number == completed && r->part.count == total &&
           r->part.debt == 0;
}

/* The root: results go out in their order. */
static void
finish_counted(telpher_mdr *mdr, struct tp_mdr_array_state *a)
{
    bool found = true;

    while (found && !mdr->exiting) {
        found = false;
        tp_list_for_each_entry_safe(struct tp_mdr_reduction, r, &a->reductions, link) {
            if (is_complete(a, r)) {
                finish(mdr, a, r);
                found = true;
                break;
            }
        }
    }
}

static void
finish_if_complete(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                   struct tp_mdr_reduction *r)
{
    if (is_counted(a, r)) {
        if (mdr->rank == 0) {
            finish_counted(mdr, a);
        } else if (r->part.section == 0 && r->local >= tp_map_count(&a->elements)) {
            finish(mdr, a, r);
        } else if (!tp_list_is_linked(&r->partial)) {
            tp_list_push_back(&mdr->partial, &r->partial);
        }
        return;
    }
    if (r->local == tp_map_count(&a->elements) && r->children == child_count(mdr, a)) {
        finish(mdr, a, r);
    }
}

bool
tp_mdr_reductions_flush(telpher_mdr *mdr)
{
    bool flushed = false;

    tp_list_for_each_entry_safe(struct tp_mdr_reduction, r, &mdr->partial, partial) {
        finish(mdr, r->array, r);
        flushed = true;
    }
    return flushed;
}

void
tp_mdr_reduce_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                      const struct tp_mdr_part *part, const void *data, size_t len)
{
    struct tp_mdr_reduction *r = combine(mdr, a, part, data, len);

    if (r != NULL) {
        r->children++;
        finish_if_complete(mdr, a, r);
    }
}

static telpher_status
check_contribution(telpher_mdr *mdr, const telpher_mdr_call *call, size_t len,
                   uint32_t op, const telpher_mdr_target *target)
{
    size_t room = telpher_msg_params_max(mdr->ctx, (TP_MAX(mdr->rank, 1) - 1) / 2);
    size_t max = room > 160 ? TP_MIN(room - 160, TELPHER_MDR_REDUCE_MAX) : 0;

    if (call->self == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "only entries of elements contribute to a reduction; this "
                            "call has no element");
    }
    if (op_of(mdr, op) == NULL || len > max ||
        (op < TELPHER_MDR_OP_USER && len % built_in[op].bytes != 0)) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "no operation %u of %zu bytes (at most %zu; the built-in "
                            "ones take an array of their type)",
                            op, len, max);
    }
    if (target == NULL || !tp_mdr_target_is_valid(mdr, target, len)) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "the target of a reduction is no future, element or array "
                            "whose entry takes %zu bytes",
                            len);
    }
    return TELPHER_OK;
}

uint64_t
tp_mdr_mark(telpher_mdr_index index)
{
    uint64_t x = tp_hash_add(TP_HASH_START, &index, sizeof(index));

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9); /* as SplitMix64 */
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Counts an element, and those that it inserted. */
static void
count_element(struct tp_mdr_element *e, struct tp_mdr_part *part)
{
    part->count = e->inserted ? 0 : 1;
    part->debt = e->debt - (e->inserted ? tp_mdr_mark(e->index) : 0);
    part->joined = e->joined;
    e->debt = e->joined = 0;
    e->inserted = false;
}

/* An element's part of a reduction. @return INVALID: the run ends */
static telpher_status
add_part(telpher_mdr *mdr, struct tp_mdr_array_state *a, const struct tp_mdr_part *part,
         const void *data, size_t len)
{
    struct tp_mdr_reduction *r = combine(mdr, a, part, data, len);

    if (r == NULL) {
        return TELPHER_ERR_INVALID;
    }
    r->local++;
    finish_if_complete(mdr, a, r);
    return TELPHER_OK;
}

telpher_status
tp_mdr_contribute_to(telpher_mdr_call *call, const struct tp_mdr_section_state *section,
                     uint64_t *turns, const void *data, size_t len, uint32_t op,
                     const telpher_mdr_target *target)
{
    telpher_mdr *mdr = call->mdr;
    telpher_status status = check_contribution(mdr, call, len, op, target);
    struct tp_mdr_part part = {.op = op, .count = 1, .has_data = 1};
    struct tp_mdr_element *e;

    if (status != TELPHER_OK) {
        return status;
    }
    e = tp_mdr_element_of_call(call);
    if (e == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "only entries of elements contribute to a reduction; this "
                            "call has no element");
    }
    if (e->ends) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "an object that ends does not contribute");
    }
    part.target = *target;
    if (section != NULL) {
        part.section = section->number;
        part.number = (*turns)++;
    } else {
        part.number = e->contributed++;
        count_element(e, &part);
    }
    return add_part(mdr, e->array, &part, data, len);
}

telpher_status
telpher_mdr_contribute(telpher_mdr_call *call, const void *data, size_t len,
                       uint32_t op, const telpher_mdr_target *target)
{
    return tp_mdr_contribute_to(call, NULL, NULL, data, len, op, target);
}

void
tp_mdr_contribute_end(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    struct tp_mdr_part part = {.number = e->contributed};

    count_element(e, &part);
    part.joined--;
    (void)add_part(mdr, e->array, &part, NULL, 0);
}

void
tp_mdr_reductions_fini(struct tp_mdr_array_state *a)
{
    tp_list_for_each_entry_safe(struct tp_mdr_reduction, r, &a->reductions, link) {
        drop_reduction(r);
    }
}
