/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting groups of two jobs. Their ranks learn of each other through the groups' leaders. One
 * rank of each process makes the context of both groups' processes; its bootstrap goes over the
 * leaders' connection, too. A process with ranks in both groups has two contexts.
 */
#include "ampi/dynamic/dynamic.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { TAG_CONNECT = TP_AMPI_TAG_OWN + 0x50000 };

/** A rank, as the other group learns of it. */
struct member {
    struct tp_ampi_name name;
    uint32_t process, local; /* in its job */
    uint32_t context; /* that it has for the new communicator */
    uint32_t is_maker; /* of its process: makes the context */
};

struct connection {
    const struct tp_ampi_line *line;
    struct member *own, *other;
    int own_count, other_count;
    uint32_t processes, own_processes; /* of both groups; of the own one */
    bool is_first; /* the own processes have the first numbers */
};

static bool
is_same_process(const struct member *a, const struct member *b)
{
    return a->name.job == b->name.job && a->process == b->process;
}

/* The member that makes the context of a member's process: the leader, or the first. */
static int
maker_of(const struct connection *c, int rank)
{
    int leader = c->line->leader;

    if (is_same_process(&c->own[leader], &c->own[rank])) {
        return leader;
    }
    for (int i = 0; i < rank; i++) {
        if (is_same_process(&c->own[i], &c->own[rank])) {
            return i;
        }
    }
    return rank;
}

static uint32_t
count_makers(const struct member *members, int count)
{
    uint32_t makers = 0;

    for (int i = 0; i < count; i++) {
        makers += members[i].is_maker;
    }
    return makers;
}

/* Number of a member's process among those of its group. */
static uint32_t
number_in(const struct member *members, int count, const struct member *member)
{
    uint32_t before = 0;

    for (int i = 0; i < count; i++) {
        if (members[i].is_maker && is_same_process(&members[i], member)) {
            return before;
        }
        before += members[i].is_maker;
    }
    return before; /* never: each process has a maker */
}

/* ---- members of both groups ---- */

static int
learn_members(struct connection *c)
{
    struct tp_ampi_comm *local = c->line->local;
    const struct tp_ampi_rank *rank = local->owner;
    const struct member mine = {.name = tp_ampi_name_of(rank->world),
                                .process = tp_ampi.process,
                                .local = rank->local,
                                .context = tp_ampi_comm_propose(local->owner)};
    size_t len = 0;
    int error = MPI_ERR_NO_MEM;

    c->own_count = local->size;
    c->own = tp_alloc_array((size_t)local->size, sizeof(*c->own), "MPI connection");
    if (c->own != NULL && mine.context != 0) {
        error = tp_ampi_comm_gather(local, local->group, TAG_CONNECT, &mine,
                                    sizeof(mine), c->own);
    }
    for (int i = 0; i < c->own_count && error == MPI_SUCCESS; i++) {
        c->own[i].is_maker = maker_of(c, i) == i;
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_line_exchange(c->line, c->own,
                                      (size_t)c->own_count * sizeof(*c->own),
                                      (void **)&c->other, &len);
    }
    if (error == MPI_SUCCESS) {
        c->other_count = (int)(len / sizeof(*c->other));
        c->is_first = tp_ampi_name_compare(&c->own[0].name, &c->other[0].name) < 0;
        c->own_processes = count_makers(c->own, c->own_count);
        c->processes = c->own_processes + count_makers(c->other, c->other_count);
    }
    return error;
}

/* ---- the context's bootstrap ---- */

static size_t
front_of(const struct connection *c, bool own)
{
    return own == c->is_first ? 0
           : own              ? c->processes - c->own_processes
                              : c->own_processes;
}

/* The leader's part: it is a maker, and talks for the others. */
static int
gather_as_leader(const struct connection *c, const void *mine, size_t len, char *all)
{
    struct tp_ampi_comm *local = c->line->local;
    char *at = all + front_of(c, true) * len, *next = at;
    int error = MPI_SUCCESS;

    for (int i = 0; i < c->own_count && error == MPI_SUCCESS; i++) {
        if (i == c->line->leader) {
            memcpy(next, mine, len);
        } else if (c->own[i].is_maker) {
            error = tp_ampi_recv(local, true, next, len, MPI_BYTE, i, TAG_CONNECT,
                                 MPI_STATUS_IGNORE);
        }
        next += c->own[i].is_maker ? len : 0;
    }
    if (error == MPI_SUCCESS) {
        error = tp_ampi_line_swap(c->line, at, c->own_processes * len,
                                  all + front_of(c, false) * len,
                                  (c->processes - c->own_processes) * len);
    }
    for (int i = 0; i < c->own_count && error == MPI_SUCCESS; i++) {
        if (c->own[i].is_maker && i != c->line->leader) {
            error = tp_ampi_send(local, true, all, c->processes * len, MPI_BYTE, i,
                                 TAG_CONNECT);
        }
    }
    return error;
}

static telpher_status
gather(void *user, const void *mine, size_t len, void *all)
{
    const struct connection *c = user;
    struct tp_ampi_comm *local = c->line->local;
    int error;

    if (local->rank == c->line->leader) {
        error = gather_as_leader(c, mine, len, all);
    } else {
        error = tp_ampi_send(local, true, mine, len, MPI_BYTE, c->line->leader,
                             TAG_CONNECT);
        error = error != MPI_SUCCESS
                    ? error
                    : tp_ampi_recv(local, true, all, c->processes * len, MPI_BYTE,
                                   c->line->leader, TAG_CONNECT, MPI_STATUS_IGNORE);
    }
    return error == MPI_SUCCESS ? TELPHER_OK : TELPHER_ERR_PEER_LOST;
}

