/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of kernel offload. */
#include <pthread.h>

#include "base/compiler.h"
#include "base/config/config.h"
#include "base/config/settings.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"

#define SETTINGS_OF struct tp_offload_settings

static const char *const modes[] = {"auto", "spawn", "split", NULL};
static const char *const idles[] = {"auto", "spin", "yield", "sleep", NULL};

static const struct tp_config_entry entries[] = {
#define SETTING TP_SETTING
#include "base/settings/offload.def"
#undef SETTING
};

static struct tp_offload_settings values;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
load(void)
{
    const struct tp_config_room rooms[] = {
        {"offload", entries, TP_ARRAY_LEN(entries), &values},
    };
    static struct tp_config *config; /* lives as long as the process */
    struct tp_error err = {0};

    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config) != TELPHER_OK) {
        tp_offload_world_abort("out of memory");
    }
    if (tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, &err) != TELPHER_OK) {
        tp_warn("offload", "%s", tp_error_text(&err));
    }
}

const struct tp_offload_settings *
tp_offload_settings(void)
{
    pthread_once(&once, load);
    return &values;
}
