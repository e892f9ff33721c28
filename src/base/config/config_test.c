/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of settings: types, sources, messages, printing, lack of memory. */
#include "base/test_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/config/settings.h"
#include "base/os/clock.h"
#include "base/trace/log.h"

struct values {
    bool flag;
    int number;
    uint64_t big;
    uint64_t size;
    uint64_t timeout_ns;
    char *name;
    struct tp_config_list words;
    int color;
};

static const char *const colors[] = {"red", "green", NULL};

#define ENTRY(entry_name, def, kind, field)                                            \
    .name = entry_name, .default_text = def, .help = "help of " entry_name,            \
    .parser = &tp_config_##kind, .offset = offsetof(struct values, field)

static const struct tp_config_entry entries[] = {
    {ENTRY("FLAG", "yes", bool, flag)},
    {ENTRY("NUMBER", "-5", int, number), .min = -10, .max = 10},
    {ENTRY("BIG", "0xFFFFFFFFFFFFFFFF", u64, big)},
    {ENTRY("SIZE", "4K", size, size), .min = 1, .max = (int64_t)1 << 40},
    {ENTRY("TCP_TIMEOUT", "2.5ms", duration, timeout_ns)},
    {ENTRY("NAME", "", string, name)},
    {ENTRY("SERVERS", "a, b", words, words)},
    {ENTRY("COLOR", "green", choice, color), .choices = colors},
};

static const struct tp_config_entry foreign_entries[] = {
    {.name = "FOREIGN",
     .default_text = "x|y",
     .help = "a|b",
     .parser = &tp_config_string},
};

static struct values values;
static const struct tp_config_room rooms[] = {
    {"test", entries, TP_ARRAY_LEN(entries), &values},
    {"other", foreign_entries, 1, NULL},
};

static struct tp_config *config;
static struct tp_error err;
static char warnings[1024];

static void
keep_warning(void *user, enum tp_log_level level, const char *topic, const char *line,
             size_t len)
{
    (void)user;
    (void)level;
    (void)topic;
    (void)len;
    snprintf(warnings + strlen(warnings), sizeof(warnings) - strlen(warnings), "%s",
             line);
}

static int
set_up(void **state)
{
    (void)state;
    memset(&values, 0xaa, sizeof(values)); /* create must not rely on zeros */
    memset(&err, 0, sizeof(err));
    warnings[0] = '\0';
    return tp_config_create(rooms, 2, &config);
}

static int
tear_down(void **state)
{
    (void)state;
    tp_config_destroy(config);
    return 0;
}

static telpher_status
load(const char *text)
{
    return tp_config_load_text(config, text, strlen(text), "file", &err);
}

static void
defaults_are_parsed(void **state)
{
    (void)state;
    assert_true(values.flag);
    assert_int_equal(values.number, -5);
    assert_true(values.big == UINT64_MAX);
    assert_int_equal(values.size, 4096);
    assert_int_equal(values.timeout_ns, 2500000);
    assert_string_equal(values.name, "");
    assert_int_equal(values.words.count, 2);
    assert_string_equal(values.words.items[1], "b");
    assert_int_equal(values.color, 1);
    assert_int_equal(tp_config_source_of(config, "name"), TP_CONFIG_DEFAULT);
}

static void
good_values_are_read(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        uint64_t *field;
        uint64_t value;
    } good[] = {
        {"size", "1", &values.size, 1},
        {"size", "1.5M", &values.size, 3 << 19},
        {"size", "2GiB", &values.size, (uint64_t)2 << 30},
        {"size", "7b", &values.size, 7},
        {"tcp_timeout", "0", &values.timeout_ns, 0},
        {"tcp-timeout", "50us", &values.timeout_ns, 50000},
        {"Tcp_Timeout", "3min", &values.timeout_ns, 180 * TP_CLOCK_S},
        {"TCP_TIMEOUT", "forever", &values.timeout_ns, TP_CLOCK_FOREVER},
        {"tcp_timeout", "1.000000001s", &values.timeout_ns, TP_CLOCK_S + 1},
        {"big", "18446744073709551615", &values.big, UINT64_MAX},
        {"big", "0x10", &values.big, 16},
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(good); i++) {
        assert_int_equal(tp_config_set(config, good[i].name, good[i].text, "--x", &err),
                         TELPHER_OK);
        assert_true(*good[i].field == good[i].value);
    }
    assert_int_equal(tp_config_source_of(config, "size"), TP_CONFIG_OPTION);
}

