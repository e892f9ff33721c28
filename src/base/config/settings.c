/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of base itself. */
#include "base/config/settings.h"

#include <stdlib.h>

#include "base/trace/log.h"
#include "base/trace/trace.h"

static const char *const log_formats[] = {"text", "logfmt", NULL};

const struct tp_config_entry tp_settings_entries[] = {
    {.name = "CONFIG",
     .default_text = "",
     .help = "file of settings, loaded before the environment",
     .parser = &tp_config_string,
     .offset = offsetof(struct tp_settings, config_path)},
    {.name = "LOG",
     .default_text = "warn",
     .help =
         "log levels (none, error, warn, info, debug, trace, data), also for single "
         "topics: warn,icd:debug",
     .parser = &tp_config_string,
     .offset = offsetof(struct tp_settings, log)},
    {.name = "LOG_FORMAT",
     .default_text = "text",
     .help = "form of log lines",
     .parser = &tp_config_choice,
     .choices = log_formats,
     .offset = offsetof(struct tp_settings, log_format)},
    {.name = "TRACE",
     .default_text = "",
     .help = "file for a trace in Chrome's format, %p = process id; empty = no trace",
     .parser = &tp_config_string,
     .offset = offsetof(struct tp_settings, trace)},
    {.name = "TRACE_RECORDS",
     .default_text = "65536",
     .help = "trace records kept; when there are more the oldest go",
     .parser = &tp_config_u64,
     .min = 16,
     .max = 1 << 24,
     .offset = offsetof(struct tp_settings, trace_records)},
};
const size_t tp_settings_entry_count = TP_ARRAY_LEN(tp_settings_entries);

telpher_status
tp_settings_load(struct tp_config *config, const char *default_path,
                 struct tp_error *err)
{
    const char *path = secure_getenv("TELPHER_CONFIG");
    bool asked_for = path != NULL && path[0] != '\0';
    telpher_status status = TELPHER_OK;

    if (!asked_for) {
        path = default_path;
    }
    if (path != NULL) {
        status = tp_config_load_file(config, path, err);
    }
    if (status == TELPHER_ERR_NOT_FOUND && !asked_for) {
        status = TELPHER_OK;
        if (err != NULL) {
            *err = (struct tp_error){0};
        }
    }
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
