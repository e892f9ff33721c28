/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: one that all ranks know, or of which each rank knows its neighbours. */
#include <string.h>

#include "ampi/process.h"
#include "ampi/topology.h"
#include "base/alloc.h"

static void
copy_numbers(int *to, const int *from, int count)
{
    if (count > 0) {
        memcpy(to, from, (size_t)count * sizeof(*to));
    }
}

/* ---- graphs that all ranks know ---- */

static int
check_graph(struct tp_ampi_comm *comm, int nodes, const int index[], const int edges[])
{
    if (nodes < 0 || nodes > comm->size) {
        return tp_ampi_error(comm, MPI_ERR_ARG, "a graph of %d nodes for %d ranks",
                             nodes, comm->size);
    }
    for (int i = 0; i < nodes; i++) {
        if (index[i] < (i > 0 ? index[i - 1] : 0)) {
            return tp_ampi_error(comm, MPI_ERR_ARG, "index %d of a graph decreases", i);
        }
    }
    for (int i = 0; nodes > 0 && i < index[nodes - 1]; i++) {
        if (edges[i] < 0 || edges[i] >= nodes) {
            return tp_ampi_error(comm, MPI_ERR_ARG,
                                 "edge %d of a graph of %d nodes goes to %d", i, nodes,
                                 edges[i]);
        }
    }
    return MPI_SUCCESS;
}

/* Neighbours of a node. */
static int
neighbors_of(const struct tp_ampi_topology *t, int node, int **ret)
{
    int first = node > 0 ? t->index[node - 1] : 0;

    *ret = t->edges + first;
    return t->index[node] - first;
}

static int
create_graph(MPI_Comm handle, int nodes, const int index[], const int edges[],
             MPI_Comm *ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);
    struct tp_ampi_topology *t;
    int error = comm != NULL ? check_graph(comm, nodes, index, edges) : MPI_ERR_COMM;
    int count;

    *ret = MPI_COMM_NULL;
    if (error != MPI_SUCCESS) {
        return error;
    }
    count = nodes > 0 ? index[nodes - 1] : 0;
    t = tp_ampi_topology_create(MPI_GRAPH, (size_t)nodes + (size_t)count);
    if (t == NULL) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a graph");
    }
    t->count = nodes;
    t->index = t->numbers;
    t->edges = t->numbers + nodes;
    copy_numbers(t->index, index, nodes);
    copy_numbers(t->edges, edges, count);
    if (comm->rank < nodes) {
        t->in_count = t->out_count = neighbors_of(t, comm->rank, &t->sources);
        t->destinations = t->sources;
    }
    return tp_ampi_topology_give(comm, nodes, t, ret);
}

int
PMPI_Graph_create(MPI_Comm comm, int nodes, const int index[], const int edges[],
                  int reorder, MPI_Comm *ret)
{
    int error;

    (void)reorder;
    tp_ampi_enter();
    error = create_graph(comm, nodes, index, edges, ret);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Graph_create);

int
PMPI_Graphdims_get(MPI_Comm handle, int *nodes, int *edges)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_GRAPH, &comm, &t);

    if (error == MPI_SUCCESS) {
        *nodes = t->count;
        *edges = t->index[t->count - 1];
    }
    return error;
}
TP_MPI_NAME(Graphdims_get);

int
PMPI_Graph_get(MPI_Comm handle, int max_index, int max_edges, int index[], int edges[])
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_GRAPH, &comm, &t);

    if (error == MPI_SUCCESS) {
        copy_numbers(index, t->index, TP_MIN(max_index, t->count));
        copy_numbers(edges, t->edges, TP_MIN(max_edges, t->index[t->count - 1]));
    }
    return error;
}
TP_MPI_NAME(Graph_get);

/* Finds the neighbours of a rank for a call. */
static int
find_neighbors(MPI_Comm handle, int rank, int **ret, int *ret_count)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_GRAPH, &comm, &t);

    if (error == MPI_SUCCESS && (rank < 0 || rank >= t->count)) {
        error = tp_ampi_error(comm, MPI_ERR_RANK, "rank %d is not in a graph of %d",
                              rank, t->count);
    }
    if (error == MPI_SUCCESS) {
        *ret_count = neighbors_of(t, rank, ret);
    }
    return error;
}

int
PMPI_Graph_neighbors_count(MPI_Comm comm, int rank, int *count)
{
    int *list;

    return find_neighbors(comm, rank, &list, count);
}
TP_MPI_NAME(Graph_neighbors_count);

int
PMPI_Graph_neighbors(MPI_Comm comm, int rank, int max, int neighbors[])
{
    int *list, count, error = find_neighbors(comm, rank, &list, &count);

    if (error == MPI_SUCCESS) {
        copy_numbers(neighbors, list, TP_MIN(max, count));
    }
    return error;
}
TP_MPI_NAME(Graph_neighbors);

