/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place: the session with one executor, and who reads its stream.
 *
 * One thread at a time reads. A caller that waits reads by itself, so that an answer
 * needs no second thread; when several wait, one reads and wakes the others. Only when
 * something is expected that no caller waits for (a callback, content, many answers) does a
 * background thread read; a caller that then needs an answer calls it back and takes over.
 */
#include "icd/place.h"
#include "icd/icd_int.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

enum {
    FLUSH_FIRST = 512, /* [bytes] gathered frames that go without being asked for, */
    FLUSH_MOST =
        16384, /* twice as many each time: the server starts soon, a batch is cheap */
    TOLD_MAX = 64, /* DONEs on their way before the background thread reads */
    DIRTY_MAX = 64, /* places that another thread's flush may owe */
    LAST_WORDS_MS = 500, /* how long a lost place waits for the broker's reason */
};

/** Serializes the opening of places; taken before tp_icd.lock. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/** Places with frames put by a thread that could not flush. Under tp_icd.lock. */
static struct tp_icd_place *dirty[DIRTY_MAX];
static unsigned dirty_count;

/** Threads that are about to say why a place was lost. */
static _Atomic unsigned explaining;

/* ---- sending -------------------------------------------------------------------- */

static void
put_releases(struct tp_icd_place *place)
{
    struct tp_wire_release msg = {
        .ids = {.count = (uint16_t)place->release_count, .data = place->release}};

    if (place->release_count != 0) {
        place->release_count = 0;
        /* Without memory the ids only stay until the session ends. */
        (void)tp_stream_put(place->stream, TP_WIRE_RELEASE, &msg);
    }
}

void
tp_icd_put(struct tp_icd_place *place, uint16_t type, const void *msg)
{
    telpher_status status;

    if (place->lost) {
        return;
    }
    status = tp_stream_put(place->stream, type, msg);
    if (status == TELPHER_ERR_NO_MEMORY || status == TELPHER_ERR_LIMIT) {
        /* The server would miss a frame that others refer to: that is the end of the
         * session. Whoever reads or flushes finds it, as any other broken stream. */
        tp_stream_break(place->stream, status);
    }
}

void
tp_icd_put_release(struct tp_icd_place *place, uint64_t id)
{
    if (place->lost) {
        return;
    }
    place->release[place->release_count++] = id;
    if (place->release_count == sizeof(place->release) / sizeof(place->release[0])) {
        put_releases(place);
    }
}

void
tp_icd_flush(struct tp_icd_place *place)
{
    telpher_status status;

    tp_icd_lock();
    if (place->lost) {
        tp_icd_unlock();
        return;
    }
    put_releases(place);
    tp_icd_unlock();
    status = tp_stream_flush(place->stream);
    if (status == TELPHER_ERR_AGAIN) {
        status = tp_stream_flush_wait(place->stream, TP_CLOCK_FOREVER);
    }
    if (status != TELPHER_OK) {
        tp_icd_place_lose(place, status, NULL);
    }
}

void
tp_icd_flush_if_full(struct tp_icd_place *place)
{
    size_t at = atomic_load_explicit(&place->flush_at, memory_order_relaxed);

    if (tp_stream_pending(place->stream) >= at) {
        atomic_store_explicit(&place->flush_at, at < FLUSH_MOST ? 2 * at : at,
                              memory_order_relaxed);
        tp_icd_flush(place);
    }
}

void
tp_icd_place_set_dirty(struct tp_icd_place *place)
{
    if (!place->dirty && dirty_count < DIRTY_MAX) {
        place->dirty = true;
        dirty[dirty_count++] = place;
    }
}

void
tp_icd_flush_dirty(void)
{
    tp_icd_bulk_end();
    for (;;) {
        struct tp_icd_place *place = NULL;

        tp_icd_lock();
        if (dirty_count != 0) {
            place = dirty[--dirty_count];
            place->dirty = false;
        }
        tp_icd_unlock();
        if (place == NULL) {
            return;
        }
        tp_icd_flush(place);
    }
}

/* ---- what arrives ------------------------------------------------------------------ */

