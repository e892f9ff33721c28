/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlocks. A process is idle if all its ranks wait in MPI calls, and nothing has arrived for
 * a second. Process 0 collects the numbers of messages that idle processes sent and received.
 * If all are idle and the sums are equal, it asks all again; with the same answers no message is
 * under way, so none will come. Then each process prints what its ranks wait for, and ends.
 */
#include <stdio.h>
#include <string.h>

#include "ampi/process.h"
#include "ampi/window.h"
#include "base/alloc.h"
#include "base/os/clock.h"

enum { IDLE_TIMES = 10, REQUESTS_SHOWN = 4, TABLE_BYTES = 4096 };

struct state {
    uint64_t sent, received;
};

/* Of process 0, about all. */
static struct state *known;
static uint8_t *waves; /* 0: no report; 1: idle; 2: idle when asked again */

static int idle_times;
static struct state last, reported;
static bool has_reported;

static struct state
state_now(void)
{
    return (struct state){tp_ampi.sent, tp_ampi.received};
}

static bool
is_same(struct state a, struct state b)
{
    return a.sent == b.sent && a.received == b.received;
}

/* ---- the table ---- */

static void
print_request(FILE *file, const struct tp_ampi_rank *rank,
              const struct tp_ampi_request *req)
{
    char peer[32] = "any rank", tag[32] = "any tag";

    if (req->peer >= 0) {
        (void)snprintf(peer, sizeof(peer), "rank %d", req->peer);
    }
    if (req->tag >= 0) {
        (void)snprintf(tag, sizeof(tag), "tag %d", req->tag);
    }
    if (req->lane != TP_AMPI_LANE_PROGRAM) {
        (void)snprintf(tag, sizeof(tag), "in a %s",
                       req->lane == TP_AMPI_LANE_COLLECTIVE ? "collective call"
                                                            : "partitioned call");
    }
    (void)fprintf(file, "  rank %u %s %s, %s, of %s\n", rank->world,
                  req->kind == TP_AMPI_RECV_REQUEST ? "waits for a message of"
                                                    : "sends, unreceived, to",
                  peer, tag,
                  req->comm->name[0] != '\0' ? req->comm->name : "a communicator");
}

/* @return requests of the rank shown so far, and this context's */
static int
print_mail(FILE *file, const struct tp_ampi_rank *rank, const struct tp_ampi_mail *mail,
           int shown)
{
    if (!tp_list_is_empty(&mail->probes)) {
        (void)fprintf(file, "  rank %u waits in a probe for a message\n", rank->world);
    }
    if (mail->window != NULL && !tp_list_is_empty(&mail->window->waits)) {
        (void)fprintf(file, "  rank %u waits for other ranks of a window\n",
                      rank->world);
    }
    tp_list_for_each_entry(const struct tp_ampi_request, req, &mail->posted, link) {
        if (++shown <= REQUESTS_SHOWN) {
            print_request(file, rank, req);
        }
    }
    return shown;
}

static void
print_rank(FILE *file, const struct tp_ampi_rank *rank)
{
    int shown = 0;

    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        for (uint32_t i = 0; i < rank->mails[r].count; i++) {
            if (rank->mails[r].at[i] != NULL) {
                shown = print_mail(file, rank, rank->mails[r].at[i], shown);
            }
        }
    }
    tp_list_for_each_entry(const struct tp_ampi_request, req, &tp_ampi.sending, link) {
        if (req->comm->owner == rank && ++shown <= REQUESTS_SHOWN) {
            print_request(file, rank, req);
        }
    }
    if (shown > REQUESTS_SHOWN) {
        (void)fprintf(file, "  rank %u and %d more\n", rank->world,
                      shown - REQUESTS_SHOWN);
    }
}

static void
print_ranks(FILE *file)
{
    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        print_rank(file, tp_ampi.ranks[i]);
    }
}

/* Sends this process's part of the table to process 0, which ends the job. */
static void
send_table(void)
{
    struct tp_ampi_envelope env = {.kind = TP_AMPI_TABLE};
    char text[TABLE_BYTES] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");

    if (file != NULL) {
        print_ranks(file);
        (void)fclose(file);
    }
    env.len = strnlen(text, sizeof(text));
    (void)tp_ampi_transmit(0, &env, text, (size_t)env.len);
}

