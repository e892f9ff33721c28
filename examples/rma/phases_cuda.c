/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches and copies of the host, on GPUs. Devices lie where the ranks' own do
 * (TELPHER_RMA_GPUS), each GPU has a stream. Three ways: by streams; all of it recorded as a
 * CUDA graph and launched at once; and with NCCL between GPUs, where it is there when the
 * program runs. A GPU waits only for those that it exchanges with.
 */
#ifdef __CUDACC__

#include "phases.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<nccl.h>)
#include <nccl.h>
#define HAVE_NCCL 1
#else
#define HAVE_NCCL 0
#endif

enum { GPUS_MAX = 16 };
enum way { STREAMS, GRAPH, NCCL };

struct gpu {
    int id;
    uint32_t first, count; /* ranks */
    cudaStream_t stream;
    cudaEvent_t before, after; /* an exchange */
};

struct study_host {
    struct study_shape shape;
    void *data;
    enum way way;
    int home; /* the caller's GPU */
    struct gpu gpus[GPUS_MAX];
    uint32_t gpu_count;
    uint32_t *gpu_of; /* of each device */
    cudaEvent_t begin, end; /* on the first GPU */
    int begun;
    int exchanges; /* copies enqueued since the last launch */
    uint8_t goes[GPUS_MAX][GPUS_MAX]; /* one from here to there */
    int records;
    cudaGraphExec_t graph;
};

static void
check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

/* ---- NCCL ---- */

#if HAVE_NCCL

static struct {
    ncclResult_t (*init_all)(ncclComm_t *, int, const int *);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t,
                         cudaStream_t);
    ncclResult_t (*recv)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclComm_t comms[GPUS_MAX]; /* made once, for all samples */
    uint32_t made;
} nccl;

static int
nccl_load(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW);

    if (library == NULL) {
        return 0;
    }
    *(void **)&nccl.init_all = dlsym(library, "ncclCommInitAll");
    *(void **)&nccl.group_start = dlsym(library, "ncclGroupStart");
    *(void **)&nccl.group_end = dlsym(library, "ncclGroupEnd");
    *(void **)&nccl.send = dlsym(library, "ncclSend");
    *(void **)&nccl.recv = dlsym(library, "ncclRecv");
    return nccl.init_all != NULL && nccl.group_start != NULL &&
           nccl.group_end != NULL && nccl.send != NULL && nccl.recv != NULL;
}

static void
nccl_check(ncclResult_t result, const char *what)
{
    if (result != ncclSuccess) {
        fprintf(stderr, "%s: NCCL's error %d\n", what, (int)result);
        exit(1);
    }
}

static void
nccl_open(const study_host *host)
{
    int ids[GPUS_MAX];

    for (uint32_t i = 0; i < host->gpu_count; i++) {
        ids[i] = host->gpus[i].id;
    }
    if (nccl.made != host->gpu_count) {
        nccl_check(nccl.init_all(nccl.comms, (int)host->gpu_count, ids), "NCCL");
        nccl.made = host->gpu_count;
    }
}

static void
nccl_begin(void)
{
    nccl_check(nccl.group_start(), "a group of NCCL");
}

static void
nccl_end(void)
{
    nccl_check(nccl.group_end(), "a group of NCCL");
}

static void
nccl_copy(study_host *host, uint32_t to, void *dst, uint32_t from, const void *src,
          size_t len)
{
    nccl_check(nccl.send(src, len, ncclInt8, (int)to, nccl.comms[from],
                         host->gpus[from].stream),
               "NCCL's send");
    nccl_check(
        nccl.recv(dst, len, ncclInt8, (int)from, nccl.comms[to], host->gpus[to].stream),
        "NCCL's receive");
}

#else

static int
nccl_load(void)
{
    return 0;
}

static void
nccl_open(const study_host *host)
{
    (void)host;
}

static void
nccl_begin(void)
{
}

static void
nccl_end(void)
{
}

static void
nccl_copy(study_host *host, uint32_t to, void *dst, uint32_t from, const void *src,
          size_t len)
{
    (void)host;
    (void)to;
    (void)dst;
    (void)from;
    (void)src;
    (void)len;
}

#endif

/* ---- ways ---- */

/* NCCL has nothing to do on one GPU. */
static int
has_nccl(void)
{
    static int has = -1;

    if (has < 0) {
        has = telpher_rma_cuda_gpu(0, 2) != telpher_rma_cuda_gpu(1, 2) && nccl_load();
    }
    return has;
}

static int
is_there(enum way way)
{
    return way != NCCL || has_nccl();
}

/* The ways there are, without gaps. */
static int
find_way(unsigned number)
{
    for (int way = STREAMS; way <= NCCL; way++) {
        if (is_there((enum way)way) && number-- == 0) {
            return way;
        }
    }
    return -1;
}

const char *
study_way(unsigned way)
{
    static const char *const names[] = {"streams", "graph", "nccl"};
    int found = find_way(way);

    return found < 0 ? NULL : names[found];
}

/* ---- a host ---- */

