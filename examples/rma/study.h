/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the case studies: command line, launch, and comparison. */
#ifndef EXAMPLES_RMA_STUDY_H
#define EXAMPLES_RMA_STUDY_H

#include <stddef.h>
#include <stdint.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

/** How a study runs; with STUDY_THESIS defined, its defaults are the parameters of dCUDA's
 *  thesis on one device: PROGRAM [RANKS [DEVICES [SIZE [STEPS [LANES [SAMPLES]]]]]]. */
struct study {
    const char *what; /* meaning of SIZE */
    uint32_t ranks, devices, size, steps; /* the program's defaults */
    uint32_t square; /* not 0: devices are 1, 4, 9, ... */
    uint32_t lanes; /* of a rank; 0 = one */
    uint32_t samples; /* of each time; 0 = no times are compared */
    uint32_t checked; /* steps after which results are compared, at most; 0 = all */
};

/** Phases of a kernel; both, except where each is timed alone. */
enum study_does { STUDY_COMPUTES = 1, STUDY_SENDS = 2, STUDY_DOES_BOTH = 3 };

struct study_host;

/** A study in two forms, which share what they compute: a kernel whose ranks communicate,
 *  and phases between which the host copies (phases.h). */
struct study_program {
    const char *name;
    struct study study; /* the defaults */
    const telpher_rma_kernel *kernel;
    size_t data_size; /* of data, which begins with a uint32_t: enum study_does */
    void (*make)(const struct study *study, void *ret_data);
    void (*drop)(const struct study *study, void *data);
    /* All steps as phases and copies; the host has waited for them when it returns. */
    void (*two_model)(struct study_host *host, const struct study *study, void *data);
    /* The result of the serial program, in one piece of study_alloc(). */
    void *(*serial)(const struct study *study);
    /* Compares with that result. 0, or 1 after an error message. */
    int (*check)(const struct study *study, const void *data, const void *right);
};

/** Runs both forms and compares them with the serial program; with SAMPLES compares their
 *  times. @return an exit status */
int study_main(int argc, char **argv, const struct study_program *program);

/** Reads the command line over the defaults; ends the program when it makes no sense. */
void study_parse(int argc, char **argv, struct study *study);

/** Memory of @p count elements, 0, for host and kernels; ends the program when there is none. */
void *study_alloc(size_t count, size_t size);
void study_free(void *memory);
/** The same, small, for what the host looks at while kernels run and write it. */
void *study_alloc_seen(size_t count, size_t size);
/** Later allocations are for @p device and lie on its GPU; with 0 devices, for all. */
void study_on(uint32_t device, uint32_t devices);
#define STUDY_NEW(type, count) ((type *)study_alloc(count, sizeof(type)))

/** All of it goes to where kernels run, so that none is timed while it goes. */
void study_move_memory(void);

/** Runs the kernel with a copy of the @p len bytes at @p data. Ends the program on failure.
 *  @return [ms] of the device that took longest, as its timer says */
double study_time(const struct study *study, const telpher_rma_kernel *kernel,
                  const void *data, size_t len);
/** How many processes share the devices out, in their order, and whether this one has a
 *  device, or a rank. One process has all; after the first launch. */
uint32_t study_processes(void);
int study_has_device(const struct study *study, uint32_t device);
int study_has_rank(const struct study *study, uint32_t rank);

/** Compares @p count numbers bit for bit. @return 0, or 1 after words about the first */
int study_compare(const char *what, const double *got, const double *right,
                  size_t count);

/** The first of @p count things that part @p index of @p parts has. */
TELPHER_RMA_FN_BOTH static inline uint32_t
study_first(uint32_t count, uint32_t parts, uint32_t index)
{
    return (uint32_t)((uint64_t)count * index / parts);
}

/** A pseudo-random number from two others. */
TELPHER_RMA_FN_BOTH static inline uint64_t
study_random(uint64_t a, uint64_t b)
{
    uint64_t x =
        a * 0x9e3779b97f4a7c15u ^ (b + 0x632be59bd9b4e019u) * 0xbf58476d1ce4e5b9u;

    x ^= x >> 31;
    x *= 0x94d049bb133111ebu;
    x ^= x >> 29;
    return x;
}

/** The same between 0 and 1. */
TELPHER_RMA_FN_BOTH static inline double
study_unit(uint64_t a, uint64_t b)
{
    return (double)(study_random(a, b) >> 11) * 0x1p-53;
}

#endif
