/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the thread that reads the stream of a session.
 *
 * One thread at a time reads. A waiting caller reads itself, so that a reply needs no
 * second thread. When several callers wait, one reads and wakes the others. A background
 * thread reads only when a message is expected for which no caller waits: a callback,
 * content, many replies. A caller that then needs a reply stops it and reads instead.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/thread.h"

enum {
    SUBSCRIBED_MAX = 64, /* outstanding DONEs from which the background thread reads */
};

static const struct tp_stream_handler handler = {.frame = tp_icd_session_on_frame};

static void
drain_kick(struct tp_icd_session *session)
{
    uint64_t count;

    while (read(session->kick, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

/** Sleeps until the stream is readable or a kick arrives, or for a while. */
static void
sleep_on(struct tp_icd_session *session)
{
    struct pollfd fds[2] = {{.fd = tp_stream_fd(session->stream), .events = POLLIN},
                            {.fd = session->kick, .events = POLLIN}};
    int found = poll(fds, 2, (int)(TP_ICD_QUIET_LOOK / TP_CLOCK_MS));

    if (found == 0) { /* counted, not timed: this process may have been stopped, too */
        tp_icd_session_note_quiet(session);
    } else if (found > 0 && (fds[1].revents & POLLIN) != 0) {
        drain_kick(session);
    }
}

/**
 * Polls the stream for a short time without sleeping; ends early if another thread wakes the
 * reader.
 * @return AGAIN if nothing arrived, else as tp_stream_receive
 */
static telpher_status
receive_spinning(struct tp_icd_session *session, unsigned kicks)
{
    tp_ns until = tp_clock_deadline(tp_icd_settings.spin_ns);
    telpher_status status;

    do {
        status = tp_stream_receive(session->stream, &handler, session);
    } while (status == TELPHER_ERR_AGAIN && atomic_load(&session->kicks) == kicks &&
             !tp_clock_passed(until));
    return status;
}

/**
 * Does one round as the reader: sleeps until the stream is readable, then receives. Lock
 * held on entry and on return, not in between. No other thread may read.
 */
static void
read_round(struct tp_icd_session *session, bool may_sleep)
{
    bool may_spin =
        may_sleep && tp_icd_settings.spin_ns > 0 && !session->background_runs;
    unsigned kicks = atomic_load(&session->kicks);
    telpher_status status;

    session->reading = true;
    session->reader = pthread_self();
    tp_icd_unlock();
    status = may_spin ? receive_spinning(session, kicks) : TELPHER_ERR_AGAIN;
    if (status == TELPHER_ERR_AGAIN) {
        if (may_sleep) {
            sleep_on(session);
        }
        status = tp_stream_receive(session->stream, &handler, session);
    }
    if (status == TELPHER_OK) {
        tp_icd_session_note_bytes(session);
    } else if (status != TELPHER_ERR_AGAIN) {
        tp_icd_session_lose(session, status, NULL);
    }
    tp_icd_lock();
    if (tp_icd_is_dirty()) {
        tp_icd_unlock();
        tp_icd_flush_dirty();
        tp_icd_lock();
    }
    session->reading = false;
    tp_icd_session_close_if_left(session);
    if (session->waiting != 0) {
        pthread_cond_broadcast(&session->turn);
    }
}

static bool
background_needed(const struct tp_icd_session *session)
{
    return (session->expected != 0 || session->listens ||
            session->subscribed > SUBSCRIBED_MAX) &&
           !session->reading && session->claims == 0;
}

static void *
background_main(void *arg)
{
    struct tp_icd_session *session = arg;

    tp_icd_lock();
    while (!session->lost) {
        if (!background_needed(session)) {
            pthread_cond_wait(&session->wanted, &tp_icd.lock);
            continue;
        }
        session->background_runs = true;
        read_round(session, true);
        session->background_runs = false;
    }
    tp_icd_unlock();
    return NULL;
}

/** Wakes the background thread to read if a message is expected. Lock held. */
static void
call_background(struct tp_icd_session *session)
{
    if (session->lost || session->background_runs || !background_needed(session)) {
        return;
    }
    if (!session->has_background) {
        session->has_background =
            tp_icd_thread_start("telpher-read", background_main, session) == TELPHER_OK;
    }
    pthread_cond_signal(&session->wanted);
}

telpher_status
tp_icd_thread_start(const char *name, void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    telpher_status status = tp_thread_create(&thread, name, run, arg);

    if (status == TELPHER_OK) {
        pthread_detach(thread); /* it exits when the session is lost; never joined */
    }
    return status;
}

void
tp_icd_expect(struct tp_icd_session *session)
{
    session->expected++;
    call_background(session);
}

void
tp_icd_session_listen(struct tp_icd_session *session, bool listens)
{
    session->listens = listens;
    call_background(session);
}

bool
tp_icd_session_only_listens(struct tp_icd_session *session)
{
    bool only;

    tp_icd_lock();
    only = session->background_runs && session->expected == 0;
    tp_icd_unlock();
    return only;
}

void
tp_icd_unexpect(struct tp_icd_session *session)
{
    session->expected -= session->expected != 0;
}

void
tp_icd_session_count_subscribed(struct tp_icd_session *session, int by)
{
    session->subscribed += (unsigned)by;
    if (by > 0 && session->subscribed == SUBSCRIBED_MAX + 1) {
        call_background(session);
    }
}

void
tp_icd_session_kick(struct tp_icd_session *session)
{
    uint64_t one = 1;
    ssize_t done;

    atomic_fetch_add(&session->kicks, 1);
    if (session->closed) {
        return; /* no thread reads */
    }
    done = write(session->kick, &one, sizeof(one));
    (void)done; /* EAGAIN at a full counter: a wake-up is pending */
}

void
tp_icd_session_wake(struct tp_icd_session *session)
{
    session = tp_icd_session_current(session);
    if (session->waiting != 0) {
        pthread_cond_broadcast(&session->turn);
    }
    if (session->reading && !pthread_equal(session->reader, pthread_self())) {
        tp_icd_session_kick(session);
    }
}

/** Waits for the reading thread to signal; stops it if it is the background thread. */
static void
wait_turn(struct tp_icd_session *session)
{
    bool claim = session->background_runs;

    if (claim) {
        session->claims++;
        tp_icd_session_kick(session);
    }
    session->waiting++;
    pthread_cond_wait(&session->turn, &tp_icd.lock);
    session->waiting--;
    session->claims -= claim;
}

telpher_status
tp_icd_wait(struct tp_icd_session *session, const bool *flag)
{
    struct tp_icd_session *successor;
    telpher_status status;

    tp_icd_flush(session);
    tp_icd_flush_soon(session);
    tp_icd_lock();
    while (!*flag && !session->lost) {
        if (session->reading) {
            wait_turn(session);
        } else {
            read_round(session, true);
        }
    }
    if (session->waiting != 0) {
        pthread_cond_broadcast(&session->turn);
    } else {
        call_background(session);
    }
    status = *flag ? TELPHER_OK : TELPHER_ERR_PEER_LOST;
    successor = *flag ? NULL : session->successor;
    tp_icd_unlock();
    return successor != NULL ? tp_icd_wait(successor, flag) : status;
}

void
tp_icd_poll(struct tp_icd_session *session)
{
    tp_icd_lock();
    if (!session->reading && !session->lost) {
        read_round(session, false);
        call_background(session);
    }
    tp_icd_unlock();
}
