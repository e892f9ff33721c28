/* SPDX-License-Identifier: Apache-2.0 */
/* Matching: the queues of a context at a rank, in the order of receives and of messages. */
#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"

enum { CONTEXTS_MAX = 1 << 24 }; /* a peer names contexts: bounds the table of queues */

static bool
grow_mails(struct tp_ampi_rank *rank, struct tp_ampi_mails *mails, uint32_t index)
{
    uint32_t count = TP_MAX(2 * mails->count, index + 16);
    struct tp_ampi_heap *heap = tp_ampi_heap_use(rank->heap);
    struct tp_ampi_mail **at = tp_realloc_array(
        mails->at, count, sizeof(struct tp_ampi_mail *), "MPI contexts");

    (void)tp_ampi_heap_use(heap);
    if (at == NULL) {
        return false;
    }
    memset(at + mails->count, 0,
           (count - mails->count) * sizeof(struct tp_ampi_mail *));
    mails->at = at;
    mails->count = count;
    return true;
}

static struct tp_ampi_mail *
make_mail(struct tp_ampi_rank *rank)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(rank->heap);
    struct tp_ampi_mail *mail = tp_zalloc(sizeof(*mail), "MPI context");

    (void)tp_ampi_heap_use(heap);
    if (mail != NULL) {
        mail->owner = rank;
        tp_list_init(&mail->posted);
        tp_list_init(&mail->unexpected);
        tp_list_init(&mail->probes);
    }
    return mail;
}

struct tp_ampi_mail *
tp_ampi_mail_of(struct tp_ampi_rank *rank, uint32_t context)
{
    unsigned shift = tp_ampi.context_shift;
    uint32_t chooser = (context & ((1u << shift) - 1)) >> TP_AMPI_LANE_BITS;
    uint32_t index = context >> shift << TP_AMPI_LANE_BITS | context % TP_AMPI_LANES;
    struct tp_ampi_mails *mails;

    if (tp_unlikely(chooser >= tp_ampi.world_size)) {
        return NULL;
    }
    mails = &rank->mails[chooser];
    if (tp_unlikely(index >= mails->count) &&
        (index >= CONTEXTS_MAX || !grow_mails(rank, mails, index))) {
        return NULL;
    }
    if (tp_unlikely(mails->at[index] == NULL)) {
        mails->at[index] = make_mail(rank);
    }
    return mails->at[index];
}

static void
fini_mail(struct tp_ampi_mail *mail)
{
    tp_list_for_each_entry_safe(struct tp_ampi_unexpected, u, &mail->unexpected, link) {
        tp_ampi_unexpected_destroy(u);
    }
    tp_free(mail);
}

void
tp_ampi_mails_fini(struct tp_ampi_rank *rank)
{
    for (uint32_t r = 0; rank->mails != NULL && r < tp_ampi.world_size; r++) {
        for (uint32_t i = 0; i < rank->mails[r].count; i++) {
            if (rank->mails[r].at[i] != NULL) {
                fini_mail(rank->mails[r].at[i]);
            }
        }
        tp_free(rank->mails[r].at);
    }
    tp_free(rank->mails);
    rank->mails = NULL;
}

static inline bool
is_match(int from, int tag, const struct tp_ampi_envelope *env)
{
    return (from == env->source || from == MPI_ANY_SOURCE) &&
           (tag == env->tag || tag == MPI_ANY_TAG);
}

struct tp_ampi_request *
tp_ampi_match_posted(struct tp_ampi_mail *mail, const struct tp_ampi_envelope *env)
{
    tp_list_for_each_entry(struct tp_ampi_request, req, &mail->posted, link) {
        if (is_match(req->peer, req->tag, env)) {
            tp_list_remove(&req->link);
            return req;
        }
    }
    return NULL;
}

struct tp_ampi_unexpected *
tp_ampi_match_unexpected(struct tp_ampi_mail *mail, int from, int tag)
{
    tp_list_for_each_entry(struct tp_ampi_unexpected, u, &mail->unexpected, link) {
        if (is_match(from, tag, &u->env)) {
            return u;
        }
    }
    return NULL;
}

static struct tp_ampi_unexpected *
make_unexpected(struct tp_ampi_rank *rank, size_t len)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(rank->heap);
    struct tp_ampi_unexpected *u = tp_malloc(sizeof(*u), "unexpected MPI message");

    if (u != NULL) {
        u->data = len > sizeof(u->small) ? tp_malloc(len, "unexpected MPI message")
                                         : u->small;
    }
    if (u != NULL && u->data == NULL) {
        tp_free(u);
        u = NULL;
    }
    (void)tp_ampi_heap_use(heap);
    return u;
}

struct tp_ampi_unexpected *
tp_ampi_keep(struct tp_ampi_mail *mail, const struct tp_ampi_envelope *env,
             uint32_t process, const void *data)
{
    size_t len = env->kind == TP_AMPI_EAGER ? (size_t)env->len : 0;
    struct tp_ampi_unexpected *u = make_unexpected(mail->owner, len);

    if (u == NULL) {
        return NULL;
    }
    u->env = *env;
    u->process = process;
    u->comm = NULL;
    u->sender = NULL;
    if (len != 0) {
        memcpy(u->data, data, len);
    }
    tp_list_init(&u->link);
    tp_list_push_back(&mail->unexpected, &u->link);
    tp_ampi_signal(&mail->probes);
    return u;
}

void
tp_ampi_unexpected_destroy(struct tp_ampi_unexpected *u)
{
    tp_list_remove(&u->link);
    if (u->data != u->small) {
        tp_free(u->data);
    }
    tp_free(u);
}
