/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the log: levels, topics, escapes, cutting, threads, stderr. */
#include "base/test_int.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config/settings.h"
#include "base/trace/log.h"

/* The sink's last line, and the number of calls. */
static struct {
    char line[TP_LOG_LINE_MAX + 1];
    size_t len;
    enum tp_log_level level;
    char topic[32];
    _Atomic int count;
} got;

static void
keep_line(void *user, enum tp_log_level level, const char *topic, const char *line,
          size_t len)
{
    (void)user;
    memcpy(got.line, line, len);
    got.line[len] = '\0';
    got.len = len;
    got.level = level;
    snprintf(got.topic, sizeof(got.topic), "%s", topic);
    got.count++;
}

static int
set_up(void **state)
{
    (void)state;
    memset(&got, 0, sizeof(got));
    tp_log_configure(NULL, NULL);
    tp_log_set_format(TP_LOG_TEXT);
    return tp_log_set_sink(keep_line, NULL);
}

static void
default_level_is_warn(void **state)
{
    char wanted[64];

    (void)state;
    tp_info("icd", "hidden");
    assert_int_equal(got.count, 0);
    tp_warn("icd", "seen %d", 5);
    assert_int_equal(got.count, 1);
    snprintf(wanted, sizeof(wanted), "telpher[%d] warn icd: seen 5\n", (int)getpid());
    assert_string_equal(got.line, wanted);
    assert_int_equal(got.level, TP_LOG_WARN);
    assert_string_equal(got.topic, "icd");
}

static void
topics_have_their_own_level(void **state)
{
    (void)state;
    assert_int_equal(tp_log_configure(" error , icd:debug, tcp : none", NULL),
                     TELPHER_OK);
    tp_debug("icd", "seen");
    tp_trace("icd", "hidden");
    tp_warn("core", "hidden");
    tp_error("core", "seen");
    tp_error("tcp", "hidden");
    assert_int_equal(got.count, 2);
    assert_true(tp_log_enabled(TP_LOG_DEBUG, "icd"));
    assert_false(tp_log_enabled(TP_LOG_WARN, "core"));
}

static void
arguments_of_hidden_lines_are_not_evaluated(void **state)
{
    int calls = 0;

    (void)state;
    tp_debug("icd", "%d", ++calls);
    assert_int_equal(calls, 0);
}

static void
wrong_specs_are_named_and_change_nothing(void **state)
{
    struct tp_error err = {0};

    (void)state;
    assert_int_equal(tp_log_configure("info", NULL), TELPHER_OK);
    assert_int_equal(tp_log_configure("debug,icd:lots", &err), TELPHER_ERR_INVALID);
    assert_non_null(strstr(err.text, "\"lots\" is no log level"));
    assert_int_equal(tp_log_configure(":debug", &err), TELPHER_ERR_INVALID);
    assert_int_equal(tp_log_configure("abcdefghijklmnop:info", &err),
                     TELPHER_ERR_LIMIT);
    assert_true(tp_log_enabled(TP_LOG_INFO, "icd"));
    assert_false(tp_log_enabled(TP_LOG_DEBUG, "icd"));
}

static void
too_many_topics_are_refused(void **state)
{
    char spec[512] = "";

    (void)state;
    for (int i = 0; i < 24; i++) {
        snprintf(spec + strlen(spec), sizeof(spec) - strlen(spec), "t%d:info,", i);
    }
    assert_int_equal(tp_log_configure(spec, NULL), TELPHER_OK);
    snprintf(spec + strlen(spec), sizeof(spec) - strlen(spec), "more:info");
    assert_int_equal(tp_log_configure(spec, NULL), TELPHER_ERR_LIMIT);
}

static void
control_characters_cannot_forge_lines(void **state)
{
    (void)state;
    tp_warn("icd", "%s", "a\nb\x1b[0m\t");
    assert_non_null(strstr(got.line, "a\\nb\\x1b[0m\\x09\n"));
    assert_ptr_equal(strchr(got.line, '\n'), got.line + got.len - 1);
}

