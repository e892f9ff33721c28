/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow around a cylinder by the lattice-Boltzmann method, an ordinary OpenCL program.
 *
 * The channel is cut into strips, one for each device of one context:
 *
 *     inlet -> | strip 0 | strip 1 | ... | -> outlet
 *
 * A step of a strip is two kernels on its in-order queue: first the inner columns, which
 * need nothing from elsewhere, then the two edge columns, which need the neighbours'
 * halos of the step before. Each device pulls its halos (three directions of one
 * column, a few KB) on a second queue as soon as the neighbour's edges are done, while
 * its own inner columns are computed. Events alone order the devices: the host waits
 * for nothing but now and then for an old step, so as not to run too far ahead. All
 * arguments are set once; even and odd steps have their own kernel objects.
 *
 * As a program of MPI (lbm_mpi_...) each rank has one strip and a context of its own,
 * and passes its halos through host memory.
 */
#include "ranks.h"
#include "strips.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STEPS_AHEAD = 32, UNTIMED_STEPS = 2 };

static double
seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Enqueues a kernel over all rows of `columns` columns from `first` on. */
static void
enqueue(struct strip *s, cl_kernel kernel, int height, int first, int columns,
        cl_uint waits, const cl_event *wait_for, cl_event *ret_done)
{
    const size_t offset[2] = {1, (size_t)first};
    const size_t global[2] = {(size_t)height, (size_t)columns};
    size_t local[2] = {64, 1};

    while (global[0] % local[0] != 0) {
        local[0] /= 2;
    }
    CHECK(clEnqueueNDRangeKernel(s->compute, kernel, 2, offset, global, local, waits,
                                 wait_for, ret_done));
}

/* Inner columns first: halos are on their way. Among processes the edges first, since the host waits for them and
 * passes them on while the inner columns are computed. */
static void
enqueue_step(struct simulation *sim, int i, int p, bool measured)
{
    struct strip *s = &sim->strips[i];
    const int height = sim->options.flow.height;
    const bool edges_first = sim->options.ranks > 1;
    cl_event halos[SIDES];
    cl_uint waits = 0;

    for (int side = 0; side < SIDES; side++) {
        if (s->halo_ready[side] != NULL) {
            halos[waits++] = s->halo_ready[side];
        }
    }
    lbm_release_event(&s->done[EDGES]);
    lbm_release_event(&s->done[INNER]);
    for (int k = 0; k < PARTS; k++) {
        if ((k == 0) == edges_first) {
            enqueue(s, s->edges[p], height, 0, 2, waits, waits > 0 ? halos : NULL,
                    &s->done[EDGES]);
        } else {
            enqueue(s, s->inner[p], height, 1, s->width - 2, 0, NULL,
                    measured ? &s->done[INNER] : NULL);
        }
    }
    lbm_release_event(&s->halo_ready[LEFT]);
    lbm_release_event(&s->halo_ready[RIGHT]);
    CHECK(clFlush(s->compute)); /* other queues wait for its events */
}

/* Strip i pulls what its neighbours' edges have just written. Two sets of halos are
 * enough: a neighbour overwrites one only two steps later, after edges that waited
 * (through the strips' mutual halos) for everything that reads it. */
static void
enqueue_halos(struct simulation *sim, int i, int p)
{
    struct strip *s = &sim->strips[i];
    const size_t bytes = 3 * (size_t)(sim->options.flow.height + 2) * sizeof(float);

    for (int side = 0; side < SIDES; side++) {
        const int n = side == LEFT ? i - 1 : i + 1;

        if (n >= 0 && n < sim->count) {
            CHECK(clEnqueueCopyBuffer(
                s->transfer, sim->strips[n].halo_out[1 - p][1 - side],
                s->halo_in[1 - p][side], 0, 0, bytes, 1, &sim->strips[n].done[EDGES],
                &s->halo_ready[side]));
        }
    }
    CHECK(clFlush(s->transfer));
}

/* The only strip of this process exchanges its edges with those of other processes. */
static void
exchange_halos(struct simulation *sim, int p)
{
    struct strip *s = &sim->strips[0];
    const int count = 3 * (sim->options.flow.height + 2);
    const size_t bytes = (size_t)count * sizeof(float);
    const bool is_inside[SIDES] = {s->first > 0,
                                   s->first + s->width < sim->options.flow.width};

    for (int side = 0; side < SIDES; side++) {
        if (is_inside[side]) {
            CHECK(clEnqueueReadBuffer(s->transfer, s->halo_out[1 - p][side], CL_FALSE,
                                      0, bytes, s->sent[side], 1, &s->done[EDGES],
                                      NULL));
        }
    }
    CHECK(clFinish(s->transfer));
    lbm_ranks_exchange(s->sent, s->received, count);
    for (int side = 0; side < SIDES; side++) {
        if (is_inside[side]) {
            CHECK(clEnqueueWriteBuffer(s->transfer, s->halo_in[1 - p][side], CL_FALSE,
                                       0, bytes, s->received[side], 0, NULL,
                                       &s->halo_ready[side]));
        }
    }
    CHECK(clFlush(s->transfer));
}

static double
duration_ns(cl_event event)
{
    cl_ulong start, end;

    CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(start),
                                  &start, NULL));
    CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end,
                                  NULL));
    return (double)(end - start);
}

