/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: their making, and the agreement of their members on a context. */
#include "ampi/attribute.h"
#include "ampi/dynamic/dynamic.h"
#include "ampi/errhandler.h"
#include "ampi/info.h"
#include "ampi/intercomm.h"
#include "ampi/process.h"

#include <string.h>

#include "ampi/topology.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/os/process.h"

enum {
    TAG_MEET = TP_AMPI_TAG_OWN,
    TAG_AGREE = TP_AMPI_TAG_OWN + 1,
    TAG_SPLIT = TP_AMPI_TAG_OWN + 2,
    TAG_DUPLICATE =
        TP_AMPI_TAG_OWN + 0x20000, /* and the number of the call, 16 bits of it */
    TAG_GROUP = TP_AMPI_TAG_OWN + 0x10000, /* and the program's tag, 16 bits of it */
};

struct tp_ampi_comm *
tp_ampi_comm_get(MPI_Comm handle)
{
    if (tp_unlikely(tp_ampi.ctx == NULL)) {
        return NULL;
    }
    if (tp_likely(handle == MPI_COMM_WORLD)) {
        return tp_ampi_current()->comm_world;
    }
    return handle == MPI_COMM_SELF ? tp_ampi_current()->comm_self
                                   : tp_ampi_handle_get(handle, TP_AMPI_COMM);
}

