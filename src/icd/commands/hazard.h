/* SPDX-License-Identifier: Apache-2.0 */
/* Orders commands that access the same host memory while READs into it are in progress. */
#ifndef TELPHER_ICD_COMMANDS_HAZARD_H
#define TELPHER_ICD_COMMANDS_HAZARD_H

#include "icd/commands/enqueue.h"

/* ---- hazard.c: hazards through host memory -------------------------------------------- */

/** A READ in progress into [lo, hi) of host memory. */
struct tp_icd_read_range {
    struct tp_list link;
    uintptr_t lo, hi;
    bool bulk; /**< its content arrives on the bulk stream */
    struct _cl_event *ev; /**< borrowed: the READ ends before it is freed */
    struct tp_list followers; /**< READs into the same memory that wait for it */
};

/**
 * Delays a WRITE that must not read host memory yet. It waits for READs in progress into
 * that memory, and for user events of its wait list: the program may fill the memory
 * before it sets them.
 */
struct tp_icd_gate {
    struct tp_list link;
    struct _cl_event **events; /**< held; [count] */
    size_t count;
    void (*open)(struct tp_icd_gate *gate); /**< under the lock, when count reaches 0 */
};

/* All functions below: under the lock. */
/** Registers a READ into [ptr, ptr + len). */
void tp_icd_read_range_add(struct tp_icd_read_range *range, struct _cl_event *ev,
                           const void *ptr, size_t len, bool bulk);
/**
 * Orders a READ into [ptr, ptr + len) before it is appended: it waits for READs in progress
 * into that memory whose content could arrive after its own.
 */
cl_int tp_icd_read_range_order(struct tp_icd_op *op, const void *ptr, size_t len,
                               bool bulk);
/** Ends a READ with its event; opens the gates that waited for it. */
void tp_icd_read_range_end(struct tp_icd_read_range *range);
/**
 * Fills in a gate for host memory [ptr, ptr + len) and a wait list. gate->count is 0 if the
 * content may be read now. @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY.
 */
cl_int tp_icd_gate_init(struct tp_icd_gate *gate, struct tp_icd_op *op, const void *ptr,
                        size_t len);
/** True if tp_icd_gate_init would give a count other than 0. */
bool tp_icd_gate_needed(const struct tp_icd_op *op, const void *ptr, size_t len);
/** Frees a gate; open is not called after this. */
void tp_icd_gate_fini(struct tp_icd_gate *gate);

#endif
