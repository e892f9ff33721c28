/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: the table of each rank's memory. */
#include "base/alloc.h"
#include "rma/gpu/link.h"
#include "rma/processes/remote.h"

/* A closed window of this group, or a new one. */
static bool
is_free(const struct tp_rma_run *run, const struct tp_rma_group *group, uint32_t number)
{
    const struct tp_rma_window *window = atomic_load(&run->windows[number]);

    return window == NULL || (window->group == group && !atomic_load(&window->open));
}

/* Windows of a group over several processes get their numbers from its first
 * member's process. The lock is held. */
static int32_t
find_number(struct tp_rma_run *run, const struct tp_rma_group *group)
{
    uint32_t step = tp_rma_spread_processes(run),
             first = tp_rma_spread_leader(run, group);

    for (uint32_t i = first % step; i < TP_RMA_WINDOWS_MAX; i += step) {
        if (is_free(run, group, i)) {
            return (int32_t)i;
        }
    }
    return TP_RMA_WINDOW_NONE;
}

bool
tp_rma_window_can_be(const struct tp_rma_run *run, const struct tp_rma_group *group,
                     int32_t number)
{
    uint32_t step = tp_rma_spread_processes(run);

    return number == TP_RMA_WINDOW_NONE || number == TP_RMA_WINDOW_NO_MEMORY ||
           (number >= 0 && number < TP_RMA_WINDOWS_MAX &&
            (uint32_t)number % step == tp_rma_spread_leader(run, group) % step &&
            is_free(run, group, (uint32_t)number));
}

/* The window of that number, closed. The lock is held. */
static struct tp_rma_window *
make_place(struct tp_rma_run *run, struct tp_rma_group *group, int32_t number)
{
    struct tp_rma_window *window = atomic_load(&run->windows[number]);

    if (window == NULL) {
        window = tp_zalloc(sizeof(*window) + group->size * sizeof(window->parts[0]),
                           "window");
        if (window != NULL) {
            window->group = group;
            atomic_store(&run->windows[number], window);
        }
    }
    return window;
}

int32_t
tp_rma_window_number(struct tp_rma_run *run, struct tp_rma_group *group)
{
    int32_t number;

    tp_mutex_lock(&run->table_lock);
    number = find_number(run, group);
    if (number >= 0 && make_place(run, group, number) == NULL) {
        /* owned by no other group now */
        number = TP_RMA_WINDOW_NO_MEMORY;
    }
    tp_mutex_unlock(&run->table_lock);
    return number;
}

void
tp_rma_window_create_all(struct tp_rma_run *run, struct tp_rma_group *group)
{
    struct tp_rma_window *window = NULL;

    tp_mutex_lock(&run->table_lock);
    if (group->spread == NULL) {
        group->result = find_number(run, group);
    }
    if (group->result >= 0) {
        window = make_place(run, group, group->result);
    }
    if (window != NULL) {
        for (uint32_t i = 0; i < group->size; i++) {
            window->parts[i].base = group->slots[i].base;
            window->parts[i].len = group->slots[i].len;
        }
        atomic_store(&window->open, true);
    }
    tp_mutex_unlock(&run->table_lock);
    if (window != NULL && run->link != NULL) {
        tp_rma_link_window(run, window, group->result);
    }
    if (window == NULL) {
        group->status = group->result == TP_RMA_WINDOW_NONE ? TELPHER_ERR_LIMIT
                                                            : TELPHER_ERR_NO_MEMORY;
        tp_rma_run_fail(run, group->status, "cannot create a window of %s at %s: %s",
                        group->name, group->slots[0].where,
                        telpher_status_text(group->status));
    }
}

/* args: group, base, length */
telpher_status
tp_rma_do_win_create(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                     struct tp_rma_result *ret_result)
{
    struct tp_rma_group *group;
    struct tp_rma_slot *slot;
    telpher_status status = tp_rma_group_begin(lane, call, NULL, &group);

    if (status != TELPHER_OK) {
        return status;
    }
    if (call->args[2] > UINTPTR_MAX - call->args[1] ||
        (call->args[1] == 0 && call->args[2] != 0)) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_INVALID, call, "%llu bytes at %p",
                                  (unsigned long long)call->args[2],
                                  (void *)(uintptr_t)call->args[1]);
    }
    slot = tp_rma_group_slot(lane->rank, group);
    slot->base = (char *)(uintptr_t)call->args[1];
    slot->len = call->args[2];
    status = tp_rma_group_meet(lane, group, tp_rma_window_create_all);
    ret_result->value = group->result;
    return status;
}

static void
free_all(struct tp_rma_run *run, struct tp_rma_group *group)
{
    telpher_rma_win win = (telpher_rma_win)(int64_t)group->slots[0].args[0];
    struct tp_rma_window *window = tp_rma_window_find(run, win);

    atomic_store(&window->open, false);
    if (run->link != NULL) {
        tp_rma_link_close(run, window, win);
    }
}

/* args: window */
telpher_status
tp_rma_do_win_free(struct tp_rma_lane *lane, const struct tp_rma_call *call,
                   struct tp_rma_result *ret_result)
{
    telpher_rma_win win = (telpher_rma_win)(int64_t)call->args[0];
    struct tp_rma_window *window = tp_rma_window_find(lane->rank->run, win);
    const uint64_t args[4] = {call->args[0]};

    if (window == NULL ||
        window->group->positions[lane->rank->index] == TELPHER_RMA_NO_RANK) {
        return tp_rma_call_refuse(lane, TELPHER_ERR_RANGE, call, "no window %d", win);
    }
    tp_rma_group_enter(lane, call, window->group, args);
    return tp_rma_group_meet(lane, window->group, free_all);
}
