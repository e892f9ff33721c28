/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that commands under way will write: order through it. */
#ifndef TELPHER_ICD_COMMANDS_HAZARD_H
#define TELPHER_ICD_COMMANDS_HAZARD_H

#include "icd/commands/enqueue.h"

/* ---- hazard.c: host memory that commands under way will write ------------------------- */

/** A READ under way into [lo, hi) of host memory. */
struct tp_icd_landing {
    struct tp_list link;
    uintptr_t lo, hi;
    bool bulk; /**< its content comes on the bulk stream */
    struct _cl_event *ev; /**< borrowed: ended before it goes */
    struct tp_list followers; /**< READs into the same memory that wait for it */
};

/**
 * Content of a WRITE that must not be taken from host memory yet: it waits for READs under
 * way into that memory, or for user events of its wait list, after which the program may
 * have filled it.
 */
struct tp_icd_gate {
    struct tp_list link;
    struct _cl_event **events; /**< held; [count] */
    size_t count;
    void (*open)(struct tp_icd_gate *gate); /**< under the lock, when count fell to 0 */
};

/** All under the lock. */
void tp_icd_landing_add(struct tp_icd_landing *landing, struct _cl_event *ev,
                        const void *ptr, size_t len, bool bulk);
/**
 * Before a READ into [ptr, ptr + len) is put: makes it wait until READs under way into that
 * memory have landed, if their content could come after its own.
 */
cl_int tp_icd_landing_order(struct tp_icd_op *op, const void *ptr, size_t len,
                            bool bulk);
/** The event of a landing has ended: opens the gates that waited for it. */
void tp_icd_landing_end(struct tp_icd_landing *landing);
/**
 * Fills in a gate for host memory [ptr, ptr + len) and a wait list. Gives gate->count = 0
 * if the content may be taken now. @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY.
 */
cl_int tp_icd_gate_init(struct tp_icd_gate *gate, struct tp_icd_op *op, const void *ptr,
                        size_t len);
/** True if a gate is needed for that. */
bool tp_icd_gate_needed(const struct tp_icd_op *op, const void *ptr, size_t len);
/** The gate is not needed any more; open will not be called. */
void tp_icd_gate_fini(struct tp_icd_gate *gate);

#endif
