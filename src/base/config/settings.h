/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How every library and tool gets its settings: from TELPHER_NAME in the environment, else
 * from the file that TELPHER_CONFIG names, else from the default file. base/settings/ declares
 * each setting once; this also has the values of base's own.
 *
 * A component with a table of values calls tp_settings_start() and tp_settings_load(); a single
 * value as text is tp_settings_get().
 */
#ifndef TELPHER_BASE_CONFIG_SETTINGS_H
#define TELPHER_BASE_CONFIG_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/config/config.h"
#include "build_config.h"

struct tp_settings {
    char *config_path; /* "" = the program's default file */
    char *log;
    int log_format; /* enum tp_log_format */
    char *trace; /* "" = off */
    uint64_t trace_records;
};

extern const struct tp_config_entry tp_settings_entries[];
extern const size_t tp_settings_entry_count;

/** The settings of all of Telpher, component by component; no values. */
extern const struct tp_config_room tp_settings_known[];
extern const size_t tp_settings_known_count;

/** Stands for the file that libraries and tools read where TELPHER_CONFIG names none. */
#define TP_SETTINGS_DEFAULT_FILE tp_settings_default_file()
/** Its path, static: below the prefix of the library or program that this code is in. "" where
 *  that is not known. Any thread. */
const char *tp_settings_default_file(void);

/**
 * Configures the log from TELPHER_LOG and TELPHER_LOG_FORMAT and warns of unknown TELPHER_*
 * variables, once in a process for each library; later calls do nothing. Any thread.
 */
void tp_settings_start(void);

/** The log's part alone, each time: for modules with a log of their own, and for tests. */
void tp_settings_configure_log(void);

/** Warns of each unknown TELPHER_* variable, with the name that was probably meant. */
void tp_settings_warn_unknown(void);

/**
 * The text of a setting: of the environment, else of the file; NULL = in neither. The file is
 * read once in a process. A program that runs with more rights than its user (set-user-id)
 * gets nothing. Any thread.
 */
const char *tp_settings_get(const char *name);

/**
 * Loads @p config from a file and then from the environment. The file is $TELPHER_CONFIG,
 * which must be there, else @p default_path (NULL = none), which may be missing.
 *
 * @return statuses of tp_config_load_file() and tp_config_load_env()
 */
telpher_status tp_settings_load(struct tp_config *config, const char *default_path,
                                struct tp_error *err);

/** Applies the values. @return TELPHER_OK, or the first failure with its text in @p err. */
telpher_status tp_settings_apply(const struct tp_settings *settings,
                                 struct tp_error *err);

#endif