static void
open_gpu(struct gpu *gpu, int id, uint32_t first)
{
    gpu->id = id;
    gpu->first = first;
    check(cudaSetDevice(id), "a GPU");
    check(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking), "a stream");
    check(cudaEventCreateWithFlags(&gpu->before, cudaEventDisableTiming), "an event");
    check(cudaEventCreateWithFlags(&gpu->after, cudaEventDisableTiming), "an event");
}

/* The first devices' ranks on the first GPU, and so on, as the ranks' own. */
static void
place_devices(study_host *host)
{
    uint32_t each = host->shape.ranks / host->shape.devices;

    for (uint32_t d = 0; d < host->shape.devices; d++) {
        int id;

        check(cudaSetDevice(host->home), "a GPU");
        id = telpher_rma_cuda_gpu(d, host->shape.devices);
        if (host->gpu_count == 0 || host->gpus[host->gpu_count - 1].id != id) {
            if (id < 0 || host->gpu_count == GPUS_MAX) {
                fprintf(stderr, "no GPU for device %u\n", d);
                exit(1);
            }
            open_gpu(&host->gpus[host->gpu_count++], id, d * each);
        }
        host->gpu_of[d] = host->gpu_count - 1;
        host->gpus[host->gpu_count - 1].count += each;
    }
}

/* Copies between GPUs go straight. */
static void
reach(const study_host *host)
{
    for (uint32_t a = 0; a < host->gpu_count; a++) {
        check(cudaSetDevice(host->gpus[a].id), "a GPU");
        for (uint32_t b = 0; b < host->gpu_count; b++) {
            if (a != b &&
                cudaDeviceEnablePeerAccess(host->gpus[b].id, 0) != cudaSuccess) {
                cudaGetLastError(); /* already, or through the host */
            }
        }
    }
    check(cudaSetDevice(host->home), "a GPU");
}

study_host *
study_host_create(const struct study *study, void *data, unsigned way)
{
    study_host *host = (study_host *)calloc(1, sizeof(*host));

    if (host == NULL ||
        (host->gpu_of = (uint32_t *)calloc(study->devices, sizeof(uint32_t))) == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    host->shape.ranks = study->ranks;
    host->shape.devices = study->devices;
    host->shape.lanes = study->lanes != 0 ? study->lanes : 1;
    host->data = data;
    check(cudaGetDevice(&host->home), "a GPU");
    place_devices(host);
    check(cudaSetDevice(host->gpus[0].id), "a GPU");
    check(cudaEventCreate(&host->begin), "an event");
    check(cudaEventCreate(&host->end), "an event");
    reach(host);
    host->way = (enum way)find_way(way);
    if (host->way == NCCL) {
        nccl_open(host);
    }
    return host;
}

void
study_host_destroy(study_host *host)
{
    if (host->graph != NULL) {
        cudaGraphExecDestroy(host->graph);
    }
    cudaEventDestroy(host->begin);
    cudaEventDestroy(host->end);
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        cudaEventDestroy(host->gpus[i].before);
        cudaEventDestroy(host->gpus[i].after);
        cudaStreamDestroy(host->gpus[i].stream);
    }
    free(host->gpu_of);
    free(host);
}

/* ---- time ---- */

/* In a graph it is taken each time that the graph runs. */
static void
note_time(const study_host *host, cudaEvent_t event)
{
    check(cudaEventRecordWithFlags(event, host->gpus[0].stream,
                                   host->records ? cudaEventRecordExternal
                                                 : cudaEventRecordDefault),
          "an event");
}

/* In front of the first launch or copy. */
static void
note_begin(study_host *host)
{
    if (!host->begun) {
        host->begun = 1;
        note_time(host, host->begin);
    }
}

double
study_took(const study_host *host)
{
    float ms = 0;

    check(cudaEventElapsedTime(&ms, host->begin, host->end), "a time");
    return (double)ms;
}

/* ---- exchanges ---- */

/* All that is before, on all GPUs, has a name that copies can wait for. */
static void
begin_exchange(study_host *host)
{
    host->exchanges = 1;
    note_begin(host);
    if (host->gpu_count == 1) {
        return;
    }
    if (host->way == NCCL) {
        nccl_begin();
        return;
    }
    memset(host->goes, 0, sizeof(host->goes));
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        check(cudaEventRecord(host->gpus[i].before, host->gpus[i].stream), "an event");
    }
}

/* Receivers of an exchange continue after it. */
static void
end_exchange(study_host *host)
{
    if (!host->exchanges) {
        return;
    }
    host->exchanges = 0;
    if (host->way == NCCL && host->gpu_count > 1) {
        nccl_end();
        return;
    }
    for (uint32_t a = 0; a < host->gpu_count; a++) {
        int sent = 0;

        for (uint32_t b = 0; b < host->gpu_count; b++) {
            if (!host->goes[a][b]) {
                continue;
            }
            if (!sent++) {
                check(cudaEventRecord(host->gpus[a].after, host->gpus[a].stream),
                      "an event");
            }
            check(cudaStreamWaitEvent(host->gpus[b].stream, host->gpus[a].after, 0),
                  "an order");
        }
    }
    memset(host->goes, 0, sizeof(host->goes));
}

