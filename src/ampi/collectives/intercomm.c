/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intercommunicators: messages go to the ranks of another group. Each has a communicator of the
 * own group, through which that group agrees; the groups agree through one rank of each.
 */
#include "ampi/intercomm.h"

#include <string.h>

#include "ampi/dynamic/dynamic.h"
#include "ampi/process.h"
#include "ampi/topology.h"
#include "base/alloc.h"

enum {
    TAG_BETWEEN = TP_AMPI_TAG_OWN + 0x30000 /* and the program's tag, 16 bits of it */
};

static struct tp_ampi_line
line_of(struct tp_ampi_comm *inter)
{
    return (struct tp_ampi_line){
        .local = inter->local, .peer = inter, .inter = inter, .tag = TAG_BETWEEN};
}

int
tp_ampi_root_tells(struct tp_ampi_comm *comm, int root, void *data, size_t len)
{
    int error = MPI_SUCCESS;

    if (comm->rank != root) {
        return tp_ampi_recv(comm, true, data, len, MPI_BYTE, root, TAG_BETWEEN,
                            MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < comm->size && error == MPI_SUCCESS; i++) {
        if (i != root) {
            error = tp_ampi_send(comm, true, data, len, MPI_BYTE, i, TAG_BETWEEN);
        }
    }
    return error;
}

int
tp_ampi_line_swap(const struct tp_ampi_line *line, const void *mine, size_t len,
                  void *theirs, size_t their_len)
{
    if (line->local->rank != line->leader) {
        return MPI_SUCCESS;
    }
    return line->socket != NULL
               ? tp_ampi_socket_swap(*line->socket, mine, len, theirs, their_len)
               : tp_ampi_sendrecv(line->peer, true, mine, len, MPI_BYTE,
                                  line->remote_leader, line->tag, theirs, their_len,
                                  MPI_BYTE, line->remote_leader, line->tag,
                                  MPI_STATUS_IGNORE);
}

int
tp_ampi_line_exchange(const struct tp_ampi_line *line, const void *mine, size_t len,
                      void **ret, size_t *ret_len)
{
    uint64_t own = len, head[2] = {MPI_SUCCESS, 0};
    int error;

    *ret = NULL;
    head[0] =
        (uint64_t)tp_ampi_line_swap(line, &own, sizeof(own), &head[1], sizeof(head[1]));
    error = tp_ampi_root_tells(line->local, line->leader, head,
                               sizeof(head)); /* a socket may be closed */
    error = error == MPI_SUCCESS ? (int)head[0] : error;
    if (error != MPI_SUCCESS) {
        return error;
    }
    *ret_len = (size_t)head[1];
    *ret = tp_malloc(TP_MAX(*ret_len, 1u), "MPI intercommunicator");
    if (*ret == NULL) {
        return MPI_ERR_NO_MEM;
    }
    error = tp_ampi_line_swap(line, mine, len, *ret, *ret_len);
    return error == MPI_SUCCESS
               ? tp_ampi_root_tells(line->local, line->leader, *ret, *ret_len)
               : error;
}

/* ---- groups and contexts ---- */

/* Description of a group; its members follow. */
struct sheet {
    struct tp_ampi_name first; /* of the whole group */
    uint32_t context;
    int32_t high;
};

struct member {
    uint32_t number; /* number_of() */
    uint32_t context; /* that this rank has */
};

/* The other group, and the contexts of a new communicator. */
struct meeting {
    struct tp_ampi_agreed own;
    struct tp_ampi_group *remote;
    uint32_t *contexts; /* of its ranks; those of one job have own.context */
    bool is_first; /* the own group comes first where both say the same */
    bool high; /* of the other group */
};

/* A rank of the own group, as the other group knows it. */
static uint32_t
number_of(const struct tp_ampi_line *line, uint32_t world)
{
    return line->inter != NULL ? (uint32_t)tp_ampi_comm_rank_of(line->inter, world)
                               : world;
}

static void
end_meeting(struct meeting *m)
{
    tp_free(m->own.all);
    tp_free(m->contexts);
    tp_ampi_group_unref(m->remote);
    *m = (struct meeting){.remote = NULL};
}

static struct sheet *
write_sheet(const struct tp_ampi_line *line, const struct tp_ampi_group *members,
            bool high, const struct tp_ampi_agreed *own, size_t *ret_len)
{
    size_t len = sizeof(struct sheet) + (size_t)members->size * sizeof(struct member);
    struct sheet *sheet = tp_zalloc(len, "MPI intercommunicator");
    struct member *member = (struct member *)(void *)(sheet + 1);

    if (sheet == NULL) {
        return NULL;
    }
    sheet->first = tp_ampi_name_of(line->local->group->world[0]);
    sheet->context = own->context;
    sheet->high = high;
    for (int i = 0; i < members->size; i++) {
        uint32_t world = members->world[i];

        member[i].number = number_of(line, world);
        member[i].context = own->all != NULL
                                ? own->all[tp_ampi_comm_rank_of(line->local, world)]
                                : own->context;
    }
    *ret_len = len;
    return sheet;
}

static int
read_sheet(const struct tp_ampi_line *line, const struct sheet *theirs, size_t len,
           const struct tp_ampi_name *own, struct meeting *ret)
{
    const struct member *member = (const struct member *)(const void *)(theirs + 1);
    int count = (int)((len - sizeof(*theirs)) / sizeof(*member));

    ret->remote = tp_ampi_group_create(count);
    ret->contexts = tp_alloc_array((size_t)count, sizeof(uint32_t), "MPI contexts");
    if (ret->remote == NULL || ret->contexts == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < count; i++) {
        ret->remote->world[i] = line->inter != NULL
                                    ? line->inter->peers->world[member[i].number]
                                    : member[i].number;
        ret->contexts[i] = member[i].context;
    }
    if (line->inter == NULL || line->inter->routes == NULL) {
        ret->own.context = TP_MAX(ret->own.context, theirs->context);
    }
    ret->is_first = tp_ampi_name_compare(own, &theirs->first) < 0;
    ret->high = theirs->high != 0;
    return MPI_SUCCESS;
}

/*
 * Both groups agree on contexts and learn each other's members.
 * @param members  of the own group; any of them, also of a subset
 * @param ret  for end_meeting(), also with an error
 */
static int
meet(const struct tp_ampi_line *line, const struct tp_ampi_group *members, bool high,
     struct meeting *ret)
{
    struct sheet *mine = NULL, *theirs = NULL;
    size_t len = 0;
    int error;

    *ret = (struct meeting){.remote = NULL};
    error = tp_ampi_comm_agree(line->local, line->local->group, TAG_BETWEEN, &ret->own);
    if (error == MPI_SUCCESS) {
        mine = write_sheet(line, members, high, &ret->own, &len);
        error = mine != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_line_exchange(line, mine, len, (void **)&theirs, &len);
    }
    if (error == MPI_SUCCESS) {
        error = read_sheet(line, theirs, len, &mine->first, ret);
    }
    tp_free(mine);
    tp_free(theirs);
    return error;
}

/* Takes the communicator of the own group, and a reference to the other group. */
static int
make(struct tp_ampi_comm *local, struct tp_ampi_group *remote, uint32_t context,
     const struct tp_ampi_comm *parent, struct tp_ampi_comm **ret)
{
    int error;

    local->group->refs++;
    error = tp_ampi_comm_create(local->owner, local->group, context, parent, ret);
    if (error != MPI_SUCCESS) {
        tp_ampi_comm_discard(local);
        return error;
    }
    remote->refs++;
    (*ret)->peers = remote;
    (*ret)->local = local;
    return MPI_SUCCESS;
}

int
tp_ampi_intercomm_make(struct tp_ampi_comm *of, struct tp_ampi_group *remote,
                       uint32_t context, struct tp_ampi_comm **ret)
{
    struct tp_ampi_comm *local;
    int error = tp_ampi_comm_dup(of, &local);

    if (error != MPI_SUCCESS) {
        return error;
    }
    tp_ampi_topology_unref(local->topology);
    local->topology = NULL;
    return make(local, remote, context, of, ret);
}

/* Takes `local`. The first contexts of @p m are those of the ranks of remote. */
static int
make_like(struct tp_ampi_comm *inter, struct tp_ampi_comm *local,
          struct tp_ampi_group *remote, const struct meeting *m,
          struct tp_ampi_comm **ret)
{
    int error = make(local, remote, m->own.context, inter, ret);

    if (error != MPI_SUCCESS || inter->routes == NULL) {
        return error;
    }
    error = tp_ampi_routes_make(*ret, inter);
    for (int i = 0; i < remote->size && error == MPI_SUCCESS; i++) {
        (*ret)->routes[i].context = m->contexts[i];
    }
    if (error != MPI_SUCCESS) {
        tp_ampi_comm_discard(*ret);
    }
    return error;
}

int
tp_ampi_intercomm_dup(struct tp_ampi_comm *inter, struct tp_ampi_comm **ret)
{
    const struct tp_ampi_line line = line_of(inter);
    struct tp_ampi_comm *local;
    struct meeting m;
    int error = meet(&line, inter->group, false, &m);

    if (error == MPI_SUCCESS) {
        error = tp_ampi_comm_dup(inter->local, &local);
    }
    if (error == MPI_SUCCESS) {
        error = make_like(inter, local, m.remote, &m, ret);
    }
    end_meeting(&m);
    return error;
}

/* @param local_handle  of the members' part of the own group, which it takes. NULL: not a member */
static int
finish(struct tp_ampi_comm *inter, MPI_Comm local_handle, struct tp_ampi_group *remote,
       const struct meeting *m, MPI_Comm *ret)
{
    struct tp_ampi_comm *local = NULL, *comm;
    int error;

    *ret = MPI_COMM_NULL;
    if (local_handle != MPI_COMM_NULL) {
        local = tp_ampi_comm_get(local_handle);
    }
    if (local == NULL || remote->size == 0) {
        if (local != NULL) {
            tp_ampi_comm_discard(local);
        }
        return MPI_SUCCESS;
    }
    error = make_like(inter, local, remote, m, &comm);
    if (error == MPI_SUCCESS) {
        *ret = comm->handle;
    }
    return error;
}

int
tp_ampi_intercomm_create_of(struct tp_ampi_comm *inter,
                            const struct tp_ampi_group *group, MPI_Comm *ret)
{
    const struct tp_ampi_line line = line_of(inter);
    struct meeting m;
    MPI_Comm local;
    int error = meet(&line, group, false, &m);

    if (error == MPI_SUCCESS) {
        error = tp_ampi_comm_create_of(inter->local, group, &local);
    }
    if (error == MPI_SUCCESS) {
        error = finish(inter, local, m.remote, &m, ret);
    }
    end_meeting(&m);
    return error;
}

/* ---- split ---- */

struct wish {
    int32_t color, key;
};

/* Members of a color among the other group's wishes, by key, then by rank.
 * @param contexts  of all ranks of the group; those of the members come to its front */
static struct tp_ampi_group *
group_of_color(const struct tp_ampi_comm *inter, const struct wish *all, int color,
               uint32_t *contexts)
{
    int count = inter->peers->size, size = 0;
    struct tp_ampi_group *group = tp_ampi_group_create(count);
    uint32_t *sorted = tp_memdup(contexts, (size_t)count * sizeof(*contexts), "MPI");

    for (int i = 0; group != NULL && sorted != NULL && i < count; i++) {
        int before = 0;

        for (int k = 0; k < count && all[i].color == color; k++) {
            before += all[k].color == color &&
                      (all[k].key < all[i].key || (all[k].key == all[i].key && k < i));
        }
        if (all[i].color == color) {
            group->world[before] = inter->peers->world[i];
            contexts[before] = sorted[i];
            size++;
        }
    }
    if (group != NULL) {
        group->size = size;
    }
    if (sorted == NULL) {
        tp_ampi_group_unref(group);
        group = NULL;
    }
    tp_free(sorted);
    return group;
}

/* The wishes of the other group. @param ret  to be freed, also with an error */
static int
exchange_wishes(const struct tp_ampi_line *line, const struct wish *mine,
                struct wish **ret)
{
    struct tp_ampi_comm *inter = line->inter;
    struct wish *all =
        tp_alloc_array((size_t)inter->size, sizeof(*all), "MPI_Comm_split");
    size_t len;
    int error = MPI_ERR_NO_MEM;

    *ret = NULL;
    if (all != NULL) {
        error = tp_ampi_comm_gather(inter->local, inter->group, TAG_BETWEEN, mine,
                                    sizeof(*mine), all);
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_line_exchange(line, all, (size_t)inter->size * sizeof(*all),
                                      (void **)ret, &len);
    }
    tp_free(all);
    return error;
}

int
tp_ampi_intercomm_split(struct tp_ampi_comm *inter, int color, int key, MPI_Comm *ret)
{
    const struct tp_ampi_line line = line_of(inter);
    const struct wish mine = {color, key};
    struct wish *theirs;
    struct tp_ampi_group *remote = NULL;
    MPI_Comm local = MPI_COMM_NULL;
    struct meeting m = {.remote = NULL};
    int error = exchange_wishes(&line, &mine, &theirs);

    *ret = MPI_COMM_NULL;
    if (error == MPI_SUCCESS) {
        error = meet(&line, inter->group, false, &m);
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_comm_split(inter->local, color, key, &local);
    }
    if (error == MPI_SUCCESS) {
        remote = group_of_color(inter, theirs, color, m.contexts);
        error = remote != NULL ? finish(inter, local, remote, &m, ret) : MPI_ERR_NO_MEM;
    }
    tp_ampi_group_unref(remote);
    end_meeting(&m);
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

/* Do both groups belong to one job, and each group to one? */
static int
compare_jobs(const struct tp_ampi_line *line, bool *ret_same)
{
    const uint64_t mine[2] = {telpher_context_job(tp_ampi.ctx),
                              line->local->routes != NULL};
    uint64_t *theirs = NULL;
    size_t len;
    int error = tp_ampi_line_exchange(line, mine, sizeof(mine), (void **)&theirs, &len);

    *ret_same =
        error == MPI_SUCCESS && mine[0] == theirs[0] && mine[1] == 0 && theirs[1] == 0;
    tp_free(theirs);
    return error;
}

static int
create(const struct tp_ampi_line *line, struct tp_ampi_comm **ret)
{
    struct meeting m;
    bool same;
    int error = compare_jobs(line, &same);

    if (error != MPI_SUCCESS || !same) {
        return error != MPI_SUCCESS ? error : tp_ampi_connect(line, ret);
    }
    error = meet(line, line->local->group, false, &m);
    if (error == MPI_SUCCESS) {
        error = tp_ampi_intercomm_make(line->local, m.remote, m.own.context, ret);
    }
    end_meeting(&m);
    return error;
}

int
PMPI_Intercomm_create(MPI_Comm local, int leader, MPI_Comm peer, int remote_leader,
                      int tag, MPI_Comm *ret)
{
    struct tp_ampi_line line = {.leader = leader,
                                .remote_leader = remote_leader,
                                .tag = TAG_BETWEEN + (tag & 0xffff)};
    struct tp_ampi_comm *comm;
    int error = MPI_ERR_COMM;

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
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

/* Routes of a communicator of both groups. */
static int
make_merged_routes(struct tp_ampi_comm *comm, const struct tp_ampi_comm *inter,
                   const struct meeting *m)
{
    int error = tp_ampi_routes_make(comm, inter);

    for (int i = 0; i < comm->size && error == MPI_SUCCESS; i++) {
        uint32_t world = comm->group->world[i];
        int own = tp_ampi_comm_rank_of(inter, world);

        comm->routes[i].context =
            own == MPI_UNDEFINED ? m->contexts[tp_ampi_group_rank_of(m->remote, world)]
            : m->own.all != NULL ? m->own.all[own]
                                 : m->own.context;
    }
    return error;
}

static int
merge(struct tp_ampi_comm *inter, bool high, MPI_Comm *ret)
{
    const struct tp_ampi_line line = line_of(inter);
    struct tp_ampi_group *group = NULL;
    struct tp_ampi_comm *comm;
    struct meeting m;
    int error = meet(&line, inter->group, high, &m);

    if (error == MPI_SUCCESS) {
        group = join(inter, m.remote, high != m.high ? !high : m.is_first);
        error = group != NULL ? tp_ampi_comm_create(inter->owner, group, m.own.context,
                                                    inter, &comm)
                              : MPI_ERR_NO_MEM;
    }
    if (error == MPI_SUCCESS && inter->routes != NULL) {
        error = make_merged_routes(comm, inter, &m);
        if (error != MPI_SUCCESS) {
            tp_ampi_comm_discard(comm);
        }
    }
    end_meeting(&m);
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
        error = tp_ampi_error(inter, merge(inter, high != 0, ret), "cannot merge %s",
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