static int
fill(struct tp_ampi_comm *comm, struct tp_ampi_rank *owner, struct tp_ampi_group *group,
     uint32_t context)
{
    comm->refs = 1;
    comm->owner = owner;
    comm->group = comm->peers = group;
    comm->rank = group->rank;
    comm->size = group->size;
    comm->context = context;
    comm->errhandler = MPI_ERRORS_ARE_FATAL;
    for (uint32_t i = 0; i <= TP_AMPI_LANE_COLLECTIVE; i++) {
        comm->mail[i] = tp_ampi_mail_of(owner, context + i);
        if (comm->mail[i] == NULL) {
            return MPI_ERR_NO_MEM;
        }
    }
    comm->handle = tp_ampi_handle_create(TP_AMPI_COMM, comm);
    return comm->handle != 0 ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

int
tp_ampi_comm_create(struct tp_ampi_rank *owner, struct tp_ampi_group *group,
                    uint32_t context, const struct tp_ampi_comm *parent,
                    struct tp_ampi_comm **ret)
{
    struct tp_ampi_comm *comm = tp_zalloc(sizeof(*comm), "MPI communicator");

    if (comm == NULL || fill(comm, owner, group, context) != MPI_SUCCESS) {
        tp_ampi_group_unref(group);
        tp_free(comm);
        return MPI_ERR_NO_MEM;
    }
    if (parent != NULL) {
        comm->errhandler = parent->errhandler;
        tp_ampi_errhandler_ref(comm->errhandler);
    }
    *ret = comm;
    return MPI_SUCCESS;
}

void
tp_ampi_comm_unref(struct tp_ampi_comm *comm)
{
    if (--comm->refs == 0) {
        if (comm->local != NULL) {
            tp_ampi_handle_destroy(comm->local->handle);
            tp_ampi_comm_unref(comm->local);
        }
        tp_ampi_errhandler_unref(comm->errhandler);
        tp_ampi_topology_unref(comm->topology);
        tp_ampi_info_destroy(comm->info);
        tp_ampi_routes_free(comm);
        if (comm->peers != comm->group) {
            tp_ampi_group_unref(comm->peers);
        }
        tp_ampi_group_unref(comm->group);
        tp_free(comm);
    }
}

void
tp_ampi_comm_discard(struct tp_ampi_comm *comm)
{
    tp_ampi_handle_destroy(comm->handle);
    tp_ampi_comm_unref(comm);
}

int
tp_ampi_comm_rank_of(const struct tp_ampi_comm *comm, uint32_t world)
{
    const struct tp_ampi_group *group = comm->group;

    if (world < (uint32_t)group->size && group->world[world] == world) {
        return (int)world; /* most communicators begin with the first ranks */
    }
    return tp_ampi_group_rank_of(group, world);
}

/* ---- agreement ---- */

/* The first receives from each and sends all to each: communicators are made rarely. */
int
tp_ampi_comm_gather(struct tp_ampi_comm *comm, const struct tp_ampi_group *group,
                    int tag, const void *mine, size_t len, void *all)
{
    int first = tp_ampi_comm_rank_of(comm, group->world[0]), error = MPI_SUCCESS;
    size_t total = len * (size_t)group->size;

    if (comm->rank != first) {
        error = tp_ampi_send(comm, true, mine, len, MPI_BYTE, first, tag);
        return error != MPI_SUCCESS ? error
                                    : tp_ampi_recv(comm, true, all, total, MPI_BYTE,
                                                   first, tag, MPI_STATUS_IGNORE);
    }
    memcpy(all, mine, len);
    for (int i = 1; i < group->size && error == MPI_SUCCESS; i++) {
        error = tp_ampi_recv(comm, true, (char *)all + len * (size_t)i, len, MPI_BYTE,
                             tp_ampi_comm_rank_of(comm, group->world[i]), tag,
                             MPI_STATUS_IGNORE);
    }
    for (int i = 1; i < group->size && error == MPI_SUCCESS; i++) {
        error = tp_ampi_send(comm, true, all, total, MPI_BYTE,
                             tp_ampi_comm_rank_of(comm, group->world[i]), tag);
    }
    return error;
}

int
tp_ampi_comm_meet(struct tp_ampi_comm *comm)
{
    int error = MPI_SUCCESS;

    for (int step = 1; step < comm->size && error == MPI_SUCCESS; step *= 2) {
        error = tp_ampi_sendrecv(
            comm, true, NULL, 0, MPI_BYTE, (comm->rank + step) % comm->size, TAG_MEET,
            NULL, 0, MPI_BYTE, (comm->rank - step + comm->size) % comm->size, TAG_MEET,
            MPI_STATUS_IGNORE);
    }
    return error;
}

uint32_t
tp_ampi_comm_propose(struct tp_ampi_rank *rank)
{
    if (rank->contexts >= UINT32_C(1) << (32 - tp_ampi.context_shift)) {
        return 0;
    }
    return rank->contexts++ << tp_ampi.context_shift | rank->world << TP_AMPI_LANE_BITS;
}

/* Contexts of all ranks of a communicator, from those of a group of them. NULL: no memory */
static uint32_t *
spread_contexts(const struct tp_ampi_comm *comm, const struct tp_ampi_group *group,
                const uint32_t *contexts)
{
    uint32_t *all = tp_alloc_array((size_t)comm->size, sizeof(*all), "MPI contexts");

    for (int i = 0; all != NULL && i < group->size; i++) {
        all[tp_ampi_comm_rank_of(comm, group->world[i])] = contexts[i];
    }
    return all;
}

static int
agree(struct tp_ampi_comm *comm, const struct tp_ampi_group *group, int tag,
      uint32_t mine, struct tp_ampi_agreed *ret)
{
    uint32_t *all = tp_alloc_array((size_t)group->size, sizeof(*all), "MPI contexts");
    int error = MPI_ERR_NO_MEM;

    *ret = (struct tp_ampi_agreed){.all = NULL};
    if (all != NULL) {
        error = tp_ampi_comm_gather(comm, group, tag, &mine, sizeof(*all), all);
    }
    if (error == MPI_SUCCESS) {
        ret->context = comm->routes != NULL ? mine : all[0];
        error = ret->context != 0 ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (error == MPI_SUCCESS && comm->routes != NULL) {
        ret->all = spread_contexts(comm, group, all);
        error = ret->all != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    tp_free(all);
    return error;
}

int
tp_ampi_comm_agree(struct tp_ampi_comm *comm, const struct tp_ampi_group *group,
                   int tag, struct tp_ampi_agreed *ret)
{
    return agree(comm, group, tag, tp_ampi_comm_propose(comm->owner), ret);
}

/* Takes @p group, whose ranks are in @p parent, also with an error. */
static int
create_agreed(const struct tp_ampi_comm *parent, struct tp_ampi_group *group,
              const struct tp_ampi_agreed *agreed, struct tp_ampi_comm **ret)
{
    int error = tp_ampi_comm_create(parent->owner, group, agreed->context, parent, ret);

    if (error != MPI_SUCCESS || agreed->all == NULL) {
        return error;
    }
    error = tp_ampi_routes_make(*ret, parent);
    for (int i = 0; i < group->size && error == MPI_SUCCESS; i++) {
        (*ret)->routes[i].context =
            agreed->all[tp_ampi_comm_rank_of(parent, group->world[i])];
    }
    if (error != MPI_SUCCESS) {
        tp_ampi_comm_discard(*ret);
    }
    return error;
}

/* Numbers reserved by a duplication when it is called: several may run, in any order. */
struct ticket {
    uint32_t number;
    int tag;
    uint32_t context;
};

static struct ticket
take_ticket(struct tp_ampi_comm *comm)
{
    uint32_t number = comm->duplicates++;

    return (struct ticket){.number = number,
                           .tag = TAG_DUPLICATE + (int)(number & 0xffff),
                           .context = tp_ampi_comm_propose(comm->owner)};
}

static int
dup_with(struct tp_ampi_comm *comm, struct ticket ticket, struct tp_ampi_comm **ret)
{
    struct tp_ampi_agreed agreed;
    int error;

    if (comm->local != NULL) {
        while (comm->duplicated != ticket.number) {
            tp_ampi_yield(); /* one after the other: their messages look alike */
        }
        error = tp_ampi_intercomm_dup(comm, ret);
        comm->duplicated++;
        return error;
    }
    error = agree(comm, comm->group, ticket.tag, ticket.context, &agreed);
    if (error == MPI_SUCCESS) {
        comm->group->refs++;
        error = create_agreed(comm, comm->group, &agreed, ret);
    }
    if (error == MPI_SUCCESS) {
        (*ret)->topology = tp_ampi_topology_ref(comm->topology);
    }
    tp_free(agreed.all);
    return error;
}

int
tp_ampi_comm_dup(struct tp_ampi_comm *comm, struct tp_ampi_comm **ret)
{
    return dup_with(comm, take_ticket(comm), ret);
}

/* ---- of a group ---- */

static struct tp_ampi_group *
copy_group(const struct tp_ampi_group *group, uint32_t self)
{
    struct tp_ampi_group *copy = tp_ampi_group_create(group->size);

    for (int i = 0; copy != NULL && i < group->size; i++) {
        copy->world[i] = group->world[i];
        if (copy->world[i] == self) {
            copy->rank = i;
        }
    }
    return copy;
}

/* The communicator of a group's members; others get none. */
static int
create_of(struct tp_ampi_comm *parent, const struct tp_ampi_group *group,
          const struct tp_ampi_agreed *agreed, MPI_Comm *ret)
{
    struct tp_ampi_group *copy = copy_group(group, parent->owner->world);
    struct tp_ampi_comm *comm;
    int error;

    *ret = MPI_COMM_NULL;
    if (copy == NULL) {
        return MPI_ERR_NO_MEM;
    }
    if (copy->rank == MPI_UNDEFINED) {
        tp_ampi_group_unref(copy);
        return MPI_SUCCESS;
    }
    error = create_agreed(parent, copy, agreed, &comm);
    if (error == MPI_SUCCESS) {
        *ret = comm->handle;
    }
    return error;
}

int
tp_ampi_comm_create_of(struct tp_ampi_comm *comm, const struct tp_ampi_group *group,
                       MPI_Comm *ret)
{
    struct tp_ampi_agreed agreed;
    int error = tp_ampi_comm_agree(comm, comm->group, TAG_AGREE, &agreed);

    if (error == MPI_SUCCESS) {
        error = create_of(comm, group, &agreed, ret);
    }
    tp_free(agreed.all);
    return error;
}

/* ---- split ---- */

struct wish {
    int color, key;
    uint32_t context;
};

/* Members of the own color, by key, then by rank. */
static struct tp_ampi_group *
group_by_color(const struct tp_ampi_comm *comm, const struct wish *all)
{
    struct tp_ampi_group *group = tp_ampi_group_create(comm->size);
    const struct wish *mine = &all[comm->rank];
    int *keys = tp_alloc_array((size_t)comm->size, sizeof(*keys), "MPI_Comm_split");
    int count = 0;

    for (int i = 0; group != NULL && keys != NULL && i < comm->size; i++) {
        int at;

        if (all[i].color != mine->color) {
            continue;
        }
        for (at = count++; at > 0 && keys[at - 1] > all[i].key; at--) {
            keys[at] = keys[at - 1];
            group->world[at] = group->world[at - 1];
        }
        keys[at] = all[i].key;
        group->world[at] = comm->group->world[i];
    }
    if (keys == NULL) {
        tp_ampi_group_unref(group);
        group = NULL;
    }
    tp_free(keys);
    if (group != NULL) {
        group->size = count;
    }
    return group;
}

/* The context that the members of a color have. */
static int
agree_on_split(const struct tp_ampi_comm *comm, const struct wish *all,
               struct tp_ampi_agreed *ret)
{
    *ret = (struct tp_ampi_agreed){.context = all[0].context};
    if (comm->routes != NULL) {
        ret->context = all[comm->rank].context;
        ret->all =
            tp_alloc_array((size_t)comm->size, sizeof(*ret->all), "MPI_Comm_split");
        for (int i = 0; ret->all != NULL && i < comm->size; i++) {
            ret->all[i] = all[i].context;
        }
    }
    return ret->context != 0 && (comm->routes == NULL || ret->all != NULL)
               ? MPI_SUCCESS
               : MPI_ERR_NO_MEM;
}

static int
split(struct tp_ampi_comm *comm, int color, int key, MPI_Comm *ret)
{
    const struct wish mine = {color, key, tp_ampi_comm_propose(comm->owner)};
    struct wish *all =
        tp_alloc_array((size_t)comm->size, sizeof(*all), "MPI_Comm_split");
    struct tp_ampi_group *group = NULL;
    struct tp_ampi_agreed agreed = {.all = NULL};
    int error = MPI_ERR_NO_MEM;

    *ret = MPI_COMM_NULL;
    if (all != NULL) {
        error =
            tp_ampi_comm_gather(comm, comm->group, TAG_SPLIT, &mine, sizeof(mine), all);
    }
    if (error == MPI_SUCCESS) {
        error = agree_on_split(comm, all, &agreed);
    }
    if (error == MPI_SUCCESS && color != MPI_UNDEFINED) {
        group = group_by_color(comm, all);
        error = group != NULL ? create_of(comm, group, &agreed, ret) : MPI_ERR_NO_MEM;
    }
    tp_ampi_group_unref(group);
    tp_free(agreed.all);
    tp_free(all);
    return error;
}

int
tp_ampi_comm_split(struct tp_ampi_comm *comm, int color, int key, MPI_Comm *ret)
{
    return tp_ampi_error(comm,
                         comm->local != NULL
                             ? tp_ampi_intercomm_split(comm, color, key, ret)
                             : split(comm, color, key, ret),
                         "cannot split %s by color", comm->name);
}

/* A number for the machine and its PID namespace: processes with the same one open each other's
 * memory files. Host names do not tell: containers of several machines may have the same. */
static int
machine_color(void)
{
    uint64_t hash = TP_HASH_START;
    struct tp_process self;

    if (tp_process_self(&self) != TELPHER_OK) {
        return (int)tp_ampi.process; /* without /proc only its own ranks share memory */
    }
    hash = tp_hash_add(hash, self.machine, sizeof(self.machine));
    hash = tp_hash_add(hash, &self.pid_ns, sizeof(self.pid_ns));
    return (int)(hash >> 33); /* the upper bits are mixed best; no sign */
}

/* ---- calls ---- */

struct tp_ampi_comm *
tp_ampi_comm_find(MPI_Comm handle)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_get(handle);

    if (comm == NULL) {
        (void)tp_ampi_error(NULL, MPI_ERR_COMM, "%#x is no communicator", handle);
    }
    return comm;
}

int
PMPI_Comm_rank(MPI_Comm handle, int *rank)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    if (rank == NULL) {
        return tp_ampi_refuse_null();
    }
    *rank = comm->rank;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_rank);

int
PMPI_Comm_size(MPI_Comm handle, int *size)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    if (size == NULL) {
        return tp_ampi_refuse_null();
    }
    *size = comm->size;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_size);

