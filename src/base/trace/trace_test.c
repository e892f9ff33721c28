/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the trace: what is written, wrapping, threads, fork, errors. */
#include "base/test_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/thread.h"
#include "base/trace/log.h"
#include "base/trace/trace.h"

static char dir[] = "/tmp/telpher-trace-XXXXXX";
static char path[128];

static int
set_up(void **state)
{
    (void)state;
    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 7);
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/trace.json", dir);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    tp_trace_stop(NULL);
    unlink(path);
    return rmdir(dir);
}

/* The file's text; the test frees it. */
static char *
read_trace(void)
{
    FILE *file = fopen(path, "r");
    struct stat st;
    char *text;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    text = calloc(1, (size_t)st.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)st.st_size, file), st.st_size);
    (void)fclose(file);
    return text;
}

static int
count(const char *text, const char *piece)
{
    int n = 0;

    for (; (text = strstr(text, piece)) != NULL; text++) {
        n++;
    }
    return n;
}

static void
assert_contains(const char *text, const char *piece)
{
    if (strstr(text, piece) == NULL) {
        fail_msg("no %s in %.2000s", piece, text);
    }
}

static void
off_costs_no_evaluation_and_writes_nothing(void **state)
{
    int calls = 0;

    (void)state;
    tp_trace_instant("test", "off", TP_ARG("n", ++calls));
    assert_int_equal(calls, 0);
    assert_int_equal(tp_trace_flush(NULL), TELPHER_OK);
    assert_int_equal(access(path, F_OK), -1);
}

static void
every_kind_of_record_is_written(void **state)
{
    char *text;

    (void)state;
    assert_int_equal(tp_trace_start(path, 0, NULL), TELPHER_OK);
    tp_trace_set_process_name("a \"test\"");
    tp_trace_instant("test", "point");
    tp_trace_begin("test", "work", TP_ARG("a", 1), TP_ARG("b", UINT64_MAX));
    tp_trace_end("test", "work");
    tp_trace_span("test", "span", tp_clock_ns() - 1500, TP_ARG("x", 7));
    tp_trace_counter("test", "depth", TP_ARG("jobs", 3));
    tp_trace_frame("send", TP_ARG("1", 1), TP_ARG("2", 2), TP_ARG("3", 3),
                   TP_ARG("4", 4));
    assert_int_equal(tp_trace_flush(NULL), TELPHER_OK);
    text = read_trace();
    assert_contains(text, "\"args\":{\"name\":\"a \\u0022test\\u0022\"}");
    assert_contains(text,
                    "\"s\":\"t\",\"cat\":\"test\",\"name\":\"point\",\"args\":{}}");
    assert_contains(
        text, "\"name\":\"work\",\"args\":{\"a\":1,\"b\":\"0xffffffffffffffff\"}");
    assert_contains(text, "\"ph\":\"E\"");
    assert_contains(text, "\"dur\":");
    assert_contains(text, "\"args\":{\"jobs\":3}");
    assert_contains(text, "\"cat\":\"frame\",\"name\":\"send\",\"args\":"
                          "{\"1\":1,\"2\":2,\"3\":3,\"4\":4}");
    assert_contains(text, "\"records\":6,\"dropped\":0");
    free(text);
}

static void
full_ring_keeps_the_newest_and_tells(void **state)
{
    char *text;

    (void)state;
    assert_int_equal(tp_trace_start(path, 100, NULL), TELPHER_OK); /* 128 */
    for (int i = 0; i < 1000; i++) {
        tp_trace_instant("test", "step", TP_ARG("i", i));
    }
    assert_int_equal(tp_trace_stop(NULL), TELPHER_OK);
    text = read_trace();
    assert_int_equal(count(text, "\"name\":\"step\""), 128);
    assert_contains(text, "{\"i\":999}");
    assert_contains(text, "{\"i\":872}");
    assert_null(strstr(text, "{\"i\":871}"));
    assert_contains(text, "\"dropped\":872");
    free(text);
}

static void
environment_sets_path_and_records(void **state)
{
    char *text;

    (void)state;
    setenv("TELPHER_TRACE", path, 1);
    setenv("TELPHER_TRACE_RECORDS", "16", 1);
    tp_trace_start_env();
    for (int i = 0; i < 20; i++) {
        tp_trace_instant("test", "step", TP_ARG("i", i));
    }
    assert_int_equal(tp_trace_stop(NULL), TELPHER_OK);
    text = read_trace();
    assert_int_equal(count(text, "\"name\":\"step\""), 16);
    free(text);
    unsetenv("TELPHER_TRACE");
    unsetenv("TELPHER_TRACE_RECORDS");
}

