/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table 5.2 of dCUDA's thesis, on processors: a flag, and queues of commands of 64 bytes,
 * between two processes that stand for host and device. A queue is memory of whichever
 * touched it first, which tells where processors have memory of their own; an entry's last
 * word says that it is there. The first process waits for the answer: whole round trips.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <telpher/rma/detail/command.h>

#include "bench/bench.h"
#include "bench/notified/notified_job.h"

enum { ENTRIES = 64, PAGE = 4096, SPINS = 10000, SECONDS = 60 };
enum side { HOST, DEVICE };

/** A queue, or with one entry a flag. */
struct queue {
    union {
        struct {
            uint64_t words[7];
            _Atomic uint64_t turn;
        } entries[ENTRIES];
        uint8_t pages[PAGE];
    };
};

_Static_assert(sizeof(((struct queue *)0)->entries[0]) == sizeof(telpher_rma_command),
               "an entry is a command");

/** Where the two processes meet. */
struct meeting {
    struct queue *ping, *pong;
    _Atomic uint32_t *came;
    bool is_flag;
};

static void
push(const struct meeting *m, struct queue *q, uint64_t n)
{
    uint64_t at = m->is_flag ? 0 : n % ENTRIES;

    for (int i = 0; !m->is_flag && i < 7; i++) {
        q->entries[at].words[i] = n + (uint64_t)i;
    }
    atomic_store_explicit(&q->entries[at].turn, n + 1, memory_order_release);
}

/* @return false: nothing arrived, or something else */
static bool
pop(const struct meeting *m, struct queue *q, uint64_t n)
{
    uint64_t at = m->is_flag ? 0 : n % ENTRIES, bad = 0;
    double end = 0;

    for (int spin = 1;
         atomic_load_explicit(&q->entries[at].turn, memory_order_acquire) != n + 1;
         spin++) {
        if (spin % SPINS == 0) { /* more processes than processors? */
            end = end > 0 ? end : bench_now_us() + 1e6 * SECONDS;
            if (bench_now_us() > end) {
                return false;
            }
            usleep(0);
        }
    }
    for (int i = 0; !m->is_flag && i < 7; i++) {
        bad |= q->entries[at].words[i] ^ (n + (uint64_t)i);
    }
    return bad == 0;
}

/* Both have touched what is theirs. */
static bool
meet(const struct meeting *m)
{
    double end = bench_now_us() + 1e6 * SECONDS;

    atomic_fetch_add(m->came, 1);
    while (atomic_load(m->came) < 2) {
        if (bench_now_us() > end) {
            return false;
        }
        usleep(0);
    }
    return true;
}

static bool
answer(void *arg, uint64_t n)
{
    const struct meeting *m = arg;
    bool good = pop(m, m->ping, n);

    push(m, m->pong, n);
    return good;
}

static bool
ask(void *arg, uint64_t n)
{
    const struct meeting *m = arg;

    push(m, m->ping, n);
    return pop(m, m->pong, n);
}

static void
touch(const struct meeting *m, const enum side at[2], enum side me)
{
    if (at[0] == me) {
        memset(m->ping, 0, sizeof(*m->ping));
    }
    if (at[1] == me) {
        memset(m->pong, 0, sizeof(*m->pong));
    }
}

/* @p at  whose the queues to the device and back are */
static bool
measure(const struct notified *n, bool is_flag, const enum side at[2])
{
    size_t len = 2 * sizeof(struct queue) + PAGE;
    uint8_t *memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct queue *queues = (struct queue *)(void *)memory;
    struct meeting m = {queues, &queues[1], (_Atomic uint32_t *)(void *)&queues[2],
                        is_flag};
    int code = 1;
    pid_t child = -1;
    bool good;

    if (memory == MAP_FAILED || (fflush(NULL), child = fork()) < 0) {
        perror("telpher-bench: a second process");
        return false;
    }
    touch(&m, at, child == 0 ? DEVICE : HOST);
    if (child == 0) {
        _exit(meet(&m) && notified_time(n, 1, NULL, answer, &m) ? 0 : 1);
    }
    good = meet(&m) && notified_time(n, 1, n->us, ask, &m);
    good = waitpid(child, &code, 0) == child && code == 0 && good;
    munmap(memory, len);
    if (!good) {
        fprintf(stderr, "telpher-bench: nothing arrived through a queue\n");
    }
    return good;
}

bool
notified_queues(const struct notified *n)
{
    static const struct {
        const char *name, *thesis;
        bool is_flag;
        enum side at[2];
    } rows[] = {
        {"a flag, host's memory", "2.2 host", true, {HOST, HOST}},
        {"a flag, device's memory", "1.8 device", true, {DEVICE, DEVICE}},
        {"queues H-H, both the host's", "2.4", false, {HOST, HOST}},
        {"queues D-D, both the device's", "2.0", false, {DEVICE, DEVICE}},
        {"queues H-D, each with who writes", "2.4", false, {HOST, DEVICE}},
        {"queues D-H, each with who reads", "1.9", false, {DEVICE, HOST}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!measure(n, rows[i].is_flag, rows[i].at)) {
            return false;
        }
        notified_show(n, "5.2", rows[i].name, n->samples, 0, rows[i].thesis);
    }
    return true;
}
