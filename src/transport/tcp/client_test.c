/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the connecting side against a scripted server, and the search paths of
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/test_skips.h"
#include "core/session/client.h"
#include "core/session/proof.h"
#include "transport/tcp/tcp.h"

static char folder[] = "/tmp/client_test_XXXXXX";
static char cookie_path[64], socket_path[64];
static const uint8_t cookie[TP_WIRE_COOKIE_BYTES] = {1, 2, 3, [31] = 32};

/* ---- a server ---- */

struct server {
    int listener;
    char address[64];
    pthread_t thread;
    size_t answer_len; /* 0: close at once; with silent: send nothing */
    bool silent;
    uint8_t answer[TP_WIRE_PREFACE_REPLY_BYTES];
    /* received */
    struct tp_wire_preface preface;
    telpher_status preface_status;
    uint8_t auth[TP_WIRE_AUTH_MAX];
    /* loopback */
    const uint8_t *secret; /* NULL: sends no challenge */
    telpher_status client_proof; /* of the client */
};

/* The challenge of a server that knows @c s->secret, and the client's proof. */
static bool
challenge(struct server *s, int fd, const uint8_t preface[TP_WIRE_PREFACE_BYTES])
{
    struct tp_proof_input input = {.server_nonce = {9}};
    struct tp_wire_challenge c = {.nonce = {9}};
    uint8_t raw[TP_WIRE_CHALLENGE_BYTES], proof[TP_WIRE_PROOF_BYTES];

    memcpy(input.preface, preface, sizeof(input.preface));
    memcpy(input.client_nonce, s->auth, sizeof(input.client_nonce));
    assert_int_equal(tp_proof_make(TP_PROOF_SERVER, s->secret, &input, c.proof, NULL),
                     TELPHER_OK);
    tp_wire_put_challenge(raw, &c);
    assert_int_equal(send(fd, raw, sizeof(raw), MSG_NOSIGNAL), sizeof(raw));
    if (recv(fd, proof, sizeof(proof), MSG_WAITALL) != sizeof(proof)) {
        return false;
    }
    s->client_proof = tp_proof_check(TP_PROOF_CLIENT, s->secret, &input, proof, NULL);
    return true;
}

static void *
serve_one(void *arg)
{
    struct server *s = arg;
    uint8_t raw[TP_WIRE_PREFACE_BYTES];
    int fd = accept(s->listener, NULL, NULL);

    assert_true(fd >= 0);
    assert_int_equal(recv(fd, raw, sizeof(raw), MSG_WAITALL), sizeof(raw));
    s->preface_status = tp_wire_get_preface(raw, &s->preface);
    if (s->preface.auth_len != 0) {
        assert_int_equal(recv(fd, s->auth, s->preface.auth_len, MSG_WAITALL),
                         s->preface.auth_len);
    }
    if (s->secret != NULL && !challenge(s, fd, raw)) {
        close(fd);
        return NULL;
    }
    if (s->answer_len != 0) {
        assert_int_equal(send(fd, s->answer, s->answer_len, MSG_NOSIGNAL),
                         s->answer_len);
    }
    if (s->silent) {
        (void)recv(fd, raw, 1, 0); /* until the client disconnects */
    }
    close(fd);
    return NULL;
}

static void
start_server(struct server *s, const char *address)
{
    struct sockaddr_in name;
    socklen_t len = sizeof(name);
    int flags;

    assert_int_equal(tp_tcp_transport.listen(address, &s->listener, NULL), TELPHER_OK);
    flags = fcntl(s->listener, F_GETFL);
    assert_int_equal(fcntl(s->listener, F_SETFL, flags & ~O_NONBLOCK), 0);
    snprintf(s->address, sizeof(s->address), "%s", address);
    if (address[0] != '/') {
        assert_int_equal(getsockname(s->listener, (struct sockaddr *)&name, &len), 0);
        snprintf(s->address, sizeof(s->address), "127.0.0.1:%d", ntohs(name.sin_port));
    }
    assert_int_equal(pthread_create(&s->thread, NULL, serve_one, s), 0);
}

static void
stop_server(struct server *s)
{
    pthread_join(s->thread, NULL);
    close(s->listener);
}

static void
set_answer(struct server *s, telpher_status status, const char *text)
{
    struct tp_wire_preface_reply r = {.version = 1,
                                      .status = status,
                                      .session = {42},
                                      .window = TP_WIRE_WINDOW,
                                      .bulk_max = 4,
                                      .frame_max = TP_WIRE_FRAME_MAX};

    snprintf(r.text, sizeof(r.text), "%s", text);
    tp_wire_put_preface_reply(s->answer, &r);
    s->answer_len = sizeof(s->answer);
}

