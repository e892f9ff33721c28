/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: the rooms' tables as one list, and loading values into it. */
#include "base/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config/config_int.h"
#include "base/text/text.h"
#include "base/trace/log.h"

#define PREFIX "TELPHER_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define FILE_MAX_BYTES ((size_t)1 << 20)
#define NAME_MAX_LEN 63

/* ---- names ---- */

bool
tp_config_same_name(const char *a, const char *b)
{
    for (; *a != '\0' && tp_text_fold(*a) == tp_text_fold(*b); a++, b++) {
    }
    return *a == *b;
}

struct tp_config_setting *
tp_config_find(const struct tp_config *config, const char *name)
{
    for (size_t i = 0; i < config->setting_count; i++) {
        if (tp_config_same_name(config->settings[i].entry->name, name)) {
            return &config->settings[i];
        }
    }
    return NULL;
}

unsigned
tp_config_far(const char *name)
{
    return (unsigned)(strlen(name) / 3 + 2);
}

/* The known name nearest to @p name, NULL when none is near. */
static const char *
nearest_name(const struct tp_config *config, const char *name)
{
    unsigned best = tp_config_far(name);
    const char *nearest = NULL;

    for (size_t i = 0; i < config->setting_count; i++) {
        unsigned distance = tp_text_distance(name, config->settings[i].entry->name);

        if (distance < best) {
            best = distance;
            nearest = config->settings[i].entry->name;
        }
    }
    return tp_config_nearest_known(name, &best, nearest);
}

/* ---- values ---- */

static void *
field_of(const struct tp_config_setting *setting)
{
    return (char *)setting->room->values + setting->entry->offset;
}

/* Parses and remembers where from. @p origin may be NULL for the default. */
static telpher_status
assign(struct tp_config_setting *setting, const char *text,
       enum tp_config_source source, const char *origin, struct tp_error *err)
{
    char *text_copy = tp_strdup(text, "setting");
    char *origin_copy = tp_strdup(origin != NULL ? origin : "default", "setting");
    telpher_status status;

    if (text_copy == NULL || origin_copy == NULL) {
        status =
            tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                         "out of memory for the value of %s", setting->entry->name);
        goto err_free;
    }
    if (setting->room->values != NULL) {
        status =
            setting->entry->parser->parse(setting->entry, text, field_of(setting), err);
        if (status != TELPHER_OK) {
            goto err_free;
        }
    }
    tp_free(setting->text);
    tp_free(setting->origin);
    setting->text = text_copy;
    setting->origin = origin_copy;
    setting->source = source;
    return TELPHER_OK;

err_free:
    tp_free(text_copy);
    tp_free(origin_copy);
    return status;
}

static size_t
count_settings(const struct tp_config_room *rooms, size_t room_count)
{
    size_t count = 0;

    for (size_t i = 0; i < room_count; i++) {
        count += rooms[i].entry_count;
    }
    return count;
}

/* Lists all settings and makes their fields zero, so that clearing is safe from now. */
static void
list_settings(struct tp_config *config)
{
    struct tp_config_setting *setting = config->settings;

    for (size_t i = 0; i < config->room_count; i++) {
        const struct tp_config_room *room = &config->rooms[i];

        for (size_t j = 0; j < room->entry_count; j++, setting++) {
            setting->room = room;
            setting->entry = &room->entries[j];
            if (room->values != NULL && setting->entry->parser->clear != NULL) {
                memset(field_of(setting), 0, setting->entry->parser->size);
            }
        }
    }
    config->setting_count = (size_t)(setting - config->settings);
}

static telpher_status
load_defaults(struct tp_config *config)
{
    for (size_t i = 0; i < config->setting_count; i++) {
        struct tp_config_setting *setting = &config->settings[i];
        struct tp_error err = {0};
        telpher_status status = assign(setting, setting->entry->default_text,
                                       TP_CONFIG_DEFAULT, NULL, &err);

        if (status == TELPHER_ERR_NO_MEMORY) {
            return status;
        }
        if (status != TELPHER_OK) {
            tp_error("base", "default of %s is wrong: %s", setting->entry->name,
                     tp_error_text(&err));
        }
        tp_assert(status == TELPHER_OK);
    }
    return TELPHER_OK;
}

telpher_status
tp_config_create(const struct tp_config_room *rooms, size_t room_count,
                 struct tp_config **ret_config)
{
    struct tp_config *config = tp_zalloc(sizeof(*config), "config");
    telpher_status status = TELPHER_ERR_NO_MEMORY;