int
PMPI_Graph_map(MPI_Comm handle, int nodes, const int index[], const int edges[],
               int *rank)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);
    int error = comm != NULL ? check_graph(comm, nodes, index, edges) : MPI_ERR_COMM;

    if (error == MPI_SUCCESS) {
        *rank = comm->rank < nodes ? comm->rank : MPI_UNDEFINED;
    }
    return error;
}
TP_MPI_NAME(Graph_map);

/* ---- distributed graphs ---- */

static int
check_ranks(struct tp_ampi_comm *comm, int count, const int ranks[])
{
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->size) {
            return tp_ampi_error(comm, MPI_ERR_RANK, "neighbour %d of a graph is %d", i,
                                 ranks[i]);
        }
    }
    return count >= 0 ? MPI_SUCCESS
                      : tp_ampi_error(comm, MPI_ERR_ARG, "%d neighbours", count);
}

/* One side: neighbours and, if there are any, weights after them. @return the next numbers */
static int *
set_side(int *at, int count, const int ranks[], const int weights[], int **ret_ranks,
         int **ret_weights)
{
    *ret_ranks = at;
    copy_numbers(at, ranks, count);
    if (weights != MPI_UNWEIGHTED) {
        *ret_weights = at + count;
        copy_numbers(at + count, weights, weights != MPI_WEIGHTS_EMPTY ? count : 0);
    }
    return at + 2 * (size_t)count;
}

static int
create_adjacent(MPI_Comm handle, int in_count, const int sources[],
                const int in_weights[], int out_count, const int destinations[],
                const int out_weights[], MPI_Comm *ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);
    struct tp_ampi_topology *t;
    int error = comm != NULL ? check_ranks(comm, in_count, sources) : MPI_ERR_COMM;
    int *next;

    *ret = MPI_COMM_NULL;
    if (error == MPI_SUCCESS) {
        error = check_ranks(comm, out_count, destinations);
    }
    if (error != MPI_SUCCESS) {
        return error;
    }
    t = tp_ampi_topology_create(MPI_DIST_GRAPH,
                                2 * ((size_t)in_count + (size_t)out_count));
    if (t == NULL) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a graph");
    }
    t->in_count = in_count;
    t->out_count = out_count;
    next = set_side(t->numbers, in_count, sources, in_weights, &t->sources,
                    &t->in_weights);
    (void)set_side(next, out_count, destinations, out_weights, &t->destinations,
                   &t->out_weights);
    return tp_ampi_topology_give(comm, comm->size, t, ret);
}

int
PMPI_Dist_graph_create_adjacent(MPI_Comm comm, int in_count, const int sources[],
                                const int in_weights[], int out_count,
                                const int destinations[], const int out_weights[],
                                MPI_Info info, int reorder, MPI_Comm *ret)
{
    int error;

    (void)info;
    (void)reorder;
    tp_ampi_enter();
    error = create_adjacent(comm, in_count, sources, in_weights, out_count,
                            destinations, out_weights, ret);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Dist_graph_create_adjacent);

/* ---- edges that any rank may name ---- */

/* Each edge goes to both of its ranks. An edge is sent as: whether the
 * receiver is its source, the other rank, the weight. */
enum { EDGE = 3 };

/* Edges for all ranks, in the order of their receivers; counts and displacements in integers. */
struct edges {
    int size;
    int *numbers, *counts, *displs;
};

static void
edges_fini(struct edges *e)
{
    tp_free(e->numbers);
    tp_free(e->counts);
}

/* @param counts  [size] integers for each rank, which it takes */
static bool
edges_init(struct edges *e, int size)
{
    int total = 0;

    e->displs = e->counts + size;
    for (int i = 0; i < size; i++) {
        e->displs[i] = total;
        total += e->counts[i];
    }
    e->size = total;
    e->numbers = tp_alloc_array((size_t)TP_MAX(total, 1), sizeof(int), "MPI graph");
    return e->numbers != NULL;
}

static void
add_edge(struct edges *e, int to, int is_source, int other, int weight)
{
    int *at = e->numbers + e->displs[to];

    at[0] = is_source;
    at[1] = other;
    at[2] = weight;
    e->displs[to] += EDGE;
}

/* Sorts a rank's edges by receiver. */
static bool
sort_edges(struct edges *e, int size, int count, const int sources[],
           const int degrees[], const int destinations[], const int weights[])
{
    e->counts = tp_alloc_array(2 * (size_t)size, sizeof(int), "MPI graph");
    if (e->counts == NULL) {
        return false;
    }
    for (int i = 0, at = 0; i < count; i++) {
        e->counts[sources[i]] += EDGE * degrees[i];
        for (int k = 0; k < degrees[i]; k++) {
            e->counts[destinations[at++]] += EDGE;
        }
    }
    if (!edges_init(e, size)) {
        return false;
    }
    for (int i = 0, at = 0; i < count; i++) {
        for (int k = 0; k < degrees[i]; k++, at++) {
            int weight = weights != MPI_UNWEIGHTED ? weights[at] : 0;

            add_edge(e, sources[i], 1, destinations[at], weight);
            add_edge(e, destinations[at], 0, sources[i], weight);
        }
    }
    for (int i = 0; i < size; i++) {
        e->displs[i] -= e->counts[i];
    }
    return true;
}

