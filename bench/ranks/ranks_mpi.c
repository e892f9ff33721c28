/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime mpi: the same patterns over the calls of an MPI, for comparison. The program runs
 * under that MPI's mpirun; its library is loaded first, then the module that was compiled for
 * it. Telpher only gives the memory here: its context is a job of one rank. Runtime ampi is the same
 * with adaptive MPI, whose ranks `telpher launch` starts.
 */
#include "bench/ranks/memory/ranks_memory.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/helper.h"
#include "bench/mpi/mpi_module.h"

#ifndef BENCH_LIBRARY_OPENMPI
#define BENCH_LIBRARY_OPENMPI NULL
#endif
#ifndef BENCH_LIBRARY_MPICH
#define BENCH_LIBRARY_MPICH NULL
#endif

/** An implementation, by the name that --mpi and the module have. */
struct flavour {
    const char *name;
    const char *variable; /* its launcher sets it for each rank */
    const char *libraries[3]; /* NULL where this program was built without its module */
};

static const struct flavour flavours[] = {
    {"openmpi", "OMPI_COMM_WORLD_SIZE", {"libmpi.so.40", BENCH_LIBRARY_OPENMPI, NULL}},
    {"mpich", "PMI_SIZE", {"libmpich.so.12", "libmpi.so.12", BENCH_LIBRARY_MPICH}},
    {"ampi",
     NULL,
     {NULL}}, /* started by `telpher launch`; its module is linked to it */
};

static const struct bench_mpi *mpi;

static void
fail(const char *what, const char *detail)
{
    fprintf(stderr, "telpher-bench: %s%s%s\n", what, detail[0] != '\0' ? ": " : "",
            detail);
    exit(EXIT_FAILURE);
}

static void
need(bool done, const char *what)
{
    if (!done) {
        fail("MPI refused", what);
    }
}

/* ---- which MPI ---- */

/* @return NULL: neither */
static const struct flavour *
find(const char *name)
{
    for (size_t i = 0; i < sizeof(flavours) / sizeof(flavours[0]); i++) {
        if (name != NULL ? strcmp(name, flavours[i].name) == 0
                         : flavours[i].variable != NULL &&
                               getenv(flavours[i].variable) != NULL) {
            return &flavours[i];
        }
    }
    return NULL;
}

bool
ranks_mpi_is_launcher(void)
{
    return find(NULL) != NULL;
}

static const struct flavour *
choose(const char *name)
{
    const struct flavour *f = find(name);

    if (f != NULL) {
        return f;
    }
    if (name != NULL) {
        fail("--mpi is openmpi, mpich, ampi, or the path of a module with a / in it, "
             "not",
             name);
    }
    fail("this runs under the mpirun of Open MPI or MPICH; where another "
         "launcher "
         "starts the ranks, --mpi says which it is",
         "");
    return NULL;
}

const char *
ranks_mpi_flavour(const char *name)
{
    return choose(name)->name;
}

/* Global, so that the module and the MPI's own plug-ins find its symbols. Stays loaded. */
static void
load_library(const struct flavour *f)
{
    for (int i = 0; i < 3; i++) {
        if (f->libraries[i] != NULL &&
            dlopen(f->libraries[i], RTLD_NOW | RTLD_GLOBAL) != NULL) {
            return;
        }
    }
    fail("the library of this MPI cannot be loaded", f->name);
}

/* The module may be linked to its MPI, whose plug-ins look for its symbols. */
static void
open_module(const char *path, int mode)
{
    void *module = dlopen(path, RTLD_NOW | mode);

    mpi = module != NULL ? dlsym(module, "bench_mpi") : NULL;
    if (mpi == NULL) {
        fail("the module for this MPI", dlerror());
    }
}

static void
load_module(const struct flavour *f)
{
    char relative[64], path[PATH_MAX + 64];

    snprintf(relative, sizeof(relative), "../libexec/telpher/telpher-bench-%s.so",
             f->name);
    bench_helper_path(relative, path, sizeof(path));
    if (access(path, R_OK) != 0) {
        fail("telpher-bench was built without this MPI, there is no", path);
    }
    if (f->libraries[0] == NULL) {
        open_module(path, RTLD_GLOBAL);
        return;
    }
    load_library(f);
    open_module(path, RTLD_LOCAL);
}

/* By the name of an MPI, or by a module that `telpher-bench build-mpi` made. */
static void
load(const char *name)
{
    if (name != NULL && strchr(name, '/') != NULL) {
        open_module(name, RTLD_GLOBAL);
    } else {
        load_module(choose(name));
    }
}

const struct bench_mpi *
ranks_mpi_load(const char *name)
{
    load(name);
    return mpi;
}

/* ---- the job ---- */

static telpher_status
alone(void *user, const void *mine, size_t len, void *all)
{
    memcpy(all, mine, len);
    return TELPHER_OK;
}

telpher_status
ranks_context_alone(const char *transports, telpher_context **ret_ctx,
                    telpher_error *err)
{
    telpher_context_params params = TELPHER_CONTEXT_PARAMS_INIT;
    telpher_bootstrap bootstrap = {
        .struct_size = sizeof(bootstrap), .size = 1, .allgather = alone};

    params.bootstrap = &bootstrap;
    params.transports = transports;
    return telpher_context_create(&params, ret_ctx, err);
}

/* The context of libtelpher-mpi-device, whose kinds of memory MPI calls then accept. */
static telpher_context *
device_context(void)
{
    telpher_context *ctx = mpi->device_context();
    telpher_context *(*get)(void);

    if (ctx != NULL) {
        return ctx;
    }
    *(void **)&get = dlsym(RTLD_DEFAULT, "telpher_mpi_device_context");
    return get != NULL ? get() : NULL;
}

