/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs random OpenCL programs natively and through Telpher and compares all results bit for
 * bit. A program that differs is made smaller while it differs, and printed.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../integration/servers.h"
#include "job.h"

static const char usage[] =
    "usage: random_programs [OPTION VALUE]...\n"
    "  --first SEED      the first program (1)\n"
    "  --count N         programs to run (200)\n"
    "  --kept MASK       keep only these intents of each program, hexadecimal\n"
    "  --devices N       devices that a program uses, 1 to 4 (1)\n"
    "  --servers N       servers to start, 1 to 4 (1); 0: those of the environment\n"
    "  --native NAME     part of the native platform's name (Portable)\n"
    "  --without NAME    images, out-of-order, user-events, failures or\n"
    "                    parts-in-copies, loose-blocking, failed-waits or\n"
    "                    failed-callbacks, svm, usm, after-writes,\n"
    "                    usm-migrations, finishes, structs,\n"
    "                    markers-past-failures, loose-pitches, types,\n"
    "                    kept-kernels, passing, wait-errors, migrations or\n"
    "                    loose-fills or callbacks; may be repeated\n"
    "  --seconds N       after which a program counts as hung (20)\n"
    "  --times N         how often each program runs here (1)\n"
    "  --fault copy-rect  copies of rectangles lack a row in what is tested\n"
    "  --shrink no       what differs is not made smaller\n"
    "  --lines yes       prints all results that differ, not the first alone\n"
    "  --bisect yes      of what differs, the features without which it does not\n"
    "  --on-hang COMMAND  runs before a hung process is ended, with its id\n"
    "  --twice yes       natively both times: is the driver's result always the same?\n"
    "  --kill yes        on two servers with copies, one of which dies meanwhile\n"
    "  --print yes       prints the programs and runs nothing\n"
    "Exit status: 0 all equal, 1 some differ, 2 wrong use, 77 no native device.\n";

static const char *const ends[] = {"", "the process died here", "it hangs here"};

/* ---- comparing ---------------------------------------------------------------------------- */

/** Finds the first line in which two texts differ. @return false: they are equal */
static bool
first_difference(const char *a, const char *b, char *dst, size_t cap)
{
    while (*a != '\0' || *b != '\0') {
        size_t an = strcspn(a, "\n"), bn = strcspn(b, "\n");

        if (an != bn || memcmp(a, b, an) != 0) {
            snprintf(dst, cap, "natively \"%.*s\", here \"%.*s\"", (int)an, a, (int)bn,
                     b);
            return true;
        }
        a += an + (a[an] == '\n');
        b += bn + (b[bn] == '\n');
    }
    return false;
}

/** A program of ours must be right: natively nothing fails but what waits for a failure. */
static bool
has_foreign_error(const char *text, char *dst, size_t cap)
{
    for (const char *at = text; (at = strstr(at, "call ")) != NULL; at++) {
        int error = atoi(at + strlen("call "));

        if (error != 0 && error != -14) {
            while (at > text && at[-1] != '\n') {
                at--;
            }
            snprintf(dst, cap, "an error of the native driver: \"%.*s\"",
                     (int)strcspn(at, "\n"), at);
            return true;
        }
    }
    return false;
}

/** Runs a program in what is tested. @return false: it did not end well; why is in @p dst */
static bool
run_tested(struct job *job, uint64_t seed, uint64_t kept, char *dst, size_t cap)
{
    enum outcome outcome =
        job->kills ? takeover_run(&job->takeover, &job->sides[1], seed, kept)
                   : worker_run(&job->sides[1], job->plan.features, seed, kept, NULL);

    snprintf(dst, cap, "%s", ends[outcome]);
    if (job->kills && !takeover_end(&job->takeover, &job->sides[1], dst, cap)) {
        return false;
    }
    return outcome == RAN;
}

