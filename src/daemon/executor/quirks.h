/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table of driver quirks: deviations from the OpenCL specification and their remedies.
 *
 * To add a driver quirk: add an enumerator, add its row to quirks.c with the driver, the
 * version seen, the symptom and the test that shows it, and call tp_exec_has_quirk() where
 * the remedy belongs. A remedy that is right for any driver has `match` TP_EXEC_ANY_DRIVER.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_QUIRKS_H
#define TELPHER_DAEMON_EXECUTOR_QUIRKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "device/opencl/api.h"

struct tp_exec;

enum tp_exec_quirk {
    TP_EXEC_QUIRK_NOT_THREAD_SAFE,
    TP_EXEC_QUIRK_LATE_CALLBACKS,
    TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS,
    TP_EXEC_QUIRK_FLUSH_ENDS_TOGETHER,
    TP_EXEC_QUIRK_ENDS_OUT_OF_TURN,
    TP_EXEC_QUIRK_UNHELD_FAILURE_CRASHES,
    TP_EXEC_QUIRK_FAILURE_NOT_REPORTED,
    TP_EXEC_QUIRK_FAILURE_WITHOUT_CODE,
    TP_EXEC_QUIRK_QUEUE_STUCK_AFTER_FAILURE,
    TP_EXEC_QUIRK_MARKER_WAITS_FOR_ALL,
    TP_EXEC_QUIRK_RECORD_READS_ARGUMENTS_LATE,
    TP_EXEC_QUIRK_MIGRATE_CRASHES,
    TP_EXEC_QUIRK_MIGRATE_WAITS_FOR_FAILED,
    TP_EXEC_QUIRK_FAILED_WAIT_IGNORED,
    TP_EXEC_QUIRK_KERNEL_RELEASED_LATE,
    TP_EXEC_QUIRK_BUILD_CACHE_RACES,
    TP_EXEC_QUIRK_BUILD_CACHE_ABORTS,
    TP_EXEC_QUIRK_BINARIES_COST_BUILDS,
    TP_EXEC_QUIRK_QUEUE_WAITS_FOR_ITSELF,
    TP_EXEC_QUIRK_LIMITS_TOO_STRICT,
    TP_EXEC_QUIRK_SUB_BUFFERS_IN_TURN,
    TP_EXEC_QUIRK_FILL_IMAGE_BLOCKS,
    TP_EXEC_QUIRK_STARTS_AT_ONCE,
    TP_EXEC_QUIRK_COUNT,
};

/** How a driver is recognised. */
enum tp_exec_match {
    TP_EXEC_ANY_DRIVER, /**< the remedy is applied to all drivers */
    TP_EXEC_PLATFORM_NAME, /**< CL_PLATFORM_NAME equals `name` */
    TP_EXEC_DEVICE_VENDOR, /**< CL_DEVICE_VENDOR_ID equals `vendor` */
    TP_EXEC_PROBED, /**< found at run time: tp_exec_found_quirk() */
};

/** A row of the table. All texts are static. */
struct tp_exec_quirk_row {
    const char *id; /**< for logs: "late-callbacks" */
    enum tp_exec_match match;
    const char *name;
    cl_uint vendor;
    const char *driver; /**< driver and version with the quirk */
    const char *symptom;
    const char *remedy;
    const char *where; /**< source of the remedy, from the top of the tree */
    const char *test; /**< test that fails without the remedy or shows the symptom */
};

/** @return the row of a quirk */
const struct tp_exec_quirk_row *tp_exec_quirk_row(enum tp_exec_quirk quirk);
/**
 * Finds the quirks of the session's driver and applies the remedies that change x->cl.
 * Call once, after the drivers are loaded and before other threads use x->cl.
 */
void tp_exec_quirks_init(struct tp_exec *x);
/** True if the session's driver has the quirk. Any thread. */
bool tp_exec_has_quirk(const struct tp_exec *x, enum tp_exec_quirk quirk);
/** Records a quirk that a probe has found. Reader only. */
void tp_exec_found_quirk(struct tp_exec *x, enum tp_exec_quirk quirk);
/** Prints the table for people: telpher-executor --quirks. */
void tp_exec_quirks_print(FILE *out);

#endif
