/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -n 4 -- 07_particles [-o FILE.json] [PARTICLES [PERIODS]]
 *
 * A cloud of particles turns around the middle of a square of cells. A cell is an object; its
 * work grows with the square of its particles, so the work moves from process to process. After
 * each period the runtime spreads the cells again, as TELPHER_MDR_BALANCER says. The program prints the
 * processor time of each process in each period, and compares the result with one loop.
 * plot.py draws the file.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <telpher/mdr_dynamic.h>

enum {
    GRID = 24,
    STEPS = 10,
    PERIODS_MAX = 64,
    LEARNING = 2,
    PROCESSES_MAX = 64,
    SIDES = 8
};
/* [radian] of a step */
#define TURN 0.004

struct particle {
    double x, y;
};

static void
must(telpher_status status, const char *what)
{
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", what, telpher_status_name(status));
        exit(EXIT_FAILURE);
    }
}

/* ---- particles: the same in the objects and in one loop ---- */

static double
next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

/* A cloud beside the middle, inside of the circle that fits into the square. */
static struct particle
first_place(uint64_t *state)
{
    double spread = GRID / 9.0, angle = 6.283185307179586 * next_random(state);
    double from = spread * sqrt(-log(1 - 0.95 * next_random(state)));

    return (struct particle){GRID / 2.0 + GRID / 4.0 + from * cos(angle) * 0.9,
                             GRID / 2.0 + from * sin(angle)};
}

static void
move(struct particle *p)
{
    double x = p->x - GRID / 2.0, y = p->y - GRID / 2.0;

    p->x = GRID / 2.0 + x * cos(TURN) - y * sin(TURN);
    p->y = GRID / 2.0 + x * sin(TURN) + y * cos(TURN);
}

static int
cell_at(double at)
{
    int cell = (int)floor(at);

    return cell < 0 ? 0 : cell >= GRID ? GRID - 1 : cell;
}

/* Close pairs in a cell: stands for the forces. */
static uint64_t
count_pairs(const struct particle *p, uint32_t count)
{
    uint64_t pairs = 0;

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            double x = p[i].x - p[j].x, y = p[i].y - p[j].y;

            pairs += x * x + y * y < 0.04;
        }
    }
    return pairs;
}

static void *
need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* ---- cells ---- */

enum { CELL_START, CELL_TAKE, CELL_RESUME, CELL_ENTRIES };

struct start {
    uint32_t particles, periods;
    telpher_mdr_future done[PERIODS_MAX];
};

struct cell {
    struct start start;
    uint32_t count, room, step, period;
    uint32_t taken; /* messages of neighbours in this step */
    double seconds[PROCESSES_MAX]; /* in this period, by process */
    uint64_t pairs;
    struct particle *particles;
};

static double
thread_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct particle *
make_room(struct cell *c, uint32_t more)
{
    if (c->count + more > c->room) {
        c->room = 2 * (c->count + more);
        c->particles = need(realloc(c->particles, c->room * sizeof(*c->particles)));
    }
    return c->particles + c->count;
}

static void
pup_cell(telpher_mdr_call *call, telpher_mdr_pup *p)
{
    struct cell *c = call->self;
    struct particle *particles = c->particles;

    telpher_mdr_pup_bytes(p, c, sizeof(*c));
    if (telpher_mdr_pup_mode(p) == TELPHER_MDR_UNPACK) {
        particles = need(malloc((c->room + 1) * sizeof(*particles)));
    }
    c->particles = particles;
    telpher_mdr_pup_bytes(p, c->particles, c->count * sizeof(*c->particles));
}

static void
destroy_cell(telpher_mdr_call *call)
{
    free(((struct cell *)call->self)->particles);
}

