/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcasts, reductions and splits on a GPU; part of rma/device_cuda.h. Their
 * arguments may be in a block's shared memory, so data goes through a buffer that each
 * rank has in GPU memory, a chunk at a time. Elements are added from the first rank to
 * the last.
 */
#ifndef TELPHER_RMA_DETAIL_GPU_FOLD_H
#define TELPHER_RMA_DETAIL_GPU_FOLD_H

#include <cuda_runtime.h>

/* Every lane of every rank folds some elements of the chunk, from all ranks' buffers
 * into the result buffer. */
template <typename T, typename W>
TELPHER_RMA_GPU_FN_ void
telpher_rma_gpu_fold_chunk(const telpher_rma *rma, const telpher_rma_gpu_group *group,
                           uint32_t me, uint32_t op, uint32_t count, uint8_t *result)
{
    uint8_t *stage = telpher_rma_gpu_of(rma)->stage;

    for (uint32_t i = me * rma->lanes + telpher_rma_gpu_lane(); i < count;
         i += group->size * rma->lanes) {
        T sum = __ldcg(
            (const T *)(stage + (uint64_t)group->members[0] * TELPHER_RMA_GPU_CHUNK) +
            i);

        for (uint32_t r = 1; r < group->size; r++) {
            sum = telpher_rma_gpu_fold_two<T, W>(
                op, sum,
                __ldcg((const T *)(stage + (uint64_t)group->members[r] *
                                               TELPHER_RMA_GPU_CHUNK) +
                       i));
        }
        __stcg((T *)result + i, sum);
    }
}