static void
logfmt_quotes_and_has_iso_time(void **state)
{
    (void)state;
    tp_log_set_format(TP_LOG_LOGFMT);
    tp_warn("icd", "say \"%s\"", "c:\\x");
    assert_memory_equal(got.line, "time=20", 7);
    assert_int_equal(got.line[15], 'T');
    assert_int_equal(got.line[31], 'Z');
    assert_non_null(strstr(got.line, " level=warn topic=icd pid="));
    assert_non_null(strstr(got.line, " msg=\"say \\\"c:\\\\x\\\"\"\n"));
}

static void
long_lines_are_cut_and_still_one_line(void **state)
{
    char text[3 * TP_LOG_LINE_MAX];

    (void)state;
    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tp_log_set_format(TP_LOG_LOGFMT);
    tp_warn("icd", "%s", text);
    assert_true(got.len <= TP_LOG_LINE_MAX);
    assert_string_equal(got.line + got.len - 5, "...\"\n");
}

static void
errno_survives(void **state)
{
    (void)state;
    errno = ENOTTY;
    tp_warn("icd", "%s", "x");
    assert_int_equal(errno, ENOTTY);
}

static void
wrong_variable_gives_one_warning(void **state)
{
    (void)state;
    setenv("TELPHER_LOG", "loud", 1);
    tp_settings_configure_log();
    assert_int_equal(got.count, 1);
    assert_non_null(strstr(got.line, "TELPHER_LOG is ignored: \"loud\""));
    setenv("TELPHER_LOG", "info", 1);
    tp_settings_configure_log();
    assert_true(tp_log_enabled(TP_LOG_INFO, "x"));
    unsetenv("TELPHER_LOG");
}

static void
count_line(void *user, enum tp_log_level level, const char *topic, const char *line,
           size_t len)
{
    (void)level;
    (void)topic;
    if (line[len - 1] == '\n') {
        ++*(_Atomic int *)user;
    }
}

static void *
log_much(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        tp_warn("icd", "line %d of %p", i, arg);
    }
    return NULL;
}

static void
threads_log_while_levels_change(void **state)
{
    _Atomic int count = 0;
    pthread_t threads[4];

    (void)state;
    tp_log_set_sink(count_line, &count);
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, log_much, NULL);
    }
    for (int i = 0; i < 50; i++) {
        tp_log_configure(i % 2 != 0 ? "warn" : "info,x:data", NULL);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(count, 4000);
}

static void
without_sink_a_line_is_one_write_to_stderr(void **state)
{
    int saved = dup(STDERR_FILENO);
    char text[256] = "";
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_DIRECT), 0); /* each read gets one write */
    tp_log_set_sink(NULL, NULL);
    dup2(ends[1], STDERR_FILENO);
    tp_warn("icd", "first");
    tp_warn("icd", "second");
    dup2(saved, STDERR_FILENO);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "first\n"));
    assert_null(strstr(text, "second"));
    close(saved);
    close(ends[0]);
    close(ends[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(default_level_is_warn, set_up),
        cmocka_unit_test_setup(topics_have_their_own_level, set_up),
        cmocka_unit_test_setup(arguments_of_hidden_lines_are_not_evaluated, set_up),
        cmocka_unit_test_setup(wrong_specs_are_named_and_change_nothing, set_up),
        cmocka_unit_test_setup(too_many_topics_are_refused, set_up),
        cmocka_unit_test_setup(control_characters_cannot_forge_lines, set_up),
        cmocka_unit_test_setup(logfmt_quotes_and_has_iso_time, set_up),
        cmocka_unit_test_setup(long_lines_are_cut_and_still_one_line, set_up),
        cmocka_unit_test_setup(errno_survives, set_up),
        cmocka_unit_test_setup(wrong_variable_gives_one_warning, set_up),
        cmocka_unit_test_setup(threads_log_while_levels_change, set_up),
        cmocka_unit_test_setup(without_sink_a_line_is_one_write_to_stderr, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