void
study_then(study_host *host)
{
    end_exchange(host);
}

static void
copy_rows(cudaStream_t stream, void *dst, const void *src, size_t len, size_t stride,
          size_t count)
{
    check(count == 1 ? cudaMemcpyAsync(dst, src, len, cudaMemcpyDefault, stream)
                     : cudaMemcpy2DAsync(dst, stride, src, stride, len, count,
                                         cudaMemcpyDefault, stream),
          "a copy");
}

void
study_copy(study_host *host, uint32_t to, void *dst, uint32_t from, const void *src,
           size_t len, size_t stride, size_t count)
{
    uint32_t a = host->gpu_of[from], b = host->gpu_of[to];

    if (!host->exchanges) {
        begin_exchange(host);
    }
    if (a != b && host->way == NCCL) {
        for (size_t i = 0; i < count; i++) {
            nccl_copy(host, b, (char *)dst + i * stride, a,
                      (const char *)src + i * stride, len);
        }
        return;
    }
    if (a != b && !host->goes[a][b]) {
        host->goes[a][b] = 1; /* the other no longer uses what is there */
        check(cudaStreamWaitEvent(host->gpus[a].stream, host->gpus[b].before, 0),
              "an order");
    }
    copy_rows(host->gpus[a].stream, dst, src, len, stride, count);
}

/* ---- launches ---- */

static void
launch_on(study_host *host, const struct gpu *gpu, uint32_t first, uint32_t count,
          study_phase phase, uint32_t step)
{
    check(cudaSetDevice(gpu->id), "a GPU");
    phase<<<count, host->shape.lanes, 0, gpu->stream>>>(host->shape, host->data, step,
                                                        first);
    check(cudaGetLastError(), "a launch");
}

void
study_launch(study_host *host, study_phase phase, uint32_t step)
{
    end_exchange(host);
    note_begin(host);
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        launch_on(host, &host->gpus[i], host->gpus[i].first, host->gpus[i].count, phase,
                  step);
    }
    check(cudaSetDevice(host->home), "a GPU");
}

void
study_launch_one(study_host *host, uint32_t device, study_phase phase, uint32_t step)
{
    uint32_t each = host->shape.ranks / host->shape.devices;

    end_exchange(host);
    note_begin(host);
    launch_on(host, &host->gpus[host->gpu_of[device]], device * each, 1, phase, step);
    check(cudaSetDevice(host->home), "a GPU");
}

/* ---- recordings ---- */

/* The other streams follow the first one, and at the end it follows them. */
static void
follow_first(study_host *host)
{
    check(cudaEventRecord(host->gpus[0].before, host->gpus[0].stream), "an event");
    for (uint32_t i = 1; i < host->gpu_count; i++) {
        check(cudaStreamWaitEvent(host->gpus[i].stream, host->gpus[0].before, 0),
              "an order");
    }
}

static void
first_follows(study_host *host)
{
    for (uint32_t i = 1; i < host->gpu_count; i++) {
        check(cudaEventRecord(host->gpus[i].after, host->gpus[i].stream), "an event");
        check(cudaStreamWaitEvent(host->gpus[0].stream, host->gpus[i].after, 0),
              "an order");
    }
}

int
study_record(study_host *host)
{
    if (host->way != GRAPH) {
        return 0;
    }
    check(cudaStreamBeginCapture(host->gpus[0].stream, cudaStreamCaptureModeRelaxed),
          "a recording");
    host->records = 1;
    note_begin(host);
    follow_first(host);
    return 1;
}

int
study_records(const study_host *host)
{
    return host->records;
}

static void
end_recording(study_host *host)
{
    cudaGraph_t graph;

    first_follows(host);
    note_time(host, host->end);
    check(cudaStreamEndCapture(host->gpus[0].stream, &graph), "a recording");
    check(cudaGraphInstantiateWithFlags(&host->graph, graph, 0), "a graph");
    check(cudaGraphDestroy(graph), "a graph");
    check(cudaGraphUpload(host->graph, host->gpus[0].stream), "a graph");
    check(cudaStreamSynchronize(host->gpus[0].stream), "a graph");
    host->records = 0;
}

void
study_replay(study_host *host)
{
    check(cudaGraphLaunch(host->graph, host->gpus[0].stream), "a graph");
    check(cudaStreamSynchronize(host->gpus[0].stream), "a graph");
}

void
study_look(study_host *host)
{
    end_exchange(host);
    for (uint32_t i = 0; i < host->gpu_count; i++) {
        check(cudaStreamSynchronize(host->gpus[i].stream), "a phase");
    }
}

void
study_settle(study_host *host)
{
    end_exchange(host);
    if (host->records) {
        end_recording(host);
        return;
    }
    first_follows(host);
    note_time(host, host->end);
    study_look(host);
}

#endif