/* All ranks of the group, all lanes; lane 0 meets the others. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_meet_again(telpher_rma *rma, telpher_rma_comm comm, const char *call,
                           const char *where)
{
    TELPHER_RMA_GPU_ONCE_(rma, telpher_rma_gpu_part_one(rma, comm, call, where));
    return status;
}

/* Looked up for groups that are not cached. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_fold_refused(const telpher_rma *rma, telpher_rma_comm comm,
                             const telpher_rma_fold *f, int all, uint32_t size)
{
    return telpher_rma_gpu_fold_wrong(f, all, size, telpher_rma_gpu_rank(rma, comm),
                                      telpher_rma_gpu_size(rma, comm));
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_fold_begin(telpher_rma *rma, telpher_rma_comm comm,
                           const telpher_rma_fold *f, uint64_t op, uint32_t size,
                           const char *call, const char *where)
{
    telpher_rma_gpu_slot *slots;
    const telpher_rma_gpu_slot slot = {
        op, f->root, f->count, (uint64_t)f->type << 16 | f->op, 0, 0, 0, 0, 0};
    telpher_status wrong =
        telpher_rma_gpu_fold_refused(rma, comm, f, op == TELPHER_RMA_GPU_REDUCE, size);

    TELPHER_RMA_GPU_ONCE_(
        rma, wrong != TELPHER_OK
                 ? telpher_rma_gpu_fail_at(rma, wrong, call, where)
                 : telpher_rma_gpu_meet_with(rma, comm, &slot, &slots, call, where));
    return status;
}

/* For groups over several processes: the progress thread meets the others. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_fold_spread(telpher_rma *rma, telpher_rma_comm comm,
                            const telpher_rma_fold *f, uint32_t op, uint32_t size,
                            const char *call, const char *where)
{
    telpher_status wrong =
        telpher_rma_gpu_fold_refused(rma, comm, f, op == TELPHER_RMA_LINK_REDUCE, size);

    TELPHER_RMA_GPU_ONCE_(rma, wrong != TELPHER_OK
                                   ? telpher_rma_gpu_fail_at(rma, wrong, call, where)
                                   : TELPHER_OK);
    return status == TELPHER_OK
               ? telpher_rma_gpu_fold_by_proxy(rma, comm,
                                               telpher_rma_gpu_rank(rma, comm), f, op,
                                               size, call, where)
               : status;
}

/* A result is stored at the first member, after the input buffers. */
TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_reduce(telpher_rma *rma, telpher_rma_comm comm,
                       const telpher_rma_fold *f, const char *where)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    uint32_t size = telpher_rma_gpu_fold_size(f->type);
    uint64_t chunk = TELPHER_RMA_GPU_CHUNK / size;
    telpher_rma_gpu_have_read();
    int index = telpher_rma_gpu_join_all(rma, comm);
    telpher_status status;

    if (telpher_rma_gpu_is_few(rma, index, f, 1, size)) {
        return telpher_rma_gpu_reduce_few(rma, index, (uint32_t)f->count, size, f->src,
                                          f->dst, f->root,
                                          (uint32_t)f->type << 16 | f->op, where);
    }
    if (index == TELPHER_RMA_GPU_GROUPS) {
        return telpher_rma_gpu_fold_spread(rma, comm, f, TELPHER_RMA_LINK_REDUCE, size,
                                           "reduce", where);
    }
    status = telpher_rma_gpu_fold_begin(rma, comm, f, TELPHER_RMA_GPU_REDUCE, size,
                                        "reduce", where);

    for (uint64_t done = 0; status == TELPHER_OK && done < f->count; done += chunk) {
        const telpher_rma_gpu_group *group =
            &g->groups[telpher_rma_gpu_group_index(rma, comm)];
        uint32_t me = telpher_rma_gpu_rank(rma, comm);
        uint32_t count = (uint32_t)(f->count - done < chunk ? f->count - done : chunk);
        uint8_t *result =
            g->stage + (uint64_t)(g->ranks + group->members[0]) * TELPHER_RMA_GPU_CHUNK;

        telpher_rma_gpu_carry(
            g->stage + (uint64_t)rma->world_rank * TELPHER_RMA_GPU_CHUNK,
            (const uint8_t *)f->src + done * size, count * size, rma->lanes);
        status = telpher_rma_gpu_meet_again(rma, comm, "reduce", where);
        if (status != TELPHER_OK) {
            break;
        }
        telpher_rma_gpu_of_type(f->type, [&](auto element, auto wide) {
            telpher_rma_gpu_fold_chunk<decltype(element), decltype(wide)>(
                rma, group, me, f->op, count, result);
        });
        status = telpher_rma_gpu_meet_again(rma, comm, "reduce", where);
        if (status == TELPHER_OK && (f->root == TELPHER_RMA_NO_RANK || f->root == me)) {
            telpher_rma_gpu_carry((uint8_t *)f->dst + done * size, result, count * size,
                                  rma->lanes);
        }
        if (status == TELPHER_OK) {
            status = telpher_rma_gpu_meet_again(rma, comm, "reduce", where);
        }
    }
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_broadcast(telpher_rma *rma, telpher_rma_comm comm,
                          const telpher_rma_fold *f, const char *where)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma);
    telpher_rma_gpu_have_read();
    int index = telpher_rma_gpu_join_all(rma, comm);
    telpher_status status;

    if (telpher_rma_gpu_is_few(rma, index, f, 0, 1)) {
        return telpher_rma_gpu_broadcast_few(rma, index, f->root, f->dst,
                                             (uint32_t)f->count, where);
    }
    if (index == TELPHER_RMA_GPU_GROUPS) {
        return telpher_rma_gpu_fold_spread(rma, comm, f, TELPHER_RMA_LINK_BROADCAST, 1,
                                           "broadcast", where);
    }
    status = telpher_rma_gpu_fold_begin(rma, comm, f, TELPHER_RMA_GPU_BROADCAST, 1,
                                        "broadcast", where);
    for (uint64_t done = 0; status == TELPHER_OK && done < f->count;
         done += TELPHER_RMA_GPU_CHUNK) {
        const telpher_rma_gpu_group *group =
            &g->groups[telpher_rma_gpu_group_index(rma, comm)];
        uint32_t me = telpher_rma_gpu_rank(rma, comm);
        uint32_t count =
            (uint32_t)(f->count - done < TELPHER_RMA_GPU_CHUNK ? f->count - done
                                                               : TELPHER_RMA_GPU_CHUNK);
        uint8_t *place =
            g->stage + (uint64_t)group->members[f->root] * TELPHER_RMA_GPU_CHUNK;

        if (me == f->root) {
            telpher_rma_gpu_carry(place, (const uint8_t *)f->src + done, count,
                                  rma->lanes);
        }
        status = telpher_rma_gpu_meet_again(rma, comm, "broadcast", where);
        if (status == TELPHER_OK && me != f->root) {
            telpher_rma_gpu_carry((uint8_t *)f->dst + done, place, count, rma->lanes);
        }
        if (status == TELPHER_OK) {
            status = telpher_rma_gpu_meet_again(rma, comm, "broadcast", where);
        }
    }
    return status;
}

