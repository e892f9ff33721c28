/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of libtelpher-ampi. */
#include "base/config/settings.h"
#include "ampi/process.h"
#include "base/config/config.h"
#include "base/trace/log.h"

#define SETTINGS_OF struct tp_ampi_settings

static const struct tp_config_entry entries[] = {
#define SETTING TP_SETTING
#include "base/settings/ampi.def"
#undef SETTING
};

bool
tp_ampi_settings_load(struct tp_ampi_settings *ret)
{
    const struct tp_config_room rooms[] = {
        {"ampi", entries, TP_ARRAY_LEN(entries), ret}};
    struct tp_config *config;
    struct tp_error wrong = {0};
    telpher_status status;

    if (tp_ampi.settings_loaded) {
        return true;
    }
    status = tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config);

    if (status == TELPHER_OK) {
        status = tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, &wrong);
        tp_config_destroy(config);
    }
    if (status != TELPHER_OK) {
        tp_error("ampi", "%s", tp_error_text(&wrong));
    }
    tp_ampi.settings_loaded = status == TELPHER_OK;
    return tp_ampi.settings_loaded;
}
