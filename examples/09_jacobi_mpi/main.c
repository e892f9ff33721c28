/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: mpirun -n 4 09_jacobi_mpi [OPTION]... [EDGE [STEPS]]
 *
 * Jacobi's method on a cube, a plain program of MPI: each rank has a block, and exchanges its six
 * faces in each step. Compiled by nvcc the block lies in a GPU's memory, and the MPI gets the
 * device's pointers:
 *   telpher-mpicc -O2 main.c -o jacobi
 *   nvcc -O2 -cudart shared -x cu main.c -o jacobi $(telpher-mpicc --showme:compile) $(telpher-mpicc --showme:link)
 *   -s  staged: the program copies faces through host memory; else direct
 *   -w  weak scaling: EDGE is that of each rank's block; else of the cube
 *   -n  does not compare the result with one loop
 */
#include <mpi.h>
#include <unistd.h>

#include "memory.h"

enum { SIDES = 6 }; /* below and above, along x, y and z */

struct options {
    int staged, weak, unchecked;
    int64_t edge, steps;
};

struct block {
    MPI_Comm grid;
    int rank, ranks, parts[3], at[3], neighbour[SIDES];
    int64_t cube[3], first[3],
        edge[3]; /* inner points: of all, first one's place, own */
    double *now, *next;
    double *out[SIDES], *in[SIDES]; /* faces */
    double *stage_out[SIDES], *stage_in[SIDES]; /* the same in host memory, if staged */
};

/* ---- what is done with a point ---- */

static inline ON_BOTH int64_t
place(const struct box *box, int64_t x, int64_t y, int64_t z)
{
    return box->first + x * box->stride[0] + y * box->stride[1] + z * box->stride[2];
}

/* Each point becomes the mean of its six neighbours. */
static inline ON_BOTH void
relax(const struct box *box, int64_t x, int64_t y, int64_t z, double *to,
      const double *from)
{
    int64_t i = place(box, x, y, z);

    to[i] = (from[i - box->stride[0]] + from[i + box->stride[0]] +
             from[i - box->stride[1]] + from[i + box->stride[1]] +
             from[i - box->stride[2]] + from[i + box->stride[2]]) /
            6;
}

static inline ON_BOTH int64_t
face_place(const struct box *box, int64_t x, int64_t y, int64_t z)
{
    return (z * box->edge[1] + y) * box->edge[0] + x;
}

static inline ON_BOTH void
pack(const struct box *box, int64_t x, int64_t y, int64_t z, double *to,
     const double *from)
{
    to[face_place(box, x, y, z)] = from[place(box, x, y, z)];
}

static inline ON_BOTH void
unpack(const struct box *box, int64_t x, int64_t y, int64_t z, double *to,
       const double *from)
{
    to[place(box, x, y, z)] = from[face_place(box, x, y, z)];
}

DEFINE_FOR_EACH(relax)
DEFINE_FOR_EACH(pack)
DEFINE_FOR_EACH(unpack)

/* ---- boxes ---- */

/* The inner points of a block with a border of one point. */
static struct box
inner(const int64_t edge[3])
{
    struct box box = {0,
                      {edge[0], edge[1], edge[2]},
                      {1, edge[0] + 2, (edge[0] + 2) * (edge[1] + 2)}};

    box.first = box.stride[0] + box.stride[1] + box.stride[2];
    return box;
}

/* The points of a block next to side SIDE, or the border outside of it. */
static struct box
face(const int64_t edge[3], int side, int border)
{
    struct box box = inner(edge);
    int axis = side / 2;

    box.first += side % 2 ? (edge[axis] - 1 + border) * box.stride[axis]
                          : -border * box.stride[axis];
    box.edge[axis] = 1;
    return box;
}

static size_t
points(const struct box *box)
{
    return (size_t)(box->edge[0] * box->edge[1] * box->edge[2]);
}

static size_t
points_with_border(const int64_t edge[3])
{
    return (size_t)((edge[0] + 2) * (edge[1] + 2) * (edge[2] + 2));
}

