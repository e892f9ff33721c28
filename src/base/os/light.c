/* SPDX-License-Identifier: Apache-2.0 */
/* Light threads: start, wait and end of functions that run on fibers of one thread. */
#include "base/os/light.h"

#include "base/alloc.h"

telpher_status
tp_lights_init(struct tp_lights *lights, size_t count, size_t stack_bytes)
{
    *lights = (struct tp_lights){.count = count};
    tp_list_init(&lights->free);
    tp_list_init(&lights->ready);
    lights->all = tp_alloc_array(count, sizeof(*lights->all), "light threads");
    if (lights->all == NULL ||
        tp_stacks_init(&lights->stacks, count, stack_bytes) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        tp_list_push_back(&lights->free, &lights->all[i].link);
    }
    tp_fiber_init_thread(&lights->scheduler);
    return TELPHER_OK;
}

void
tp_lights_fini(struct tp_lights *lights)
{
    tp_stacks_fini(&lights->stacks);
    tp_free(lights->all);
    lights->all = NULL;
}

static void
run_light(void *arg)
{
    struct tp_light *light = arg;

    light->run(light->arg);
    light->busy = false;
}

static void
start(struct tp_lights *lights, struct tp_light *light, const struct tp_stacks *stacks,
      size_t index, void (*run)(void *arg), void *arg)
{
    light->run = run;
    light->arg = arg;
    light->owner = NULL;
    light->busy = true;
    tp_fiber_init(&light->fiber, stacks, index, run_light, light);
    light->fiber.back = &lights->scheduler;
    tp_list_push_back(&lights->ready, &light->link);
}

struct tp_light *
tp_lights_start(struct tp_lights *lights, void (*run)(void *arg), void *arg)
{
    struct tp_list *link = tp_list_pop_front(&lights->free);
    struct tp_light *light;

    if (link == NULL) {
        return NULL;
    }
    light = tp_list_entry(link, struct tp_light, link);
    start(lights, light, &lights->stacks, (size_t)(light - lights->all), run, arg);
    return light;
}

void
tp_lights_start_own(struct tp_lights *lights, struct tp_light *light,
                    const struct tp_stacks *stack, void (*run)(void *arg), void *arg)
{
    tp_list_init(&light->link);
    start(lights, light, stack, 0, run, arg);
}

static bool
is_own(const struct tp_lights *lights, const struct tp_light *light)
{
    return light < lights->all || light >= lights->all + lights->count;
}

void
tp_lights_resume(struct tp_lights *lights, struct tp_light *light)
{
    if (tp_list_is_linked(&light->link)) {
        tp_list_remove(&light->link);
    }
    lights->current = light;
    tp_fiber_switch(&lights->scheduler, &light->fiber);
    lights->current = NULL;
    if (!light->busy) {
        tp_fiber_fini(&light->fiber);
        if (!is_own(lights, light)) {
            tp_list_push_front(&lights->free, &light->link); /* its stack is warm */
        }
    }
}

bool
tp_lights_run(struct tp_lights *lights)
{
    struct tp_list *link = tp_list_first(&lights->ready);

    if (link == NULL) {
        return false;
    }
    tp_lights_resume(lights, tp_list_entry(link, struct tp_light, link));
    return true;
}

void
tp_lights_wake(struct tp_lights *lights, struct tp_light *light)
{
    tp_list_push_back(&lights->ready, &light->link);
}

void
tp_lights_suspend(struct tp_lights *lights)
{
    tp_fiber_switch(&lights->current->fiber, &lights->scheduler);
}
