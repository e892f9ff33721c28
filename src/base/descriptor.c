/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"

enum { FDS = 1 << 20, EACH = 64 };

/* A bit each. No list and no lock: a child may come while another thread changes something. */
static _Atomic uint64_t owned[FDS / EACH];
static atomic_int used; /* words of it, up to the last that had a bit */

static void
let_go(int fd, int nothing)
{
    if (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0) {
        close(fd);
    }
}

/* Calls nothing but what a signal's handler may. */
static void
in_child(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < atomic_load(&used); i++) {
        for (uint64_t bits = atomic_exchange(&owned[i], 0); bits != 0;
             bits &= bits - 1) {
            let_go(i * EACH + __builtin_ctzll(bits), nothing);
        }
    }
    if (nothing >= 0) {
        close(nothing);
    }
}

static void
watch_for_children(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void
tp_descriptor_own(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int words = fd / EACH + 1, before = atomic_load(&used);

    pthread_once(&once, watch_for_children);
    if (fd < FDS) {
        while (before < words &&
               !atomic_compare_exchange_weak(&used, &before, words)) {
        }
        atomic_fetch_or(&owned[fd / EACH], UINT64_C(1) << fd % EACH);
    }
}

void
tp_descriptor_close(int fd)
{
    if (fd < FDS) { /* first: the number may be another's at once */
        atomic_fetch_and(&owned[fd / EACH], ~(UINT64_C(1) << fd % EACH));
    }
    close(fd);
}