/* The face z = 0 is hot, everything else begins cold. */
static double *
make_cube(const int64_t edge[3], int hot)
{
    size_t plane = (size_t)((edge[0] + 2) * (edge[1] + 2));
    double *cube = memory_allocate(points_with_border(edge));
    double *hot_plane = memory_allocate_host(plane);

    for (size_t i = 0; hot && i < plane; i++) {
        hot_plane[i] = 1;
    }
    memory_copy(cube, hot_plane, plane);
    memory_free_host(hot_plane);
    return cube;
}

/* ---- the block of a rank ---- */

static void
make_grid(struct block *b, const struct options *o)
{
    const int open[3] = {0, 0, 0};

    MPI_Comm_size(MPI_COMM_WORLD, &b->ranks);
    MPI_Dims_create(b->ranks, 3, b->parts);
    MPI_Cart_create(MPI_COMM_WORLD, 3, b->parts, open, 0, &b->grid);
    MPI_Comm_rank(b->grid, &b->rank);
    MPI_Cart_coords(b->grid, b->rank, 3, b->at);
    for (int axis = 0; axis < 3; axis++) {
        MPI_Cart_shift(b->grid, axis, 1, &b->neighbour[2 * axis],
                       &b->neighbour[2 * axis + 1]);
        b->cube[axis] = o->weak ? o->edge * b->parts[axis] : o->edge;
        b->first[axis] = b->cube[axis] * b->at[axis] / b->parts[axis];
        b->edge[axis] =
            b->cube[axis] * (b->at[axis] + 1) / b->parts[axis] - b->first[axis];
        if (b->edge[axis] < 1) {
            fprintf(stderr, "an edge of %lld points is too short for %d parts\n",
                    (long long)b->cube[axis], b->parts[axis]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

static void
make_block(struct block *b, const struct options *o)
{
    make_grid(b, o);
    memory_start(b->rank);
    b->now = make_cube(b->edge, b->at[2] == 0);
    b->next = make_cube(b->edge, b->at[2] == 0);
    for (int side = 0; side < SIDES; side++) {
        struct box box = face(b->edge, side, 0);

        b->out[side] = memory_allocate(points(&box));
        b->in[side] = memory_allocate(points(&box));
        b->stage_out[side] = o->staged ? memory_allocate_host(points(&box)) : NULL;
        b->stage_in[side] = o->staged ? memory_allocate_host(points(&box)) : NULL;
    }
}

static void
free_block(struct block *b)
{
    memory_free(b->now);
    memory_free(b->next);
    for (int side = 0; side < SIDES; side++) {
        memory_free(b->out[side]);
        memory_free(b->in[side]);
        memory_free_host(b->stage_out[side]);
        memory_free_host(b->stage_in[side]);
    }
    MPI_Comm_free(&b->grid);
}

static void
exchange(struct block *b, const struct options *o)
{
    MPI_Request requests[2 * SIDES];
    MPI_Status statuses[2 * SIDES];

    for (int side = 0; side < SIDES; side++) {
        struct box box = face(b->edge, side, 0);

        MPI_Irecv(o->staged ? b->stage_in[side] : b->in[side], (int)points(&box),
                  MPI_DOUBLE, b->neighbour[side], side ^ 1, b->grid, &requests[side]);
        FOR_EACH_POINT(pack, box, b->out[side], b->now);
    }
    memory_wait();
    for (int side = 0; side < SIDES; side++) {
        struct box box = face(b->edge, side, 0);

        if (o->staged) {
            memory_copy(b->stage_out[side], b->out[side], points(&box));
        }
        MPI_Isend(o->staged ? b->stage_out[side] : b->out[side], (int)points(&box),
                  MPI_DOUBLE, b->neighbour[side], side, b->grid,
                  &requests[SIDES + side]);
    }
    MPI_Waitall(2 * SIDES, requests, statuses);
    for (int side = 0; side < SIDES; side++) {
        struct box box = face(b->edge, side, 1);

        if (b->neighbour[side] == MPI_PROC_NULL) {
            continue;
        }
        if (o->staged) {
            memory_copy(b->in[side], b->stage_in[side], points(&box));
        }
        FOR_EACH_POINT(unpack, box, b->now, b->in[side]);
    }
}

static void
step(struct block *b, const struct options *o)
{
    double *swap = b->now;

    exchange(b, o);
    FOR_EACH_POINT(relax, inner(b->edge), b->next, b->now);
    memory_wait();
    b->now = b->next;
    b->next = swap;
}

/* ---- comparison ---- */

/* Differs if a bit of a point differs. FIRST is the place in the cube of the block's first point. */
static uint64_t
digest(const double *block, const int64_t edge[3], const int64_t first[3],
       const int64_t cube[3])
{
    const struct box box = inner(edge);
    double *copy = memory_allocate_host(points_with_border(edge));
    uint64_t sum = 0;

    memory_copy(copy, block, points_with_border(edge));
    for (int64_t z = 0; z < edge[2]; z++) {
        for (int64_t y = 0; y < edge[1]; y++) {
            for (int64_t x = 0; x < edge[0]; x++) {
                int64_t at =
                    ((first[2] + z) * cube[1] + first[1] + y) * cube[0] + first[0] + x;
                uint64_t bits;

                memcpy(&bits, &copy[place(&box, x, y, z)], sizeof(bits));
                sum += bits * (2 * (uint64_t)at + 1);
            }
        }
    }
    memory_free_host(copy);
    return sum;
}

static uint64_t
compute_alone(const int64_t cube[3], int64_t steps)
{
    const int64_t origin[3] = {0, 0, 0};
    double *now = make_cube(cube, 1), *next = make_cube(cube, 1);
    uint64_t sum;

    for (int64_t i = 0; i < steps; i++) {
        double *swap = now;

        FOR_EACH_POINT(relax, inner(cube), next, now);
        now = next;
        next = swap;
    }
    memory_wait();
    sum = digest(now, cube, origin, cube);
    memory_free(now);
    memory_free(next);
    return sum;
}

static const char *
compare(const struct block *b, const struct options *o)
{
    uint64_t own = digest(b->now, b->edge, b->first, b->cube), all = 0;

    MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, b->grid);
    if (o->unchecked || b->rank != 0) {
        return "not compared";
    }
    return all == compute_alone(b->cube, o->steps) ? "exact" : "WRONG";
}

/* ---- the program ---- */

static struct options
parse(int argc, char **argv)
{
    struct options o = {0, 0, 0, 64, 50};
    int option;

    while ((option = getopt(argc, argv, "swn")) != -1) {
        o.staged |= option == 's';
        o.weak |= option == 'w';
        o.unchecked |= option == 'n';
        if (option == '?') {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    o.edge = optind < argc ? atoi(argv[optind]) : o.edge;
    o.steps = optind + 1 < argc ? atoi(argv[optind + 1]) : o.steps;
    if (o.edge < 1 || o.steps < 1 || o.edge > 20000) {
        fprintf(stderr, "the edge is 1 to 20000 points, the steps are at least 1\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return o;
}

int
main(int argc, char **argv)
{
    struct options o;
    struct block b;
    double begin;
    const char *result;

    MPI_Init(&argc, &argv);
    o = parse(argc, argv);
    memset(&b, 0, sizeof(b));
    make_block(&b, &o);
    step(&b, &o); /* connections and the first touch of memory are not timed */
    MPI_Barrier(b.grid);
    begin = MPI_Wtime();
    for (int64_t i = 1; i < o.steps; i++) {
        step(&b, &o);
    }
    MPI_Barrier(b.grid);
    begin = MPI_Wtime() - begin;
    result = compare(&b, &o);
    if (b.rank == 0) {
        printf("%d ranks (%d x %d x %d), %lld x %lld x %lld points, %s, %s: %.1f us a "
               "step, %s\n",
               b.ranks, b.parts[0], b.parts[1], b.parts[2], (long long)b.cube[0],
               (long long)b.cube[1], (long long)b.cube[2], MEMORY_NAME,
               o.staged ? "staged" : "direct",
               o.steps > 1 ? 1e6 * begin / (double)(o.steps - 1) : 0, result);
    }
    free_block(&b);
    MPI_Finalize();
    return strcmp(result, "WRONG") == 0;
}