static telpher_status
on_done(struct tp_icd_place *place, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_done msg;
    struct _cl_event *ev;

    if (!tp_wire_get_done(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    ev = tp_map_get(&place->events, msg.event);
    if (ev != NULL) {
        tp_icd_event_on_done(ev, &msg);
    }
    tp_icd_unlock();
    return TELPHER_OK;
}

static telpher_status
on_failed(struct tp_icd_place *place, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_failed msg;
    struct _cl_command_queue *q;

    if (!tp_wire_get_failed(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    /* The program hears of it: from what uses the object, from finish, by its callback. */
    tp_info("icd", "%s: error %d: %.*s", place->server->address, msg.status,
            (int)msg.text.len, (const char *)msg.text.data);
    msg.status = msg.status < 0 ? msg.status : CL_OUT_OF_RESOURCES;
    tp_icd_lock();
    q = tp_map_get(&place->queues, msg.id);
    if (q != NULL) {
        char text[256];

        snprintf(text, sizeof(text), "%.*s", (int)msg.text.len,
                 (const char *)msg.text.data);
        q->async_error = q->async_error == CL_SUCCESS ? msg.status : q->async_error;
        tp_icd_context_notify(q->ctx, text);
    }
    tp_icd_unlock();
    return TELPHER_OK;
}

static telpher_status
on_reply(struct tp_icd_place *place, uint16_t type, const uint8_t *body,
         const uint8_t *end)
{
    struct tp_icd_request *req;
    uint64_t id;

    if (end - body < (ptrdiff_t)sizeof(id)) {
        return TELPHER_ERR_PROTO;
    }
    memcpy(&id, body, sizeof(id)); /* every reply begins with its request */
    tp_icd_lock();
    req = tp_map_remove(&place->requests, id);
    tp_icd_unlock();
    if (req == NULL) {
        return TELPHER_ERR_PROTO;
    }
    req->reply(req, type, body, end);
    tp_icd_lock();
    tp_icd_unexpect(place);
    tp_icd_unlock();
    return TELPHER_OK;
}

static telpher_status
on_printf(const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_printf msg;

    if (!tp_wire_get_printf(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    (void)fwrite(msg.text.data, 1, msg.text.len, stdout);
    (void)fflush(stdout);
    return TELPHER_OK;
}

static telpher_status
on_started(struct tp_icd_place *place, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_started msg;

    if (!tp_wire_get_started(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    if (msg.status == TELPHER_OK) {
        return TELPHER_OK;
    }
    tp_error("icd", "%s: no executor: %.*s", place->server->address, (int)msg.text.len,
             (const char *)msg.text.data);
    return TELPHER_ERR_REFUSED; /* whatever number the server gave */
}

static telpher_status
on_goodbye(struct tp_icd_place *place, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_goodbye msg;
    char text[256];

    if (!tp_wire_get_goodbye(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    snprintf(text, sizeof(text), "%.*s", (int)msg.text.len,
             (const char *)msg.text.data);
    tp_icd_place_lose(place, TELPHER_ERR_PEER_LOST, text);
    return TELPHER_ERR_PEER_LOST;
}

static telpher_status
on_credit(struct tp_icd_place *place, const uint8_t *body, const uint8_t *end)
{
    struct tp_wire_credit msg;

    if (!tp_wire_get_credit(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    tp_icd_lock();
    tp_icd_bulk_credit(place, &msg);
    tp_icd_unlock();
    return TELPHER_OK;
}

static telpher_status
on_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct tp_icd_place *place = arg;

    switch (type) {
    case TP_WIRE_DONE:
        return on_done(place, body, end);
    case TP_WIRE_PRINTF:
        return on_printf(body, end);
    case TP_WIRE_CREDIT:
        return on_credit(place, body, end);
    case TP_WIRE_FAILED:
        return on_failed(place, body, end);
    case TP_WIRE_BUILD_REPLY:
    case TP_WIRE_BINARY_REPLY:
    case TP_WIRE_BINARIES_REPLY:
        return on_reply(place, type, body, end);
    case TP_WIRE_STARTED:
        return on_started(place, body, end);
    case TP_WIRE_GOODBYE:
        return on_goodbye(place, body, end);
    case TP_WIRE_ACK:
        return TELPHER_OK;
    default:
        return TELPHER_ERR_PROTO;
    }
}

static const struct tp_stream_handler handler = {.frame = on_frame};

/* ---- reading ------------------------------------------------------------------------ */

static void
drain_kick(struct tp_icd_place *place)
{
    uint64_t count;

    while (read(place->kick, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

/** Sleeps until the stream or a kick has something. */
static void
sleep_on(struct tp_icd_place *place)
{
    struct pollfd fds[2] = {{.fd = tp_stream_fd(place->stream), .events = POLLIN},
                            {.fd = place->kick, .events = POLLIN}};

    if (poll(fds, 2, -1) > 0 && (fds[1].revents & POLLIN) != 0) {
        drain_kick(place);
    }
}

/**
 * Looks at the stream for a moment without sleeping, until kicked once more.
 * @return AGAIN if nothing came, else as tp_stream_receive
 */
static telpher_status
receive_spinning(struct tp_icd_place *place, unsigned kicks)
{
    tp_ns until = tp_clock_deadline(tp_icd_settings.spin_ns);
    telpher_status status;

    do {
        status = tp_stream_receive(place->stream, &handler, place);
    } while (status == TELPHER_ERR_AGAIN && atomic_load(&place->kicks) == kicks &&
             !tp_clock_passed(until));
    return status;
}

/**
 * One round as the reader: sleeps until something is there, takes it. Lock held on entry
 * and on return, not in between; nobody else reads.
 */
static void
read_round(struct tp_icd_place *place, bool may_sleep)
{
    bool may_spin = may_sleep && tp_icd_settings.spin_ns > 0 && !place->background_runs;
    unsigned kicks = atomic_load(&place->kicks);
    telpher_status status;

    place->reading = true;
    place->reader = pthread_self();
    tp_icd_unlock();
    status = may_spin ? receive_spinning(place, kicks) : TELPHER_ERR_AGAIN;
    if (status == TELPHER_ERR_AGAIN) {
        if (may_sleep) {
            sleep_on(place);
        }
        status = tp_stream_receive(place->stream, &handler, place);
    }
    if (status != TELPHER_OK && status != TELPHER_ERR_AGAIN) {
        tp_icd_place_lose(place, status, NULL);
    }
    tp_icd_flush_dirty();
    tp_icd_lock();
    place->reading = false;
    if (place->waiting != 0) {
        pthread_cond_broadcast(&place->turn);
    }
}

static bool
background_needed(const struct tp_icd_place *place)
{
    return (place->expected != 0 || place->told > TOLD_MAX) && !place->reading &&
           place->claims == 0;
}

static void *
background_main(void *arg)
{
    struct tp_icd_place *place = arg;

    tp_icd_lock();
    while (!place->lost) {
        if (!background_needed(place)) {
            pthread_cond_wait(&place->wanted, &tp_icd.lock);
            continue;
        }
        place->background_runs = true;
        read_round(place, true);
        place->background_runs = false;
    }
    tp_icd_unlock();
    return NULL;
}

/** Lets the background thread read if something is expected. Lock held. */
static void
call_background(struct tp_icd_place *place)
{
    if (place->lost || place->background_runs || !background_needed(place)) {
        return;
    }
    if (!place->has_background) {
        place->has_background =
            tp_icd_thread_start("telpher-read", background_main, place) == TELPHER_OK;
    }
    pthread_cond_signal(&place->wanted);
}

telpher_status
tp_icd_thread_start(const char *name, void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    telpher_status status = tp_thread_create(&thread, name, run, arg);

    if (status == TELPHER_OK) {
        pthread_detach(thread); /* it leaves when the place is lost; nobody waits */
    }
    return status;
}

void
tp_icd_expect(struct tp_icd_place *place)
{
    place->expected++;
    call_background(place);
}

void
tp_icd_unexpect(struct tp_icd_place *place)
{
    place->expected -= place->expected != 0;
}

void
tp_icd_place_count_told(struct tp_icd_place *place, int by)
{
    place->told += (unsigned)by;
    if (by > 0 && place->told == TOLD_MAX + 1) {
        call_background(place);
    }
}

static void
kick(struct tp_icd_place *place)
{
    uint64_t one = 1;
    ssize_t done;

    atomic_fetch_add(&place->kicks, 1);
    done = write(place->kick, &one, sizeof(one));
    (void)done; /* a full counter kicks as well */
}

void
tp_icd_place_wake(struct tp_icd_place *place)
{
    if (place->waiting != 0) {
        pthread_cond_broadcast(&place->turn);
    }
    if (place->reading && !pthread_equal(place->reader, pthread_self())) {
        kick(place);
    }
}

/** Waits for the thread that reads to answer, or to step back if it is the background. */
static void
wait_turn(struct tp_icd_place *place)
{
    bool claim = place->background_runs;

    if (claim) {
        place->claims++;
        kick(place);
    }
    place->waiting++;
    pthread_cond_wait(&place->turn, &tp_icd.lock);
    place->waiting--;
    place->claims -= claim;
}

telpher_status
tp_icd_wait(struct tp_icd_place *place, const bool *flag)
{
    telpher_status status;

    tp_icd_flush(place);
    atomic_store_explicit(&place->flush_at, FLUSH_FIRST, memory_order_relaxed);
    tp_icd_lock();
    while (!*flag && !place->lost) {
        if (place->reading) {
            wait_turn(place);
        } else {
            read_round(place, true);
        }
    }
    if (place->waiting != 0) {
        pthread_cond_broadcast(&place->turn);
    } else {
        call_background(place);
    }
    status = *flag ? TELPHER_OK : TELPHER_ERR_PEER_LOST;
    tp_icd_unlock();
    return status;
}

void
tp_icd_poll(struct tp_icd_place *place)
{
    tp_icd_lock();
    if (!place->reading && !place->lost) {
        read_round(place, false);
        call_background(place);
    }
    tp_icd_unlock();
}

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

/* ---- losing it ------------------------------------------------------------------------------ */

/** What a LAST_WORDS exchange fills in. */
struct last_words {
    bool came;
    char text[200];
};

static telpher_status
on_last_words(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct last_words *words = arg;
    struct tp_wire_last_words_reply msg;

    if (type != TP_WIRE_LAST_WORDS_REPLY ||
        !tp_wire_get_last_words_reply(body, end, &msg)) {
        return TELPHER_ERR_PROTO;
    }
    snprintf(words->text, sizeof(words->text), "%.*s", (int)msg.text.len,
             (const char *)msg.text.data);
    words->came = true;
    return TELPHER_OK;
}

/** Asks the broker, on a connection of its own, how the session ended. Bounded in time. */
static void
ask_last_words(const struct tp_icd_place *place, struct last_words *words)
{
    static const struct tp_stream_handler ask = {.frame = on_last_words};
    uint64_t deadline = tp_clock_deadline(LAST_WORDS_MS * TP_CLOCK_MS);
    struct tp_client_params params = {.address = place->server->address,
                                      .cookie_path = tp_icd_settings.cookie,
                                      .deadline_ns = deadline};
    struct tp_wire_last_words msg = {
        .request = 1,
        .session = {.len = TP_WIRE_SESSION_BYTES, .data = place->session}};
    struct tp_stream *stream;

    if (tp_client_connect(&params, &stream, NULL, NULL) != TELPHER_OK) {
        snprintf(words->text, sizeof(words->text), "the server does not answer");
        return;
    }
    if (tp_stream_put(stream, TP_WIRE_LAST_WORDS, &msg) == TELPHER_OK &&
        tp_stream_flush_wait(stream, deadline) == TELPHER_OK) {
        while (!words->came && tp_stream_wait(stream, deadline) == TELPHER_OK) {
            telpher_status status = tp_stream_receive(stream, &ask, words);

            if (status != TELPHER_OK && status != TELPHER_ERR_AGAIN) {
                break;
            }
        }
    }
    tp_stream_destroy(stream);
}

/** @param used some context has it: else the program has nothing to lose. */
static void
say_lost(const struct tp_icd_place *place, bool used, telpher_status why,
         const char *text)
{
    struct last_words words = {0};

    if (!used) {
        tp_info("icd", "%s: session ended while unused: %s", place->server->address,
                telpher_status_text(why));
        return;
    }
    if (text == NULL && why == TELPHER_ERR_PEER_LOST) {
        ask_last_words(place, &words);
        text = words.text;
    }
    tp_error("icd",
             "%s: session lost: %s%s%s; its devices are unavailable and what depends "
             "on them fails",
             place->server->address, telpher_status_text(why),
             text != NULL && text[0] != '\0' ? ": " : "", text != NULL ? text : "");
}

/** Ends every event that waits for this place. Lock held. */
static void
end_events(struct tp_icd_place *place)
{
    for (;;) {
        struct _cl_event *ev;
        uint64_t id;
        size_t cursor = 0;

        if (!tp_map_next(&place->events, &cursor, &id, (void **)&ev)) {
            return;
        }
        tp_map_remove(&place->events, id);
        tp_icd_event_lose(ev);
    }
}

/** Answers every request with "nothing". No lock held. */
static void
end_requests(struct tp_icd_place *place)
{
    for (;;) {
        struct tp_icd_request *req = NULL;
        uint64_t id;
        size_t cursor = 0;

        tp_icd_lock();
        if (tp_map_next(&place->requests, &cursor, &id, (void **)&req)) {
            tp_map_remove(&place->requests, id);
        }
        tp_icd_unlock();
        if (req == NULL) {
            return;
        }
        req->status = TELPHER_ERR_PEER_LOST;
        req->reply(req, 0, NULL, NULL);
    }
}

static void
mark_devices(struct tp_icd_place *place)
{
    for (size_t i = 0; i < tp_icd.platform->device_count; i++) {
        struct _cl_device_id *dev = tp_icd.platform->devices[i];

        if (dev->server == place->server && dev->platform == place->platform) {
            dev->available = CL_FALSE;
        }
    }
}

void
tp_icd_place_lose(struct tp_icd_place *place, telpher_status why, const char *text)
{
    bool first, used;

    tp_icd_lock();
    used = place->users != 0 || !place->was_used; /* or a context is being made */
    first = !place->lost;
    explaining += first;
    place->lost = true;
    if (first) { /* together: who sees a lost place finds its events ended */
        mark_devices(place);
        tp_icd_bulk_lose(place);
        end_events(place);
        pthread_cond_broadcast(&place->turn);
        pthread_cond_broadcast(&place->wanted);
        kick(place);
    }
    tp_icd_unlock();
    if (!first) {
        return;
    }
    tp_stream_break(place->stream, why);
    end_requests(place);
    tp_icd_flush_dirty(); /* other places wait for what ended here */
    say_lost(place, used, why, text);
    explaining--;
}

/**
 * A program that ends at the first error shall not end before we have said what happened.
 * Takes no lock: a child of fork() comes here, too.
 */
__attribute__((destructor)) static void
wait_for_words(void)
{
    uint64_t deadline = tp_clock_deadline((LAST_WORDS_MS + 100) * TP_CLOCK_MS);

    while (explaining != 0 && !tp_clock_passed(deadline)) {
        tp_clock_sleep(5 * TP_CLOCK_MS);
    }
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
    atomic_init(&place->flush_at, FLUSH_FIRST);
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
open_stream(struct tp_icd_place *place, struct tp_error *err)
{
    static const struct tp_stream_handler refuse = {.frame = refuse_frame};
    struct tp_icd_server *server = place->server;
    struct tp_client_params params = {.address = server->address,
                                      .cookie_path = tp_icd_settings.cookie};
    struct tp_wire_preface_reply reply;
    telpher_status status;

    place->window = TP_WIRE_WINDOW;
    if (server->idle != NULL) {
        struct tp_stream *idle = server->idle;

        server->idle = NULL;
        if (tp_stream_receive(idle, &refuse, NULL) == TELPHER_ERR_AGAIN) {
            place->stream = idle;
            memcpy(place->session, server->idle_session, sizeof(place->session));
            return TELPHER_OK;
        }
        tp_stream_destroy(idle);
    }
    status = tp_client_connect(&params, &place->stream, &reply, err);
    if (status == TELPHER_OK) {
        memcpy(place->session, reply.session, sizeof(place->session));
        place->window = reply.window;
    }
    return status;
}

static telpher_status
open_place(struct _cl_device_id *dev, struct tp_icd_place **ret_place,
           struct tp_error *err)
{
    struct tp_wire_start start = {.platform = dev->platform};
    struct tp_icd_place *place = place_alloc(dev);
    telpher_status status;

    if (place == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = open_stream(place, err);
    if (status != TELPHER_OK) {
        close(place->kick);
        tp_free(place);
        return status;
    }
    tp_icd_lock();
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
tp_icd_place_of(struct _cl_device_id *dev, struct tp_icd_place **ret_place,
                struct tp_error *err)
{
    struct tp_icd_place *place;
    telpher_status status = TELPHER_OK;

    pthread_mutex_lock(&opening);
    tp_icd_lock();
    place = dev->server->places[dev->platform];
    tp_icd_unlock();
    /* A lost place stays with the objects that were made there; new contexts get a new
     * one if the server answers again. */
    if (place != NULL && !place->lost) {
        *ret_place = place;
    } else {
        status = open_place(dev, ret_place, err);
    }
    pthread_mutex_unlock(&opening);
    return status;
}
