/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts shared with other jobs, the names of their ranks, and the routes of communicators. */
#include "ampi/dynamic/dynamic.h"

#include "base/alloc.h"

/* Ranks of other jobs: names[i] has the number tp_ampi.world_size + i in groups' `world`. */
static struct tp_ampi_name *names;
static uint32_t name_count;

/* ---- names ---- */

struct tp_ampi_name
tp_ampi_name_of(uint32_t world)
{
    return world < tp_ampi.world_size
               ? (struct tp_ampi_name){telpher_context_job(tp_ampi.ctx), world, 0}
               : names[world - tp_ampi.world_size];
}

int
tp_ampi_name_compare(const struct tp_ampi_name *a, const struct tp_ampi_name *b)
{
    if (a->job != b->job) {
        return a->job < b->job ? -1 : 1;
    }
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

uint32_t
tp_ampi_world_of(const struct tp_ampi_name *name)
{
    struct tp_ampi_name *more;

    if (name->job == telpher_context_job(tp_ampi.ctx)) {
        return name->rank;
    }
    for (uint32_t i = 0; i < name_count; i++) {
        if (tp_ampi_name_compare(&names[i], name) == 0) {
            return tp_ampi.world_size + i;
        }
    }
    more = tp_realloc_array(names, (size_t)name_count + 1, sizeof(*names), "MPI names");
    if (more == NULL) {
        return UINT32_MAX;
    }
    names = more;
    names[name_count] = *name;
    return tp_ampi.world_size + name_count++;
}

/* ---- routes ---- */

/* Of a rank that is in either group of a communicator, or in this job. */
static struct tp_ampi_route
route_in(const struct tp_ampi_comm *comm, uint32_t world)
{
    int rank = tp_ampi_group_rank_of(comm->peers, world);

    if (comm->routes != NULL && rank != MPI_UNDEFINED) {
        return comm->routes[rank];
    }
    return comm->local != NULL ? route_in(comm->local, world)
                               : (struct tp_ampi_route){.place = tp_ampi.places[world]};
}

int
tp_ampi_routes_make(struct tp_ampi_comm *comm, const struct tp_ampi_comm *parent)
{
    const struct tp_ampi_group *peers = comm->peers;

    comm->routes =
        tp_alloc_array((size_t)peers->size, sizeof(*comm->routes), "MPI routes");
    if (comm->routes == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < peers->size; i++) {
        comm->routes[i] = route_in(parent, peers->world[i]);
        if (comm->routes[i].bridge != NULL) {
            comm->routes[i].bridge->refs++;
        }
    }
    return MPI_SUCCESS;
}

void
tp_ampi_routes_free(struct tp_ampi_comm *comm)
{
    for (int i = 0; comm->routes != NULL && i < comm->peers->size; i++) {
        if (comm->routes[i].bridge != NULL) {
            comm->routes[i].bridge->refs--;
        }
    }
    if (comm->routes != NULL) {
        tp_ampi_forget_spawned(comm);
    }
    tp_free(comm->routes);
}

/* ---- bridges ---- */

struct tp_ampi_bridge *
tp_ampi_bridge_create(telpher_context *ctx)
{
    struct tp_ampi_bridge *bridge = tp_zalloc(sizeof(*bridge), "MPI bridge");
    void *first = (void *)(uintptr_t)tp_ampi.end_count;

    if (bridge == NULL ||
        telpher_msg_handler(ctx, TP_AMPI_HANDLER, NULL, tp_ampi_on_message, first) !=
            TELPHER_OK ||
        !tp_ampi_ends_add(ctx)) {
        tp_free(bridge);
        return NULL;
    }
    bridge->ctx = ctx;
    bridge->first = tp_ampi.end_count - telpher_context_size(ctx);
    bridge->refs = 1; /* the caller's */
    tp_list_init(&bridge->link);
    tp_list_push_back(&tp_ampi.bridges, &bridge->link);
    return bridge;
}

static void
destroy(struct tp_ampi_bridge *bridge)
{
    uint32_t size = telpher_context_size(bridge->ctx);

    tp_list_remove(&bridge->link);
    telpher_context_destroy(bridge->ctx);
    tp_ampi_channels_drop(bridge->first, size);
    for (uint32_t i = 0; i < size; i++) {
        tp_ampi.ends[bridge->first + i].ctx = NULL;
    }
    while (tp_ampi.ends[tp_ampi.end_count - 1].ctx == NULL) {
        tp_ampi.end_count--; /* the numbers of the last are used again */
    }
    tp_free(bridge);
}

bool
tp_ampi_bridges_progress(void)
{
    unsigned events = 0;

    tp_list_for_each_entry_safe(struct tp_ampi_bridge, bridge, &tp_ampi.bridges, link) {
        events += telpher_progress(bridge->ctx);
        if (bridge->refs == 0) {
            destroy(bridge);
            events++;
        }
    }
    return events != 0;
}

void
tp_ampi_bridges_abort(const struct tp_ampi_envelope *env)
{
    if (tp_ampi.ends == NULL) {
        return; /* before the job has begun */
    }
    tp_list_for_each_entry(struct tp_ampi_bridge, bridge, &tp_ampi.bridges, link) {
        for (uint32_t i = 0; i < telpher_context_size(bridge->ctx); i++) {
            if (i != telpher_context_rank(bridge->ctx)) {
                (void)tp_ampi_transmit(bridge->first + i, env, NULL, 0);
            }
        }
        (void)telpher_progress(bridge->ctx);
    }
}

void
tp_ampi_bridges_fini(void)
{
    tp_list_for_each_entry_safe(struct tp_ampi_bridge, bridge, &tp_ampi.bridges, link) {
        destroy(bridge);
    }
    tp_free(names);
    names = NULL;
    name_count = 0;
}
