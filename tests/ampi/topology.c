/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies, and collective calls with neighbours, against results that each rank computes
 * itself. MPICH runs it with three ranks and more; on rings of one or two ranks it orders both
 * neighbours as MPI before 4.1 allowed. usage: telpher launch -n N -- ampi_topology [+vp M] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, failures;

static void
expect(int ok, const char *what, int at)
{
    if (!ok && failures++ < 10) {
        fprintf(stderr, "rank %d of %d: %s, %d: FAILED\n", rank, size, what, at);
    }
}

static void
test_dims(void)
{
    static const struct {
        int size, count, in[3], want[3];
    } rows[] = {
        {12, 2, {0, 0, 0}, {4, 3, 0}}, {19008, 3, {0, 0, 0}, {33, 24, 24}},
        {6, 3, {0, 3, 0}, {2, 3, 1}},  {24, 3, {0, 0, 0}, {4, 3, 2}},
        {7, 2, {0, 0, 0}, {7, 1, 0}},  {64, 3, {0, 0, 0}, {4, 4, 4}},
        {1, 1, {0, 0, 0}, {1, 0, 0}},
    };

    for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
        int dims[3];

        memcpy(dims, rows[i].in, sizeof(dims));
        MPI_Dims_create(rows[i].size, rows[i].count, dims);
        for (int k = 0; k < rows[i].count; k++) {
            expect(dims[k] == rows[i].want[k], "MPI_Dims_create", i);
        }
    }
}

/* The value that rank r sends to its neighbour number at. */
static int
value(int r, int at)
{
    return r * 1000 + at;
}

/* A ring whose both neighbours may be one rank: what goes back arrives from ahead. */
static void
test_ring(void)
{
    int dims[1] = {size}, periods[1] = {1}, before, after, out[2], in[2];
    int one[2] = {1, 1}, displs[2] = {1, 0};
    MPI_Aint bytes[2] = {0, sizeof(int)};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Comm ring;
    MPI_Request requests[2];
    int gathered[2] = {-1, -1};

    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &before, &after);
    expect(before == (rank + size - 1) % size && after == (rank + 1) % size, "shift",
           before);
    out[0] = value(rank, 0);
    out[1] = value(rank, 1);
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
    expect(in[0] == value(before, 1) && in[1] == value(after, 0), "ring, alltoall",
           in[0]);
    memset(in, 0, sizeof(in));
    MPI_Neighbor_alltoallw(out, one, bytes, types, in, one, bytes, types, ring);
    expect(in[0] == value(before, 1) && in[1] == value(after, 0), "ring, alltoallw",
           in[0]);
    MPI_Ineighbor_allgatherv(&rank, 1, MPI_INT, gathered, one, displs, MPI_INT, ring,
                             &requests[0]);
    MPI_Ineighbor_alltoallv(out, one, displs, MPI_INT, in, one, displs, MPI_INT, ring,
                            &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(gathered[1] == before && gathered[0] == after, "ring, iallgatherv",
           gathered[0]);
    expect(in[1] == value(before, 0) && in[0] == value(after, 1), "ring, ialltoallv",
           in[0]);
    MPI_Comm_free(&ring);
}

static void
check_sub(MPI_Comm grid, const int *dims, const int *coords)
{
    int remain[2] = {0, 1}, kind, count, sub_rank, sub_size;
    MPI_Comm row, copy;

    MPI_Cart_sub(grid, remain, &row);
    MPI_Comm_dup(row, &copy);
    MPI_Topo_test(copy, &kind);
    MPI_Cartdim_get(copy, &count);
    MPI_Comm_rank(copy, &sub_rank);
    MPI_Comm_size(copy, &sub_size);
    expect(kind == MPI_CART && count == 1, "row of a grid", kind);
    expect(sub_rank == coords[1] && sub_size == dims[1], "rank of a row", sub_rank);
    MPI_Comm_free(&row);
    MPI_Comm_free(&copy);
}

/* A grid that does not wrap in its first dimension: its edges have null neighbours. */
static void
test_grid(void)
{
    int dims[2] = {0, 0}, periods[2] = {0, 1}, coords[2], got[2], at[2], to, kind;
    int neighbors[4], in[4] = {-5, -5, -5, -5};
    MPI_Comm grid;

    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Topo_test(grid, &kind);
    expect(kind == MPI_CART, "kind", kind);
    MPI_Cart_get(grid, 2, got, at, coords);
    expect(got[0] == dims[0] && got[1] == dims[1] && at[0] == 0 && at[1] == 1, "get",
           got[0]);
    MPI_Cart_coords(grid, rank, 2, at);
    expect(at[0] == coords[0] && at[1] == coords[1] && at[0] == rank / dims[1],
           "coordinates", at[0]);
    at[1] -= dims[1]; /* wraps */
    MPI_Cart_rank(grid, at, &to);
    expect(to == rank, "rank", to);
    MPI_Cart_shift(grid, 0, 1, &neighbors[0], &neighbors[1]);
    MPI_Cart_shift(grid, 1, 1, &neighbors[2], &neighbors[3]);
    expect(neighbors[0] == (coords[0] > 0 ? rank - dims[1] : MPI_PROC_NULL), "above",
           neighbors[0]);
    expect(neighbors[1] == (coords[0] < dims[0] - 1 ? rank + dims[1] : MPI_PROC_NULL),
           "below", neighbors[1]);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, grid);
    for (int i = 0; i < 4; i++) {
        expect(in[i] == (neighbors[i] == MPI_PROC_NULL ? -5 : neighbors[i]),
               "grid, allgather", i);
    }
    check_sub(grid, dims, coords);
    MPI_Comm_free(&grid);
}

