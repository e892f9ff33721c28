/* SPDX-License-Identifier: Apache-2.0 */
/* Picks a process of two servers, and kills it at the chosen moment. */
#include "kill.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "../integration/servers.h"
#include "plan.h"

enum {
    SERVER_PERCENT = 20, /* a broker takes long to start again */
    SESSIONS_PERCENT = 20,
    BUILDING_PERCENT = 10,
    AT_ONCE_PERCENT = 30,
    GAP_PERCENT = 50,
    DELAY_BITS = 14, /* delays up to 2^14 us, short ones as often as long ones */
    GAP_BITS = 12,
    BUILDING_US = 100000
};

void
kill_choose(struct kill *kill, uint64_t seed, unsigned op_count)
{
    uint64_t rng = plan_mix(seed, 3000);
    unsigned what = (unsigned)plan_below(&rng, 100);

    *kill = (struct kill){.what = what < SERVER_PERCENT ? KILL_SERVER
                                  : what < SERVER_PERCENT + SESSIONS_PERCENT
                                      ? KILL_SESSIONS
                                      : KILL_EXECUTORS,
                          .server = (unsigned)plan_below(&rng, 2),
                          .youngest_first = plan_chance(&rng, 50),
                          .while_building = plan_chance(&rng, BUILDING_PERCENT),
                          .op = (unsigned)plan_below(&rng, op_count + 1)};
    if (plan_chance(&rng, GAP_PERCENT)) {
        kill->gap_us = 1U << plan_below(&rng, GAP_BITS);
    }
    if (kill->while_building) {
        kill->delay_us = (unsigned)plan_below(&rng, BUILDING_US);
    } else if (!plan_chance(&rng, AT_ONCE_PERCENT)) {
        kill->delay_us =
            (unsigned)plan_below(&rng, (size_t)1 << (1 + plan_below(&rng, DELAY_BITS)));
    }
}

void
kill_print(const struct kill *kill, char *dst, size_t cap)
{
    char when[32] = "while building";
    char what[64] = "executors of both sessions";

    if (!kill->while_building) {
        snprintf(when, sizeof(when), "before op %u", kill->op);
    }
    if (kill->what != KILL_SESSIONS) {
        snprintf(what, sizeof(what), "%s of server %u",
                 kill->what == KILL_SERVER ? "broker and executors" : "executors",
                 kill->server);
    }
    snprintf(dst, cap, "%s killed %s, after %u us, %s first, with %u us between them",
             what, when, kill->delay_us, kill->youngest_first ? "youngest" : "oldest",
             kill->gap_us);
}

static void
nap(unsigned us)
{
    if (us != 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
    }
}

/** Lists what dies, oldest first. @return how many */
static unsigned
find_victims(const struct kill *kill, pid_t found[SERVERS_EXECUTORS_MAX])
{
    const struct servers servers = {.pid = {kill->brokers[0], kill->brokers[1]},
                                    .count = 2};
    pid_t others[SERVERS_EXECUTORS_MAX];

    if (kill->what != KILL_SESSIONS) {
        return servers_find_executors(&servers, kill->server, found);
    }
    /* A session begins, and then its copies on the other server, before the next session does:
       the first executor of the first server and the second one of the second. */
    if (servers_find_executors(&servers, 0, found) != 2 ||
        servers_find_executors(&servers, 1, others) != 2) {
        return 0;
    }
    found[1] = others[1];
    return 2;
}

static void *
strike(void *arg)
{
    const struct kill *k = arg;
    pid_t victims[SERVERS_EXECUTORS_MAX];
    unsigned count;

    nap(k->delay_us);
    count = find_victims(k, victims);
    if (k->what == KILL_SERVER) {
        (void)kill(k->brokers[k->server], SIGKILL);
        nap(k->gap_us);
    }
    for (unsigned i = 0; i < count; i++) {
        (void)kill(victims[k->youngest_first ? count - 1 - i : i], SIGKILL);
        nap(k->gap_us);
    }
    return NULL;
}

void
kill_begin(struct kill *kill)
{
    if (kill->brokers[0] == 0) {
        return;
    }
    kill->runs = (kill->delay_us != 0 || kill->gap_us != 0) &&
                 pthread_create(&kill->thread, NULL, strike, kill) == 0;
    if (!kill->runs) { /* in the program's thread, between two of its calls */
        (void)strike(kill);
    }
}

void
kill_end(struct kill *kill)
{
    if (kill->runs) {
        pthread_join(kill->thread, NULL);
    }
    kill->runs = false;
}
