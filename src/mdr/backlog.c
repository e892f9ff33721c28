/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that waits in a process. Invocations with a priority run when there are no messages, the idle
 * function after them. The memory of all that waits is bounded: senders are held back.
 */
#include "mdr/object_int.h"

/* Turns between two looks at the network while there is too much to do. */
#define FULL_TURNS 64

/* ---- priorities ---- */

void
tp_mdr_later_push(telpher_mdr *mdr, struct tp_mdr_message *m)
{
    tp_list_push_back(&mdr->later[m->header.entry >> 8], &m->link);
    mdr->later_count++;
}

bool
tp_mdr_later_run(telpher_mdr *mdr)
{
    struct tp_list *first = mdr->later;
    struct tp_mdr_message *m;

    if (mdr->later_count == 0) {
        return false;
    }
    while (tp_list_is_empty(first)) {
        first++;
    }
    m = tp_list_entry(tp_list_first(first), struct tp_mdr_message, link);
    tp_list_remove(&m->link);
    mdr->later_count--;
    m->due = true;
    tp_mdr_deliver(mdr, m);
    return true;
}

void
tp_mdr_later_drop(telpher_mdr *mdr)
{
    for (size_t i = 0; i < TP_MDR_PRIORITIES; i++) {
        tp_mdr_messages_destroy(&mdr->later[i]);
    }
    mdr->later_count = 0;
}

void
telpher_mdr_idle_set(telpher_mdr *mdr, telpher_mdr_idle_fn fn, void *user)
{
    mdr->idle = fn;
    mdr->idle_user = user;
}

bool
tp_mdr_idle_run(telpher_mdr *mdr)
{
    uint64_t sent = mdr->sent;

    return mdr->idle != NULL &&
           (mdr->idle(mdr, mdr->idle_user) != 0 || mdr->sent != sent);
}

/* ---- the bound ---- */

static bool
is_full(const telpher_mdr *mdr)
{
    return mdr->kept_bytes >= mdr->settings.kept_bytes;
}

telpher_status
tp_mdr_hold_back(telpher_mdr *mdr)
{
    struct tp_light *light = mdr->lights.current;
    telpher_status status;

    if (mdr->exiting) {
        return TELPHER_OK;
    }
    if (!tp_mdr_light_may_wait(mdr)) {
        return tp_mdr_error(mdr, TELPHER_ERR_AGAIN,
                            "messages that wait take %llu bytes: send later, or in an "
                            "entry that waits, or raise TELPHER_MDR_MEMORY",
                            (unsigned long long)mdr->kept_bytes);
    }
    tp_list_push_back(&mdr->held, &light->link);
    status = tp_mdr_light_suspend(mdr);
    return status == TELPHER_OK ? status
                                : tp_mdr_error(mdr, status,
                                               "the run is ending, because a process "
                                               "called telpher_mdr_exit() or failed");
}

/* Nothing that takes memory can become less without those that are held back. */
static bool
is_stuck(const telpher_mdr *mdr, bool worked)
{
    return !worked && mdr->queued == 0 && mdr->later_count == 0 &&
           tp_list_is_empty(&mdr->local);
}

bool
tp_mdr_hold_end(telpher_mdr *mdr, bool worked)
{
    struct tp_list *link = tp_list_first(&mdr->held);

    if (link == NULL || (is_full(mdr) && !is_stuck(mdr, worked))) {
        return false;
    }
    tp_list_remove(link);
    tp_lights_wake(&mdr->lights, tp_list_entry(link, struct tp_light, link));
    return true;
}

bool
tp_mdr_hold_progress(telpher_mdr *mdr, bool worked)
{
    if (is_full(mdr) && (worked || mdr->later_count != 0) &&
        mdr->turns % FULL_TURNS != 0) {
        return false;
    }
    return telpher_progress(mdr->ctx) != 0;
}
