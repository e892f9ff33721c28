/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting place: a thread that accepts ranks, collects what each gives, and gives all of
 * it to all. Whoever does not know the secret is put out; who never comes is named.
 */
#include "core/comm/root.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "core/transport.h"

enum {
    STRANGERS = 64, /* connections that have not said who they are */
    NAMES = 8, /* missing ranks that are named */
};
#define HELLO_TIME (5 * TP_CLOCK_S)
#define SEND_TIME (10 * TP_CLOCK_S)

/** A connection: a stranger's, or a rank's. */
struct guest {
    struct tp_conn *conn; /* NULL: this place is free */
    struct tp_buf in;
    tp_ns deadline; /* for the hello */
    bool known;
    uint32_t rank;
};

struct telpher_root {
    uint32_t size;
    uint16_t port;
    uint8_t job[TP_ROOT_JOB_BYTES];
    char job_text[TELPHER_JOB_TEXT_BYTES];
    int listen_fd, stop_fd;
    tp_ns deadline;
    pthread_t thread;
    struct guest *guests; /* size + STRANGERS */
    size_t guest_count;
    struct pollfd *polls; /* guests, then listen_fd, then stop_fd */
    bool *came; /* by rank */
    uint32_t ready; /* ranks whose part is here */
    bool closed; /* all came once: nobody new */
    telpher_status failed; /* OK, or what those are told who still wait */
    char words[200]; /* why */
};

static void
guest_close(struct telpher_root *root, struct guest *g)
{
    (void)root;
    tp_conn_destroy(g->conn);
    tp_buf_fini(&g->in);
    *g = (struct guest){0};
}

/* [bytes] of the part at the front of a rank's buffer, or 0 if it is not whole. */
static size_t
whole_part(const struct guest *g)
{
    uint32_t len;

    if (!g->known || tp_buf_len(&g->in) < sizeof(len)) {
        return 0;
    }
    memcpy(&len, tp_buf_data(&g->in), sizeof(len));
    return tp_buf_len(&g->in) >= sizeof(len) + len ? sizeof(len) + len : 0;
}

/* Tells one rank. Those that do not listen are left to their deadline. */
static void
answer(struct guest *g, telpher_status status, const void *data, size_t len)
{
    const struct tp_root_answer head = {.status = status, .len = len};
    tp_ns deadline = tp_clock_deadline(SEND_TIME);

    if (tp_conn_send_all(g->conn, &head, sizeof(head), deadline) == TELPHER_OK) {
        (void)tp_conn_send_all(g->conn, data, len, deadline);
    }
}

/* From now on nothing is gathered: whoever still brings a part is told at once. */
static void
give_up(struct telpher_root *root, telpher_status status, const char *words)
{
    if (root->failed == TELPHER_OK) {
        root->failed = status;
        (void)snprintf(root->words, sizeof(root->words), "%s", words);
    }
}

/* Tells all that are here. */
static void
fail(struct telpher_root *root, telpher_status status, const char *words)
{
    give_up(root, status, words);
    for (size_t i = 0; i < root->guest_count; i++) {
        if (root->guests[i].conn != NULL && root->guests[i].known) {
            answer(&root->guests[i], root->failed, root->words, strlen(root->words));
        }
    }
    root->ready = 0;
}

static struct guest *
guest_of(struct telpher_root *root, uint32_t rank)
{
    for (size_t i = 0; i < root->guest_count; i++) {
        if (root->guests[i].known && root->guests[i].rank == rank) {
            return &root->guests[i];
        }
    }
    return NULL;
}

/* All parts are here: lays them in the order of ranks and gives them to everybody. */
static void
give_all(struct telpher_root *root)
{
    size_t part = whole_part(guest_of(root, 0)) - sizeof(uint32_t);
    uint8_t *all =
        tp_alloc_array(root->size, part != 0 ? part : 1, "parts of all ranks");

    if (all == NULL) {
        fail(root, TELPHER_ERR_NO_MEMORY, "the root is out of memory");
        return;
    }
    for (uint32_t r = 0; r < root->size; r++) {
        struct guest *g = guest_of(root, r);

        if (whole_part(g) != sizeof(uint32_t) + part) {
            tp_free(all);
            fail(root, TELPHER_ERR_PROTO, "ranks run different programs");
            return;
        }
        memcpy(all + r * part, tp_buf_data(&g->in) + sizeof(uint32_t), part);
    }
    for (size_t i = 0; i < root->guest_count; i++) {
        if (root->guests[i].known) {
            tp_buf_consume(&root->guests[i].in, sizeof(uint32_t) + part);
            answer(&root->guests[i], TELPHER_OK, all, root->size * part);
        }
    }
    root->ready = 0;
    root->closed = true;
    tp_free(all);
}