static int
exchange_edges(MPI_Comm comm, int size, const struct edges *out, struct edges *in)
{
    int error;

    in->counts = tp_alloc_array(2 * (size_t)size, sizeof(int), "MPI graph");
    if (in->counts == NULL) {
        return MPI_ERR_NO_MEM;
    }
    error = PMPI_Alltoall(out->counts, 1, MPI_INT, in->counts, 1, MPI_INT, comm);
    if (error != MPI_SUCCESS) {
        return error;
    }
    if (!edges_init(in, size)) {
        return MPI_ERR_NO_MEM;
    }
    return PMPI_Alltoallv(out->numbers, out->counts, out->displs, MPI_INT, in->numbers,
                          in->counts, in->displs, MPI_INT, comm);
}

/* Splits what a rank received into its neighbours on both sides. */
static int
create_of_edges(MPI_Comm comm, const struct edges *in, bool weighted, MPI_Comm *ret)
{
    int edges = in->size / EDGE, count[2] = {0, 0}, error;
    int *numbers = tp_alloc_array(4 * (size_t)TP_MAX(edges, 1), sizeof(int), "graph");

    *ret = MPI_COMM_NULL;
    if (numbers == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < edges; i++) {
        const int *edge = in->numbers + (size_t)EDGE * (size_t)i;
        int *at = numbers + 2 * (size_t)(edge[0] * edges) + count[edge[0]]++;

        at[0] = edge[1];
        at[edges] = edge[2];
    }
    error = PMPI_Dist_graph_create_adjacent(
        comm, count[0], numbers, weighted ? numbers + edges : MPI_UNWEIGHTED, count[1],
        numbers + 2 * (size_t)edges,
        weighted ? numbers + 3 * (size_t)edges : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, ret);
    tp_free(numbers);
    return error;
}

static int
check_edges(struct tp_ampi_comm *comm, int count, const int sources[],
            const int degrees[], const int destinations[])
{
    int total = 0, error = check_ranks(comm, count, sources);

    for (int i = 0; i < count && error == MPI_SUCCESS; i++) {
        error = degrees[i] >= 0 ? MPI_SUCCESS
                                : tp_ampi_error(comm, MPI_ERR_ARG, "degree %d is %d", i,
                                                degrees[i]);
        total += degrees[i];
    }
    return error == MPI_SUCCESS ? check_ranks(comm, total, destinations) : error;
}

int
PMPI_Dist_graph_create(MPI_Comm handle, int count, const int sources[],
                       const int degrees[], const int destinations[],
                       const int weights[], MPI_Info info, int reorder, MPI_Comm *ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);
    struct edges out = {.size = 0}, in = {.size = 0};
    int error = comm != NULL ? check_edges(comm, count, sources, degrees, destinations)
                             : MPI_ERR_COMM;

    (void)info;
    (void)reorder;
    *ret = MPI_COMM_NULL;
    if (error != MPI_SUCCESS) {
        return error;
    }
    if (!sort_edges(&out, comm->size, count, sources, degrees, destinations, weights)) {
        error = MPI_ERR_NO_MEM;
    }
    if (error == MPI_SUCCESS) {
        error = exchange_edges(handle, comm->size, &out, &in);
    }
    if (error == MPI_SUCCESS) {
        error = create_of_edges(handle, &in, weights != MPI_UNWEIGHTED, ret);
    }
    edges_fini(&out);
    edges_fini(&in);
    return error == MPI_ERR_NO_MEM ? tp_ampi_error(comm, error, "no memory for a graph")
                                   : error;
}
TP_MPI_NAME(Dist_graph_create);

int
PMPI_Dist_graph_neighbors_count(MPI_Comm handle, int *in_count, int *out_count,
                                int *weighted)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_DIST_GRAPH, &comm, &t);

    if (error == MPI_SUCCESS) {
        *in_count = t->in_count;
        *out_count = t->out_count;
        *weighted = t->in_weights != NULL;
    }
    return error;
}
TP_MPI_NAME(Dist_graph_neighbors_count);

int
PMPI_Dist_graph_neighbors(MPI_Comm handle, int max_in, int sources[], int in_weights[],
                          int max_out, int destinations[], int out_weights[])
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_DIST_GRAPH, &comm, &t);

    if (error != MPI_SUCCESS) {
        return error;
    }
    max_in = TP_MIN(max_in, t->in_count);
    max_out = TP_MIN(max_out, t->out_count);
    copy_numbers(sources, t->sources, max_in);
    copy_numbers(destinations, t->destinations, max_out);
    if (t->in_weights != NULL && in_weights != MPI_UNWEIGHTED) {
        copy_numbers(in_weights, t->in_weights, max_in);
    }
    if (t->out_weights != NULL && out_weights != MPI_UNWEIGHTED) {
        copy_numbers(out_weights, t->out_weights, max_out);
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(Dist_graph_neighbors);