static telpher_status
connect_to(struct server *s, const char *cookie_file, struct tp_error *err)
{
    struct tp_client_params params = {.address = s->address,
                                      .cookie_path = cookie_file,
                                      .deadline_ns = tp_clock_deadline(TP_CLOCK_S / 2)};
    struct tp_wire_preface_reply reply;
    struct tp_stream *stream;
    telpher_status status = tp_client_connect(&params, &stream, &reply, err);

    if (status == TELPHER_OK) {
        assert_int_equal(reply.session[0], 42);
        assert_int_equal(reply.bulk_max, 4);
        assert_int_equal(tp_stream_status(stream), TELPHER_OK);
        tp_stream_destroy(stream);
    } else if (err != NULL) {
        assert_int_equal(err->code, status);
        assert_non_null(strstr(err->text, s->address));
    }
    return status;
}

/* ---- the handshake ---- */

static void
test_loopback_proves_the_cookie(void **state)
{
    struct server s = {.secret = cookie, .client_proof = TELPHER_ERR_AUTH};

    (void)state;
    set_answer(&s, TELPHER_OK, "");
    start_server(&s, "127.0.0.1:0");
    assert_int_equal(connect_to(&s, cookie_path, NULL), TELPHER_OK);
    stop_server(&s);
    assert_int_equal(s.preface_status, TELPHER_OK);
    assert_int_equal(s.preface.stream, TP_WIRE_STREAM_COMMAND);
    assert_int_equal(s.preface.auth_len, TP_WIRE_NONCE_BYTES);
    assert_memory_not_equal(s.auth, cookie, sizeof(cookie));
    assert_int_equal(s.client_proof, TELPHER_OK);
}

/* A program of another user that listens at the port: it gets no proof and no session. */
static void
test_impostors(void **state)
{
    static const uint8_t guess[TP_WIRE_COOKIE_BYTES] = {7};
    struct server silent = {0}, guesses = {.secret = guess, .client_proof = 1};
    struct tp_error err = {0};

    (void)state;
    set_answer(&silent, TELPHER_OK, "");
    start_server(&silent, "127.0.0.1:0");
    assert_int_equal(connect_to(&silent, cookie_path, &err), TELPHER_ERR_AUTH);
    stop_server(&silent);
    assert_non_null(strstr(err.text, "does not prove"));
    start_server(&silent, "127.0.0.1:0"); /* nor a client without a cookie */
    assert_int_equal(connect_to(&silent, "/does/not/exist", &err), TELPHER_ERR_AUTH);
    stop_server(&silent);
    set_answer(&guesses, TELPHER_OK, "");
    start_server(&guesses, "127.0.0.1:0");
    assert_int_equal(connect_to(&guesses, cookie_path, &err), TELPHER_ERR_AUTH);
    stop_server(&guesses);
    assert_int_equal(guesses.client_proof, 1); /* none came */
    assert_non_null(strstr(err.text, "another program listens"));
}

static void
test_loopback_without_proof(void **state)
{
    struct server s = {0};

    (void)state;
    set_answer(&s, TELPHER_OK, "");
    start_server(&s, "127.0.0.1:0");
    assert_int_equal(setenv("TELPHER_INSECURE", "yes", 1), 0);
    assert_int_equal(connect_to(&s, cookie_path, NULL), TELPHER_OK);
    unsetenv("TELPHER_INSECURE");
    stop_server(&s);
}

static void
test_cookie_from_the_environment(void **state)
{
    struct server s = {.secret = cookie};

    (void)state;
    set_answer(&s, TELPHER_OK, "");
    start_server(&s, "127.0.0.1:0");
    assert_int_equal(setenv("TELPHER_COOKIE", cookie_path, 1), 0);
    assert_int_equal(connect_to(&s, NULL, NULL), TELPHER_OK);
    unsetenv("TELPHER_COOKIE");
    stop_server(&s);
}

static void
test_unix_socket_shows_nothing(void **state)
{
    struct server s = {0};

    (void)state;
    set_answer(&s, TELPHER_OK, "");
    start_server(&s, socket_path);
    assert_int_equal(connect_to(&s, cookie_path, NULL), TELPHER_OK);
    stop_server(&s);
    assert_int_equal(s.preface.auth_len, 0);
}

