/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of sessions, and their sums by user. */
#include "daemon/broker/admin/figures.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "daemon/broker/session/sessions.h"
#include "daemon/broker/session/shares.h"

const char *
tp_broker_state_of(const struct tp_broker_session *s)
{
    if (s->over || s->dismissed) {
        return "ending";
    }
    if (s->stopped) {
        return "stopped";
    }
    return s->away ? "away" : "connected";
}

void
tp_broker_figures_of(const struct tp_broker *b, const struct tp_broker_session *s,
                     struct tp_broker_figures *ret_figures)
{
    const struct tp_share_slot *slot;

    memset(ret_figures, 0, sizeof(*ret_figures));
    if (s->share_slot == UINT32_MAX) {
        return;
    }
    slot = &b->share.slots[s->share_slot];
#define READ(member, help) ret_figures->member = atomic_load(&slot->member);
    TP_BROKER_COUNTERS(READ)
    READ(depth, )
    READ(weight, )
#undef READ
    ret_figures->memory = atomic_load(&slot->used[TP_SHARE_memory]);
    ret_figures->host = atomic_load(&slot->used[TP_SHARE_host]);
}

void
tp_broker_watch_figures(struct tp_broker *b, tp_ns how_long)
{
    tp_ns until = tp_clock_deadline(how_long);

    if (b->share.slots != NULL && atomic_load(b->share.watched_until) < until) {
        atomic_store(b->share.watched_until, until);
    }
}

/* Finds or makes the total of a session's user. @return NULL: no memory */
static struct tp_broker_total *
find_total(struct tp_broker *b, const struct tp_broker_session *s)
{
    char owner[TP_TLS_WHO_BYTES];
    struct tp_broker_total *t;

    if (b->totals == NULL) {
        b->totals = tp_zalloc(sizeof(*b->totals), "totals of users");
    }
    if (b->totals == NULL) {
        return NULL;
    }
    tp_broker_owner_of(s, owner, sizeof(owner));
    for (unsigned i = 0; i < b->totals->count; i++) {
        if (strcmp(b->totals->users[i].owner, owner) == 0) {
            return &b->totals->users[i];
        }
    }
    if (b->totals->count == TP_BROKER_USERS_MAX) {
        return &b->totals->users[TP_BROKER_USERS_MAX - 1];
    }
    t = &b->totals->users[b->totals->count++];
    (void)snprintf(t->owner, sizeof(t->owner), "%s",
                   b->totals->count == TP_BROKER_USERS_MAX ? "others" : owner);
    return t;
}

void
tp_broker_figures_add_ended(struct tp_broker *b, const struct tp_broker_session *s)
{
    struct tp_broker_total *t = find_total(b, s);
    struct tp_broker_figures f;

    if (t == NULL) {
        return;
    }
    tp_broker_figures_of(b, s, &f);
#define ADD(member, help) t->ended.member += f.member;
    TP_BROKER_COUNTERS(ADD)
#undef ADD
    b->totals->ended++;
}

const struct tp_broker_totals *
tp_broker_totals_of(struct tp_broker *b)
{
    for (unsigned i = 0; b->totals != NULL && i < b->totals->count; i++) {
        b->totals->users[i].sum = b->totals->users[i].ended;
        b->totals->users[i].sessions = 0;
    }
    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        struct tp_broker_total *t = s->pid != 0 ? find_total(b, s) : NULL;
        struct tp_broker_figures f;

        if (t == NULL) {
            continue;
        }
        tp_broker_figures_of(b, s, &f);
#define ADD(member, help) t->sum.member += f.member;
        TP_BROKER_COUNTERS(ADD)
        TP_BROKER_GAUGES(ADD)
#undef ADD
        t->sessions++;
    }
    return b->totals;
}
