/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files with settings of every type. */
#include "support/fuzz.h"

#include "base/compiler.h"
#include "base/config/config.h"

static const char *const colours[] = {"red", "green", NULL};

struct values {
    bool flag;
    int number;
    uint64_t count, size, duration;
    char *text;
    struct tp_config_list words;
    int colour;
};

#define FIELD(member) .offset = offsetof(struct values, member)

static const struct tp_config_entry entries[] = {
    {.name = "FLAG", .default_text = "no", .parser = &tp_config_bool, FIELD(flag)},
    {.name = "NUMBER",
     .default_text = "1",
     .parser = &tp_config_int,
     .min = -10,
     .max = 10,
     FIELD(number)},
    {.name = "COUNT", .default_text = "1", .parser = &tp_config_u64, FIELD(count)},
    {.name = "SIZE", .default_text = "4K", .parser = &tp_config_size, FIELD(size)},
    {.name = "DURATION",
     .default_text = "1s",
     .parser = &tp_config_duration,
     FIELD(duration)},
    {.name = "TEXT", .default_text = "", .parser = &tp_config_string, FIELD(text)},
    {.name = "WORDS", .default_text = "a,b", .parser = &tp_config_words, FIELD(words)},
    {.name = "COLOUR",
     .default_text = "red",
     .parser = &tp_config_choice,
     .choices = colours,
     FIELD(colour)},
};

static void
check_values(const struct values *v)
{
    require(v->number >= -10 && v->number <= 10);
    require(v->colour == 0 || v->colour == 1);
    require(v->text != NULL);
    touch(v->text, strlen(v->text));
    for (size_t i = 0; i < v->words.count; i++) {
        touch(v->words.items[i], strlen(v->words.items[i]));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct values v = {0};
    const struct tp_config_room room = {"fuzz", entries, TP_ARRAY_LEN(entries), &v};
    char *text = exact_copy(data, len); /* not ended by a 0 byte */
    struct tp_error err = {0};
    struct tp_config *config;

    require(tp_config_create(&room, 1, &config) == TELPHER_OK);
    if (tp_config_load_text(config, text, len, "fuzz", &err) != TELPHER_OK) {
        require(err.text[0] != '\0');
    }
    check_values(&v);
    tp_config_destroy(config);
    free(text);
    return 0;
}
