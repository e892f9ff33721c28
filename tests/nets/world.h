/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of ranks that has nothing but a transport of messages: processes or threads, addresses
 * exchanged through memory they share. Each rank runs a function; a rank that fails prints
 * why and ends the test program's run.
 */
#ifndef TELPHER_TESTS_NETS_WORLD_H
#define TELPHER_TESTS_NETS_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/comm/rndv/rndv.h"

enum { RANKS_MAX = 8, TIME_S = 160 }; /* a sanitizer, on a busy machine */

struct world;

/** A test's callbacks; a NULL one counts or drops its event. */
struct hooks {
    void (*on_message)(struct world *w, uint32_t from, const void *header,
                       size_t header_len, const void *data, size_t len);
    void (*on_rndv)(struct world *w, uint32_t from, const void *header,
                    size_t header_len, uint64_t len, struct tp_net_rndv *bulk);
    void (*on_lost)(struct world *w, uint32_t peer, telpher_status why);
};

/** Memory shared by all ranks. */
struct shared {
    uint8_t addresses[RANKS_MAX][TP_NET_ADDRESS_MAX];
    size_t address_len[RANKS_MAX];
    _Atomic uint32_t came; /* to the barrier, since the beginning */
    _Atomic uint32_t words[64]; /* the test's */
    _Atomic uint64_t numbers[8];
};

/** One rank. */
struct world {
    uint32_t rank, size;
    struct tp_net *net;
    const struct tp_net_ops *ops;
    struct shared *shared;
    const struct hooks *hooks;
    void *user;
    uint32_t barriers;
    unsigned lost[RANKS_MAX]; /* times that on_lost was called */
    telpher_status why[RANKS_MAX];
    uint64_t messages; /* seen, where there is no hook */
};

struct world_params {
    const char *transport;
    uint32_t size;
    bool threads; /* not processes */
    uint32_t killed; /* rank that ends by SIGKILL; UINT32_MAX: none */
    tp_ns lost_after;
    bool copies; /* as of tp_net_params */
    const struct hooks *hooks;
    void (*fn)(struct world *w);
};

/** @return true if all ranks ended as they should */
bool world_run(const struct world_params *params);

/** The transport of that name, or NULL. */
const struct tp_net_ops *world_ops(const char *name);

/** True if the transport can be used here. */
bool world_has(const char *name);

/** Progresses once; gives the processor away if nothing happens. */
unsigned world_step(struct world *w);
/** Waits until all ranks are here, with progress. */
void world_barrier(struct world *w);
void world_connect(struct world *w, uint32_t peer);
/** Sends, with progress where there is no room. */
void world_send(struct world *w, uint32_t peer, const void *header, size_t header_len,
                const void *data, size_t len);
/** For tests that end ranks in their own way. */
_Noreturn void world_fail(struct world *w, const char *file, int line,
                          const char *what);

#define MUST(w, cond)                                                                  \
    do {                                                                               \
        if (!(cond)) {                                                                 \
            world_fail(w, __FILE__, __LINE__, #cond);                                  \
        }                                                                              \
    } while (0)

/** Waits until @p cond, with progress. */
#define UNTIL(w, cond)                                                                 \
    do {                                                                               \
        tp_ns until_ = tp_clock_deadline((TIME_S / 2) * TP_CLOCK_S);                   \
        while (!(cond)) {                                                              \
            if (world_step(w) == 0 && tp_clock_passed(until_)) {                       \
                world_fail(w, __FILE__, __LINE__, "in time: " #cond);                  \
            }                                                                          \
        }                                                                              \
    } while (0)

#endif
