/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: nets_hostile_shm
 *
 * Rank 1 of 3 shares memory with the others and writes nonsense there: cells, frames of the
 * engine, counts.
 * Rank 0, which reads it, gives rank 1 up, once, with the reason; each operation ends exactly
 * once; with rank 2 it goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#include "base/trace/log.h"
#include "core/comm/rndv/rndv_int.h"
#include "transport/shm/net_int.h"

enum { HOSTILE = 1, BIG = 300000, OTHERS = 100 };

enum nonsense {
    KIND, /* of a cell: there is no such */
    HEADER, /* longer than any */
    INLINE, /* more data than a cell has */
    BESIDE, /* data beyond the ring */
    BESIDE_LONG, /* more data than a message has */
    RTS_EMPTY, /* offers nothing */
    RTS_END, /* offers memory beyond the end of all */
    RTS_ID, /* to be answered to nothing */
    RTS_HEADER, /* with a header longer than any */
    FRAME_KIND, /* of the engine, that there is not */
    FRAME_SHORT, /* less than one */
    PART, /* data that was not asked for */
    NOISE, /* bytes without a meaning, in many cells */
    CTS, /* to nothing */
    CTS_LONG, /* wants more than there is */
    CTS_ID, /* for data without an id */
    DONE, /* to nothing */
    TAIL, /* has consumed cells that were not written */
    NONSENSES
};
static const char *const names[NONSENSES] = {
    "kind",         "header",       "inside",
    "beside",       "beside, long", "RTS of nothing",
    "RTS's end",    "RTS's id",     "RTS, long header",
    "frame's kind", "frame, short", "part",
    "noise",        "CTS",          "CTS, long",
    "CTS's id",     "done",         "tail"};

static enum nonsense nonsense;

/* ---- who writes it ---- */

static struct tp_shm_cell *
next_cell(struct shm_way_out *out)
{
    return &out->ring->cells[out->head % TP_SHM_CELLS];
}

static void
write_cell(struct shm_link *link, uint8_t kind, uint8_t header_len, uint16_t len,
           const void *body, size_t body_len)
{
    struct tp_shm_cell *cell = next_cell(&link->out);

    cell->kind = kind;
    cell->header_len = header_len;
    cell->len = len;
    memset(cell->body, 0, sizeof(cell->body));
    memcpy(cell->body, body, body_len);
    atomic_store(&cell->seq, ++link->out.head);
    tp_shm_wake(link);
}

static void
write_frame(struct shm_link *link, uint32_t kind, uint32_t id, uint64_t len,
            uint64_t at)
{
    const struct tp_rndv_frame f = {.kind = kind, .id = id, .len = len, .at = at};

    write_cell(link, TP_SHM_CONTROL, sizeof(f), 0, &f, sizeof(f));
}

static void
make_noise(struct shm_link *link)
{
    uint32_t seed = 12345;

    for (unsigned i = 0; i < TP_SHM_CELLS / 2; i++) { /* not over what is unread */
        uint8_t body[TP_SHM_BODY];

        for (size_t b = 0; b < sizeof(body); b++) {
            seed = seed * 1664525 + 1013904223;
            body[b] = (uint8_t)(seed >> 24);
        }
        write_cell(link, body[0], body[1], body[2], body, sizeof(body));
    }
}

/* The id of what rank 0 offered, as it stands in the first cell with an RTS. */
static uint32_t
offered_id(const struct shm_link *link)
{
    for (unsigned i = 0; i < TP_SHM_CELLS; i++) {
        const struct tp_shm_cell *cell = &link->in->cells[i];
        struct tp_rndv_frame f;

        memcpy(&f, cell->body, sizeof(f));
        if (atomic_load(&cell->seq) != 0 && cell->kind == TP_SHM_CONTROL &&
            f.kind == TP_RNDV_RTS) {
            return f.id;
        }
    }
    return 0;
}

static void
write_nonsense(struct shm_link *link)
{
    const uint32_t beyond[] = {TP_SHM_DATA - 10, 100},
                   too_long[] = {0, TP_SHM_EAGER + 1}, unasked[] = {0, 100, 1};
    uint32_t id = offered_id(link);

    switch (nonsense) {
    case KIND:
        write_cell(link, 99, 4, 0, "nons", 4);
        break;
    case HEADER:
        write_cell(link, TP_SHM_INLINE, TP_NET_HEADER_MAX + 1, 0, "", 0);
        break;
    case INLINE:
        write_cell(link, TP_SHM_INLINE, 4, TP_SHM_BODY, "", 0);
        break;
    case BESIDE:
        write_cell(link, TP_SHM_BESIDE, 4, 0, beyond, sizeof(beyond));
        break;
    case BESIDE_LONG:
        write_cell(link, TP_SHM_BESIDE, 4, 0, too_long, sizeof(too_long));
        break;
    case RTS_EMPTY:
        write_frame(link, TP_RNDV_RTS, 1, 0, 4096);
        break;
    case RTS_END:
        write_frame(link, TP_RNDV_RTS, 1, 100, UINT64_MAX - 10);
        break;
    case RTS_ID:
        write_frame(link, TP_RNDV_RTS, 0, 100, 4096);
        break;
    case RTS_HEADER:
        write_cell(link, TP_SHM_CONTROL, TP_NET_CONTROL_MAX, 0,
                   &(struct tp_rndv_frame){TP_RNDV_RTS, 1, 100, 4096},
                   sizeof(struct tp_rndv_frame));
        break;
    case FRAME_KIND:
        write_frame(link, 77, id, 1, 1);
        break;
    case FRAME_SHORT:
        write_cell(link, TP_SHM_CONTROL, 8, 0, &(uint32_t[]){TP_RNDV_CTS, id}, 8);
        break;
    case PART:
        write_cell(link, TP_SHM_PART, 4, 0, unasked, sizeof(unasked));
        break;
    case NOISE:
        make_noise(link);
        break;
    case CTS:
        write_frame(link, TP_RNDV_CTS, 12345, 1, 1);
        break;
    case CTS_LONG:
        write_frame(link, TP_RNDV_CTS, id, BIG + 1, 1);
        break;
    case CTS_ID:
        write_frame(link, TP_RNDV_CTS, id, BIG, 0);
        break;
    case DONE:
        write_frame(link, TP_RNDV_DONE, 12345, 0, 0);
        break;
    default:
        atomic_store(&link->in->tail, 1000);
        break;
    }
}

