/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of groups. Sets are searched one by one: groups are made rarely. */
#include <string.h>

#include "ampi/ampi_int.h"
#include "base/alloc.h"

/* Finds a group for a call, and reports if there is none. */
static struct tp_ampi_group *
find(MPI_Group handle)
{
    struct tp_ampi_group *group = tp_ampi_group_get(handle);

    if (group == NULL) {
        (void)tp_ampi_error(NULL, MPI_ERR_GROUP, "%#x is no group", handle);
    }
    return group;
}

int
tp_ampi_group_rank_of(const struct tp_ampi_group *group, uint32_t world)
{
    for (int i = 0; i < group->size; i++) {
        if (group->world[i] == world) {
            return i;
        }
    }
    return MPI_UNDEFINED;
}

int
tp_ampi_group_compare(const struct tp_ampi_group *one,
                      const struct tp_ampi_group *other)
{
    if (one->size != other->size) {
        return MPI_UNEQUAL;
    }
    if (one->size == 0 || memcmp(one->world, other->world,
                                 (size_t)one->size * sizeof(one->world[0])) == 0) {
        return MPI_IDENT;
    }
    for (int i = 0; i < one->size; i++) {
        if (tp_ampi_group_rank_of(other, one->world[i]) == MPI_UNDEFINED) {
            return MPI_UNEQUAL;
        }
    }
    return MPI_SIMILAR;
}

int
PMPI_Group_size(MPI_Group handle, int *size)
{
    struct tp_ampi_group *group = find(handle);

    if (group == NULL) {
        return MPI_ERR_GROUP;
    }
    if (size == NULL) {
        return tp_ampi_refuse_null();
    }
    *size = group->size;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Group_size);

int
PMPI_Group_rank(MPI_Group handle, int *rank)
{
    struct tp_ampi_group *group = find(handle);

    if (group == NULL) {
        return MPI_ERR_GROUP;
    }
    if (rank == NULL) {
        return tp_ampi_refuse_null();
    }
    *rank = group->rank;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Group_rank);

int
PMPI_Group_translate_ranks(MPI_Group from, int count, const int ranks[], MPI_Group to,
                           int ret[])
{
    struct tp_ampi_group *source = find(from);
    struct tp_ampi_group *target = source != NULL ? find(to) : NULL;

    if (target == NULL) {
        return MPI_ERR_GROUP;
    }
    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    for (int i = 0; i < count; i++) {
        if (ranks[i] == MPI_PROC_NULL) {
            ret[i] = MPI_PROC_NULL;
            continue;
        }
        if (ranks[i] < 0 || ranks[i] >= source->size) {
            return tp_ampi_error(NULL, MPI_ERR_RANK, "rank %d is not in a group of %d",
                                 ranks[i], source->size);
        }
        ret[i] = tp_ampi_group_rank_of(target, source->world[ranks[i]]);
    }
    return MPI_SUCCESS;
}
TP_MPI_NAME(Group_translate_ranks);

int
PMPI_Group_compare(MPI_Group one, MPI_Group other, int *result)
{
    struct tp_ampi_group *a = find(one), *b = a != NULL ? find(other) : NULL;

    if (b == NULL) {
        return MPI_ERR_GROUP;
    }
    if (result == NULL) {
        return tp_ampi_refuse_null();
    }
    *result = tp_ampi_group_compare(a, b);
    return MPI_SUCCESS;
}
TP_MPI_NAME(Group_compare);

/* ---- making groups ---- */

static void
append(struct tp_ampi_group *group, uint32_t world)
{
    if (world == tp_ampi_current()->world) {
        group->rank = group->size;
    }
    group->world[group->size++] = world;
}

/* An empty group with room for @p room ranks, which append() adds. */
static struct tp_ampi_group *
begin(int room)
{
    struct tp_ampi_group *group = tp_ampi_group_create(room);

    if (group != NULL) {
        group->size = 0;
    }
    return group;
}

static int
give(struct tp_ampi_group *group, MPI_Group *ret)
{
    return tp_ampi_error(
        NULL, group != NULL ? tp_ampi_group_give(group, ret) : MPI_ERR_NO_MEM,
        "no memory for a group");
}

/* Members of one that are, or are not, in the other; then, for the union, those of the other. */
static int
combine(MPI_Group one, MPI_Group other, bool common, bool only_first, bool add_second,
        MPI_Group *ret)
{
    struct tp_ampi_group *a = find(one), *b = a != NULL ? find(other) : NULL, *group;

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    *ret = MPI_GROUP_NULL;
    if (b == NULL) {
        return MPI_ERR_GROUP;
    }
    group = begin(a->size + b->size);
    for (int i = 0; group != NULL && i < a->size; i++) {
        bool shared = tp_ampi_group_rank_of(b, a->world[i]) != MPI_UNDEFINED;

        if (shared ? common : only_first) {
            append(group, a->world[i]);
        }
    }
    for (int i = 0; group != NULL && add_second && i < b->size; i++) {
        if (tp_ampi_group_rank_of(a, b->world[i]) == MPI_UNDEFINED) {
            append(group, b->world[i]);
        }
    }
    return give(group, ret);
}

