/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option -P: what each rank's processor or kernel counted while the iterations were timed, by
 * PAPI, which is loaded when it is asked for. The file has OSU's form.
 */
#include "bench/ranks/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 32, RANKS_AT_ONCE = 16, WIDTH = 18, PAPI_OK = 0 };

/* Of libpapi, by its name there. */
static struct {
    int (*library_init)(int version);
    int (*create_eventset)(int *ret_set);
    int (*add_named_event)(int set, const char *name);
    int (*start)(int set);
    int (*stop)(int set, long long *values);
    char *(*strerror)(int error);
} papi;
static const char *names[EVENTS_MAX];
static long long counts[EVENTS_MAX];
static int events, set = -1; /* PAPI_NULL */
static FILE *file;

static void
fail(struct ranks_pair *p, const char *what, const char *why)
{
    fprintf(stderr, "telpher-bench: -P: %s: %s\n", what, why);
    if (p->job->abort != NULL) {
        p->job->abort();
    }
    exit(EXIT_FAILURE);
}

static void
need(struct ranks_pair *p, int error, const char *what)
{
    if (error != PAPI_OK) {
        fail(p, what, papi.strerror(error));
    }
}

/* ---- the library ---- */

/* It takes the version that it was compiled with alone, and says no other. */
static bool
init_library(void)
{
    for (int major = 5; major < 10; major++) {
        for (int minor = 0; minor < 10; minor++) {
            int version = major << 24 | minor << 16;

            if (papi.library_init(version) == version) {
                return true;
            }
        }
    }
    return false;
}

static void
load(struct ranks_pair *p)
{
    static const char *const libraries[] = {"libpapi.so", "libpapi.so.7.1",
                                            "libpapi.so.7.0", "libpapi.so.6.0",
                                            "libpapi.so.5"};
    const struct {
        void **function;
        const char *name;
    } functions[] = {{(void **)&papi.library_init, "PAPI_library_init"},
                     {(void **)&papi.create_eventset, "PAPI_create_eventset"},
                     {(void **)&papi.add_named_event, "PAPI_add_named_event"},
                     {(void **)&papi.start, "PAPI_start"},
                     {(void **)&papi.stop, "PAPI_stop"},
                     {(void **)&papi.strerror, "PAPI_strerror"}};
    void *library = NULL;

    for (size_t i = 0; library == NULL && i < sizeof(libraries) / sizeof(libraries[0]);
         i++) {
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        fail(p, "PAPI is not installed (package libpapi-dev)", dlerror());
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].function = dlsym(library, functions[i].name);
        if (*functions[i].function == NULL) {
            fail(p, "this PAPI lacks a function", functions[i].name);
        }
    }
    if (!init_library()) {
        fail(p, "PAPI does not start", "its version is none from 5.0 to 9.9");
    }
}

static void
add_events(struct ranks_pair *p, char *list)
{
    char *rest = NULL;

    need(p, papi.create_eventset(&set), "PAPI_create_eventset");
    for (char *name = strtok_r(list, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        if (events == EVENTS_MAX) {
            fail(p, name, "one event too many");
        }
        need(p, papi.add_named_event(set, name), name);
        names[events++] = name;
    }
}

void
ranks_counters_open(struct ranks_pair *p)
{
    const char *path =
        p->o->counts_path != NULL ? p->o->counts_path : "papi_output.out";

    if (p->o->events == NULL) {
        return;
    }
    load(p);
    add_events(p, p->o->events);
    file = p->rank == 0 ? fopen(path, "w") : NULL;
    if (p->rank == 0 && file == NULL) {
        fail(p, path, strerror(errno));
    }
}

/* ---- counting ---- */

void
ranks_counters_start(struct ranks_pair *p)
{
    if (set != -1) {
        need(p, papi.start(set), "PAPI_start");
    }
}

void
ranks_counters_stop(struct ranks_pair *p)
{
    long long values[EVENTS_MAX] = {0};

    if (set == -1) {
        return;
    }
    need(p, papi.stop(set, values), "PAPI_stop");
    for (int i = 0; i < events; i++) {
        counts[i] += values[i];
    }
}

/* Of all ranks, or of rank 0 where the job has no reductions; some ranks at a time. */
static void
gather(struct ranks_pair *p, double mine, double *all)
{
    all[0] = mine;
    for (uint32_t first = 0; p->job->reduce != NULL && first < p->size;
         first += RANKS_AT_ONCE) {
        double one[RANKS_AT_ONCE] = {0}, least[RANKS_AT_ONCE], sum[RANKS_AT_ONCE],
               most[RANKS_AT_ONCE];

        if (p->rank >= first && p->rank - first < RANKS_AT_ONCE) {
            one[p->rank - first] = mine;
        }
        if (!p->job->reduce(one, RANKS_AT_ONCE, least, sum, most)) {
            fail(p, "counts", "they cannot be brought to rank 0");
        }
        for (uint32_t i = 0; i < RANKS_AT_ONCE && first + i < p->size; i++) {
            all[first + i] = sum[i];
        }
    }
}

static void
write_line(const char *name, const double *all, uint32_t known)
{
    fprintf(file, "%-*s", WIDTH, name);
    for (uint32_t rank = 0; rank < known; rank++) {
        fprintf(file, "%*.0f", WIDTH, all[rank]);
    }
    fprintf(file, "\n");
}

static void
write_head(const struct ranks_pair *p, uint32_t known)
{
    fprintf(file,
            "Size: %zu\n"
            ">>===============================================================>>\n"
            "%-*s",
            p->work.len, WIDTH, "PAPI Event Name");
    for (uint32_t rank = 0; rank < known; rank++) {
        fprintf(file, "%*s:%u", WIDTH - 2, "Rank", rank);
    }
    fprintf(file, "\n");
}

void
ranks_counters_write(struct ranks_pair *p)
{
    double *all = set != -1 ? calloc(p->size, sizeof(*all)) : NULL;
    uint32_t known = p->job->reduce != NULL ? p->size : 1;

    if (all == NULL) {
        return;
    }
    if (file != NULL) {
        write_head(p, known);
    }
    for (int i = 0; i < events; i++) {
        gather(p, (double)counts[i], all);
        if (file != NULL) {
            write_line(names[i], all, known);
        }
        counts[i] = 0;
    }
    if (file != NULL) {
        fprintf(
            file,
            "##===============================================================##\n\n");
        fflush(file);
    }
    free(all);
}

void
ranks_counters_close(void)
{
    if (file != NULL) {
        fclose(file);
        file = NULL;
    }
}
