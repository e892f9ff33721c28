/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: the common header of all objects, and answers to queries. */
#ifndef TELPHER_ICD_OBJECTS_OBJECT_H
#define TELPHER_ICD_OBJECTS_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "icd/cl.h"

/** Kind of a handle, checked before use: a wrong handle is an error, not a crash. */
enum tp_icd_kind {
    TP_ICD_PLATFORM = 0x54500001,
    TP_ICD_DEVICE,
    TP_ICD_CONTEXT,
    TP_ICD_QUEUE,
    TP_ICD_MEM,
    TP_ICD_PROGRAM,
    TP_ICD_KERNEL,
    TP_ICD_EVENT,
    TP_ICD_SAMPLER,
    TP_ICD_COMMANDS, /**< a command buffer */
    TP_ICD_DEAD = 0x54500dad, /**< released: seen through a stale handle, if readable */
};

/**
 * First member of every object that has a handle. The ICD loader uses the first word.
 *
 * Two counts: `refs` is OpenCL's (retain, release, REFERENCE_COUNT). `holds` counts the
 * internal objects and commands that need it, plus one while refs > 0. When holds falls to
 * 0, the object is freed and RELEASE is sent.
 */
struct tp_icd_object {
    const cl_icd_dispatch *dispatch;
    void *dispatch_data; /**< reserved for loader-managed dispatch (cl_khr_icd 2) */
    uint32_t kind; /**< enum tp_icd_kind */
    _Atomic uint32_t refs;
    _Atomic uint32_t holds;
    uint64_t id; /**< on the wire; 0: has none */
    void (*destroy)(struct tp_icd_object *obj); /**< called once, no lock held */
};

/* ---- object.c ----------------------------------------------------------------- */

/** Sets the members, refs = holds = 1. */
void tp_icd_object_init(struct tp_icd_object *obj, enum tp_icd_kind kind, uint64_t id,
                        void (*destroy)(struct tp_icd_object *obj));
/** @return the handle if it is a live object of that kind, else NULL. */
void *tp_icd_check(const void *handle, enum tp_icd_kind kind);
void tp_icd_hold(struct tp_icd_object *obj);
/** Not under tp_icd.lock: may destroy. NULL is fine. */
void tp_icd_drop(struct tp_icd_object *obj);
/** As tp_icd_drop, from under tp_icd.lock: if it was the last, the object is destroyed
 *  when the lock is released (by tp_icd_unlock). */
void tp_icd_drop_locked(struct tp_icd_object *obj);
/** Stores @p err in *@p errcode_ret unless that is NULL. */
void tp_icd_set_error(cl_int *errcode_ret, cl_int err);
/** Implement OpenCL's retain and release. */
void tp_icd_retain(struct tp_icd_object *obj);
void tp_icd_release(struct tp_icd_object *obj);

/**
 * Answers a query by the rules of clGet…Info: size checks, copy, size_ret.
 * @return CL_SUCCESS, or CL_INVALID_VALUE if value != NULL and value_size is too small.
 */
cl_int tp_icd_answer(size_t value_size, void *value, size_t *size_ret, const void *src,
                     size_t len);
#define TP_ICD_ANSWER(type, expr)                                                      \
    tp_icd_answer(value_size, value, size_ret, &(type){expr}, sizeof(type))

#endif
