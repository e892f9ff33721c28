/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap: how the ranks of a job exchange their addresses. */
#ifndef TELPHER_CORE_COMM_BOOTSTRAP_BOOTSTRAP_H
#define TELPHER_CORE_COMM_BOOTSTRAP_BOOTSTRAP_H

#include "core/comm/peer.h"

/* ---- finding each other ---- */

/** This rank, and the addresses of the others; everything is filled by tp_bootstrap_open. */
struct tp_bootstrap {
    uint32_t rank, size;
    telpher_status (*gather)(struct tp_bootstrap *boot, const void *mine, size_t len,
                             void *all, struct tp_error *err);
    void (*close)(struct tp_bootstrap *boot);
    const telpher_bootstrap *user;
    const telpher_two_sided *two_sided; /* the caller's, or NULL */
    struct tp_conn *conn; /* to the root */
    struct telpher_root *root; /* ours, if we are it */
    tp_ns deadline;
};

struct tp_comm_settings;
telpher_status tp_bootstrap_open(const telpher_context_params *params,
                                 const struct tp_comm_settings *settings,
                                 struct tp_bootstrap *boot, struct tp_error *err);

#endif
