/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who reads the stream of a place.
 *
 * One thread at a time reads. A caller that waits reads by itself, so that an answer
 * needs no second thread; when several wait, one reads and wakes the others. Only when
 * something is expected that no caller waits for (a callback, content, many answers) does a
 * background thread read; a caller that then needs an answer calls it back and takes over.
 */
#include "icd/icd_int.h"
#include "icd/place.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

enum {
    TOLD_MAX = 64, /* DONEs on their way before the background thread reads */
};

static const struct tp_stream_handler handler = {.frame = tp_icd_place_on_frame};

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
    tp_icd_lock();
    if (tp_icd_is_dirty()) {
        tp_icd_unlock();
        tp_icd_flush_dirty();
        tp_icd_lock();
    }
    place->reading = false;
    tp_icd_place_close_if_left(place);
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

void
tp_icd_place_kick(struct tp_icd_place *place)
{
    uint64_t one = 1;
    ssize_t done;

    atomic_fetch_add(&place->kicks, 1);
    if (place->closed) {
        return; /* nobody reads */
    }
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
        tp_icd_place_kick(place);
    }
}

/** Waits for the thread that reads to answer, or to step back if it is the background. */
static void
wait_turn(struct tp_icd_place *place)
{
    bool claim = place->background_runs;

    if (claim) {
        place->claims++;
        tp_icd_place_kick(place);
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
    tp_icd_flush_soon(place);
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
