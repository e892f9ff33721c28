/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of a process: creation, the scheduler's loop, errors and the end of a run. */
#include "mdr/object_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/config/config.h"
#include "base/config/settings.h"
#include "base/os/clock.h"
#include "base/trace/log.h"

/* Sleep of a process without work; a lost process is noticed between two sleeps. */
#define IDLE_NS UINT64_C(100000000)
/* Turns after which a process that never sleeps looks for a lost process. */
#define TURNS 4096
/* Turns after which a process that always works passes on parts of reductions. */
#define FLUSH_TURNS 64
/* Time for all processes to begin and to end a run. */
#define MEET_NS UINT64_C(60000000000)

/* ---- settings ---- */

#define SETTINGS_OF struct tp_mdr_settings

static const char *const balancers[] = {"none", "refine", "greedy", NULL};

static const struct tp_config_entry setting_entries[] = {
#define SETTING TP_SETTING
#include "base/settings/mdr.def"
#undef SETTING
};

static telpher_status
load_settings(struct tp_mdr_settings *ret, telpher_error *err)
{
    const struct tp_config_room rooms[] = {
        {"mdr", setting_entries, TP_ARRAY_LEN(setting_entries), ret}};
    struct tp_config *config;
    struct tp_error wrong = {0};
    telpher_status status = tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config);

    if (status == TELPHER_OK) {
        status = tp_settings_load(config, TP_SETTINGS_DEFAULT_FILE, &wrong);
        (void)snprintf(ret->checkpoint, sizeof(ret->checkpoint), "%s",
                       status == TELPHER_OK ? ret->checkpoint_text : "");
        tp_config_destroy(config);
    }
    if (status != TELPHER_OK && err != NULL) {
        err->code = status;
        (void)snprintf(err->text, sizeof(err->text), "%s", tp_error_text(&wrong));
    }
    return status;
}

/* ---- errors ---- */

/* Keeps a text, which begins with the entry that runs. An argument may be mdr->error itself. */
static void
keep_text(telpher_mdr *mdr, const char *fmt, va_list args)
{
    const struct tp_mdr_where *w = mdr->where;
    char text[256]; /* with the place it fits into mdr->error */

    (void)vsnprintf(text, sizeof(text), fmt, args);
    if (w == NULL || strncmp(text, "in ", 3) == 0) {
        memcpy(mdr->error, text, sizeof(text));
    } else if (w->class_name == NULL) {
        (void)snprintf(mdr->error, sizeof(mdr->error), "in the main function: %.200s",
                       text);
    } else {
        (void)snprintf(mdr->error, sizeof(mdr->error), "in %.40s(%d, %d, %d).%.40s: %s",
                       w->class_name, w->index.at[0], w->index.at[1], w->index.at[2],
                       w->entry, text);
    }
}

telpher_status
tp_mdr_error(telpher_mdr *mdr, telpher_status status, const char *fmt, ...)
{
    va_list args;

    if (status == TELPHER_ERR_CANCELED && mdr->exit_status != TELPHER_OK) {
        return status; /* the text is why the run ends */
    }
    va_start(args, fmt);
    keep_text(mdr, fmt, args);
    va_end(args);
    return status;
}

const char *
telpher_mdr_last_error(const telpher_mdr *mdr)
{
    return mdr->error;
}

void
tp_mdr_fail(telpher_mdr *mdr, telpher_status status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    keep_text(mdr, fmt, args);
    va_end(args);
    tp_error("mdr", "process %u: %s", mdr->rank, mdr->error);
    telpher_mdr_exit(mdr, status);
}

/* ---- creation ---- */