static void *
record_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20000; i++) {
        tp_trace_instant("test", "busy", TP_ARG("i", i), TP_ARG("same", i));
    }
    return NULL;
}

static void
threads_record_while_others_flush(void **state)
{
    pthread_t threads[4];
    unsigned long long i;
    unsigned long long same;
    char *text;

    (void)state;
    assert_int_equal(tp_trace_start(path, 64, NULL), TELPHER_OK);
    for (int t = 0; t < 4; t++) {
        assert_int_equal(tp_thread_create(&threads[t], "tracer", record_much, NULL),
                         TELPHER_OK);
    }
    for (int n = 0; n < 20; n++) {
        assert_int_equal(tp_trace_flush(NULL), TELPHER_OK);
    }
    for (int t = 0; t < 4; t++) {
        tp_thread_join(threads[t]);
    }
    assert_int_equal(tp_trace_stop(NULL), TELPHER_OK);
    text = read_trace();
    for (const char *at = text; (at = strstr(at, "{\"i\":")) != NULL; at++) {
        assert_int_equal(sscanf(at, "{\"i\":%llu,\"same\":%llu}", &i, &same), 2);
        assert_int_equal(i, same); /* no record is half one, half another */
    }
    free(text);
}

static void
second_start_and_wrong_sizes_are_refused(void **state)
{
    struct tp_error err = {0};

    (void)state;
    assert_int_equal(tp_trace_start(path, SIZE_MAX, &err), TELPHER_ERR_RANGE);
    tp_alloc_fail_nth(2);
    assert_int_equal(tp_trace_start(path, 16, &err), TELPHER_ERR_NO_MEMORY);
    assert_int_equal(tp_trace_start(path, 16, &err), TELPHER_OK);
    assert_int_equal(tp_trace_start(path, 16, &err), TELPHER_ERR_EXISTS);
}

static void
path_that_cannot_be_written_is_named(void **state)
{
    struct tp_error err = {0};
    char wrong[160];

    (void)state;
    snprintf(wrong, sizeof(wrong), "%s/no/where", dir);
    assert_int_equal(tp_trace_start(wrong, 16, &err), TELPHER_OK);
    assert_int_equal(tp_trace_stop(&err), TELPHER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "no/where"));
}

static void
process_id_goes_into_the_name(void **state)
{
    char template[160];

    (void)state;
    snprintf(template, sizeof(template), "%s/%%p-%%%%-%%x", dir);
    assert_int_equal(tp_trace_start(template, 16, NULL), TELPHER_OK);
    assert_int_equal(tp_trace_stop(NULL), TELPHER_OK);
    snprintf(path, sizeof(path), "%s/%d-%%-%%x", dir, (int)getpid());
    assert_int_equal(access(path, R_OK), 0);
}

static void
child_writes_nothing_unless_started(void **state)
{
    int status = 1;
    pid_t child;

    (void)state;
    assert_int_equal(tp_trace_start(path, 16, NULL), TELPHER_OK);
    child = fork();
    if (child == 0) {
        bool off = !tp_trace_enabled() && tp_trace_flush(NULL) == TELPHER_OK &&
                   access(path, F_OK) != 0;

        _exit(off && tp_trace_start(path, 16, NULL) == TELPHER_OK &&
                      tp_trace_flush(NULL) == TELPHER_OK && access(path, F_OK) == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void
file_is_written_at_exit(void **state)
{
    int status = 1;
    pid_t child = fork();
    char *text;

    (void)state;
    if (child == 0) {
        setenv("TELPHER_TRACE", path, 1);
        tp_trace_start_env();
        tp_trace_instant("test", "last event");
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    text = read_trace();
    assert_contains(text, "last event");
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file_is_written_at_exit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(off_costs_no_evaluation_and_writes_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_kind_of_record_is_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(full_ring_keeps_the_newest_and_tells, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(environment_sets_path_and_records, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(threads_record_while_others_flush, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(second_start_and_wrong_sizes_are_refused,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(path_that_cannot_be_written_is_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(process_id_goes_into_the_name, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(child_writes_nothing_unless_started, set_up,
                                        tear_down),
    };

    tp_log_configure("none", NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