static struct tp_ampi_bridge *
make_bridge(struct connection *c)
{
    const struct member *mine = &c->own[c->line->local->rank];
    const telpher_bootstrap bootstrap = {.struct_size = sizeof(bootstrap),
                                         .rank = (uint32_t)front_of(c, true) +
                                                 number_in(c->own, c->own_count, mine),
                                         .size = c->processes,
                                         .allgather = gather,
                                         .user = c};
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_error err = {0};
    telpher_context *ctx = NULL;
    struct tp_ampi_bridge *bridge;

    params.bootstrap = &bootstrap;
    if (telpher_context_create(&params, &ctx, &err) != TELPHER_OK) {
        (void)fprintf(stderr, "telpher-ampi: cannot connect to another job: %s\n",
                      err.text);
        return NULL;
    }
    bridge = tp_ampi_bridge_create(ctx);
    if (bridge == NULL) {
        telpher_context_destroy(ctx);
    }
    return bridge;
}

/* The bridge of this process, from the rank that makes it. Each rank has a reference to it. */
static int
share_bridge(struct connection *c, struct tp_ampi_bridge **ret)
{
    struct tp_ampi_comm *local = c->line->local;
    int maker = maker_of(c, local->rank), error = MPI_SUCCESS;

    if (maker != local->rank) {
        return tp_ampi_recv(local, true, ret, sizeof(struct tp_ampi_bridge *), MPI_BYTE,
                            maker, TAG_CONNECT, MPI_STATUS_IGNORE);
    }
    *ret = make_bridge(c);
    for (int i = 0; i < c->own_count && error == MPI_SUCCESS; i++) {
        if (i != maker && maker_of(c, i) == maker) {
            error = tp_ampi_send(local, true, ret, sizeof(struct tp_ampi_bridge *),
                                 MPI_BYTE, i, TAG_CONNECT);
            if (*ret != NULL) {
                (*ret)->refs++;
            }
        }
    }
    return error;
}

/* All processes have their bridge, whose handlers are set, or the call fails in all of them. */
static int
agree_on_success(const struct connection *c, bool failed)
{
    struct tp_ampi_comm *local = c->line->local;
    int32_t bad = failed,
            *all = tp_alloc_array((size_t)c->own_count, sizeof(*all), "MPI connection"),
            *theirs = NULL;
    size_t len = 0;
    int error = MPI_ERR_NO_MEM;

    if (all != NULL) {
        error = tp_ampi_comm_gather(local, local->group, TAG_CONNECT, &bad, sizeof(bad),
                                    all);
    }
    for (int i = 0; i < c->own_count && error == MPI_SUCCESS; i++) {
        bad |= all[i];
    }
    if (error == MPI_SUCCESS) {
        error =
            tp_ampi_line_exchange(c->line, &bad, sizeof(bad), (void **)&theirs, &len);
    }
    if (error == MPI_SUCCESS && (bad != 0 || theirs[0] != 0)) {
        error = MPI_ERR_INTERN;
    }
    tp_free(all);
    tp_free(theirs);
    return error;
}

/* ---- the communicator ---- */

static struct tp_ampi_group *
make_group(const struct connection *c)
{
    struct tp_ampi_group *group = tp_ampi_group_create(c->other_count);

    for (int i = 0; group != NULL && i < c->other_count; i++) {
        group->world[i] = tp_ampi_world_of(&c->other[i].name);
        if (group->world[i] == UINT32_MAX) {
            tp_ampi_group_unref(group);
            group = NULL;
        }
    }
    return group;
}

static int
set_routes(const struct connection *c, struct tp_ampi_bridge *bridge,
           struct tp_ampi_comm *comm)
{
    comm->routes =
        tp_alloc_array((size_t)c->other_count, sizeof(*comm->routes), "MPI connection");
    if (comm->routes == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < c->other_count; i++) {
        uint32_t at = (uint32_t)front_of(c, false) +
                      number_in(c->other, c->other_count, &c->other[i]);

        comm->routes[i] = (struct tp_ampi_route){
            .place = {.process = bridge->first + at, .local = c->other[i].local},
            .context = c->other[i].context,
            .bridge = bridge};
        bridge->refs++;
    }
    return MPI_SUCCESS;
}

static int
make_comm(const struct connection *c, struct tp_ampi_bridge *bridge,
          struct tp_ampi_comm **ret)
{
    struct tp_ampi_comm *local = c->line->local;
    struct tp_ampi_group *group = make_group(c);
    int error = MPI_ERR_NO_MEM;

    if (group != NULL) {
        error = tp_ampi_intercomm_make(local, group, c->own[local->rank].context, ret);
    }
    if (error == MPI_SUCCESS) {
        error = set_routes(c, bridge, *ret);
        if (error != MPI_SUCCESS) {
            tp_ampi_comm_discard(*ret);
        }
    }
    tp_ampi_group_unref(group);
    return error;
}

int
tp_ampi_connect(const struct tp_ampi_line *line, struct tp_ampi_comm **ret)
{
    struct connection c = {.line = line};
    struct tp_ampi_bridge *bridge = NULL;
    int error;

    tp_ampi.connecting++;
    error = learn_members(&c);
    if (error == MPI_SUCCESS) {
        error = share_bridge(&c, &bridge);
        error = agree_on_success(&c, error != MPI_SUCCESS || bridge == NULL);
    }
    if (error == MPI_SUCCESS) {
        error = make_comm(&c, bridge, ret);
    }
    if (bridge != NULL) {
        bridge->refs--;
    }
    tp_free(c.own);
    tp_free(c.other);
    tp_ampi.connecting--;
    return error;
}
