// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime on processors, as far as rma needs it; see cuda_runtime.h.
#include "cuda_runtime.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <string>
#include <vector>

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;
thread_local unsigned fakecuda_gpu;

namespace
{

enum {
    LANE_STACK = 256 << 10,
    PROCESSORS = 132,
    LANES_A_PROCESSOR = 2048,
    BLOCKS = 32
};

// An allocation. Those of GPUs are memory files.
struct piece {
    char *base;
    size_t len;
    int file;
    bool device, opened;
};

std::mutex lock;
std::vector<piece> pieces;
std::atomic<size_t> streams, running; // running: blocks
thread_local int current;
std::atomic<unsigned> used; // by GPU, a bit

// ---- what fails on purpose ----

struct {
    std::mutex lock;
    std::string name;
    unsigned left; // calls up to the one that fails
    bool failed, sticky;
} plan;
thread_local cudaError_t last;

// FAKE_CUDA_KILL=NAME:N ends the process of rank 1 at that call, FAKE_CUDA_STOP=1 stops it.
void
end_here(const char *name)
{
    static std::atomic<int> left(-1);
    const char *where = getenv("FAKE_CUDA_KILL"), *rank = getenv("TELPHER_RANK");
    const char *stop = getenv("FAKE_CUDA_STOP");
    const size_t len = strlen(name);

    if (where == nullptr || rank == nullptr || strcmp(rank, "1") != 0 ||
        strncmp(where, name, len) != 0 || where[len] != ':') {
        return;
    }
    if (left == -1) {
        left = atoi(where + len + 1);
    }
    if (--left == 0) {
        kill(getpid(), stop != nullptr ? SIGSTOP : SIGKILL);
    }
}

// Others begin to use the current GPU.
bool
asks(const char *name)
{
    static const char *const names[] = {
        "cudaGetDevice",          "cudaSetDevice",
        "cudaGetDeviceCount",     "cudaGetDeviceProperties",
        "cudaDeviceGetAttribute", "cudaDeviceGetP2PAttribute",
        "cudaGetLastError",       "cudaDeviceCanAccessPeer"};

    return fakecuda_is_one_of(name, names);
}

// The status of a call of that name: an error stays until it is queried, a sticky one always.
cudaError_t
outcome(const char *name)
{
    end_here(name);
    if (!asks(name)) {
        used |= 1u << current;
    }
    std::lock_guard<std::mutex> hold(plan.lock);

    if (!plan.failed && plan.name == name && --plan.left == 0) {
        plan.failed = true;
        return last = cudaErrorLaunchFailure;
    }
    return plan.failed && plan.sticky ? last = cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t
note(cudaError_t error)
{
    return error == cudaSuccess ? error : last = error;
}

#define MAY_FAIL(name)                                                                 \
    do {                                                                               \
        cudaError_t planned = outcome(name);                                           \
        if (planned != cudaSuccess) {                                                  \
            return planned;                                                            \
        }                                                                              \
    } while (0)

// Freed memory is gone, whatever status the call returns.
cudaError_t
dropped(const char *name, cudaError_t error)
{
    cudaError_t planned = outcome(name);

    return planned != cudaSuccess ? planned : note(error);
}

// Freeing and closing waits for all kernels.
void
wait_for_kernels()
{
    while (running != 0) {
        usleep(50);
    }
}

cudaError_t
add(void **memory, size_t len, int file, bool device, bool opened)
{
    void *got = mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (got == MAP_FAILED) {
        return cudaErrorMemoryAllocation;
    }
    std::lock_guard<std::mutex> hold(lock);
    pieces.push_back({static_cast<char *>(got), len, file, device, opened});
    *memory = got;
    return cudaSuccess;
}

// With the lock. The piece that an address is in, or nullptr.
piece *
find(const void *at)
{
    for (piece &p : pieces) {
        if (static_cast<size_t>(static_cast<const char *>(at) - p.base) < p.len) {
            return &p;
        }
    }
    return nullptr;
}

cudaError_t
make(void **memory, size_t len, bool device)
{
    int file = memfd_create("fakecuda", MFD_CLOEXEC);
    size_t whole = (len + 4095) / 4096 * 4096;
    cudaError_t error = cudaErrorMemoryAllocation;

    if (file >= 0 && ftruncate(file, static_cast<off_t>(whole)) == 0) {
        error = add(memory, whole, file, device, false);
    }
    if (error == cudaSuccess) {
        memset(*memory, 0xee, whole);
    } else if (file >= 0) {
        close(file);
    }
    return error;
}

// A process is on its way out: what it has open it closes without a word of ours.
bool
is_ending(int pid)
{
    const unsigned EXITING = 4; // PF_EXITING
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    unsigned flags = EXITING; // gone

    sscanf(text.c_str() + (text.rfind(')') == std::string::npos ? 0 : text.rfind(')')),
           ") %*c %*d %*d %*d %*d %*d %u", &flags);
    return (flags & EXITING) != 0;
}

bool
is_open_elsewhere(int file)
{
    std::ifstream locks("/proc/locks");
    struct stat own;
    bool open = false;

    fstat(file, &own);
    for (std::string line; std::getline(locks, line);) {
        unsigned long inode;
        int pid;

        if (sscanf(line.c_str(), "%*s FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) == 2 &&
            inode == own.st_ino) {
            open = open || !is_ending(pid);
        }
    }
    return open;
}

// A real driver gives the memory to the next who asks, while others still write into it.
void
must_be_closed(const piece &p)
{
    while (p.device && !p.opened && flock(p.file, LOCK_EX | LOCK_NB) != 0) {
        if (!is_open_elsewhere(p.file)) {
            usleep(100);
            continue;
        }
        fprintf(stderr, "fakecuda: memory is freed that another process has open\n");
        abort();
    }
}

cudaError_t
drop(void *memory)
{
    wait_for_kernels();
    std::lock_guard<std::mutex> hold(lock);

    for (size_t i = 0; i < pieces.size(); i++) {
        if (pieces[i].base == memory) {
            must_be_closed(pieces[i]);
            munmap(memory, pieces[i].len);
            close(pieces[i].file);
            pieces.erase(pieces.begin() + static_cast<long>(i));
            return cudaSuccess;
        }
    }
    return memory == nullptr ? cudaSuccess : cudaErrorInvalidValue;
}

int
gpu_count()
{
    const char *text = getenv("FAKE_CUDA_GPUS");

    return text != nullptr ? atoi(text) : 2;
}

// ---- blocks ----

typedef void (*entry_fn)(void *launch);

struct block {
    entry_fn entry;
    void *arg;
    dim3 index, dim, grid;
    unsigned gpu;
    std::atomic<int> *live;
};

struct lanes {
    ucontext_t back;
    std::vector<ucontext_t> contexts;
    std::vector<char> ended;
    unsigned running;
    const block *of;
};

thread_local lanes *own;

void
run_lane(const block *b)
{
    try {
        b->entry(b->arg);
    } catch (const fakecuda_exit &) {
    }
}

void
lane_main()
{
    run_lane(own->of);
    own->ended[own->running] = 1;
}

// Each lane runs up to its next barrier, one after the other, from any one on, in either
// direction: what one lane writes others must not read before the next barrier.
void
run_lanes(const block *b, unsigned count)
{
    lanes all;
    std::vector<char> stacks(static_cast<size_t>(count) * LANE_STACK);
    std::minstd_rand random(b->index.x + 1);
    bool left = true;

    all.contexts.resize(count);
    all.ended.resize(count);
    all.of = b;
    own = &all;
    for (unsigned i = 0; i < count; i++) {
        getcontext(&all.contexts[i]);
        all.contexts[i].uc_stack.ss_sp = &stacks[static_cast<size_t>(i) * LANE_STACK];
        all.contexts[i].uc_stack.ss_size = LANE_STACK;
        all.contexts[i].uc_link = &all.back;
        makecontext(&all.contexts[i], lane_main, 0);
    }
    while (left) {
        const unsigned first = static_cast<unsigned>(random()) % count;
        const unsigned step = random() % 2 == 0 ? 1 : count - 1;

        left = false;
        for (unsigned n = 0, i = first; n < count; n++, i = (i + step) % count) {
            if (!all.ended[i]) {
                left = true;
                all.running = i;
                threadIdx = dim3(i % b->dim.x, i / b->dim.x % b->dim.y,
                                 i / (b->dim.x * b->dim.y));
                swapcontext(&all.back, &all.contexts[i]);
            }
        }
    }
    own = nullptr;
}

void *
block_main(void *arg)
{
    block *b = static_cast<block *>(arg);
    unsigned count = b->dim.x * b->dim.y * b->dim.z;

    fakecuda_gpu = b->gpu;
    blockIdx = b->index;
    blockDim = b->dim;
    gridDim = b->grid;
    threadIdx = dim3(0, 0, 0);
    if (count == 1) {
        run_lane(b);
    } else {
        run_lanes(b, count);
    }
    b->live->fetch_sub(1);
    running--;
    delete b;
    return nullptr;
}

} // namespace

struct fakecuda_stream {
    std::atomic<int> live;
};

// Processors are fewer than blocks. Where others compute, too, a yield is as long as all their
// turns together: then seldom, since a turn of ours ends by itself.
static void
let_blocks_run()
{
    static thread_local unsigned calls, every = 16;

    if (++calls % every == 0) {
        const auto start = std::chrono::steady_clock::now();

        sched_yield();
        every = std::chrono::steady_clock::now() - start > std::chrono::milliseconds(1)
                    ? 1024
                    : 16;
    }
}

void
__syncthreads(void)
{
    lanes *all = own;

    if (all != nullptr) {
        swapcontext(&all->contexts[all->running], &all->back);
    } else {
        let_blocks_run();
    }
}

int
__isGlobal(const void *at)
{
    std::lock_guard<std::mutex> hold(lock);

    return find(at) != nullptr;
}

// ---- devices ----

void
fakecuda_fail(const char *name, unsigned nth, bool sticky)
{
    std::lock_guard<std::mutex> hold(plan.lock);

    plan.name = name != nullptr ? name : "";
    plan.left = nth;
    plan.failed = false;
    plan.sticky = sticky;
}

bool
fakecuda_failed(void)
{
    std::lock_guard<std::mutex> hold(plan.lock);

    return plan.failed;
}

unsigned
fakecuda_used(void)
{
    return used.exchange(0);
}

size_t
fakecuda_left(void)
{
    std::lock_guard<std::mutex> hold(lock);

    return pieces.size() + streams;
}

cudaError_t
cudaGetLastError(void)
{
    cudaError_t error = last;

    last = outcome(__func__);
    return error;
}

const char *
cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorNotReady:
        return "device not ready";
    default:
        return "fake error";
    }
}

