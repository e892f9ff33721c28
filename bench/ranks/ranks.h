/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmarks between the ranks of a job: a *pattern* (latency, bandwidth, …) drives a
 * *way* (channel, message, put); both are tables. Options and output have the format of
 * the OSU micro-benchmarks, for which scripts exist.
 */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <telpher/context.h>
#include <telpher/mem.h>

struct bench_mpi;

/** What the user asked for. */
struct ranks_options {
    size_t min_bytes, max_bytes;
    int iterations, warmup; /* 0: by size */
    int window;
    bool validation, percentiles, json, many_buffers;
    uint32_t kinds[2]; /* enum telpher_mem_kind of sender and receiver */
    uint32_t device; /* the kind that D means */
    const char *mpi; /* whose, of runtime mpi; NULL: of the launcher we run under */
};

struct ranks_pair;

/** How this process became a rank, and what all ranks do together. Failures end the program. */
struct ranks_job {
    /** Joins: sets ctx, rank and size. */
    void (*join)(struct ranks_pair *p);
    void (*leave)(struct ranks_pair *p);
    void (*barrier)(struct ranks_pair *p);
    /** What carries data to the peer, for the table's head. */
    const char *(*transport)(struct ranks_pair *p);
};

/** Two ranks, one of which this is, and their buffers. */
struct ranks_pair {
    telpher_context *ctx; /* of one rank where Telpher does not carry the data */
    const struct ranks_job *job;
    uint32_t rank, size, peer;
    bool first; /* sends first */
    const struct ranks_options *o;
    uint8_t *out, *in; /* window buffers of max_bytes, or one */
    void *way; /* the way's own */
};

/** A way for data to go. All blocking calls end the program on failure. */
struct ranks_way {
    const char *name; /* of option -r */
    const char *title;
    const struct ranks_job *job;
    void (*open)(struct ranks_pair *p);
    void (*close)(struct ranks_pair *p);
    /** May be NULL: then one is begun and waited for. */
    void (*send)(struct ranks_pair *p, const void *src, size_t len);
    void (*recv)(struct ranks_pair *p, void *dst, size_t len);
    /** Begins one of @p count sends or receives, at most the window; then wait_all. */
    void (*begin_send)(struct ranks_pair *p, int i, const void *src, size_t len);
    void (*begin_recv)(struct ranks_pair *p, int i, void *dst, size_t len);
    void (*wait_all)(struct ranks_pair *p, int sends, int recvs);
};

static inline void
ranks_send(struct ranks_pair *p, const struct ranks_way *way, const void *src,
           size_t len)
{
    if (way->send != NULL) {
        way->send(p, src, len);
    } else {
        way->begin_send(p, 0, src, len);
        way->wait_all(p, 1, 0);
    }
}

static inline void
ranks_recv(struct ranks_pair *p, const struct ranks_way *way, void *dst, size_t len)
{
    if (way->recv != NULL) {
        way->recv(p, dst, len);
    } else {
        way->begin_recv(p, 0, dst, len);
        way->wait_all(p, 0, 1);
    }
}

extern const struct ranks_way *const ranks_ways[];
extern const struct ranks_way ranks_mpi_way; /* calls of an MPI */
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
extern const struct ranks_way ranks_store_way, ranks_socket_way; /* floors */
/** The device's content by host memory, around a channel or messages. */
extern const struct ranks_way ranks_channel_host_way, ranks_msg_host_way;
extern const struct ranks_job ranks_telpher_job;

/** Says what failed, with the rank, and ends the program. */
void ranks_check(const struct ranks_pair *p, telpher_status status, const char *what);

/** The way named so, or NULL. */
const struct ranks_way *ranks_find_way(const char *name);

/** What drives a way: one iteration, how often, and how it is shown. */
struct ranks_pattern {
    const char *name, *title, *column;
    const char *way; /* that it is for if none is named */
    /** Does one iteration. @return what it costs [us] */
    double (*run)(struct ranks_pair *p, const struct ranks_way *w, size_t len);
    bool per_iteration; /* samples are of iterations: a median, percentiles */
    bool rate; /* messages a second beside it */
};

/** Reads the command line. @return the exit code if the program ends here, else -1 */
int ranks_parse_options(int argc, char **argv, const struct ranks_pattern *pattern,
                        struct ranks_options *o, const struct ranks_way **way);

/** True if @p name is one of the patterns. */
bool ranks_is_pattern(const char *name);
/** The command: argv[0] is the pattern. @return the exit code */
int ranks_main(const char *program, int argc, char **argv);

#endif
