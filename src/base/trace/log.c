/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log. Its configuration is one constant object; a change publishes a new one and
 * keeps the old one forever, because a writer in another thread may still read it, or
 * in a child after fork, where a lock could stay locked. Changes are few: at start, on
 * reload.
 */
#include "base/trace/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/text/text.h"

#define TOPICS_MAX 24
#define TOPIC_SIZE 16

struct topic {
    char name[TOPIC_SIZE];
    int level;
};

/* Constant once published. */
struct log_config {
    struct log_config *before; /* keeps the old ones reachable for leak checkers */
    int default_level;
    size_t topic_count;
    struct topic topics[TOPICS_MAX];
    enum tp_log_format format;
    tp_log_sink sink; /* NULL = stderr */
    void *user;
};

static const char *const level_names[] = {"none",  "error", "warn", "info",
                                          "debug", "trace", "data"};

static struct log_config first_config = {.default_level = TP_LOG_WARN};
static _Atomic(struct log_config *) current = &first_config;
static pthread_mutex_t change_lock =
    PTHREAD_MUTEX_INITIALIZER; /* one change at a time */

_Atomic int tp_log_highest = TP_LOG_WARN;

static int
level_of(const struct log_config *config, const char *topic)
{
    for (size_t i = 0; i < config->topic_count; i++) {
        if (strcmp(config->topics[i].name, topic) == 0) {
            return config->topics[i].level;
        }
    }
    return config->default_level;
}

bool
tp_log_enabled(enum tp_log_level level, const char *topic)
{
    return (int)level <= level_of(atomic_load(&current), topic);
}

/* A line being built; it always keeps room for "...", a quote and a newline. */
struct line {
    char text[TP_LOG_LINE_MAX];
    size_t len;
    bool cut;
};

#define LINE_ROOM (TP_LOG_LINE_MAX - 6)

static void
add(struct line *line, const char *text, size_t len)
{
    if (line->cut || len > LINE_ROOM - line->len) {
        line->cut = true;
        return;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

/*
 * Adds a message with its control characters escaped: what a peer or a driver has said
 * must not be able to forge a line. In logfmt quotes and backslashes are escaped too.
 */
static void
add_escaped(struct line *line, const char *message, bool quoted)
{
    while (*message != '\0') {
        size_t len = tp_text_char(message);
        char escape[8] = {'\\', *message, '\0'};

        if (*message == '\n') {
            escape[1] = 'n';
        } else if (len == 0) {
            snprintf(escape, sizeof(escape), "\\x%02x", (unsigned char)*message);
        }
        if (len == 0 || (quoted && (*message == '"' || *message == '\\'))) {
            add(line, escape, strlen(escape));
        } else {
            add(line, message, len);
        }
        message += len != 0 ? len : 1;
    }
}

static const char *_Atomic program_name = "telpher";

void
tp_log_set_name(const char *name)
{
    atomic_store(&program_name, name);
}

static void
add_prefix(struct line *line, const struct log_config *config, int level,
           const char *topic)
{
    char prefix[128];
    char iso[TP_CLOCK_ISO_SIZE];

    if (config->format == TP_LOG_LOGFMT) {
        tp_clock_iso(tp_clock_realtime_ns(), iso, sizeof(iso));
        snprintf(prefix, sizeof(prefix), "time=%s level=%s topic=%.15s pid=%d msg=\"",
                 iso, level_names[level], topic, (int)getpid());
    } else {
        snprintf(prefix, sizeof(prefix),
                 "%.32s[%d] %s %.15s: ", atomic_load(&program_name), (int)getpid(),
                 level_names[level], topic);
    }
    add(line, prefix, strlen(prefix));
}

static void
finish(struct line *line, bool quoted)
{
    const char *end = quoted ? "\"\n" : "\n";

    if (line->cut) {
        memcpy(line->text + line->len, "...", 3);
        line->len += 3;
    }
    memcpy(line->text + line->len, end, strlen(end) + 1);
    line->len += strlen(end);
}

static void
emit(const struct log_config *config, int level, const char *topic,
     const struct line *line)
{
    ssize_t ignored;

    if (config->sink != NULL) {
        config->sink(config->user, (enum tp_log_level)level, topic, line->text,
                     line->len);
        return;
    }
    ignored = write(STDERR_FILENO, line->text, line->len);
    (void)ignored; /* there is no other place to complain to */
}

void
tp_log_writev(enum tp_log_level level, const char *topic, const char *fmt, va_list args)
{
    const struct log_config *config =
        atomic_load_explicit(&current, memory_order_acquire);
    bool quoted = config->format == TP_LOG_LOGFMT;
    int saved_errno = errno;
    char message[TP_LOG_LINE_MAX];
    struct line line;
    int len;

    if (level < TP_LOG_ERROR || level > TP_LOG_DATA ||
        (int)level > level_of(config, topic)) {
        return;
    }
    len = vsnprintf(message, sizeof(message), fmt, args);
    if (len < 0) {
        message[0] = '\0';
    }
    line.len = 0;
    line.cut = false;
    add_prefix(&line, config, (int)level, topic);
    add_escaped(&line, message, quoted);
    line.cut = line.cut || len >= (int)sizeof(message);
    finish(&line, quoted);
    emit(config, (int)level, topic, &line);
    errno = saved_errno; /* logging never disturbs the error being handled */
}

void
tp_log_write(enum tp_log_level level, const char *topic, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    tp_log_writev(level, topic, fmt, args);
    va_end(args);
}

/* ---- changes ---- */

/* Gives a copy of the present configuration, with change_lock taken. */
static struct log_config *
begin_change(void)
{
    struct log_config *config = tp_malloc(sizeof(*config), "log configuration");

    if (config != NULL) {
        pthread_mutex_lock(&change_lock);
        *config = *atomic_load(&current);
        config->before = atomic_load(&current);
    }
    return config;
}

static void
end_change(struct log_config *config)
{
    int highest = config->default_level;

    for (size_t i = 0; i < config->topic_count; i++) {
        highest = TP_MAX(highest, config->topics[i].level);
    }
    atomic_store_explicit(&current, config, memory_order_release);
    atomic_store(&tp_log_highest, highest);
    pthread_mutex_unlock(&change_lock);
}

/* A piece of the spec, not 0-terminated. */
struct word {
    const char *text;
    size_t len;
};

static telpher_status
parse_level(struct word word, int *ret_level, struct tp_error *err)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(level_names); i++) {
        if (strlen(level_names[i]) == word.len &&
            memcmp(level_names[i], word.text, word.len) == 0) {
            *ret_level = (int)i;
            return TELPHER_OK;
        }
    }
    return tp_error_set(err, TELPHER_ERR_INVALID,
                        "\"%.*s\" is no log level; use none, error, warn, info, debug, "
                        "trace or data",
                        (int)TP_MIN(word.len, 40), word.text);
}

