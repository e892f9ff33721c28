/* SPDX-License-Identifier: Apache-2.0 */
/* Command line, launch and comparison of the case studies. */
#include "study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
usage(FILE *to, const char *program, const struct study *s)
{
    fprintf(to,
            "Usage: %s [RANKS [DEVICES [SIZE [STEPS [LANES [SAMPLES]]]]]]\n"
            "Computes with ranks that communicate, and in phases with copies between "
            "them; both\n"
            "results must be those of a serial program, bit for bit.\n"
            "  RANKS    of all devices, at most %u (%u)\n"
            "  DEVICES  that share them out, as many each%s (%u)\n"
            "  SIZE     %s (%u)\n"
            "  STEPS    (%u)\n"
            "  LANES    of a rank, at most %u (%u)\n"
            "  SAMPLES  of the times of both, which are compared (none); from 6 on "
            "with the interval\n"
            "           that has the median in 95 of 100 cases\n",
            program, TELPHER_RMA_RANKS_MAX, s->ranks, s->square ? ": 1, 4, 9, ..." : "",
            s->devices, s->what, s->size, s->steps, TELPHER_RMA_LANES_MAX,
            s->lanes != 0 ? s->lanes : 1);
}

static void
refuse(const char *program, const char *words)
{
    fprintf(stderr, "%s: %s; %s --help says more\n", program, words, program);
    exit(2);
}

static uint32_t
square_root(uint32_t n)
{
    uint32_t root = 0;

    while ((root + 1) * (root + 1) <= n) {
        root++;
    }
    return root;
}

/* A number of the command line; ends the program when it is none. */
static uint32_t
parse_number(const char *program, const char *name, const char *text, uint32_t most)
{
    char *end, words[128];
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > most) {
        snprintf(words, sizeof(words), "%s is 1 to %u, not \"%.40s\"", name, most,
                 text);
        refuse(program, words);
    }
    return (uint32_t)value;
}

static void
check_devices(const char *program, const struct study *study)
{
    char words[128];

    if (study->ranks % study->devices != 0) {
        snprintf(words, sizeof(words),
                 "%u devices cannot have as many of %u ranks each", study->devices,
                 study->ranks);
        refuse(program, words);
    }
    if (study->square &&
        square_root(study->devices) * square_root(study->devices) != study->devices) {
        snprintf(words, sizeof(words), "%u devices are no square", study->devices);
        refuse(program, words);
    }
}

/* The timed forms include ranks that compute and never wait. */
static void
check_times(const char *program, const struct study *study)
{
    const char *check = getenv("TELPHER_RMA_CHECK");

    if (study->samples != 0 && check != NULL && strcmp(check, "none") != 0) {
        refuse(program, "times with TELPHER_RMA_CHECK would say nothing: unset it, or "
                        "leave SAMPLES out");
    }
}

void
study_parse(int argc, char **argv, struct study *study)
{
    static const char *const names[] = {"RANKS", "DEVICES", "SIZE",
                                        "STEPS", "LANES",   "SAMPLES"};
    static const uint32_t most[] = {TELPHER_RMA_RANKS_MAX,
                                    TELPHER_RMA_RANKS_MAX,
                                    1000000,
                                    1000000,
                                    TELPHER_RMA_LANES_MAX,
                                    1000000};
    uint32_t *const values[] = {&study->ranks, &study->devices, &study->size,
                                &study->steps, &study->lanes,   &study->samples};

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage(stdout, argv[0], study);
        exit(0);
    }
    if (argc > 7) {
        refuse(argv[0], "too many arguments");
    }
    for (int i = 1; i < argc; i++) {
        *values[i - 1] = parse_number(argv[0], names[i - 1], argv[i], most[i - 1]);
    }
    check_devices(argv[0], study);
    check_times(argv[0], study);
}

#ifdef __CUDACC__

/* Memory that the GPU and the host share, in large pieces: the driver takes long over each.
 * A piece allocates in a row, and starts again after all its allocations were freed. */
struct piece {
    struct piece *next;
    char *memory;
    size_t len, used, live; /* [bytes]; how many have some */
    int gpu; /* its owner; -1 = none: each GPU reads a copy */
    int seen; /* the host's */
};

enum { PIECE_BYTES = 32 << 20, APART = 256 };
static struct piece *pieces;
static int gpu_of_next = -1;

/* Its memory stays on one GPU while others reach it, or each has a copy. */
static void
advise(const struct piece *piece, enum cudaMemoryAdvise what, int gpu)
{
#if CUDART_VERSION >= 13000
    cudaMemLocation place = {cudaMemLocationTypeDevice, gpu};

    cudaMemAdvise(piece->memory, piece->len, what, place);
#else
    cudaMemAdvise(piece->memory, piece->len, what, gpu);
#endif
}

static int
count_gpus(void)
{
    int gpus = 0;

    return cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0;
}

static void
keep(const struct piece *piece)
{
    int gpus = count_gpus();

    if (gpus < 2) {
        return;
    }
    if (piece->gpu < 0) {
        advise(piece, cudaMemAdviseSetReadMostly, 0);
        return;
    }
    advise(piece, cudaMemAdviseSetPreferredLocation, piece->gpu);
    for (int i = 0; i < gpus; i++) {
        advise(piece, cudaMemAdviseSetAccessedBy, i);
    }
}

