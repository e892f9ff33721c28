/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits of groups over several processes. All processes know all colours and keys and
 * sort them alike. Each numbers those new groups whose first member it has, and sends
 * the numbers to the others.
 */
#include <string.h>

#include "base/alloc.h"
#include "rma/processes/spread.h"

static void
fail_split(struct tp_rma_run *run, struct tp_rma_group *group, telpher_status status)
{
    uint32_t i = 0;

    while (!tp_rma_spread_is_of(run, group, i, tp_rma_own_process(run))) {
        i++; /* the source line of another process's member is not known any more */
    }
    group->status = status;
    tp_rma_run_fail(run, status, "cannot split %s at %s: %s", group->name,
                    group->slots[i].where, telpher_status_text(status));
}

static uint32_t
same_color(const struct tp_rma_wish *list, uint32_t left)
{
    uint32_t n = 1;

    while (n < left && list[n].color == list[0].color) {
        n++;
    }
    return n;
}

static bool
leads(const struct tp_rma_run *run, const struct tp_rma_group *group,
      const struct tp_rma_wish *wish, uint32_t process)
{
    return wish->color >= 0 && tp_rma_spread_is_of(run, group, wish->position, process);
}

/* Numbers the new groups whose first member is in this process. @return how many */
static uint32_t
number_groups(struct tp_rma_run *run, struct tp_rma_group *group, int32_t *numbers)
{
    const struct tp_rma_wish *list = group->spread->wishes;
    uint32_t count = 0, me = tp_rma_own_process(run);

    for (uint32_t i = 0; i < group->size; i += same_color(&list[i], group->size - i)) {
        if (leads(run, group, &list[i], me)) {
            tp_mutex_lock(&run->table_lock);
            numbers[count++] = tp_rma_group_next_number(run);
            tp_mutex_unlock(&run->table_lock);
        }
    }
    return count;
}

void
tp_rma_spread_begin_split(struct tp_rma_remote *r, struct tp_rma_group *group)
{
    struct tp_rma_spread *s = group->spread;
    uint32_t count;

    s->numbers = tp_alloc_array(group->size, sizeof(*s->numbers), "split");
    s->wishes = tp_alloc_array(group->size, sizeof(*s->wishes), "split");
    if (s->wishes == NULL || s->numbers == NULL) {
        fail_split(r->run, group,
                   TELPHER_ERR_NO_MEMORY); /* others receive that error instead */
        return;
    }
    tp_rma_split_sort(group, s->wishes);
    count = number_groups(r->run, group, s->numbers);
    tp_rma_spread_tell(r, group, 1, s->numbers, count * sizeof(*s->numbers));
}

/* Next number that a process has given, or -1. */
static int32_t
next_number(const struct tp_rma_spread *s, uint32_t process, uint32_t *at, uint32_t me)
{
    const struct tp_rma_arrival *a = s->came[process];
    int32_t number = -1;

    if (process == me) {
        return s->numbers[(*at)++];
    }
    if (a != NULL && (*at + 1) * sizeof(number) <= a->len) {
        memcpy(&number, a->body + *at * sizeof(number), sizeof(number));
        (*at)++;
    }
    return number >= 0 && number < TP_RMA_GROUPS_MAX &&
                   (uint32_t)number % tp_rma_spread_processes(s->run) == process
               ? number
               : -1;
}

/* Creates the new groups that have a member in this process. */
static telpher_status
make_groups(struct tp_rma_run *run, struct tp_rma_group *group, uint32_t *ranks,
            uint32_t *ats)
{
    const struct tp_rma_spread *s = group->spread;
    telpher_status status = TELPHER_OK;

    for (uint32_t i = 0, n; i < group->size && status == TELPHER_OK; i += n) {
        const struct tp_rma_wish *list = &s->wishes[i];
        uint32_t process = tp_rma_process_of(run, group->members[list[0].position]);
        int32_t number = -1;
        bool here = false;

        n = same_color(list, group->size - i);
        for (uint32_t k = 0; k < n; k++) {
            here = here || tp_rma_spread_is_of(run, group, list[k].position,
                                               tp_rma_own_process(run));
        }
        if (list[0].color >= 0) {
            number = next_number(s, process, &ats[process], tp_rma_own_process(run));
        }
        if (here && list[0].color >= 0 && number < 0) {
            status = TELPHER_ERR_LIMIT;
        } else if (here) {
            status =
                tp_rma_split_one(run, group, list, group->size - i, ranks, number, &n);
        }
    }
    return status;
}

void
tp_rma_spread_end_split(struct tp_rma_run *run, struct tp_rma_group *group)
{
    struct tp_rma_spread *s = group->spread;
    uint32_t *ranks = tp_alloc_array(group->size, sizeof(*ranks), "split");
    uint32_t *ats = tp_alloc_array(tp_rma_spread_processes(run), sizeof(*ats), "split");
    telpher_status status =
        ranks != NULL && ats != NULL && s->wishes != NULL && s->numbers != NULL
            ? make_groups(run, group, ranks, ats)
            : TELPHER_ERR_NO_MEMORY;

    if (status != TELPHER_OK) {
        fail_split(run, group, status);
    }
    tp_free(ranks);
    tp_free(ats);
    tp_free(s->wishes);
    tp_free(s->numbers);
    s->wishes = NULL;
    s->numbers = NULL;
}
