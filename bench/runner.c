/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures by processes: `telpher-bench RUNTIME OPTION... --raw CASE` prints samples, and this
 * collects them. A target that crashes or hangs loses that case and nothing else; several
 * targets take turns, so that a change in the machine's load touches all of them.
 */
#include "bench/results.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 128 };

struct plan {
    struct bench_results *results;
    int rounds;
    int timeout_s;
    int argc;
    char **argv;
};

/* --- one process ---------------------------------------------------------------- */

/* Says to the OpenCL loader which drivers to load. `telpher run` shows its program no
 * other driver than Telpher: for the native target that is undone. */
static void
set_loader(const struct bench_target *target)
{
    static const char *const variables[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH",
                                            "OCL_ICD_FILENAMES"};
    const bool undo = target->system_drivers && getenv("TELPHER_SERVERS") != NULL;

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (undo || target->vendors != NULL) {
            unsetenv(variables[i]);
        }
    }
    if (target->vendors != NULL) {
        setenv("OCL_ICD_VENDORS", target->vendors, 1);
    }
    for (size_t i = 0; i < target->env_count; i++) {
        putenv((char *)target->env[i]);
    }
}

/* The user's options, then those that make it this target's process: the last one
 * wins. */
static void
exec_child(const struct plan *plan, const struct bench_target *target,
           const struct bench_case *c)
{
    const struct bench_settings *settings = plan->results->settings;
    char *arguments[MAX_ARGUMENTS + 14];
    char device[16];
    char iterations[16];
    int n = 0;

    snprintf(device, sizeof(device), "%d", target->device);
    snprintf(iterations, sizeof(iterations), "%d",
             (settings->iterations + plan->rounds - 1) / plan->rounds);
    arguments[n++] = "telpher-bench";
    arguments[n++] = (char *)target->runtime->name;
    for (int i = 1; i < plan->argc && i <= MAX_ARGUMENTS; i++) {
        arguments[n++] = plan->argv[i];
    }
    arguments[n++] = "--raw";
    arguments[n++] = (char *)c->name;
    arguments[n++] = "--platform";
    arguments[n++] = (char *)target->platform;
    arguments[n++] = "--device";
    arguments[n++] = device;
    arguments[n++] = "-i";
    arguments[n++] = iterations;
    if (target->memory != NULL) {
        arguments[n++] = "--memory";
        arguments[n++] = (char *)target->memory;
    }
    arguments[n] = NULL;
    set_loader(target);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

static pid_t
start_child(const struct plan *plan, const struct bench_target *target,
            const struct bench_case *c, int output)
{
    const pid_t parent = getpid();
    const pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(127);
        }
        dup2(output, STDOUT_FILENO);
        exec_child(plan, target, c);
    }
    return child;
}

/* Waits for the child, and kills it when the time is over. Gives its wait status;
 * false if it was killed for that. */
static bool
wait_for_child(pid_t child, int timeout_s, int *ret_status)
{
    struct pollfd ended = {.events = POLLIN};
    int ready = 1;

    ended.fd = (int)syscall(SYS_pidfd_open, child, 0);
    if (ended.fd >= 0) {
        do {
            ready = poll(&ended, 1, timeout_s * 1000);
        } while (ready < 0 && errno == EINTR);
        close(ended.fd);
    }
    if (ready == 0) {
        kill(child, SIGKILL);
    }
    while (waitpid(child, ret_status, 0) < 0 && errno == EINTR) {
    }
    return ready != 0;
}

/* --- what it said ---------------------------------------------------------------- */

static void
keep_error(struct plan *plan, const struct bench_target *target,
           const struct bench_case *c, size_t bytes, const char *text)
{
    struct bench_series *series = bench_results_get(plan->results, target, c, bytes);

    if (series != NULL && series->error[0] == '\0') {
        snprintf(series->error, sizeof(series->error), "%s", text);
    }
}

static void
keep_info(struct bench_target *target, const char *key, const char *value)
{
    const struct {
        const char *key;
        char *place;
    } places[] = {{"platform", target->platform_name},
                  {"version", target->platform_version},
                  {"device", target->device_name},
                  {"driver", target->driver}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (strcmp(key, places[i].key) == 0) {
            snprintf(places[i].place, sizeof(target->driver), "%.127s", value);
        }
    }
}

