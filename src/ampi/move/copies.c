/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of processes on several hosts, each with a folder of its own: all processes tell each
 * other which parts their folders have, agree on the copies, and send each other files in chunks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/move/copies.h"
#include "ampi/process.h"
#include "base/alloc.h"
#include "base/trace/log.h"

enum { CHUNK = 1 << 20 };

/** Precedes a file. Its chunks follow on a channel; an empty one says that no more can be read. */
struct file_head {
    uint64_t generation, len;
};

struct file_copy {
    telpher_channel *channel;
    uint32_t process, id; /* id: of the channel */
    bool sends, failed;
    uint32_t part;
    uint64_t generation, left;
    int fd; /* -1: what is received is dropped */
    uint8_t chunk[CHUNK];
};

static struct tp_mdr_found *found; /* by process; empty until the first survey */
static const char *folder; /* of the checkpoint */
static uint32_t received, incomplete; /* copies; those that are not there */

static struct tp_mdr_found *
all_found(void)
{
    if (found == NULL) {
        found = tp_alloc_array(tp_ampi.processes, sizeof(*found), "MPI checkpoint");
    }
    if (found == NULL) {
        tp_ampi_abort(MPI_ERR_NO_MEM); /* a process that went on would plan otherwise */
    }
    return found;
}

/* ---- which parts are where ---- */

void
tp_ampi_copies_found(uint32_t process, const void *data)
{
    memcpy(&all_found()[process], data, sizeof(struct tp_mdr_found));
}

void
tp_ampi_copies_begin(const char *of_folder)
{
    folder = of_folder;
    received = incomplete = 0;
}

/* Before the first meeting all processes have used the results of the last survey; at the second
 * all have received the lists of the others. */
const struct tp_mdr_found *
tp_ampi_copies_survey(uint64_t below)
{
    struct tp_mdr_found *mine = &all_found()[tp_ampi.process];

    tp_ampi_quiet_meet();
    tp_mdr_list_parts(folder, below, mine);
    for (uint32_t p = 0; p < tp_ampi.processes; p++) {
        if (p != tp_ampi.process) {
            tp_ampi_quiet_send(p, TP_AMPI_FOUND, 0, 0, mine, sizeof(*mine));
        }
    }
    tp_ampi_quiet_meet();
    return found;
}

/* ---- one file ---- */

static void step(struct file_copy *c);

static void
lose(uint32_t process, telpher_status status)
{
    tp_error("ampi", "cannot copy a part of a checkpoint from or to process %u: %s",
             process, telpher_status_text(status));
    tp_ampi_abort(1);
}

static void
part_name(char path[TP_MDR_PATH_BYTES], const struct file_copy *c, const char *suffix)
{
    (void)tp_mdr_part_name(path, folder, c->generation, c->part, tp_ampi.world_size,
                           suffix);
}

/* A file gets its name when it is complete. */
static void
keep_file(struct file_copy *c)
{
    char temporary[TP_MDR_PATH_BYTES], path[TP_MDR_PATH_BYTES];

    part_name(temporary, c, "new");
    part_name(path, c, "mdr");
    if (!c->failed && (fsync(c->fd) != 0 || rename(temporary, path) != 0)) {
        tp_error("ampi", "cannot write %s: %s", path, strerror(errno));
        c->failed = true;
    }
    if (c->failed) {
        (void)unlink(temporary);
    }
    incomplete += c->failed;
    received++;
}

static void
end(struct file_copy *c)
{
    if (!c->sends) {
        keep_file(c);
        tp_ampi_channel_release(c->process, c->id, true);
    }
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    tp_ampi.transfers--;
    tp_free(c);
}

/* A host without memory receives the rest all the same, and drops it. */
static void
take_chunk(struct file_copy *c, size_t len)
{
    if (len == 0 || len > c->left) {
        c->failed = true;
        c->left = 0;
        return;
    }
    c->left -= len;
    for (size_t at = 0; at < len && !c->failed;) {
        ssize_t wrote = write(c->fd, c->chunk + at, len - at);

        if (wrote <= 0) {
            char path[TP_MDR_PATH_BYTES];

            part_name(path, c, "new");
            tp_error("ampi", "cannot write %s: %s", path, strerror(errno));
            c->failed = true;
        }
        at += wrote > 0 ? (size_t)wrote : 0;
    }
}

static void
ended(void *user, telpher_status status, size_t len)
{
    struct file_copy *c = user;

    if (status != TELPHER_OK) {
        lose(c->process, status);
    }
    if (!c->sends) {
        take_chunk(c, len);
    }
    step(c);
}

