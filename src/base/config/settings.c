/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment and from the file that TELPHER_CONFIG names. */
#include "base/config/settings.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/config/config_int.h"
#include "base/prefix.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"

#define SETTINGS_OF struct tp_settings

static const char *const log_formats[] = {"text", "logfmt", NULL};

const struct tp_config_entry tp_settings_entries[] = {
#define SETTING TP_SETTING
#include "base/settings/base.def"
#undef SETTING
};
const size_t tp_settings_entry_count = TP_ARRAY_LEN(tp_settings_entries);

/* A missing file is an error only if TELPHER_CONFIG names it. */
static telpher_status
load_file(struct tp_config *config, const char *default_path, struct tp_error *err)
{
    const char *path = secure_getenv("TELPHER_CONFIG");
    bool asked_for = path != NULL && path[0] != '\0';
    telpher_status status = TELPHER_OK;

    path = asked_for ? path : default_path;
    if (path != NULL) {
        status = tp_config_load_file(config, path, err);
    }
    if (status == TELPHER_OK || (status == TELPHER_ERR_NOT_FOUND && !asked_for)) {
        if (err != NULL) {
            *err = (struct tp_error){0};
        }
        return TELPHER_OK;
    }
    return asked_for ? tp_error_prefix(err, "TELPHER_CONFIG") : status;
}

telpher_status
tp_settings_load(struct tp_config *config, const char *default_path,
                 struct tp_error *err)
{
    telpher_status status = load_file(config, default_path, err);

    return status == TELPHER_OK ? tp_config_load_env(config, NULL, err) : status;
}

telpher_status
tp_settings_apply(const struct tp_settings *settings, struct tp_error *err)
{
    telpher_status status = tp_log_configure(settings->log, err);

    if (status == TELPHER_OK) {
        status = tp_log_set_format((enum tp_log_format)settings->log_format);
    }
    if (status == TELPHER_OK && settings->trace[0] != '\0') {
        status = tp_trace_start(settings->trace, settings->trace_records, err);
    }
    return status;
}

/* ---- single values ---- */

static struct tp_config *file_values; /* all settings as texts; NULL = no file */
static pthread_once_t file_once = PTHREAD_ONCE_INIT;

static char default_file[PATH_MAX];
static pthread_once_t default_once = PTHREAD_ONCE_INIT;

static void
find_default_file(void)
{
    if (tp_prefix_own_settings_file("telpher/telpher.conf", default_file,
                                    sizeof(default_file)) != TELPHER_OK) {
        default_file[0] = '\0';
    }
}

const char *
tp_settings_default_file(void)
{
    (void)pthread_once(&default_once, find_default_file);
    return default_file;
}

static void
load_file_values(void)
{
    const char *named = secure_getenv("TELPHER_CONFIG");
    struct tp_error err = {0};

    if ((named == NULL || named[0] == '\0') &&
        access(TP_SETTINGS_DEFAULT_FILE, R_OK) != 0) {
        return;
    }
    if (tp_config_create(tp_settings_known, tp_settings_known_count, &file_values) !=
        TELPHER_OK) {
        return;
    }
    if (load_file(file_values, TP_SETTINGS_DEFAULT_FILE, &err) != TELPHER_OK) {
        tp_warn("base", "%s", tp_error_text(&err));
    }
}

const char *
tp_settings_get(const char *name)
{
    const struct tp_config_setting *setting = NULL;
    char variable[64];
    const char *value;

    (void)snprintf(variable, sizeof(variable), "TELPHER_%s", name);
    value = secure_getenv(variable);
    if (value != NULL || getauxval(AT_SECURE) != 0) {
        return value;
    }
    (void)pthread_once(&file_once, load_file_values);
    if (file_values != NULL) {
        setting = tp_config_find(file_values, name);
    }
    return setting != NULL && setting->source == TP_CONFIG_FILE ? setting->text : NULL;
}

/* ---- start ---- */

static void
warn_unknown(const char *variable)
{
    size_t len = strcspn(variable, "=");
    char name[64];
    unsigned distance;
    const char *nearest;

    (void)snprintf(name, sizeof(name), "%.*s", (int)len, variable);
    if (tp_config_is_known(name)) {
        return;
    }
    distance = tp_config_far(name);
    nearest = tp_config_nearest_known(name, &distance, NULL);
    tp_warn("base", "unknown variable TELPHER_%s%s%s%s", name,
            nearest != NULL ? "; did you mean TELPHER_" : "",
            nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
}

void
tp_settings_warn_unknown(void)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        if (strncmp(*variable, "TELPHER_", 8) == 0) {
            warn_unknown(*variable + 8);
        }
    }
}

void
tp_settings_configure_log(void)
{
    const char *format = tp_settings_get("LOG_FORMAT");
    struct tp_error err = {0};

    if (tp_log_configure(tp_settings_get("LOG"), &err) != TELPHER_OK) {
        tp_warn("base", "TELPHER_LOG is ignored: %s", tp_error_text(&err));
    }
    if (format != NULL && strcmp(format, "logfmt") == 0) {
        (void)tp_log_set_format(TP_LOG_LOGFMT);
    }
}

static void
start(void)
{
    tp_settings_configure_log();
    tp_settings_warn_unknown();
}

void
tp_settings_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, start);
}
