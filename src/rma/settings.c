/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of libtelpher-rma. */
#include <pthread.h>

#include <telpher/server.h>

#include "base/compiler.h"
#include "base/config/config.h"
#include "base/config/settings.h"
#include "rma/rma_int.h"

#define SETTINGS_OF struct tp_rma_settings

static const char *const checks[] = {"none", "lanes", "races", "all", NULL};

static const struct tp_config_entry entries[] = {
#define SETTING TP_SETTING
#include "base/settings/rma.def"
#undef SETTING
};

static struct tp_rma_settings values;
static struct tp_error wrong; /* the first invalid setting */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
load(void)
{
    const struct tp_config_room rooms[] = {
        {"rma", entries, TP_ARRAY_LEN(entries), &values},
    };
    static struct tp_config *config; /* lives as long as the process */

    tp_settings_configure_log();
    (void)telpher_config_get(
        "LOG"); /* libtelpher warns of unknown names, once for both */
    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config) != TELPHER_OK) {
        values.timeout_ns = (uint64_t)60 * 1000000000;
        values.stack_bytes = 128 << 10;
        return;
    }
    (void)tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, &wrong);
}

const struct tp_rma_settings *
tp_rma_settings(void)
{
    pthread_once(&once, load);
    return &values;
}

const char *
tp_rma_settings_wrong(void)
{
    (void)tp_rma_settings();
    return wrong.code == TELPHER_OK ? NULL : tp_error_text(&wrong);
}
