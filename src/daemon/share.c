/* SPDX-License-Identifier: Apache-2.0 */
/* The page of device time and amounts that a broker shares with its executors. */
#include "daemon/share.h"

#include <string.h>

#include "base/compiler.h"
#include "base/os/memfd.h"

enum { RECENT_MAX = 64 }; /* kernels over which the mean device time is taken */

/* ---- the page ---- */

enum { HEAD_BYTES = (TP_SHARE_DEVICES + 8) * 8 };

uint64_t
tp_share_size(uint32_t slot_count)
{
    const struct tp_share *s = NULL;

    return HEAD_BYTES +
           (uint64_t)slot_count * (sizeof(s->slots[0]) + sizeof(s->users[0]));
}

void
tp_share_init(struct tp_share *s, void *memory, uint32_t slot_count)
{
    s->floor = memory;
    s->slots_used = s->floor + 1;
    s->watched_until = s->floor + 2;
    s->turns = s->floor + 8;
    s->slots = (void *)((char *)memory + HEAD_BYTES);
    s->users = (void *)(s->slots + slot_count);
    s->slot_count = slot_count;
}

telpher_status
tp_share_map(struct tp_share *s, int fd, uint32_t slot_count)
{
    void *memory;
    telpher_status status = tp_memfd_map(fd, tp_share_size(slot_count), &memory);

    if (status == TELPHER_OK) {
        tp_share_init(s, memory, slot_count);
    }
    return status;
}

uint32_t
tp_share_take(struct tp_share *s, uint32_t user, uint32_t weight)
{
    uint32_t i = 0;

    while (i < s->slot_count && s->taken[i]) {
        i++;
    }
    if (i < s->slot_count) {
        s->taken[i] = true;
        memset(&s->slots[i], 0, sizeof(s->slots[i]));
        s->slots[i].user = user;
        atomic_store(&s->slots[i].virtual_ns, atomic_load(s->floor));
        atomic_store(&s->slots[i].weight, weight);
        if (atomic_load(s->slots_used) <= i) {
            atomic_store(s->slots_used, i + 1);
        }
    }
    return i;
}

void
tp_share_free(struct tp_share *s, uint32_t slot)
{
    struct tp_share_slot *own = &s->slots[slot];
    uint32_t user = own->user;
    uint64_t used = slot + 1;

    for (size_t i = 0; user < s->slot_count && i < TP_SHARE_AMOUNT_COUNT; i++) {
        atomic_fetch_sub(&s->users[user][i], atomic_load(&own->used[i]));
    }
    atomic_store(&own->weight, 0);
    s->taken[slot] = false;
    if (atomic_load(s->slots_used) == used) {
        while (used > 0 && !s->taken[used - 1]) {
            used--;
        }
        atomic_store(s->slots_used, used);
    }
}

/* ---- virtual time ---- */

static bool
is_busy(const struct tp_share_slot *o)
{
    return atomic_load(&o->busy_since) != 0;
}

/* True if it uses the device, or would at once if it could: others wait for such a session only. */
static bool
wants(const struct tp_share_slot *o, tp_ns now)
{
    return is_busy(o) || now < atomic_load(&o->keep_until) ||
           (atomic_load(&o->is_waiting) != 0 && now < atomic_load(&o->active_until));
}

static bool
is_active(const struct tp_share_slot *o, tp_ns now)
{
    return wants(o, now) || now < atomic_load(&o->active_until);
}

/* The other sessions of the same devices. */
struct rivals {
    uint32_t busy;
    bool any; /* one is active */
    uint64_t
        least; /* virtual time of those that want a device; UINT64_MAX = none does */
};

/* Never 0: the broker may have freed the slot, and another executor can write to it. */
static uint32_t
weight_of(const struct tp_share_slot *o)
{
    return TP_MAX(atomic_load(&o->weight), 1U);
}

/* Virtual time with what is under way, which the session itself has not charged yet. */
static uint64_t
virtual_now(const struct tp_share_slot *o, uint32_t busy, tp_ns now)
{
    tp_ns since = atomic_load(&o->busy_since);
    uint64_t done = since == 0 || since > now ? 0 : (now - since) / TP_MAX(busy, 1U);

    return atomic_load(&o->virtual_ns) + done / weight_of(o);
}

static bool
is_rival(const struct tp_share_member *m, const struct tp_share_slot *o,
         uint64_t devices)
{
    return o != m->slot && atomic_load(&o->weight) != 0 &&
           (atomic_load(&o->devices) & devices) != 0;
}

