/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of shared memory: each is an unnamed file whose descriptor is sent to the
 * executor with a SHARE frame. A region is not used before the executor has confirmed it.
 */
#include "icd/session/shared_memory.h"
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/trace/log.h"

enum { REGIONS_MAX = 256 };

struct tp_icd_region {
    struct tp_list link;
    uint32_t id;
    uint8_t *memory;
    uint64_t size;
    int fd; /**< -1: sent */
    bool sending; /**< its SHARE is being sent, without the lock */
    bool freed; /**< freed while its SHARE was being sent */
    bool ready; /**< the executor has it */
};

/* ---- regions ------------------------------------------------------------------------- */

/** Creates a file sealed against shrinking; the executor rejects any other. */
static int
make_file(uint64_t size)
{
    int fd = memfd_create("telpher", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 &&
        (ftruncate(fd, (off_t)size) != 0 ||
         fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void
region_destroy(struct tp_icd_region *r)
{
    if (r->memory != NULL) {
        munmap(r->memory, r->size);
    }
    tp_descriptor_close(r->fd);
    tp_free(r);
}

static struct tp_icd_region *
region_create(struct tp_icd_session *session, uint64_t size)
{
    static _Atomic uint32_t last_id;
    struct tp_icd_region *r;
    void *memory;

    if (session->share.region_count == REGIONS_MAX || size > TP_WIRE_REGION_MAX) {
        return NULL;
    }
    r = tp_zalloc(sizeof(*r), "region");
    if (r == NULL) {
        return NULL;
    }
    r->id = atomic_fetch_add(&last_id, 1) + 1;
    r->size = size;
    r->fd = make_file(size);
    memory = r->fd < 0 ? MAP_FAILED
                       : mmap(NULL, size, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE, r->fd, 0);
    if (memory == MAP_FAILED) {
        region_destroy(r);
        return NULL;
    }
    r->memory = memory;
    tp_list_push_back(&session->share.regions, &r->link);
    session->share.region_count++;
    session->share.unsent = true;
    return r;
}

void
tp_icd_share_init(struct tp_icd_session *session, bool can)
{
    session->share.can = can;
    tp_list_init(&session->share.regions);
    tp_list_init(&session->share.turn);
    if (can) {
        unsigned slots =
            (unsigned)(tp_icd_settings.shared_memory_size / TP_ICD_SLOT_BYTES);

        session->share.arena =
            region_create(session, (uint64_t)slots * TP_ICD_SLOT_BYTES);
        session->share.used = slots == TP_ICD_SLOTS ? 0 : UINT64_MAX << slots;
    }
}

/** Finds a region whose SHARE is unsent; NULL: none. Lock held. */
static struct tp_icd_region *
next_unsent(struct tp_icd_session *session)
{
    tp_list_for_each_entry(struct tp_icd_region, r, &session->share.regions, link) {
        if (r->fd >= 0 && !r->sending) {
            r->sending = true;
            return r;
        }
    }
    session->share.unsent = false;
    return NULL;
}

static void
put_unshare(struct tp_icd_session *session, const struct tp_icd_region *r)
{
    tp_icd_put(session, TP_WIRE_UNSHARE, &(struct tp_wire_unshare){.region = r->id});
}

void
tp_icd_share_send(struct tp_icd_session *session)
{
    struct tp_icd_region *r;

    tp_icd_lock();
    while (!session->lost && (r = next_unsent(session)) != NULL) {
        struct tp_wire_share msg = {.region = r->id, .size = r->size};

        tp_icd_unlock();
        /* the next flush or read detects a broken stream */
        (void)tp_stream_send_fd(session->stream, TP_WIRE_SHARE, &msg, r->fd);
        tp_icd_lock();
        close(r->fd);
        r->fd = -1;
        r->sending = false;
        if (r->freed) {
            put_unshare(session, r);
            region_destroy(r);
        }
    }
    tp_icd_unlock();
}

void
tp_icd_share_on_reply(struct tp_icd_session *session,
                      const struct tp_wire_share_reply *msg)
{
    tp_list_for_each_entry(struct tp_icd_region, r, &session->share.regions, link) {
        if (r->id == msg->region) {
            r->ready = msg->status == TELPHER_OK;
        }
    }
    if (msg->status != TELPHER_OK) {
        tp_info("icd", "%s: memory is not shared: %s", session->server->address,
                telpher_status_text(msg->status));
    }
}

uint8_t *
tp_icd_share_alloc(struct tp_icd_session *session, size_t size)
{
    struct tp_icd_region *r;

    if (!session->share.can || session->lost || size < TP_ICD_REGION_MIN) {
        return NULL;
    }
    r = region_create(session, size);
    return r != NULL ? r->memory : NULL;
}

bool
tp_icd_share_free(struct tp_icd_session *session, uint8_t *memory)
{
    tp_list_for_each_entry(struct tp_icd_region, r, &session->share.regions, link) {
        if (r->memory == memory) {
            tp_list_remove(&r->link);
            session->share.region_count--;
            r->freed = true;
            if (!r->sending) {
                if (r->fd < 0) {
                    put_unshare(session, r);
                }
                region_destroy(r);
            }
            return true;
        }
    }
    return false;
}

bool
tp_icd_share_find(struct tp_icd_session *session, const void *ptr, uint64_t size,
                  struct tp_icd_piece *ret_piece)
{
    const uint8_t *p = ptr;

    tp_list_for_each_entry(struct tp_icd_region, r, &session->share.regions, link) {
        if (r->ready && p >= r->memory && size <= r->size &&
            (uint64_t)(p - r->memory) <= r->size - size) {
            *ret_piece = (struct tp_icd_piece){
                .len = size, .region = r, .at = (uint64_t)(p - r->memory)};
            return true;
        }
    }
    return false;
}

/* ---- slots ------------------------------------------------------------------------------ */

/** @return slots of one piece: few for little content, so that both sides copy in parallel. */
static unsigned
slots_wanted(uint64_t want, uint64_t size)
{
    uint64_t most = size <= TP_ICD_PIECE_MAX ? TP_ICD_SLOT_BYTES : TP_ICD_PIECE_MAX;
    uint64_t bytes = want < most ? want : most;

    return (unsigned)((bytes + TP_ICD_SLOT_BYTES - 1) / TP_ICD_SLOT_BYTES);
}

/** @return first of @p count adjacent free slots, or TP_ICD_SLOTS. */
static unsigned
find_run(uint64_t used, unsigned count)
{
    uint64_t mask = ((uint64_t)1 << count) - 1;

    for (unsigned i = 0; i + count <= TP_ICD_SLOTS; i++) {
        if ((used >> i & mask) == 0) {
            return i;
        }
    }
    return TP_ICD_SLOTS;
}

static uint64_t
slot_mask(const struct tp_icd_piece *piece)
{
    unsigned count =
        (unsigned)((piece->len + TP_ICD_SLOT_BYTES - 1) / TP_ICD_SLOT_BYTES);

    return (((uint64_t)1 << count) - 1) << piece->at / TP_ICD_SLOT_BYTES;
}

bool
tp_icd_share_has_slots(const struct tp_icd_session *session)
{
    return session->share.arena != NULL && session->share.arena->ready &&
           session->share.used != UINT64_MAX;
}

bool
tp_icd_slots_take(struct tp_icd_session *session, uint64_t offset, uint64_t want,
                  uint64_t size, struct tp_icd_piece *ret_piece)
{
    struct tp_icd_share *share = &session->share;
    unsigned at, count = slots_wanted(want, size);

    if (!tp_icd_share_has_slots(session)) {
        return false;
    }
    while ((at = find_run(share->used, count)) == TP_ICD_SLOTS && count > 1) {
        count--;
    }
    if (at == TP_ICD_SLOTS) {
        return false;
    }
    *ret_piece = (struct tp_icd_piece){.offset = offset,
                                       .len = (uint64_t)count * TP_ICD_SLOT_BYTES,
                                       .region = share->arena,
                                       .at = (uint64_t)at * TP_ICD_SLOT_BYTES,
                                       .in_slots = true};
    if (ret_piece->len > want) {
        ret_piece->len = want;
    }
    share->used |= slot_mask(ret_piece);
    return true;
}

void
tp_icd_slots_give(struct tp_icd_session *session, const struct tp_icd_piece *piece)
{
    if (piece->in_slots) {
        session->share.used &= ~slot_mask(piece);
    }
}

uint8_t *
tp_icd_piece_memory(const struct tp_icd_piece *piece)
{
    return piece->region->memory + piece->at;
}

void
tp_icd_piece_put(struct tp_icd_session *session, uint64_t transfer,
                 const struct tp_icd_piece *piece)
{
    tp_icd_put(session, TP_WIRE_PIECE,
               &(struct tp_wire_piece){.transfer = transfer,
                                       .offset = piece->offset,
                                       .len = piece->len,
                                       .region = piece->region->id,
                                       .at = piece->at});
}