static void
test_refusals(void **state)
{
    struct tp_error err = {0};
    struct server s = {0}, other = {0};

    (void)state;
    set_answer(&s, TELPHER_ERR_AUTH, "wrong cookie\033[31m");
    start_server(&s, "127.0.0.1:0");
    assert_int_equal(connect_to(&s, "/does/not/exist", &err), TELPHER_ERR_AUTH);
    stop_server(&s);
    assert_non_null(strstr(err.text, "wrong cookie?[31m")); /* no escapes */
    assert_non_null(strstr(err.text, "/does/not/exist does not exist"));
    start_server(&s, "127.0.0.1:0"); /* now with a wrong cookie */
    assert_int_equal(connect_to(&s, cookie_path, &err), TELPHER_ERR_AUTH);
    stop_server(&s);
    assert_non_null(strstr(err.text, "TELPHER_COOKIE should name"));
    set_answer(&other, TELPHER_ERR_VERSION, "");
    start_server(&other, "127.0.0.1:0");
    assert_int_equal(connect_to(&other, cookie_path, &err), TELPHER_ERR_VERSION);
    stop_server(&other);
    assert_non_null(strstr(err.text, telpher_status_text(TELPHER_ERR_VERSION)));
}

static void
test_no_telpherd(void **state)
{
    struct server web = {.answer_len = TP_WIRE_PREFACE_REPLY_BYTES}, closing = {0};
    struct server cut = {.answer_len = 100}, silent = {.silent = true};
    struct tp_error err = {0};
    uint64_t start;

    (void)state;
    memset(web.answer, 'H', sizeof(web.answer));
    start_server(&web, "127.0.0.1:0");
    assert_int_equal(connect_to(&web, cookie_path, &err), TELPHER_ERR_PROTO);
    stop_server(&web);
    assert_non_null(strstr(err.text, "something else than telpherd"));
    start_server(&closing, "127.0.0.1:0");
    assert_int_equal(connect_to(&closing, cookie_path, &err), TELPHER_ERR_PEER_LOST);
    stop_server(&closing);
    set_answer(&cut, TELPHER_OK, "");
    cut.answer_len = 100;
    start_server(&cut, "127.0.0.1:0");
    assert_int_equal(connect_to(&cut, cookie_path, &err), TELPHER_ERR_PEER_LOST);
    stop_server(&cut);
    start_server(&silent, "127.0.0.1:0");
    start = tp_clock_ns();
    assert_int_equal(connect_to(&silent, cookie_path, &err), TELPHER_ERR_TIMEOUT);
    assert_true(tp_clock_ns() - start < 5 * TP_CLOCK_S);
    stop_server(&silent);
}

static void
test_bad_cookie_file(void **state)
{
    struct tp_error err = {0};
    struct server s = {0};
    char path[80];
    FILE *file;

    (void)state;
    snprintf(path, sizeof(path), "%s/short", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("too short", file);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
    set_answer(&s, TELPHER_ERR_AUTH, "no cookie");
    start_server(&s, "127.0.0.1:0");
    assert_int_equal(connect_to(&s, path, &err), TELPHER_ERR_AUTH);
    stop_server(&s);
    assert_int_equal(s.preface.auth_len, 0);
    assert_non_null(strstr(err.text, "not a cookie"));
    assert_int_equal(chmod(path, 0666), 0);
    start_server(&s, "127.0.0.1:0");
    assert_int_equal(connect_to(&s, path, &err), TELPHER_ERR_AUTH);
    stop_server(&s);
    assert_non_null(strstr(err.text, "chmod 600"));
    unlink(path);
}

static void
test_bulk_preface(void **state)
{
    struct server s = {0};
    struct tp_client_params params = {
        .stream = TP_WIRE_STREAM_BULK, .index = 3, .session = {7, [15] = 8}};
    struct tp_stream *stream;

    (void)state;
    set_answer(&s, TELPHER_OK, "");
    start_server(&s, socket_path);
    params.address = s.address;
    assert_int_equal(tp_client_connect(&params, &stream, NULL, NULL), TELPHER_OK);
    tp_stream_destroy(stream);
    stop_server(&s);
    assert_int_equal(s.preface.stream, TP_WIRE_STREAM_BULK);
    assert_int_equal(s.preface.index, 3);
    assert_memory_equal(s.preface.session, params.session, sizeof(params.session));
}

/* ---- paths ---- */

static void
test_default_places(void **state)
{
    char path[512];

    (void)state;
    tp_client_default_socket(path, sizeof(path));
    if (geteuid() == 0) {
        assert_string_equal(path, "/run/telpher/telpherd.sock");
        tp_client_default_cookie(path, sizeof(path));
        assert_string_equal(path, "/run/telpher/cookie");
        return;
    }
    setenv("XDG_RUNTIME_DIR", "/run/user/77", 1);
    tp_client_default_socket(path, sizeof(path));
    assert_string_equal(path, "/run/user/77/telpher/telpherd.sock");
    tp_client_default_cookie(path, sizeof(path));
    assert_string_equal(path, "/run/user/77/telpher/cookie");
}

/* Runs as another user, in a process of its own. */
static void
in_child(void (*check)(void))
{
    pid_t pid = fork();
    int result;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgroups(0, NULL) != 0 || setgid(54321) != 0 || setuid(54321) != 0) {
            _exit(77);
        }
        check();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &result, 0), pid);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void
