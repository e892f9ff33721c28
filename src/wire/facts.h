/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts: a sequence of records with the driver's answers to queries. With them the client
 * answers the same queries without a round trip. docs/protocol.md section 6.
 */
#ifndef TELPHER_WIRE_FACTS_H
#define TELPHER_WIRE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

/** Kind of object that a fact describes; `index` and `sub` identify the object. */
enum tp_wire_fact_kind {
    TP_WIRE_FACT_PLATFORM = 1, /**< index: platform of the server */
    TP_WIRE_FACT_DEVICE = 2, /**< index: device of the server; sub: its platform */
    TP_WIRE_FACT_PROGRAM = 3, /**< the program as a whole */
    TP_WIRE_FACT_PROGRAM_DEVICE = 4, /**< index: device of the server (build info) */
    TP_WIRE_FACT_KERNEL = 5, /**< index: kernel of the program */
    TP_WIRE_FACT_KERNEL_ARG = 6, /**< index: kernel; sub: argument */
    TP_WIRE_FACT_KERNEL_DEVICE = 7, /**< index: kernel; sub: device of the server */
    /** index, sub: as DEVICE; param: image type; data: struct tp_wire_image_format each */
    TP_WIRE_FACT_IMAGE_FORMATS = 8,
};

enum { TP_WIRE_FACT_HEADER_BYTES = 24 };

/* Params of a KERNEL_DEVICE that OpenCL does not have, size_t each: limits of launches, where
 * the driver runs more than its answers allow. */
/** Work-items of a work-group; replaces CL_KERNEL_WORK_GROUP_SIZE. */
#define TP_WIRE_FACT_GROUP_RUNS UINT32_C(0x54500001)
/** [bytes] of local memory; replaces CL_DEVICE_LOCAL_MEM_SIZE. */
#define TP_WIRE_FACT_LOCAL_RUNS UINT32_C(0x54500002)

/** One record: the answer of one clGet…Info call. */
struct tp_wire_fact {
    uint16_t kind; /**< enum tp_wire_fact_kind */
    uint32_t index;
    uint32_t sub;
    uint32_t param; /**< the query's parameter name, as in the OpenCL headers */
    int32_t error; /**< CL_SUCCESS, or the driver's error */
    uint32_t len; /**< [bytes] of data */
    const uint8_t *data;
};

/** [bytes] of a record with @p len bytes of data: header, data, no padding. */
size_t tp_wire_fact_size(uint32_t len);
/** Writes one record; @p dst has room for tp_wire_fact_size(fact->len). */
void tp_wire_put_fact(uint8_t *dst, const struct tp_wire_fact *fact);
/**
 * Reads the record at *src and advances *src past it.
 * @return true; false at the end (*src == end) or if malformed (*src != end).
 */
bool tp_wire_get_fact(const uint8_t **src, const uint8_t *end,
                      struct tp_wire_fact *ret_fact);

/** Bits of CL_DEVICE_SVM_CAPABILITIES. */
enum { TP_WIRE_SVM_COARSE = 1, TP_WIRE_SVM_FINE = 2, TP_WIRE_SVM_ATOMICS = 8 };

/** True if the device's kernels use the memory of their process: SVM may have any address. */
static inline bool
tp_wire_svm_is_host(bool is_cpu, uint64_t native)
{
    return is_cpu && (native & TP_WIRE_SVM_FINE) != 0;
}

/**
 * @return what holds of a driver's shared virtual memory for clients of a server: coarse grain
 * everywhere, fine grain where memory is shared with it
 * @param features of both prefaces. @param native CL_DEVICE_SVM_CAPABILITIES
 */
static inline uint64_t
tp_wire_svm(uint64_t features, bool is_cpu, uint64_t native)
{
    uint64_t mask = 0;

    if ((features & TP_WIRE_FEATURE_SVM) != 0 && (native & TP_WIRE_SVM_COARSE) != 0) {
        mask = TP_WIRE_SVM_COARSE;
        if ((features & TP_WIRE_FEATURE_SHARED) != 0 &&
            tp_wire_svm_is_host(is_cpu, native)) {
            mask |= TP_WIRE_SVM_FINE | TP_WIRE_SVM_ATOMICS;
        }
    }
    return native & mask;
}

#endif