/* The channel to the neighbour at that side. @return 0: there is none */
static int
channel_at(const telpher_mdr_call *call, uint32_t side, telpher_mdr_channel *ret)
{
    static const int32_t steps[SIDES][2] = {{-1, -1}, {-1, 0}, {-1, 1}, {0, -1},
                                            {0, 1},   {1, -1}, {1, 0},  {1, 1}};
    int32_t x = call->index.at[0] + steps[side][0],
            y = call->index.at[1] + steps[side][1];

    *ret = (telpher_mdr_channel){.array = call->array, .index = {{x, y, 0}}};
    return x >= 0 && y >= 0 && x < GRID && y < GRID;
}

static uint32_t
neighbours(const telpher_mdr_call *call)
{
    telpher_mdr_channel c;
    uint32_t count = 0;

    for (uint32_t side = 0; side < SIDES; side++) {
        count += (uint32_t)channel_at(call, side, &c);
    }
    return count;
}

static void
free_sent(void *user, telpher_status status, size_t len)
{
    (void)status, (void)len;
    free(user);
}

/* Takes the particles that went to that neighbour out of the cell. */
static uint32_t
take_out(struct cell *c, telpher_mdr_index to, struct particle *out)
{
    uint32_t kept = 0, count = 0;

    for (uint32_t i = 0; i < c->count; i++) {
        const struct particle p = c->particles[i];

        if (cell_at(p.x) == to.at[0] && cell_at(p.y) == to.at[1]) {
            out[count++] = p;
        } else {
            c->particles[kept++] = p;
        }
    }
    c->count = kept;
    return count;
}

static void
send_to(telpher_mdr_call *call, const telpher_mdr_channel *channel)
{
    struct cell *c = call->self;
    struct particle *out = need(malloc((c->count + 1) * sizeof(*out)));
    uint32_t count = take_out(c, channel->index, out);
    const telpher_msg_buffer buffer = {out, count * sizeof(*out)};
    telpher_xfer_params xfer = TELPHER_XFER_PARAMS_INIT;

    xfer.on_done = free_sent;
    xfer.user = out;
    must(telpher_mdr_channel_send(call, channel, &count, sizeof(count), &buffer,
                                  count != 0, count != 0 ? &xfer : NULL),
         "telpher_mdr_channel_send");
    if (count == 0) {
        free(out);
    }
}

static void
step(telpher_mdr_call *call)
{
    struct cell *c = call->self;
    double begin = thread_seconds();
    telpher_mdr_channel channel;

    c->pairs += count_pairs(c->particles, c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        move(&c->particles[i]);
    }
    for (uint32_t side = 0; side < SIDES; side++) {
        if (channel_at(call, side, &channel)) {
            send_to(call, &channel);
            must(telpher_mdr_channel_recv(call, &channel, CELL_TAKE),
                 "telpher_mdr_channel_recv");
        }
    }
    c->seconds[telpher_mdr_rank(call->mdr)] += thread_seconds() - begin;
}

/* A period has ended: its times go to the main function, and the cells are spread. */
static void
end_period(telpher_mdr_call *call)
{
    struct cell *c = call->self;
    const telpher_mdr_target target = {.kind = TELPHER_MDR_TO_FUTURE,
                                       .future = c->start.done[c->period]};
    double values[PROCESSES_MAX + 2] = {0};

    memcpy(values, c->seconds, sizeof(c->seconds));
    values[PROCESSES_MAX] = c->count;
    values[PROCESSES_MAX + 1] = (double)c->pairs;
    memset(c->seconds, 0, sizeof(c->seconds));
    must(telpher_mdr_contribute(call, values, sizeof(values), TELPHER_MDR_SUM_F64,
                                &target),
         "telpher_mdr_contribute");
    if (++c->period < c->start.periods) {
        must(telpher_mdr_sync(call, CELL_RESUME), "telpher_mdr_sync");
    }
}

static void
post_take(telpher_mdr_call *call)
{
    call->buffers[0].data = need(malloc(call->buffers[0].len));
}

