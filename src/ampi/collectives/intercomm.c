/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intercommunicators: messages go to the ranks of another group. Each has a communicator of the
 * own group, through which that group agrees; the groups agree through one rank of each.
 */
#include "ampi/intercomm.h"

#include <string.h>

#include "ampi/process.h"
#include "ampi/topology.h"
#include "base/alloc.h"

enum {
    TAG_BETWEEN = TP_AMPI_TAG_OWN + 0x30000 /* and the program's tag, 16 bits of it */
};

/* How both groups talk: `peer` is the communicator that both leaders are in. */
struct line {
    struct tp_ampi_comm *local, *peer;
    int leader, remote_leader, tag;
};

static struct line
line_of(struct tp_ampi_comm *inter)
{
    return (struct line){.local = inter->local, .peer = inter, .tag = TAG_BETWEEN};
}

/* The leader sends to the rest of its group. */
static int
spread(const struct line *line, void *data, size_t len)
{
    struct tp_ampi_comm *local = line->local;
    int error = MPI_SUCCESS;

    if (local->rank != line->leader) {
        return tp_ampi_recv(local, true, data, len, MPI_BYTE, line->leader, TAG_BETWEEN,
                            MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < local->size && error == MPI_SUCCESS; i++) {
        if (i != line->leader) {
            error = tp_ampi_send(local, true, data, len, MPI_BYTE, i, TAG_BETWEEN);
        }
    }
    return error;
}

/* Leaders swap @p len bytes for as many of the other's. */
static int
swap(const struct line *line, const void *mine, size_t len, void *theirs,
     size_t their_len)
{
    return line->local->rank != line->leader
               ? MPI_SUCCESS
               : tp_ampi_sendrecv(line->peer, true, mine, len, MPI_BYTE,
                                  line->remote_leader, line->tag, theirs, their_len,
                                  MPI_BYTE, line->remote_leader, line->tag,
                                  MPI_STATUS_IGNORE);
}

/* Gives the other group's bytes to all of this one, which has the same @p mine everywhere.
 * @param ret  to be freed, also with an error */
static int
exchange(const struct line *line, const void *mine, size_t len, void **ret,
         size_t *ret_len)
{
    uint64_t own = len, theirs = 0;
    int error = swap(line, &own, sizeof(own), &theirs, sizeof(theirs));

    *ret = NULL;
    if (error == MPI_SUCCESS) {
        error = spread(line, &theirs, sizeof(theirs));
    }
    if (error != MPI_SUCCESS) {
        return error;
    }
    *ret_len = (size_t)theirs;
    *ret = tp_malloc(TP_MAX(*ret_len, 1u), "MPI intercommunicator");
    if (*ret == NULL) {
        return MPI_ERR_NO_MEM;
    }
    error = swap(line, mine, len, *ret, *ret_len);
    return error == MPI_SUCCESS ? spread(line, *ret, *ret_len) : error;
}

/* ---- groups and contexts ---- */

/* Description of a group; its ranks in the world follow. */
struct sheet {
    uint32_t context;
    int32_t high;
};

/*
 * Both groups agree on a context and learn each other's members.
 * @param members  of the own group; any of them, also of a subset
 * @param ret_remote  members of the other, ret_high  what it says
 */
static int
meet(const struct line *line, const struct tp_ampi_group *members, int high,
     uint32_t *ret_context, struct tp_ampi_group **ret_remote, int *ret_high)
{
    size_t ranks = (size_t)members->size * sizeof(members->world[0]), len = 0;
    struct sheet *mine = tp_zalloc(sizeof(*mine) + ranks, "MPI intercommunicator");
    struct sheet *theirs = NULL;
    int error = MPI_ERR_NO_MEM, count;

    if (mine != NULL) {
        memcpy(mine + 1, members->world, ranks);
        mine->high = high;
        error = tp_ampi_comm_agree(line->local, line->local->group, TAG_BETWEEN,
                                   &mine->context);
    }
    if (error == MPI_SUCCESS) {
        error = exchange(line, mine, sizeof(*mine) + ranks, (void **)&theirs, &len);
    }
    if (error == MPI_SUCCESS) {
        count = (int)((len - sizeof(*theirs)) / sizeof(uint32_t));
        *ret_remote = tp_ampi_group_create(count);
        error = *ret_remote != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (error == MPI_SUCCESS) {
        memcpy((*ret_remote)->world, theirs + 1, (size_t)count * sizeof(uint32_t));
        *ret_context = TP_MAX(mine->context, theirs->context);
        *ret_high = theirs->high;
    }
    tp_free(mine);
    tp_free(theirs);
    return error;
}

/* Takes the communicator of the own group and the other group, also with an error. */
static int
make(struct tp_ampi_comm *local, struct tp_ampi_group *remote, uint32_t context,
     const struct tp_ampi_comm *parent, struct tp_ampi_comm **ret)
{
    int error;

    local->group->refs++;
    error = tp_ampi_comm_create(local->owner, local->group, context, parent, ret);
    if (error != MPI_SUCCESS) {
        tp_ampi_group_unref(remote);
        tp_ampi_handle_destroy(local->handle);
        tp_ampi_comm_unref(local);
        return error;
    }
    (*ret)->peers = remote;
    (*ret)->local = local;
    return MPI_SUCCESS;
}

int
tp_ampi_intercomm_dup(struct tp_ampi_comm *inter, struct tp_ampi_comm **ret)
{
    const struct line line = line_of(inter);
    struct tp_ampi_comm *local;
    struct tp_ampi_group *remote;
    uint32_t context;
    int high, error = meet(&line, inter->group, 0, &context, &remote, &high);

    if (error == MPI_SUCCESS) {
        error = tp_ampi_comm_dup(inter->local, &local);
        if (error != MPI_SUCCESS) {
            tp_ampi_group_unref(remote);
        }
    }
    return error == MPI_SUCCESS ? make(local, remote, context, inter, ret) : error;
}

/* @param local_handle  of the members' part of the own group, which it takes. NULL: not a member */
static int
finish(struct tp_ampi_comm *inter, MPI_Comm local_handle, struct tp_ampi_group *remote,
       uint32_t context, MPI_Comm *ret)
{
    struct tp_ampi_comm *local = NULL, *comm;
    int error;

    *ret = MPI_COMM_NULL;
    if (local_handle != MPI_COMM_NULL) {
        local = tp_ampi_comm_get(local_handle);
    }
    if (local == NULL || remote->size == 0) {
        tp_ampi_group_unref(remote);
        if (local != NULL) {
            tp_ampi_handle_destroy(local->handle);
            tp_ampi_comm_unref(local);
        }
        return MPI_SUCCESS;
    }
    error = make(local, remote, context, inter, &comm);
    if (error == MPI_SUCCESS) {
        *ret = comm->handle;
    }
    return error;
}

int
tp_ampi_intercomm_create_of(struct tp_ampi_comm *inter,
                            const struct tp_ampi_group *group, MPI_Comm *ret)
{
    const struct line line = line_of(inter);
    struct tp_ampi_group *remote;
    MPI_Comm local;
    uint32_t context;
    int high, error = meet(&line, group, 0, &context, &remote, &high);

    if (error != MPI_SUCCESS) {
        return error;
    }
    error = tp_ampi_comm_create_of(inter->local, group, &local);
    if (error != MPI_SUCCESS) {
        tp_ampi_group_unref(remote);
        return error;
    }
    return finish(inter, local, remote, context, ret);
}

/* ---- split ---- */

struct wish {
    int32_t color, key;
    uint32_t world;
};

/* Members of a color among the other group's wishes, by key, then by rank. */
static struct tp_ampi_group *
group_of_color(const struct wish *all, int count, int color)
{
    struct tp_ampi_group *group = tp_ampi_group_create(count);
    int size = 0;

    if (group == NULL) {
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        int before = 0;

        for (int k = 0; k < count && all[i].color == color; k++) {
            before += all[k].color == color &&
                      (all[k].key < all[i].key || (all[k].key == all[i].key && k < i));
        }
        if (all[i].color == color) {
            group->world[before] = all[i].world;
            size++;
        }
    }
    group->size = size;
    return group;
}

int
tp_ampi_intercomm_split(struct tp_ampi_comm *inter, int color, int key, MPI_Comm *ret)
{
    const struct line line = line_of(inter);
    const struct wish mine = {color, key, inter->owner->world};
    struct wish *all =
        tp_alloc_array((size_t)inter->size, sizeof(*all), "MPI_Comm_split");
    struct wish *theirs = NULL;
    struct tp_ampi_group *remote = NULL, *everyone = NULL;
    MPI_Comm local = MPI_COMM_NULL;
    uint32_t context;
    size_t len = 0;
    int high, error = MPI_ERR_NO_MEM;

    *ret = MPI_COMM_NULL;
    if (all != NULL) {
        error = tp_ampi_comm_gather(inter->local, inter->group, TAG_BETWEEN, &mine,
                                    sizeof(mine), all);
    }
    if (error == MPI_SUCCESS) {
        error = exchange(&line, all, (size_t)inter->size * sizeof(*all),
                         (void **)&theirs, &len);
    }
    if (error == MPI_SUCCESS) {
        error = meet(&line, inter->group, 0, &context, &everyone, &high);
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_comm_split(inter->local, color, key, &local);
    }
    if (error == MPI_SUCCESS) {
        remote = group_of_color(theirs, (int)(len / sizeof(*theirs)), color);
        error = remote != NULL ? finish(inter, local, remote, context, ret)
                               : MPI_ERR_NO_MEM;
    }
    tp_ampi_group_unref(everyone);
    tp_free(all);
    tp_free(theirs);
    return error;
}

/* ---- calls ---- */

static struct tp_ampi_comm *
find(MPI_Comm handle, bool inter)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_get(handle);

    if (comm == NULL || (comm->local != NULL) != inter) {
        (void)tp_ampi_error(comm, MPI_ERR_COMM, "%#x is no %scommunicator", handle,
                            inter ? "inter" : "intra");
        return NULL;
    }
    return comm;
}

static int
create(const struct line *line, struct tp_ampi_comm **ret)
{
    struct tp_ampi_comm *local;
    struct tp_ampi_group *remote;
    uint32_t context;
    int high, error = meet(line, line->local->group, 0, &context, &remote, &high);

    if (error != MPI_SUCCESS) {
        return error;
    }
    error = tp_ampi_comm_dup(line->local, &local);
    if (error != MPI_SUCCESS) {
        tp_ampi_group_unref(remote);
        return error;
    }
    tp_ampi_topology_unref(local->topology);
    local->topology = NULL;
    return make(local, remote, context, line->local, ret);
}

int
PMPI_Intercomm_create(MPI_Comm local, int leader, MPI_Comm peer, int remote_leader,
                      int tag, MPI_Comm *ret)
{
    struct line line = {.leader = leader,
                        .remote_leader = remote_leader,
                        .tag = TAG_BETWEEN + (tag & 0xffff)};
    struct tp_ampi_comm *comm;
    int error = MPI_ERR_COMM;

    tp_ampi_enter();
    *ret = MPI_COMM_NULL;
    line.local = find(local, false);
    if (line.local != NULL && (leader < 0 || leader >= line.local->size)) {
        error =
            tp_ampi_error(line.local, MPI_ERR_RANK, "there is no leader %d of %d ranks",
                          leader, line.local->size);
    } else if (line.local != NULL) {
        line.peer = line.local->rank == leader ? tp_ampi_comm_get(peer) : NULL;
        error = line.local->rank != leader || line.peer != NULL ? MPI_SUCCESS
                                                                : MPI_ERR_COMM;
        if (error == MPI_SUCCESS) {
            error = create(&line, &comm);
        }
        (void)tp_ampi_error(line.local, error, "cannot create an intercommunicator");
        *ret = error == MPI_SUCCESS ? comm->handle : MPI_COMM_NULL;
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Intercomm_create);

/* One group of both: the lower one first. */
static struct tp_ampi_group *
join(const struct tp_ampi_comm *inter, const struct tp_ampi_group *remote,
     bool is_first)
{
    int own = inter->size, other = remote->size;
    struct tp_ampi_group *group = tp_ampi_group_create(own + other);

    if (group != NULL) {
        memcpy(group->world + (is_first ? 0 : other), inter->group->world,
               (size_t)own * sizeof(group->world[0]));
        memcpy(group->world + (is_first ? own : 0), remote->world,
               (size_t)other * sizeof(group->world[0]));
        group->rank = inter->rank + (is_first ? 0 : other);
    }
    return group;
}

static int
merge(struct tp_ampi_comm *inter, int high, MPI_Comm *ret)
{
    const struct line line = line_of(inter);
    struct tp_ampi_group *remote, *group;
    struct tp_ampi_comm *comm;
    uint32_t context;
    int theirs,
        error = meet(&line, inter->group, high != 0, &context, &remote, &theirs);

    if (error != MPI_SUCCESS) {
        return error;
    }
    group = join(inter, remote,
                 (high != 0) != theirs ? high == 0
                                       : inter->group->world[0] < remote->world[0]);
    tp_ampi_group_unref(remote);
    if (group == NULL) {
        return MPI_ERR_NO_MEM;
    }
    error = tp_ampi_comm_create(inter->owner, group, context, inter, &comm);
    if (error == MPI_SUCCESS) {
        *ret = comm->handle;
    }
    return error;
}

int
PMPI_Intercomm_merge(MPI_Comm handle, int high, MPI_Comm *ret)
{
    struct tp_ampi_comm *inter;
    int error = MPI_ERR_COMM;

    tp_ampi_enter();
    *ret = MPI_COMM_NULL;
    inter = find(handle, true);
    if (inter != NULL) {
        error = tp_ampi_error(inter, merge(inter, high, ret), "cannot merge %s",
                              inter->name);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Intercomm_merge);

int
PMPI_Comm_test_inter(MPI_Comm handle, int *flag)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    *flag = comm != NULL && comm->local != NULL;
    return comm != NULL ? MPI_SUCCESS : MPI_ERR_COMM;
}
TP_MPI_NAME(Comm_test_inter);

int
PMPI_Comm_remote_size(MPI_Comm handle, int *size)
{
    struct tp_ampi_comm *inter = find(handle, true);

    if (inter == NULL) {
        return MPI_ERR_COMM;
    }
    *size = inter->peers->size;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_remote_size);

int
PMPI_Comm_remote_group(MPI_Comm handle, MPI_Group *group)
{
    struct tp_ampi_comm *inter = find(handle, true);

    if (inter == NULL) {
        return MPI_ERR_COMM;
    }
    inter->peers->refs++;
    return tp_ampi_error(inter, tp_ampi_group_give(inter->peers, group),
                         "no memory for a group");
}
TP_MPI_NAME(Comm_remote_group);
