/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire of the test link: per direction a queue that serialises at the set rate, loses
 * by a seeded generator, delays, and stops at a set byte.
 */
#include "link_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 64 };

int64_t
link_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void
link_wire_init(struct link_wire *w, struct link_net *net, const struct link_opts *opts,
               struct link_flows *flows)
{
    *w = (struct link_wire){.net = net,
                            .opts = opts,
                            .rate_bps = opts->rate_bps,
                            .loss = opts->loss,
                            .flows = flows};
    for (int i = 0; i < LINK_SIDES; i++) {
        struct link_dir *d = &w->dir[i];

        d->delay_ns = opts->delay_ns[i];
        d->rng = opts->seed * 2 + (uint64_t)i;
        d->tail = &d->head;
        d->trigger = opts->trigger[i];
    }
}

static void
flush_queue(struct link_dir *d)
{
    while (d->head != NULL) {
        struct link_packet *p = d->head;

        d->head = p->next;
        d->stats.dropped++;
        free(p);
    }
    d->tail = &d->head;
}

void
link_wire_fini(struct link_wire *w)
{
    for (int i = 0; i < LINK_SIDES; i++) {
        flush_queue(&w->dir[i]);
    }
}

/* splitmix64: the same seed loses the same packets, counted per direction. */
static double
random_share(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* The trigger's event, as soon as what was admitted before it has been delivered. */
static void
fire_behind_queue(struct link_wire *w, struct link_dir *d)
{
    struct link_packet *p = d->head;
    enum link_event event = d->trigger.event;

    if (p == NULL) {
        d->trigger.event = LINK_EV_NONE;
        link_wire_event(w, event, w->opts->blackhole_ns);
        return;
    }
    while (p->next != NULL) {
        p = p->next;
    }
    p->fires = true;
}

/* Stops the direction at its trigger byte; shortens the packet the byte lies in.
   @return false if nothing of the packet may pass. */
static bool
apply_trigger(struct link_wire *w, int dir, uint8_t *pkt, size_t *len, bool *ret_fires)
{
    struct link_dir *d = &w->dir[dir];
    uint64_t fresh = link_flows_peek(w->flows, dir, pkt, *len);
    uint64_t left = d->trigger.at_bytes - d->stats.payload_bytes;

    *ret_fires = false;
    if (d->trigger.event == LINK_EV_NONE || fresh == 0 || fresh < left) {
        return true;
    }
    if (d->trigger.event == LINK_EV_DAMAGE) {
        if (fresh > left) {
            link_tcp_damage(pkt, *len, fresh - left);
            d->trigger.event = LINK_EV_NONE;
        }
        return true;
    }
    d->stopped = true;
    if (left == 0) {
        fire_behind_queue(w, d);
        return false;
    }
    if (fresh > left) {
        *len = link_tcp_trim(pkt, *len, fresh - left);
    }
    *ret_fires = true;
    return true;
}

/* When the packet would have left the sender, or -1 if the queue is full. */
static int64_t
serialise(struct link_wire *w, struct link_dir *d, size_t len, int64_t now)
{
    int64_t start = d->wire_free_ns > now ? d->wire_free_ns : now;
    double waiting_bytes = (double)(start - now) * (double)w->rate_bps / 8e9;

    if (w->rate_bps == 0) {
        return now;
    }
    if (waiting_bytes + (double)len > (double)w->opts->queue_bytes && start > now) {
        return -1;
    }
    d->wire_free_ns = start + (int64_t)((double)len * 8e9 / (double)w->rate_bps);
    return d->wire_free_ns;
}

static void
append(struct link_dir *d, const uint8_t *pkt, size_t len,
       const struct link_packet *head)
{
    struct link_packet *p = malloc(sizeof(*p) + len);

    if (p == NULL) {
        d->stats.overflow++;
        return;
    }
    *p = *head;
    p->len = len;
    memcpy(p->data, pkt, len);
    *d->tail = p;
    d->tail = &p->next;
}

static void
admit(struct link_wire *w, int dir, uint8_t *pkt, size_t len, int64_t now)
{
    struct link_dir *d = &w->dir[dir];
    int64_t left_ns;
    bool fires;

    if (pkt[0] >> 4 != 4 || d->hole || d->stopped) {
        d->stats
            .dropped++; /* IPv6 chatter would also disturb the order of the losses */
        return;
    }
    if (link_flows_refuse(w->flows, dir, pkt, len, w->net)) {
        d->stats.dropped++;
        return;
    }
    if (w->loss > 0 && random_share(&d->rng) < w->loss) {
        d->stats.lost++;
        return;
    }
    left_ns = serialise(w, d, len, now);
    if (left_ns < 0) {
        d->stats.overflow++;
        return;
    }
    if (!apply_trigger(w, dir, pkt, &len, &fires)) {
        d->stats.dropped++;
        return;
    }
    d->stats.payload_bytes += link_flows_count(w->flows, dir, pkt, len);
    append(d, pkt, len,
           &(struct link_packet){
               .sent_ns = now, .due_ns = left_ns + d->delay_ns, .fires = fires});
}

void
link_wire_receive(struct link_wire *w, int side)
{
    static uint8_t buf[LINK_MTU_MAX + 1];

    for (int i = 0; i < BURST; i++) {
        ssize_t n = read(w->net->tun_fd[side], buf, sizeof(buf));

        if (n <= 0) {
            return;
        }
        admit(w, side, buf, (size_t)n, link_now_ns());
    }
}

static void
put_out(struct link_wire *w, int dir, const struct link_packet *p, int64_t now)
{
    struct link_stats *s = &w->dir[dir].stats;
    int64_t late_ns = now - p->due_ns;

    if (write(w->net->tun_fd[!dir], p->data, p->len) != (ssize_t)p->len) {
        s->dropped++;
        return;
    }
    s->packets++;
    s->bytes += p->len;
    s->late_sum_ns += late_ns;
    if (late_ns > s->late_max_ns) {
        s->late_max_ns = late_ns;
    }
}

static void
deliver_dir(struct link_wire *w, int dir, int64_t now)
{
    struct link_dir *d = &w->dir[dir];

    while (d->head != NULL && d->head->due_ns <= now) {
        struct link_packet *p = d->head;
        bool fires = p->fires;

        d->head = p->next;
        if (d->head == NULL) {
            d->tail = &d->head;
        }
        put_out(w, dir, p, now);
        if (w->log != NULL) {
            link_tcp_log(w->log, dir, p, now);
        }
        free(p);
        if (fires) {
            enum link_event event = d->trigger.event;

            d->trigger.event = LINK_EV_NONE;
            link_wire_event(w, event, w->opts->blackhole_ns);
        }
    }
}

bool
link_wire_is_sparse(const struct link_wire *w)
{
    int queued = 0;

    for (int i = 0; i < LINK_SIDES; i++) {
        const struct link_packet *p = w->dir[i].head;

        queued += p != NULL ? 1 + (p->next != NULL) : 0;
    }
    return queued <= 1;
}

int64_t
link_wire_deliver(struct link_wire *w, int64_t now)
{
    int64_t next = INT64_MAX;

    for (int i = 0; i < LINK_SIDES; i++) {
        struct link_dir *d = &w->dir[i];

        if (d->hole && d->hole_end_ns != 0 && d->hole_end_ns <= now) {
            d->hole = false;
        }
        deliver_dir(w, i, now);
    }
    for (int i = 0; i < LINK_SIDES; i++) {
        struct link_dir *d = &w->dir[i];

        if (d->head != NULL && d->head->due_ns < next) {
            next = d->head->due_ns;
        }
        if (d->hole && d->hole_end_ns != 0 && d->hole_end_ns < next) {
            next = d->hole_end_ns;
        }
    }
    return next;
}

void
link_wire_hole(struct link_wire *w, int dir, int64_t for_ns)
{
    struct link_dir *d = &w->dir[dir];

    flush_queue(d);
    d->stopped = false;
    d->hole = true;
    d->hole_end_ns = for_ns > 0 ? link_now_ns() + for_ns : 0;
}

void
link_wire_event(struct link_wire *w, enum link_event event, int64_t for_ns)
{
    if (event == LINK_EV_MOVE) {
        link_net_move(w->net);
        w->dir[LINK_A2B].stopped = w->dir[LINK_B2A].stopped = false;
        return;
    }
    if (event == LINK_EV_RESET || event == LINK_EV_CLOSE) {
        link_flows_end_all(w->flows, w->net, event == LINK_EV_CLOSE);
        for (int i = 0; i < LINK_SIDES; i++) {
            flush_queue(&w->dir[i]); /* all of it belongs to flows now dead */
            w->dir[i].stopped = false;
        }
        return;
    }
    link_wire_hole(w, LINK_A2B, event == LINK_EV_BLACKHOLE ? for_ns : 0);
    link_wire_hole(w, LINK_B2A, event == LINK_EV_BLACKHOLE ? for_ns : 0);
    if (event == LINK_EV_CUT && !w->down) {
        w->down = true;
        link_net_set_up(w->net, false);
    }
}

void
link_wire_heal(struct link_wire *w)
{
    for (int i = 0; i < LINK_SIDES; i++) {
        w->dir[i].hole = false;
        w->dir[i].stopped = false;
    }
    if (w->down) {
        w->down = false;
        link_net_set_up(w->net, true);
    }
}

void
link_wire_stats(const struct link_wire *w, char *text, size_t size)
{
    static const char *const name[] = {"a2b", "b2a"};
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < LINK_SIDES && used < size; i++) {
        const struct link_stats *s = &w->dir[i].stats;
        int64_t mean = s->packets > 0 ? s->late_sum_ns / (int64_t)s->packets : 0;

        used += (size_t)snprintf(
            text + used, size - used,
            "%s packets %" PRIu64 " bytes %" PRIu64 " payload %" PRIu64 " lost %" PRIu64
            " overflow %" PRIu64 " dropped %" PRIu64
            " late_mean_us %.1f late_max_us %.1f\n",
            name[i], s->packets, s->bytes, s->payload_bytes, s->lost, s->overflow,
            s->dropped, (double)mean / 1e3, (double)s->late_max_ns / 1e3);
    }
}
