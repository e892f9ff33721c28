/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks of a job as processes, and collects their statuses. */
#include "ranks.h"
#include "../support/collect.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <telpher/root.h>

unsigned ranks_seconds = 200; /* a sanitizer, on a busy machine */

uint64_t ranks_root_ns = RANKS_TIME;
void (*ranks_in_root)(void);

/** Where the ranks of a run meet, in a process of its own: a thread beside fork() would leave
 *  its locks behind in the ranks. */
struct place {
    pid_t pid;
    int stop; /* closed to end it */
    uint16_t port;
    char job[TELPHER_JOB_TEXT_BYTES];
};

static void
be_root(uint32_t size, struct place *place, int tell, int stop)
{
    telpher_root *root = NULL;
    telpher_error err = {0};
    char c;

    if (telpher_root_start("127.0.0.1:0", size, NULL, ranks_root_ns, &root, &err) !=
        TELPHER_OK) {
        fprintf(stderr, "root: %s\n", err.text);
        exit(1);
    }
    place->port = telpher_root_port(root);
    memcpy(place->job, telpher_root_job(root), sizeof(place->job));
    if (ranks_in_root != NULL) {
        ranks_in_root();
    }
    MUST(write(tell, place, sizeof(*place)) == sizeof(*place));
    MUST(read(stop, &c, 1) == 0);
    telpher_root_stop(root);
    exit(0);
}

static void
place_create(uint32_t size, struct place *place)
{
    int tell[2], stop[2];
    pid_t pid;

    MUST(pipe(tell) == 0 && pipe(stop) == 0);
    pid = fork();
    if (pid == 0) {
        alarm(ranks_seconds + 10);
        close(stop[1]);
        be_root(size, place, tell[1], stop[0]);
    }
    close(tell[1]);
    close(stop[0]);
    MUST(read(tell[0], place, sizeof(*place)) == sizeof(*place));
    close(tell[0]);
    place->pid = pid;
    place->stop = stop[1];
}

static bool
place_destroy(struct place *place)
{
    int status = 1;

    close(place->stop);
    waitpid(place->pid, &status, 0);
    return status == 0;
}

static void
set_number(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    setenv(name, text, 1);
}

/** Body of the ranks of a run: one of the two functions. */
struct role {
    const char *transport;
    rank_fn fn;
    void (*bare)(uint32_t rank);
};

static void
join(uint32_t rank, const struct role *role)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    telpher_error err = {0};

    params.transports = role->transport;
    params.timeout_ns = RANKS_TIME;
    if (telpher_context_create(&params, &ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "rank %u: %s\n", rank, err.text);
        _Exit(2);
    }
    role->fn(ctx);
    telpher_context_destroy(ctx);
}

static void
be_rank(uint32_t rank, uint32_t size, const struct place *place,
        const struct role *role)
{
    char text[32];

    alarm(
        ranks_seconds); /* a rank that hangs ends by a signal, which its parent sees */
    close(place->stop);
    set_number("TELPHER_RANK", rank);
    set_number("TELPHER_SIZE", size);
    snprintf(text, sizeof(text), "127.0.0.1:%u", place->port);
    setenv("TELPHER_ROOT", text, 1);
    setenv("TELPHER_ROOT_BY", "launcher", 1);
    setenv("TELPHER_JOB", place->job, 1);
    if (role->bare != NULL) {
        role->bare(rank);
    } else {
        join(rank, role);
    }
}

static bool
run(uint32_t size, uint32_t killed, const struct role *role)
{
    struct place place;
    pid_t pids[64];
    bool good;

    fflush(NULL);
    place_create(size, &place);
    for (uint32_t r = 0; r < size; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            be_rank(r, size, &place, role);
            exit(0); /* so that leaks are looked for */
        }
    }
    good = collect_ranks(pids, size, killed,
                         role->transport != NULL ? role->transport : "any");
    return place_destroy(&place) && good;
}

bool
ranks_run(uint32_t size, const char *transport, uint32_t killed, rank_fn fn)
{
    const struct role role = {.transport = transport, .fn = fn};

    return run(size, killed, &role);
}

bool
ranks_run_bare(uint32_t size, uint32_t killed, void (*fn)(uint32_t rank))
{
    const struct role role = {.bare = fn};

    return run(size, killed, &role);
}

bool
ranks_have(const char *transport)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    int status = 1;
    pid_t pid = fork(); /* a GPU's driver that was used is none in children */

    if (pid == 0) {
        params.transports = transport;
        if (telpher_context_create(&params, &ctx, NULL) != TELPHER_OK) {
            _Exit(1);
        }
        telpher_context_destroy(ctx);
        _Exit(0);
    }
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status == 0;
}
