/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place: the session with one executor. Opening it, and what is known of it by id.
 *
 *   place_send.c    what goes there        place_frames.c  what comes from there
 *   place_read.c    who reads              place_lose.c    the session broke
 */
#include "icd/place.h"
#include "icd/icd_int.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

/** Serializes the opening of places; taken before tp_icd.lock. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* ---- requests, events, queues ----------------------------------------------------------- */

telpher_status
tp_icd_request_add(struct tp_icd_place *place, struct tp_icd_request *req)
{
    telpher_status status;

    if (place->lost) {
        return TELPHER_ERR_PEER_LOST;
    }
    status = tp_map_put(&place->requests, req->id, req);
    if (status == TELPHER_OK) {
        tp_icd_expect(place);
    }
    return status;
}

telpher_status
tp_icd_place_add_event(struct tp_icd_place *place, struct _cl_event *ev)
{
    return tp_map_put(&place->events, ev->obj.id, ev);
}

void
tp_icd_place_remove_event(struct tp_icd_place *place, struct _cl_event *ev)
{
    tp_map_remove(&place->events, ev->obj.id);
}

void
tp_icd_place_add_queue(struct tp_icd_place *place, struct _cl_command_queue *q)
{
    /* Without room the queue only misses errors of commands that have no event. */
    (void)tp_map_put(&place->queues, q->obj.id, q);
}

void
tp_icd_place_remove_queue(struct tp_icd_place *place, struct _cl_command_queue *q)
{
    tp_map_remove(&place->queues, q->obj.id);
}

void
tp_icd_place_use(struct tp_icd_place *place, bool begins)
{
    tp_icd_lock();
    place->users += begins;
    place->was_used = place->was_used || begins;
    place->users -= !begins && place->users != 0;
    tp_icd_unlock();
}

bool
tp_icd_place_lost(const struct tp_icd_place *place)
{
    return place->lost;
}

/* ---- opening -------------------------------------------------------------------------------- */

static struct tp_icd_place *
place_alloc(struct _cl_device_id *dev)
{
    struct tp_icd_place *place = tp_zalloc(sizeof(*place), "place");

    if (place == NULL) {
        return NULL;
    }
    place->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (place->kick < 0) {
        tp_free(place);
        return NULL;
    }
    tp_icd_flush_soon(place);
    place->server = dev->server;
    place->platform = dev->platform;
    pthread_cond_init(&place->turn, NULL);
    pthread_cond_init(&place->wanted, NULL);
    pthread_cond_init(&place->bulk.more, NULL);
    tp_list_init(&place->bulk.turn);
    return place;
}

static telpher_status
refuse_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    (void)arg, (void)type, (void)body, (void)end;
    return TELPHER_ERR_PROTO;
}

/** Takes the session of discovery if it is still alive; else opens another. */
static telpher_status
open_stream(struct tp_icd_place *place, uint64_t *ret_features, struct tp_error *err)
{
    static const struct tp_stream_handler refuse = {.frame = refuse_frame};
    struct tp_icd_server *server = place->server;
    struct tp_client_params params = {.address = server->address,
                                      .cookie_path = tp_icd_settings.cookie,
                                      .security = &tp_icd_settings.security};
    struct tp_wire_preface_reply reply;
    telpher_status status;

    place->window = TP_WIRE_WINDOW;
    if (server->idle != NULL) {
        struct tp_stream *idle = server->idle;

        server->idle = NULL;
        if (tp_stream_receive(idle, &refuse, NULL) == TELPHER_ERR_AGAIN) {
            place->stream = idle;
            memcpy(place->session, server->idle_session, sizeof(place->session));
            *ret_features = server->idle_features;
            return TELPHER_OK;
        }
        tp_stream_destroy(idle);
    }
    status = tp_client_connect(&params, &place->stream, &reply, err);
    if (status == TELPHER_OK) {
        status = tp_icd_recognize(server, place->stream, err);
        if (status != TELPHER_OK) {
            tp_stream_destroy(place->stream);
            return status;
        }
        memcpy(place->session, reply.session, sizeof(place->session));
        place->window = reply.window;
        *ret_features = reply.features;
    }
    return status;
}

static telpher_status
open_place(struct _cl_device_id *dev, struct tp_icd_place **ret_place)
{
    struct tp_wire_start start = {.platform = dev->platform};
    struct tp_icd_place *place = place_alloc(dev);
    struct tp_error err = {0};
    uint64_t features;
    telpher_status status;

    if (place == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = open_stream(place, &features, &err);
    if (status != TELPHER_OK) {
        err.code = status;
        tp_error("icd", "server %s gives no session: %s", dev->server->address,
                 tp_error_text(&err));
        close(place->kick);
        tp_free(place);
        return status;
    }
    tp_icd_lock();
    tp_icd_share_init(place, tp_icd_settings.shared_memory &&
                                 (features & TP_WIRE_FEATURE_SHARED) != 0 &&
                                 tp_stream_passes_fds(place->stream));
    tp_icd_put(place, TP_WIRE_START, &start);
    place->older = dev->server->places[dev->platform];
    dev->server->places[dev->platform] = place;
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        struct _cl_device_id *other = tp_icd.platform->devices[i];

        if (other->server == dev->server && other->platform == dev->platform) {
            other->available = CL_TRUE;
        }
    }
    tp_icd_unlock();
    tp_icd_flush(place);
    *ret_place = place;
    return TELPHER_OK;
}

telpher_status
tp_icd_place_of(struct _cl_device_id *dev, struct tp_icd_place **ret_place)
{
    struct tp_icd_place *place;
    telpher_status status = TELPHER_OK;

    if (dev->parent != NULL) { /* it exists in that session only */
        *ret_place = tp_icd_sub_device_place(dev);
        return tp_icd_place_lost(*ret_place) ? TELPHER_ERR_PEER_LOST : TELPHER_OK;
    }
    pthread_mutex_lock(&opening);
    tp_icd_lock();
    place = dev->server->places[dev->platform];
    tp_icd_unlock();
    /* A lost place stays with the objects that were made there; new contexts get a new
     * one if the server answers again. */
    if (place != NULL && !place->lost) {
        *ret_place = place;
    } else {
        status = open_place(dev, ret_place);
    }
    pthread_mutex_unlock(&opening);
    return status;
}
