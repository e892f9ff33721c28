/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap server's thread: accepts clients, collects the data of all ranks,
 * and answers them. */
#include "core/comm/bootstrap/server_int.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/random.h"
#include "base/trace/log.h"

enum {
    NAMES = 8, /* missing ranks that an error lists */
    /* then the launcher's eventfd, the listening descriptor, and the clients */
    POLL_STOP = 0,
    POLL_ENDED,
    POLL_LISTEN,
    POLL_CLIENTS = TP_BOOTSTRAP_POLLS,
};
#define HELLO_TIME (5 * TP_CLOCK_S)
#define SEND_TIME (10 * TP_CLOCK_S)
#define LOOK_EVERY TP_CLOCK_S
#define PAUSE (100 * TP_CLOCK_MS) /* before accepting again after descriptors ran out */
#define GRACE TP_CLOCK_S /* for later gathers of the ranks that connected in time */

/* ---- answers ---- */

/* Fails the job: from now on a rank that sends data is answered with the error. */
static void
set_failed(struct telpher_root *root, telpher_status status, const char *words)
{
    if (root->failed == TELPHER_OK) {
        root->failed = status;
        (void)snprintf(root->words, sizeof(root->words), "%s", words);
    }
}

/* Continues sending an answer, and after it the error. @return false: connection
 * closed */
static bool
push(struct telpher_root *root, struct tp_bootstrap_client *g)
{
    bool there = tp_bootstrap_client_push(g);

    if (there && g->tell && !tp_bootstrap_client_is_sending(g)) {
        g->tell = false;
        tp_bootstrap_client_answer(g, root->failed, root->words, strlen(root->words));
        there = tp_bootstrap_client_push(g);
    }
    return there;
}

/* Sends the error to all clients, once each. A client that has disconnected is found
 * by its next read. */
static void
fail(struct telpher_root *root, telpher_status status, const char *words)
{
    set_failed(root, status, words);
    for (size_t i = 0; i < root->client_count; i++) {
        struct tp_bootstrap_client *g = &root->clients[i];

        if (g->conn != NULL && g->known && !g->error_queued) {
            g->error_queued = g->tell = true;
            (void)push(root, g);
        }
    }
    root->ready = 0;
}

static struct tp_bootstrap_client *
client_of(struct telpher_root *root, uint32_t rank)
{
    for (size_t i = 0; i < root->client_count; i++) {
        if (root->clients[i].known && root->clients[i].rank == rank) {
            return &root->clients[i];
        }
    }
    return NULL;
}

/* Copies the data of all ranks in the order of ranks. @return false if the lengths
 * differ, or if a rank sent data before it received the last answer */
static bool
lay_out(struct telpher_root *root, uint8_t *all, size_t part)
{
    for (uint32_t r = 0; r < root->size; r++) {
        struct tp_bootstrap_client *g = client_of(root, r);

        if (tp_bootstrap_client_part(g) != sizeof(uint32_t) + part ||
            tp_bootstrap_client_is_sending(g)) {
            return false;
        }
        memcpy(all + r * part, tp_buf_data(&g->in) + sizeof(uint32_t), part);
    }
    return true;
}

/* The data of all ranks has arrived: sends it to every rank. */
static void
give_all(struct telpher_root *root)
{
    size_t part = tp_bootstrap_client_part(client_of(root, 0)) - sizeof(uint32_t);
    uint8_t *all =
        tp_alloc_array(root->size, part != 0 ? part : 1, "parts of all ranks");

    if (all == NULL || !lay_out(root, all, part)) {
        fail(
            root, all == NULL ? TELPHER_ERR_NO_MEMORY : TELPHER_ERR_PROTO,
            all == NULL
                ? "the bootstrap server is out of memory for the addresses of all ranks"
                : "the ranks sent data of different sizes: they run different versions "
                  "of the program or of Telpher");
        tp_free(all);
        return;
    }
    tp_free(root->all);
    root->all = all;
    root->ready = 0;
    root->closed = true;
    for (size_t i = 0; i < root->client_count; i++) {
        struct tp_bootstrap_client *g = &root->clients[i];

        if (g->known) {
            tp_buf_consume(&g->in, sizeof(uint32_t) + part);
            tp_bootstrap_client_answer(g, TELPHER_OK, all, root->size * part);
            (void)push(root, g);
        }
    }
}

/* ---- clients ---- */

