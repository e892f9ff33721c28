/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The revocation table: tells peers of the machine that exported memory is no longer
 * valid. A process cannot stop another that copies out of its memory, but it reuses
 * that memory after it declared the reader dead, or exits. So each rank has a table
 * that the others of its machine map, with a byte for each of them. The byte is set
 * before memory exported to that rank is reused. A copy is valid if the byte is still 0
 * after it.
 *
 * A transport that reads the sender's memory completes both sides at about the same
 * time, so the sender may have exited meanwhile with all operations complete. There
 * only REVOKED makes a copy invalid.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/memfd.h"
#include "base/trace/log.h"
#include "core/comm/comm_int.h"

void
tp_comm_revocation_create(telpher_context *ctx,
                          uint8_t ret_name[TP_COMM_REVOCATION_BYTES])
{
    struct tp_memfd_name name = {0};
    telpher_status status =
        tp_memfd_create("telpher-revocations", ctx->size, &ctx->revocations_fd);
    void *revocations;

    _Static_assert(sizeof(name) == TP_COMM_REVOCATION_BYTES, "as others read it");
    if (status == TELPHER_OK) {
        status = tp_memfd_map(ctx->revocations_fd, ctx->size, &revocations);
    }
    if (status == TELPHER_OK) {
        ctx->revocations = revocations;
        status = tp_memfd_describe(ctx->revocations_fd, &name);
    }
    if (status != TELPHER_OK) {
        tp_info("comm", "memory is not exported to other processes: %s",
                telpher_status_text(status));
        tp_comm_revocation_destroy(ctx);
        name = (struct tp_memfd_name){0};
    }
    memcpy(ret_name, &name, sizeof(name));
}

void
tp_comm_revocation_destroy(telpher_context *ctx)
{
    if (ctx->revocations != NULL) {
        munmap((void *)ctx->revocations, ctx->size);
        ctx->revocations = NULL;
    }
    if (ctx->revocations_fd >= 0) {
        close(ctx->revocations_fd);
        ctx->revocations_fd = -1;
    }
}

void
tp_comm_revocation_post(telpher_context *ctx, uint32_t rank,
                        enum tp_comm_revocation_word word)
{
    if (ctx->revocations != NULL) {
        if (atomic_load(&ctx->revocations[rank]) < word) {
            atomic_store(&ctx->revocations[rank], (uint8_t)word);
        }
        atomic_thread_fence(memory_order_seq_cst); /* before the memory is reused */
    }
}

/* ---- table of a peer ----------------------------------------------------------------- */

static bool
open_revocations(struct tp_comm_peer *peer)
{
    const telpher_context *ctx = peer->ctx;
    struct tp_memfd_name name;
    telpher_status status;
    void *revocations;
    int fd;

    memcpy(&name,
           ctx->addresses + peer->rank * ctx->address_bytes + TP_COMM_MACHINE_BYTES,
           sizeof(name));
    if (name.size != ctx->size || tp_memfd_open(&name, &fd) != TELPHER_OK) {
        return false;
    }
    status = tp_memfd_map(fd, name.size, &revocations);
    close(fd);
    peer->revocations = status == TELPHER_OK ? revocations : NULL;
    return status == TELPHER_OK;
}

bool
tp_comm_revocation_reach(struct tp_comm_peer *peer)
{
    if (peer->revocations == NULL && peer->local && !peer->no_revocations) {
        peer->no_revocations = !open_revocations(peer);
    }
    return peer->revocations != NULL;
}

static enum tp_comm_revocation_word
read_word(const struct tp_comm_peer *peer)
{
    atomic_thread_fence(memory_order_acquire); /* after the copy */
    return (enum tp_comm_revocation_word)atomic_load(
        &peer->revocations[peer->ctx->rank]);
}

bool
tp_comm_revocation_is_valid(const struct tp_comm_peer *peer)
{
    return peer->revocations != NULL && read_word(peer) == TP_COMM_REVOCATION_VALID;
}

telpher_status
tp_comm_revocation_check_rndv(const struct tp_comm_peer *peer, telpher_status status)
{
    return status == TELPHER_OK && peer->net->reads && peer->revocations != NULL &&
                   read_word(peer) >= TP_COMM_REVOCATION_REVOKED
               ? TELPHER_ERR_PEER_LOST
               : status;
}

void
tp_comm_revocation_close(struct tp_comm_peer *peer)
{
    if (peer->revocations != NULL) {
        munmap((void *)peer->revocations, peer->ctx->size);
        peer->revocations = NULL;
    }
}
