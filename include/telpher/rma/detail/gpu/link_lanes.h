/* SPDX-License-Identifier: Apache-2.0 */
/* Commands for ranks of other processes, written by all lanes of a block; part of
 * rma/device.h for CUDA. */
#ifndef TELPHER_RMA_DETAIL_GPU_LINK_LANES_H
#define TELPHER_RMA_DETAIL_GPU_LINK_LANES_H

#include <cuda_runtime.h>

TELPHER_RMA_GPU_SLOW_FN_ void
telpher_rma_gpu_post_return(const telpher_rma *rma)
{
    const telpher_rma_command c =
        telpher_rma_gpu_command(TELPHER_RMA_COMMAND_RETURNED, 0);

    (void)telpher_rma_gpu_post(rma, &c, "end", "the kernel's end");
    telpher_rma_gpu_store(&telpher_rma_gpu_waiting_of(rma)->kind,
                          TELPHER_RMA_GPU_RETURNED);
}

/* ---- all lanes ---- */

enum { TELPHER_RMA_GPU_IN_LINE = 8 }; /* bytes that fit in a line */

TELPHER_RMA_GPU_FN_ telpher_rma_command
telpher_rma_gpu_access_command(const telpher_rma_access *a, uint32_t op)
{
    telpher_rma_command c =
        telpher_rma_gpu_command(op, a->win - TELPHER_RMA_GPU_WINDOWS);

    c.to = a->rank;
    c.tag = a->tag;
    c.off = a->off;
    c.len = a->len;
    c.local = (uint64_t)a->local;
    return c;
}

/* The command alone suffices: a value, few bytes, or many bytes in GPU memory that
 * the progress thread reads itself. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_put_line(const telpher_rma *rma, const telpher_rma_access *a,
                         uint32_t notifies, int is_value, const char *call,
                         const char *where)
{
    telpher_rma_command c = telpher_rma_gpu_access_command(
        a, is_value ? TELPHER_RMA_COMMAND_VALUE : TELPHER_RMA_COMMAND_PUT);

    c.flags = (uint16_t)notifies;
    if (is_value) {
        c.local = a->value;
        c.len = 8;
    } else if (a->len <= TELPHER_RMA_GPU_IN_LINE) {
        c.flags |= TELPHER_RMA_LINK_INLINE;
        c.local = telpher_rma_gpu_read_few((const uint8_t *)a->local, (uint32_t)a->len);
    }
    return telpher_rma_gpu_post(rma, &c, call, where);
}

/* Up to 8 bytes, held by one lane, and their notification. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_post_few(const telpher_rma *rma, uint32_t rank, telpher_rma_win win,
                         uint64_t off, uint32_t tag, uint64_t value, uint32_t len,
                         const char *call, const char *where)
{
    telpher_rma_gpu_state_of(rma)->by_proxy = 1;
    return telpher_rma_gpu_post_words(
        rma,
        telpher_rma_link_first(TELPHER_RMA_COMMAND_PUT,
                               TELPHER_RMA_COMMAND_NOTIFIES | TELPHER_RMA_LINK_INLINE,
                               tag),
        telpher_rma_link_second(rank, (uint32_t)(win - TELPHER_RMA_GPU_WINDOWS)), off,
        value, len, call, where);
}

/* Sends bytes with commands, a fragment at a time; the last one notifies. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_put_beside(telpher_rma *rma, const telpher_rma_access *a,
                           uint32_t notifies, const char *call, const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    const uint64_t most = telpher_rma_gpu_of(rma)->beside_max;
    telpher_rma_command c = telpher_rma_gpu_access_command(a, TELPHER_RMA_COMMAND_PUT);
    __shared__ uint32_t place;

    for (uint64_t done = 0; done < a->len; done += c.len) {
        c.off = a->off + done;
        c.len = a->len - done < most ? a->len - done : most;
        c.flags = (uint16_t)(TELPHER_RMA_LINK_IS_BESIDE |
                             (done + c.len == a->len ? notifies : 0));
        TELPHER_RMA_GPU_AGAIN_(rma, telpher_rma_gpu_room(rma, &place, call, where));
        if (state->once != TELPHER_OK) {
            return state->once;
        }
        telpher_rma_gpu_carry(state->box->beside[place],
                              (const uint8_t *)a->local + done, c.len, rma->lanes);
        __syncthreads();
        if (telpher_rma_gpu_lane() == 0) {
            telpher_rma_gpu_write_line(rma, &c);
        }
        __syncthreads();
    }
    return TELPHER_OK;
}

/* One lane requests bytes and waits for them. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_ask_get(const telpher_rma *rma, const telpher_rma_command *c,
                        const char *where)
{
    const telpher_rma_gpu_waiting wait =
        telpher_rma_gpu_wait_of(TELPHER_RMA_GPU_IN_ASK, 0, "get", where);
    telpher_status status;
    uint32_t place;
    uint64_t value;

    status = telpher_rma_gpu_room(rma, &place, "get", where);
    return status == TELPHER_OK ? telpher_rma_gpu_ask(rma, c, &wait, &value) : status;
}

/* Many bytes are copied to GPU memory directly; few bytes, and those for a rank's
 * shared memory, through host memory. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_get_by_proxy(telpher_rma *rma, const telpher_rma_access *a,
                             const char *where)
{
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_command c = telpher_rma_gpu_access_command(a, TELPHER_RMA_COMMAND_GET);
    const uint64_t most = TELPHER_RMA_BROUGHT;

    if (a->len > most && __isGlobal(a->local)) {
        TELPHER_RMA_GPU_AGAIN_(rma, telpher_rma_gpu_ask_get(rma, &c, where));
        return state->once;
    }
    c.flags = TELPHER_RMA_LINK_BRINGS;
    for (uint64_t done = 0; done < a->len; done += c.len) {
        c.off = a->off + done;
        c.len = a->len - done < most ? a->len - done : most;
        TELPHER_RMA_GPU_AGAIN_(rma, telpher_rma_gpu_ask_get(rma, &c, where));
        if (state->once != TELPHER_OK) {
            return state->once;
        }
        telpher_rma_gpu_carry((uint8_t *)a->local + done, state->box->brought[1], c.len,
                              rma->lanes);
        __syncthreads();
    }
    return TELPHER_OK;
}

/* Any access. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_access_by_proxy(telpher_rma *rma, const telpher_rma_access *a, int kind,
                                const char *call, const char *where)
{
    const int is_value = kind == TELPHER_RMA_GPU_PUT_VALUE;
    const uint32_t notifies =
        kind == TELPHER_RMA_GPU_PUT ? 0 : TELPHER_RMA_COMMAND_NOTIFIES;
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);

    __syncthreads(); /* all lanes have looked up the target */
    if (kind == TELPHER_RMA_GPU_GET) {
        return telpher_rma_gpu_get_by_proxy(rma, a, where);
    }
    if (telpher_rma_gpu_lane() == 0) {
        state->by_proxy = 1;
    }
    if (!is_value && a->len > TELPHER_RMA_GPU_IN_LINE &&
        (a->len <= telpher_rma_gpu_of(rma)->beside_max || !__isGlobal(a->local))) {
        return telpher_rma_gpu_put_beside(rma, a, notifies, call, where);
    }
    TELPHER_RMA_GPU_AGAIN_(
        rma, is_value || a->len != 0 || notifies
                 ? telpher_rma_gpu_put_line(rma, a, notifies, is_value, call, where)
                 : TELPHER_OK);
    return state->once;
}

