/* SPDX-License-Identifier: Apache-2.0 */
/* Light threads: entries that may wait, each on a fiber of its own. */
#include "mdr/mdr_int.h"

#include "base/alloc.h"

/** An entry that waits for a free light thread. */
struct starved {
    struct tp_list link; /**< mdr->starved */
    telpher_mdr_call call;
    telpher_mdr_entry_fn run;
    struct tp_mdr_message *message;
};

telpher_status
tp_mdr_lights_init(telpher_mdr *mdr)
{
    size_t count = (size_t)mdr->settings.threads;

    mdr->lights = tp_alloc_array(count, sizeof(*mdr->lights), "mdr light threads");
    if (mdr->lights == NULL ||
        tp_stacks_init(&mdr->stacks, count, mdr->settings.stack_bytes) != TELPHER_OK) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        mdr->lights[i] = (struct tp_mdr_light){.busy = false};
        tp_list_push_back(&mdr->free_lights, &mdr->lights[i].link);
    }
    return TELPHER_OK;
}

void
tp_mdr_lights_fini(telpher_mdr *mdr)
{
    tp_list_for_each_entry_safe(struct starved, s, &mdr->starved, link) {
        tp_list_remove(&s->link);
        tp_mdr_message_destroy(s->message);
        tp_free(s);
    }
    tp_stacks_fini(&mdr->stacks);
    tp_free(mdr->lights);
}

static void
run_light(void *arg)
{
    struct tp_mdr_light *light = arg;

    if (!light->call.mdr->exiting) { /* else the run ended before it began */
        light->run(&light->call);
    }
    light->busy = false;
}

static void
start(telpher_mdr *mdr, const telpher_mdr_call *call, telpher_mdr_entry_fn run,
      struct tp_mdr_message *m)
{
    struct tp_mdr_light *light =
        tp_list_entry(tp_list_first(&mdr->free_lights), struct tp_mdr_light, link);

    tp_list_remove(&light->link);
    light->call = *call;
    light->run = run;
    light->message = m;
    light->busy = true;
    tp_fiber_init(&light->fiber, &mdr->stacks, (size_t)(light - mdr->lights), run_light,
                  light);
    light->fiber.back = &mdr->scheduler;
    tp_list_push_back(&mdr->ready, &light->link);
}

void
tp_mdr_light_start(telpher_mdr *mdr, const telpher_mdr_call *call,
                   telpher_mdr_entry_fn run, struct tp_mdr_message *m)
{
    struct starved *s;

    if (!tp_list_is_empty(&mdr->free_lights)) {
        start(mdr, call, run, m);
        return;
    }
    s = tp_zalloc(sizeof(*s), "mdr light thread");
    if (s == NULL) {
        tp_mdr_message_destroy(m);
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY, "no memory for a light thread");
        return;
    }
    *s = (struct starved){.call = *call, .run = run, .message = m};
    tp_list_init(&s->link);
    tp_list_push_back(&mdr->starved, &s->link);
}

static void
end_light(telpher_mdr *mdr, struct tp_mdr_light *light)
{
    struct starved *s;

    tp_fiber_fini(&light->fiber);
    tp_mdr_message_destroy(light->message);
    tp_list_push_back(&mdr->free_lights, &light->link);
    if (!tp_list_is_empty(&mdr->starved)) {
        s = tp_list_entry(tp_list_first(&mdr->starved), struct starved, link);
        tp_list_remove(&s->link);
        start(mdr, &s->call, s->run, s->message);
        tp_free(s);
    }
}

/* Runs a light thread until it waits or ends. */
static void
resume(telpher_mdr *mdr, struct tp_mdr_light *light)
{
    mdr->current = light;
    tp_fiber_switch(&mdr->scheduler, &light->fiber);
    mdr->current = NULL;
    if (!light->busy) {
        end_light(mdr, light);
    }
}

bool
tp_mdr_lights_run(telpher_mdr *mdr)
{
    struct tp_mdr_light *light;

    if (tp_list_is_empty(&mdr->ready)) {
        return false;
    }
    light = tp_list_entry(tp_list_first(&mdr->ready), struct tp_mdr_light, link);
    tp_list_remove(&light->link);
    resume(mdr, light);
    return true;
}

void
tp_mdr_light_wake(telpher_mdr *mdr, struct tp_mdr_light *light)
{
    tp_list_push_back(&mdr->ready, &light->link);
}

telpher_status
tp_mdr_light_suspend(telpher_mdr *mdr)
{
    struct tp_mdr_light *self = mdr->current;

    if (!mdr->exiting) {
        tp_fiber_switch(&self->fiber, &mdr->scheduler);
    }
    return mdr->exiting ? TELPHER_ERR_CANCELED : TELPHER_OK;
}

void
tp_mdr_lights_cancel(telpher_mdr *mdr)
{
    tp_list_for_each_entry_safe(struct starved, s, &mdr->starved, link) {
        tp_list_remove(&s->link);
        tp_mdr_message_destroy(s->message);
        tp_free(s);
    }
    for (size_t i = 0; i < (size_t)mdr->settings.threads; i++) {
        struct tp_mdr_light *light = &mdr->lights[i];

        if (light->busy) {
            if (tp_list_is_linked(&light->link)) {
                tp_list_remove(&light->link);
            }
            resume(mdr, light); /* no wait returns but with CANCELED, so it ends */
        }
    }
}

telpher_status
telpher_mdr_yield(telpher_mdr *mdr)
{
    if (mdr->current == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "this entry may not wait: give it TELPHER_MDR_WAITS");
    }
    tp_mdr_light_wake(mdr, mdr->current);
    return tp_mdr_light_suspend(mdr);
}