/* Only some ranks have a place in the grid. */
static void
test_smaller(void)
{
    int dims[1] = {size > 1 ? size - 1 : 1}, periods[1] = {0}, mapped;
    MPI_Comm grid;

    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, &grid);
    expect((grid != MPI_COMM_NULL) == (rank < dims[0]), "smaller grid", rank);
    MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &mapped);
    expect(mapped == (rank < dims[0] ? rank : MPI_UNDEFINED), "map", mapped);
    if (grid != MPI_COMM_NULL) {
        MPI_Comm_free(&grid);
    }
}

/* A star: rank 0 with all others. */
static void
test_star(void)
{
    int *index = malloc(sizeof(int) * (size_t)size);
    int *edges = malloc(sizeof(int) * 2 * (size_t)size);
    int *in = malloc(sizeof(int) * (size_t)size);
    int nodes, count, total = 2 * (size - 1), first[1] = {-1};
    MPI_Comm star;

    for (int i = 0; i < size; i++) {
        index[i] = size - 1 + i;
        edges[i] = i + 1;
    }
    for (int i = size - 1; i < total; i++) {
        edges[i] = 0;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &star);
    MPI_Graphdims_get(star, &nodes, &count);
    expect(nodes == size && count == total, "dimensions of a graph", count);
    MPI_Graph_neighbors_count(star, size - 1, &count);
    expect(count == (size > 1), "degree", count);
    MPI_Graph_neighbors(star, size - 1, 1, first);
    expect(size == 1 || first[0] == 0, "neighbour", first[0]);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, star);
    for (int i = 0; i < (rank == 0 ? size - 1 : 1); i++) {
        expect(size == 1 || in[i] == (rank == 0 ? i + 1 : 0), "star, allgather", i);
    }
    MPI_Comm_free(&star);
    free(index);
    free(edges);
    free(in);
}

/* Each rank sends to the next two; rank 0 names all edges. Two edges may join the same ranks. */
static void
test_distributed(void)
{
    int *sources = malloc(sizeof(int) * (size_t)size);
    int *degrees = malloc(sizeof(int) * (size_t)size);
    int *destinations = malloc(sizeof(int) * 2 * (size_t)size);
    int *weights = malloc(sizeof(int) * 2 * (size_t)size);
    int in_count, out_count, weighted, from[2], to[2], in_weights[2], out_weights[2];
    int out[2], in[2];
    MPI_Comm graph;

    for (int i = 0; i < size; i++) {
        sources[i] = i;
        degrees[i] = 2;
        for (int k = 0; k < 2; k++) {
            destinations[2 * i + k] = (i + k + 1) % size;
            weights[2 * i + k] = 100 * i + k;
        }
    }
    MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0 ? size : 0, sources, degrees,
                          destinations, weights, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in_count, &out_count, &weighted);
    expect(in_count == 2 && out_count == 2 && weighted, "degrees", in_count);
    MPI_Dist_graph_neighbors(graph, 2, from, in_weights, 2, to, out_weights);
    for (int i = 0; i < 2; i++) {
        int steps = out_weights[i] % 100 + 1;

        expect(to[i] == (rank + steps) % size && out_weights[i] / 100 == rank,
               "destination", to[i]);
        steps = in_weights[i] % 100 + 1;
        expect((from[i] + steps) % size == rank && in_weights[i] / 100 == from[i],
               "source", from[i]);
        out[i] = out_weights[i];
    }
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, graph);
    expect(in[0] == in_weights[0] && in[1] == in_weights[1], "graph, alltoall", in[0]);
    MPI_Comm_free(&graph);
    free(sources);
    free(degrees);
    free(destinations);
    free(weights);
}

/* A rank only sends to the next, and gives no weights. */
static void
test_adjacent(void)
{
    int before = (rank + size - 1) % size, after = (rank + 1) % size, kind;
    int in_count, out_count, weighted, in = -1;
    MPI_Comm graph;

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1,
                                   &after, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Topo_test(graph, &kind);
    expect(kind == MPI_DIST_GRAPH, "kind", kind);
    MPI_Dist_graph_neighbors_count(graph, &in_count, &out_count, &weighted);
    expect(in_count == 1 && out_count == 1 && !weighted, "counts", weighted);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, &in, 1, MPI_INT, graph);
    expect(in == before, "one way", in);
    MPI_Comm_free(&graph);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    expect(kind == MPI_UNDEFINED, "kind of the world", kind);
}

int
main(int argc, char **argv)
{
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    test_dims();
    test_ring();
    test_grid();
    test_smaller();
    test_star();
    test_distributed();
    test_adjacent();
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d failures\n", all);
    }
    MPI_Finalize();
    return all != 0;
}