cudaError_t
cudaGetDevice(int *device)
{
    MAY_FAIL(__func__);
    *device = current;
    return cudaSuccess;
}

cudaError_t
cudaSetDevice(int device)
{
    MAY_FAIL(__func__);
    if (device < 0 || device >= gpu_count()) {
        return note(cudaErrorInvalidValue);
    }
    current = device;
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    MAY_FAIL(__func__);
    *count = gpu_count();
    return cudaSuccess;
}

cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    MAY_FAIL(__func__);
    memset(p, 7, sizeof(*p));
    p->uuid[0] = static_cast<unsigned char>(device);
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int)
{
    MAY_FAIL(__func__);
    *value = what == cudaDevAttrMultiProcessorCount ? PROCESSORS : 1;
    return cudaSuccess;
}

cudaError_t
cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr, int, int)
{
    MAY_FAIL(__func__);
    *value = 1;
    return cudaSuccess;
}

cudaError_t
cudaDeviceCanAccessPeer(int *can, int a, int b)
{
    MAY_FAIL(__func__);
    *can = a != b;
    return cudaSuccess;
}

cudaError_t
cudaDeviceEnablePeerAccess(int, unsigned)
{
    MAY_FAIL(__func__);
    return cudaSuccess;
}

cudaError_t
cudaDeviceSynchronize(void)
{
    MAY_FAIL(__func__);
    return cudaSuccess;
}