static void
wrong_values_are_refused_and_change_nothing(void **state)
{
    static const char *const wrong[][2] = {
        {"flag", "maybe"},       {"flag", ""},
        {"number", "11"},        {"number", "-11"},
        {"number", "1x"},        {"number", ""},
        {"number", "--1"},       {"number", "99999999999999999999"},
        {"big", "-1"},           {"big", "18446744073709551616"},
        {"big", "0x"},           {"big", "1 2"},
        {"size", "0"},           {"size", "2T"},
        {"size", "1X"},          {"size", "99999999999G"},
        {"size", ".5K"},         {"size", "1.K"},
        {"tcp_timeout", "5"},    {"tcp_timeout", "-5s"},
        {"tcp_timeout", "5 s"},  {"tcp_timeout", "1.1234567890s"},
        {"tcp_timeout", "ever"}, {"tcp_timeout", "9999999999999s"},
        {"color", "blue"},
    };
    struct values before = values;

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(wrong); i++) {
        telpher_status status =
            tp_config_set(config, wrong[i][0], wrong[i][1], "--option", &err);

        assert_true(status == TELPHER_ERR_INVALID || status == TELPHER_ERR_RANGE);
        assert_memory_equal(err.text, "--option: ", 10);
    }
    assert_memory_equal(&values, &before, sizeof(values));
}

static void
messages_name_the_fix(void **state)
{
    (void)state;
    tp_config_set(config, "color", "blue", "--color", &err);
    assert_string_equal(err.text,
                        "--color: expected one of red, green, found \"blue\"");
    tp_config_set(config, "color", "blue", "params", &err); /* no name in it */
    assert_string_equal(err.text,
                        "params: color: expected one of red, green, found \"blue\"");
    tp_config_set(config, "number", "11", "--number", &err);
    assert_string_equal(err.text, "--number: \"11\" is not between -10 and 10");
    assert_int_equal(tp_config_set(config, "servrs", "x", "--servrs", &err),
                     TELPHER_ERR_NOT_FOUND);
    assert_string_equal(
        err.text, "--servrs: unknown setting \"servrs\"; did you mean \"servers\"?");
}

static void
file_is_loaded(void **state)
{
    (void)state;
    assert_int_equal(load("# comment\n"
                          "\n"
                          "  flag=off\r\n"
                          "name = plain text # not this\n"
                          "servers = x,y ,z\n"
                          "tcp-timeout = 1s"),
                     TELPHER_OK);
    assert_false(values.flag);
    assert_string_equal(values.name, "plain text");
    assert_int_equal(values.words.count, 3);
    assert_string_equal(values.words.items[2], "z");
    assert_int_equal(values.timeout_ns, TP_CLOCK_S);
    assert_int_equal(tp_config_source_of(config, "flag"), TP_CONFIG_FILE);
    assert_int_equal(load("name = \" a # \\\"b\\\" \\\\ \"  # c\n"), TELPHER_OK);
    assert_string_equal(values.name, " a # \"b\" \\ ");
    assert_int_equal(load("name = a#b"), TELPHER_OK);
    assert_string_equal(values.name, "a#b");
    assert_int_equal(load("name =\n"), TELPHER_OK);
    assert_string_equal(values.name, "");
    assert_int_equal(load("foreign = for the other program\n"), TELPHER_OK);
}

static void
file_mistakes_name_line_and_fix(void **state)
{
    static const char *const wrong[][2] = {
        {"\nflag\n", "file:2: \"flag\" is no setting; write key = value"},
        {"= x\n", "file:1: \"= x\" is no setting; write key = value"},
        {"[room]\n", "file:1: \"[room]\" is no setting; write key = value"},
        {"flag = yes\nflga = no\n",
         "file:2: unknown setting \"flga\"; did you mean \"flag\"?"},
        {"qqqqqqqqqqqq = 1", "file:1: unknown setting \"qqqqqqqqqqqq\""},
        {"number = 1O", "file:1: number: expected a whole number, found \"1O\""},
        {"name = \"abc", "file:1: no closing quote; write key = \"value\""},
        {"name = \"abc\\", "file:1: no closing quote; write key = \"value\""},
        {"name = \"a\" b",
         "file:1: text after the closing quote; put \"#\" before a comment"},
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(wrong); i++) {
        telpher_status status = load(wrong[i][0]);

        assert_int_equal(status, TELPHER_ERR_INVALID);
        assert_int_equal(status, err.code);
        assert_string_equal(err.text, wrong[i][1]);
        assert_int_equal(
            tp_config_load_text(config, wrong[i][0], strlen(wrong[i][0]), "file", NULL),
            TELPHER_ERR_INVALID);
    }
    assert_int_equal(tp_config_load_text(config, "a\0b", 3, "file", &err),
                     TELPHER_ERR_INVALID);
}

