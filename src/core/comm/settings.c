/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a job of ranks: the launcher's, and the user's. */
#include "core/comm/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"

#define FIELD(member) .offset = offsetof(struct tp_comm_settings, member)

static const char *const root_by[] = {"launcher", "rank0", NULL};

const struct tp_config_entry tp_comm_entries[] = {
    {.name = "TRANSPORTS",
     .default_text = "",
     .help = "how ranks may reach each other, in the order of preference; empty = shm, "
             "tcp",
     .parser = &tp_config_words,
     FIELD(transports)},
    {.name = "START_TIMEOUT",
     .default_text = "60s",
     .help = "time for all ranks of a job to come",
     .parser = &tp_config_duration,
     .min = 1000000,
     .max = INT64_MAX,
     FIELD(start_ns)},
    {.name = "LEAVE_TIMEOUT",
     .default_text = "60s",
     .help = "a rank that leaves waits so long for others to take what it sent",
     .parser = &tp_config_duration,
     .max = INT64_MAX,
     FIELD(leave_ns)},
    {.name = "LOST_AFTER",
     .default_text = "1s",
     .help = "a rank that died is noticed within this time",
     .parser = &tp_config_duration,
     .min = 10000000,
     .max = INT64_MAX,
     FIELD(lost_ns)},
    {.name = "KEPT_MAX",
     .default_text = "1048576",
     .help = "announcements of one rank that are kept until somebody wants what they "
             "announce; a rank that sends more is given up",
     .parser = &tp_config_u64,
     .min = 64,
     .max = UINT32_MAX,
     FIELD(kept_max)},
    {.name = "SHM_CMA",
     .default_text = "yes",
     .help = "large data between ranks of a machine is read from the other process's "
             "memory where that is allowed",
     .parser = &tp_config_bool,
     FIELD(shm_cma)},
    {.name = "DIRECT",
     .default_text = "yes",
     .help =
         "ranks of one machine copy out of each other's device memory where drivers "
         "let them; no: always through host memory",
     .parser = &tp_config_bool,
     FIELD(direct)},
    {.name = "DIRECT_MIN",
     .default_text = "0",
     .help =
         "device memory of at least so many bytes is copied so, less goes through host "
         "memory on both sides; 0 = by what copies of a device cost when it is first "
         "used",
     .parser = &tp_config_size,
     .max = INT64_MAX,
     FIELD(direct_min)},
    {.name = "NET_DIRECT_MIN",
     .default_text = "0",
     .help =
         "device memory of at least so many bytes goes straight from and to the device "
         "where a transport can (ucx, with a UCX that knows the device); 0 = always in "
         "pieces through host memory",
     .parser = &tp_config_size,
     .max = INT64_MAX,
     FIELD(net_direct_min)},
    {.name = "LEND",
     .default_text = "yes",
     .help =
         "ranks of one machine map each other's staging chunks; no: what is in them is "
         "sent like other data",
     .parser = &tp_config_bool,
     FIELD(lend)},
    {.name = "RANK",
     .default_text = "",
     .help = "number of this process in its job; a launcher sets it",
     .parser = &tp_config_string,
     FIELD(rank)},
    {.name = "SIZE",
     .default_text = "",
     .help = "processes of the job; a launcher sets it",
     .parser = &tp_config_string,
     FIELD(size)},
    {.name = "ROOT",
     .default_text = "",
     .help = "host:port where ranks meet at start; a launcher sets it",
     .parser = &tp_config_string,
     FIELD(root)},
    {.name = "ROOT_BY",
     .default_text = "rank0",
     .help = "who listens at the root: launcher, or rank0 itself",
     .parser = &tp_config_choice,
     .choices = root_by,
     FIELD(root_by)},
    {.name = "JOB",
     .default_text = "",
     .help =
         "the job's secret, 32 hexadecimal digits, the same in all ranks; a launcher "
         "sets it",
     .parser = &tp_config_string,
     FIELD(job)},
};
const size_t tp_comm_entry_count = TP_ARRAY_LEN(tp_comm_entries);

/* Other variables are none of our business: they are looked at by whoever owns them. */
static telpher_status
load_room(struct tp_config *config, const struct tp_config_entry *entries, size_t count,
          struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    for (size_t i = 0; i < count && status == TELPHER_OK; i++) {
        char name[64];
        const char *value;

        snprintf(name, sizeof(name), "TELPHER_%s", entries[i].name);
        value = getenv(name);
        if (value != NULL) {
            status = tp_config_set(config, entries[i].name, value, name, err);
        }
    }
    return status;
}

telpher_status
tp_comm_settings_load(struct tp_comm_settings *comm, struct tp_mems_settings *mems,
                      const char *transports, struct tp_config **ret_config,
                      struct tp_error *err)
{
    const struct tp_config_room rooms[] = {
        {"comm", tp_comm_entries, tp_comm_entry_count, comm},
        {"mem", tp_mems_entries, tp_mems_entry_count, mems},
    };
    struct tp_config *config;
    telpher_status status = tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config);

    if (status != TELPHER_OK) {
        return status;
    }
    status = load_room(config, tp_comm_entries, tp_comm_entry_count, err);
    if (status == TELPHER_OK) {
        status = load_room(config, tp_mems_entries, tp_mems_entry_count, err);
    }
    if (status == TELPHER_OK && transports != NULL) {
        status = tp_config_set(config, "TRANSPORTS", transports, "params", err);
    }
    if (status != TELPHER_OK) {
        tp_config_destroy(config);
        return status;
    }
    *ret_config = config;
    return TELPHER_OK;
}
