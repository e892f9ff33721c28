/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon and the client that the tests use. */
#include "daemon/test/test_session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"

enum { OPTIONS_MAX = 16 };

static tp_ns
limit(void)
{
    return tp_clock_deadline(TEST_SECONDS * TP_CLOCK_S);
}

/* ---- daemon ---- */

static void
run_daemon(struct test_daemon *d, const char *const *options)
{
    const char *argv[OPTIONS_MAX + 8] = {TEST_TELPHERD, "--socket", d->socket,
                                         "--executor", TEST_EXECUTOR};
    int log = open(d->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    for (size_t i = 0; options != NULL && options[i] != NULL && i < OPTIONS_MAX; i++) {
        argv[5 + i] = options[i];
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a fresh process */
    (void)setenv("TELPHER_LOG", "info", 0);
    (void)dup2(log, 2);
    /* A test that fails ends without stopping its daemon, whose open output ctest waits for. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(TEST_TELPHERD, (char *const *)(uintptr_t)argv);
    _exit(127);
}

int
test_daemon_connect_raw(const struct test_daemon *d)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", d->socket);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

void
test_daemon_start(struct test_daemon *d, const char *const *options)
{
    tp_ns deadline = limit();
    int fd = -1;

    (void)strcpy(d->folder, "/tmp/telpher-test-XXXXXX");
    assert_non_null(mkdtemp(d->folder));
    (void)snprintf(d->socket, sizeof(d->socket), "%s/socket", d->folder);
    (void)snprintf(d->log, sizeof(d->log), "%s/log", d->folder);
    d->pid = fork();
    assert_true(d->pid >= 0);
    if (d->pid == 0) {
        run_daemon(d, options);
    }
    while (fd < 0) {
        assert_false(tp_clock_passed(deadline));
        assert_int_equal(waitpid(d->pid, NULL, WNOHANG), 0);
        tp_clock_sleep(10 * TP_CLOCK_MS);
        fd = test_daemon_connect_raw(d);
    }
    (void)close(fd);
}

size_t
test_daemon_children(const struct test_daemon *d, pid_t *ret_pids, size_t max)
{
    char path[64];
    size_t count = 0;
    long pid;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)d->pid,
                   (long)d->pid);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%ld", &pid) == 1) {
        if (count < max) {
            ret_pids[count] = (pid_t)pid;
        }
        count++;
    }
    (void)fclose(f);
    return count;
}

void
test_daemon_wait_children(const struct test_daemon *d, size_t count)
{
    tp_ns deadline = limit();

    while (test_daemon_children(d, NULL, 0) != count) {
        assert_false(tp_clock_passed(deadline));
        tp_clock_sleep(10 * TP_CLOCK_MS);
    }
}

static void
print_log(const struct test_daemon *d)
{
    char line[512];
    FILE *f = fopen(d->log, "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        (void)fputs(line, stderr);
    }
    if (f != NULL) {
        (void)fclose(f);
    }
}

/* A daemon that must be gone: waits, and kills it if it is not. @return wait status */
static int
collect(struct test_daemon *d)
{
    tp_ns deadline = tp_clock_deadline(10 * TP_CLOCK_S);
    int status = -1;

    while (waitpid(d->pid, &status, WNOHANG) == 0) {
        if (tp_clock_passed(deadline)) {
            (void)kill(d->pid, SIGKILL);
            (void)waitpid(d->pid, &status, 0);
            break;
        }
        tp_clock_sleep(5 * TP_CLOCK_MS);
    }
    return status;
}

void
test_daemon_stop(struct test_daemon *d)
{
    pid_t pids[64];
    size_t count = test_daemon_children(d, pids, TP_ARRAY_LEN(pids));
    int status;

    (void)kill(d->pid, SIGTERM);
    status = collect(d);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): tests have one thread */
    if (getenv("TEST_SHOW_LOG") != NULL || status != 0) {
        print_log(d);
    }
    assert_int_equal(status, 0);
    for (size_t i = 0; i < count && i < TP_ARRAY_LEN(pids); i++) {
        assert_int_equal(kill(pids[i], 0), -1);
        assert_int_equal(errno, ESRCH);
    }
    assert_int_not_equal(access(d->socket, F_OK), 0);
    (void)unlink(d->log);
    (void)rmdir(d->folder);
}

int
test_daemon_teardown(void **state)
{
    test_daemon_stop(*state);
    return 0;
}

bool
test_daemon_tells(const struct test_daemon *d,
                  bool (*is)(const struct tp_wire_fact *fact))
{
    struct tp_wire_devices ask = {.request = 1};
    struct tp_wire_devices_reply reply;
    struct test_session s;
    struct tp_wire_fact fact;
    const uint8_t *src, *end;
    bool found = false;

    test_session_open(&s, d);
    test_put(&s, TP_WIRE_DEVICES, &ask);
    test_expect(&s, TP_WIRE_DEVICES_REPLY, &reply);
    src = reply.facts.data;
    end = src + reply.facts.len;
    while (!found && src != NULL && tp_wire_get_fact(&src, end, &fact)) {
        found = is == NULL || is(&fact);
    }
    test_session_close(&s);
    return found;
}

void
test_daemon_need(struct test_daemon *d, bool (*is)(const struct tp_wire_fact *fact),
                 const char *missing)
{
    if (!test_daemon_tells(d, is)) {
        (void)printf("skipped: this machine lacks %s\n", missing);
        test_daemon_stop(d);
        exit(77);
    }
}

/* ---- session ---- */

static telpher_status
keep_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    struct test_session *s = arg;
    size_t len = (size_t)(end - body);
    struct test_frame *f = tp_malloc(sizeof(*f) + len, "test frame");

    assert_non_null(f);
    tp_list_init(&f->link);
    f->type = type;
    f->len = (uint32_t)len;
    memcpy(f->body, body, len);
    tp_list_push_back(&s->frames, &f->link);
    return TELPHER_OK;
}

static const struct tp_stream_handler frame_handler = {.frame = keep_frame};

void
test_session_open(struct test_session *s, const struct test_daemon *d)
{
    struct tp_client_params params = {.address = d->socket};
    struct tp_error err = {0};

    *s = (struct test_session){.daemon = d, .next_id = 1};
    tp_list_init(&s->frames);
    tp_list_init(&s->old);
    params.deadline_ns = limit();
    if (tp_client_connect(&params, &s->stream, &s->reply, &err) != TELPHER_OK) {
        fail_msg("%s", tp_error_text(&err));
    }
}

/* Counts the devices in facts. */
static uint32_t
count_devices(const struct tp_wire_bytes *facts)
{
    const uint8_t *src = facts->data, *end = src + facts->len;
    struct tp_wire_fact fact;
    uint32_t count = 0;

    while (tp_wire_get_fact(&src, end, &fact)) {
        if (fact.kind == TP_WIRE_FACT_DEVICE && fact.index >= count) {
            count = fact.index + 1;
        }
    }
    assert_ptr_equal(src, end);
    return count;
}

uint32_t
test_session_start(struct test_session *s)
{
    struct tp_wire_devices devices = {.request = test_id(s, TP_WIRE_KIND_REQUEST)};
    struct tp_wire_devices_reply reply;
    struct tp_wire_start start = {.platform = 0};
    struct tp_wire_started started;
    uint32_t count;

    test_put(s, TP_WIRE_DEVICES, &devices);
    test_expect(s, TP_WIRE_DEVICES_REPLY, &reply);
    assert_int_equal(reply.request, devices.request);
    assert_int_equal(reply.status, TELPHER_OK);
    count = count_devices(&reply.facts);
    test_put(s, TP_WIRE_START, &start);
    test_expect(s, TP_WIRE_STARTED, &started);
    if (started.status != TELPHER_OK) {
        fail_msg("%.*s", (int)started.text.len, (const char *)started.text.data);
    }
    return count;
}

void
test_session_bulk(struct test_session *s, const struct test_daemon *d)
{
    struct tp_client_params params = {.address = d->socket,
                                      .stream = TP_WIRE_STREAM_BULK};
    struct tp_error err = {0};

    memcpy(params.session, s->reply.session, sizeof(params.session));
    params.deadline_ns = limit();
    if (tp_client_connect(&params, &s->bulk, NULL, &err) != TELPHER_OK) {
        fail_msg("%s", tp_error_text(&err));
    }
}

static void
free_frames(struct tp_list *list)
{
    struct tp_list *first;

    while ((first = tp_list_pop_front(list)) != NULL) {
        tp_free(tp_list_entry(first, struct test_frame, link));
    }
}

void
test_session_close(struct test_session *s)
{
    tp_stream_destroy(s->stream);
    tp_stream_destroy(s->bulk);
    free_frames(&s->frames);
    free_frames(&s->old);
    *s = (struct test_session){.stream = NULL};
}

uint64_t
test_id(struct test_session *s, enum tp_wire_kind kind)
{
    return tp_wire_id(kind, s->next_id++);
}

void
test_put(struct test_session *s, uint16_t type, const void *msg)
{
    (void)tp_stream_put(s->stream, type, msg);
}

void
test_flush(struct test_session *s)
{
    (void)tp_stream_flush_wait(s->stream, limit());
}

/* Receives once, waiting if there is nothing. */
static telpher_status
receive(struct test_session *s, tp_ns deadline)
{
    telpher_status status = tp_stream_receive(s->stream, &frame_handler, s);

    if (status == TELPHER_ERR_AGAIN) {
        status = tp_stream_wait(s->stream, deadline);
    }
    return status;
}

/* The first kept frame of a type (and event), taken out of the list. */
static struct test_frame *
take(struct test_session *s, uint16_t type, uint64_t event)
{
    tp_list_for_each_entry(struct test_frame, f, &s->frames, link) {
        uint64_t id = 0;

        if (f->len >= sizeof(id)) {
            memcpy(&id, f->body, sizeof(id));
        }
        if (f->type == type && (event == 0 || id == event)) {
            tp_list_remove(&f->link);
            tp_list_push_back(&s->old, &f->link);
            return f;
        }
    }
    return NULL;
}

static void
expect(struct test_session *s, uint16_t type, uint64_t event, void *ret_msg)
{
    tp_ns deadline = limit();
    struct test_frame *f;

    test_flush(s);
    while ((f = take(s, type, event)) == NULL) {
        telpher_status status = receive(s, deadline);

        if (status != TELPHER_OK) {
            print_log(s->daemon);
            fail_msg("no frame 0x%x came: %s", type, telpher_status_text(status));
        }
    }
    assert_true(tp_wire_message(type)->get(f->body, f->body + f->len, ret_msg));
}

void
test_expect(struct test_session *s, uint16_t type, void *ret_msg)
{
    expect(s, type, 0, ret_msg);
}

void
test_expect_done(struct test_session *s, uint64_t event, struct tp_wire_done *ret_msg)
{
    expect(s, TP_WIRE_DONE, event, ret_msg);
}

void
test_expect_alive(struct test_session *s)
{
    struct tp_wire_ping ping = {.data = TEST_TEXT("")};
    struct tp_wire_pong pong;

    ping.request = test_id(s, TP_WIRE_KIND_REQUEST);
    test_put(s, TP_WIRE_PING, &ping);
    test_expect(s, TP_WIRE_PONG, &pong);
    assert_int_equal(pong.request, ping.request);
}

telpher_status
test_expect_end(struct test_session *s)
{
    tp_ns deadline = limit();
    telpher_status status;

    test_flush(s);
    do {
        status = receive(s, deadline);
    } while (status == TELPHER_OK);
    assert_int_not_equal(status, TELPHER_ERR_TIMEOUT);
    return status;
}

size_t
test_count(struct test_session *s, uint16_t type)
{
    size_t count = 0;

    while (tp_stream_receive(s->stream, &frame_handler, s) == TELPHER_OK) {
    }
    tp_list_for_each(pos, &s->frames) {
        count += tp_list_entry(pos, struct test_frame, link)->type == type;
    }
    return count;
}

/* ---- content ---- */

void
test_send_content(struct test_session *s, uint64_t transfer, uint64_t offset,
                  const void *data, uint64_t len)
{
    uint64_t pos = 0;

    while (pos < len) {
        uint64_t n = TP_MIN(len - pos, (uint64_t)TP_WIRE_CHUNK_MAX);

        assert_int_equal(tp_stream_send_data(s->bulk, transfer, offset + pos,
                                             (const uint8_t *)data + pos, (uint32_t)n),
                         TELPHER_OK);
        pos += n;
    }
}

static void *
content_begin(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct test_session *s = arg;

    assert_int_equal(offset, s->content_got);
    assert_true(offset + len <= s->content_size);
    return s->content + offset;
}

static void
content_end(void *arg, uint64_t transfer, uint64_t offset, uint32_t len)
{
    struct test_session *s = arg;

    s->content_got += len;
}

static telpher_status
bulk_frame(void *arg, uint16_t type, const uint8_t *body, const uint8_t *end)
{
    return type == TP_WIRE_ACK ? TELPHER_OK : TELPHER_ERR_PROTO;
}

void
test_receive_content(struct test_session *s, void *dst, uint64_t size)
{
    static const struct tp_stream_handler content_handler = {
        .frame = bulk_frame, .data_begin = content_begin, .data_end = content_end};
    tp_ns deadline = limit();

    test_flush(s);
    s->content = dst;
    s->content_size = size;
    s->content_got = 0;
    while (s->content_got < size) {
        telpher_status status = tp_stream_receive(s->bulk, &content_handler, s);

        if (status == TELPHER_ERR_AGAIN) {
            status = tp_stream_wait(s->bulk, deadline);
        }
        assert_int_equal(status, TELPHER_OK);
    }
}
