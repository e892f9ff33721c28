/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeks a second server for a session with copies that has none: at its begin, and after the
 * second server was lost or has taken over.
 *
 * A thread tries the other servers of TELPHER_SERVERS, with pauses that grow. It opens a session
 * with the first whose devices are alike and that the first server reaches. This session gets the
 * frames that create all objects (objects.c), while commands go on. When it has them, all
 * content goes there with the next commit. From then on it is as any second session. If
 * anything fails, it is left, and the program has noticed nothing but that commit.
 */
#include "icd/copies/copies_int.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/peers.h"

#include <string.h>

#include "base/compiler.h"
#include "base/os/clock.h"
#include "base/trace/log.h"

#define PAUSE_FIRST (100 * TP_CLOCK_MS)
#define PAUSE_MAX (4 * TP_CLOCK_S) /* while no server answers */
#define PAUSE_FAILED_MAX (300 * TP_CLOCK_S) /* each try costs the memory of a session */

enum outcome { JOINED, NO_SERVER, FAILED };

/* ---- devices that are alike ----------------------------------------------------------------- */

/** True if both devices give the same value, or both none. */
static bool
has_same_fact(const struct _cl_device_id *dev, const struct tp_icd_facts *facts,
              uint32_t platform, uint32_t param)
{
    struct tp_wire_fact x, y;
    bool has = tp_icd_device_fact(dev, param, &x);

    if (has != tp_icd_facts_value(facts, TP_WIRE_FACT_DEVICE, dev->index, platform,
                                  param, &y)) {
        return false;
    }
    return !has || (x.len == y.len && memcmp(x.data, y.data, x.len) == 0);
}

/** True if a program that knows a device can go on with the one of that number. Their drivers may
 *  have different versions: each builds programs from their source. */
static bool
is_like(const struct _cl_device_id *dev, const struct tp_icd_facts *facts,
        uint32_t platform)
{
    static const uint32_t params[] = {
        CL_DEVICE_NAME,
        CL_DEVICE_VENDOR,
        CL_DEVICE_VERSION,
        CL_DEVICE_EXTENSIONS,
        CL_DEVICE_ADDRESS_BITS,
        CL_DEVICE_MAX_WORK_GROUP_SIZE,
        CL_DEVICE_MAX_WORK_ITEM_SIZES,
        CL_DEVICE_LOCAL_MEM_SIZE,
        CL_DEVICE_MEM_BASE_ADDR_ALIGN,
        CL_DEVICE_QUEUE_ON_HOST_PROPERTIES,
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(params); i++) {
        if (!has_same_fact(dev, facts, platform, params[i])) {
            return false;
        }
    }
    return true;
}

int
tp_icd_copies_find_alike(const struct tp_icd_session *session,
                         const struct tp_icd_facts *facts)
{
    uint32_t platforms = tp_icd_facts_count(facts, TP_WIRE_FACT_PLATFORM);

    for (uint32_t p = 0; p < platforms; p++) {
        bool alike = true, any = false;

        for (size_t i = 0; i < tp_icd.platform->device_count && alike; i++) {
            const struct _cl_device_id *dev = tp_icd.platform->devices[i];

            if (dev->server == session->face &&
                dev->platform == session->face_platform) {
                any = true;
                alike = is_like(dev, facts, p);
            }
        }
        if (alike && any) {
            return (int)p;
        }
    }
    return -1;
}

bool
tp_icd_copies_have_same_drivers(const struct tp_icd_session *session,
                                const struct tp_icd_facts *facts, uint32_t platform)
{
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        const struct _cl_device_id *dev = tp_icd.platform->devices[i];

        if (dev->server == session->face && dev->platform == session->face_platform &&
            !has_same_fact(dev, facts, platform, CL_DRIVER_VERSION)) {
            return false;
        }
    }
    return true;
}

/* ---- one try ---------------------------------------------------------------------------------- */

void
tp_copies_end_join(struct tp_icd_copies *c, bool ok)
{
    struct tp_copies_join *join = c->join;

    if (join == NULL) {
        return;
    }
    c->join = NULL;
    join->ended = true;
    join->ok = ok;
    tp_icd_session_wake(join->twin);
}

/** Begins to give a new second session everything. Lock held. @return false: it is not needed, or
 *  of no use */