    if (config == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    config->rooms = tp_memdup(rooms, room_count * sizeof(*rooms), "config rooms");
    config->settings = tp_alloc_array(count_settings(rooms, room_count),
                                      sizeof(*config->settings), "settings");
    if (config->rooms != NULL && config->settings != NULL) {
        config->room_count = room_count;
        list_settings(config);
        status = load_defaults(config);
    }
    if (status != TELPHER_OK) {
        tp_config_destroy(config);
        return status;
    }
    *ret_config = config;
    return TELPHER_OK;
}

void
tp_config_destroy(struct tp_config *config)
{
    if (config == NULL) {
        return;
    }
    for (size_t i = 0; config->settings != NULL && i < config->setting_count; i++) {
        struct tp_config_setting *setting = &config->settings[i];

        if (setting->room->values != NULL && setting->entry->parser->clear != NULL) {
            setting->entry->parser->clear(field_of(setting));
        }
        tp_free(setting->text);
        tp_free(setting->origin);
    }
    tp_free(config->settings);
    tp_free(config->rooms);
    tp_free(config);
}

static telpher_status
unknown_setting(const struct tp_config *config, const char *name, struct tp_error *err)
{
    const char *nearest = nearest_name(config, name);
    char lower[NAME_MAX_LEN + 1] = "";

    if (nearest == NULL) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "unknown setting \"%.*s\"",
                            NAME_MAX_LEN, name);
    }
    for (size_t i = 0; i < NAME_MAX_LEN && nearest[i] != '\0'; i++) {
        lower[i] = (char)tolower((unsigned char)nearest[i]);
    }
    return tp_error_set(err, TELPHER_ERR_NOT_FOUND,
                        "unknown setting \"%.*s\"; did you mean \"%s\"?", NAME_MAX_LEN,
                        name, lower);
}

/* True for "--kernel-timeout", which is put before an error's text anyway, and the setting
 * KERNEL_TIMEOUT. */
static bool
names_setting(const char *origin, const char *name)
{
    origin += strspn(origin, "-");
    origin += strncmp(origin, PREFIX, PREFIX_LEN) == 0 ? PREFIX_LEN : 0;
    return tp_config_same_name(origin, name);
}

static telpher_status
set_named(struct tp_config *config, const char *name, const char *text,
          enum tp_config_source source, const char *origin, struct tp_error *err)
{
    struct tp_config_setting *setting = tp_config_find(config, name);
    telpher_status status;

    if (setting == NULL) {
        return unknown_setting(config, name, err);
    }
    status = assign(setting, text, source, origin, err);
    if (status != TELPHER_OK && status != TELPHER_ERR_NO_MEMORY &&
        !names_setting(origin, name)) {
        tp_error_prefix(err, "%s", name);
    }
    return status;
}

telpher_status
tp_config_set(struct tp_config *config, const char *name, const char *text,
              const char *origin, struct tp_error *err)
{
    telpher_status status =
        set_named(config, name, text, TP_CONFIG_OPTION, origin, err);

    if (status != TELPHER_OK) {
        tp_error_prefix(err, "%s", origin);
    }
    return status;
}

enum tp_config_source
tp_config_source_of(const struct tp_config *config, const char *name)
{
    const struct tp_config_setting *setting = tp_config_find(config, name);

    return setting != NULL ? setting->source : TP_CONFIG_DEFAULT;
}

/* ---- environment ---- */

/* One "TELPHER_NAME=value". */
static telpher_status
load_variable(struct tp_config *config, const char *variable, struct tp_error *err)
{
    const char *equals = strchr(variable, '=');
    struct tp_config_setting *setting;
    telpher_status status;
    char *name;

    if (equals == NULL) {
        return TELPHER_OK;
    }
    name = tp_strndup(variable + PREFIX_LEN, (size_t)(equals - variable) - PREFIX_LEN,
                      "variable");
    if (name == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for a variable's name");
    }
    setting = tp_config_find(config, name);
    if (setting == NULL) {
        status = TELPHER_OK;
    } else {
        status = assign(setting, equals + 1, TP_CONFIG_ENV, "environment", err);
        if (status != TELPHER_OK) {
            tp_error_prefix(err, PREFIX "%s", setting->entry->name);
        }
    }
    tp_free(name);
    return status;
}

telpher_status
tp_config_load_env(struct tp_config *config, char *const *environment,
                   struct tp_error *err)
{
    telpher_status first = TELPHER_OK;

    if (environment == NULL) {
        environment = getauxval(AT_SECURE) == 0 ? environ : NULL;
    }
    for (; environment != NULL && *environment != NULL; environment++) {
        struct tp_error later;

        if (strncmp(*environment, PREFIX, PREFIX_LEN) == 0) {
            telpher_status status =
                load_variable(config, *environment, first == TELPHER_OK ? err : &later);

            first = first == TELPHER_OK ? status : first;
        }
    }
    return first;
}

/* ---- files ---- */

/*
 * Turns the text after "=" into the value, in place: unquoted, or cut at a comment.
 * Inside quotes a backslash makes the next character plain.
 */
