/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies: what all kinds have, and Cartesian grids. MPI-3.1, chapter 7. */
#include "ampi/topology.h"

#include <string.h>

#include "ampi/process.h"
#include "base/alloc.h"

struct tp_ampi_topology *
tp_ampi_topology_create(int kind, size_t room)
{
    struct tp_ampi_topology *t =
        tp_zalloc(sizeof(*t) + room * sizeof(t->numbers[0]), "MPI topology");

    if (t != NULL) {
        t->refs = 1;
        t->kind = kind;
    }
    return t;
}

struct tp_ampi_topology *
tp_ampi_topology_ref(struct tp_ampi_topology *topology)
{
    if (topology != NULL) {
        topology->refs++;
    }
    return topology;
}

void
tp_ampi_topology_unref(struct tp_ampi_topology *topology)
{
    if (topology != NULL && --topology->refs == 0) {
        tp_free(topology);
    }
}

int
tp_ampi_topology_give(struct tp_ampi_comm *comm, int size,
                      struct tp_ampi_topology *topology, MPI_Comm *ret)
{
    int error = tp_ampi_comm_split(comm, comm->rank < size ? 0 : MPI_UNDEFINED,
                                   comm->rank, ret);

    if (error == MPI_SUCCESS && *ret != MPI_COMM_NULL) {
        tp_ampi_comm_get(*ret)->topology = topology;
    } else {
        tp_ampi_topology_unref(topology);
    }
    return error;
}

int
tp_ampi_topology_find(MPI_Comm handle, int kind, struct tp_ampi_comm **ret_comm,
                      struct tp_ampi_topology **ret)
{
    static const char *const names[] = {"", "graph", "Cartesian grid",
                                        "distributed graph"};

    *ret_comm = tp_ampi_comm_find(handle);
    if (*ret_comm == NULL) {
        return MPI_ERR_COMM;
    }
    *ret = (*ret_comm)->topology;
    return *ret != NULL && (*ret)->kind == kind
               ? MPI_SUCCESS
               : tp_ampi_error(*ret_comm, MPI_ERR_TOPOLOGY, "%s is no %s",
                               (*ret_comm)->name, names[kind]);
}

int
PMPI_Topo_test(MPI_Comm handle, int *kind)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);

    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    *kind = comm->topology != NULL ? ((struct tp_ampi_topology *)comm->topology)->kind
                                   : MPI_UNDEFINED;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Topo_test);

/* ---- balanced dimensions ---- */

/* Factors of a number, the largest first. Those with the smallest difference are kept. */
struct factors {
    int count, *now, *best; /* best[0] 0: none yet */
};

/* Can @p count factors of at most @p max make n? */
static bool
reaches(int max, int count, int n)
{
    int64_t power = 1;

    while (count-- > 0 && power < n) {
        power *= max;
    }
    return power >= n;
}

static int
spread_of(const struct factors *f, const int *factors)
{
    return factors[0] - factors[f->count - 1];
}

/* Has it a smaller difference, or else larger small factors? */
static bool
is_better(const struct factors *f)
{
    int less = spread_of(f, f->best) - spread_of(f, f->now);

    for (int i = f->count - 1; i >= 0 && less == 0; i--) {
        less = f->now[i] - f->best[i];
    }
    return f->best[0] == 0 || less > 0;
}

/* Tries all factors from number @p at on, which make n together. */
static void
balance(struct factors *f, int at, int n, int max)
{
    if (at == f->count - 1) {
        f->now[at] = n;
        if (is_better(f)) {
            for (int i = 0; i < f->count; i++) {
                f->best[i] = f->now[i];
            }
        }
        return;
    }
    for (int factor = 1; factor <= max && factor <= n; factor++) {
        if (f->best[0] != 0 && at == 0 && factor > f->best[0] + spread_of(f, f->best)) {
            return; /* the smallest is at most the root */
        }
        if (n % factor == 0 && reaches(factor, f->count - at, n)) {
            f->now[at] = factor;
            balance(f, at + 1, n / factor, factor);
        }
    }
}

int
PMPI_Dims_create(int size, int count, int dims[])
{
    int rest = size, open = 0, at = 0;
    int *factors;

    for (int i = 0; i < count; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && rest % dims[i] != 0)) {
            return tp_ampi_error(NULL, MPI_ERR_DIMS, "dimension %d of %d ranks is %d",
                                 i, size, dims[i]);
        }
        rest /= dims[i] > 0 ? dims[i] : 1;
        open += dims[i] == 0;
    }
    if (size < 1 || (open == 0 && rest != 1)) {
        return tp_ampi_error(NULL, MPI_ERR_DIMS, "the dimensions do not make %d ranks",
                             size);
    }
    if (open == 0) {
        return MPI_SUCCESS;
    }
    factors = tp_alloc_array(2 * (size_t)open, sizeof(*factors), "MPI_Dims_create");
    if (factors == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory");
    }
    balance(&(struct factors){open, factors + open, factors}, 0, rest, rest);
    for (int i = 0; i < count; i++) {
        dims[i] = dims[i] == 0 ? factors[at++] : dims[i];
    }
    tp_free(factors);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Dims_create);

