/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmarks between the ranks of a job: a *pattern* (latency, bandwidth, …) drives a
 * *runtime* (channel, message, put); both are tables. Options and output have the format of
 * the OSU micro-benchmarks, for which scripts exist.
 */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/context.h>
#include <telpher/mem.h>

#include "bench/mpi/calls.h"

struct bench_mpi;
struct ranks_list;
struct ranks_memory;
struct bench_stats;

enum { RANKS_TAILS = 8 };

enum ranks_graph { RANKS_TTY, RANKS_PNG, RANKS_PDF, RANKS_GRAPHS };
enum { RANKS_DIMS = 8 }; /* of a cartesian neighborhood at most */
enum ranks_format { RANKS_TEXT, RANKS_JSON, RANKS_CSV };

/** Command-line options. */
struct ranks_options {
    size_t min_bytes, max_bytes;
    int iterations; /* 0: by size */
    int warmup; /* -1: a tenth, and two more */
    size_t limit; /* [bytes] of a rank's buffers; 0: none */
    int window;
    bool validation, percentiles, many_buffers;
    enum ranks_format format;
    bool osu; /* called by the name of an OSU benchmark: its output */
    bool full; /* the least and the most over the ranks, too */
    int tests; /* calls of MPI_Test in the computation */
    int partitions, root;
    bool rotates; /* each iteration has another root */
    bool in_place; /* the receiving buffer holds what is sent */
    bool varies; /* over windows of 8 to 128 */
    int rate; /* messages a second are shown */
    int pairs; /* 0: all ranks */
    int tails[RANKS_TAILS], tail_count; /* percentiles of OSU's columns */
    unsigned types; /* 1 << enum bench_type, each measured */
    enum bench_type type;
    enum bench_sync sync;
    enum bench_window memory;
    unsigned syncs, memories; /* 1 << enum, of `check`; 0: not given */
    uint32_t kinds[2]; /* enum telpher_mem_kind of sender and receiver */
    char places[2]; /* H, D, B or P */
    const struct ranks_memory *memory_of_device; /* what D means */
    const char *placeholder; /* file with an FPGA's kernels; NULL: none is loaded */
    bool device_given;
    bool session; /* MPI starts by a session */
    const struct bench_layout *layout; /* NULL: all of a message is sent */
    struct bench_layout layout_of_message; /* what layout points to */
    int dims, radius; /* of a cartesian neighborhood; 0: a ring */
    const struct ranks_list *edges; /* of a graph of neighbors, or NULL */
    unsigned graphs; /* 1 << enum ranks_graph */
    char *events; /* counted by PAPI, with commas between them; NULL: none */
    const char *counts_path; /* where counts go; NULL: papi_output.out */
    const char *log_folder; /* for files of wrong bytes, or NULL */
    const char *mpi; /* whose, of runtime mpi; NULL: of the launcher we run under */
};

struct ranks_pair;

/** How this process became a rank, and what all ranks do together. Failures end the program. */
struct ranks_job {
    /** Joins: sets ctx, rank and size. */
    void (*join)(struct ranks_pair *p);
    void (*leave)(struct ranks_pair *p);
    void (*barrier)(struct ranks_pair *p);
    /** Name of the transport to the peer, for the table's head. */
    const char *(*transport)(struct ranks_pair *p);
    /** NULL: nothing but what runtimes do. */
    const struct bench_call *(*find_call)(const char *name);
    /** As bench_mpi.reduce; NULL: rank 0's values are all that is known. */
    bool (*reduce)(const double *mine, int count, double *least, double *sum,
                   double *most);
    void (*abort)(void); /* may be NULL */
    /** Messages of w->len are sent as w->layout says; NULL: all of them is sent. */
    bool (*lay_out)(const struct bench_work *w);
};

