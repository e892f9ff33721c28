/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, content and comparisons for the tests of libtelpher-mpi-device. */
#ifndef TESTS_MPIDEV_SUPPORT_H
#define TESTS_MPIDEV_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/interop/mpi_device.h>
#include <telpher/mem.h>

static int rank, size, failures;
static telpher_context *ctx;

#define MAX_BYTES (8u << 20)
#define BUFFERS 4

static char *device[BUFFERS], *host[BUFFERS]; /* MAX_BYTES each */
static char *result; /* as large */

static inline void
expect(int ok, const char *name, long detail)
{
    if (!ok) {
        fprintf(stderr, "rank %d: %s %ld: FAILED\n", rank, name, detail);
        failures++;
    }
}

static inline void
copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && telpher_mem_copy(ctx, to, from, bytes) != TELPHER_OK) {
        fprintf(stderr, "copy: %s\n", telpher_last_error(ctx));
        exit(1);
    }
}

/* Gives each buffer simulated device memory and host memory. @return 0, or -1 without memory */
static inline int
allocate_simulated(void)
{
    ctx = telpher_mpi_device_context();
    for (unsigned i = 0; i < BUFFERS && ctx != NULL; i++) {
        void *pointer = NULL;

        (void)telpher_mem_alloc(ctx, TELPHER_MEM_SIM, MAX_BYTES, &pointer);
        device[i] = pointer;
        host[i] = malloc(MAX_BYTES);
        if (device[i] == NULL || host[i] == NULL) {
            return -1;
        }
    }
    result = malloc(MAX_BYTES);
    return ctx != NULL && result != NULL ? 0 : -1;
}

static inline void
release(void)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        free(host[i]);
    }
    free(result);
}

static inline void
fill(char *to, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (char)((i * 7 + seed * 31 + (i >> 8)) & 63);
    }
}

/* ---- a call with host memory, then with device memory ---- */

enum { OUT = 0, IN = 1 };

static char *out, *in; /* where the call reads and writes */

/* Both leave the same in @ref in. */
static inline void
compare(const char *name, void (*call)(void), size_t bytes)
{
    fill(host[OUT], bytes, (unsigned)rank);
    fill(host[IN], bytes, 100u + (unsigned)rank);
    copy(device[OUT], host[OUT], bytes);
    copy(device[IN], host[IN], bytes);
    out = host[OUT];
    in = host[IN];
    call();
    out = device[OUT];
    in = device[IN];
    call();
    copy(result, device[IN], bytes);
    expect(memcmp(result, host[IN], bytes) == 0, name, (long)bytes);
}

#endif