static telpher_status
read_value(char *text, struct tp_error *err)
{
    char *to = text;
    const char *from = text + 1;

    if (text[0] != '"') {
        for (; *to != '\0' &&
               (*to != '#' || (to != text && !isblank((unsigned char)to[-1])));
             to++) {
        }
        while (to > text && isspace((unsigned char)to[-1])) {
            to--;
        }
        *to = '\0';
        return TELPHER_OK;
    }
    for (; *from != '"'; from++) {
        from += from[0] == '\\' && from[1] != '\0';
        if (*from == '\0') {
            return tp_error_set(err, TELPHER_ERR_INVALID,
                                "no closing quote; write key = \"value\"");
        }
        *to++ = *from;
    }
    *to = '\0';
    from += 1 + strspn(from + 1, " \t\r");
    if (*from != '\0' && *from != '#') {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "text after the closing quote; put \"#\" before a comment");
    }
    return TELPHER_OK;
}

/* One line, which it may change. */
static telpher_status
load_line(struct tp_config *config, char *line, const char *origin,
          struct tp_error *err)
{
    char *key = line + strspn(line, " \t\r");
    char *equals = strchr(key, '=');
    telpher_status status;
    char *end;

    if (*key == '\0' || *key == '#') {
        return TELPHER_OK;
    }
    if (equals == NULL || equals == key) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "\"%.40s\" is no setting; write key = value", key);
    }
    for (end = equals; end > key && isspace((unsigned char)end[-1]); end--) {
    }
    *end = '\0';
    equals += 1 + strspn(equals + 1, " \t\r");
    status = read_value(equals, err);
    if (status != TELPHER_OK) {
        return status;
    }
    if (tp_config_find(config, key) == NULL && tp_config_is_known(key)) {
        return TELPHER_OK;
    }
    status = set_named(config, key, equals, TP_CONFIG_FILE, origin, err);
    /* For a file, a name that does not exist is a mistake in the file. */
    return status == TELPHER_ERR_NOT_FOUND
               ? tp_error_set(err, TELPHER_ERR_INVALID, "%s", err ? err->text : "")
               : status;
}

/* All lines of a 0-terminated copy, which it changes. */
static telpher_status
load_lines(struct tp_config *config, char *text, const char *name, struct tp_error *err)
{
    for (unsigned number = 1; text != NULL; number++) {
        char *line = strsep(&text, "\n");
        char origin[280];
        telpher_status status;

        snprintf(origin, sizeof(origin), "%.256s:%u", name, number);
        status = load_line(config, line, origin, err);
        if (status != TELPHER_OK) {
            tp_error_prefix(err, "%s", origin);
            return status;
        }
    }
    return TELPHER_OK;
}

telpher_status
tp_config_load_text(struct tp_config *config, const char *text, size_t len,
                    const char *origin, struct tp_error *err)
{
    telpher_status status;
    char *copy;

    if (len > FILE_MAX_BYTES) {
        return tp_error_set(err, TELPHER_ERR_LIMIT, "%s is larger than 1 MiB", origin);
    }
    if (memchr(text, '\0', len) != NULL) {
        return tp_error_set(err, TELPHER_ERR_INVALID, "%s is no text: it has a 0 byte",
                            origin);
    }
    copy = tp_strndup(text, len, "config file");
    if (copy == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the %zu bytes of %s", len, origin);
    }
    status = load_lines(config, copy, origin, err);
    tp_free(copy);
    return status;
}

/* Opening a FIFO without a writer would block the start. @return NULL and errno */
static FILE *
open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = NULL;
    struct stat st;
    int error = 0;

    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &st) != 0) {
        error = errno;
    } else if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) {
        error = EINVAL; /* neither is a file of settings */
    } else {
        file = fdopen(fd, "r");
        error = file == NULL ? errno : 0;
    }
    if (file == NULL) {
        (void)close(fd); /* it was only opened */
    }
    errno = error;
    return file;
}

telpher_status
tp_config_load_file(struct tp_config *config, const char *path, struct tp_error *err)
{
    FILE *file = open_file(path);
    telpher_status status;
    size_t len;
    char *text;

    if (file == NULL) {
        return tp_error_set_errno(err, errno, "cannot read %s", path);
    }
    text = tp_malloc(FILE_MAX_BYTES + 1, "config file");
    if (text == NULL) {
        (void)fclose(file); /* it was only read */
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY, "out of memory to read %s",
                            path);
    }
    len = fread(text, 1, FILE_MAX_BYTES + 1, file);
    if (ferror(file)) {
        status = tp_error_set_errno(err, errno, "cannot read %s", path);
    } else {
        status = tp_config_load_text(config, text, len, path, err);
    }
    tp_free(text);
    (void)fclose(file); /* it was only read */
    return status;
}
