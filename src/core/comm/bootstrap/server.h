/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap server of a job, behind include/telpher/root.h; docs/comm.md section
 * 2. */
#ifndef TELPHER_CORE_COMM_BOOTSTRAP_SERVER_H
#define TELPHER_CORE_COMM_BOOTSTRAP_SERVER_H

#include <telpher/root.h>

#include "base/error.h"
#include "base/os/clock.h"

enum {
    TP_BOOTSTRAP_JOB_BYTES = 16, /* of the secret */
    TP_BOOTSTRAP_PART_MAX = 64 << 10, /* [bytes] that a rank gives to one gather */
    TP_BOOTSTRAP_RANKS_MAX = 1 << 16,
};

/** First message of a rank; little-endian, laid out as in memory. */
struct tp_bootstrap_server_hello {
    uint8_t magic[8]; /**< TP_BOOTSTRAP_MAGIC */
    uint8_t job[TP_BOOTSTRAP_JOB_BYTES];
    uint32_t rank, size;
};
#define TP_BOOTSTRAP_MAGIC "TELPROOT"

/** Head of each answer. OK: len bytes of the ranks' data follow; else an error text. */
struct tp_bootstrap_server_answer {
    int32_t status;
    uint32_t reserved;
    uint64_t len;
};

telpher_status tp_bootstrap_server_start(const char *address, uint32_t size,
                                         const char *job, tp_ns timeout,
                                         telpher_root **ret_root, struct tp_error *err);

#endif
