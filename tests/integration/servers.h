/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of our own for tests: telpherd on Unix sockets in a folder that goes with us. */
#ifndef TELPHER_TESTS_SERVERS_H
#define TELPHER_TESTS_SERVERS_H

#include <sys/types.h>

enum { SERVERS_MAX = 4, SERVERS_EXECUTORS_MAX = 64 };

/** Servers started by servers_start. */
struct servers {
    char dir[64];
    pid_t pid[SERVERS_MAX];
    unsigned count;
};

/**
 * Starts @p count servers with the drivers of the present environment, then sets the
 * environment so that this process sees their devices through our ICD alone.
 * @return 0, or -1 with the reason on stderr.
 */
int servers_start(struct servers *servers, unsigned count);
/**
 * Ends one, unless it is dead, and starts it anew at its address, with the drivers of folder
 * @p vendors (NULL: the system's) and the rest of the present environment. @return 0, or -1 with
 * the reason on stderr
 */
int servers_restart(struct servers *servers, unsigned i, const char *vendors);
/** Finds the processes that run the sessions of server @p i, oldest first. @return how many */
unsigned servers_find_executors(const struct servers *servers, unsigned i,
                                pid_t found[SERVERS_EXECUTORS_MAX]);
/** Kills them. @return how many; 0: none could be */
unsigned servers_kill_executors(const struct servers *servers, unsigned i);
/** Runs a case in a child that reaches @p addresses, in at most @p limit_s. @return its exit status,
 *  0 if the case returns; 128: it was killed */
int servers_run_case(void (*what)(void), const char *addresses, unsigned limit_s);
/** Ends them and removes the folder. */
void servers_stop(struct servers *servers);

#endif