static bool
attach(struct tp_icd_session *session, struct tp_copies_join *join)
{
    struct tp_icd_session *twin = join->twin;
    struct tp_icd_copies *c = session->copies;

    if (c == NULL || c->phase != TP_COPIES_ALONE || c->twin != NULL || twin->drains ||
        tp_icd_peer_number(session, twin) == 0 ||
        (c->has_binaries && !twin->same_drivers)) {
        return false;
    }
    c->same_drivers = twin->same_drivers;
    c->twin = twin;
    c->join = join;
    tp_icd_session_listen(twin, true);
    tp_copies_begin_replay(c);
    tp_copies_pump(c);
    return true;
}

/** Waits until a new second session has everything. @return false: it is left */
static bool
join_with(struct tp_icd_session *session, struct tp_icd_session *twin)
{
    struct tp_copies_join join = {.twin = twin};
    bool attached;

    tp_icd_peer_arrange(session, twin);
    tp_icd_lock();
    attached = attach(session, &join);
    if (!attached) {
        tp_copies_leave_twin(twin);
    }
    tp_icd_unlock();
    tp_icd_flush_dirty();
    if (attached) {
        (void)tp_icd_wait(twin, &join.ended);
    }
    return join.ok;
}

/** Tries all other servers once. */
static enum outcome
try_servers(struct tp_icd_session *session)
{
    const struct _cl_platform_id *all = tp_icd.platform;
    size_t own = (size_t)(session->server - all->servers);
    enum outcome outcome = NO_SERVER;

    for (size_t i = 1; i < all->server_count; i++) {
        struct tp_icd_server *server = &all->servers[(own + i) % all->server_count];
        struct tp_error err = {0};
        struct tp_icd_session *twin;

        if (tp_icd_session_open_twin(server, session, &twin, &err) != TELPHER_OK) {
            tp_debug("icd", "%s: no second session: %s", server->address,
                     tp_error_text(&err));
            continue;
        }
        if (join_with(session, twin)) {
            return JOINED;
        }
        outcome = FAILED;
    }
    return outcome;
}

bool
tp_copies_join(struct tp_icd_session *session)
{
    return try_servers(session) == JOINED;
}

/* ---- the thread ----------------------------------------------------------------------------------- */

/** @return the session that goes on for one, if it still needs a second server; NULL: no */
static struct tp_icd_session *
find_alone(struct tp_icd_session *session)
{
    struct tp_icd_copies *c;
    bool alone;

    tp_icd_lock();
    session = tp_icd_session_current(session);
    c = session->copies;
    alone = c != NULL && c->twin == NULL;
    if (c != NULL && !alone) {
        c->seeks = false;
    }
    tp_icd_unlock();
    return alone ? session : NULL;
}

static void
report(struct tp_icd_session *session)
{
    const struct tp_icd_server *there = NULL;

    tp_icd_lock();
    if (tp_icd_copies_can_move(session)) {
        there = session->copies->twin->server;
    }
    tp_icd_unlock();
    if (there != NULL) {
        tp_warn("icd", "%s: copies are kept on %s from now on",
                session->server->address, there->address);
    }
    tp_icd_session_leave_drained(session);
}

/** @return how long to sleep, which doubles up to a limit */
static tp_ns
next_pause(tp_ns *pause, tp_ns max)
{
    tp_ns now = *pause;

    *pause = TP_MIN(2 * now, max);
    return now;
}

static void *
seek_main(void *arg)
{
    struct tp_icd_session *session = arg;
    tp_ns quiet = PAUSE_FIRST, failed = PAUSE_FIRST, pause = PAUSE_FIRST;

    while ((session = find_alone(session)) != NULL) {
        tp_clock_sleep(pause);
        switch (try_servers(session)) {
        case JOINED:
            report(session);
            break;
        case FAILED:
            pause = next_pause(&failed, PAUSE_FAILED_MAX);
            break;
        default:
            failed = PAUSE_FIRST; /* the server that failed is not there any more */
            pause = next_pause(&quiet, PAUSE_MAX);
        }
    }
    return NULL;
}

void
tp_copies_seek(struct tp_icd_copies *c)
{
    if (!c->seeks) {
        c->seeks =
            tp_icd_thread_start("telpher-seek", seek_main, c->session) == TELPHER_OK;
    }
}