/* A connection says who it is. @return false: put it out */
static bool
greet(struct telpher_root *root, struct guest *g)
{
    struct tp_root_hello hello;

    if (tp_buf_len(&g->in) < sizeof(hello)) {
        return true;
    }
    memcpy(&hello, tp_buf_data(&g->in), sizeof(hello));
    if (memcmp(hello.magic, TP_ROOT_MAGIC, sizeof(hello.magic)) != 0 ||
        !tp_random_equal(hello.job, root->job, sizeof(root->job))) {
        tp_warn("comm", "a stranger came to the root");
        return false;
    }
    if (hello.size != root->size || hello.rank >= root->size || root->closed ||
        root->came[hello.rank]) {
        const char *words = "this rank is not expected: TELPHER_RANK and TELPHER_SIZE "
                            "must be right, and differ between ranks";

        answer(g, TELPHER_ERR_INVALID, words, strlen(words));
        return false;
    }
    tp_buf_consume(&g->in, sizeof(hello));
    g->known = true;
    g->rank = hello.rank;
    root->came[hello.rank] = true;
    return true;
}

/* Reads what a connection has sent. @return false: it is gone, or must go */
static bool
read_guest(struct telpher_root *root, struct guest *g)
{
    size_t before = whole_part(g), got = 0;
    uint8_t *tail;
    telpher_status status;

    do {
        if (tp_buf_reserve(&g->in, 4096, &tail) != TELPHER_OK) {
            return false;
        }
        status = g->conn->ops->recv(g->conn, tail, 4096, &got);
        tp_buf_commit(&g->in, status == TELPHER_OK ? got : 0);
    } while (status == TELPHER_OK);
    if (!g->known && !greet(root, g)) {
        return false;
    }
    if (before == 0 && whole_part(g) != 0) {
        root->ready++;
    }
    return status == TELPHER_ERR_AGAIN;
}

static void
leave(struct telpher_root *root, struct guest *g)
{
    bool known = g->known, ready = whole_part(g) != 0;
    uint32_t rank = g->rank;
    char words[96];

    guest_close(root, g);
    if (!known) {
        return;
    }
    root->ready -= ready && root->ready != 0; /* 0 once all were told of a failure */
    snprintf(words, sizeof(words), "rank %u ended while the job was starting", rank);
    give_up(root, TELPHER_ERR_PEER_LOST, words);
    if (!root->closed || root->ready != 0) {
        fail(root, TELPHER_ERR_PEER_LOST, words);
    } /* else all may have been gathered: who brings more will be told */
}

static void
welcome(struct telpher_root *root)
{
    int fd = accept4(root->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct guest *g = NULL;

    for (size_t i = 0; i < root->guest_count && g == NULL; i++) {
        g = root->guests[i].conn == NULL ? &root->guests[i] : NULL;
    }
    if (fd < 0) {
        return;
    }
    if (g == NULL || tp_builtin_transports[0]->adopt(fd, &g->conn) != TELPHER_OK) {
        close(fd);
        return;
    }
    tp_buf_init(&g->in, TP_ROOT_PART_MAX + 8192);
    g->deadline = tp_clock_deadline(HELLO_TIME);
}

/* "ranks 3, 5 and 2 more never came" */
static void
name_missing(struct telpher_root *root)
{
    char words[200] = "";
    size_t len = 0;
    uint32_t missing = 0;

    for (uint32_t r = 0; r < root->size; r++) {
        if (!root->came[r] && missing++ < NAMES) {
            len += (size_t)snprintf(words + len, sizeof(words) - len, "%s%u",
                                    missing == 1 ? "never came: rank " : ", ", r);
        }
    }
    if (missing > NAMES) {
        snprintf(words + len, sizeof(words) - len, " and %u more", missing - NAMES);
    }
    if (missing == 0) {
        snprintf(words, sizeof(words), "some rank stopped in the middle of the start");
    }
    fail(root, TELPHER_ERR_TIMEOUT, words);
}

static void
check_hellos(struct telpher_root *root)
{
    for (size_t i = 0; i < root->guest_count; i++) {
        struct guest *g = &root->guests[i];

        if (g->conn != NULL && !g->known && tp_clock_passed(g->deadline)) {
            guest_close(root, g);
        }
    }
}

static void
serve(struct telpher_root *root)
{
    size_t n = root->guest_count;

    for (size_t i = 0; i < n; i++) {
        struct guest *g = &root->guests[i];

        root->polls[i] = (struct pollfd){
            .fd = g->conn != NULL ? g->conn->ops->fd(g->conn) : -1, .events = POLLIN};
    }
    root->polls[n] = (struct pollfd){.fd = root->listen_fd, .events = POLLIN};
    root->polls[n + 1] = (struct pollfd){.fd = root->stop_fd, .events = POLLIN};
    if (poll(root->polls, n + 2, 1000) <= 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct guest *g = &root->guests[i];

        if (root->polls[i].revents != 0 && g->conn != NULL && !read_guest(root, g)) {
            leave(root, g);
        }
    }
    if (root->polls[n].revents != 0) {
        welcome(root);
    }
    if (root->failed != TELPHER_OK && root->ready != 0) {
        fail(root, root->failed, root->words);
    } else if (root->ready == root->size) {
        give_all(root);
    }
}

static void *
run(void *arg)
{
    struct telpher_root *root = arg;
    bool late = false;

    while (root->polls[root->guest_count + 1].revents == 0) {
        serve(root);
        check_hellos(root);
        if (!late && !root->closed && tp_clock_passed(root->deadline)) {
            late = true;
            name_missing(root);
        }
    }
    return NULL;
}

static telpher_status
set_job(struct telpher_root *root, const char *job, struct tp_error *err)
{
    telpher_status status = job != NULL
                                ? tp_hex_decode(root->job, sizeof(root->job), job)
                                : tp_random_bytes(root->job, sizeof(root->job));

    if (status != TELPHER_OK) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TELPHER_JOB must be %d hexadecimal digits",
                            2 * TP_ROOT_JOB_BYTES);
    }
    tp_hex_encode(root->job_text, root->job, sizeof(root->job));
    return TELPHER_OK;
}