/* Handles a hello. @return false: close the connection */
static bool
greet(struct telpher_root *root, struct tp_bootstrap_client *g)
{
    static const char words[] = "this rank is not expected: TELPHER_RANK and "
                                "TELPHER_SIZE must be right, and differ between ranks";
    struct tp_bootstrap_server_hello hello;

    if (tp_buf_len(&g->in) < sizeof(hello)) {
        return true;
    }
    memcpy(&hello, tp_buf_data(&g->in), sizeof(hello));
    if (memcmp(hello.magic, TP_BOOTSTRAP_MAGIC, sizeof(hello.magic)) != 0 ||
        !tp_random_equal(hello.job, root->job, sizeof(root->job))) {
        tp_warn("comm", "rejected connection to the bootstrap server: bad job id");
        return false;
    }
    if (hello.size != root->size || hello.rank >= root->size || root->closed ||
        root->came[hello.rank]) {
        tp_bootstrap_client_answer(g, TELPHER_ERR_INVALID, words, sizeof(words) - 1);
        (void)tp_bootstrap_client_push(g); /* the socket's buffer has room for it */
        return false;
    }
    tp_buf_consume(&g->in, sizeof(hello));
    g->known = true;
    g->rank = hello.rank;
    root->came[hello.rank] = true;
    return true;
}

/* Reads from a client. @return false: close the connection */
static bool
read_client(struct telpher_root *root, struct tp_bootstrap_client *g)
{
    size_t before = tp_bootstrap_client_part(g);
    bool there = tp_bootstrap_client_read(g);

    if (!g->known && !greet(root, g)) {
        return false;
    }
    if (before == 0 && tp_bootstrap_client_part(g) != 0) {
        root->ready++;
    }
    return there;
}

static void
leave(struct telpher_root *root, struct tp_bootstrap_client *g)
{
    bool known = g->known, ready = tp_bootstrap_client_part(g) != 0;
    uint32_t rank = g->rank;
    char words[96];

    tp_bootstrap_client_close(g);
    if (!known) {
        return;
    }
    root->ready -= ready && root->ready != 0; /* 0 after a failure was sent to all */
    snprintf(words, sizeof(words), "rank %u ended while the job was starting", rank);
    set_failed(root, TELPHER_ERR_PEER_LOST, words);
    /* If neither holds, the gather may be complete: a rank that sends more is answered with
     * the error. */
    if (!root->closed || root->ready != 0) {
        fail(root, TELPHER_ERR_PEER_LOST, words);
    }
}

/* The oldest unauthenticated connection. Ranks send their hello at once. */
static struct tp_bootstrap_client *
oldest_unauthenticated(struct telpher_root *root)
{
    struct tp_bootstrap_client *oldest = NULL;

    for (size_t i = 0; i < root->client_count; i++) {
        struct tp_bootstrap_client *g = &root->clients[i];

        if (g->conn != NULL && !g->known &&
            (oldest == NULL || g->deadline < oldest->deadline)) {
            oldest = g;
        }
    }
    return oldest;
}

/* Accepts a connection. If all slots are taken, closes the oldest unauthenticated
 * one; if there is none, the connect request stays in the kernel's queue. */
static void
make_room(struct telpher_root *root, int error)
{
    struct tp_bootstrap_client *oldest = oldest_unauthenticated(root);

    if (oldest != NULL) {
        tp_bootstrap_client_close(oldest);
        return;
    }
    root->pause_until = tp_clock_deadline(PAUSE);
    if (!root->starved) {
        root->starved = true;
        tp_warn("comm", "the bootstrap server cannot accept a connection: %s",
                strerror(error));
    }
}

static void
welcome(struct telpher_root *root)
{
    int fd = accept4(root->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct tp_bootstrap_client *g = NULL;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            make_room(root, errno);
        }
        return;
    }
    for (size_t i = 0; i < root->client_count && g == NULL; i++) {
        g = root->clients[i].conn == NULL ? &root->clients[i] : NULL;
    }
    if (g == NULL) {
        /* there is one: ranks leave the slots for unauthenticated connections free */
        g = oldest_unauthenticated(root);
        tp_bootstrap_client_close(g);
    }
    if (!tp_bootstrap_client_open(g, fd, tp_clock_deadline(HELLO_TIME))) {
        close(fd);
    }
}

static void
check_hellos(struct telpher_root *root)
{
    for (size_t i = 0; i < root->client_count; i++) {
        struct tp_bootstrap_client *g = &root->clients[i];

        if (g->conn != NULL && !g->known && tp_clock_passed(g->deadline)) {
            tp_bootstrap_client_close(g);
        }
    }
}

/* The launcher reports ranks that have exited: those that did not connect never
 * will. */
static void
take_ended(struct telpher_root *root)
{
    eventfd_t count;
    uint32_t r = 0;
    char words[96];

    (void)eventfd_read(root->ended_fd, &count);
    while (r < root->size && (!atomic_load(&root->ended[r]) || root->came[r])) {
        r++;
    }
    if (r < root->size) {
        snprintf(words, sizeof(words), "rank %u ended before it connected", r);
        fail(root, TELPHER_ERR_PEER_LOST, words);
    }
}

/* ---- timeout ---- */

/* "never connected: rank 3, 5 and 2 more", or connected ranks that did not send their
 * data. */
