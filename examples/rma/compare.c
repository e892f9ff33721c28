/* SPDX-License-Identifier: Apache-2.0 */
/* Both forms of a study: their results against the serial ones, and their times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "phases.h"

/** Forms timed in turns; from TWO_MODEL on a form of two models for each way. */
enum form { OURS, COMPUTES, SENDS, TWO_MODEL };
enum { WAYS_MAX = 4, FORMS_MAX = TWO_MODEL + WAYS_MAX };

enum {
    ENOUGH = 6 /* samples for an interval: of fewer it is all of them, and too small */
};
struct interval {
    double median, low, high; /* [ms]; low to high has the median in 95 of 100 cases */
};

static double
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double
time_two_model(const struct study_program *program, const struct study *study,
               void *data, unsigned way)
{
    study_host *host = study_host_create(study, data, way);
    int recorded = study_record(host);
    double start, took;

    if (recorded) {
        program->two_model(host, study, data);
    }
    study_move_memory();
    start = now_ms();
    if (recorded) {
        study_replay(host);
    } else {
        program->two_model(host, study, data);
    }
    start = now_ms() - start;
    took = study_took(host);
    study_host_destroy(host);
    return took < 0 ? start : took;
}

/* Runs one form on data of its own; checks the result if @p right is there. */
static double
run_form(const struct study_program *program, const struct study *study, int form,
         const void *right, int *ret_bad)
{
    static const uint32_t all[] = {STUDY_DOES_BOTH, STUDY_COMPUTES, STUDY_SENDS};
    uint32_t does = form < TWO_MODEL ? all[form] : STUDY_DOES_BOTH;
    void *data = study_alloc(1, program->data_size);
    double ms;

    program->make(study, data);
    memcpy(data, &does, sizeof(does));
    ms = form >= TWO_MODEL
             ? time_two_model(program, study, data, (unsigned)form - TWO_MODEL)
             : study_time(study, program->kernel, data, program->data_size);
    if (right != NULL) {
        printf("%s, %s%s: ", program->name,
               form == OURS ? "ranks that communicate" : "phases and copies by ",
               form == OURS ? "" : study_way((unsigned)form - TWO_MODEL));
        *ret_bad = program->check(study, data, right);
    }
    program->drop(study, data);
    study_free(data);
    return ms;
}

static int
compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* From order statistics: nothing is known of how times are distributed. */
static struct interval
interval_of(double *ms, uint32_t count)
{
    double half = 0.98 * sqrt((double)count);
    double low = floor(0.5 * count - half) - 1, high = ceil(0.5 * count + half);
    struct interval i;

    qsort(ms, count, sizeof(*ms), compare_doubles);
    i.median = 0.5 * (ms[(count - 1) / 2] + ms[count / 2]);
    i.low = ms[low < 0 ? 0 : (uint32_t)low];
    i.high = ms[high > count - 1 ? count - 1 : (uint32_t)high];
    return i;
}

/* The part of the shorter of computing and sending that overlaps the other. */
static double
overlap_of(const struct interval *forms)
{
    double shorter = forms[COMPUTES].median < forms[SENDS].median
                         ? forms[COMPUTES].median
                         : forms[SENDS].median;

    return shorter > 0
               ? (forms[COMPUTES].median + forms[SENDS].median - forms[OURS].median) /
                     shorter
               : 0;
}

static int
count_forms(void)
{
    int count = TWO_MODEL;

    while (count < FORMS_MAX && study_way((unsigned)(count - TWO_MODEL)) != NULL) {
        count++;
    }
    return count;
}

/* The fastest of two models. */
static int
best_of(const struct interval *forms, int count)
{
    int best = TWO_MODEL;

    for (int i = TWO_MODEL; i < count; i++) {
        best = forms[i].median < forms[best].median ? i : best;
    }
    return best;
}

static const char *
name_of(int form)
{
    static const char *const names[] = {"ours", "computes", "sends"};

    return form < TWO_MODEL ? names[form] : study_way((unsigned)form - TWO_MODEL);
}

static void
put_interval(const char *name, const struct interval *i)
{
    printf(", \"%s_ms\": %.5f, \"%s_low_ms\": %.5f, \"%s_high_ms\": %.5f", name,
           i->median, name, i->low, name, i->high);
}

static void
show(const struct study_program *program, const struct study *s,
     const struct interval *forms, int count)
{
    int best = best_of(forms, count);

    for (int i = 0; i < count; i++) {
        printf("%s, %-9s %9.3f ms (%s: %.3f to %.3f)\n", program->name, name_of(i),
               forms[i].median, s->samples < ENOUGH ? "all" : "95 %", forms[i].low,
               forms[i].high);
    }
    printf("%s: two models by %s / ours %.3f, overlap efficiency %.2f\n", program->name,
           name_of(best), forms[best].median / forms[OURS].median, overlap_of(forms));
    printf("{\"test\": \"study\", \"study\": \"%s\", \"ranks\": %u, \"devices\": %u, "
           "\"size\": %u, \"steps\": %u, \"lanes\": %u, \"samples\": %u, \"overlap\": "
           "%.4f, \"best\": \"%s\"",
           program->name, s->ranks, s->devices, s->size, s->steps,
           s->lanes != 0 ? s->lanes : 1, s->samples, overlap_of(forms), name_of(best));
    put_interval("two_model", &forms[best]);
    for (int i = 0; i < count; i++) {
        put_interval(name_of(i), &forms[i]);
    }
    printf("}\n");
}

static void
measure(const struct study_program *program, const struct study *study)
{
    double *ms = STUDY_NEW(double, (size_t)study->samples *FORMS_MAX);
    struct interval forms[FORMS_MAX];
    int count = count_forms();

    for (uint32_t i = 0; i < study->samples; i++) {
        for (int form = 0; form < count; form++) { /* what else runs hits all */
            ms[(size_t)form * study->samples + i] =
                run_form(program, study, form, NULL, NULL);
        }
    }
    for (int form = 0; form < count; form++) {
        forms[form] = interval_of(&ms[(size_t)form * study->samples], study->samples);
    }
    show(program, study, forms, count);
    study_free(ms);
}

int
study_main(int argc, char **argv, const struct study_program *program)
{
    struct study study = program->study, all;
    double ours, two_model = 0;
    void *right;
    int bad = 0, bad_two = 0, any_bad;

    study_parse(argc, argv, &study);
    all = study;
    if (study.checked != 0 && study.steps > study.checked) {
        study.steps = study.checked;
    }
    right = program->serial(&study);
    ours = run_form(program, &study, OURS, right, &bad);
    any_bad = bad;
    for (int form = TWO_MODEL; form < count_forms() && study_processes() == 1;
         form++) { /* the host of phases sees one process's memory */
        two_model = run_form(program, &study, form, right, &bad_two);
        any_bad |= bad_two;
    }
    study_free(right);
    if (study_processes() > 1) {
        if (study.samples != 0) {
            printf("%s: times are compared in one process only\n", program->name);
        }
        return any_bad;
    }
    printf("%s: %u ranks on %u devices, %s %u, %u steps: %.3f ms; phases and copies "
           "%.3f ms\n",
           program->name, study.ranks, study.devices, study.what, study.size,
           study.steps, ours, two_model);
    if (!any_bad && study.samples != 0) {
        measure(program, &all);
    }
    return any_bad;
}