int
PMPI_Comm_compare(MPI_Comm one, MPI_Comm other, int *result)
{
    struct tp_ampi_comm *a = tp_ampi_comm_find(one),
                        *b = a != NULL ? tp_ampi_comm_find(other) : NULL;

    if (b == NULL) {
        return MPI_ERR_COMM;
    }
    if (result == NULL) {
        return tp_ampi_refuse_null();
    }
    *result = tp_ampi_group_compare(a->group, b->group);
    if ((a->local != NULL) != (b->local != NULL)) {
        *result = MPI_UNEQUAL;
    } else if (a->local != NULL) {
        *result = TP_MAX(*result, tp_ampi_group_compare(a->peers, b->peers));
    }
    if (*result == MPI_IDENT && a != b) {
        *result = MPI_CONGRUENT;
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_compare);

/* A copy with the attributes whose callbacks say so. */
static int
duplicate(struct tp_ampi_comm *comm, struct ticket ticket, MPI_Comm *ret)
{
    struct tp_ampi_comm *copy;
    int error = dup_with(comm, ticket, &copy);

    if (error != MPI_SUCCESS) {
        return tp_ampi_error(comm, error, "cannot duplicate %s", comm->name);
    }
    error = tp_ampi_attributes_copy(&comm->attributes, comm->handle, &copy->attributes);
    if (error != MPI_SUCCESS) {
        (void)tp_ampi_attributes_delete(&copy->attributes, copy->handle);
        tp_ampi_comm_discard(copy);
        return tp_ampi_error(comm, error, "an attribute of %s cannot be copied",
                             comm->name);
    }
    *ret = copy->handle;
    return MPI_SUCCESS;
}

int
PMPI_Comm_dup(MPI_Comm handle, MPI_Comm *ret)
{
    struct tp_ampi_comm *comm;
    int error = MPI_ERR_COMM;

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    *ret = MPI_COMM_NULL;
    tp_ampi_enter();
    comm = tp_ampi_comm_find(handle);
    if (comm != NULL) {
        error = duplicate(comm, take_ticket(comm), ret);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Comm_dup);

int
PMPI_Comm_dup_with_info(MPI_Comm handle, MPI_Info info, MPI_Comm *ret)
{
    int error = PMPI_Comm_dup(handle, ret);

    return error == MPI_SUCCESS ? PMPI_Comm_set_info(*ret, info) : error;
}
TP_MPI_NAME(Comm_dup_with_info);

/* MPI_Comm_idup() on a light thread. */
struct idup {
    struct tp_ampi_comm *comm;
    struct ticket ticket;
    MPI_Comm *ret;
};

static int
idup(void *arg)
{
    struct idup *call = arg;
    int error = duplicate(call->comm, call->ticket, call->ret);

    tp_ampi_comm_unref(call->comm);
    tp_free(call);
    return error;
}

int
PMPI_Comm_idup(MPI_Comm handle, MPI_Comm *ret, MPI_Request *request)
{
    struct idup *call = tp_zalloc(sizeof(*call), "MPI_Comm_idup");
    struct tp_ampi_comm *comm;
    int error = MPI_ERR_NO_MEM;

    *request = MPI_REQUEST_NULL;
    *ret = MPI_COMM_NULL;
    tp_ampi_enter();
    comm = tp_ampi_comm_find(handle);
    if (call != NULL && comm != NULL) {
        comm->refs++;
        *call = (struct idup){comm, take_ticket(comm), ret};
        error = tp_ampi_start_light(idup, call, request);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Comm_idup);

int
PMPI_Comm_idup_with_info(MPI_Comm handle, MPI_Info info, MPI_Comm *ret,
                         MPI_Request *request)
{
    (void)info;
    return PMPI_Comm_idup(handle, ret, request);
}
TP_MPI_NAME(Comm_idup_with_info);

static int
create(MPI_Comm handle, MPI_Group group_handle, bool members_only, int tag,
       MPI_Comm *ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);
    struct tp_ampi_group *group = tp_ampi_group_get(group_handle);
    struct tp_ampi_agreed agreed;
    int error;

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    *ret = MPI_COMM_NULL;
    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    if (group == NULL) {
        return tp_ampi_error(comm, MPI_ERR_GROUP, "%#x is no group", group_handle);
    }
    for (int i = 0; comm->local == NULL && i < group->size; i++) {
        if (tp_ampi_comm_rank_of(comm, group->world[i]) == MPI_UNDEFINED) {
            return tp_ampi_error(comm, MPI_ERR_GROUP,
                                 "rank %u of the world is in the group, but not in %s",
                                 group->world[i], comm->name);
        }
    }
    if (members_only && group->size == 0) {
        return MPI_SUCCESS;
    }
    if (comm->local != NULL) {
        error = tp_ampi_intercomm_create_of(comm, group, ret);
    } else {
        error =
            tp_ampi_comm_agree(comm, members_only ? group : comm->group, tag, &agreed);
        if (error == MPI_SUCCESS) {
            error = create_of(comm, group, &agreed, ret);
        }
        tp_free(agreed.all);
    }
    return tp_ampi_error(comm, error, "cannot create a communicator of %s", comm->name);
}

int
PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *ret)
{
    int error;

    tp_ampi_enter();
    error = create(comm, group, false, TAG_AGREE, ret);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Comm_create);

int
PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *ret)
{
    int error;

    tp_ampi_enter();
    error = create(comm, group, true, TAG_GROUP + (tag & 0xffff), ret);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Comm_create_group);