cudaError_t
cudaFuncGetAttributes(cudaFuncAttributes *a, const void *)
{
    MAY_FAIL(__func__);
    *a = {32, 1024, 4096};
    return cudaSuccess;
}

cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int n, size_t)
{
    MAY_FAIL(__func__);
    *blocks = n < LANES_A_PROCESSOR / BLOCKS ? BLOCKS : LANES_A_PROCESSOR / n;
    return cudaSuccess;
}

// ---- memory ----

cudaError_t
fakecuda_alloc(void **memory, size_t len)
{
    MAY_FAIL("cudaMalloc");
    return note(make(memory, len, true));
}

cudaError_t
cudaFree(void *memory)
{
    return dropped(__func__, drop(memory));
}

cudaError_t
cudaHostAlloc(void **memory, size_t len, unsigned)
{
    MAY_FAIL(__func__);
    return note(make(memory, len, false));
}

cudaError_t
cudaFreeHost(void *memory)
{
    return dropped(__func__, drop(memory));
}

cudaError_t
cudaHostGetDevicePointer(void **device, void *host, unsigned)
{
    MAY_FAIL(__func__);
    *device = host;
    return cudaSuccess;
}

cudaError_t
cudaMemset(void *memory, int value, size_t len)
{
    MAY_FAIL(__func__);
    memset(memory, value, len);
    return cudaSuccess;
}

