/* SPDX-License-Identifier: Apache-2.0 */
/* Work for a process that has no messages: invocations with a priority, then the idle function. */
#include "mdr/object_int.h"

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
