/* SPDX-License-Identifier: Apache-2.0 */
/* The types of settings: text to value. */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/config/config.h"
#include "base/os/clock.h"

static telpher_status
expected(struct tp_error *err, const char *what, const char *text)
{
    return tp_error_set(err, TELPHER_ERR_INVALID, "expected %s, found \"%.60s\"", what,
                        text);
}

/* ---- numbers ---- */

static bool
is_bounded(const struct tp_config_entry *entry)
{
    return entry->min != 0 || entry->max != 0;
}

static telpher_status
check_bounds(const struct tp_config_entry *entry, bool negative, uint64_t magnitude,
             const char *text, struct tp_error *err)
{
    bool too_small =
        negative ? entry->min >= 0 || magnitude > (uint64_t)0 - (uint64_t)entry->min
                 : entry->min > 0 && magnitude < (uint64_t)entry->min;
    bool too_large = !negative && (entry->max < 0 || magnitude > (uint64_t)entry->max);

    if (is_bounded(entry) && (too_small || too_large)) {
        return tp_error_set(err, TELPHER_ERR_RANGE,
                            "\"%.40s\" is not between %" PRId64 " and %" PRId64, text,
                            entry->min, entry->max);
    }
    return TELPHER_OK;
}

/*
 * Reads digits of @p base from *text on, which is moved behind them. False when there is
 * none or the number does not fit.
 */
static bool
read_digits(const char **text, unsigned base, uint64_t *ret_value)
{
    const char *start = *text;
    uint64_t value = 0;

    for (; isxdigit((unsigned char)**text); (*text)++) {
        char c = (char)tolower((unsigned char)**text);
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;

        if (digit >= base) {
            break;
        }
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    *ret_value = value;
    return *text != start;
}

static telpher_status
parse_int(const struct tp_config_entry *entry, const char *text, void *field,
          struct tp_error *err)
{
    const char *at = text + (text[0] == '-');
    bool negative = text[0] == '-';
    telpher_status status;
    uint64_t magnitude;

    if (!read_digits(&at, 10, &magnitude) || *at != '\0' ||
        magnitude > (uint64_t)INT_MAX) {
        return expected(err, "a whole number", text);
    }
    status = check_bounds(entry, negative, magnitude, text, err);
    if (status == TELPHER_OK) {
        *(int *)field = negative ? -(int)magnitude : (int)magnitude;
    }
    return status;
}

static telpher_status
parse_u64(const struct tp_config_entry *entry, const char *text, void *field,
          struct tp_error *err)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *at = text + (hex ? 2 : 0);
    telpher_status status;
    uint64_t value;

    if (!read_digits(&at, hex ? 16 : 10, &value) || *at != '\0') {
        return expected(err, "a whole number from 0", text);
    }
    status = check_bounds(entry, false, value, text, err);
    if (status == TELPHER_OK) {
        *(uint64_t *)field = value;
    }
    return status;
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* Reads "2.5ms" by a table of units, of which the empty name says what none means. */
static bool
read_scaled(const char *text, const struct unit *units, size_t unit_count,
            uint64_t *ret_value)
{
    uint64_t fraction_unit = 1;
    uint64_t fraction = 0;
    uint64_t whole;

    if (!read_digits(&text, 10, &whole)) {
        return false;
    }
    if (*text == '.') {
        const char *digits = ++text;

        if (!read_digits(&text, 10, &fraction) || text - digits > 9) {
            return false;
        }
        for (; digits < text; digits++) {
            fraction_unit *= 10;
        }
    }
    for (size_t i = 0; i < unit_count; i++) {
        if (strcasecmp(text, units[i].name) == 0) {
            /* Both factors are below 2^53, so the product of doubles is near enough. */
            uint64_t part = (uint64_t)((double)fraction / (double)fraction_unit *
                                           (double)units[i].factor +
                                       0.5);

            return !__builtin_mul_overflow(whole, units[i].factor, ret_value) &&
                   !__builtin_add_overflow(*ret_value, part, ret_value);
        }
    }
    return false;
}

static telpher_status
parse_size(const struct tp_config_entry *entry, const char *text, void *field,
           struct tp_error *err)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", (uint64_t)1 << 10},
        {"KiB", (uint64_t)1 << 10},
        {"M", (uint64_t)1 << 20},
        {"MiB", (uint64_t)1 << 20},
        {"G", (uint64_t)1 << 30},
        {"GiB", (uint64_t)1 << 30},
        {"T", (uint64_t)1 << 40},
        {"TiB", (uint64_t)1 << 40},
    };
    telpher_status status;
    uint64_t value;

    if (!read_scaled(text, units, TP_ARRAY_LEN(units), &value)) {
        return expected(err, "a size such as 64K, 16M or 1G", text);
    }
    status = check_bounds(entry, false, value, text, err);
    if (status == TELPHER_OK) {
        *(uint64_t *)field = value;
    }
    return status;
}