/* ---- splits ---- */

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_new_group(const telpher_rma *rma, int index, int32_t color,
                          const telpher_rma_gpu_slot *slots, int32_t *ret_result)
{
    telpher_rma_gpu *g = telpher_rma_gpu_of(rma), *home = telpher_rma_gpu_home(rma);
    const telpher_rma_gpu_group *old = &g->groups[index];
    uint32_t made = atomicAdd_system(&home->group_count, 1), n = 0;

    if (made >= TELPHER_RMA_GPU_GROUPS - 1) { /* the last slot is for the end */
        atomicSub_system(&home->group_count, 1);
        return TELPHER_ERR_LIMIT;
    }
    for (uint32_t i = 0; i < old->size; i++) { /* sorts each rank into its colour */
        int32_t key = slots[i].key;
        uint32_t at = 0;

        if (slots[i].color != color) {
            continue;
        }
        for (uint32_t k = 0; k < old->size; k++) {
            at += slots[k].color == color &&
                  (slots[k].key < key || (slots[k].key == key && k < i));
        }
        g->groups[made].members[at] = old->members[i];
        n++;
    }
    g->groups[made].size = n;
    *ret_result = (int32_t)made + 1;
    return TELPHER_OK;
}

/* The first rank of each colour creates its group; the others read its number from
 * the slot. */
TELPHER_RMA_GPU_SLOW_FN_ telpher_status
telpher_rma_gpu_split_one(const telpher_rma *rma, telpher_rma_comm comm, int32_t color,
                          int32_t key, telpher_rma_comm *ret_comm, const char *where)
{
    const telpher_rma_gpu_slot slot = {TELPHER_RMA_GPU_SPLIT, 0, 0, 0, 0, 0, color, key,
                                       TELPHER_RMA_COMM_NONE};
    telpher_rma_gpu_slot *slots;
    telpher_status status;
    uint32_t first = 0, me;

    *ret_comm = TELPHER_RMA_COMM_NONE;
    if (telpher_rma_gpu_is_spread(rma, telpher_rma_gpu_group_index(rma, comm))) {
        return telpher_rma_gpu_ask_split(rma, comm, color, key, ret_comm, where);
    }
    status = telpher_rma_gpu_meet_with(rma, comm, &slot, &slots, "split", where);
    if (status != TELPHER_OK) {
        return status;
    }
    me = telpher_rma_gpu_position(rma, telpher_rma_gpu_group_index(rma, comm));
    while (slots[first].color != color) {
        first++;
    }
    if (color >= 0 && first == me) {
        status = telpher_rma_gpu_new_group(rma, telpher_rma_gpu_group_index(rma, comm),
                                           color, slots, &slots[me].result);
        if (status != TELPHER_OK) {
            return telpher_rma_gpu_fail_at(rma, status, "split", where);
        }
    }
    status = telpher_rma_gpu_part_one(rma, comm, "split", where);
    if (status == TELPHER_OK && color >= 0) {
        *ret_comm = (telpher_rma_comm)telpher_rma_gpu_load(
            (const uint32_t *)&slots[first].result);
    }
    return status;
}

TELPHER_RMA_GPU_FN_ telpher_status
telpher_rma_gpu_split(telpher_rma *rma, telpher_rma_comm comm, int32_t color,
                      int32_t key, telpher_rma_comm *ret_comm, const char *where)
{
    __shared__ telpher_rma_comm made;

    telpher_rma_gpu_have_read();
    TELPHER_RMA_GPU_ONCE_(
        rma, telpher_rma_gpu_split_one(rma, comm, color, key, &made, where));
    *ret_comm = made;
    return status;
}

#endif
