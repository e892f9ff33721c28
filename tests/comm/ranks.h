/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a function in several processes that are the ranks of one job. */
#ifndef TESTS_COMM_RANKS_H
#define TESTS_COMM_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <telpher/context.h>
#include <telpher/mem.h>

/** [ns] that a call of a test may take: far more than it needs, also where a sanitizer gets a
 *  tenth of one processor. A rank that takes longer hangs. */
#define RANKS_TIME UINT64_C(80000000000)

/** Ends this rank with a line when something is not as it must be. */
#define MUST(cond)                                                                     \
    do {                                                                               \
        if (!(cond)) {                                                                 \
            fprintf(stderr, "%s:%d: rank %s: not so: %s\n", __FILE__, __LINE__,        \
                    getenv("TELPHER_RANK"), #cond);                                    \
            _Exit(1);                                                                  \
        }                                                                              \
    } while (0)

/** MUST for statuses, which it prints. */
#define IS(call, expected)                                                             \
    do {                                                                               \
        telpher_status is_ = (call);                                                   \
        if (is_ != (expected)) {                                                       \
            fprintf(stderr, "%s:%d: rank %s: %s is %s\n", __FILE__, __LINE__,          \
                    getenv("TELPHER_RANK"), #call, telpher_status_name(is_));          \
            _Exit(1);                                                                  \
        }                                                                              \
    } while (0)

#define OK(call) IS(call, TELPHER_OK)

/** [s] that a rank may take: one that hangs is ended by a signal. 200 unless a test that
 *  takes longer sets it. */
extern unsigned ranks_seconds;

/** Time for all ranks to come to the root: RANKS_TIME unless a test sets it. [ns] */
extern uint64_t ranks_root_ns;
/** Called in the root's process once it listens; NULL = nothing. */
extern void (*ranks_in_root)(void);

/** Body of a rank; only MUST reports a failure. */
typedef void (*rank_fn)(telpher_context *ctx);

/**
 * Runs @p fn in @p size ranks that reach each other by @p transport, NULL = any.
 * @param killed  rank that ends itself by SIGKILL and is expected to; UINT32_MAX = none.
 * @return true if all others ended well
 */
bool ranks_run(uint32_t size, const char *transport, uint32_t killed, rank_fn fn);

/** The same for ranks without a context: the environment is set as by a launcher. */
bool ranks_run_bare(uint32_t size, uint32_t killed, void (*fn)(uint32_t rank));

/** True if there is such a transport, and it works here. */
bool ranks_have(const char *transport);

/** The final status of a call: waits for its request if the call began one. */
static inline telpher_status
ranks_finish(telpher_status status, telpher_request **req)
{
    return status == TELPHER_IN_PROGRESS ? telpher_request_wait(*req, RANKS_TIME, NULL)
                                         : status;
}

/** True if this machine, which all ranks are on, has a kind of memory. */
static inline bool
ranks_have_memory(telpher_context *ctx, enum telpher_mem_kind kind)
{
    void *ptr = NULL;
    telpher_status status = telpher_mem_alloc(ctx, kind, 1, &ptr);

    if (status == TELPHER_ERR_UNSUPPORTED) {
        return false;
    }
    OK(status);
    OK(telpher_mem_free(ctx, ptr));
    return true;
}

/** The transport that main() is told to test by. Where it does not work the program ends,
 *  skipped. */
static inline const char *
ranks_transport(int argc, char **argv)
{
    const char *transport = argc > 1 ? argv[1] : "shm";

    setenv("TELPHER_RANK", "alone", 1);
    unsetenv("TELPHER_ROOT");
    if (!ranks_have(transport)) {
        printf("skipped: transport %s does not work here\n", transport);
        exit(77);
    }
    return transport;
}

#endif