static uint32_t tables; /* that came to process 0 */

static void
take_table(const struct tp_ampi_envelope *env, const char *text)
{
    (void)fwrite(text, 1, (size_t)env->len, stderr);
    tables++;
}

/* ---- agreement ---- */

static void
send_all(enum tp_ampi_message_kind kind)
{
    const struct tp_ampi_envelope env = {.kind = (uint8_t)kind};

    for (uint32_t p = 1; p < tp_ampi.processes; p++) {
        (void)tp_ampi_transmit(p, &env, NULL, 0);
    }
}

static _Noreturn void
end_stuck(void)
{
    tp_ns end = tp_clock_deadline(1000 * TP_CLOCK_MS);

    (void)fprintf(stderr, "telpher-ampi: deadlock: all ranks wait, and no message is "
                          "under way:\n");
    print_ranks(stderr);
    send_all(TP_AMPI_STUCK);
    while (tables < tp_ampi.processes - 1 && tp_clock_ns() < end) {
        (void)telpher_progress_wait(tp_ampi.ctx, 10 * TP_CLOCK_MS);
    }
    tp_ampi_abort(1);
}

/* Are all processes in this wave at least, with balanced numbers? */
static bool
is_balanced(uint8_t wave)
{
    uint64_t sent = 0, received = 0;

    for (uint32_t p = 0; p < tp_ampi.processes; p++) {
        if (waves[p] < wave) {
            return false;
        }
        sent += known[p].sent;
        received += known[p].received;
    }
    return sent == received;
}

static bool
is_idle(void)
{
    return idle_times >= IDLE_TIMES && tp_ampi.receiving == 0 &&
           is_same(last, state_now());
}

static void
check_all(void)
{
    if (is_balanced(2) && is_idle() && is_same(known[0], state_now())) {
        end_stuck();
    }
    if (is_balanced(1) && waves[0] == 1) {
        waves[0] = 2;
        send_all(TP_AMPI_ASK);
    }
}

static void
learn(uint32_t process, struct state state, bool asked)
{
    if (known == NULL) {
        known = tp_alloc_array(tp_ampi.processes, sizeof(*known), "MPI processes");
        waves = tp_alloc_array(tp_ampi.processes, 1, "MPI processes");
    }
    if (known == NULL || waves == NULL) {
        return;
    }
    if (asked && waves[process] != 0 && is_same(known[process], state)) {
        waves[process] = 2;
    } else {
        for (uint32_t p = 0; p < tp_ampi.processes; p++) { /* ask all again */
            waves[p] = waves[p] != 0;
        }
        waves[process] = 1;
        known[process] = state;
    }
}

static void
report(bool asked)
{
    const struct tp_ampi_envelope env = {
        .kind = TP_AMPI_IDLE, .id = asked, .len = sizeof(struct state)};
    struct state now = state_now();

    if (tp_ampi.process == 0) {
        learn(0, now, asked);
    } else {
        (void)tp_ampi_transmit(0, &env, &now, sizeof(now));
    }
}

void
tp_ampi_idle(void)
{
    struct state now = state_now();

    if (!is_same(now, last)) {
        last = now;
        idle_times = 0;
    }
    idle_times++;
    if (!is_idle() || tp_ampi.over || tp_ampi.connecting != 0 ||
        !tp_list_is_empty(&tp_ampi.bridges)) {
        return; /* another job may send */
    }
    if (!has_reported || !is_same(reported, now)) {
        has_reported = true;
        reported = now;
        report(false);
    }
    if (tp_ampi.process == 0 && known != NULL && waves != NULL) {
        check_all();
    }
}

void
tp_ampi_on_idle(uint32_t process, const struct tp_ampi_envelope *env, const void *data)
{
    struct state state;

    switch (env->kind) {
    case TP_AMPI_IDLE:
        memcpy(&state, data, sizeof(state));
        learn(process, state, env->id != 0);
        break;
    case TP_AMPI_ASK:
        if (is_idle() && tp_ampi.connecting == 0 &&
            tp_list_is_empty(&tp_ampi.bridges)) {
            report(true);
        }
        break;
    case TP_AMPI_STUCK:
        send_table();
        break;
    default:
        take_table(env, data);
        break;
    }
}
