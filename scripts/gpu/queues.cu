// SPDX-License-Identifier: Apache-2.0
// Table 5.2 of dCUDA's thesis on a GPU: a flag, and queues of commands of 64 bytes, from the host to a kernel of one
// thread and back; round trips [us]. The host polls its own (pinned) memory only: nothing but a kernel module (GDRCopy)
// maps a GPU's memory for processors here, so what the thesis has with that queue on the device is missing, and the host
// writes to the device's memory by the copy engine.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

enum { ENTRIES = 64, TRIPS = 100, SAMPLES = 50, WARMUP = 5 };
constexpr uint64_t LIMIT_NS = 3000000000; // of one wait; then both sides return

struct entry {
    uint64_t words[7], turn;
};

static void
check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        std::exit(1);
    }
}

__device__ static uint64_t
load(const uint64_t *p)
{
    uint64_t v;

    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ static uint64_t
now()
{
    uint64_t t;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Answers n commands; flag: only their turns, in one place. *bad counts what was not as sent.
__global__ void
device(const entry *ping, entry *pong, uint64_t n, bool flag, uint32_t *bad)
{
    for (uint64_t i = 0; i < n; i++) {
        const entry *from = &ping[flag ? 0 : i % ENTRIES];
        entry *to = &pong[flag ? 0 : i % ENTRIES];
        uint64_t start = now();

        while (load(&from->turn) != i + 1) {
            if (now() - start > LIMIT_NS) {
                *bad += 1;
                return;
            }
        }
        for (int k = 0; k < 7 && !flag; k++) {
            *bad += *(volatile const uint64_t *)&from->words[k] != i + k;
            *(volatile uint64_t *)&to->words[k] = i + k;
        }
        asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(&to->turn), "l"(i + 1) : "memory");
    }
}

struct row {
    const char *name, *thesis;
    bool flag, on_device; // where what the kernel polls lies
};

struct queues {
    entry *ping, *pong, *staged; // staged: what the copy engine takes
    cudaStream_t kernel, copies;
    uint32_t *bad;
};

static void
push(const queues &q, const row &r, uint64_t i)
{
    entry *to = &q.ping[r.flag ? 0 : i % ENTRIES];
    entry *at = r.on_device ? &q.staged[i % ENTRIES] : to;

    for (int k = 0; k < 7 && !r.flag; k++) {
        at->words[k] = i + k;
    }
    __atomic_store_n(&at->turn, i + 1, __ATOMIC_RELEASE);
    if (r.on_device) {
        check(cudaMemcpyAsync(r.flag ? (void *)&to->turn : to, r.flag ? (void *)&at->turn : at,
                              r.flag ? sizeof(at->turn) : sizeof(*at), cudaMemcpyHostToDevice, q.copies),
              "a copy");
    }
}

static bool
pop(const queues &q, const row &r, uint64_t i)
{
    const entry *from = &q.pong[r.flag ? 0 : i % ENTRIES];
    auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(LIMIT_NS);
    bool good = true;

    while (__atomic_load_n(&from->turn, __ATOMIC_ACQUIRE) != i + 1) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
    }
    for (int k = 0; k < 7 && !r.flag; k++) {
        good = good && from->words[k] == i + k;
    }
    return good;
}

static bool
measure(const row &r)
{
    queues q;
    std::vector<double> us;
    uint64_t i = 0;
    bool good = true;

    check(cudaHostAlloc(&q.pong, ENTRIES * sizeof(entry), 0), "memory");
    check(cudaHostAlloc(&q.staged, ENTRIES * sizeof(entry), 0), "memory");
    check(cudaHostAlloc(&q.bad, sizeof(*q.bad), 0), "memory");
    check(r.on_device ? cudaMalloc(&q.ping, ENTRIES * sizeof(entry))
                      : cudaHostAlloc(&q.ping, ENTRIES * sizeof(entry), 0),
          "memory");
    check(cudaMemset(q.ping, 0, ENTRIES * sizeof(entry)), "memory");
    std::fill(q.pong, q.pong + ENTRIES, entry{});
    *q.bad = 0;
    check(cudaStreamCreateWithFlags(&q.kernel, cudaStreamNonBlocking), "a stream");
    check(cudaStreamCreateWithFlags(&q.copies, cudaStreamNonBlocking), "a stream");
    check(cudaDeviceSynchronize(), "memory");
    device<<<1, 1, 0, q.kernel>>>(q.ping, q.pong, (uint64_t)TRIPS * (SAMPLES + WARMUP), r.flag, q.bad);
    check(cudaGetLastError(), "a launch");
    for (int s = -WARMUP; s < SAMPLES && good; s++) {
        auto start = std::chrono::steady_clock::now();

        for (int k = 0; k < TRIPS && good; k++, i++) {
            push(q, r, i);
            good = pop(q, r, i);
        }
        if (s >= 0) {
            us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / TRIPS);
        }
    }
    check(cudaStreamSynchronize(q.kernel), "the kernel");
    good = good && *q.bad == 0;
    std::sort(us.begin(), us.end());
    if (good) {
        std::printf("%-48s%14.3f%12.3f  %s\n", r.name, us[SAMPLES / 2], us[SAMPLES * 9 / 10], r.thesis);
    } else {
        std::printf("%s: FAILED\n", r.name);
    }
    cudaFreeHost(q.pong);
    cudaFreeHost(q.staged);
    cudaFreeHost(q.bad);
    r.on_device ? cudaFree(q.ping) : cudaFreeHost(q.ping);
    cudaStreamDestroy(q.kernel);
    cudaStreamDestroy(q.copies);
    return good;
}

int
main()
{
    const row rows[] = {
        {"a flag, host's memory", "2.2 host", true, false},
        {"a flag, device's memory, by the copy engine", "1.8 device, GDRCopy", true, true},
        {"queues H-H, both the host's", "2.4", false, false},
        {"queues D-H, each with who reads, copy engine", "1.9, GDRCopy", false, true},
    };
    bool good = true;

    std::printf("# Table 5.2: there and back between host and GPU\n%-48s%14s%12s  %s\n", "# Test", "Median (us)", "P90",
                "Thesis, K80");
    for (const row &r : rows) {
        good = measure(r) && good;
    }
    std::printf("# queues D-D and H-D: the host would poll the GPU's memory, which it cannot map\n");
    return good ? 0 : 1;
}
