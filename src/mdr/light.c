/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that may wait: each runs on a light thread. */
#include "mdr/object_int.h"

#include "base/alloc.h"

static void
destroy(struct tp_mdr_waiting_entry *e)
{
    tp_list_remove(&e->link);
    tp_mdr_message_destroy(e->message);
    tp_free(e);
}

/* The time of the object counts while its light thread runs. */
static void
begin_measure(struct tp_mdr_waiting_entry *e)
{
    e->call.mdr->where = &e->where;
    e->start =
        e->message != NULL ? tp_mdr_measure(e->call.mdr, e->message->element) : 0;
}

static void
end_measure(struct tp_mdr_waiting_entry *e)
{
    e->call.mdr->where = NULL;
    if (e->start != 0) {
        tp_mdr_measured(e->message->element, e->start);
    }
}

static void
drop_starved(telpher_mdr *mdr)
{
    tp_list_for_each_entry_safe(struct tp_mdr_waiting_entry, e, &mdr->starved, link) {
        destroy(e);
    }
}

void
tp_mdr_lights_fini(telpher_mdr *mdr)
{
    drop_starved(mdr);
    tp_lights_fini(&mdr->lights);
}

static void
run_entry(void *arg)
{
    struct tp_mdr_waiting_entry *e = arg;

    begin_measure(e);
    if (!e->call.mdr->exiting) { /* else the run ended before it began */
        e->run(&e->call);
    }
    end_measure(e);
    destroy(e);
}

void
tp_mdr_light_start(telpher_mdr *mdr, const telpher_mdr_call *call,
                   telpher_mdr_entry_fn run, struct tp_mdr_message *m)
{
    struct tp_mdr_waiting_entry *e = tp_zalloc(sizeof(*e), "mdr light thread");

    if (e == NULL) {
        tp_mdr_message_destroy(m);
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                    "out of memory for a light thread that runs an entry of element "
                    "(%d, %d, %d)",
                    call->index.at[0], call->index.at[1], call->index.at[2]);
        return;
    }
    *e = (struct tp_mdr_waiting_entry){.call = *call, .run = run, .message = m};
    if (mdr->where != NULL && m != NULL) {
        e->where = *mdr->where; /* of tp_mdr_run_entry() */
    }
    tp_list_init(&e->link);
    if (tp_lights_start(&mdr->lights, run_entry, e) == NULL) {
        tp_list_push_back(&mdr->starved, &e->link);
    }
}

bool
tp_mdr_lights_run(telpher_mdr *mdr)
{
    struct tp_list *link = tp_list_first(&mdr->starved);
    bool ran = tp_lights_run(&mdr->lights);

    if (link != NULL && tp_lights_start(&mdr->lights, run_entry,
                                        tp_list_entry(link, struct tp_mdr_waiting_entry,
                                                      link)) != NULL) {
        tp_list_remove(link);
    }
    return ran;
}

bool
tp_mdr_light_may_wait(const telpher_mdr *mdr)
{
    const struct tp_mdr_waiting_entry *e =
        mdr->lights.current != NULL ? mdr->lights.current->arg : NULL;

    return e != NULL && mdr->where == &e->where;
}

telpher_status
tp_mdr_light_suspend(telpher_mdr *mdr)
{
    struct tp_mdr_waiting_entry *e = mdr->lights.current->arg;

    if (!mdr->exiting) {
        end_measure(e);
        tp_lights_suspend(&mdr->lights);
        begin_measure(e);
    }
    return mdr->exiting ? TELPHER_ERR_CANCELED : TELPHER_OK;
}

void
tp_mdr_lights_cancel(telpher_mdr *mdr)
{
    drop_starved(mdr);
    for (size_t i = 0; i < mdr->lights.count; i++) {
        if (mdr->lights.all[i].busy) { /* every wait returns CANCELED, so it ends */
            tp_lights_resume(&mdr->lights, &mdr->lights.all[i]);
        }
    }
}

telpher_status
telpher_mdr_yield(telpher_mdr *mdr)
{
    if (mdr->lights.current == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "this entry may not wait: give it TELPHER_MDR_WAITS");
    }
    tp_lights_wake(&mdr->lights, mdr->lights.current);
    return tp_mdr_light_suspend(mdr);
}
