/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of base itself: TELPHER_CONFIG, TELPHER_LOG, TELPHER_LOG_FORMAT,
 * TELPHER_TRACE, TELPHER_TRACE_RECORDS. A program that lists this room calls tp_settings_apply() instead
 * of tp_log_configure_env() and tp_trace_start_env().
 */
#ifndef TELPHER_BASE_CONFIG_SETTINGS_H
#define TELPHER_BASE_CONFIG_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/config/config.h"

struct tp_settings {
    char *config_path; /* "" = the program's default file */
    char *log;
    int log_format; /* enum tp_log_format */
    char *trace; /* "" = off */
    uint64_t trace_records;
};

extern const struct tp_config_entry tp_settings_entries[];
extern const size_t tp_settings_entry_count;

/**
 * Loads @p config from a file and then from the environment. The file is $TELPHER_CONFIG,
 * which must be there, else @p default_path (NULL = none), which may be missing.
 *
 * @return statuses of tp_config_load_file() and tp_config_load_env()
 */
telpher_status tp_settings_load(struct tp_config *config, const char *default_path,
                                struct tp_error *err);

/** Puts the values to work. @return TELPHER_OK, or the first failure with its words. */
telpher_status tp_settings_apply(const struct tp_settings *settings,
                                 struct tp_error *err);

#endif
