/* SPDX-License-Identifier: Apache-2.0 */
/* Runs each random program in a process of its own, and counts takeovers. */
#include "takeover.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan.h"

enum { LOOK_NS = 5000000, LOOKS = 6000, LINE_BYTES = 512 };

void
takeover_prepare(void)
{
    setenv("TELPHER_KEEP_COPIES", "yes", 1);
    setenv("TELPHER_ON_LOSS_TIME", "300ms", 0); /* of a broker that is dead, too */
}

void
takeover_init(struct takeover *t, struct servers *servers, const char *vendors)
{
    *t = (struct takeover){.servers = servers, .vendors = vendors};
}

void
takeover_fini(struct takeover *t)
{
    if (t->errors != NULL) {
        fclose(t->errors);
    }
    t->errors = NULL;
}

enum outcome
takeover_run(struct takeover *t, struct worker *w, uint64_t seed, uint64_t kept)
{
    static struct plan plan; /* large */
    const struct plan_options options = {.devices = t->devices,
                                         .features = t->features};

    plan_make(&plan, &options, seed, kept);
    kill_choose(&t->kill, seed, plan.op_count);
    takeover_fini(t); /* the errors of the last program */
    t->errors = tmpfile();
    if (t->errors == NULL) {
        return DIED;
    }
    w->errors = fileno(t->errors);
    return worker_run(w, t->features, seed, kept, t->servers->pid);
}

/** True if the process of the last program said that another server went on. */
static bool
took_over(struct takeover *t)
{
    char line[LINE_BYTES];

    if (t->errors == NULL) {
        return false;
    }
    rewind(t->errors);
    while (fgets(line, sizeof(line), t->errors) != NULL) {
        if (strstr(line, "goes on with its work") != NULL) {
            return true;
        }
    }
    return false;
}

/** Waits until no process runs a session any more. @return false: some still do */
static bool
await_no_executors(const struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++) {
        pid_t executors[SERVERS_EXECUTORS_MAX];
        unsigned looks = 0;

        while (servers_find_executors(servers, i, executors) != 0) {
            if (++looks == LOOKS) {
                return false;
            }
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        }
    }
    return true;
}

bool
takeover_end(struct takeover *t, struct worker *w, char *dst, size_t cap)
{
    const bool ran = w->pid > 0;
    const bool well = !ran || worker_end(w) == RAN;
    const bool clean = await_no_executors(t->servers);

    t->programs++;
    t->count += took_over(t);
    if (!well) {
        snprintf(dst, cap, "the process of the program did not end well");
    } else if (!clean) {
        snprintf(dst, cap, "processes of its sessions are left");
    }
    if (t->kill.what == KILL_SERVER &&
        servers_restart(t->servers, t->kill.server, t->vendors) != 0) {
        snprintf(dst, cap, "the server does not start again");
        return false;
    }
    return well && clean;
}

void
takeover_print(struct takeover *t, FILE *to)
{
    char line[LINE_BYTES];

    kill_print(&t->kill, line, sizeof(line));
    fprintf(to, "  %s\n", line);
    if (t->errors == NULL) {
        return;
    }
    rewind(t->errors);
    while (fgets(line, sizeof(line), t->errors) != NULL) {
        fprintf(to, "  | %s", line);
    }
}

bool
takeover_sum(const struct takeover *t, FILE *to)
{
    fprintf(to, "%u of %u programs went on with another server\n", t->count,
            t->programs);
    return t->count != 0 && t->count * 2 >= t->programs;
}
