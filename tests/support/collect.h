/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are the ranks of a job: how they ended. */
#ifndef TESTS_SUPPORT_COLLECT_H
#define TESTS_SUPPORT_COLLECT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>

/**
 * Waits for all of them, as they end: nobody stays a zombie.
 * @param killed  the one that ends by SIGKILL, and must; UINT32_MAX = none
 * @param over    what they talk by, for the words
 * @return true if all others ended with status 0
 */
static inline bool
collect_ranks(const pid_t *pids, uint32_t size, uint32_t killed, const char *over)
{
    bool good = true;

    for (uint32_t ended = 0; ended < size; ended++) {
        int status = 0;
        pid_t pid = wait(&status);
        uint32_t r = 0;

        while (r < size && pids[r] != pid) {
            r++;
        }
        if (r == killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL
                        : !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "rank %u of %u over %s ended with %x\n", r, size, over,
                    (unsigned)status);
            good = false;
        }
    }
    return good;
}

#endif
