/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of libtelpher-mdr. */
#include <stdio.h>

#include "base/compiler.h"
#include "base/config/config.h"
#include "base/config/settings.h"
#include "mdr/mdr_int.h"

#define SETTINGS_OF struct tp_mdr_settings

static const char *const balancers[] = {"none", "refine", "greedy", NULL};

static const struct tp_config_entry entries[] = {
#define SETTING TP_SETTING
#include "base/settings/mdr.def"
#undef SETTING
};

telpher_status
tp_mdr_settings_load(struct tp_mdr_settings *ret, telpher_error *err)
{
    const struct tp_config_room rooms[] = {
        {"mdr", entries, TP_ARRAY_LEN(entries), ret}};
    struct tp_config *config;
    struct tp_error wrong = {0};
    telpher_status status = tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config);

    if (status == TELPHER_OK) {
        status = tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, &wrong);
        (void)snprintf(ret->checkpoint, sizeof(ret->checkpoint), "%s",
                       status == TELPHER_OK ? ret->checkpoint_text : "");
        tp_config_destroy(config);
    }
    if (status != TELPHER_OK && err != NULL) {
        err->code = status;
        (void)snprintf(err->text, sizeof(err->text), "%s", tp_error_text(&wrong));
    }
    return status;
}
