/* SPDX-License-Identifier: Apache-2.0 */
/* Splits of groups: the ranks of each colour form a new group. */
#include <stdlib.h>

#include "base/alloc.h"
#include "rma/gpu/link.h"

static int
compare_wishes(const void *left, const void *right)
{
    const struct tp_rma_wish *a = left, *b = right;

    if (a->color != b->color) {
        return a->color < b->color ? -1 : 1;
    }
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return a->position < b->position ? -1 : 1;
}

void
tp_rma_split_sort(const struct tp_rma_group *group, struct tp_rma_wish *list)
{
    for (uint32_t i = 0; i < group->size; i++) {
        list[i] = (struct tp_rma_wish){group->slots[i].color, group->slots[i].key, i};
        group->slots[i].result = TELPHER_RMA_COMM_NONE;
    }
    qsort(list, group->size, sizeof(*list), compare_wishes);
}

telpher_status
tp_rma_split_one(struct tp_rma_run *run, struct tp_rma_group *group,
                 const struct tp_rma_wish *list, uint32_t left, uint32_t *ranks,
                 int32_t index, uint32_t *ret_count)
{
    telpher_status status = TELPHER_OK;
    uint32_t n = 0;

    for (; n < left && list[n].color == list[0].color; n++) {
        ranks[n] = group->members[list[n].position];
    }
    if (list[0].color >= 0) {
        status = tp_rma_group_create(run, ranks, n, "group %d", index, &index);
    }
    if (run->link != NULL && list[0].color >= 0 && status == TELPHER_OK) {
        tp_rma_link_group(run, atomic_load(&run->groups[index]));
    }
    for (uint32_t i = 0; i < n && list[0].color >= 0 && status == TELPHER_OK; i++) {
        group->slots[list[i].position].result = index + 1;
    }
    *ret_count = n;
    return status;
}

static telpher_status
make_groups(struct tp_rma_run *run, struct tp_rma_group *group,
            struct tp_rma_wish *list, uint32_t *ranks)
{
    telpher_status status = TELPHER_OK;

    tp_rma_split_sort(group, list);
    for (uint32_t i = 0, n; i < group->size && status == TELPHER_OK; i += n) {
        status = tp_rma_split_one(run, group, &list[i], group->size - i, ranks, -1, &n);
    }
    return status;
}

static void
split_all(struct tp_rma_run *run, struct tp_rma_group *group)
{
    struct tp_rma_wish *list = tp_alloc_array(group->size, sizeof(*list), "split");
    uint32_t *ranks = tp_alloc_array(group->size, sizeof(*ranks), "split");

    group->status = list != NULL && ranks != NULL ? make_groups(run, group, list, ranks)
                                                  : TELPHER_ERR_NO_MEMORY;
    tp_free(list);
    tp_free(ranks);
    if (group->status != TELPHER_OK) {
        tp_rma_run_fail(run, group->status, "cannot split %s at %s: %s", group->name,
                        group->slots[0].where, telpher_status_text(group->status));
    }
}

/* args: group, color, key */
telpher_status
tp_rma_do_split(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                struct tp_rma_result *ret_result)
{
    struct tp_rma_group *group;
    struct tp_rma_slot *slot;
    telpher_status status = tp_rma_group_begin(lane, call, NULL, &group);

    if (status != TELPHER_OK) {
        return status;
    }
    slot = tp_rma_group_slot(lane->rank, group);
    slot->color = (int32_t)(int64_t)call->args[1];
    slot->key = (int32_t)(int64_t)call->args[2];
    status = tp_rma_group_meet(lane, group, split_all);
    ret_result->value = slot->result;
    return status;
}