static telpher_status
parse_duration(const struct tp_config_entry *entry, const char *text, void *field,
               struct tp_error *err)
{
    static const struct unit units[] = {
        {"ns", 1},         {"us", TP_CLOCK_US},      {"ms", TP_CLOCK_MS},
        {"s", TP_CLOCK_S}, {"min", 60 * TP_CLOCK_S}, {"h", 3600 * TP_CLOCK_S},
    };
    telpher_status status;
    uint64_t value = 0;

    if (strcasecmp(text, "forever") == 0) {
        value = TP_CLOCK_FOREVER;
    } else if (strcmp(text, "0") != 0 &&
               !read_scaled(text, units, TP_ARRAY_LEN(units), &value)) {
        return expected(err, "a duration such as 50us, 2.5ms, 10s or forever", text);
    }
    status = check_bounds(entry, false, value, text, err);
    if (status == TELPHER_OK) {
        *(uint64_t *)field = value;
    }
    return status;
}

/* ---- words ---- */

static telpher_status
parse_bool(const struct tp_config_entry *entry, const char *text, void *field,
           struct tp_error *err)
{
    static const char *const no_yes[][2] = {
        {"no", "yes"}, {"off", "on"}, {"false", "true"}, {"0", "1"}};

    for (size_t i = 0; i < TP_ARRAY_LEN(no_yes); i++) {
        for (int value = 0; value < 2; value++) {
            if (strcasecmp(text, no_yes[i][value]) == 0) {
                *(bool *)field = value != 0;
                return TELPHER_OK;
            }
        }
    }
    return expected(err, "yes or no", text);
}

static telpher_status
parse_choice(const struct tp_config_entry *entry, const char *text, void *field,
             struct tp_error *err)
{
    char all[128] = "";
    size_t len = 0;

    for (int i = 0; entry->choices[i] != NULL; i++) {
        int added;

        if (strcasecmp(text, entry->choices[i]) == 0) {
            *(int *)field = i;
            return TELPHER_OK;
        }
        added = snprintf(all + len, sizeof(all) - len, "%s%s", i > 0 ? ", " : "",
                         entry->choices[i]);
        len = TP_MIN(len + (size_t)TP_MAX(added, 0), sizeof(all) - 1);
    }
    return tp_error_set(err, TELPHER_ERR_INVALID, "expected one of %s, found \"%.60s\"",
                        all, text);
}

static void
clear_string(void *field)
{
    char **string = field;

    tp_free(*string);
    *string = NULL;
}

static telpher_status
parse_string(const struct tp_config_entry *entry, const char *text, void *field,
             struct tp_error *err)
{
    char *copy = tp_strdup(text, "setting");

    if (copy == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the value of %s", entry->name);
    }
    clear_string(field);
    *(char **)field = copy;
    return TELPHER_OK;
}

static void
clear_words(void *field)
{
    struct tp_config_list *list = field;

    for (size_t i = 0; i < list->count; i++) {
        tp_free(list->items[i]);
    }
    tp_free(list->items);
    *list = (struct tp_config_list){0};
}

static telpher_status
add_word(struct tp_config_list *list, const char *text, size_t len)
{
    char **items;
    char *word;

    while (len > 0 && isspace((unsigned char)text[0])) {
        text++;
        len--;
    }
    while (len > 0 && isspace((unsigned char)text[len - 1])) {
        len--;
    }
    if (len == 0) {
        return TELPHER_OK;
    }
    items = tp_realloc_array(list->items, list->count + 1, sizeof(*items), "setting");
    if (items == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    list->items = items;
    word = tp_strndup(text, len, "setting");
    if (word == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    list->items[list->count++] = word;
    return TELPHER_OK;
}

static telpher_status
parse_words(const struct tp_config_entry *entry, const char *text, void *field,
            struct tp_error *err)
{
    struct tp_config_list list = {0};

    while (*text != '\0') {
        size_t len = strcspn(text, ",");

        if (add_word(&list, text, len) != TELPHER_OK) {
            clear_words(&list);
            return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                                "out of memory for the list of %s", entry->name);
        }
        text += len + (text[len] == ',');
    }
    clear_words(field);
    *(struct tp_config_list *)field = list;
    return TELPHER_OK;
}

const struct tp_config_parser tp_config_bool = {"yes or no", sizeof(bool), parse_bool,
                                                NULL};
const struct tp_config_parser tp_config_int = {"number", sizeof(int), parse_int, NULL};
const struct tp_config_parser tp_config_u64 = {"number", sizeof(uint64_t), parse_u64,
                                               NULL};
const struct tp_config_parser tp_config_size = {"size", sizeof(uint64_t), parse_size,
                                                NULL};
const struct tp_config_parser tp_config_duration = {"duration", sizeof(uint64_t),
                                                    parse_duration, NULL};
const struct tp_config_parser tp_config_string = {"text", sizeof(char *), parse_string,
                                                  clear_string};
const struct tp_config_parser tp_config_words = {"list", sizeof(struct tp_config_list),
                                                 parse_words, clear_words};
const struct tp_config_parser tp_config_choice = {"choice", sizeof(int), parse_choice,
                                                  NULL};