/* Waits until all but the last STEPS_AHEAD steps are done, and looks what the oldest of them took. */
static void
throttle(struct simulation *sim)
{
    for (int i = 0; i < sim->count; i++) {
        struct strip *s = &sim->strips[i];

        if (s->throttle[EDGES] != NULL) {
            CHECK(clWaitForEvents(PARTS, s->throttle));
            if (sim->options.profile) {
                s->busy_ns +=
                    duration_ns(s->throttle[EDGES]) + duration_ns(s->throttle[INNER]);
                s->measured++;
            }
        }
        for (int part = 0; part < PARTS; part++) {
            lbm_release_event(&s->throttle[part]);
            s->throttle[part] = s->done[part];
            CHECK(clRetainEvent(s->throttle[part]));
        }
    }
}

static void
finish(struct simulation *sim)
{
    for (int i = 0; i < sim->count; i++) {
        CHECK(clFinish(sim->strips[i].compute));
        CHECK(clFinish(sim->strips[i].transfer));
    }
}

static double
million_updates(const struct simulation *sim, int steps)
{
    return 1e-6 * steps * sim->options.flow.width * sim->options.flow.height;
}

static void
show_progress(const struct simulation *sim, int step, double elapsed)
{
    static const char bar[] = "########################################";
    const int steps = sim->options.steps;
    const int filled = (int)(40LL * step / steps);
    const double rate = elapsed > 0 ? million_updates(sim, step) / elapsed : 0;
    static int last = -1;

    if (sim->options.rank > 0) {
        return;
    }
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r[%-40.*s] %3d%%  step %d of %d  %.1f MLUPS%s", filled, bar,
                (int)(100LL * step / steps), step, steps, rate,
                step == steps ? "\n" : "");
    } else if (10LL * step / steps != last) {
        last = (int)(10LL * step / steps);
        fprintf(stderr, "step %d of %d, %.1f MLUPS\n", step, steps, rate);
    }
}

static void
run_steps(struct simulation *sim, int first, int last)
{
    const double start = seconds_now();

    for (int step = first; step < last; step++) {
        for (int i = 0; i < sim->count; i++) {
            enqueue_step(sim, i, step % 2, step % STEPS_AHEAD == 0);
        }
        if (sim->options.ranks > 1) {
            exchange_halos(sim, step % 2);
        }
        for (int i = 0; i < sim->count; i++) {
            enqueue_halos(sim, i, step % 2);
        }
        if (step % STEPS_AHEAD == 0) {
            throttle(sim);
            show_progress(sim, step, seconds_now() - start);
        }
    }
    finish(sim);
}

/* Part of a step's time in which a device runs its kernels, the mean of all devices. */
static double
utilisation(const struct simulation *sim, double step_ns)
{
    double sum = 0;

    for (int i = 0; i < sim->count; i++) {
        const struct strip *s = &sim->strips[i];

        sum += s->measured > 0 ? s->busy_ns / s->measured / step_ns : 0;
    }
    return lbm_ranks_mean(sum / sim->count);
}

/* The first steps are not timed: some drivers compile a kernel when it first runs. */
static struct lbm_figures
run(struct simulation *sim)
{
    const int steps = sim->options.steps;
    const int untimed = steps > UNTIMED_STEPS ? UNTIMED_STEPS : 0;
    double start;
    double elapsed;

    run_steps(sim, 0, untimed);
    start = seconds_now();
    run_steps(sim, untimed, steps);
    elapsed = seconds_now() - start;
    show_progress(sim, steps, elapsed);
    return (struct lbm_figures){sim->count * sim->options.ranks, elapsed,
                                million_updates(sim, steps - untimed) / elapsed,
                                utilisation(sim, 1e9 * elapsed / (steps - untimed))};
}

static struct lbm_field
read_field(struct simulation *sim)
{
    const int p = sim->options.steps % 2;
    const size_t height = (size_t)sim->options.flow.height;
    const cl_int pitch = sim->options.flow.height + 2;
    struct lbm_field field = {sim->options.flow.width, sim->options.flow.height, NULL};

    field.u = malloc(2 * (size_t)field.width * height * sizeof(float));
    if (field.u == NULL) {
        lbm_fail("out of memory", "");
    }
    for (int i = 0; i < sim->count; i++) {
        struct strip *s = &sim->strips[i];
        const size_t bytes = 2 * (size_t)s->width * height * sizeof(float);
        const cl_int width = s->width;
        cl_int status;
        cl_mem u =
            clCreateBuffer(sim->context, CL_MEM_WRITE_ONLY, bytes, NULL, &status);
        const size_t sizes[] = {sizeof(cl_mem), sizeof(cl_mem), sizeof(cl_int),
                                sizeof(cl_int), sizeof(cl_mem)};
        const void *values[] = {&s->state[p], &u, &width, &pitch, &s->walls};
        cl_kernel kernel;

        CHECK(status);
        kernel = lbm_create_kernel(sim, "velocity", 5, sizes, values);
        enqueue(s, kernel, field.height, 0, s->width, 0, NULL, NULL);
        CHECK(clEnqueueReadBuffer(s->compute, u, CL_FALSE, 0, bytes,
                                  field.u + 2 * (size_t)s->first * height, 0, NULL,
                                  NULL));
        clReleaseKernel(kernel);
        clReleaseMemObject(u);
    }
    finish(sim);
    return field;
}

struct lbm_field
lbm_run(const struct lbm_options *options, struct lbm_figures *ret_figures)
{
    static struct simulation sim;
    struct lbm_field field;

    sim.options = *options;
    lbm_create_strips(&sim);
    *ret_figures = run(&sim);
    field = read_field(&sim);
    lbm_ranks_gather(&field);
    lbm_destroy_strips(&sim);
    return field;
}
