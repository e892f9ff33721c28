/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: levels, topics (= rooms), one write(2) a line, to stderr unless set otherwise.
 *
 * TELPHER_LOG=warn,icd:debug sets the level in general and for single topics. Default:
 * warn. Messages are lower case, value after its name without "=", the exact cause last.
 * Log once, where it is decided that this is an error.
 *
 * Threads: everything here may be called from any thread, also in a child after fork().
 */
#ifndef TELPHER_BASE_TRACE_LOG_H
#define TELPHER_BASE_TRACE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <telpher/status.h>

#include "base/compiler.h"
#include "base/error.h"

/** The higher, the more is said. TP_LOG_NONE silences a topic ("none" in the spec). */
enum tp_log_level {
    TP_LOG_NONE = 0,
    TP_LOG_ERROR,
    TP_LOG_WARN,
    TP_LOG_INFO,
    TP_LOG_DEBUG,
    TP_LOG_TRACE,
    TP_LOG_DATA
};

enum tp_log_format {
    TP_LOG_TEXT = 0, /**< telpher[pid] warn icd: message */
    TP_LOG_LOGFMT /**< time=2025-01-31T12:00:00.123456Z level=warn topic=icd pid=1 msg="…" */
};

/** Length of a line with its newline; a longer message is cut, ending in "...". */
#define TP_LOG_LINE_MAX 2048

/**
 * Receives one finished line. @p line is borrowed, ends in "\n" and has no other control
 * character; @p len counts the newline. Called from any thread, several at once.
 */
typedef void (*tp_log_sink)(void *user, enum tp_log_level level, const char *topic,
                            const char *line, size_t len);

/** The highest level that any topic has; only for the macros below. */
extern _Atomic int tp_log_highest;

/* clang-format off */
#define tp_log(level, topic, ...)                                                      \
    do {                                                                               \
        if (tp_unlikely((int)(level) <=                                                \
                        atomic_load_explicit(&tp_log_highest, memory_order_relaxed))) {\
            tp_log_write(level, topic, __VA_ARGS__);                                   \
        }                                                                              \
    } while (0)
/* clang-format on */

/** tp_error("tcp", "connect to %s failed: %s", name, cause): something is lost. */
#define tp_error(topic, ...) tp_log(TP_LOG_ERROR, topic, __VA_ARGS__)
/** It goes on, but not as asked. */
#define tp_warn(topic, ...) tp_log(TP_LOG_WARN, topic, __VA_ARGS__)
/** One line per big object created or ended. */
#define tp_info(topic, ...) tp_log(TP_LOG_INFO, topic, __VA_ARGS__)
#define tp_debug(topic, ...) tp_log(TP_LOG_DEBUG, topic, __VA_ARGS__)
#define tp_trace(topic, ...) tp_log(TP_LOG_TRACE, topic, __VA_ARGS__)
/** Contents of messages and buffers. */
#define tp_data(topic, ...) tp_log(TP_LOG_DATA, topic, __VA_ARGS__)

/** Writes a line if @p topic's level allows it. Control characters become escapes. */
void tp_log_write(enum tp_log_level level, const char *topic, const char *fmt, ...)
    TP_PRINTF(3, 4);
void tp_log_writev(enum tp_log_level level, const char *topic, const char *fmt,
                   va_list args) TP_PRINTF(3, 0);

/** True if a line of @p level on @p topic would be written: to skip costly arguments. */
bool tp_log_enabled(enum tp_log_level level, const char *topic);

/**
 * Sets the levels from "warn,icd:debug". Topics that the spec does not name get the default,
 * warn; NULL or "" is the default for everything. A call replaces the levels of the one
 * before. Each call keeps some 500 bytes forever, so that writers need no lock.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID    @p err names the wrong word; the levels are as before
 *         TELPHER_ERR_LIMIT      more than 24 topics, or a topic of over 15 characters
 *         TELPHER_ERR_NO_MEMORY
 */
telpher_status tp_log_configure(const char *spec, struct tp_error *err);

/** Chooses how lines look. */
telpher_status tp_log_set_format(enum tp_log_format format);

/** Sends lines to @p sink, which with @p user is kept; NULL is stderr again. */
/** Prefix of text lines, "telpher" by default; @p name must stay valid forever. */
void tp_log_set_name(const char *name);

telpher_status tp_log_set_sink(tp_log_sink sink, void *user);

#endif