/* A reduction or broadcast, a chunk at a time; elements of @p size bytes. @p me is
 * the number in the group */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_fold_by_proxy(telpher_rma *rma, telpher_rma_comm comm, uint32_t me,
                              const telpher_rma_fold *f, uint32_t op, uint32_t size,
                              const char *call, const char *where)
{
    const int sends_all = op == TELPHER_RMA_LINK_REDUCE;
    telpher_rma_gpu_state *state = telpher_rma_gpu_state_of(rma);
    telpher_rma_mailbox *box = state->box;
    telpher_rma_command c = telpher_rma_gpu_command(op, comm);
    uint64_t value, done = 0;
    uint32_t lanes = rma->lanes;

    c.to = f->root;
    c.tag = (uint32_t)f->type << 8 | f->op;
    do {
        const uint64_t chunk = TELPHER_RMA_BROUGHT / (sends_all ? 8 : 1);

        c.len = f->count - done < chunk ? f->count - done : chunk;
        if (sends_all || f->root == me) {
            telpher_rma_gpu_carry(box->brought[0],
                                  (const uint8_t *)f->src + done * size, c.len * size,
                                  lanes);
        }
        __syncthreads();
        TELPHER_RMA_GPU_AGAIN_(rma,
                               telpher_rma_gpu_ask_all(rma, &c, call, where, &value));
        if (state->once != TELPHER_OK) {
            return state->once;
        }
        if (sends_all ? f->root == TELPHER_RMA_NO_RANK || f->root == me
                      : f->root != me) {
            telpher_rma_gpu_carry((uint8_t *)f->dst + done * size, box->brought[1],
                                  c.len * size, lanes);
        }
        __syncthreads();
        done += c.len;
    } while (done < f->count);
    return TELPHER_OK;
}

#endif
