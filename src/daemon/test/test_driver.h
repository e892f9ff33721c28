/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a scene whose daemon has the test driver, which writes down its calls. */
#ifndef TELPHER_DAEMON_TEST_TEST_DRIVER_H
#define TELPHER_DAEMON_TEST_TEST_DRIVER_H

#include <stdio.h>

#include "daemon/test/test_share.h"

/** As test_open_scene, in a daemon started with a variable for the driver; NULL = none. */
int test_open_driver_scene(void **state, const char *variable, const char *value);
int test_close_driver_scene(void **state);
/** Later commands of the scene use a new queue. */
void test_use_new_queue(struct test_scene *c, uint64_t properties);
/** The log of the test driver in the one executor; the caller closes it. */
FILE *test_driver_log(void);
/** Counts the calls of a function in that log. */
unsigned test_driver_calls(const char *function);

#endif
