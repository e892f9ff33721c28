/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of the ICD, once at the first call. */
#include "icd/icd_int.h"
#include "icd/session/shared_memory.h"

#include "base/compiler.h"
#include "base/config/config.h"
#include "base/config/settings.h"
#include "base/os/spin.h"
#include "base/trace/log.h"

static const char *const platform_names[] = {"telpher", "native", NULL};
static const char *const peer_choices[] = {"auto", "off", "tcp", NULL};
static const char *const on_loss[] = {"fail", "wait", "auto", NULL};
static const char *const send_includes[] = {"named", "folders", NULL};

#define SETTINGS_OF struct tp_icd_settings

static const struct tp_config_entry entries[] = {
#define SETTING TP_SETTING
#include "base/settings/opencl.def"
#undef SETTING
};

struct tp_icd_settings tp_icd_settings;

static void
report(telpher_status status, const struct tp_error *err)
{
    if (status != TELPHER_OK) {
        tp_warn("icd", "%s", tp_error_text(err));
    }
}

void
tp_icd_settings_load(void)
{
    static struct tp_settings base;
    static struct tp_config *config; /* never freed: it owns the values */
    const struct tp_config_room rooms[] = {
        {"base", tp_settings_entries, tp_settings_entry_count, &base},
        {"icd", entries, TP_ARRAY_LEN(entries), &tp_icd_settings},
    };
    struct tp_error err = {0};

    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config) != TELPHER_OK) {
        return;
    }
    report(tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, &err), &err);
    tp_icd_settings.security =
        (struct tp_client_security){.files = {.ca = tp_icd_settings.tls_ca,
                                              .cert = tp_icd_settings.tls_cert,
                                              .key = tp_icd_settings.tls_key,
                                              .psk = tp_icd_settings.tls_psk},
                                    .insecure = tp_icd_settings.insecure,
                                    .no_checksum = !tp_icd_settings.checksum};
    err = (struct tp_error){0};
    report(tp_settings_apply(&base, &err), &err);
    tp_settings_warn_unknown();
    tp_icd_settings.spin_ns = tp_spin_time(tp_icd_settings.spin_ns, 0);
}
