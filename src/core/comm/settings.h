/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a job of ranks. */
#ifndef TELPHER_CORE_COMM_SETTINGS_H
#define TELPHER_CORE_COMM_SETTINGS_H

#include "base/config/config.h"
#include "core/comm/mem/mem.h"

struct tp_comm_settings {
    struct tp_config_list transports; /* in the order they are tried; none = all */
    uint64_t start_ns, leave_ns, lost_ns;
    bool shm_cma;
    bool direct;
    bool export_chunks;
    uint64_t kept_max; /* unexpected messages of a rank, at most */
    uint64_t direct_min; /* [bytes]; 0 = as measured */
    uint64_t net_direct_min; /* [bytes]; 0 = never */
    char *rank, *size; /* "" = not set */
    char *root, *job;
    int root_by; /* 0: the launcher, 1: rank 0 */
};

extern const struct tp_config_entry tp_comm_entries[];
extern const size_t tp_comm_entry_count;

/** Loads defaults, the file, the environment, then @p transports if it is not NULL.
 *  @return INVALID, with the fix in err */
telpher_status tp_comm_settings_load(struct tp_comm_settings *comm,
                                     struct tp_mems_settings *mems,
                                     const char *transports,
                                     struct tp_config **ret_config,
                                     struct tp_error *err);

#endif
