/* SPDX-License-Identifier: Apache-2.0 */
/* Randomness from the kernel. */
#include "base/os/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/trace/log.h"

telpher_status
tp_random_bytes(void *dst, size_t len)
{
    uint8_t *at = dst;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            tp_error("base",
                     "cannot read %zu random bytes from the kernel (getrandom): %m",
                     len);
            return TELPHER_ERR_IO;
        }
        at += got;
        len -= (size_t)got;
    }
    return TELPHER_OK;
}

bool
tp_random_equal(const void *a, const void *b, size_t len)
{
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    uint8_t differing = 0;

    for (size_t i = 0; i < len; i++) {
        differing |= (uint8_t)(x[i] ^ y[i]);
    }
    return differing == 0;
}
