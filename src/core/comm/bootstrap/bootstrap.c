/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a rank its number and an allgather with the others: by the caller's bootstrap,
 * by a bootstrap server, or by the launcher (launcher.c). Without any the job has one
 * rank.
 */
#include <stdlib.h>

#include "base/params.h"
#include "base/text/hex.h"
#include "core/comm/bootstrap/launcher.h"
#include "core/comm/bootstrap/server.h"
#include "core/comm/settings.h"
#include "waist/transport.h"

#define ROOT_GRACE (2 * TP_CLOCK_S) /* the server's own error should arrive first */

enum { TAG_MAX_LEAST = 255 }; /* of telpher_two_sided */

/* ---- one rank ---- */

static telpher_status
gather_alone(struct tp_bootstrap *boot, const void *mine, size_t len, void *all,
             struct tp_error *err)
{
    memcpy(all, mine, len);
    return TELPHER_OK;
}

static void
close_nothing(struct tp_bootstrap *boot)
{
}

/* ---- the caller's bootstrap ---- */

static telpher_status
gather_user(struct tp_bootstrap *boot, const void *mine, size_t len, void *all,
            struct tp_error *err)
{
    telpher_status status = boot->user->allgather(boot->user->user, mine, len, all);

    return status == TELPHER_OK
               ? status
               : tp_error_set(err, status,
                              "telpher_bootstrap.allgather() of rank %u of %u failed "
                              "on %zu bytes: %s",
                              boot->rank, boot->size, len, telpher_status_text(status));
}

static telpher_status
check_two_sided(const telpher_two_sided *calls, struct tp_error *err)
{
    if (!tp_params_size_is_valid(calls->struct_size, sizeof(*calls))) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "the bootstrap's two_sided has struct_size %u, not %zu",
                            calls->struct_size, sizeof(*calls));
    }
    if (calls->tag_max < TAG_MAX_LEAST) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "the bootstrap's two_sided has tags up to %u, %d is the "
                            "least",
                            calls->tag_max, TAG_MAX_LEAST);
    }
    return TELPHER_OK;
}

/* Its message functions are used if struct_size includes them. */
static telpher_status
check_user(struct tp_bootstrap *boot, struct tp_error *err)
{
    const telpher_bootstrap *user = boot->user;
    telpher_status status = TELPHER_OK;

    if (!tp_params_size_is_valid(user->struct_size,
                                 offsetof(telpher_bootstrap, two_sided))) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "the bootstrap has struct_size %u, not %zu: set it to "
                            "sizeof(telpher_bootstrap)",
                            user->struct_size, sizeof(*user));
    }
    if (user->struct_size >=
        offsetof(telpher_bootstrap, two_sided) + sizeof(user->two_sided)) {
        boot->two_sided = user->two_sided;
    }
    if (boot->two_sided != NULL) {
        status = check_two_sided(boot->two_sided, err);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    return boot->rank < boot->size ? TELPHER_OK
                                   : tp_error_set(err, TELPHER_ERR_INVALID,
                                                  "the bootstrap has rank %u of %u",
                                                  boot->rank, boot->size);
}

/* ---- a bootstrap server ---- */

static telpher_status
explain(struct tp_bootstrap *boot, const struct tp_bootstrap_server_answer *answer,
        struct tp_error *err)
{
    char words[200] = "";
    size_t len = (size_t)TP_MIN(answer->len, (uint64_t)sizeof(words) - 1);

    if (answer->status >= 0 ||
        tp_conn_recv_all(boot->conn, words, len, boot->deadline) != TELPHER_OK) {
        return tp_error_set(
            err, TELPHER_ERR_PROTO,
            "the bootstrap server sent a malformed answer: status %d, %llu "
            "bytes; is it of this version?",
            answer->status, (unsigned long long)answer->len);
    }
    return tp_error_set(err, answer->status, "starting a job of %u ranks: %s",
                        boot->size, words);
}

static telpher_status
gather_root(struct tp_bootstrap *boot, const void *mine, size_t len, void *all,
            struct tp_error *err)
{
    struct tp_bootstrap_server_answer answer;
    uint32_t part = (uint32_t)len;
    telpher_status status =
        tp_conn_send_all(boot->conn, &part, sizeof(part), boot->deadline);

    if (status == TELPHER_OK) {
        status = tp_conn_send_all(boot->conn, mine, len, boot->deadline);
    }
    if (status == TELPHER_OK) {
        status = tp_conn_recv_all(boot->conn, &answer, sizeof(answer), boot->deadline);
    }
    if (status != TELPHER_OK) {
        return tp_error_set(err, status,
                            status == TELPHER_ERR_TIMEOUT
                                ? "no answer in time: has every rank of TELPHER_SIZE "
                                  "started? TELPHER_START_TIMEOUT is the time"
                                : "it closed the connection: is TELPHER_JOB the same "
                                  "in all ranks, and does the launcher still run?");
    }
    if (answer.status != TELPHER_OK || answer.len != (uint64_t)boot->size * len) {
        return explain(boot, &answer, err);
    }
    return tp_conn_recv_all(boot->conn, all, (size_t)answer.len, boot->deadline);
}

