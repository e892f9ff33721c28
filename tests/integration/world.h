/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts on two servers of our own, and content to compare: for tests through the ICD. */
#ifndef TELPHER_TESTS_WORLD_H
#define TELPHER_TESTS_WORLD_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/** A context with a queue for each device; devices are of different servers. */
struct world {
    cl_context ctx;
    cl_device_id devices[2];
    cl_command_queue queues[2]; /**< in order */
    cl_command_queue loose_queues[2]; /**< out of order */
    unsigned count;
};

struct servers;
extern struct servers servers;
extern struct world one, both; /**< one server; two servers in one context */

#define ok(call) assert_int_equal((call), CL_SUCCESS)

/** Bytes that depend on @p seed and their place. */
void pattern(uint8_t *dst, size_t len, uint32_t seed);
uint8_t *pattern_new(size_t len, uint32_t seed);
/** Below a limit; each thread has numbers of its own. */
uint32_t any(uint32_t below);
void seed_any(uint32_t seed);
cl_mem buffer_new(const struct world *w, cl_mem_flags flags, size_t size, void *ptr);
/** Reads all of a buffer through a queue and compares. */
void expect_content(cl_command_queue q, cl_mem mem, const uint8_t *want, size_t len);

/** Result of `run` in worlds_run() when the driver lacks the feature. */
enum { WORLDS_SKIPPED = -77 };

/**
 * Starts two servers with whatever driver the machine has, opens both worlds, runs the
 * tests and ends all of it. argv[1], if there, says which tests.
 * @return exit status
 */
int worlds_run(int argc, char **argv, int (*run)(void));

/** The same for one test, in at most @p limit_s. @param argv of main() */
int worlds_run_test(const struct CMUnitTest *test, char **argv, unsigned limit_s);

/** Calls run(i) for @p count cases, each in a process of its own that exits with the result.
 *  @return exit status: 77 as soon as a case is skipped */
int worlds_run_apart(size_t count, int (*run)(size_t i));

#endif
