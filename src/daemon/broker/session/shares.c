/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each session a slot in the page of device time, with the weight of its user. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/memfd.h"
#include "base/trace/log.h"
#include "daemon/broker/admin/figures.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/session/sessions.h"
#include "daemon/broker/session/shares.h"

enum {
    ENDING_SLOTS = 64, /* of sessions that do not count any more */
    SHARE_FD_MIN = 16, /* above the descriptors that children get */
};

/* Parses USER=WEIGHT. @return false: it is not that */
static bool
parse_share(const char *item, size_t *ret_user_len, uint32_t *ret_weight)
{
    const char *sign = strrchr(item, '=');
    unsigned long weight;
    char *end;

    if (sign == NULL || sign == item || sign[1] < '0' || sign[1] > '9') {
        return false;
    }
    weight = strtoul(sign + 1, &end, 10);
    *ret_user_len = (size_t)(sign - item);
    *ret_weight = (uint32_t)weight;
    return *end == '\0' && weight >= 1 && weight <= TP_SHARE_WEIGHT_MAX;
}

telpher_status
tp_broker_shares_check(const struct tp_daemon_options *o, struct tp_error *err)
{
    for (size_t i = 0; i < o->share.count; i++) {
        uint32_t weight;
        size_t len;

        if (!parse_share(o->share.items[i], &len, &weight)) {
            return tp_error_set(
                err, TELPHER_ERR_INVALID,
                "--share %s: not USER=WEIGHT with a weight from 1 to %d",
                o->share.items[i], TP_SHARE_WEIGHT_MAX);
        }
    }
    return TELPHER_OK;
}

telpher_status
tp_broker_shares_restore(struct tp_broker *b, int fd, uint32_t count,
                         struct tp_error *err)
{
    telpher_status status = tp_share_map(&b->share, fd, count);

    b->share_fd = fd;
    b->share.taken = tp_zalloc(count, "shares");
    if (status == TELPHER_OK && b->share.taken == NULL) {
        status = TELPHER_ERR_NO_MEMORY;
    }
    return status == TELPHER_OK
               ? status
               : tp_error_set(err, status,
                              "cannot map the shares of device time of %u sessions: %s",
                              count, telpher_status_text(status));
}

telpher_status
tp_broker_shares_open(struct tp_broker *b, struct tp_error *err)
{
    uint32_t count = (uint32_t)b->options->max_sessions + ENDING_SLOTS;
    telpher_status status = tp_broker_shares_check(b->options, err);
    int fd, high;

    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_memfd_create("telpher-share", tp_share_size(count), &fd);
    if (status != TELPHER_OK) {
        return tp_error_set(
            err, status,
            "no memory file for the shares of device time of %u sessions: "
            "%s; --max-sessions decides its size",
            count, telpher_status_text(status));
    }
    high = fcntl(fd, F_DUPFD_CLOEXEC, SHARE_FD_MIN);
    (void)close(fd);
    return high < 0 ? tp_error_set_errno(err, errno,
                                         "no descriptor for the shares of device time")
                    : tp_broker_shares_restore(b, high, count, err);
}

/* True if USER of an item names the owner: as it is written, or a user by its name. */
static bool
names_owner(const char *user, size_t len, const char *owner)
{
    char name[256];
    const struct passwd *entry;

    if (strlen(owner) == len && strncmp(user, owner, len) == 0) {
        return true;
    }
    if (strncmp(owner, "user ", 5) != 0 || len >= sizeof(name)) {
        return false;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)len, user);
    if (strcmp(owner + 5, name) == 0) {
        return true;
    }
    entry = getpwnam(name); /* NOLINT(concurrency-mt-unsafe): one thread */
    return entry != NULL && entry->pw_uid == strtoul(owner + 5, NULL, 10);
}

static uint32_t
weight_of(const struct tp_daemon_options *o, const char *owner)
{
    uint32_t weight = 1, found;
    size_t len;

    for (size_t i = 0; i < o->share.count; i++) {
        if (parse_share(o->share.items[i], &len, &found) &&
            names_owner(o->share.items[i], len, owner)) {
            weight = found;
        }
    }
    return weight;
}

/* Finds the counters of a user: those of another session, else unused ones. */
static uint32_t
find_user(struct tp_broker *b, const char *owner)
{
    char other[TP_TLS_WHO_BYTES];
    uint32_t i = 0;
    bool used;

    tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
        tp_broker_owner_of(s, other, sizeof(other));
        if (s->share_slot != UINT32_MAX && strcmp(other, owner) == 0) {
            return s->share_user;
        }
    }
    do {
        used = false;
        tp_list_for_each_entry(struct tp_broker_session, s, &b->sessions, link) {
            used = used || (s->share_slot != UINT32_MAX && s->share_user == i);
        }
    } while (used && ++i < b->share.slot_count);
    if (i < b->share.slot_count) {
        memset(b->share.users[i], 0, sizeof(b->share.users[i]));
    }
    return i;
}

void
tp_broker_share_take(struct tp_broker *b, struct tp_broker_session *s)
{
    char owner[TP_TLS_WHO_BYTES];

    if (b->share.slots == NULL) {
        return;
    }
    tp_broker_owner_of(s, owner, sizeof(owner));
    s->share_user = find_user(b, owner);
    s->share_slot =
        tp_share_take(&b->share, s->share_user, weight_of(b->options, owner));
    if (s->share_slot == b->share.slot_count) {
        s->share_slot = UINT32_MAX;
        tp_warn("broker",
                "a session of user %s does not share device time: all %u slots are in "
                "use, because sessions are still ending",
                owner, b->share.slot_count);
    }
}

void
tp_broker_share_restore(struct tp_broker *b, struct tp_broker_session *s)
{
    char owner[TP_TLS_WHO_BYTES];

    if (s->share_slot >= b->share.slot_count) {
        s->share_slot = UINT32_MAX;
        return;
    }
    tp_broker_owner_of(s, owner, sizeof(owner));
    b->share.taken[s->share_slot] = true;
    atomic_store(&b->share.slots[s->share_slot].weight, weight_of(b->options, owner));
}

void
tp_broker_share_free(struct tp_broker *b, struct tp_broker_session *s)
{
    if (s->share_slot != UINT32_MAX) {
        tp_broker_figures_add_ended(b, s);
        /* the executor may have changed the number */
        b->share.slots[s->share_slot].user = s->share_user;
        tp_share_free(&b->share, s->share_slot);
        s->share_slot = UINT32_MAX;
    }
}