const char *
ranks_mpi_refuse(const struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    bool on_device =
        p->o->kinds[0] != TELPHER_MEM_HOST || p->o->kinds[1] != TELPHER_MEM_HOST;

    return on_device && (pattern->flags & RANKS_WINDOW) != 0 && device_context() != NULL
               ? "is not measured on a device: windows of this MPI are of host memory"
               : NULL;
}

static void
refuse_memory(struct ranks_pair *p)
{
    const struct ranks_options *o = p->o;

    if (device_context() != NULL) {
        return;
    }
    for (int side = 0; side < 2; side++) {
        if (o->kinds[side] == TELPHER_MEM_HOST) {
            continue;
        }
        if (o->kinds[side] != TELPHER_MEM_CUDA) {
            fail("runtime mpi takes H, or D of -d cuda or managed; -r mpi_host copies, "
                 "and LD_PRELOAD=libtelpher-mpi-device-*.so adds OpenCL",
                 "");
        }
        if (!mpi->takes_cuda()) {
            fail("this MPI does not take CUDA device memory", mpi->version());
        }
    }
}

static void
join_named(struct ranks_pair *p, const char *name)
{
    telpher_error err = {0};
    int rank, size;

    if (p->o->max_bytes > INT_MAX) {
        fail("runtime mpi sends at most 2 GiB - 1 at once", "");
    }
    load(name);
    if (p->o->session && mpi->start_session == NULL) {
        fail("-I: this MPI has no sessions, which MPI 4 brought", mpi->version());
    }
    need(p->o->session ? mpi->start_session(&rank, &size) : mpi->start(&rank, &size),
         p->o->session ? "MPI_Session_init" : "MPI_Init");
    p->rank = (uint32_t)rank;
    p->size = (uint32_t)size;
    p->ctx = device_context();
    if (p->ctx == NULL) {
        ranks_map_alone(p);
    }
    if (p->ctx == NULL && ranks_context_alone(NULL, &p->ctx, &err) != TELPHER_OK) {
        fail("memory for the buffers", err.text);
    }
}

static void
join(struct ranks_pair *p)
{
    join_named(p, p->o->mpi);
}

static void
join_ampi(struct ranks_pair *p)
{
    join_named(p, "ampi");
}

/* Async-signal-safe. All results have been printed, and checked. */
static void
end_without_mpi(int number)
{
    static const char text[] =
        "telpher-bench: MPI_Finalize does not return; the results are complete\n";

    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(EXIT_SUCCESS);
}

/* MPICH 4.0 over UCX 1.13's TCP often does not return from MPI_Finalize with 9 ranks. */
static void
leave(struct ranks_pair *p)
{
    enum { FINALIZE_S = 20 };

    if (device_context() == NULL) {
        telpher_context_destroy(p->ctx);
    }
    fflush(stdout);
    signal(SIGALRM, end_without_mpi);
    alarm(FINALIZE_S);
    mpi->stop();
    alarm(0);
}

static void
barrier(struct ranks_pair *p)
{
    need(mpi->barrier(), "MPI_Barrier");
}

static const char *
transport(struct ranks_pair *p)
{
    return mpi->version();
}

static const struct bench_call *
find_call(const char *name)
{
    return mpi->find_call(name);
}

static bool
reduce(const double *mine, int count, double *least, double *sum, double *most)
{
    return mpi->reduce(mine, count, least, sum, most);
}

static void
abort_all(void)
{
    mpi->abort();
}

static bool
lay_out(const struct bench_work *w)
{
    return mpi->lay_out(w);
}

const struct ranks_job ranks_mpi_job = {join,      leave,  barrier,   transport,
                                        find_call, reduce, abort_all, lay_out};
static const struct ranks_job ampi_job = {join_ampi, leave,  barrier,   transport,
                                          find_call, reduce, abort_all, lay_out};

bool
ranks_calls_mpi(const struct ranks_runtime *runtime)
{
    return runtime->job == &ranks_mpi_job || runtime->job == &ampi_job;
}

/* ---- the runtime ---- */

static void
runtime_send(struct ranks_pair *p, const void *src, size_t len)
{
    need(mpi->send(src, len, (int)p->peer), "MPI_Send");
}

static void
runtime_recv(struct ranks_pair *p, void *dst, size_t len)
{
    need(mpi->recv(dst, len, (int)p->peer), "MPI_Recv");
}

static void
runtime_begin_send(struct ranks_pair *p, int i, const void *src, size_t len)
{
    need(mpi->begin_send(i, src, len, (int)p->peer), "MPI_Isend");
}

static void
runtime_begin_recv(struct ranks_pair *p, int i, void *dst, size_t len)
{
    need(mpi->begin_recv(i, dst, len, (int)p->peer), "MPI_Irecv");
}

static void
runtime_wait_all(struct ranks_pair *p, int sends, int recvs)
{
    need(mpi->wait_all(sends, recvs), "MPI_Waitall");
}

/* Both runtimes differ in the job that loads the MPI. */
#define RUNTIME(short_name, long_name, its_job)                                        \
    {                                                                                  \
        .name = short_name, .title = long_name, .job = &(its_job),                     \
        .open = refuse_memory, .send = runtime_send, .recv = runtime_recv,             \
        .begin_send = runtime_begin_send, .begin_recv = runtime_begin_recv,            \
        .wait_all = runtime_wait_all                                                   \
    }
const struct ranks_runtime ranks_mpi_runtime = RUNTIME("mpi", "MPI", ranks_mpi_job);
const struct ranks_runtime ranks_ampi_runtime =
    RUNTIME("ampi", "Adaptive MPI", ampi_job);