int
PMPI_Comm_split(MPI_Comm handle, int color, int key, MPI_Comm *ret)
{
    struct tp_ampi_comm *comm;
    int error = MPI_ERR_COMM;

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    tp_ampi_enter();
    comm = tp_ampi_comm_find(handle);
    if (comm != NULL) {
        error = tp_ampi_comm_split(comm, color, key, ret);
    }
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Comm_split);

int
PMPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *ret)
{
    int error;

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    if (type != MPI_COMM_TYPE_SHARED && type != MPI_UNDEFINED) {
        return tp_ampi_error(tp_ampi_comm_get(comm), MPI_ERR_ARG, "there is no type %d",
                             type);
    }
    error =
        PMPI_Comm_split(comm, type == MPI_UNDEFINED ? type : machine_color(), key, ret);
    return error == MPI_SUCCESS && *ret != MPI_COMM_NULL
               ? PMPI_Comm_set_info(*ret, info)
               : error;
}
TP_MPI_NAME(Comm_split_type);

/* Deletes the attributes, then the handle. */
static int
release(struct tp_ampi_comm *comm)
{
    int error = tp_ampi_attributes_delete(&comm->attributes, comm->handle);

    if (error != MPI_SUCCESS) {
        return tp_ampi_error(comm, error, "an attribute of %s cannot be deleted",
                             comm->name);
    }
    if (comm->handle == comm->owner->parent) {
        comm->owner->parent = MPI_COMM_NULL;
    }
    tp_ampi_comm_discard(comm);
    return MPI_SUCCESS;
}