static void
missing_and_huge_files_are_refused(void **state)
{
    char path[] = "/tmp/telpher-config-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "number = 7\n", 11), 11);
    assert_int_equal(tp_config_load_file(config, path, &err), TELPHER_OK);
    assert_int_equal(values.number, 7);
    assert_int_equal(ftruncate(fd, (1 << 20) + 1), 0);
    assert_int_equal(tp_config_load_file(config, path, &err), TELPHER_ERR_LIMIT);
    close(fd);
    unlink(path);
    assert_int_equal(tp_config_load_file(config, path, &err), TELPHER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, path));
    assert_int_not_equal(tp_config_load_file(config, "/tmp", &err), TELPHER_OK);
}

static void
environment_replaces_the_file(void **state)
{
    char *environment[] = {(char *)"HOME=/x", (char *)"TELPHER_NUMBER=3",
                           (char *)"TELPHER_NAME=", (char *)"TELPHER_SERVERS=one",
                           NULL};

    (void)state;
    assert_int_equal(load("number = 2\nname = n"), TELPHER_OK);
    assert_int_equal(tp_config_load_env(config, environment, &err), TELPHER_OK);
    assert_int_equal(values.number, 3);
    assert_string_equal(values.name, "");
    assert_int_equal(values.words.count, 1);
    assert_int_equal(tp_config_source_of(config, "NUMBER"), TP_CONFIG_ENV);
    assert_string_equal(warnings, "");
}

static void
wrong_variables_do_not_stop_the_others(void **state)
{
    char *environment[] = {(char *)"TELPHER_SIZE=big",  (char *)"TELPHER_FLAG=perhaps",
                           (char *)"TELPHER_NUMBER=4",  (char *)"TELPHER_SERVER=x",
                           (char *)"TELPHER_FOREIGN=x", (char *)"TELPHER_ZZZZZZZZ=x",
                           (char *)"TELPHER_",          NULL};

    (void)state;
    tp_log_set_sink(keep_warning, NULL);
    assert_int_equal(tp_config_load_env(config, environment, &err),
                     TELPHER_ERR_INVALID);
    tp_log_set_sink(NULL, NULL);
    assert_string_equal(err.text,
                        "TELPHER_SIZE: expected a size such as 64K, 16M or 1G, "
                        "found \"big\"");
    assert_int_equal(values.number, 4);
    assert_true(values.flag);
    assert_string_equal(warnings, ""); /* tp_settings_start() warns, not each load */
}

static void
unknown_variables_give_a_warning(void **state)
{
    (void)state;
    warnings[0] = '\0';
    setenv("TELPHER_SERVER", "x", 1);
    setenv("TELPHER_OFLOAD_WORKERS", "x", 1); /* of another library */
    setenv("TELPHER_ZZZZZZZZ", "x", 1);
    setenv("TELPHER_RMA_RANKS", "2", 1);
    tp_log_set_sink(keep_warning, NULL);
    tp_settings_start();
    unsetenv("TELPHER_SERVER");
    setenv("TELPHER_SERVRES", "x", 1);
    tp_settings_start(); /* only the first call in a process warns */
    tp_log_set_sink(NULL, NULL);
    assert_non_null(strstr(warnings, "unknown variable TELPHER_SERVER; did you mean "
                                     "TELPHER_SERVERS?\n"));
    assert_non_null(strstr(warnings, "unknown variable TELPHER_OFLOAD_WORKERS; did you "
                                     "mean TELPHER_OFFLOAD_WORKERS?\n"));
    assert_non_null(strstr(warnings, "unknown variable TELPHER_ZZZZZZZZ\n"));
    assert_null(strstr(warnings, "RMA_RANKS"));
    assert_null(strstr(warnings, "SERVRES"));
    unsetenv("TELPHER_OFLOAD_WORKERS");
    unsetenv("TELPHER_ZZZZZZZZ");
    unsetenv("TELPHER_RMA_RANKS");
    unsetenv("TELPHER_SERVRES");
}