cudaError_t
cudaMemcpy(void *dst, const void *src, size_t len, cudaMemcpyKind)
{
    MAY_FAIL(__func__);
    if (src == nullptr || dst == nullptr) {
        return len == 0 ? cudaSuccess : note(cudaErrorInvalidValue);
    }
    memcpy(dst, src, len);
    return cudaSuccess;
}

cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t len, cudaMemcpyKind kind,
                cudaStream_t)
{
    return cudaMemcpy(dst, src, len, kind);
}

cudaError_t
cudaPointerGetAttributes(cudaPointerAttributes *a, const void *at)
{
    MAY_FAIL(__func__);
    std::lock_guard<std::mutex> hold(lock);
    const piece *p = find(at);

    a->type =
        p != nullptr && p->device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    a->device = 0;
    return cudaSuccess;
}

static int
address_range(unsigned long long *base, size_t *len, unsigned long long at)
{
    std::lock_guard<std::mutex> hold(lock);
    const piece *p = find(reinterpret_cast<const void *>(at));

    if (p == nullptr) {
        return 1;
    }
    *base = reinterpret_cast<uintptr_t>(p->base);
    *len = p->len;
    return 0;
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned,
                                 unsigned long long,
                                 cudaDriverEntryPointQueryResult *found)
{
    MAY_FAIL(__func__);
    if (strcmp(name, "cuMemGetAddressRange") != 0) {
        return note(cudaErrorInvalidValue);
    }
    *function = reinterpret_cast<void *>(address_range);
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

// ---- other processes' memory ----

struct handle {
    int pid, file;
    size_t len;
};

cudaError_t
cudaIpcGetMemHandle(cudaIpcMemHandle_t *ret, void *memory)
{
    MAY_FAIL(__func__);
    std::lock_guard<std::mutex> hold(lock);
    const piece *p = find(memory);
    handle h;

    if (p == nullptr || p->base != memory || !p->device) {
        return note(cudaErrorInvalidValue);
    }
    h = {getpid(), p->file, p->len};
    memcpy(ret, &h, sizeof(h));
    return cudaSuccess;
}

cudaError_t
cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t given, unsigned)
{
    MAY_FAIL(__func__);
    char path[64];
    handle h;
    int file;

    memcpy(&h, &given, sizeof(h));
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", h.pid, h.file);
    file = h.pid != getpid() ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0 && flock(file, LOCK_SH | LOCK_NB) != 0) { // it is being freed
        close(file);
        file = -1;
    }
    return note(file < 0 ? cudaErrorInvalidValue
                         : add(memory, h.len, file, true, true));
}

cudaError_t
cudaIpcCloseMemHandle(void *memory)
{
    return dropped(__func__, drop(memory));
}

// ---- launches ----

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    MAY_FAIL(__func__);
    *stream = new fakecuda_stream;
    (*stream)->live = 0;
    streams++;
    return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    streams--;
    return note(outcome(__func__));
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
    MAY_FAIL(__func__);
    return note(stream->live == 0 ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
    MAY_FAIL(__func__);
    while (stream->live != 0) {
        usleep(50);
    }
    return cudaSuccess;
}

cudaError_t
cudaLaunchCooperativeKernel(const void *entry, dim3 grid, dim3 dim, void **args, size_t,
                            cudaStream_t stream)
{
    MAY_FAIL(__func__);
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (unsigned i = 0; i < grid.x; i++) {
        block *b = new block{reinterpret_cast<entry_fn>(const_cast<void *>(entry)),
                             *static_cast<void **>(args[0]),
                             dim3(i),
                             dim,
                             grid,
                             static_cast<unsigned>(current),
                             &stream->live};
        pthread_t thread;

        b->index = dim3(i, 0, 0);
        stream->live++;
        running++;
        if (pthread_create(&thread, &attr, block_main, b) != 0) {
            abort(); // a part of a grid is no grid
        }
    }
    pthread_attr_destroy(&attr);
    return cudaSuccess;
}
