/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces listed sockets by /dev/null in children of fork(): see descriptor.h. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/os/descriptor.h"

enum { FDS = 1 << 20, EACH = 64 };

/* A bit each. No list and no lock: a child may come while another thread changes something. */
static _Atomic uint64_t owned[FDS / EACH];
static atomic_int used; /* words of it, up to the last that had a bit */

/* If other code has closed the socket, its number may have been reused. */
static bool
is_socket(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Above RLIMIT_NOFILE no number can be taken again.
 * @param nothing  one that is /dev/null since the first socket; -1 before
 * @return it */
static int
replace_by_null(int fd, int nothing)
{
    int kept;

    if (nothing >= 0) {
        if (dup3(nothing, fd, O_CLOEXEC) < 0) {
            close(fd);
        }
        return nothing;
    }
    close(fd); /* first: no other number may be free */
    nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0 || nothing == fd) {
        return nothing;
    }
    kept = dup3(nothing, fd, O_CLOEXEC);
    close(nothing);
    return kept;
}

/* Calls nothing but what a signal's handler may. */
static void
replace_all(void)
{
    int nothing = -1;

    for (int i = 0; i < atomic_load(&used); i++) {
        uint64_t bits = atomic_load(&owned[i]);

        if (bits != 0) { /* else the page stays shared with the parent */
            atomic_store(&owned[i], 0);
        }
        for (; bits != 0; bits &= bits - 1) {
            int fd = i * EACH + __builtin_ctzll(bits);

            nothing = is_socket(fd) ? replace_by_null(fd, nothing) : nothing;
        }
    }
}

static void
in_child(void)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    replace_all();
    (void)pthread_setcancelstate(state, NULL);
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

    tp_assert(fd >= 0);
    pthread_once(&once, watch_for_children);
    if (fd < FDS) {
        while (before < words && !atomic_compare_exchange_weak(&used, &before, words)) {
        }
        atomic_fetch_or(&owned[fd / EACH], UINT64_C(1) << fd % EACH);
    }
}

void
tp_descriptor_close(int fd)
{
    if (fd < 0) {
        return;
    }
    if (fd < FDS && atomic_load(&owned[fd / EACH]) != 0) {
        /* first: the number may be another's at once */
        atomic_fetch_and(&owned[fd / EACH], ~(UINT64_C(1) << fd % EACH));
    }
    close(fd);
}