static void
close_root(struct tp_bootstrap *boot)
{
    tp_conn_destroy(boot->conn);
    telpher_root_stop(boot->root);
}

static telpher_status
read_number(const char *name, const char *text, uint32_t max, uint32_t *ret_value,
            struct tp_error *err)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value > max) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "%s is \"%s\", not a number up to %u", name, text, max);
    }
    *ret_value = (uint32_t)value;
    return TELPHER_OK;
}

static telpher_status
say_hello(struct tp_bootstrap *boot, const char *job, struct tp_error *err)
{
    struct tp_bootstrap_server_hello hello = {.rank = boot->rank, .size = boot->size};

    memcpy(hello.magic, TP_BOOTSTRAP_MAGIC, sizeof(hello.magic));
    if (tp_hex_decode(hello.job, sizeof(hello.job), job) != TELPHER_OK) {
        return tp_error_set(
            err, TELPHER_ERR_INVALID,
            "TELPHER_JOB must be %d hexadecimal digits, the same in all "
            "ranks",
            2 * TP_BOOTSTRAP_JOB_BYTES);
    }
    return tp_conn_send_all(boot->conn, &hello, sizeof(hello), boot->deadline);
}

/* Rank 0 may start later than others: retries until the deadline. */
static telpher_status
connect_root(struct tp_bootstrap *boot, const char *address, struct tp_error *err)
{
    telpher_status status;

    do {
        *err = (struct tp_error){0};
        status = tp_builtin_transports[0]->connect(address, boot->deadline, &boot->conn,
                                                   err);
        if (status == TELPHER_ERR_REFUSED || status == TELPHER_ERR_UNREACHABLE) {
            tp_clock_sleep(20 * TP_CLOCK_MS);
        }
    } while ((status == TELPHER_ERR_REFUSED || status == TELPHER_ERR_UNREACHABLE) &&
             !tp_clock_passed(boot->deadline));
    return status != TELPHER_OK ? tp_error_prefix(err, "the root at %s", address)
                                : TELPHER_OK;
}

static telpher_status
open_root(const struct tp_comm_settings *s, tp_ns timeout, struct tp_bootstrap *boot,
          struct tp_error *err)
{
    telpher_status status =
        read_number("TELPHER_SIZE", s->size, TP_BOOTSTRAP_RANKS_MAX, &boot->size, err);

    if (status != TELPHER_OK) {
        return status;
    }
    if (boot->size == 0) {
        return tp_error_set(
            err, TELPHER_ERR_INVALID,
            "TELPHER_SIZE is 0: set it to the number of ranks of the job");
    }
    status = read_number("TELPHER_RANK", s->rank, boot->size - 1, &boot->rank, err);
    if (status != TELPHER_OK) {
        return status;
    }
    if (s->root_by != 0 && boot->rank == 0) {
        status = tp_bootstrap_server_start(s->root, boot->size, s->job, timeout,
                                           &boot->root, err);
        if (status != TELPHER_OK) {
            goto err_close;
        }
    }
    status = connect_root(boot, s->root, err);
    if (status != TELPHER_OK) {
        goto err_close;
    }
    status = say_hello(boot, s->job, err);
    if (status != TELPHER_OK) {
        goto err_close;
    }
    boot->gather = gather_root;
    boot->close = close_root;
    return TELPHER_OK;

err_close:
    close_root(boot);
    return status;
}

telpher_status
tp_bootstrap_open(const telpher_context_params *params,
                  const struct tp_comm_settings *s, struct tp_bootstrap *boot,
                  struct tp_error *err)
{
    tp_ns timeout = params->timeout_ns != 0 ? params->timeout_ns : s->start_ns;

    *boot = (struct tp_bootstrap){
        .size = 1,
        .gather = gather_alone,
        .close = close_nothing,
        .deadline = tp_clock_add(tp_clock_deadline(timeout), ROOT_GRACE)};
    if (params->bootstrap != NULL) {
        boot->user = params->bootstrap;
        boot->rank = boot->user->rank;
        boot->size = boot->user->size;
        boot->gather = gather_user;
        return check_user(boot, err);
    }
    if (s->root[0] != '\0') {
        return open_root(s, timeout, boot, err);
    }
    /* no server reports which ranks are missing */
    boot->deadline = tp_clock_deadline(timeout);
    return tp_launcher_open(boot, err);
}