bool
job_differs(struct job *job, uint64_t seed, uint64_t kept, bool *ret_lost, char *dst,
            size_t cap)
{
    enum outcome native =
        worker_run(&job->sides[0], job->plan.features, seed, kept, NULL);

    *ret_lost = native != RAN;
    if (native != RAN && job->twice) {
        snprintf(dst, cap, "%s", ends[native]);
        return true;
    }
    if (native == RAN && has_foreign_error(job->sides[0].text, dst, cap)) {
        return true;
    }
    for (unsigned i = 0; i < job->times; i++) {
        bool well = run_tested(job, seed, kept, dst, cap);

        if (native != RAN) {
            return false;
        }
        if (!well) {
            return true;
        }
        if (first_difference(job->sides[0].text, job->sides[1].text, dst, cap)) {
            worker_stop(&job->sides[1]); /* it may have lost its server */
            return true;
        }
    }
    return false;
}

static void
run_programs(struct job *job)
{
    static struct plan plan; /* large */
    char why[512] = "";

    for (uint64_t seed = job->first; seed < job->first + job->count; seed++) {
        bool lost = false, different;

        plan_make(&plan, &job->plan, seed, job->kept);
        job->commands += plan.op_count;
        if (job->print_only) {
            printf("program %" PRIu64 "\n", seed);
            plan_print(&plan, stdout);
            continue;
        }
        different = job_differs(job, seed, job->kept, &lost, why, sizeof(why));
        if (lost) {
            printf("program %" PRIu64 ": the native driver did not survive it\n", seed);
        }
        job->lost += lost;
        job->differ += different;
        if (different) {
            job_report(job, seed, why, sizeof(why));
        }
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

static bool
leave_out(struct job *job, const char *name)
{
    for (unsigned i = 0; feature_name(i) != NULL; i++) {
        if (strcmp(name, feature_name(i)) == 0) {
            job->plan.features &= ~(1U << i);
            return true;
        }
    }
    return false;
}

static bool
take_option(struct job *job, const char *name, const char *value)
{
    uint64_t number;
    char *end;

    if (strcmp(name, "--without") == 0) {
        return leave_out(job, value);
    }
    if (strcmp(name, "--native") == 0) {
        job->native = value;
        return true;
    }
    if (strcmp(name, "--fault") == 0) {
        job->fault = OP_COPY_RECT;
        return strcmp(value, "copy-rect") == 0;
    }
    if (strcmp(name, "--twice") == 0) {
        job->twice = true;
        job->servers = 0;
        return true;
    }
    if (strcmp(name, "--shrink") == 0) {
        job->no_shrink = true;
        return strcmp(value, "no") == 0;
    }
    if (strcmp(name, "--kill") == 0) {
        job->kills = job->no_shrink = true; /* each time at another moment */
        job->servers = job->plan.devices = 2;
        return strcmp(value, "yes") == 0;
    }
    if (strcmp(name, "--lines") == 0) {
        job->lines = true;
        return strcmp(value, "yes") == 0;
    }
    if (strcmp(name, "--bisect") == 0) {
        job->bisect = true;
        return strcmp(value, "yes") == 0;
    }
    if (strcmp(name, "--on-hang") == 0) {
        job->on_hang = value;
        return true;
    }
    if (strcmp(name, "--print") == 0) {
        job->print_only = true;
        return true;
    }
    errno = 0;
    number = strtoull(value, &end, strcmp(name, "--kept") == 0 ? 16 : 10);
    if (errno != 0 || *end != '\0' || end == value) {
        return false;
    }
    if (strcmp(name, "--first") == 0) {
        job->first = number;
    } else if (strcmp(name, "--count") == 0) {
        job->count = (unsigned)number;
    } else if (strcmp(name, "--kept") == 0) {
        job->kept = number;
    } else if (strcmp(name, "--devices") == 0 && number >= 1 &&
               number <= PLAN_DEVICES) {
        job->plan.devices = (unsigned)number;
    } else if (strcmp(name, "--servers") == 0 && number <= SERVERS_MAX) {
        job->servers = (unsigned)number;
    } else if (strcmp(name, "--seconds") == 0 && number >= 1) {
        job->seconds = (unsigned)number;
    } else if (strcmp(name, "--times") == 0 && number >= 1) {
        job->times = (unsigned)number;
    } else {
        return false;
    }
    return true;
}

/** PoCL has as many devices as its setting names, and compiles a kernel once for all sizes. */
static void
prepare_drivers(const struct job *job)
{
    char devices[64] = "";

    for (unsigned i = 0; i < job->plan.devices; i++) {
        strcat(devices, i == 0 ? "pthread" : " pthread");
    }
    setenv("POCL_DEVICES", devices, 0);
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
    if (job->kills) {
        takeover_prepare();
    }
}

/** Prepares programs that have a process each. @return false: reported on stderr */
static bool
prepare_kills(struct job *job, struct servers *servers, const char *vendors)
{
    if (worker_end(&job->sides[1]) != RAN) {
        fprintf(stderr, "random_programs: no process for each program\n");
        return false;
    }
    takeover_init(&job->takeover, servers, vendors);
    job->takeover.features = job->plan.features;
    job->takeover.devices = job->plan.devices;
    return true;
}

/** @return the exit status */
static int
run_and_sum(struct job *job)
{
    bool enough;

    if (job->lines) {
        printf("plans have features 0x%x\n", job->plan.features);
    }
    run_programs(job);
    enough = !job->kills || takeover_sum(&job->takeover, stdout);
    printf("%u programs of %lu commands: %u differ, %u that the native driver did not "
           "survive\n",
           job->count, job->commands, job->differ, job->lost);
    return enough && job->differ == 0 && job->lost * 10 <= job->count ? 0 : 1;
}

static int
run_job(struct job *job)
{
    struct servers servers = {.count = 0};
    const char *vendors = getenv("OCL_ICD_VENDORS");
    char *native_vendors = vendors == NULL ? NULL : strdup(vendors);
    int rc = 1;

    prepare_drivers(job);
    job->sides[0] = (struct worker){.platform = job->native,
                                    .vendors = native_vendors,
                                    .fault = -1,
                                    .devices = job->plan.devices,
                                    .seconds = job->seconds,
                                    .on_hang = job->on_hang};
    if (!worker_start(&job->sides[0])) {
        printf("skipped: no native platform named '%s' that builds the kernels\n",
               job->native);
        rc = 77;
        goto out;
    }
    if (job->servers != 0) {
        setenv("POCL_DEVICES", "pthread", job->servers > 1);
        if (servers_start(&servers, job->servers) != 0) {
            goto stop_native;
        }
    }
    job->sides[1] =
        (struct worker){.platform = job->twice ? job->native : "Telpher",
                        .vendors = job->twice ? native_vendors : ICD_LIBRARY,
                        .fault = job->fault,
                        .devices = job->plan.devices,
                        .seconds = job->seconds,
                        .on_hang = job->on_hang};
    if (!worker_start(&job->sides[1])) {
        fprintf(stderr, "random_programs: no device on the other side\n");
        goto stop_servers;
    }
    job->plan.features &= job->sides[0].features;
    if (job->servers != 1) { /* of several, the drivers may have no address in common */
        job->plan.features &= ~((unsigned)PLAN_SVM | PLAN_USM) | job->sides[1].features;
    }
    if ((job->plan.features & ~job->sides[1].features) != 0) {
        printf("features 0x%x are lost: natively 0x%x, here 0x%x\n",
               job->plan.features & ~job->sides[1].features, job->sides[0].features,
               job->sides[1].features);
        goto stop_tested;
    }
    if (job->kills && !prepare_kills(job, &servers, native_vendors)) {
        goto stop_tested;
    }
    rc = run_and_sum(job);
stop_tested:
    takeover_fini(&job->takeover);
    worker_stop(&job->sides[1]);
stop_servers:
    if (servers.count != 0) {
        servers_stop(&servers);
    }
stop_native:
    worker_stop(&job->sides[0]);
out:
    free(native_vendors);
    free(job->sides[0].text);
    free(job->sides[1].text);
    return rc;
}

int
main(int argc, char **argv)
{
    static struct job job = {.plan = {.devices = 1, .features = PLAN_ALL_FEATURES},
                             .first = 1,
                             .kept = UINT64_MAX,
                             .count = 200,
                             .servers = 1,
                             .seconds = 20,
                             .times = 1,
                             .native = "Portable",
                             .fault = -1};

    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 5 && strcmp(argv[1], "--worker") == 0) {
        return worker_main(argv[2], (unsigned)atoi(argv[3]), atoi(argv[4]));
    }
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc || !take_option(&job, argv[i], argv[i + 1])) {
            fputs(usage, stderr);
            return 2;
        }
    }
    if (job.print_only) {
        run_programs(&job);
        return 0;
    }
    return run_job(&job);
}