static void
take(telpher_mdr_call *call)
{
    struct cell *c = call->self;
    uint32_t count = *TELPHER_MDR_PARAMS(call, uint32_t);

    must(call->status, "particles of a neighbour");
    if (call->buffer_count != 0) {
        memcpy(make_room(c, count), call->buffers[0].data,
               count * sizeof(*c->particles));
        c->count += count;
        free(call->buffers[0].data);
    }
    if (++c->taken == neighbours(call)) {
        c->taken = 0;
        if (++c->step % STEPS == 0) {
            end_period(call);
        } else {
            step(call);
        }
    }
}

/* Makes the particles of all cells and keeps its own. */
static void
start(telpher_mdr_call *call)
{
    struct cell *c = call->self;
    uint64_t state = 1;

    c->start = *TELPHER_MDR_PARAMS(call, struct start);
    for (uint32_t i = 0; i < c->start.particles; i++) {
        struct particle p = first_place(&state);

        if (cell_at(p.x) == call->index.at[0] && cell_at(p.y) == call->index.at[1]) {
            *make_room(c, 1) = p;
            c->count++;
        }
    }
    step(call);
}

static const telpher_mdr_entry entries[CELL_ENTRIES] = {
    [CELL_START] = TELPHER_MDR_ENTRY(start, struct start),
    [CELL_TAKE] = TELPHER_MDR_ENTRY_POST(take, post_take, uint32_t),
    [CELL_RESUME] = TELPHER_MDR_ENTRY_VOID(step),
};
static const telpher_mdr_class cell_class = {
    .struct_size = sizeof(cell_class),
    .entry_count = CELL_ENTRIES,
    .name = "cell",
    .object_size = sizeof(struct cell),
    .destroy = destroy_cell,
    .entries = entries,
    .pup = pup_cell,
};

/* ---- the program ---- */

struct options {
    const char *file;
    uint32_t particles, periods;
};

/* Sorts the particles by cell. first[c] is the place of the first of cell c. */
static void
sort_by_cell(const struct particle *all, uint32_t count, struct particle *sorted,
             uint32_t *first)
{
    uint32_t next[GRID * GRID + 1] = {0};

    for (uint32_t i = 0; i < count; i++) {
        next[cell_at(all[i].x) * GRID + cell_at(all[i].y) + 1]++;
    }
    for (int c = 0; c < GRID * GRID; c++) {
        next[c + 1] += next[c];
    }
    memcpy(first, next, sizeof(next));
    for (uint32_t i = 0; i < count; i++) {
        sorted[next[cell_at(all[i].x) * GRID + cell_at(all[i].y)]++] = all[i];
    }
}

/* Pairs of all periods, in one loop. */
static uint64_t
compute_alone(const struct options *o)
{
    struct particle *all = need(malloc(o->particles * sizeof(*all)));
    struct particle *sorted = need(malloc(o->particles * sizeof(*sorted)));
    uint32_t first[GRID * GRID + 1];
    uint64_t state = 1, pairs = 0;

    for (uint32_t i = 0; i < o->particles; i++) {
        all[i] = first_place(&state);
    }
    for (uint32_t s = 0; s < o->periods * STEPS; s++) {
        sort_by_cell(all, o->particles, sorted, first);
        for (int c = 0; c < GRID * GRID; c++) {
            pairs += count_pairs(sorted + first[c], first[c + 1] - first[c]);
        }
        for (uint32_t i = 0; i < o->particles; i++) {
            move(&all[i]);
        }
    }
    free(all);
    free(sorted);
    return pairs;
}

/* @return the longest time by the mean */
static double
print_period(uint32_t period, uint32_t size, const double *seconds, FILE *file)
{
    double sum = 0, most = 0;

    printf("period %2u:", period);
    for (uint32_t r = 0; r < size; r++) {
        sum += seconds[r];
        most = seconds[r] > most ? seconds[r] : most;
        printf(" %6.3f", seconds[r]);
    }
    printf(" s, longest / mean %.2f\n", most * size / sum);
    if (file != NULL) {
        fprintf(file, "{\"period\": %u, \"seconds\": [", period);
        for (uint32_t r = 0; r < size; r++) {
            fprintf(file, "%s%.6f", r != 0 ? ", " : "", seconds[r]);
        }
        fprintf(file, "]}\n");
    }
    return most * size / sum;
}