check_tmp_place(void)
{
    static const char dir[] = "/tmp/telpher-54321";
    char path[512];

    unsetenv("XDG_RUNTIME_DIR");
    (void)rmdir(dir);
    tp_client_default_socket(path, sizeof(path));
    if (strcmp(path, "/tmp/telpher-54321/telpherd.sock") != 0) {
        _exit(1);
    }
    if (mkdir(dir, 0700) != 0 || chmod(dir, 0777) != 0) {
        _exit(2);
    }
    tp_client_default_socket(path, sizeof(path));
    if (path[0] != '\0') { /* others may write there */
        _exit(3);
    }
    if (chmod(dir, 0700) != 0) {
        _exit(4);
    }
    tp_client_default_cookie(path, sizeof(path));
    if (strcmp(path, "/tmp/telpher-54321/cookie") != 0) {
        _exit(5);
    }
    (void)rmdir(dir);
}

static void
check_foreign_place(void)
{
    char path[512];

    unsetenv("XDG_RUNTIME_DIR");
    tp_client_default_socket(path, sizeof(path));
    if (path[0] != '\0') {
        _exit(1);
    }
}

static void
test_tmp_must_be_ours(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip_case("only root can become another user");
    }
    in_child(check_tmp_place);
    assert_int_equal(mkdir("/tmp/telpher-54321", 0700), 0); /* owned by root */
    in_child(check_foreign_place);
    assert_int_equal(rmdir("/tmp/telpher-54321"), 0);
}

static void
test_server_lists(void **state)
{
    char **list, place[512];
    size_t count;

    (void)state;
    assert_int_equal(
        tp_client_parse_servers(" a , b:1,unix:/x,[::1]:2 ", &list, &count, NULL),
        TELPHER_OK);
    assert_int_equal(count, 4);
    assert_string_equal(list[0], "a");
    assert_string_equal(list[1], "b:1");
    assert_string_equal(list[2], "unix:/x");
    assert_string_equal(list[3], "[::1]:2");
    tp_free(list);
    assert_int_equal(tp_client_parse_servers("local,x,local", &list, &count, NULL),
                     TELPHER_OK);
    tp_client_default_socket(place, sizeof(place));
    assert_int_equal(count, 3);
    assert_string_equal(list[0], list[2]);
    assert_memory_equal(list[0], "unix:/", 6);
    tp_free(list);
}

static void
test_bad_server_lists(void **state)
{
    static const char *const bad[] = {"", " ", ",", "a,", ",a", "a,,b", "a, ,b"};
    char **list;
    size_t count;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tp_error err = {0};

        assert_int_equal(tp_client_parse_servers(bad[i], &list, &count, &err),
                         TELPHER_ERR_INVALID);
        assert_non_null(strstr(err.text, "is empty"));
    }
}

static int
setup(void **state)
{
    FILE *file;

    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(cookie_path, sizeof(cookie_path), "%s/cookie", folder);
    snprintf(socket_path, sizeof(socket_path), "%s/sock", folder);
    file = fopen(cookie_path, "wb");
    if (file == NULL || fwrite(cookie, sizeof(cookie), 1, file) != 1) {
        return -1;
    }
    unsetenv("TELPHER_COOKIE");
    unsetenv("TELPHER_INSECURE");
    return fclose(file) != 0 ? -1 : chmod(cookie_path, 0600);
}

static int
teardown(void **state)
{
    (void)state;
    unlink(cookie_path);
    unlink(socket_path);
    return rmdir(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback_proves_the_cookie),
        cmocka_unit_test(test_impostors),
        cmocka_unit_test(test_loopback_without_proof),
        cmocka_unit_test(test_cookie_from_the_environment),
        cmocka_unit_test(test_unix_socket_shows_nothing),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_telpherd),
        cmocka_unit_test(test_bad_cookie_file),
        cmocka_unit_test(test_bulk_preface),
        cmocka_unit_test(test_default_places),
        cmocka_unit_test(test_tmp_must_be_ours),
        cmocka_unit_test(test_server_lists),
        cmocka_unit_test(test_bad_server_lists),
    };

    return skips_end(cmocka_run_group_tests(tests, setup, teardown));
}
