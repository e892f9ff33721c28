/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers with a build cache of their own, seen from outside, and sessions, each a process
 * of its own: the test program again, with --client. An entry that was used has a new time
 * of modification.
 */
#ifndef TELPHER_TESTS_CACHE_FOLDER_H
#define TELPHER_TESTS_CACHE_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ENTRIES_MAX = 64, WAIT_MS = 20000, KEY_CHARS = 64 };

/** In a session, which is outside of any test. */
#define need(what)                                                                     \
    do {                                                                               \
        if (!(what)) {                                                                 \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                         \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)
#define ok(call) need((call) == CL_SUCCESS)

/** The folder of the test, and the cache of our user in it. */
extern char top[64], room[128];

/** Entries at some moment. */
struct seen {
    char name[ENTRIES_MAX][KEY_CHARS + 1];
    struct timespec used[ENTRIES_MAX];
    int count;
};

/** Starts a server with a cache in a folder of its own. As cmocka's group setup; gives the
 *  struct servers. */
int cache_setup(void **state);
/** Ends it and removes the folder. */
int cache_teardown(void **state);

/** Looks at the entries. */
void look(struct seen *seen);
/** @return how many of the entries before were used until after. */
int count_used(const struct seen *before, const struct seen *after);
/** Waits until no executor is left: they write when their clients are gone. @return looks,
 *  each after 1 ms or, on a busy machine, more */
int wait_over(void);
/** Waits for that, and gives the entries, of which there must be @p count. */
void wait_entries(int count, struct seen *seen);
/** Runs a session, "--client A B", in the folder. @return its exit status */
int run_client(const char *a, const char *b);

#endif