/* ---- Cartesian grids ---- */

static void
coords_of(const struct tp_ampi_topology *t, int rank, int *coords)
{
    for (int i = t->count - 1; i >= 0; i--) {
        coords[i] = rank % t->dims[i];
        rank /= t->dims[i];
    }
}

/* The rank @p steps along a dimension, or MPI_PROC_NULL. */
static int
move(const struct tp_ampi_topology *t, int rank, int dim, int steps)
{
    int stride = 1, size = t->dims[dim], at;
    int64_t to;

    for (int i = dim + 1; i < t->count; i++) {
        stride *= t->dims[i];
    }
    at = rank / stride % size;
    to = (int64_t)at + steps;
    if (!t->periods[dim] && (to < 0 || to >= size)) {
        return MPI_PROC_NULL;
    }
    return rank + ((int)((to % size + size) % size) - at) * stride;
}

/* Sets the neighbours of a rank: in each dimension the one before, then the one after. */
static void
set_neighbors(struct tp_ampi_topology *t, int rank)
{
    t->sources = t->destinations = t->periods + t->count;
    t->in_count = t->out_count = 2 * t->count;
    for (int i = 0; i < t->count; i++) {
        t->sources[2 * i] = move(t, rank, i, -1);
        t->sources[2 * i + 1] = move(t, rank, i, 1);
    }
}

static struct tp_ampi_topology *
create_grid(int count)
{
    struct tp_ampi_topology *t = tp_ampi_topology_create(MPI_CART, 4 * (size_t)count);

    if (t != NULL) {
        t->dims = t->numbers;
        t->periods = t->numbers + count;
        t->count = count;
    }
    return t;
}

/* @return the number of ranks of a grid, 0: more than the communicator has, or a bad dimension */
static int
size_of(const struct tp_ampi_comm *comm, int count, const int dims[])
{
    int64_t size = 1;

    for (int i = 0; i < count; i++) {
        size *= dims[i];
        if (dims[i] <= 0 || size > comm->size) {
            return 0;
        }
    }
    return count >= 0 ? (int)size : 0;
}

static int
create_cart(MPI_Comm handle, int count, const int dims[], const int periods[],
            MPI_Comm *ret)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);
    struct tp_ampi_topology *t;
    int size;

    *ret = MPI_COMM_NULL;
    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    size = size_of(comm, count, dims);
    if (size == 0) {
        return tp_ampi_error(comm, MPI_ERR_DIMS, "%s has %d ranks, fewer than the grid",
                             comm->name, comm->size);
    }
    t = create_grid(count);
    if (t == NULL) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a grid");
    }
    for (int i = 0; i < count; i++) {
        t->dims[i] = dims[i];
        t->periods[i] = periods[i] != 0;
    }
    set_neighbors(t, comm->rank);
    return tp_ampi_topology_give(comm, size, t, ret);
}

int
PMPI_Cart_create(MPI_Comm comm, int count, const int dims[], const int periods[],
                 int reorder, MPI_Comm *ret)
{
    int error;

    (void)reorder; /* ranks keep their numbers: blocks of them share a process */
    tp_ampi_enter();
    error = create_cart(comm, count, dims, periods, ret);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Cart_create);

int
PMPI_Cartdim_get(MPI_Comm handle, int *count)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_CART, &comm, &t);

    if (error == MPI_SUCCESS) {
        *count = t->count;
    }
    return error;
}
TP_MPI_NAME(Cartdim_get);

/* Checks the length of a program's array. */
static int
check_room(struct tp_ampi_comm *comm, int max, int count)
{
    return max >= count ? MPI_SUCCESS
                        : tp_ampi_error(comm, MPI_ERR_DIMS,
                                        "room for %d numbers of the %d that %s has",
                                        max, count, comm->name);
}

int
PMPI_Cart_get(MPI_Comm handle, int max, int dims[], int periods[], int coords[])
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_CART, &comm, &t);

    if (error == MPI_SUCCESS) {
        error = check_room(comm, max, t->count);
    }
    if (error == MPI_SUCCESS && t->count != 0) {
        memcpy(dims, t->dims, (size_t)t->count * sizeof(*dims));
        memcpy(periods, t->periods, (size_t)t->count * sizeof(*periods));
        coords_of(t, comm->rank, coords);
    }
    return error;
}
TP_MPI_NAME(Cart_get);

