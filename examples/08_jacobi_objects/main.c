/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 4 -- 08_jacobi_objects [OPTION]... [EDGE [STEPS]]
 *
 * Jacobi's method on a cube. Slabs of it are objects, several in a process, so that one computes
 * while planes of others are under way. Planes at the borders lie in device memory.
 *   -c       by channels between objects; else by messages with post entries
 *   -s       staged: the program copies planes through host memory; else direct
 *   -k KIND  of memory: host, sim, opencl, cuda
 *   -o N     objects in a process (4)
 * The result is compared with one loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <telpher/mdr_dynamic.h>
#include <telpher/mem.h>

struct setup {
    telpher_mdr_future done;
    int32_t edge, steps, slabs;
    uint32_t channels, staged, kind;
};

struct halo {
    int32_t step, side; /* of the receiver: 0 below, 1 above */
};

/* Planes come for this step and, from a neighbour that is ahead, for the next. */
struct slab {
    struct setup setup;
    telpher_mdr_array array;
    telpher_mdr_index index;
    telpher_mdr *mdr;
    int32_t count, step;
    uint32_t got[2], sending, neighbours, busy;
    double *now, *next; /* count + 2 planes */
    void *out[2], *in[2][2]; /* [side], [side][step % 2]: device memory */
    void *stage_out[2], *stage_in[2][2]; /* the same in host memory, if staged */
};

enum { START, TAKE, ADVANCE, ENTRIES };

static void
must(telpher_mdr *mdr, telpher_status status, const char *what)
{
    if (status != TELPHER_OK) {
        const char *why = telpher_mdr_last_error(mdr);

        fprintf(stderr, "%s: %s: %s\n", what, telpher_status_name(status),
                why[0] != '\0' ? why : telpher_last_error(telpher_mdr_context(mdr)));
        exit(EXIT_FAILURE);
    }
}

static size_t
plane(const struct setup *s)
{
    return (size_t)s->edge * (size_t)s->edge;
}

static double *
allocate(size_t count)
{
    double *points = calloc(count, sizeof(*points));

    if (points == NULL) {
        fprintf(stderr, "no memory for %zu points\n", count);
        exit(EXIT_FAILURE);
    }
    return points;
}

static void
copy(telpher_mdr *mdr, void *dst, const void *src, size_t len)
{
    must(mdr, telpher_mem_copy(telpher_mdr_context(mdr), dst, src, len), "copying");
}

/* The face z = 0 is hot, everything else begins cold. */
static double *
make_planes(const struct setup *s, int32_t count, int hot)
{
    double *points = allocate(plane(s) * (size_t)(count + 2));

    for (size_t i = 0; hot && i < plane(s); i++) {
        points[i] = 1;
    }
    return points;
}

/* Each inner point becomes the mean of its six neighbours. */
static void
relax(const struct setup *s, int32_t count, const double *now, double *next)
{
    size_t e = (size_t)s->edge, p = plane(s);

    for (int32_t z = 1; z <= count; z++) {
        for (size_t y = 1; y + 1 < e; y++) {
            for (size_t x = 1; x + 1 < e; x++) {
                size_t i = (size_t)z * p + y * e + x;

                next[i] = (now[i - 1] + now[i + 1] + now[i - e] + now[i + e] +
                           now[i - p] + now[i + p]) /
                          6;
            }
        }
    }
}

/* Differs if a bit of a point differs. */
static int64_t
digest(const double *points, size_t count, size_t first)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t bits;

        memcpy(&bits, &points[i], sizeof(bits));
        sum += bits * (2 * (first + i) + 1);
    }
    return (int64_t)sum;
}

/* ---- slabs ---- */

static int32_t
first_plane(const struct setup *s, int32_t slab)
{
    return 1 + (int32_t)((int64_t)(s->edge - 2) * slab / s->slabs);
}

static void
make_buffers(struct slab *s)
{
    telpher_context *ctx = telpher_mdr_context(s->mdr);
    size_t len = plane(&s->setup) * sizeof(double);
    void **all[] = {&s->out[0],   &s->out[1],   &s->in[0][0],
                    &s->in[0][1], &s->in[1][0], &s->in[1][1]};
    void **staged[] = {&s->stage_out[0],   &s->stage_out[1],   &s->stage_in[0][0],
                       &s->stage_in[0][1], &s->stage_in[1][0], &s->stage_in[1][1]};

    for (int i = 0; i < 6; i++) {
        must(s->mdr,
             telpher_mem_alloc(ctx, (enum telpher_mem_kind)s->setup.kind, len, all[i]),
             "device memory");
        if (s->setup.staged) {
            *staged[i] = allocate(plane(&s->setup));
        }
    }
}

static int
has_neighbour(const struct slab *s, int side)
{
    return side == 0 ? s->index.at[0] > 0 : s->index.at[0] + 1 < s->setup.slabs;
}