int
PMPI_Group_union(MPI_Group one, MPI_Group other, MPI_Group *ret)
{
    return combine(one, other, true, true, true, ret);
}
TP_MPI_NAME(Group_union);

int
PMPI_Group_intersection(MPI_Group one, MPI_Group other, MPI_Group *ret)
{
    return combine(one, other, true, false, false, ret);
}
TP_MPI_NAME(Group_intersection);

int
PMPI_Group_difference(MPI_Group one, MPI_Group other, MPI_Group *ret)
{
    return combine(one, other, false, true, false, ret);
}
TP_MPI_NAME(Group_difference);

/* Marks in @p order, for each rank of the group, its place in a list plus 1. */
static int
mark(const struct tp_ampi_group *group, int rank, int *order, int *count)
{
    if (rank < 0 || rank >= group->size) {
        return tp_ampi_error(NULL, MPI_ERR_RANK, "rank %d is not in a group of %d",
                             rank, group->size);
    }
    if (order[rank] != 0) {
        return tp_ampi_error(NULL, MPI_ERR_RANK, "rank %d is listed twice", rank);
    }
    order[rank] = ++*count;
    return MPI_SUCCESS;
}

static int
mark_ranges(const struct tp_ampi_group *group, int count, int ranges[][3], int *order,
            int *marked)
{
    int error = MPI_SUCCESS;

    for (int i = 0; i < count && error == MPI_SUCCESS; i++) {
        int first = ranges[i][0], last = ranges[i][1], step = ranges[i][2];

        if (step == 0) {
            return tp_ampi_error(NULL, MPI_ERR_ARG, "range %d has a stride of 0", i);
        }
        for (int rank = first;
             error == MPI_SUCCESS && (step > 0 ? rank <= last : rank >= last);
             rank += step) {
            error = mark(group, rank, order, marked);
        }
    }
    return error;
}

/* The marked ranks in the order of marking, or the others in the order of ranks. */
static struct tp_ampi_group *
select_marked(const struct tp_ampi_group *from, const int *order, int marked,
              bool include)
{
    int count = include ? marked : from->size - marked;
    struct tp_ampi_group *group = begin(count);

    for (int i = 0; group != NULL && i < from->size; i++) {
        if (!include && order[i] == 0) {
            append(group, from->world[i]);
        } else if (include && order[i] != 0) {
            group->world[order[i] - 1] = from->world[i];
            if (i == from->rank) {
                group->rank = order[i] - 1;
            }
        }
    }
    if (group != NULL) {
        group->size = count;
    }
    return group;
}

/* Either a list of ranks, or ranges. */
static int
choose(MPI_Group handle, int count, const int *ranks, int ranges[][3], bool include,
       MPI_Group *ret)
{
    struct tp_ampi_group *from = find(handle);
    int *order, marked = 0, error = MPI_SUCCESS;

    if (ret == NULL) {
        return tp_ampi_refuse_null();
    }
    *ret = MPI_GROUP_NULL;
    if (from == NULL) {
        return MPI_ERR_GROUP;
    }
    order = tp_zalloc(((size_t)from->size + 1) * sizeof(*order), "MPI group");
    if (order == NULL) {
        return tp_ampi_error(NULL, MPI_ERR_NO_MEM, "no memory for a group");
    }
    if (ranges != NULL) {
        error = mark_ranges(from, count, ranges, order, &marked);
    }
    for (int i = 0; ranges == NULL && i < count && error == MPI_SUCCESS; i++) {
        error = mark(from, ranks[i], order, &marked);
    }
    if (error == MPI_SUCCESS) {
        error = give(select_marked(from, order, marked, include), ret);
    }
    tp_free(order);
    return error;
}

int
PMPI_Group_incl(MPI_Group group, int count, const int ranks[], MPI_Group *ret)
{
    return choose(group, count, ranks, NULL, true, ret);
}
TP_MPI_NAME(Group_incl);

int
PMPI_Group_excl(MPI_Group group, int count, const int ranks[], MPI_Group *ret)
{
    return choose(group, count, ranks, NULL, false, ret);
}
TP_MPI_NAME(Group_excl);

int
PMPI_Group_range_incl(MPI_Group group, int count, int ranges[][3], MPI_Group *ret)
{
    return choose(group, count, NULL, ranges, true, ret);
}
TP_MPI_NAME(Group_range_incl);

int
PMPI_Group_range_excl(MPI_Group group, int count, int ranges[][3], MPI_Group *ret)
{
    return choose(group, count, NULL, ranges, false, ret);
}
TP_MPI_NAME(Group_range_excl);

int
PMPI_Group_free(MPI_Group *handle)
{
    struct tp_ampi_group *group = find(*handle);

    if (group == NULL) {
        return MPI_ERR_GROUP;
    }
    if (*handle != MPI_GROUP_EMPTY) {
        tp_ampi_group_unref(group);
    }
    *handle = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}
TP_MPI_NAME(Group_free);
