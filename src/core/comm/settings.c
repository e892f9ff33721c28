/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the settings of a job of ranks and of its memory. */
#include "core/comm/settings.h"

#include "base/compiler.h"
#include "base/config/settings.h"

#define SETTINGS_OF struct tp_comm_settings

static const char *const root_by[] = {"launcher", "rank0", NULL};

const struct tp_config_entry tp_comm_entries[] = {
#define SETTING TP_SETTING
#include "base/settings/comm.def"
#undef SETTING
};
const size_t tp_comm_entry_count = TP_ARRAY_LEN(tp_comm_entries);

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
    status = tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, err);
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