/* A plane has left: its memory may be used for the next step. */
static void
note_sent(void *user, telpher_status status, size_t len)
{
    struct slab *s = user;

    (void)len;
    if (status != TELPHER_ERR_CANCELED) {
        must(s->mdr, status, "sending a plane");
        s->sending--;
        must(s->mdr,
             telpher_mdr_invoke(s->mdr, &s->array, s->index, ADVANCE, NULL, 0, NULL, 0,
                                NULL),
             "an invocation");
    }
}

static void
send_plane(telpher_mdr_call *call, int side)
{
    struct slab *s = call->self;
    size_t len = plane(&s->setup) * sizeof(double);
    const struct halo halo = {s->step, !side};
    telpher_mdr_channel to = {.array = s->array, .index = s->index};
    telpher_msg_buffer buffer = {s->out[side], len};
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;

    xfer.on_done = note_sent;
    xfer.user = s;
    to.index.at[0] += side == 0 ? -1 : 1;
    copy(s->mdr, s->out[side],
         s->now + plane(&s->setup) * (size_t)(side ? s->count : 1), len);
    if (s->setup.staged) {
        copy(s->mdr, s->stage_out[side], s->out[side], len);
        buffer.data = s->stage_out[side];
    }
    s->sending++;
    if (s->setup.channels) {
        must(s->mdr, telpher_mdr_channel_recv(call, &to, TAKE), "receiving a plane");
        must(
            s->mdr,
            telpher_mdr_channel_send(call, &to, &halo, sizeof(halo), &buffer, 1, &xfer),
            "sending a plane");
    } else {
        must(s->mdr,
             telpher_mdr_invoke(s->mdr, &to.array, to.index, TAKE, &halo, sizeof(halo),
                                &buffer, 1, &xfer),
             "sending a plane");
    }
}

static void
send_planes(telpher_mdr_call *call)
{
    for (int side = 0; side < 2; side++) {
        if (has_neighbour(call->self, side)) {
            send_plane(call, side);
        }
    }
}

static void
finish(telpher_mdr_call *call)
{
    struct slab *s = call->self;
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE,
                                       .future = s->setup.done};
    size_t p = plane(&s->setup);
    int64_t sum = digest(s->now + p, p * (size_t)s->count,
                         p * (size_t)first_plane(&s->setup, s->index.at[0]));

    must(s->mdr,
         telpher_mdr_contribute(call, &sum, sizeof(sum), TELPHER_MDR_SUM_I64, &target),
         "contributing");
}

/* Both planes are there, and the own ones have left. */
static int
is_ready(const struct slab *s)
{
    return s->step < s->setup.steps && s->sending == 0 &&
           s->got[s->step % 2] == s->neighbours;
}

static void
take_plane(struct slab *s, int side)
{
    size_t p = plane(&s->setup);
    int now = s->step % 2;

    if (s->setup.staged) {
        copy(s->mdr, s->in[side][now], s->stage_in[side][now], p * sizeof(double));
    }
    copy(s->mdr, s->now + (side ? p * (size_t)(s->count + 1) : 0), s->in[side][now],
         p * sizeof(double));
}

static void
compute_step(telpher_mdr_call *call)
{
    struct slab *s = call->self;
    double *swap;

    for (int side = 0; side < 2; side++) {
        if (has_neighbour(s, side)) {
            take_plane(s, side);
        }
    }
    relax(&s->setup, s->count, s->now, s->next);
    swap = s->now;
    s->now = s->next;
    s->next = swap;
    s->got[s->step % 2] = 0;
    if (++s->step == s->setup.steps) {
        finish(call);
    } else {
        send_planes(call);
    }
}

/* A copy of device memory may run entries, this one too: the outermost call does the work. */
static void
advance(telpher_mdr_call *call)
{
    struct slab *s = call->self;

    if (s->busy) {
        return;
    }
    s->busy = 1;
    while (is_ready(s)) {
        compute_step(call);
    }
    s->busy = 0;
}

static void
post(telpher_mdr_call *call)
{
    const struct halo *h = TELPHER_MDR_PARAMS(call, struct halo);
    struct slab *s = call->self;

    call->buffers[0].data = s->setup.staged ? s->stage_in[h->side][h->step % 2]
                                            : s->in[h->side][h->step % 2];
}

static void
take(telpher_mdr_call *call)
{
    struct slab *s = call->self;

    must(s->mdr, call->status, "a plane");
    s->got[TELPHER_MDR_PARAMS(call, struct halo)->step % 2]++;
    advance(call);
}

static void
create(telpher_mdr_call *call)
{
    struct slab *s = call->self;
    int32_t i = call->index.at[0];

    s->setup = *TELPHER_MDR_PARAMS(call, struct setup);
    s->mdr = call->mdr;
    s->array = call->array;
    s->index = call->index;
    s->count = first_plane(&s->setup, i + 1) - first_plane(&s->setup, i);
    s->neighbours = (uint32_t)(has_neighbour(s, 0) + has_neighbour(s, 1));
    s->now = make_planes(&s->setup, s->count, i == 0);
    s->next = make_planes(&s->setup, s->count, i == 0);
    make_buffers(s);
    s->busy = 1; /* a neighbour's plane may come before START */
}

static void
start(telpher_mdr_call *call)
{
    struct slab *s = call->self;

    send_planes(call);
    s->busy = 0;
    advance(call);
}