/** Two ranks, one of which this is, and their buffers. */
struct ranks_pair {
    telpher_context *ctx; /* of one rank where Telpher does not carry the data */
    const struct ranks_job *job;
    uint32_t rank, size, peer;
    bool first; /* sends first */
    bool idle; /* in none of the pairs */
    uint32_t pairs;
    const struct ranks_options *o;
    uint8_t *out, *in; /* window buffers of max_bytes, or one */
    void *runtime; /* the runtime's own */
    const struct bench_call *call; /* of a pattern that runtimes do not do */
    struct bench_work work;
    int slots; /* messages in flight at once */
    bool staged; /* the call works on host memory, copied from and to out and in */
    bool fills_gaps; /* copies around the runtime write what a layout does not send */
    double start_us; /* what joining cost */
    int iteration;
    unsigned numbers; /* different ones in content */
    bool flips; /* rank 0 sends wrong bytes */
    bool counts; /* wrong bytes are counted, no reason to end */
    unsigned wrong;
};

/** Content to send, and where it is received: where a program would have it. */
static inline uint8_t *
ranks_out(const struct ranks_pair *p)
{
    return p->staged ? p->out : p->work.out;
}

static inline uint8_t *
ranks_in(const struct ranks_pair *p)
{
    return p->staged ? p->in : p->work.in;
}

/** A runtime that carries data between two ranks. All blocking calls end the program on failure. */
struct ranks_runtime {
    const char *name; /* of option -r */
    const char *title;
    const struct ranks_job *job;
    void (*open)(struct ranks_pair *p);
    void (*close)(struct ranks_pair *p); /* may be NULL */
    /** May be NULL: then one is begun and waited for. */
    void (*send)(struct ranks_pair *p, const void *src, size_t len);
    void (*recv)(struct ranks_pair *p, void *dst, size_t len);
    /** Begins one of @p count sends or receives, at most the window; then wait_all. */
    void (*begin_send)(struct ranks_pair *p, int i, const void *src, size_t len);
    void (*begin_recv)(struct ranks_pair *p, int i, void *dst, size_t len);
    void (*wait_all)(struct ranks_pair *p, int sends, int recvs);
    bool staged; /* calls, too, are given host memory */
    bool one_place; /* single messages arrive where the receiver did not choose */
};

static inline void
ranks_send(struct ranks_pair *p, const struct ranks_runtime *runtime, const void *src,
           size_t len)
{
    if (runtime->send != NULL) {
        runtime->send(p, src, len);
    } else {
        runtime->begin_send(p, 0, src, len);
        runtime->wait_all(p, 1, 0);
    }
}

static inline void
ranks_recv(struct ranks_pair *p, const struct ranks_runtime *runtime, void *dst,
           size_t len)
{
    if (runtime->recv != NULL) {
        runtime->recv(p, dst, len);
    } else {
        runtime->begin_recv(p, 0, dst, len);
        runtime->wait_all(p, 0, 1);
    }
}

extern const struct ranks_runtime *const ranks_runtimes[];
extern const struct ranks_runtime ranks_mpi_runtime; /* calls of an MPI */
extern const struct ranks_runtime ranks_ampi_runtime; /* of adaptive MPI */
/** Is it one of an MPI's calls? */
bool ranks_calls_mpi(const struct ranks_runtime *runtime);
extern const struct ranks_runtime ranks_mpi_host_runtime; /* with staging around them */
/** "openmpi" or "mpich": @p name if that is one, or, for NULL, of the launcher that this
 *  runs under. Ends the program when that is neither. */
const char *ranks_mpi_flavour(const char *name);
/** A context of this process alone. */
telpher_status ranks_context_alone(const char *transports, telpher_context **ret_ctx,
                                   telpher_error *err);
/** True under the mpirun of either. */
bool ranks_mpi_is_launcher(void);
/** Loads that MPI's library and module; @p name as above. Ends the program on failure. */
const struct bench_mpi *ranks_mpi_load(const char *name);
extern const struct ranks_runtime ranks_store_runtime,
    ranks_socket_runtime; /* floors */