static void
print_periods(telpher_mdr *mdr, const struct start *start, const struct options *o)
{
    FILE *file = o->file != NULL ? fopen(o->file, "w") : NULL;
    double values[PROCESSES_MAX + 2] = {0}, sum = 0, most = 0;
    uint32_t first = start->periods > LEARNING ? LEARNING : 0;
    uint64_t alone = compute_alone(o);

    for (uint32_t p = 0; p < start->periods; p++) {
        double uneven;

        must(telpher_mdr_await(mdr, start->done[p], values, sizeof(values), NULL),
             "telpher_mdr_await");
        uneven = print_period(p, telpher_mdr_size(mdr), values, file) - 1;
        sum += p >= first ? uneven : 0;
        most = p >= first && uneven > most ? uneven : most;
    }
    if (file != NULL) {
        fclose(file);
    }
    printf("%.0f of %u particles, %.0f close pairs, alone %llu: %s\n",
           values[PROCESSES_MAX], o->particles, values[PROCESSES_MAX + 1],
           (unsigned long long)alone,
           (uint64_t)values[PROCESSES_MAX + 1] == alone ? "equal" : "WRONG");
    printf("from period %u on: %.1f %% longer than with a perfect split, at most %.1f "
           "%%\n",
           first, 100 * sum / (start->periods - first), 100 * most);
}

static void
run_main(telpher_mdr_call *call)
{
    static const int32_t extent[] = {GRID, GRID};
    const struct options *o = telpher_mdr_user(call->mdr);
    struct start start = {.particles = o->particles, .periods = o->periods};
    telpher_mdr_array cells;

    for (uint32_t p = 0; p < o->periods; p++) {
        must(telpher_mdr_future_create(call->mdr, &start.done[p]),
             "telpher_mdr_future_create");
    }
    must(telpher_mdr_array_create(call->mdr, 0, 2, extent, NULL, 0, &cells),
         "telpher_mdr_array_create");
    must(telpher_mdr_broadcast(call->mdr, &cells, CELL_START, &start, sizeof(start)),
         "telpher_mdr_broadcast");
    print_periods(call->mdr, &start, o);
    telpher_mdr_exit(call->mdr, TELPHER_OK);
}

static struct options
parse(int argc, char **argv)
{
    struct options o = {.particles = 12000, .periods = 16};
    int next = 1;

    if (argc > 2 && strcmp(argv[1], "-o") == 0) {
        o.file = argv[2];
        next = 3;
    }
    if (argc > next) {
        o.particles = (uint32_t)atoi(argv[next]);
    }
    if (argc > next + 1) {
        o.periods = (uint32_t)atoi(argv[next + 1]);
    }
    if (o.particles < 1 || o.periods < 1 || o.periods > PERIODS_MAX) {
        fprintf(stderr, "usage: %s [-o FILE.json] [PARTICLES [PERIODS]]\n", argv[0]);
        exit(2);
    }
    return o;
}

int
main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    telpher_mdr *mdr = NULL;
    telpher_error err;
    uint32_t number;

    if (telpher_mdr_create(NULL, &mdr, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    if (telpher_mdr_size(mdr) > PROCESSES_MAX) {
        fprintf(stderr, "at most %d processes\n", PROCESSES_MAX);
        return EXIT_FAILURE;
    }
    must(telpher_mdr_class_register(mdr, &cell_class, &number),
         "telpher_mdr_class_register");
    must(telpher_mdr_run(mdr, run_main, &o), "telpher_mdr_run");
    telpher_mdr_destroy(mdr);
    return EXIT_SUCCESS;
}
