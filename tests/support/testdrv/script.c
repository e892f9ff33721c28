/* SPDX-License-Identifier: Apache-2.0 */
/* Script of the test driver, from the environment: log, fail, hang, crash, be slow. */
#include "td.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RULES_MAX = 32, LINE_MAX_BYTES = 512 };

enum action { ACT_FAIL, ACT_HANG, ACT_CRASH, ACT_PAUSE };

/** One entry of TESTDRV_FAIL, _HANG, _CRASH or _PAUSE. */
struct rule {
    enum action action;
    char function[64]; /* "exec:" before it: the execution of its command */
    cl_int error;
    unsigned nth; /* which call; 0 = each */
    unsigned seen; /* calls so far */
};

static struct td_script script;
static struct rule rule[RULES_MAX];
static unsigned num_rules;
static int log_fd = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define ERROR(name)                                                                    \
    {                                                                                  \
#name, name                                                                    \
    }
static const struct {
    const char *name;
    cl_int value;
} errors[] = {
    ERROR(CL_DEVICE_NOT_FOUND),
    ERROR(CL_DEVICE_NOT_AVAILABLE),
    ERROR(CL_COMPILER_NOT_AVAILABLE),
    ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    ERROR(CL_OUT_OF_RESOURCES),
    ERROR(CL_OUT_OF_HOST_MEMORY),
    ERROR(CL_PROFILING_INFO_NOT_AVAILABLE),
    ERROR(CL_MEM_COPY_OVERLAP),
    ERROR(CL_BUILD_PROGRAM_FAILURE),
    ERROR(CL_MAP_FAILURE),
    ERROR(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    ERROR(CL_INVALID_VALUE),
    ERROR(CL_INVALID_DEVICE),
    ERROR(CL_INVALID_CONTEXT),
    ERROR(CL_INVALID_COMMAND_QUEUE),
    ERROR(CL_INVALID_MEM_OBJECT),
    ERROR(CL_INVALID_BINARY),
    ERROR(CL_INVALID_BUILD_OPTIONS),
    ERROR(CL_INVALID_PROGRAM),
    ERROR(CL_INVALID_PROGRAM_EXECUTABLE),
    ERROR(CL_INVALID_KERNEL_NAME),
    ERROR(CL_INVALID_KERNEL),
    ERROR(CL_INVALID_KERNEL_ARGS),
    ERROR(CL_INVALID_WORK_GROUP_SIZE),
    ERROR(CL_INVALID_OPERATION),
    ERROR(CL_INVALID_BUFFER_SIZE),
    ERROR(CL_INVALID_SPEC_ID),
};

/* A name of cl.h or a number. */
static bool
parse_error(const char *text, cl_int *ret_error)
{
    char *end;
    long value;

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (strcmp(text, errors[i].name) == 0) {
            *ret_error = errors[i].value;
            return true;
        }
    }
    value = strtol(text, &end, 10);
    *ret_error = (cl_int)value;
    return end != text && *end == '\0' && value < 0;
}

/* [exec:]function[:ERROR][:nth] */
static bool
parse_rule(char *text, enum action action, struct rule *r)
{
    bool exec = strncmp(text, "exec:", 5) == 0;
    char *save = NULL;
    char *word = strtok_r(exec ? text + 5 : text, ":", &save);

    *r = (struct rule){.action = action};
    if (word == NULL) {
        return false;
    }
    snprintf(r->function, sizeof(r->function), "%s%s", exec ? "exec:" : "", word);
    if (action == ACT_FAIL) {
        word = strtok_r(NULL, ":", &save);
        if (word == NULL || !parse_error(word, &r->error)) {
            return false;
        }
    }
    word = strtok_r(NULL, ":", &save);
    r->nth = word != NULL ? (unsigned)strtoul(word, NULL, 10) : 0;
    return word == NULL || r->nth > 0;
}

