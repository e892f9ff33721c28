/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's memory on its way: its list of ranges in a message, then each range on a channel. */
#include <string.h>

#include "ampi/move/move.h"
#include "ampi/process.h"
#include "base/alloc.h"
#include "base/trace/log.h"

struct transfer {
    telpher_channel *channel;
    uint32_t process, id; /* id: of the channel */
    bool sends;
    uint64_t next;
    struct tp_ampi_image image;
};

static size_t
bytes_of(uint64_t ranges)
{
    return offsetof(struct tp_ampi_image, ranges) +
           (size_t)ranges * sizeof(struct tp_ampi_range);
}

static void
lose(uint32_t process, telpher_status status)
{
    tp_error("ampi", "cannot move a rank from or to process %u: %s", process,
             telpher_status_text(status));
    tp_ampi_abort(1);
}

static void
end(struct transfer *t)
{
    if (!t->sends) {
        tp_ampi_channel_release(t->process, t->id, true);
    }
    tp_ampi.transfers--;
    tp_free(t);
}

static void step(struct transfer *t);

static void
ended(void *user, telpher_status status, size_t len)
{
    struct transfer *t = user;

    (void)len;
    if (status != TELPHER_OK) {
        lose(t->process, status);
    }
    t->next++;
    step(t);
}

/* One range after the other. */
static void
step(struct transfer *t)
{
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = ended, .user = t};

    for (; t->next < t->image.count; t->next++) {
        const struct tp_ampi_range *range = &t->image.ranges[t->next];
        telpher_status status =
            t->sends ? telpher_channel_send(t->channel, (void *)range->at, range->len,
                                            &xfer, NULL)
                     : telpher_channel_recv(t->channel, (void *)range->at, range->len,
                                            &xfer, NULL, NULL);

        if (status == TELPHER_IN_PROGRESS) {
            return;
        }
        if (status != TELPHER_OK) {
            lose(t->process, status);
        }
    }
    end(t);
}

static struct transfer *
begin(uint32_t process, uint32_t id, bool sends)
{
    struct transfer *t = tp_zalloc(sizeof(*t), "rank that moves");
    telpher_channel *channel =
        id != UINT32_MAX ? tp_ampi_channel_get(process, id) : NULL;

    if (t == NULL || channel == NULL) {
        lose(process, TELPHER_ERR_NO_MEMORY);
    }
    t->channel = channel;
    t->process = process;
    t->id = id;
    t->sends = sends;
    tp_ampi.transfers++;
    return t;
}

void
tp_ampi_transfer_send(struct tp_ampi_rank *rank, uint32_t process)
{
    uint32_t id = tp_ampi_channel_take(process, NULL);
    struct transfer *t = begin(process, id, true);
    struct tp_ampi_envelope env = {.kind = TP_AMPI_MOVE, .to = rank->world, .id = id};
    telpher_status status;

    tp_ampi_memory_image(
        rank,
        TP_MIN((size_t)TP_AMPI_RANGES_MAX,
               (tp_ampi_eager_max(process) - bytes_of(0)) / sizeof(t->image.ranges[0])),
        &t->image);
    env.len = bytes_of(t->image.count);
    status = tp_ampi_transmit(process, &env, &t->image, (size_t)env.len);
    if (status < 0) {
        lose(process, status);
    }
    step(t);
}

void
tp_ampi_transfer_receive(uint32_t process, const struct tp_ampi_envelope *env,
                         const void *data)
{
    struct transfer *t = begin(process, env->id, false);

    memcpy(&t->image, data, (size_t)TP_MIN(env->len, sizeof(t->image)));
    if (!tp_ampi.movable || env->to >= tp_ampi.world_size ||
        t->image.count > TP_AMPI_RANGES_MAX || env->len != bytes_of(t->image.count) ||
        !tp_ampi_memory_holds(env->to, &t->image)) {
        lose(process, TELPHER_ERR_PROTO);
    }
    tp_ampi.arrived[env->to] = (struct tp_ampi_rank *)(uintptr_t)t->image.rank;
    tp_ampi.arrivals++;
    step(t);
}
