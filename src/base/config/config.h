/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings. Each room has one table of them; a program lists the rooms it consists of and
 * loads values from, in this order, the defaults, a file, the environment and its options:
 * a later source replaces an earlier one.
 *
 *     struct tcp_config { uint64_t timeout_ns; char *listen; };
 *     static const struct tp_config_entry entries[] = {
 *         {.name = "TCP_TIMEOUT", .default_text = "5s", .help = "…",
 *          .parser = &tp_config_duration, .offset = offsetof(struct tcp_config, timeout_ns)},
 *     };
 *
 * Telpher's own tables are declared in base/settings/, one file a component (TP_SETTING).
 *
 *     struct tcp_config values;
 *     struct tp_config_room rooms[] = {{"tcp", entries, 1, &values}};
 *
 * The setting TCP_TIMEOUT is the variable TELPHER_TCP_TIMEOUT and, in a file, the line
 * `tcp_timeout = 5s` (either case; "-" is as good as "_").
 *
 * Threads: load in one; afterwards the values are constant, and any may read them.
 */
#ifndef TELPHER_BASE_CONFIG_CONFIG_H
#define TELPHER_BASE_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <telpher/status.h>

#include "base/error.h"

struct tp_config_entry;

/** How one type of setting is read and written. Rooms may define their own. */
struct tp_config_parser {
    const char *type; /**< word for documentation: "duration" */
    size_t size; /**< [bytes] of the field */
    /**
     * Reads @p text into @p field. On failure the field is as before, and @p err says
     * what was expected, without the setting's name.
     */
    telpher_status (*parse)(const struct tp_config_entry *entry, const char *text,
                            void *field, struct tp_error *err);
    /** Frees what the field owns and makes it zero; NULL = it owns nothing. */
    void (*clear)(void *field);
};

struct tp_config_entry {
    const char *name; /**< without TELPHER_, capitals and underscores: "TCP_TIMEOUT" */
    const char *default_text; /**< parsed like any value; must be valid */
    const char *help; /**< one line, lower case, no full stop */
    const struct tp_config_parser *parser;
    size_t offset; /**< of the field in the room's values */
    /** Bounds for numbers, sizes [bytes] and durations [ns]; both 0 = none. */
    int64_t min;
    int64_t max;
    const char *const *choices; /**< for tp_config_choice: words, NULL after the last */
};

/**
 * One line of a file in base/settings/ as an entry; SETTINGS_OF is the struct of the values:
 *
 *     #define SETTINGS_OF struct tp_comm_settings
 *     #define SETTING TP_SETTING
 *     #include "base/settings/comm.def"
 */
#define TP_SETTING(setting, type, text, about, member, ...)                            \
    {.name = #setting,                                                                 \
     .default_text = (text),                                                           \
     .help = (about),                                                                  \
     .parser = &tp_config_##type,                                                      \
     .offset = offsetof(SETTINGS_OF, member),                                          \
     __VA_ARGS__},

/** Several words; items are owned by the setting. */
struct tp_config_list {
    char **items;
    size_t count;
};

extern const struct tp_config_parser tp_config_bool; /**< bool: yes/no/on/off/1/0/… */
extern const struct tp_config_parser tp_config_int; /**< int */
extern const struct tp_config_parser tp_config_u64; /**< uint64_t; 0x… too */
extern const struct tp_config_parser tp_config_size; /**< uint64_t: 64, 4K, 16M, 1G */
extern const struct tp_config_parser
    tp_config_duration; /**< uint64_t ns: 50us, 2.5s, 1m; "forever" */
extern const struct tp_config_parser
    tp_config_string; /**< char *; never NULL once loaded */
extern const struct tp_config_parser tp_config_words; /**< tp_config_list: a,b,c */
extern const struct tp_config_parser tp_config_choice; /**< int: index in choices */

/** One room's settings. With @p values NULL each value is kept as text only, unparsed. */
struct tp_config_room {
    const char *name;
    const struct tp_config_entry *entries;
    size_t entry_count;
    void *values; /**< kept until tp_config_destroy() */
};

/** Where a value came from. */
enum tp_config_source {
    TP_CONFIG_DEFAULT = 0,
    TP_CONFIG_FILE,
    TP_CONFIG_ENV,
    TP_CONFIG_OPTION
};

struct tp_config;

/**
 * Fills the rooms' values with the defaults. @p rooms is copied; entries and values are
 * kept. A default that does not parse aborts: it is our bug.
 */
telpher_status tp_config_create(const struct tp_config_room *rooms, size_t room_count,
                                struct tp_config **ret_config);

/** Clears the values (strings and lists are freed) and frees. NULL is fine. */
void tp_config_destroy(struct tp_config *config);

/**
 * Loads `key = value` lines; "#" begins a comment, quotes keep blanks and "#" in a value.
 * A setting of another component of Telpher is skipped; an unknown name is an error.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID, TELPHER_ERR_RANGE   @p err names file, line and the fix;
 *                                lines above it count
 *         TELPHER_ERR_NOT_FOUND, TELPHER_ERR_PERMISSION, TELPHER_ERR_IO   not read
 *         TELPHER_ERR_LIMIT      larger than 1 MiB
 *         TELPHER_ERR_NO_MEMORY
 */
telpher_status tp_config_load_file(struct tp_config *config, const char *path,
                                   struct tp_error *err);

/** The same for @p len bytes of text; @p origin stands for the file's name. */
telpher_status tp_config_load_text(struct tp_config *config, const char *text,
                                   size_t len, const char *origin,
                                   struct tp_error *err);

/**
 * Loads TELPHER_… from @p environment (NULL = the process's own). A variable with a wrong
 * value is left out, the others count, and @p err reports the first. Other variables are
 * skipped: tp_settings_start() warns of unknown ones. With NULL, a program that
 * runs with more rights than its user (set-user-id) loads nothing.
 *
 * @return TELPHER_OK, TELPHER_ERR_INVALID, TELPHER_ERR_RANGE, TELPHER_ERR_NO_MEMORY
 */
telpher_status tp_config_load_env(struct tp_config *config, char *const *environment,
                                  struct tp_error *err);

/**
 * Sets one value, as an option of the command line does. @p origin ("--log") is copied.
 *
 * @return TELPHER_OK, TELPHER_ERR_NOT_FOUND (err: did you mean), TELPHER_ERR_INVALID,
 *         TELPHER_ERR_RANGE, TELPHER_ERR_NO_MEMORY
 */
telpher_status tp_config_set(struct tp_config *config, const char *name,
                             const char *text, const char *origin,
                             struct tp_error *err);

/** Where the value of @p name came from; TP_CONFIG_DEFAULT also for unknown names. */
enum tp_config_source tp_config_source_of(const struct tp_config *config,
                                          const char *name);

/** Prints every setting: variable, value, where it came from, help. */
void tp_config_print(const struct tp_config *config, FILE *out);

/** Prints a Markdown table of every setting: the source of docs/config.md. */
void tp_config_print_markdown(const struct tp_config *config, FILE *out);

#endif
