/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps memory that a client on this machine shares, with pieces that hold content or receive
 * it (docs/protocol.md 5.6). The memory is untrusted: offsets and sizes come in frames, and
 * content passes to and from the driver unread. The file is sealed against shrinking, which
 * would raise SIGBUS in the driver.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "daemon/executor/events.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/messages.h"
#include "daemon/executor/transfer/shared_memory.h"

enum {
    REGIONS_MAX = 1024,
    TMPFS =
        0x01021994, /* of statfs(2): pages are there when touched, or memory is out */
};

/** A mapped shared file; mapped while a piece of it is in use or pinned. */
struct tp_exec_region {
    struct tp_list dead_link; /**< pins->dead */
    struct tp_exec *x;
    uint8_t *memory;
    uint64_t size;
    struct tp_refcount refs; /**< users of its content */
    struct tp_refcount maps; /**< one for all of refs together, and one per pin */
};

void
tp_exec_region_ref_memory(struct tp_exec_region *r)
{
    tp_refcount_get(&r->maps);
}

void
tp_exec_region_unref_memory(struct tp_exec_region *r)
{
    if (tp_refcount_put(&r->maps)) {
        (void)munmap(r->memory, r->size);
        tp_free(r);
    }
}

void
tp_exec_region_unref(struct tp_exec_region *r)
{
    if (r != NULL && tp_refcount_put(&r->refs)) {
        struct tp_exec *x = r->x;

        tp_mutex_lock(&x->pins.lock);
        tp_list_push_back(&x->pins.dead, &r->dead_link);
        tp_mutex_unlock(&x->pins.lock);
        tp_exec_wake(x);
    }
}

void
tp_exec_regions_reap(struct tp_exec *x)
{
    struct tp_list dead, *link;

    tp_list_init(&dead);
    tp_mutex_lock(&x->pins.lock);
    tp_list_splice_back(&dead, &x->pins.dead);
    tp_mutex_unlock(&x->pins.lock);
    while ((link = tp_list_pop_front(&dead)) != NULL) {
        struct tp_exec_region *r =
            tp_list_entry(link, struct tp_exec_region, dead_link);

        tp_exec_unpin_region(x, r);
        tp_exec_region_unref_memory(r);
    }
}

void *
tp_exec_region_memory(const struct tp_exec_region *r, uint64_t *ret_size)
{
    *ret_size = r->size;
    return r->memory;
}

bool
tp_exec_file_is_proper(int fd, uint64_t size)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct statfs fs;
    struct stat st;

    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &st) == 0 &&
           S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size >= size &&
           fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS;
}

static telpher_status
map_region(struct tp_exec *x, int fd, uint64_t size, struct tp_exec_region **ret_region)
{
    struct tp_exec_region *r;
    void *memory;

    if (!tp_exec_file_is_proper(fd, size)) {
        return TELPHER_ERR_INVALID;
    }
    r = tp_zalloc(sizeof(*r), "region");
    if (r == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        tp_free(r);
        return TELPHER_ERR_NO_MEMORY;
    }
    r->x = x;
    r->memory = memory;
    r->size = size;
    tp_list_init(&r->dead_link);
    tp_refcount_init(&r->refs);
    tp_refcount_init(&r->maps);
    *ret_region = r;
    return TELPHER_OK;
}

/* Maps the file of a SHARE and adds it to the table. */
static telpher_status
enter_region(struct tp_exec *x, const struct tp_wire_share *m, int fd)
{
    struct tp_exec_region *r;
    telpher_status status;

    if (tp_map_count(&x->regions) >= REGIONS_MAX) {
        return TELPHER_ERR_LIMIT;
    }
    status = map_region(x, fd, m->size, &r);
    if (status != TELPHER_OK) {
        return status;
    }
    status = tp_map_put(&x->regions, m->region, r);
    if (status != TELPHER_OK) {
        tp_exec_region_unref(r);
        return status;
    }
    tp_exec_pin_region(x, r);
    return TELPHER_OK;
}

telpher_status
tp_exec_on_share(struct tp_exec *x, const struct tp_wire_share *m)
{
    struct tp_wire_share_reply reply = {.region = m->region};
    int fd = tp_stream_take_fd(x->stream);

    if (m->size == 0 || m->size > TP_WIRE_REGION_MAX ||
        tp_map_get(&x->regions, m->region) != NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return TELPHER_ERR_PROTO;
    }
    reply.status = TELPHER_ERR_INVALID;
    if (fd >= 0) {
        reply.status = enter_region(x, m, fd);
        (void)close(fd);
    }
    if (reply.status != TELPHER_OK) {
        tp_info("executor", "memory of the client is not shared: %s",
                telpher_status_text(reply.status));
    }
    tp_exec_put(x, TP_WIRE_SHARE_REPLY, &reply);
    return TELPHER_OK;
}

telpher_status
tp_exec_on_unshare(struct tp_exec *x, const struct tp_wire_unshare *m)
{
    tp_exec_region_unref(tp_map_remove(&x->regions, m->region));
    tp_exec_regions_reap(x);
    return TELPHER_OK;
}

/* ---- pieces ---- */

static void
drop_stash(struct tp_exec *x)
{
    tp_exec_region_unref(x->stash.hold);
    x->stash = (struct tp_exec_transfer_piece){0};
    x->stash_transfer = 0;
}

/*
 * Adds a piece to its transfer if that is known. Otherwise the piece is the whole content of
 * the next command.
 */
telpher_status
tp_exec_on_piece(struct tp_exec *x, const struct tp_wire_piece *m)
{
    struct tp_exec_region *r = tp_map_get(&x->regions, m->region);
    struct tp_exec_transfer_piece piece = {m->offset, m->len, NULL, r};
    telpher_status status;

    if (r == NULL || m->len == 0 || m->len > r->size || m->at > r->size - m->len) {
        return TELPHER_ERR_PROTO;
    }
    piece.memory = r->memory + m->at;
    tp_refcount_get(&r->refs);
    status = tp_exec_transfers_piece(x->transfers, m->transfer, &piece);
    if (status == TELPHER_ERR_NOT_FOUND) {
        drop_stash(x);
        x->stash = piece;
        x->stash_transfer = m->transfer;
        return TELPHER_OK;
    }
    if (status != TELPHER_OK) {
        tp_exec_region_unref(r);
    }
    return status;
}

bool
tp_exec_take_piece(struct tp_exec *x, uint64_t transfer, uint64_t size,
                   struct tp_exec_event *ev)
{
    if (x->stash.hold == NULL || x->stash_transfer != transfer ||
        x->stash.offset != 0 || x->stash.len != size) {
        return false;
    }
    ev->content = x->stash.memory;
    ev->region = x->stash.hold;
    x->stash.hold = NULL;
    return true;
}