static telpher_status
send_chunk(struct file_copy *c, const telpher_xfer_params *xfer)
{
    ssize_t got = read(c->fd, c->chunk, (size_t)TP_MIN(c->left, (uint64_t)CHUNK));

    if (got <= 0) {
        tp_error("ampi", "cannot read part %u of a checkpoint in %s: %s", c->part,
                 folder, got == 0 ? "it is short" : strerror(errno));
        c->left = 0;
        return telpher_channel_send(c->channel, c->chunk, 0, xfer, NULL);
    }
    c->left -= (size_t)got;
    return telpher_channel_send(c->channel, c->chunk, (size_t)got, xfer, NULL);
}

/* One chunk after the other. */
static void
step(struct file_copy *c)
{
    const telpher_xfer_params xfer = {
        .struct_size = sizeof(xfer), .on_done = ended, .user = c};

    while (c->left != 0) {
        size_t len = 0;
        telpher_status status =
            c->sends
                ? send_chunk(c, &xfer)
                : telpher_channel_recv(c->channel, c->chunk, CHUNK, &xfer, NULL, &len);

        if (status == TELPHER_IN_PROGRESS) {
            return;
        }
        if (status != TELPHER_OK) {
            lose(c->process, status);
        }
        if (!c->sends) {
            take_chunk(c, len);
        }
    }
    end(c);
}

static struct file_copy *
begin(uint32_t process, uint32_t id, bool sends)
{
    struct file_copy *c = tp_zalloc(sizeof(*c), "copy of a checkpoint");
    telpher_channel *channel =
        id != UINT32_MAX ? tp_ampi_channel_get(process, id) : NULL;

    if (c == NULL || channel == NULL) {
        lose(process, TELPHER_ERR_NO_MEMORY);
    }
    c->channel = channel;
    c->process = process;
    c->id = id;
    c->sends = sends;
    tp_ampi.transfers++;
    return c;
}

static void
send_file(uint32_t process, uint64_t generation, uint32_t part)
{
    uint32_t id = tp_ampi_channel_take(process, NULL);
    struct file_copy *c = begin(process, id, true);
    struct file_head head = {.generation = generation};
    char path[TP_MDR_PATH_BYTES];
    off_t len;

    c->part = part;
    c->generation = generation;
    part_name(path, c, "mdr");
    c->fd = open(path, O_RDONLY | O_CLOEXEC);
    len = c->fd >= 0 ? lseek(c->fd, 0, SEEK_END) : -1;
    if (len > 0 && lseek(c->fd, 0, SEEK_SET) == 0) {
        head.len = c->left = (uint64_t)len;
    } else {
        tp_error("ampi", "cannot read %s: %s", path, strerror(errno));
    }
    tp_ampi_quiet_send(process, TP_AMPI_COPY, part, id, &head, sizeof(head));
    step(c);
}

void
tp_ampi_copies_receive(uint32_t process, const struct tp_ampi_envelope *env,
                       const void *data)
{
    const struct file_head *head = data;
    struct file_copy *c = begin(process, env->id, false);
    char path[TP_MDR_PATH_BYTES];

    if (env->len != sizeof(*head) || env->to >= tp_ampi.world_size || folder == NULL) {
        lose(process, TELPHER_ERR_PROTO);
    }
    c->part = env->to;
    c->generation = head->generation;
    c->left = head->len;
    part_name(path, c, "new");
    c->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    c->failed = c->fd < 0 || head->len == 0;
    if (c->fd < 0) {
        tp_error("ampi", "cannot write %s: %s", path, strerror(errno));
    }
    step(c);
}

/* ---- all copies ---- */

/* The process that copy number @p part goes to, from *ret_from; itself: there is none. */
typedef uint32_t (*plan_fn)(uint64_t generation, uint32_t part, uint32_t *ret_from);

static bool
copy_parts(uint64_t generation, plan_fn plan)
{
    uint32_t expected = 0;

    for (uint32_t part = 0; part < tp_ampi.world_size; part++) {
        uint32_t from = 0, to = plan(generation, part, &from);

        if (from != to && from == tp_ampi.process) {
            send_file(to, generation, part);
        }
        expected += from != to && to == tp_ampi.process;
    }
    while (received != expected || tp_ampi.transfers != 0) {
        tp_ampi_quiet_progress();
    }
    return tp_ampi_quiet_agree(incomplete == 0);
}

static uint32_t
plan_buddy(uint64_t generation, uint32_t part, uint32_t *ret_from)
{
    (void)generation;
    *ret_from = tp_ampi.places[part].process;
    return tp_mdr_buddy_of(found, tp_ampi.processes, *ret_from);
}

static uint32_t
plan_missing(uint64_t generation, uint32_t part, uint32_t *ret_from)
{
    uint32_t to = tp_ampi.places[part].process;

    *ret_from = tp_mdr_has_part(&found[to], generation, part)
                    ? to
                    : tp_mdr_holder_of(found, tp_ampi.processes, generation, part);
    return to;
}

bool
tp_ampi_copies_keep(uint64_t generation)
{
    return copy_parts(generation, plan_buddy);
}

bool
tp_ampi_copies_fetch(uint64_t generation)
{
    return copy_parts(generation, plan_missing);
}
