/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <telpher/root.h>

enum { TIME_S = 60 };

static void
be_rank(uint32_t rank, uint32_t size, const char *transport, const telpher_root *root,
        rank_fn fn)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;
    telpher_error err = {0};
    char text[64];

    alarm(TIME_S); /* a rank that hangs ends by a signal, which its parent sees */
    snprintf(text, sizeof(text), "%u", rank);
    setenv("TELPHER_RANK", text, 1);
    snprintf(text, sizeof(text), "%u", size);
    setenv("TELPHER_SIZE", text, 1);
    snprintf(text, sizeof(text), "127.0.0.1:%u", telpher_root_port(root));
    setenv("TELPHER_ROOT", text, 1);
    setenv("TELPHER_ROOT_BY", "launcher", 1);
    setenv("TELPHER_JOB", telpher_root_job(root), 1);
    params.transports = transport;
    params.timeout_ns = RANKS_TIME;
    if (telpher_context_create(&params, &ctx, &err) != TELPHER_OK) {
        fprintf(stderr, "rank %u: %s\n", rank, err.text);
        _Exit(2);
    }
    fn(ctx);
    telpher_context_destroy(ctx);
}

bool
ranks_run(uint32_t size, const char *transport, uint32_t killed, rank_fn fn)
{
    telpher_root *root = NULL;
    telpher_error err = {0};
    pid_t pids[64];
    bool good = true;

    if (telpher_root_start("127.0.0.1:0", size, NULL, RANKS_TIME, &root, &err) !=
        TELPHER_OK) {
        fprintf(stderr, "root: %s\n", err.text);
        return false;
    }
    fflush(NULL);
    for (uint32_t r = 0; r < size; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            be_rank(r, size, transport, root, fn);
            exit(0); /* so that leaks are looked for */
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        int status = 0;

        waitpid(pids[r], &status, 0);
        if (r == killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL
                        : !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "rank %u of %u over %s ended with %x\n", r, size,
                    transport != NULL ? transport : "any", (unsigned)status);
            good = false;
        }
    }
    telpher_root_stop(root);
    return good;
}

bool
ranks_have(const char *transport)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_context *ctx = NULL;

    params.transports = transport;
    if (telpher_context_create(&params, &ctx, NULL) != TELPHER_OK) {
        return false;
    }
    telpher_context_destroy(ctx);
    return true;
}