static uint16_t
port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } a;
    socklen_t len = sizeof(a);

    if (getsockname(fd, &a.any, &len) != 0) {
        return 0;
    }
    return ntohs(a.any.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
}

static void
root_free(struct telpher_root *root)
{
    for (size_t i = 0; root->guests != NULL && i < root->guest_count; i++) {
        if (root->guests[i].conn != NULL) {
            guest_close(root, &root->guests[i]);
        }
    }
    if (root->listen_fd >= 0) {
        close(root->listen_fd);
    }
    if (root->stop_fd >= 0) {
        close(root->stop_fd);
    }
    tp_free(root->guests);
    tp_free(root->polls);
    tp_free(root->came);
    tp_free(root);
}

telpher_status
tp_root_start(const char *address, uint32_t size, const char *job, tp_ns timeout,
              telpher_root **ret_root, struct tp_error *err)
{
    struct telpher_root *root;
    telpher_status status;

    if (size == 0 || size > TP_ROOT_RANKS_MAX) {
        return tp_error_set(err, TELPHER_ERR_INVALID, "a job has 1 to %d ranks",
                            TP_ROOT_RANKS_MAX);
    }
    root = tp_zalloc(sizeof(*root), "root");
    if (root == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    root->size = size;
    root->guest_count = (size_t)size + STRANGERS;
    root->deadline = tp_clock_deadline(timeout);
    root->listen_fd = -1;
    root->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    root->guests = tp_alloc_array(root->guest_count, sizeof(*root->guests), "root");
    root->polls = tp_alloc_array(root->guest_count + 2, sizeof(*root->polls), "root");
    root->came = tp_alloc_array(size, sizeof(*root->came), "root");
    status = root->guests != NULL && root->polls != NULL && root->came != NULL &&
                     root->stop_fd >= 0
                 ? set_job(root, job, err)
                 : TELPHER_ERR_NO_MEMORY;
    if (status == TELPHER_OK) {
        status = tp_builtin_transports[0]->listen(address, &root->listen_fd, err);
    }
    if (status == TELPHER_OK) {
        root->port = port_of(root->listen_fd);
        status = tp_thread_create(&root->thread, "telpher-root", run, root);
    }
    if (status != TELPHER_OK) {
        root_free(root);
        return status;
    }
    *ret_root = root;
    return TELPHER_OK;
}

uint16_t
telpher_root_port(const telpher_root *root)
{
    return root->port;
}

const char *
telpher_root_job(const telpher_root *root)
{
    return root->job_text;
}

void
telpher_root_stop(telpher_root *root)
{
    if (root == NULL) {
        return;
    }
    (void)eventfd_write(root->stop_fd, 1);
    tp_thread_join(root->thread);
    root_free(root);
}
