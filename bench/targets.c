/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: what is measured in turns, and what environment each gets; see results.h. */
#include "bench/results.h"

#include <stdlib.h>
#include <string.h>

static struct bench_target *
add_target(struct bench_results *r, const struct bench_choice *choice,
           const char *label, const char *platform)
{
    struct bench_target *t = &r->targets[r->target_count++];

    t->label = label;
    t->runtime = choice->runtime;
    t->platform = platform;
    return t;
}

/* "--vs native": any platform but the subject's, which by default is Telpher's. */
static const char *
any_other(const struct bench_results *r)
{
    static char other[256];
    const char *subject = r->settings->platform;

    snprintf(other, sizeof(other), "!%s", subject[0] != '\0' ? subject : "Telpher");
    return other;
}

static struct bench_target *
add_native(struct bench_results *r, const struct bench_choice *choice,
           const char *label)
{
    struct bench_target *t =
        add_target(r, choice, label,
                   strcmp(choice->native, "!") == 0 ? any_other(r) : choice->native);

    t->device = r->settings->device;
    t->system_drivers = true;
    return t;
}

static void
add_compared(struct bench_results *r, const struct bench_choice *choice)
{
    if (choice->native != NULL) {
        add_native(r, choice, "Native");
        if (choice->pinned) {
            add_native(r, choice, "Pinned")->memory = "pinned";
        }
    }
    if (choice->peer != NULL) {
        add_target(r, choice, "Peer", "")->vendors = choice->peer;
    }
}

/* The target of that label; a new one is the subject once more. NULL after bench_fail(). */
static struct bench_target *
find_target(struct bench_results *r, const struct bench_choice *choice,
            const char *label, size_t length)
{
    struct bench_target *t;
    char *name;

    for (size_t i = 0; i < r->target_count; i++) {
        if (strlen(r->targets[i].label) == length &&
            strncmp(r->targets[i].label, label, length) == 0) {
            return &r->targets[i];
        }
    }
    name = r->target_count < BENCH_MAX_TARGETS ? strndup(label, length) : NULL;
    if (name == NULL) {
        bench_fail("too many targets: %.*s", (int)length, label);
        return NULL;
    }
    t = add_target(r, choice, name, r->settings->platform);
    t->device = r->settings->device;
    t->is_variant = true;
    return t;
}

bool
bench_targets_make(struct bench_results *r, const struct bench_choice *choice)
{
    add_target(r, choice, "Subject", r->settings->platform)->device =
        r->settings->device;
    add_compared(r, choice);
    for (size_t i = 0; i < choice->env_count; i++) {
        const char *colon = strchr(choice->env[i], ':');
        struct bench_target *t =
            find_target(r, choice, choice->env[i], (size_t)(colon - choice->env[i]));

        if (t == NULL) {
            return false;
        }
        t->env[t->env_count++] = colon + 1;
    }
    r->has_floor = !choice->no_floor && choice->runtime != &bench_floor;
    r->floor = (struct bench_target){
        .label = "Floor", .runtime = &bench_floor, .platform = ""};
    return true;
}

bool
bench_target_runs(const struct bench_target *target, const struct bench_case *c)
{
    return target->memory == NULL || c->pattern->sized;
}

void
bench_targets_destroy(struct bench_results *r)
{
    for (size_t i = 0; i < r->target_count; i++) {
        if (r->targets[i].is_variant) {
            free((char *)r->targets[i].label);
        }
    }
    r->target_count = 0;
}