/* A file may hold settings of several components: each takes its own. */
static void
single_values_come_from_environment_then_file(void **state)
{
    char path[] = "/tmp/telpher_config_test.XXXXXX";
    int fd = mkstemp(path);
    static const char text[] = "servers = one\nrma_ranks = 3\nlog_format = text\n";

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    close(fd);
    setenv("TELPHER_CONFIG", path, 1);
    assert_int_equal(tp_settings_load(config, NULL, &err), TELPHER_OK);
    assert_int_equal(values.words.count, 1);
    assert_string_equal(tp_settings_get("SERVERS"), "one");
    assert_string_equal(tp_settings_get("RMA_RANKS"), "3");
    assert_null(tp_settings_get("RMA_CHECK"));
    setenv("TELPHER_RMA_RANKS", "4", 1);
    assert_string_equal(tp_settings_get("RMA_RANKS"), "4");
    unsetenv("TELPHER_RMA_RANKS");
    unsetenv("TELPHER_CONFIG");
    unlink(path);
}

static void
everything_is_printed(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_int_equal(load("\nnumber = 9"), TELPHER_OK);
    tp_config_print(config, out);
    tp_config_print_markdown(config, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "TELPHER_NUMBER      = 9 "));
    assert_non_null(strstr(text, "(file:2)  help of NUMBER\n"));
    assert_non_null(strstr(text, "(default)  help of FLAG\n"));
    assert_non_null(
        strstr(text, "\n## other\n\n| Variable | Type | Default | Meaning |\n"));
    assert_non_null(strstr(
        text, "| `TELPHER_COLOR` | `red`, `green` | `green` | help of COLOR |\n"));
    assert_non_null(strstr(text, "| `TELPHER_FOREIGN` | text | `x|y` | a\\|b |\n"));
    free(text);
}

static void
lack_of_memory_leaks_and_breaks_nothing(void **state)
{
    uint64_t before = tp_alloc_live();
    struct values others;
    const struct tp_config_room room = {"test", entries, TP_ARRAY_LEN(entries),
                                        &others};
    bool failed = true;

    (void)state;
    for (uint64_t nth = 1; failed; nth++) {
        struct tp_config *other = NULL;
        telpher_status status;

        tp_alloc_fail_nth(nth);
        status = tp_config_create(&room, 1, &other);
        if (status == TELPHER_OK) {
            status = tp_config_load_text(other, "name=x\nservers=a,b", 18, "f", &err);
        }
        failed = tp_alloc_failed();
        assert_int_equal(status, failed ? TELPHER_ERR_NO_MEMORY : TELPHER_OK);
        tp_alloc_fail_nth(0);
        tp_config_destroy(other);
        assert_int_equal(tp_alloc_live(), before);
    }
}

static void
settings_of_base_work(void **state)
{
    struct tp_settings settings;
    struct tp_config_room room = {"base", tp_settings_entries, tp_settings_entry_count,
                                  &settings};
    struct tp_config *base;

    (void)state;
    assert_int_equal(tp_config_create(&room, 1, &base), TELPHER_OK);
    setenv("TELPHER_LOG", "none,x:info", 1);
    assert_int_equal(tp_settings_load(base, "/nonexistent/telpher.conf", &err),
                     TELPHER_OK);
    assert_int_equal(tp_settings_apply(&settings, &err), TELPHER_OK);
    assert_true(tp_log_enabled(TP_LOG_INFO, "x"));
    assert_false(tp_log_enabled(TP_LOG_ERROR, "y"));
    setenv("TELPHER_CONFIG", "/nonexistent/telpher.conf", 1);
    assert_int_equal(tp_settings_load(base, NULL, &err), TELPHER_ERR_NOT_FOUND);
    assert_int_equal(tp_config_set(base, "log", "nonsense", "--log", &err), TELPHER_OK);
    assert_int_equal(tp_settings_apply(&settings, &err), TELPHER_ERR_INVALID);
    unsetenv("TELPHER_CONFIG");
    unsetenv("TELPHER_LOG");
    tp_config_destroy(base);
    tp_log_configure("warn", NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_are_parsed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(good_values_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_values_are_refused_and_change_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_name_the_fix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_is_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_mistakes_name_line_and_fix, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(missing_and_huge_files_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(environment_replaces_the_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(wrong_variables_do_not_stop_the_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(single_values_come_from_environment_then_file,
                                        set_up, tear_down),
        cmocka_unit_test(unknown_variables_give_a_warning),
        cmocka_unit_test_setup_teardown(everything_is_printed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lack_of_memory_leaks_and_breaks_nothing, set_up,
                                        tear_down),
        cmocka_unit_test(settings_of_base_work),
    };

    unsetenv("TELPHER_LOG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