int
PMPI_Cart_rank(MPI_Comm handle, const int coords[], int *rank)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_CART, &comm, &t), at = 0;

    for (int i = 0; error == MPI_SUCCESS && i < t->count; i++) {
        int coord = coords[i];

        if (t->periods[i]) {
            coord = (coord % t->dims[i] + t->dims[i]) % t->dims[i];
        } else if (coord < 0 || coord >= t->dims[i]) {
            error = tp_ampi_error(comm, MPI_ERR_ARG,
                                  "coordinate %d of dimension %d is not in 0 to %d",
                                  coord, i, t->dims[i] - 1);
        }
        at = at * t->dims[i] + coord;
    }
    if (error == MPI_SUCCESS) {
        *rank = at;
    }
    return error;
}
TP_MPI_NAME(Cart_rank);

int
PMPI_Cart_coords(MPI_Comm handle, int rank, int max, int coords[])
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_CART, &comm, &t);

    if (error == MPI_SUCCESS && (rank < 0 || rank >= comm->size)) {
        error = tp_ampi_error(comm, MPI_ERR_RANK, "there is no rank %d of %d", rank,
                              comm->size);
    }
    if (error == MPI_SUCCESS) {
        error = check_room(comm, max, t->count);
    }
    if (error == MPI_SUCCESS) {
        coords_of(t, rank, coords);
    }
    return error;
}
TP_MPI_NAME(Cart_coords);

int
PMPI_Cart_shift(MPI_Comm handle, int dim, int steps, int *source, int *dest)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t;
    int error = tp_ampi_topology_find(handle, MPI_CART, &comm, &t);

    if (error == MPI_SUCCESS && (dim < 0 || dim >= t->count)) {
        error = tp_ampi_error(comm, MPI_ERR_ARG, "there is no dimension %d of %d", dim,
                              t->count);
    }
    if (error == MPI_SUCCESS) {
        *source = move(t, comm->rank, dim, -steps);
        *dest = move(t, comm->rank, dim, steps);
    }
    return error;
}
TP_MPI_NAME(Cart_shift);

/* A grid of the dimensions that remain. Ranks with equal coordinates in the others share one:
 * @param ret_color  these coordinates as a number */
static struct tp_ampi_topology *
reduce_grid(const struct tp_ampi_topology *t, int rank, const int remain[],
            int *ret_color)
{
    struct tp_ampi_topology *sub;
    int count = 0, left = 1, own = 0, color = 0;

    for (int i = 0; i < t->count; i++) {
        count += remain[i] != 0;
        left *= t->dims[i];
    }
    sub = create_grid(count);
    for (int i = 0, at = 0; sub != NULL && i < t->count; i++) {
        int *number = remain[i] ? &own : &color;

        left /= t->dims[i];
        *number = *number * t->dims[i] + rank / left % t->dims[i];
        if (remain[i]) {
            sub->dims[at] = t->dims[i];
            sub->periods[at++] = t->periods[i];
        }
    }
    if (sub != NULL) {
        set_neighbors(sub, own);
    }
    *ret_color = color;
    return sub;
}

static int
create_sub(MPI_Comm handle, const int remain[], MPI_Comm *ret)
{
    struct tp_ampi_comm *comm;
    struct tp_ampi_topology *t, *sub;
    int error = tp_ampi_topology_find(handle, MPI_CART, &comm, &t), color;

    *ret = MPI_COMM_NULL;
    if (error != MPI_SUCCESS) {
        return error;
    }
    sub = reduce_grid(t, comm->rank, remain, &color);
    if (sub == NULL) {
        return tp_ampi_error(comm, MPI_ERR_NO_MEM, "no memory for a grid");
    }
    error = tp_ampi_comm_split(comm, color, comm->rank, ret);
    if (error == MPI_SUCCESS) {
        tp_ampi_comm_get(*ret)->topology = sub;
    } else {
        tp_ampi_topology_unref(sub);
    }
    return error;
}

int
PMPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm *ret)
{
    int error;

    tp_ampi_enter();
    error = create_sub(comm, remain, ret);
    tp_ampi_leave();
    return error;
}
TP_MPI_NAME(Cart_sub);

int
PMPI_Cart_map(MPI_Comm handle, int count, const int dims[], const int periods[],
              int *rank)
{
    struct tp_ampi_comm *comm = tp_ampi_comm_find(handle);
    int size;

    (void)periods;
    if (comm == NULL) {
        return MPI_ERR_COMM;
    }
    size = size_of(comm, count, dims);
    if (size == 0) {
        return tp_ampi_error(comm, MPI_ERR_DIMS, "the grid has more ranks than %s",
                             comm->name);
    }
    *rank = comm->rank < size ? comm->rank : MPI_UNDEFINED;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Cart_map);