static void
read_rules(const char *variable, enum action action)
{
    const char *value = getenv(variable);
    char *copy = strdup(value != NULL ? value : "");
    char *save = NULL;

    for (char *t = copy != NULL ? strtok_r(copy, ",", &save) : NULL; t != NULL;
         t = strtok_r(NULL, ",", &save)) {
        if (num_rules < RULES_MAX && parse_rule(t, action, &rule[num_rules])) {
            num_rules++;
        } else {
            fprintf(stderr, "testdrv: bad entry in %s\n", variable);
            abort(); /* a test whose script is not followed must not pass */
        }
    }
    free(copy);
}

static unsigned
number(const char *variable, unsigned least, unsigned most, unsigned otherwise)
{
    const char *value = getenv(variable);
    unsigned long n = value != NULL ? strtoul(value, NULL, 10) : otherwise;

    return n < least ? least : n > most ? most : (unsigned)n;
}

static bool
is(const char *variable, const char *wanted)
{
    const char *value = getenv(variable);

    return value != NULL && strcmp(value, wanted) == 0;
}

/* TESTDRV_LOG names a file to append to; %p in it stands for the process id. */
static void
open_log(void)
{
    const char *name = getenv("TESTDRV_LOG");
    const char *mark = name != NULL ? strstr(name, "%p") : NULL;
    char path[512];

    if (name == NULL) {
        return;
    }
    if (mark != NULL) {
        snprintf(path, sizeof(path), "%.*s%d%s", (int)(mark - name), name,
                 (int)getpid(), mark + 2);
    } else {
        snprintf(path, sizeof(path), "%s", name);
    }
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        fprintf(stderr, "testdrv: log %s: %s\n", path, strerror(errno));
        abort();
    }
}

static void
read_script(void)
{
    const char *timer = getenv("TESTDRV_TIMER"), *svm = getenv("TESTDRV_SVM");

    script.name =
        getenv("TESTDRV_NAME") != NULL ? getenv("TESTDRV_NAME") : "Telpher Test Driver";
    script.driver = getenv("TESTDRV_DRIVER") != NULL ? getenv("TESTDRV_DRIVER") : "1.0";
    script.timer = timer != NULL;
    script.clock_ahead_ns = timer != NULL ? strtoull(timer, NULL, 10) : 0;
    script.svm = svm != NULL ? strtoull(svm, NULL, 0) : 0;
    script.devices = number("TESTDRV_DEVICES", 0, TD_DEVICES_MAX, 2);
    script.delay_us = number("TESTDRV_DELAY_US", 0, 100000000, 0);
    script.pause_ms = number("TESTDRV_PAUSE_MS", 1, 100000, 300);
    script.il = number("TESTDRV_IL", 0, TD_DEVICES_MAX, 0);
    script.camera = getenv("TESTDRV_CAMERA");
    script.built_in = script.camera != NULL || is("TESTDRV_BUILT_IN", "1");
    script.group_said = number("TESTDRV_GROUP_SAID", 1, TD_GROUP_MAX, TD_GROUP_MAX);
    script.local_said = number("TESTDRV_LOCAL_SAID", 0, UINT_MAX, 0);
    script.suggests = number("TESTDRV_SUGGESTS", 0, TD_GROUP_MAX, 0);
    script.sub_group = number("TESTDRV_SUB_GROUPS", 0, TD_GROUP_MAX, 0);
    script.pipes = is("TESTDRV_PIPES", "1");
    script.lazy = is("TESTDRV_LAZY", "1");
    script.in_flush = is("TESTDRV_IN_FLUSH", "1");
    script.vendor = number("TESTDRV_VENDOR", 0, UINT_MAX, 0x7e17);
    script.unified = is("TESTDRV_UNIFIED", "1");
    script.fine = is("TESTDRV_FINE", "1");
    script.version12 = is("TESTDRV_VERSION", "1.2");
    script.device_type = is("TESTDRV_TYPE", "cpu") ? CL_DEVICE_TYPE_CPU
                         : is("TESTDRV_TYPE", "accelerator")
                             ? CL_DEVICE_TYPE_ACCELERATOR
                         : is("TESTDRV_TYPE", "custom") ? CL_DEVICE_TYPE_CUSTOM
                                                        : CL_DEVICE_TYPE_GPU;
    read_rules("TESTDRV_FAIL", ACT_FAIL);
    read_rules("TESTDRV_HANG", ACT_HANG);
    read_rules("TESTDRV_CRASH", ACT_CRASH);
    read_rules("TESTDRV_PAUSE", ACT_PAUSE);
    script.late = is("TESTDRV_CASCADE", "late");
    script.cascade = script.late || is("TESTDRV_CASCADE", "1");
    script.forgives_all = is("TESTDRV_FORGIVES", "always");
    script.forgives = script.forgives_all || is("TESTDRV_FORGIVES", "1");
    script.untold = is("TESTDRV_UNTOLD", "1");
    open_log();
}