void
study_on(uint32_t device, uint32_t devices)
{
    gpu_of_next = devices == 0 ? -1 : telpher_rma_cuda_gpu(device, devices);
}

static struct piece *
new_piece(size_t len, int seen)
{
    struct piece *piece = (struct piece *)calloc(1, sizeof(*piece));

    if (piece == NULL) {
        return NULL;
    }
    piece->len = len > PIECE_BYTES ? len : PIECE_BYTES;
    piece->gpu = gpu_of_next;
    piece->seen = seen;
    if ((seen
             ? cudaHostAlloc((void **)&piece->memory, piece->len, cudaHostAllocPortable)
             : cudaMallocManaged((void **)&piece->memory, piece->len)) != cudaSuccess) {
        free(piece);
        return NULL;
    }
    if (!seen) {
        keep(piece);
    }
    piece->next = pieces;
    pieces = piece;
    return piece;
}

static void *
alloc_shared(size_t len, int seen)
{
    struct piece *piece = pieces;
    void *memory;

    len = (len + APART - 1) / APART * APART;
    while (piece != NULL && (piece->seen != seen || piece->gpu != gpu_of_next ||
                             piece->len - piece->used < len)) {
        piece = piece->next;
    }
    piece = piece != NULL ? piece : new_piece(len, seen);
    if (piece == NULL) {
        return NULL;
    }
    memory = piece->memory + piece->used;
    piece->used += len;
    piece->live++;
    return memset(memory, 0, len);
}

static void
free_shared(void *memory)
{
    for (struct piece *p = pieces; p != NULL; p = p->next) {
        if ((char *)memory >= p->memory && (char *)memory < p->memory + p->len) {
            p->used = --p->live == 0 ? 0 : p->used;
            return;
        }
    }
}

static void
move_to(const struct piece *p, int gpu)
{
#if CUDART_VERSION >= 13000
    cudaMemLocation to = {cudaMemLocationTypeDevice, gpu};

    cudaMemPrefetchAsync(p->memory, p->used, to, 0);
#else
    cudaMemPrefetchAsync(p->memory, p->used, gpu);
#endif
}

void
study_move_memory(void)
{
    int gpus = count_gpus();

    for (const struct piece *p = pieces; p != NULL; p = p->next) {
        for (int i = 0; i < gpus && !p->seen && p->used != 0; i++) {
            if (p->gpu < 0 || p->gpu == i) {
                move_to(p, i);
            }
        }
    }
    cudaDeviceSynchronize();
}

#else

void
study_on(uint32_t device, uint32_t devices)
{
    (void)device;
    (void)devices;
}

static void *
alloc_shared(size_t len, int seen)
{
    (void)seen;
    return calloc(1, len);
}

static void
free_shared(void *memory)
{
    free(memory);
}

void
study_move_memory(void)
{
}

#endif

static void *
alloc(size_t count, size_t size, int seen)
{
    void *memory = NULL;

    count = count != 0 ? count : 1;
    if (count <= SIZE_MAX / size) {
        memory = alloc_shared(count * size, seen);
    }
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu times %zu bytes\n", count, size);
        exit(1);
    }
    return memory;
}

void *
study_alloc(size_t count, size_t size)
{
    return alloc(count, size, 0);
}

void *
study_alloc_seen(size_t count, size_t size)
{
    return alloc(count, size, 1);
}

void
study_free(void *memory)
{
    free_shared(memory);
}

static uint32_t process, processes = 1;

uint32_t
study_processes(void)
{
    return processes;
}

int
study_has_device(const struct study *study, uint32_t device)
{
    return device / (study->devices / processes) == process;
}

int
study_has_rank(const struct study *study, uint32_t rank)
{
    return rank / (study->ranks / processes) == process;
}

static double
longest_of(const telpher_rma_job *job)
{
    size_t count = telpher_rma_timings(job, NULL, 0);
    double *ms = STUDY_NEW(double, count), longest = 0;

    telpher_rma_timings(job, ms, count);
    for (size_t i = 0; i < count; i++) {
        longest = ms[i] > longest ? ms[i] : longest;
    }
    study_free(ms);
    return longest;
}

double
study_time(const struct study *study, const telpher_rma_kernel *kernel,
           const void *data, size_t len)
{
    void *copy = memcpy(study_alloc(1, len), data, len);
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    telpher_error err = {TELPHER_OK, {0}};
    double ms;

    params.ranks = study->ranks;
    params.devices = study->devices;
    params.block[0] = study->lanes;
    params.whole = 1;
    study_move_memory();
    if (telpher_rma_create(&params, &job, &err) != TELPHER_OK ||
        telpher_rma_run(job, kernel, copy, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    process = telpher_rma_job_process(job);
    processes = telpher_rma_job_processes(job);
    ms = longest_of(job);
    telpher_rma_destroy(job);
    study_free(copy);
    return ms;
}

int
study_compare(const char *what, const double *got, const double *right, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits are meant */
        if (memcmp(&got[i], &right[i], sizeof(*got)) != 0) {
            printf("%s: number %zu is %.17g, not %.17g\n", what, i, got[i], right[i]);
            return 1;
        }
    }
    printf("%s: %zu numbers, all equal to the serial ones bit for bit\n", what, count);
    return 0;
}