/* ---- the others ---- */

struct party {
    struct tp_net_op op;
    unsigned done, others;
    uint8_t memory[BIG];
};
static struct party the;

static void
done(struct tp_net_op *op, telpher_status status)
{
    (void)op;
    the.done++;
    if (status != TELPHER_ERR_PEER_LOST) {
        the.done += 100;
    }
}

static void
on_message(struct world *w, uint32_t from, const void *header, size_t header_len,
           const void *data, size_t len)
{
    (void)header;
    (void)header_len;
    (void)data;
    (void)len;
    w->messages++;
    the.others += from != HOSTILE;
}

/* Rank 1 leaves what is announced to it; rank 0 wants what rank 1 announces honestly. */
static void
on_rndv(struct world *w, uint32_t from, const void *header, size_t header_len,
        uint64_t len, struct tp_net_rndv *bulk)
{
    (void)header;
    (void)header_len;
    if (w->rank == 0 && from == HOSTILE && len <= BIG && the.op.done == NULL) {
        the.op.done = done;
        tp_rndv_recv(w->net, bulk, the.memory, len, &the.op);
    }
}

static void
be_hostile(struct world *w)
{
    struct shm_link *link;

    world_send(w, 0, "x", 1, NULL, 0);
    UNTIL(w, w->messages >= 2); /* both ways stand */
    link = shm_net(w->net)->links[0];
    UNTIL(w, link->in != NULL && link->out.fd < 0);
    write_nonsense(link);
    while (nonsense == TAIL && link->in != NULL) { /* else we put it right ourselves */
        atomic_store(&link->in->tail, 1000);
        (void)world_step(w);
    }
    UNTIL(w, w->lost[0] != 0); /* that is what it gets */
}

static void
read_nonsense(struct world *w)
{
    the.op.done = done; /* something is under way to it */
    MUST(w,
         tp_rndv_send(w->net, HOSTILE, "b", 1, the.memory, BIG, &the.op) == TELPHER_OK);
    world_send(w, HOSTILE, "x", 1, NULL, 0);
    UNTIL(w, w->messages >= 1);
    while (nonsense == TAIL && w->lost[HOSTILE] == 0) { /* seen when there is no room */
        (void)w->ops->send(w->net, HOSTILE, "y", 1, the.memory, 10000);
        (void)world_step(w);
    }
    UNTIL(w, w->lost[HOSTILE] != 0);
    MUST(w, w->lost[HOSTILE] == 1 && w->why[HOSTILE] == TELPHER_ERR_PROTO);
    MUST(w, the.done == 1);
}

static void
be_friends(struct world *w)
{
    uint32_t other = 2 - w->rank;

    for (uint32_t i = 0; i < OTHERS; i++) {
        world_send(w, other, &i, sizeof(i), the.memory, i * 10);
    }
    UNTIL(w, the.others == OTHERS);
}

static void
rank(struct world *w)
{
    (void)tp_log_configure("error", NULL); /* that it wrote nonsense is no news */
    world_connect(w, HOSTILE == w->rank ? 0 : 2 - w->rank);
    if (w->rank == HOSTILE) {
        world_connect(w, 2);
        world_send(w, 2, "x", 1, NULL, 0);
        world_barrier(w);
        be_hostile(w);
    } else {
        world_connect(w, HOSTILE);
        world_barrier(w);
        if (w->rank == 0) {
            read_nonsense(w);
        } else {
            world_send(w, HOSTILE, "x", 1, NULL, 0);
        }
        be_friends(w);
    }
}

static void
test_nonsense(void **arg)
{
    static const struct hooks hooks = {on_message, on_rndv, NULL};
    const struct world_params params = {.transport = "shm",
                                        .size = 3,
                                        .killed = UINT32_MAX,
                                        .hooks = &hooks,
                                        .fn = rank};

    nonsense = *(const enum nonsense *)*arg;
    assert_true(world_run(&params));
}

int
main(void)
{
    static enum nonsense all[NONSENSES];
    struct CMUnitTest tests[NONSENSES];

    if (!world_has("shm")) {
        return 77;
    }
    for (unsigned i = 0; i < NONSENSES; i++) {
        all[i] = (enum nonsense)i;
        tests[i] = (struct CMUnitTest){names[i], test_nonsense, NULL, NULL, &all[i]};
    }
    return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