/* Lines that are none of ours (drivers print too) are passed over. */
static void
keep_line(struct plan *plan, struct bench_target *target, const struct bench_case *c,
          const char *line)
{
    struct bench_series *series;
    char key[32];
    char text[256]; /* an error may be this long */
    size_t bytes;
    double us;

    if (sscanf(line, "info %31s %255[^\n]", key, text) == 2) {
        keep_info(target, key, text);
    } else if (sscanf(line, "sample %zu %lf", &bytes, &us) == 2) {
        series = bench_results_get(plan->results, target, c, bytes);
        if (series == NULL || !bench_series_add(series, us)) {
            keep_error(plan, target, c, bytes, "out of memory");
        }
    } else if (sscanf(line, "check %zu %255s", &bytes, text) == 2) {
        series = bench_results_get(plan->results, target, c, bytes);
        if (series != NULL) {
            series->checked = series->error[0] == '\0';
        }
    } else if (sscanf(line, "error %zu %255[^\n]", &bytes, text) == 2) {
        keep_error(plan, target, c, bytes, text);
    }
}

static bool
said_error(const struct plan *plan, const struct bench_target *target,
           const struct bench_case *c)
{
    for (size_t i = 0; i < plan->results->series_count; i++) {
        const struct bench_series *s = &plan->results->series[i];

        if (s->target == target && s->c == c && s->error[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* A death without a word is an error of the case. */
static void
keep_ending(struct plan *plan, const struct bench_target *target,
            const struct bench_case *c, bool in_time, int status)
{
    const size_t bytes = c->pattern->sized ? plan->results->settings->min_bytes : 0;
    char text[128];

    if (!in_time) {
        snprintf(text, sizeof(text), "no answer within %d s", plan->timeout_s);
    } else if (WIFSIGNALED(status)) {
        snprintf(text, sizeof(text), "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0 && !said_error(plan, target, c)) {
        snprintf(text, sizeof(text), "exit status %d", WEXITSTATUS(status));
    } else {
        return;
    }
    keep_error(plan, target, c, bytes, text);
}

static void
measure_case(struct plan *plan, struct bench_target *target, const struct bench_case *c)
{
    FILE *output = tmpfile();
    char line[512];
    int status = 0;
    bool in_time;
    pid_t child;

    if (output == NULL) {
        keep_error(plan, target, c, 0, "no temporary file");
        return;
    }
    child = start_child(plan, target, c, fileno(output));
    if (child < 0) {
        keep_error(plan, target, c, 0, "no process");
        fclose(output);
        return;
    }
    in_time = wait_for_child(child, plan->timeout_s, &status);
    rewind(output);
    while (fgets(line, sizeof(line), output) != NULL) {
        keep_line(plan, target, c, line);
    }
    fclose(output);
    keep_ending(plan, target, c, in_time, status);
}

/* --- all of them ----------------------------------------------------------------- */

static bool
is_floor_of(const struct bench_case *floor, const struct bench_runtime *runtime,
            const char *tests)
{
    bool any_bandwidth = false;

    for (size_t i = 0; i < runtime->case_count; i++) {
        const struct bench_case *c = &runtime->cases[i];

        if (!bench_is_chosen(c, tests)) {
            continue;
        }
        any_bandwidth = any_bandwidth || c->pattern->sized;
        if (c->floor != NULL && strcmp(c->floor, floor->name) == 0) {
            return true;
        }
    }
    /* not a floor of any case, but good to see beside them */
    return strcmp(floor->name, "tcp_pingpong_poll") == 0 ||
           (any_bandwidth && strcmp(floor->name, "memcpy") == 0);
}

static void
measure_floors(struct plan *plan, const struct bench_runtime *runtime,
               const char *tests)
{
    struct bench_results *results = plan->results;

    for (size_t i = 0; i < bench_floor.case_count && results->has_floor; i++) {
        if (is_floor_of(&bench_floor.cases[i], runtime, tests)) {
            measure_case(plan, &results->floor, &bench_floor.cases[i]);
        }
    }
}

static void
show_progress(const struct plan *plan, int round, const char *what)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[Kround %d of %d: %s", round + 1, plan->rounds, what);
    }
}

void
bench_measure(struct bench_results *results, const struct bench_runtime *runtime,
              const char *tests, int rounds, int timeout_s, int argc, char **argv)
{
    struct plan plan = {results, rounds, timeout_s, argc, argv};

    for (int round = 0; round < rounds; round++) {
        show_progress(&plan, round, "floors");
        measure_floors(&plan, runtime, tests);
        for (size_t i = 0; i < runtime->case_count; i++) {
            const struct bench_case *c = &runtime->cases[i];

            if (!bench_is_chosen(c, tests)) {
                continue;
            }
            show_progress(&plan, round, c->name);
            for (size_t t = 0; t < results->target_count; t++) {
                /* every other round runs in reverse, so that no case is always first */
                const size_t turn = round % 2 == 0 ? t : results->target_count - 1 - t;

                if (bench_target_runs(&results->targets[turn], c)) {
                    measure_case(&plan, &results->targets[turn], c);
                }
            }
        }
    }
    if (isatty(STDERR_FILENO)) {
        fputs("\r\033[K", stderr);
    }
    bench_results_sum_up(results);
}
