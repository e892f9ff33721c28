/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the tests' worker. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "usage.h"

static int calls;
static unsigned long order_sum;

/* The paper's: sees its parents, its own world, and nothing else. */
static void
kernel0(double a, int b, char c)
{
    MPI_Comm parent = MPI_COMM_NULL;
    int rank, size, parents, sum = 0, mine;

    check(MPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL);
    check(parent == telpher_worker_parent());
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_remote_size(parent, &parents);
    check(rank >= 0 && rank < size);
    mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == size * (size + 1) / 2);
    check(a == 1.5 && b == 42 && c == 'x');
    calls++;
}

/* Sends each parent what it sent, doubled. */
static int
echo(int count)
{
    double in[64], out[64];
    MPI_Comm parent;
    int parents;

    MPI_Comm_get_parent(&parent);
    MPI_Comm_remote_size(parent, &parents);
    check(count * parents <= 64);
    MPI_Alltoall(in, 0, MPI_DOUBLE, in, count, MPI_DOUBLE, parent);
    for (int i = 0; i < count * parents; i++) {
        out[i] = 2 * in[i];
    }
    MPI_Alltoall(out, count, MPI_DOUBLE, out, 0, MPI_DOUBLE, parent);
    return 0;
}

/* Kernels run in the order of the calls. */
static void
numbered(unsigned long number)
{
    check(number == order_sum);
    order_sum++;
}

static int
count_numbered(unsigned long expected)
{
    int good = order_sum == expected;

    order_sum = 0;
    return good ? 0 : 1;
}

static int
fails_at(int rank, int result)
{
    int mine;

    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    if (mine < rank) {
        return 0;
    }
    telpher_kernel_error("worker %d has no luck", mine);
    return result;
}

/* Any bytes; the sum tells that they came whole. */
static int
sum_bytes(telpher_bytes bytes, unsigned long expected)
{
    const unsigned char *at = bytes.data;
    unsigned long sum = 0;

    for (uint64_t i = 0; i < bytes.len; i++) {
        sum += at[i];
    }
    return sum == expected ? 0 : 1;
}

static void
sleeps(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static void
nothing(void)
{
}

static void
five(double a, double b, double c, double d, double e)
{
    check(a == 1 && b == 2 && c == 3 && d == 4 && e == 5);
}

/* Sends this worker's resource usage to parent 0. */
static void
tell_usage(void)
{
    struct usage usage;
    MPI_Comm parent;

    usage_of_self(&usage);
    MPI_Comm_get_parent(&parent);
    MPI_Send(&usage, sizeof(usage), MPI_BYTE, 0, USAGE_TAG, parent);
}

/* Makes a file: a sign that needs no MPI. */
static void
touches(telpher_bytes path)
{
    char name[256];
    FILE *file;

    check(path.len < sizeof(name));
    memcpy(name, path.data, path.len);
    name[path.len] = '\0';
    file = fopen(name, "w");
    check(file != NULL);
    fclose(file);
}

static void
crashes(int how)
{
    if (how == 0) {
        volatile uintptr_t nowhere = 4096;

        *(volatile int *)nowhere = 1;
    } else if (how == 1) {
        _exit(3);
    } else if (how == 2) {
        _exit(0);
    } else if (how == 4) {
        raise(SIGKILL);
    } else {
        exit(3);
    }
}

/* Waits for its parents' message for ever. */
static void
waits(void)
{
    MPI_Comm parent;
    int value;

    MPI_Comm_get_parent(&parent);
    MPI_Recv(&value, 1, MPI_INT, 0, 78, parent, MPI_STATUS_IGNORE);
}

/* y += a x, for rows that lie alike. */
static int
axpy(telpher_block y, telpher_block x, double a)
{
    double *to = y.data;
    const double *from = x.data;
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(y.rows == x.rows && y.first == x.first && y.all_rows == x.all_rows);
    check(y.first == telpher_block_first(y.all_rows, size, rank));
    for (uint64_t i = 0; i < y.rows * y.row_bytes / sizeof(double); i++) {
        to[i] += a * from[i];
    }
    return 0;
}

/* Its rank, in the one row that each worker has. */
static void
note_rank(telpher_block own)
{
    check(own.rows == 1 && own.row_bytes == sizeof(int));
    MPI_Comm_rank(MPI_COMM_WORLD, own.data);
}

static void
take_device(telpher_block own, int devices)
{
    check(own.rows == 1);
    *(int *)own.data = telpher_worker_device(devices);
}

static int
sum_rows(telpher_block bytes, unsigned long expected)
{
    const unsigned char *at = bytes.data;
    unsigned long sum = 0;

    for (uint64_t i = 0; i < bytes.rows; i++) {
        sum += at[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    return sum == expected ? 0 : 1;
}

/* Rows of two numbers come, and go back negative. */
static void
negates(unsigned long rows)
{
    MPI_Comm parent;
    int rank, size, *block;
    uint64_t count;

    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    count = 2 * (telpher_block_first(rows, size, rank + 1) -
                 telpher_block_first(rows, size, rank));
    block = calloc(count + 1, sizeof(*block));
    check(block != NULL);
    check(telpher_block_receive(block, rows, 2, MPI_INT, parent) == TELPHER_OK);
    for (uint64_t i = 0; i < count; i++) {
        block[i] = -block[i];
    }
    check(telpher_block_send(block, rows, 2, MPI_INT, parent) == TELPHER_OK);
    free(block);
}

/* Waits for parent 0's message. */
static void
waits_for(int tag)
{
    MPI_Comm parent;
    int value;

    MPI_Comm_get_parent(&parent);
    MPI_Recv(&value, 1, MPI_INT, 0, tag, parent, MPI_STATUS_IGNORE);
}

/* Says to a parent that it runs. */
static void
tells(int to, int tag)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    MPI_Send(&tag, 1, MPI_INT, to, tag, parent);
}

/* When it began and ended, to parent 0. */
static void
tells_time(int tag)
{
    double times[2] = {seconds()};
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    usleep(1000);
    times[1] = seconds();
    MPI_Send(times, 2, MPI_DOUBLE, 0, tag, parent);
}

TELPHER_KERNEL(negates, unsigned long)
TELPHER_KERNEL(waits_for, int)
TELPHER_KERNEL(tells, int, int)
TELPHER_KERNEL(tells_time, int)
TELPHER_KERNEL(axpy, telpher_block, telpher_block, double)
TELPHER_KERNEL(note_rank, telpher_block)
TELPHER_KERNEL(take_device, telpher_block, int)
TELPHER_KERNEL(sum_rows, telpher_block, unsigned long)
TELPHER_KERNEL(kernel0, double, int, char)
TELPHER_KERNEL(echo, int)
TELPHER_KERNEL(numbered, unsigned long)
TELPHER_KERNEL(count_numbered, unsigned long)
TELPHER_KERNEL(fails_at, int, int)
TELPHER_KERNEL(sum_bytes, telpher_bytes, unsigned long)
TELPHER_KERNEL(sleeps, int)
TELPHER_KERNEL(nothing)
TELPHER_KERNEL(five, double, double, double, double, double)
TELPHER_KERNEL(tell_usage)
TELPHER_KERNEL(touches, telpher_bytes)
TELPHER_KERNEL(crashes, int)
TELPHER_KERNEL(waits)
