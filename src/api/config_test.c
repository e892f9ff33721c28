/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that libtelpher lists are those of the programs: compared with the tables in
 * src/icd/settings.c, src/daemon/broker/options.c, src/offload/settings.c and src/rma/settings.c,
 * which are read as text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_int.h"
#include "base/config/config.h"
#include "base/os/spin.h"

enum { ENTRIES_MAX = 64, TEXT_MAX = 512 };

struct entry {
    char name[TEXT_MAX], type[TEXT_MAX], default_text[TEXT_MAX], help[TEXT_MAX];
};

struct table {
    const char *room;
    struct entry entries[ENTRIES_MAX];
    size_t count;
};

/* The text of `static const struct tp_config_entry entries[]`, up to its end. */
static char *
load_table(const char *path)
{
    static const char start[] = "struct tp_config_entry entries[] = {";
    char *text = calloc(1, 65536), *table;
    FILE *file = fopen(path, "r");

    assert_non_null(text);
    assert_non_null(file);
    assert_true(fread(text, 1, 65535, file) > 0);
    fclose(file);
    table = strstr(text, start);
    assert_non_null(table);
    table += strlen(start);
    assert_non_null(strstr(table, "\n};"));
    *strstr(table, "\n};") = '\0';
    memmove(text, table, strlen(table) + 1);
    return text;
}

/* Joins the string literals from @p src on until something else comes. */
static const char *
read_literals(const char *src, char dst[TEXT_MAX])
{
    size_t len = 0;

    for (;;) {
        src += strspn(src, " \n");
        if (*src != '"') {
            dst[len] = '\0';
            return src;
        }
        for (src++; *src != '"'; src++) {
            src += *src == '\\';
            assert_true(len < TEXT_MAX - 1);
            dst[len++] = *src;
        }
        src++;
    }
}

static const char *
type_of_parser(const char *src)
{
#define PARSER(name)                                                                   \
    if (strncmp(src, #name, strlen(#name)) == 0) {                                     \
        return name.type;                                                              \
    }
    PARSER(tp_config_bool)
    PARSER(tp_config_int)
    PARSER(tp_config_u64)
    PARSER(tp_config_size)
    PARSER(tp_config_duration)
    PARSER(tp_config_string)
    PARSER(tp_config_words)
    PARSER(tp_config_choice)
    PARSER(tp_config_spin)
#undef PARSER
    fail_msg("unknown parser: %.30s", src);
    return NULL;
}

static void
read_table(const char *path, const char *room, struct table *t)
{
    static const char name[] = ".name = ", text[] = ".default_text = ",
                      help[] = ".help =", parser[] = ".parser = &";
    char *table = load_table(path);

    t->room = room;
    for (const char *p = table; (p = strstr(p, name)) != NULL; t->count++) {
        struct entry *e = &t->entries[t->count];

        assert_true(t->count < ENTRIES_MAX);
        p = read_literals(p + strlen(name), e->name);
        p = read_literals(strstr(p, text) + strlen(text), e->default_text);
        p = read_literals(strstr(p, help) + strlen(help), e->help);
        p = strstr(p, parser) + strlen(parser);
        snprintf(e->type, sizeof(e->type), "%s", type_of_parser(p));
    }
    assert_true(t->count > 0);
    free(table);
}

static void
take_setting(void *user, const telpher_config_info *info)
{
    struct table *t = user;
    struct entry *e = &t->entries[t->count];

    if (strcmp(info->room, t->room) != 0) {
        return;
    }
    assert_true(t->count < ENTRIES_MAX);
    assert_int_equal(info->struct_size, sizeof(*info));
    assert_memory_equal(info->name, "TELPHER_", 8);
    snprintf(e->name, TEXT_MAX, "%s", info->name + 8);
    snprintf(e->type, TEXT_MAX, "%s", info->type);
    snprintf(e->default_text, TEXT_MAX, "%s", info->default_text);
    snprintf(e->help, TEXT_MAX, "%s", info->help);
    t->count++;
}

static void
compare(const char *path, const char *room)
{
    struct table *want = calloc(1, sizeof(*want)), *got = calloc(1, sizeof(*got));

    assert_non_null(want);
    assert_non_null(got);
    read_table(path, room, want);
    got->room = room;
    telpher_config_describe(take_setting, got);
    for (size_t i = 0; i < want->count && i < got->count; i++) {
        assert_string_equal(got->entries[i].name, want->entries[i].name);
        assert_string_equal(got->entries[i].type, want->entries[i].type);
        assert_string_equal(got->entries[i].default_text,
                            want->entries[i].default_text);
        assert_string_equal(got->entries[i].help, want->entries[i].help);
    }
    assert_int_equal(got->count, want->count);
    free(want);
    free(got);
}

static void
test_opencl(void **state)
{
    (void)state;
    compare(SOURCE_FOLDER "/icd/settings.c", "opencl");
}

static void
test_daemon(void **state)
{
    (void)state;
    compare(SOURCE_FOLDER "/daemon/broker/options.c", "daemon");
}

static void
test_offload(void **state)
{
    (void)state;
    compare(SOURCE_FOLDER "/offload/settings.c", "offload");
}

static void
test_rma(void **state)
{
    (void)state;
    compare(SOURCE_FOLDER "/rma/settings.c", "rma");
}

static void
take_log(void *user, const telpher_config_info *info)
{
    if (strcmp(info->name, "TELPHER_LOG") == 0) {
        assert_string_equal(info->room, "base");
        assert_string_equal(info->value, "error,core:debug");
        ++*(int *)user;
    }
}

static void
test_values(void **state)
{
    int count = 0;

    (void)state;
    setenv("TELPHER_LOG", "error,core:debug", 1);
    telpher_config_describe(take_log, &count);
    unsetenv("TELPHER_LOG");
    assert_int_equal(count, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opencl),  cmocka_unit_test(test_daemon),
        cmocka_unit_test(test_offload), cmocka_unit_test(test_rma),
        cmocka_unit_test(test_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