static void
name_missing(struct telpher_root *root)
{
    const char *what = "stopped in the middle of the start";
    char names[TP_BOOTSTRAP_TEXT_BYTES / 2] = "", words[TP_BOOTSTRAP_TEXT_BYTES],
                                         more[32] = "";
    size_t len = 0;
    uint32_t missing = 0;
    bool all_came = true;

    for (uint32_t r = 0; r < root->size; r++) {
        all_came = all_came && root->came[r];
    }
    for (uint32_t r = 0; r < root->size; r++) {
        const struct tp_bootstrap_client *g = all_came ? client_of(root, r) : NULL;

        if ((all_came ? g == NULL || tp_bootstrap_client_part(g) == 0
                      : !root->came[r]) &&
            missing++ < NAMES) {
            len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%u",
                                    missing == 1 ? "" : ", ", r);
        }
    }
    if (missing > NAMES) {
        snprintf(more, sizeof(more), " and %u more", missing - NAMES);
    }
    snprintf(words, sizeof(words), "%s: rank %s%s%s",
             all_came ? what : "never connected", names, more,
             root->starved && !all_came
                 ? "; the root has no descriptors for more (ulimit -n)"
                 : "");
    fail(root, TELPHER_ERR_TIMEOUT, words);
}

/* The server's timeout is before the ranks' own, which cannot name the missing
 * ranks. */
static tp_ns
late_at(const struct telpher_root *root)
{
    return root->closed ? tp_clock_add(root->deadline, GRACE) : root->deadline;
}

static bool
is_late(const struct telpher_root *root)
{
    return tp_clock_passed(late_at(root)) && (!root->closed || root->ready != 0);
}

/* ---- the thread ---- */

static tp_ns
next_look(const struct telpher_root *root)
{
    tp_ns next = tp_clock_deadline(LOOK_EVERY);

    if (!tp_clock_passed(late_at(root))) {
        next = TP_MIN(next, late_at(root));
    }
    return tp_clock_passed(root->pause_until) ? next : TP_MIN(next, root->pause_until);
}

/* @return number of descriptors to poll */
static size_t
list_polls(struct telpher_root *root)
{
    bool pause = !tp_clock_passed(root->pause_until);
    size_t n = POLL_CLIENTS;

    root->polls[POLL_STOP] = (struct pollfd){.fd = root->stop_fd, .events = POLLIN};
    root->polls[POLL_ENDED] = (struct pollfd){.fd = root->ended_fd, .events = POLLIN};
    root->polls[POLL_LISTEN] =
        (struct pollfd){.fd = pause ? -1 : root->listen_fd, .events = POLLIN};
    for (size_t i = 0; i < root->client_count; i++) {
        struct tp_bootstrap_client *g = &root->clients[i];

        if (g->conn != NULL) {
            root->polled[n] = g;
            root->polls[n++] = (struct pollfd){
                .fd = g->conn->ops->fd(g->conn),
                .events = POLLIN | (tp_bootstrap_client_is_sending(g) ? POLLOUT : 0)};
        }
    }
    return n;
}

/* @return false: the thread ends */
static bool
serve(struct telpher_root *root)
{
    size_t n = list_polls(root);

    if (poll(root->polls, n, tp_clock_poll_ms(next_look(root))) <= 0) {
        return true;
    }
    for (size_t i = POLL_CLIENTS; i < n; i++) {
        struct tp_bootstrap_client *g = root->polled[i];
        short events = root->polls[i].revents;

        if (g->conn != NULL && events != 0 &&
            (!push(root, g) || ((events & ~POLLOUT) != 0 && !read_client(root, g)))) {
            leave(root, g);
        }
    }
    if (root->polls[POLL_ENDED].revents != 0) {
        take_ended(root);
    }
    if (root->polls[POLL_LISTEN].revents != 0) {
        welcome(root);
    }
    if (root->failed != TELPHER_OK && root->ready != 0) {
        fail(root, root->failed, root->words);
    } else if (root->ready == root->size) {
        give_all(root);
    }
    return root->polls[POLL_STOP].revents == 0;
}

/* Rank 0 has its answer and continues: sends the answers of the others. */
static void
finish_answers(struct telpher_root *root)
{
    tp_ns deadline = tp_clock_deadline(SEND_TIME);
    size_t n;

    do {
        n = 0;
        for (size_t i = 0; i < root->client_count; i++) {
            struct tp_bootstrap_client *g = &root->clients[i];

            if (tp_bootstrap_client_is_sending(g) && push(root, g) &&
                tp_bootstrap_client_is_sending(g)) {
                root->polls[n++] =
                    (struct pollfd){.fd = g->conn->ops->fd(g->conn), .events = POLLOUT};
            }
        }
    } while (n != 0 && !tp_clock_passed(deadline) &&
             poll(root->polls, n, tp_clock_poll_ms(deadline)) > 0);
}

void *
tp_bootstrap_server_run(void *arg)
{
    struct telpher_root *root = arg;
    bool late = false;

    while (serve(root)) {
        check_hellos(root);
        if (!late && is_late(root)) {
            late = true;
            name_missing(root);
        }
    }
    finish_answers(root);
    return NULL;
}