static struct rivals
find_rivals(const struct tp_share_member *m, uint64_t devices, tp_ns now)
{
    struct rivals r = {.least = UINT64_MAX};
    uint64_t count =
        TP_MIN(atomic_load(m->share.slots_used), (uint64_t)m->share.slot_count);

    for (uint64_t i = 0; i < count; i++) {
        const struct tp_share_slot *o = &m->share.slots[i];

        r.busy += is_rival(m, o, devices) && is_busy(o);
    }
    for (uint64_t i = 0; i < count; i++) {
        const struct tp_share_slot *o = &m->share.slots[i];

        if (is_rival(m, o, devices) && is_active(o, now)) {
            r.any = true;
            r.least = wants(o, now) ? TP_MIN(r.least, virtual_now(o, r.busy + 1, now))
                                    : r.least;
        }
    }
    return r;
}

static void
raise_floor(struct tp_share_member *m, uint64_t least)
{
    uint64_t floor = atomic_load(m->share.floor);

    while (least > floor &&
           !atomic_compare_exchange_weak(m->share.floor, &floor, least)) {
    }
}

/* Charges the time since the last charge: with n sessions busy, a part of n. */
static void
charge(struct tp_share_member *m, const struct rivals *r, tp_ns now)
{
    struct tp_share_slot *own = m->slot;
    tp_ns since = atomic_load(&own->busy_since);
    uint64_t virtual_ns, part;

    tp_assert_locked(&m->lock);
    if (since != 0 && since < now) {
        /* the mean of before and now: others begin and end meanwhile */
        part = 2 * (now - since) / (m->busy_count + r->busy + 1);
        virtual_ns = atomic_load(&own->virtual_ns) + part / weight_of(own);
        atomic_store(&own->virtual_ns, virtual_ns);
        atomic_fetch_add(&own->device_ns, part);
        m->ended_ns += part;
        m->pause_left += part;
        raise_floor(m, TP_MIN(virtual_ns, r->least));
        atomic_store(&own->busy_since, now);
    }
    m->busy_count = r->busy + 1;
}

/* Others wait for such a session while it pauses. */
static bool
is_prompt(const struct tp_share_member *m)
{
    return m->mean_pause < TP_SHARE_PROMPT;
}

/* A session that begins has credit for the kernel of another that it waited for, not for its own
 * pauses, and no endless debt. */
static void
settle_credit(struct tp_share_member *m)
{
    uint64_t floor = atomic_load(m->share.floor);
    uint64_t own = atomic_load(&m->slot->virtual_ns);
    uint64_t credit = is_prompt(m) ? TP_SHARE_TURN_MAX : TP_SHARE_SLICE;

    own = TP_MAX(own, floor - TP_MIN(floor, credit));
    atomic_store(&m->slot->virtual_ns, TP_MIN(own, floor + TP_SHARE_DEBT));
}

/* A kernel follows the last one. Time of its wait for other sessions is no pause of this one. */
static void
end_pause(struct tp_share_member *m, tp_ns now)
{
    if (m->idle_since != 0) {
        tp_ns pause = now > m->idle_since ? now - m->idle_since : 0;

        m->mean_pause = (3 * m->mean_pause + TP_MIN(pause, TP_SHARE_GRACE)) / 4;
        m->pause_left -= TP_MIN(pause, m->pause_left);
        m->idle_since = 0;
    }
}

/* ---- a session ---- */

void
tp_share_join(struct tp_share_member *m, uint32_t slot,
              const uint64_t max[TP_SHARE_AMOUNT_COUNT])
{
    tp_mutex_init(&m->lock);
    m->busy_count = 1;
    m->mean_pause = TP_SHARE_GRACE;
    if (m->share.slots == NULL || slot >= m->share.slot_count ||
        m->share.slots[slot].user >= m->share.slot_count) {
        return;
    }
    m->slot = &m->share.slots[slot];
    for (size_t i = 0; i < TP_SHARE_AMOUNT_COUNT; i++) {
        m->outer[i] = (struct tp_budget_outer){
            max[i], &m->share.users[m->slot->user][i], &m->slot->used[i]};
    }
}

