/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bootstrap by PMI-1, which MPICH's mpiexec (hydra) and Intel MPI serve: text lines on
 * the descriptor PMI_FD. A rank puts its data in hexadecimal digits under its own keys,
 * waits in a barrier, and gets the data of the others.
 *
 * The session lasts as long as the process: the launcher closes the descriptor when a
 * rank finalizes, and reports a rank that exits without that as failed.
 *
 * Source: src/pmi/simple/simple_pmi.c of MPICH 4.0.
 */
#include "core/comm/bootstrap/pmi.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text/hex.h"

enum { LINE = 1024 /* PMI-1's limit */, PIECE = 256 /* [bytes] of a value */ };

/** The session; one per process. */
static struct {
    int fd;
    bool open;
    bool broken; /* an answer is outstanding, so no command can be sent */
    unsigned gathers;
    char kvs[256];
    char line[LINE + 1]; /* the last answer */
    size_t len; /* [bytes] of it and of the input after it */
} pmi = {.fd = -1};

bool
tp_pmi_is_there(void)
{
    return getenv("PMI_FD") != NULL && getenv("PMI_RANK") != NULL &&
           getenv("PMI_SIZE") != NULL;
}

/* ---- lines ---- */

static telpher_status
send_line(const char *line, struct tp_error *err)
{
    size_t len = strlen(line), sent = 0;

    while (sent < len) {
        ssize_t n = send(pmi.fd, line + sent, len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno == ENOTSOCK) {
            n = write(pmi.fd, line + sent, len - sent);
        }
        if (n < 0 && errno != EINTR) {
            return tp_error_set_errno(err, errno, "writing to the launcher (PMI_FD)");
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    return TELPHER_OK;
}

/* Reads more input. @return OK: pmi.line has some bytes more */
static telpher_status
read_more(tp_ns deadline, struct tp_error *err)
{
    struct pollfd poll_fd = {.fd = pmi.fd, .events = POLLIN};
    const tp_ns now = tp_clock_ns();
    const tp_ns left = deadline > now ? deadline - now : 0;
    ssize_t n;

    if (poll(&poll_fd, 1, (int)TP_MIN(left / TP_CLOCK_MS + 1, (tp_ns)1000)) == 0) {
        return tp_clock_passed(deadline)
                   ? tp_error_set(err, TELPHER_ERR_TIMEOUT,
                                  "the launcher did not answer in time (PMI): not all "
                                  "ranks connected (TELPHER_START_TIMEOUT)")
                   : TELPHER_OK;
    }
    n = read(pmi.fd, pmi.line + pmi.len, LINE - pmi.len);
    if (n == 0 || pmi.len == LINE) {
        return tp_error_set(err, TELPHER_ERR_IO,
                            "the launcher ended the connection (PMI_FD)");
    }
    if (n < 0) {
        return errno == EINTR ? TELPHER_OK
                              : tp_error_set_errno(
                                    err, errno, "reading from the launcher (PMI_FD)");
    }
    pmi.len += (size_t)n;
    return TELPHER_OK;
}

/* Sends a command and reads its answer, which must begin with "cmd=<answer>". */
static telpher_status
ask(const char *command, const char *answer, tp_ns deadline, struct tp_error *err)
{
    telpher_status status = send_line(command, err);
    const size_t want = strlen(answer);
    char *end = NULL;

    pmi.len = 0;
    while (status == TELPHER_OK && end == NULL) {
        status = read_more(deadline, err);
        end = memchr(pmi.line, '\n', pmi.len);
    }
    if (status != TELPHER_OK) {
        pmi.broken = true;
        return status;
    }
    *end = '\0';
    if (strncmp(pmi.line, "cmd=", 4) != 0 || strncmp(pmi.line + 4, answer, want) != 0) {
        return tp_error_set(err, TELPHER_ERR_PROTO,
                            "the launcher answered \"%.80s\", not %s (PMI-1)", pmi.line,
                            answer);
    }
    return TELPHER_OK;
}

/* The value of "name=" in the last answer, "" if there is none; ends at a blank. */
static const char *
field(const char *name)
{
    const size_t len = strlen(name);

    for (char *at = pmi.line; (at = strchr(at, ' ')) != NULL;) {
        at++;
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            at += len + 1;
            at[strcspn(at, " ")] = '\0';
            return at;
        }
    }
    return "";
}

/* ---- data of the ranks ---- */

static telpher_status
put_part(uint32_t rank, const uint8_t *mine, size_t len, tp_ns deadline,
         struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    for (size_t at = 0; at < len && status == TELPHER_OK; at += PIECE) {
        char digits[TP_HEX_SIZE(PIECE)], line[LINE];

        tp_hex_encode(digits, mine + at, TP_MIN(len - at, (size_t)PIECE));
        (void)snprintf(line, sizeof(line),
                       "cmd=put kvsname=%s key=telpher-%u-%u-%zu value=%s\n", pmi.kvs,
                       pmi.gathers, rank, at / PIECE, digits);
        status = ask(line, "put_result", deadline, err);
        if (status == TELPHER_OK && strcmp(field("rc"), "0") != 0) {
            status = tp_error_set(
                err, TELPHER_ERR_IO,
                "the launcher refused this rank's address: put failed with rc "
                "%.20s (PMI-1)",
                field("rc"));
        }
    }
    return status;
}

static telpher_status
get_part(uint32_t rank, uint8_t *dst, size_t len, tp_ns deadline, struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    for (size_t at = 0; at < len && status == TELPHER_OK; at += PIECE) {
        char line[LINE];

        (void)snprintf(line, sizeof(line), "cmd=get kvsname=%s key=telpher-%u-%u-%zu\n",
                       pmi.kvs, pmi.gathers, rank, at / PIECE);
        status = ask(line, "get_result", deadline, err);
        if (status == TELPHER_OK &&
            tp_hex_decode(dst + at, TP_MIN(len - at, (size_t)PIECE), field("value")) !=
                TELPHER_OK) {
            status = tp_error_set(err, TELPHER_ERR_PROTO,
                                  "the launcher has nothing from rank %u (PMI): does "
                                  "every rank create its context?",
                                  rank);
        }
    }
    return status;
}

static telpher_status
gather_pmi(struct tp_bootstrap *boot, const void *mine, size_t len, void *all,
           struct tp_error *err)
{
    telpher_status status = put_part(boot->rank, mine, len, boot->deadline, err);

    if (status == TELPHER_OK) {
        status = ask("cmd=barrier_in\n", "barrier_out", boot->deadline, err);
    }
    for (uint32_t r = 0; r < boot->size && status == TELPHER_OK; r++) {
        status = get_part(r, (uint8_t *)all + r * len, len, boot->deadline, err);
    }
    pmi.gathers++;
    return status;
}

/* ---- the session ---- */

/* Does not wait for an answer: MPI may have ended the session already. */
static void finalize(void) __attribute__((destructor));

static void
finalize(void)
{
    struct tp_error err;

    if (pmi.open && !pmi.broken) {
        (void)ask("cmd=finalize\n", "finalize_ack", tp_clock_deadline(TP_CLOCK_S),
                  &err);
    }
}

/* A child of fork() must not end its parent's session. */
static void
forget(void)
{
    pmi.open = false;
    pmi.broken = true;
}

static bool
mpi_is_running(void)
{
    union {
        void *symbol;
        int (*function)(int *flag);
    } initialized = {.symbol = dlsym(RTLD_DEFAULT, "MPI_Initialized")};
    int flag = 0;

    return initialized.symbol != NULL && initialized.function(&flag) == 0 && flag != 0;
}

static telpher_status
open_session(tp_ns deadline, struct tp_error *err)
{
    telpher_status status;

    pmi.fd =
        /* NOLINT(cert-err34-c): an invalid number fails as a descriptor */
        atoi(getenv("PMI_FD"));
    status = ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init",
                 deadline, err);
    if (status == TELPHER_OK && strcmp(field("rc"), "0") != 0) {
        status = tp_error_set(err, TELPHER_ERR_VERSION, "the launcher has no PMI 1.1");
    }
    if (status == TELPHER_OK) {
        status = ask("cmd=get_my_kvsname\n", "my_kvsname", deadline, err);
        (void)snprintf(pmi.kvs, sizeof(pmi.kvs), "%s", field("kvsname"));
    }
    if (status == TELPHER_OK) {
        pmi.open = true;
        (void)pthread_atfork(NULL, NULL, forget);
    }
    return status;
}

static void
close_pmi(struct tp_bootstrap *boot)
{
    (void)boot; /* the session lasts as long as the process: see the top of the file */
}

telpher_status
tp_pmi_open(struct tp_bootstrap *boot, struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    if (mpi_is_running()) {
        return tp_error_set(
            err, TELPHER_ERR_BUSY,
            "this process's MPI uses the launcher's connection (PMI_FD): "
            "create the context from a communicator, with "
            "telpher_context_create_mpi() of telpher/interop/mpi.h");
    }
    if (pmi.broken) {
        return tp_error_set(err, TELPHER_ERR_IO,
                            "the connection to the launcher (PMI_FD) failed before");
    }
    if (!pmi.open) {
        status = open_session(boot->deadline, err);
    }
    boot->gather = gather_pmi;
    boot->close = close_pmi;
    return status;
}
