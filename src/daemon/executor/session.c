/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the state of a session and handles the callbacks of its transfers. */
#include <string.h>
#include <sys/eventfd.h>

#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/transfer/shared_memory.h"
#include "device/opencl/watch.h"

enum {
    STAGING_KEEP = 256, /* chunks of TP_WIRE_INLINE_MAX, and as many pages */
    MIDDLE_KEEP = 8, /* chunks of TP_EXEC_DIRECT_MAX */
};

#define LOST_GRACE (200 * TP_CLOCK_MS)

static void
send_piece_done(void *arg, uint64_t transfer, uint64_t offset, uint64_t len)
{
    struct tp_wire_piece_done m = {.transfer = transfer, .offset = offset, .len = len};

    tp_exec_put(arg, TP_WIRE_PIECE_DONE, &m);
    tp_exec_flush(arg);
}

static void
release_region(void *arg, void *hold)
{
    tp_exec_region_unref(hold);
}

static void
send_credit(void *arg, uint64_t transfer, uint64_t limit)
{
    struct tp_wire_credit m = {.transfer = transfer, .limit = limit};

    tp_exec_put(arg, TP_WIRE_CREDIT, &m);
    tp_exec_flush(arg);
}

static void
handle_stream_loss(void *arg, telpher_status status)
{
    struct tp_exec *x = arg;

    if (status == TELPHER_ERR_PROTO) {
        tp_exec_die(x, status, "the client sent a malformed chunk on a bulk stream");
    }
    /* the client may have disconnected, which the reader sees next */
    tp_clock_sleep(LOST_GRACE);
    if (tp_stream_status(x->stream) == TELPHER_OK) {
        tp_exec_die(x, status, "a bulk stream was lost while content was under way");
    }
}

static void
adopt_watch(void *arg, bool begins)
{
    tp_opencl_watch_adopt(begins);
}

static bool
poll_watch(void *arg)
{
    return tp_opencl_watch_look();
}

static void
leave_watch(void *arg)
{
    tp_opencl_watch_leave();
}

static const struct tp_exec_transfers_handler transfers_handler = {
    .piece_done = send_piece_done,
    .release = release_region,
    .credit = send_credit,
    .watch = adopt_watch,
    .idle = poll_watch,
    .leave = leave_watch,
    .lost = handle_stream_loss};

/* Threads for builds, and staging for content, all charged to the session's host memory. */
static telpher_status
create_staging(struct tp_exec *x)
{
    telpher_status status = tp_pool_create("build", TP_EXEC_POOL_THREADS, &x->pool);

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_host_staging_create(TP_EXEC_PAGE, STAGING_KEEP, &x->page);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_host_staging_create(TP_WIRE_INLINE_MAX, STAGING_KEEP, &x->staging);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_host_staging_create(TP_EXEC_DIRECT_MAX, MIDDLE_KEEP, &x->middle);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_exec_transfers_create(&transfers_handler, x, &x->transfers);
    if (status != TELPHER_OK) {
        return status;
    }
    tp_host_staging_set_budget(x->page, &x->host);
    tp_host_staging_set_budget(x->staging, &x->host);
    tp_host_staging_set_budget(x->middle, &x->host);
    tp_exec_transfers_set_budget(x->transfers, &x->host);
    tp_exec_transfers_set_spin(x->transfers, x->spin_ns);
    tp_exec_transfers_set_silence(x->transfers, x->limits.peer_silence_ns);
    return TELPHER_OK;
}

telpher_status
tp_exec_prepare(struct tp_exec *x)
{
    telpher_status status;

    tp_mutex_init(&x->done_lock);
    tp_mutex_init(&x->guard_lock);
    tp_cond_init(&x->all_failed);
    tp_list_init(&x->queues);
    tp_list_init(&x->reads);
    tp_list_init(&x->gates);
    tp_list_init(&x->user_events);
    x->memory.max = x->limits.memory_bytes;
    x->host.max = x->limits.host_bytes;
    if (x->share.slot != NULL) {
        x->memory.outer = &x->share.outer[TP_SHARE_memory];
        x->host.outer = &x->share.outer[TP_SHARE_host];
    }
    tp_exec_pins_init(x);
    tp_exec_peers_init(x);
    tp_list_init(&x->dirty);
    tp_map_init(&x->objects);
    tp_map_init(&x->regions);
    tp_mutex_init(&x->control_lock);
    x->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (x->wake_fd < 0) {
        return TELPHER_ERR_LIMIT; /* the process ends, here and below */
    }
    status = create_staging(x);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_exec_printf_create(x, &x->printf);
    if (status != TELPHER_OK) {
        return status;
    }
    return tp_exec_watchdog_create(x, &x->watchdog);
}