static telpher_status
init(telpher_mdr *mdr, telpher_context *ctx, telpher_error *err)
{
    telpher_status status = load_settings(&mdr->settings, err);

    mdr->balance =
        mdr->settings.balancer == TP_MDR_BALANCE_GREEDY   ? tp_mdr_balance_greedy
        : mdr->settings.balancer == TP_MDR_BALANCE_REFINE ? tp_mdr_balance_refine
                                                          : NULL;
    if (status == TELPHER_OK && ctx == NULL) {
        status = telpher_context_create(NULL, &mdr->ctx, err);
        mdr->owns_ctx = status == TELPHER_OK;
    }
    if (status != TELPHER_OK) {
        return status;
    }
    mdr->rank = telpher_context_rank(mdr->ctx);
    mdr->size = telpher_context_size(mdr->ctx);
    mdr->out = tp_alloc_array(mdr->size, sizeof(*mdr->out), "mdr queues");
    if (mdr->out == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (uint32_t r = 0; r < mdr->size; r++) {
        tp_list_init(&mdr->out[r].queue);
    }
    return tp_lights_init(&mdr->lights, (size_t)mdr->settings.threads,
                          mdr->settings.stack_bytes);
}

telpher_status
telpher_mdr_create(telpher_context *ctx, telpher_mdr **ret_mdr, telpher_error *err)
{
    telpher_mdr *mdr = tp_zalloc(sizeof(*mdr), "mdr");
    telpher_status status;

    if (mdr == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    mdr->ctx = ctx;
    tp_map_init(&mdr->arrays);
    tp_list_init(&mdr->local);
    for (size_t i = 0; i < TP_MDR_PRIORITIES; i++) {
        tp_list_init(&mdr->later[i]);
    }
    tp_list_init(&mdr->starved);
    tp_list_init(&mdr->held);
    tp_list_init(&mdr->leaving);
    tp_list_init(&mdr->partial);
    mdr->free_slot = UINT32_MAX;
    status = init(mdr, ctx, err);
    if (status != TELPHER_OK) {
        telpher_mdr_destroy(mdr);
        return status;
    }
    *ret_mdr = mdr;
    return TELPHER_OK;
}

void
telpher_mdr_destroy(telpher_mdr *mdr)
{
    if (mdr == NULL) {
        return;
    }
    if (mdr->ran) { /* a job of the program's lives longer */
        (void)telpher_msg_handler(mdr->ctx, TP_MDR_WORK_HANDLER, NULL, NULL, NULL);
        (void)telpher_msg_handler(mdr->ctx, TP_MDR_CONTROL_HANDLER, NULL, NULL, NULL);
    }
    tp_mdr_drop_messages(mdr);
    tp_mdr_lights_fini(mdr); /* light threads use elements */
    tp_mdr_arrays_fini(mdr);
    tp_mdr_futures_fini(mdr);
    if (mdr->owns_ctx) {
        telpher_context_destroy(mdr->ctx);
    }
    tp_free(mdr->out);
    tp_free(mdr);
}

telpher_context *
telpher_mdr_context(const telpher_mdr *mdr)
{
    return mdr->ctx;
}

uint32_t
telpher_mdr_rank(const telpher_mdr *mdr)
{
    return mdr->rank;
}

uint32_t
telpher_mdr_size(const telpher_mdr *mdr)
{
    return mdr->size;
}

void *
telpher_mdr_user(const telpher_mdr *mdr)
{
    return mdr->user;
}

/* ---- the run ---- */

void
tp_mdr_stop(telpher_mdr *mdr, telpher_status status)
{
    if (!mdr->exiting) {
        mdr->exiting = true;
        mdr->exit_status = status;
    }
}

void
telpher_mdr_exit(telpher_mdr *mdr, telpher_status status)
{
    const struct tp_mdr_header h = {.kind = TP_MDR_EXIT, .at = {status}};

    if (mdr->exiting) {
        return;
    }
    tp_mdr_stop(mdr, status);
    for (uint32_t r = 0; r < mdr->size; r++) {
        if (r != mdr->rank) { /* a lost process hears nothing, and need not */
            (void)tp_mdr_control(mdr, r, &h, NULL, 0);
        }
    }
}

/* Ends the run if a process is lost: its objects are, too. */
static void
check_peers(telpher_mdr *mdr)
{
    for (uint32_t r = 0; r < mdr->size; r++) {
        if (r != mdr->rank && telpher_peer_status(mdr->ctx, r) != TELPHER_OK) {
            tp_mdr_fail(
                mdr, TELPHER_ERR_PEER_LOST,
                "process %u is lost with its objects: %s; TELPHER_MDR_CHECKPOINT and "
                "telpher launch --restart go on after that",
                r, telpher_status_text(telpher_peer_status(mdr->ctx, r)));
            return;
        }
    }
}

static bool
run_local(telpher_mdr *mdr)
{
    struct tp_mdr_message *m;

    if (tp_list_is_empty(&mdr->local)) {
        return false;
    }
    m = tp_list_entry(tp_list_first(&mdr->local), struct tp_mdr_message, link);
    tp_list_remove(&m->link);
    tp_mdr_deliver(mdr, m);
    return true;
}

/* One turn of the scheduler: a light thread each, a local message, the network. */
static void
run_turn(telpher_mdr *mdr)
{
    bool worked = tp_mdr_lights_run(mdr);

    worked = (!mdr->exiting && run_local(mdr)) || worked;
    if (mdr->queued != 0) {
        worked = tp_mdr_flush(mdr) || worked;
    }
    if (!tp_list_is_empty(&mdr->leaving)) {
        worked = tp_mdr_leave(mdr) || worked;
    }
    if (mdr->synced) {
        worked = tp_mdr_sync_reports(mdr) || worked;
    }
    worked = tp_mdr_hold_progress(mdr, worked) || worked;
    if (++mdr->turns % TURNS == 0) {
        check_peers(mdr);
    }
    if (!mdr->exiting && (!worked || mdr->turns % FLUSH_TURNS == 0)) {
        worked = tp_mdr_reductions_flush(mdr) || worked;
    }
    worked = tp_mdr_hold_end(mdr, worked) || worked;
    if (worked || mdr->exiting || tp_mdr_later_run(mdr)) {
        return;
    }
    if ((mdr->queued == 0 && tp_mdr_quiescence_idle(mdr)) || tp_mdr_idle_run(mdr)) {
        return;
    }
    if (tp_list_is_empty(&mdr->local) && tp_list_is_empty(&mdr->lights.ready) &&
        telpher_progress_wait(mdr->ctx, IDLE_NS) == TELPHER_ERR_TIMEOUT) {
        check_peers(mdr);
    }
}

/* Buffers on their way are written to memory that objects own: they must arrive or fail. */
static void
receive_rest(telpher_mdr *mdr)
{
    tp_ns end = tp_clock_deadline(MEET_NS);

    while (mdr->receiving != 0 && tp_clock_ns() < end) {
        (void)telpher_progress_wait(mdr->ctx, IDLE_NS);
    }
}

static telpher_status
register_handlers(telpher_mdr *mdr)
{
    telpher_status status = telpher_msg_handler_ordered(
        mdr->ctx, TP_MDR_WORK_HANDLER, (uint32_t)mdr->settings.credits, tp_mdr_post,
        tp_mdr_receive, mdr);

    if (status == TELPHER_OK) {
        status = telpher_msg_handler(mdr->ctx, TP_MDR_CONTROL_HANDLER, NULL,
                                     tp_mdr_receive, mdr);
    }
    return status == TELPHER_OK ? telpher_barrier(mdr->ctx, MEET_NS) : status;
}

telpher_status
telpher_mdr_begin(telpher_mdr *mdr, telpher_mdr_entry_fn main_fn, void *user)
{
    const telpher_mdr_call call = {.mdr = mdr};
    telpher_status status;

    if (mdr->ran || main_fn == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            mdr->ran ? "a runtime runs once: create another"
                                     : "there is no main function");
    }
    mdr->ran = true;
    mdr->user = user;
    status = register_handlers(mdr);
    if (status != TELPHER_OK) {
        return tp_mdr_error(mdr, status, "the processes do not meet: %s",
                            telpher_last_error(mdr->ctx));
    }
    mdr->running = true;
    tp_fiber_init_thread(&mdr->lights.scheduler);
    if (mdr->rank == 0) {
        tp_mdr_light_start(mdr, &call, main_fn, NULL);
    }
    return TELPHER_OK;
}

static void
end_run(telpher_mdr *mdr)
{
    tp_mdr_drop_messages(mdr);
    receive_rest(mdr);
    tp_mdr_lights_cancel(mdr);
    mdr->running = false;
    if (mdr->exit_status != TELPHER_ERR_PEER_LOST) {
        (void)telpher_barrier(mdr->ctx, MEET_NS);
    }
}

telpher_status
telpher_mdr_turn(telpher_mdr *mdr)
{
    if (!mdr->running) {
        return tp_mdr_error(
            mdr, TELPHER_ERR_INVALID,
            "call telpher_mdr_begin() first; a run that ended has no more turns");
    }
    if (!mdr->exiting) {
        run_turn(mdr);
    }
    if (!mdr->exiting) {
        return TELPHER_IN_PROGRESS;
    }
    end_run(mdr);
    return mdr->exit_status;
}

telpher_status
telpher_mdr_run(telpher_mdr *mdr, telpher_mdr_entry_fn main_fn, void *user)
{
    telpher_status status = telpher_mdr_begin(mdr, main_fn, user);

    if (status != TELPHER_OK) {
        return status;
    }
    do {
        status = telpher_mdr_turn(mdr);
    } while (status == TELPHER_IN_PROGRESS);
    return status;
}