int
PMPI_Comm_free(MPI_Comm *handle)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(*handle);
    int error;

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    if (tp_ampi_is_predefined(*handle)) {
        return tp_ampi_error(comm, MPI_ERR_COMM, "%s is predefined and cannot be freed",
                             comm->name);
    }
    tp_ampi_enter();
    error = release(comm);
    tp_ampi_leave();
    if (error == MPI_SUCCESS) {
        *handle = MPI_COMM_NULL;
    }
    return error;
}
TP_MPI_NAME(Comm_free);

int
PMPI_Comm_disconnect(MPI_Comm *handle)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(*handle);
    int error = MPI_ERR_COMM;

    if (comm != NULL) { /* the last message between jobs has arrived then */
        error = comm->routes != NULL ? PMPI_Barrier(*handle) : MPI_SUCCESS;
    }
    /* operations under way keep it */
    return error == MPI_SUCCESS ? PMPI_Comm_free(handle) : error;
}
TP_MPI_NAME(Comm_disconnect);

/* Hints are kept for MPI_Comm_get_info; none changes what messages do. */
int
PMPI_Comm_set_info(MPI_Comm handle, MPI_Info info)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    return comm == NULL ? MPI_ERR_COMM
                        : tp_ampi_error(comm, tp_ampi_info_replace(&comm->info, info),
                                        "no memory for hints");
}
TP_MPI_NAME(Comm_set_info);

int
PMPI_Comm_get_info(MPI_Comm handle, MPI_Info *ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    *ret = MPI_INFO_NULL;
    return comm == NULL ? MPI_ERR_COMM : tp_ampi_info_give_copy(comm->info, ret);
}
TP_MPI_NAME(Comm_get_info);

int
PMPI_Comm_group(MPI_Comm handle, MPI_Group *group)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    if (group == NULL) {
        return tp_ampi_refuse_null();
    }
    comm->group->refs++;
    return tp_ampi_error(comm, tp_ampi_group_give(comm->group, group),
                         "no memory for a group");
}
TP_MPI_NAME(Comm_group);

int
PMPI_Comm_set_name(MPI_Comm handle, const char *name)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    (void)strncpy(comm->name, name, sizeof(comm->name) - 1);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_set_name);

int
PMPI_Comm_get_name(MPI_Comm handle, char *name, int *length)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    (void)strcpy(name, comm->name);
    *length = (int)strlen(name);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Comm_get_name);