static telpher_status
set_topic(struct log_config *config, struct word name, int level, struct tp_error *err)
{
    struct topic *topic;

    if (name.len == 0) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "no topic before \":\" in the log levels");
    }
    if (name.len >= TOPIC_SIZE || config->topic_count == TOPICS_MAX) {
        return tp_error_set(err, TELPHER_ERR_LIMIT,
                            "log topic \"%.*s\" is longer than %d or one of over %d",
                            (int)TP_MIN(name.len, 40), name.text, TOPIC_SIZE - 1,
                            TOPICS_MAX);
    }
    topic = &config->topics[config->topic_count++];
    memcpy(topic->name, name.text, name.len);
    topic->name[name.len] = '\0';
    topic->level = level;
    return TELPHER_OK;
}

static struct word
trim(const char *text, size_t len)
{
    while (len > 0 && text[0] == ' ') {
        text++;
        len--;
    }
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    return (struct word){text, len};
}

/* "level" or "topic:level". */
static telpher_status
parse_word(struct log_config *config, struct word word, struct tp_error *err)
{
    const char *colon = memchr(word.text, ':', word.len);
    telpher_status status;
    struct word topic;
    int level;

    if (colon == NULL) {
        return parse_level(word, &config->default_level, err);
    }
    topic = trim(word.text, (size_t)(colon - word.text));
    status = parse_level(trim(colon + 1, word.len - (size_t)(colon + 1 - word.text)),
                         &level, err);
    return status == TELPHER_OK ? set_topic(config, topic, level, err) : status;
}

static telpher_status
parse_spec(struct log_config *config, const char *spec, struct tp_error *err)
{
    config->default_level = TP_LOG_WARN;
    config->topic_count = 0;
    while (*spec != '\0') {
        size_t len = strcspn(spec, ",");
        struct word word = trim(spec, len);
        telpher_status status =
            word.len == 0 ? TELPHER_OK : parse_word(config, word, err);

        if (status != TELPHER_OK) {
            return status;
        }
        spec += len + (spec[len] == ',');
    }
    return TELPHER_OK;
}

telpher_status
tp_log_configure(const char *spec, struct tp_error *err)
{
    struct log_config *config = begin_change();
    telpher_status status;

    if (config == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY, "out of memory for log levels");
    }
    status = parse_spec(config, spec != NULL ? spec : "", err);
    if (status != TELPHER_OK) {
        pthread_mutex_unlock(&change_lock);
        tp_free(config);
        return status;
    }
    end_change(config);
    return TELPHER_OK;
}

telpher_status
tp_log_set_format(enum tp_log_format format)
{
    struct log_config *config = begin_change();

    if (config == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    config->format = format;
    end_change(config);
    return TELPHER_OK;
}

telpher_status
tp_log_set_sink(tp_log_sink sink, void *user)
{
    struct log_config *config = begin_change();

    if (config == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    config->sink = sink;
    config->user = user;
    end_change(config);
    return TELPHER_OK;
}