static void
destroy(telpher_mdr_call *call)
{
    struct slab *s = call->self;

    for (int side = 0; side < 2; side++) {
        (void)telpher_mem_free(telpher_mdr_context(s->mdr), s->out[side]);
        free(s->stage_out[side]);
        for (int now = 0; now < 2; now++) {
            (void)telpher_mem_free(telpher_mdr_context(s->mdr), s->in[side][now]);
            free(s->stage_in[side][now]);
        }
    }
    free(s->now);
    free(s->next);
}

static const telpher_mdr_entry entries[ENTRIES] = {
    [START] = TELPHER_MDR_ENTRY_VOID(start),
    [TAKE] = TELPHER_MDR_ENTRY_POST(take, post, struct halo),
    [ADVANCE] = TELPHER_MDR_ENTRY_VOID(advance),
};
static const telpher_mdr_class slabs = {.struct_size = sizeof(slabs),
                                        .entry_count = ENTRIES,
                                        .name = "slab",
                                        .object_size = sizeof(struct slab),
                                        .create = create,
                                        .destroy = destroy,
                                        .entries = entries};

/* ---- the program ---- */

static int64_t
compute_alone(const struct setup *s)
{
    int32_t count = s->edge - 2;
    double *now = make_planes(s, count, 1), *next = make_planes(s, count, 1);
    int64_t sum;

    for (int32_t step = 0; step < s->steps; step++) {
        double *swap = now;

        relax(s, count, now, next);
        now = next;
        next = swap;
    }
    sum = digest(now + plane(s), plane(s) * (size_t)count, plane(s));
    free(now);
    free(next);
    return sum;
}

static void
run_main(telpher_mdr_call *call)
{
    struct setup *s = telpher_mdr_user(call->mdr);
    telpher_mdr *mdr = call->mdr;
    telpher_mdr_array array;
    struct timespec a, b;
    int64_t sum = 0;
    int exact;

    must(mdr, telpher_mdr_future_create(mdr, &s->done), "a future");
    must(mdr, telpher_mdr_array_create(mdr, 0, 1, &s->slabs, s, sizeof(*s), &array),
         "the slabs");
    clock_gettime(CLOCK_MONOTONIC, &a);
    must(mdr, telpher_mdr_broadcast(mdr, &array, START, NULL, 0), "starting");
    must(mdr, telpher_mdr_await(mdr, s->done, &sum, sizeof(sum), NULL), "the result");
    clock_gettime(CLOCK_MONOTONIC, &b);
    exact = sum == compute_alone(s);
    printf(
        "%d slabs on %u processes, %d^3 points, %s, %s: %.1f us a step, %s\n", s->slabs,
        telpher_mdr_size(mdr), s->edge, s->channels ? "channels" : "messages",
        s->staged ? "staged" : "direct",
        (1e6 * (double)(b.tv_sec - a.tv_sec) + 1e-3 * (double)(b.tv_nsec - a.tv_nsec)) /
            s->steps,
        exact ? "exact" : "WRONG");
    telpher_mdr_exit(mdr, exact ? TELPHER_OK : TELPHER_ERR_INVALID);
}

static int
kind_of(const char *name)
{
    static const char *const names[] = {
        [TELPHER_MEM_HOST] = "host",
        [TELPHER_MEM_SIM] = "sim",
        [TELPHER_MEM_OPENCL] = "opencl",
        [TELPHER_MEM_CUDA] = "cuda",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (names[i] != NULL && strcmp(names[i], name) == 0) {
            return (int)i;
        }
    }
    fprintf(stderr, "no memory is called %s\n", name);
    exit(2);
}

int
main(int argc, char **argv)
{
    struct setup s = {.edge = 34, .steps = 20, .slabs = 4, .kind = TELPHER_MEM_HOST};
    telpher_mdr *mdr = NULL;
    telpher_error err;
    uint32_t number;
    int option;

    while ((option = getopt(argc, argv, "csk:o:")) != -1) {
        s.channels |= option == 'c';
        s.staged |= option == 's';
        s.kind = option == 'k' ? (uint32_t)kind_of(optarg) : s.kind;
        s.slabs = option == 'o' ? atoi(optarg) : s.slabs;
        if (option == '?') {
            return 2;
        }
    }
    s.edge = optind < argc ? atoi(argv[optind]) : s.edge;
    s.steps = optind + 1 < argc ? atoi(argv[optind + 1]) : s.steps;
    if (telpher_mdr_create(NULL, &mdr, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    s.slabs *= (int32_t)telpher_mdr_size(mdr);
    if (s.steps < 1 || s.slabs < 1 || s.edge - 2 < s.slabs) {
        fprintf(stderr, "an edge of at least %d points and a step, please\n",
                s.slabs + 2);
        return 2;
    }
    must(mdr, telpher_mdr_class_register(mdr, &slabs, &number), "a class");
    must(mdr, telpher_mdr_run(mdr, run_main, &s), "the run");
    telpher_mdr_destroy(mdr);
    return EXIT_SUCCESS;
}