/** Calls of NCCL and NVSHMEM between GPUs. */
extern const struct ranks_runtime ranks_nccl_runtime, ranks_nvshmem_runtime;
/** Entry methods of objects, and a channel between two. */
extern const struct ranks_runtime ranks_entry_runtime, ranks_object_runtime;
/** The device's content by host memory, around a channel, messages or one of these two. */
extern const struct ranks_runtime ranks_channel_host_runtime, ranks_msg_host_runtime,
    ranks_entry_host_runtime, ranks_object_host_runtime;
extern const struct ranks_job ranks_telpher_job, ranks_mpi_job;

/** Says what failed, with the rank, and ends the program. */
void ranks_check(const struct ranks_pair *p, telpher_status status, const char *what);

/** The runtime named so, or NULL. */
const struct ranks_runtime *ranks_find_runtime(const char *name);

#include "bench/ranks/ranks_pattern.h"

/** @return NULL, or why the MPI that was joined cannot do that pattern with this memory */
const char *ranks_mpi_refuse(const struct ranks_pair *p,
                             const struct ranks_pattern *pattern);

/* ---- content: ranks_content.c ---- */

/** Blocks of that rank, 0 if it has none. */
int ranks_blocks_of(enum ranks_blocks blocks, const struct bench_work *w);
/** Is a message of so many bytes long enough for the layout? Gives the bytes of it that are sent. */
bool ranks_layout_fits(const struct ranks_options *o, size_t len, size_t *ret_sent);
/** Fills what this rank sends and clears what it receives. */
void ranks_fill(struct ranks_pair *p, const struct ranks_pattern *pattern);
/** Compares what was received. Ends the program if a byte is wrong. */
void ranks_check_content(struct ranks_pair *p, const struct ranks_pattern *pattern);

/* ---- output: ranks_show.c ---- */

/** Means of an overlap [us], of this rank. */
struct ranks_overlap {
    double compute, begin, test, wait, pure;
};

void ranks_show_head(const struct ranks_pattern *pattern,
                     const struct ranks_runtime *runtime, struct ranks_pair *p);
/** Collective, where the job can reduce. @p samples: sorted; @p overlap: of RANKS_OVERLAP */
void ranks_show_row(const struct ranks_pattern *pattern,
                    const struct ranks_runtime *runtime, struct ranks_pair *p,
                    const double *samples, const struct bench_stats *s,
                    const struct ranks_overlap *overlap);
/** Prints the lines after the last row. */
void ranks_show_tail(struct ranks_pair *p);
void ranks_show_start(const struct ranks_pattern *pattern, struct ranks_pair *p);

/* ---- option -P: ranks_counters.c ---- */

/** Loads PAPI where events are asked for; ends the program if these cannot be counted. */
void ranks_counters_open(struct ranks_pair *p);
/** Count from here, or up to here. */
void ranks_counters_start(struct ranks_pair *p);
void ranks_counters_stop(struct ranks_pair *p);
/** Writes what was counted since the last call, of all ranks. Collective. */
void ranks_counters_write(struct ranks_pair *p);
void ranks_counters_close(void);

/* ---- option -G: ranks_graph.c ---- */

/** Keeps what each iteration took, in their order. */
void ranks_graph_add(const struct ranks_pattern *pattern, const struct ranks_pair *p,
                     const double *samples, int count);
/** Draws all that was kept, where this is rank 0. @return false if it cannot be drawn */
bool ranks_graph_draw(const struct ranks_pair *p, const struct ranks_pattern *pattern);

/** Reads the command line. @return the exit code if the program ends here, else -1 */
int ranks_parse_options(int argc, char **argv, const struct ranks_pattern *pattern,
                        struct ranks_options *o, const struct ranks_runtime **runtime);

/** `telpher-bench check`: checks that each pattern of a runtime finds a wrong byte. */
int ranks_check_main(int argc, char **argv);
/** The command: argv[0] is the pattern. @return the exit code */
int ranks_main(const char *program, int argc, char **argv);

#endif
