/* SPDX-License-Identifier: Apache-2.0 */
/* Balancers: which process each object shall be in, by the processor time that it took. */
#include <stdlib.h>

#include "base/alloc.h"
#include "mdr/object_int.h"

/* A process has enough work from this part of the average on. */
#define TOLERANCE 1.02

static int
compare_loads(const void *a, const void *b)
{
    const telpher_mdr_load *x = a, *y = b;

    return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : 0;
}

static uint32_t
least_of(const double *work, uint32_t size)
{
    uint32_t least = 0;

    for (uint32_t r = 1; r < size; r++) {
        least = work[r] < work[least] ? r : least;
    }
    return least;
}

void
tp_mdr_balance_greedy(telpher_mdr_load *loads, size_t count, uint32_t size, void *user)
{
    double *work = tp_alloc_array(size, sizeof(*work), "mdr balancer");

    (void)user;
    if (work == NULL) {
        return; /* all stay */
    }
    qsort(loads, count, sizeof(*loads), compare_loads);
    for (size_t i = 0; i < count; i++) {
        work[loads[i].rank] += loads[i].stays != 0 ? (double)loads[i].ns + 1 : 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (loads[i].stays == 0) {
            loads[i].rank = least_of(work, size);
            /* objects without work are spread as well */
            work[loads[i].rank] += (double)loads[i].ns + 1;
        }
    }
    tp_free(work);
}

/* Moves objects of a process that has too much, large ones first, to the one with the least. */
static void
relieve(telpher_mdr_load *loads, size_t count, uint32_t size, uint32_t from,
        double *work, double enough)
{
    for (size_t i = 0; i < count && work[from] > enough; i++) {
        uint32_t to = least_of(work, size);
        double ns = (double)loads[i].ns;

        if (loads[i].rank == from && loads[i].ns != 0 && loads[i].stays == 0 &&
            work[to] + ns <= enough) {
            loads[i].rank = to;
            work[from] -= ns;
            work[to] += ns;
        }
    }
}

void
tp_mdr_balance_refine(telpher_mdr_load *loads, size_t count, uint32_t size, void *user)
{
    double *work = tp_alloc_array(size, sizeof(*work), "mdr balancer");
    double all = 0;

    (void)user;
    if (work == NULL) {
        return;
    }
    qsort(loads, count, sizeof(*loads), compare_loads);
    for (size_t i = 0; i < count; i++) {
        work[loads[i].rank] += (double)loads[i].ns;
        all += (double)loads[i].ns;
    }
    for (uint32_t r = 0; r < size; r++) {
        relieve(loads, count, size, r, work, TOLERANCE * all / size);
    }
    tp_free(work);
}