void
tp_share_begin(struct tp_share_member *m, tp_ns now)
{
    struct tp_share_slot *own = m->slot;

    tp_mutex_lock(&m->lock);
    if (atomic_fetch_add(&own->depth, 1) == 0) {
        end_pause(m, now);
        settle_credit(m);
        m->busy_count = find_rivals(m, atomic_load(&own->devices), now).busy + 1;
        atomic_store(&own->busy_since, now);
    } else {
        m->mean_pause = 3 * m->mean_pause / 4; /* no pause before this one */
    }
    tp_mutex_unlock(&m->lock);
}

void
tp_share_end(struct tp_share_member *m, tp_ns now)
{
    struct tp_share_slot *own = m->slot;
    struct rivals r;

    tp_mutex_lock(&m->lock);
    r = find_rivals(m, atomic_load(&own->devices), now);
    charge(m, &r, now);
    if (++m->ended > RECENT_MAX) {
        m->ended /= 2;
        m->ended_ns /= 2;
    }
    atomic_store(&own->turn_since, now);
    if (atomic_fetch_sub(&own->depth, 1) == 1) {
        atomic_store(&own->active_until, now + TP_SHARE_GRACE);
        atomic_store(&own->keep_until,
                     is_prompt(m) ? now + TP_MIN(m->pause_left, TP_SHARE_GRACE) : 0);
        atomic_store(&own->busy_since, 0);
        m->idle_since = now;
    }
    tp_mutex_unlock(&m->lock);
}

bool
tp_share_is_contended(struct tp_share_member *m, uint32_t device, tp_ns now)
{
    return find_rivals(m, UINT64_C(1) << device, now).any;
}

/* True if the holder of a turn excludes others. */
static bool
holds(const struct tp_share_member *m, uint64_t turn, tp_ns now)
{
    const struct tp_share_slot *o;

    if (turn == 0 || turn > m->share.slot_count) {
        return false;
    }
    o = &m->share.slots[turn - 1];
    if (atomic_load(&o->weight) == 0) {
        return false;
    }
    return is_busy(o) ? now < atomic_load(&o->turn_since) + TP_SHARE_TURN_MAX
                      : now < atomic_load(&o->keep_until);
}

/* Takes the turn, unless another session holds it. */
static bool
take_turn(struct tp_share_member *m, uint32_t device, tp_ns now)
{
    _Atomic uint64_t *turn = &m->share.turns[device];
    uint64_t own = (uint64_t)(m->slot - m->share.slots) + 1, holder = atomic_load(turn);

    if (holder == own && holds(m, holder, now)) {
        return true;
    }
    if (holder != own) {
        if (holds(m, holder, now) ||
            !atomic_compare_exchange_strong(turn, &holder, own)) {
            return false;
        }
        atomic_store(&m->slot->turn_since, now);
    }
    m->pause_left = TP_SHARE_SLICE;
    return true;
}

static void
give_turn(struct tp_share_member *m, uint32_t device)
{
    uint64_t own = (uint64_t)(m->slot - m->share.slots) + 1;

    (void)atomic_compare_exchange_strong(&m->share.turns[device], &own, 0);
}

/* True if a kernel must wait for the turn of the session, or until fewer of its kernels are in
 * the driver: those run to their end even when the turn is another session's. */
static bool
has_to_wait(struct tp_share_member *m, const struct rivals *r, uint32_t device,
            bool stalled, tp_ns now)
{
    uint64_t depth = atomic_load(&m->slot->depth);
    uint64_t mean = m->ended > 0 ? m->ended_ns / m->ended : 0;

    if (r->least < UINT64_MAX - TP_SHARE_SLICE &&
        atomic_load(&m->slot->virtual_ns) > r->least + TP_SHARE_SLICE) {
        if (depth == 0) {
            give_turn(m, device);
        }
        return true;
    }
    return !take_turn(m, device, now) || (!stalled && depth * mean > TP_SHARE_SLICE);
}

bool
tp_share_must_wait(struct tp_share_member *m, uint32_t device, bool stalled, tp_ns now)
{
    struct rivals r;
    bool wait;

    tp_mutex_lock(&m->lock);
    r = find_rivals(m, UINT64_C(1) << device, now);
    charge(m, &r, now);
    if (atomic_load(&m->slot->depth) == 0) {
        end_pause(m, now);
        settle_credit(m);
    }
    wait = r.any && has_to_wait(m, &r, device, stalled, now);
    atomic_store(&m->slot->is_waiting, wait);
    atomic_store(&m->slot->active_until,
                 now + (wait ? TP_SHARE_WAIT_GRACE : TP_SHARE_GRACE));
    tp_mutex_unlock(&m->lock);
    return wait;
}