const struct td_script *
td_script(void)
{
    pthread_once(&once, read_script);
    return &script;
}

_Noreturn void
td_hang(void)
{
    for (;;) {
        pause();
    }
}

_Noreturn void
td_crash(void)
{
    signal(SIGSEGV, SIG_DFL); /* past a sanitizer's handler: death by the signal */
    raise(SIGSEGV);
    abort();
}

/* Finds the first rule that applies to this call. Its counting is exact: locked. */
static const struct rule *
match(const char *prefix, const char *function)
{
    const struct rule *found = NULL;
    size_t prefix_len = strlen(prefix);

    pthread_mutex_lock(&td_mutex);
    for (unsigned i = 0; i < num_rules; i++) {
        struct rule *r = &rule[i];

        if (strncmp(r->function, prefix, prefix_len) == 0 &&
            strcmp(r->function + prefix_len, function) == 0) {
            r->seen++;
            if (found == NULL && (r->nth == 0 || r->nth == r->seen)) {
                found = r;
            }
        }
    }
    pthread_mutex_unlock(&td_mutex);
    return found;
}

static cl_int
apply(const struct rule *r)
{
    if (r == NULL) {
        return CL_SUCCESS;
    }
    switch (r->action) {
    case ACT_HANG:
        td_hang();
    case ACT_CRASH:
        td_crash();
    case ACT_PAUSE:
        usleep(1000 * script.pause_ms);
        return CL_SUCCESS;
    case ACT_FAIL:
        break;
    }
    return r->error;
}

static void
record(const char *function, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES];
    int len = snprintf(line, sizeof(line), "%s ", function);

    len += vsnprintf(line + len, sizeof(line) - (size_t)len - 1, format, args);
    if (len > LINE_MAX_BYTES - 2) {
        len = LINE_MAX_BYTES - 2;
    }
    line[len] = '\n';
    if (write(log_fd, line, (size_t)len + 1) < 0) {
        perror("testdrv: TESTDRV_LOG");
    }
}

static void
record_line(const char *function, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    record(function, format, args);
    va_end(args);
}

void
td_record_object(const char *what, const struct td_obj *obj)
{
    static const char *const name[TD_KINDS] = {
        "platform", "device", "context", "queue", "mem", "program", "kernel", "event"};

    if (log_fd >= 0) {
        record_line(what, "%s=%u", name[obj->kind], obj->id);
    }
}

cl_int
td_enter(const char *function, const char *format, ...)
{
    va_list args;

    td_script();
    if (log_fd >= 0) {
        va_start(args, format);
        record(function, format, args);
        va_end(args);
    }
    return num_rules > 0 ? apply(match("", function)) : CL_SUCCESS;
}

cl_int
td_enter_command(const char *function)
{
    return num_rules > 0 ? apply(match("exec:", function)) : CL_SUCCESS;
}
