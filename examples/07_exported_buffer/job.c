/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of 07_exported_buffer: each rank puts its part into the buffer whose token is in
 * BUFFER_TOKEN, then gets the part of the next rank and checks it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <telpher/context.h>
#include <telpher/interop/opencl.h>

#define LIMIT UINT64_C(30000000000) /* [ns] */

static telpher_context *job;

static void
must(telpher_status status, const char *what)
{
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", what, telpher_status_text(status));
        exit(EXIT_FAILURE);
    }
}

/* Numbers [first, end) of the buffer belong to a rank. */
static uint64_t
first_of(uint32_t rank, uint64_t count)
{
    return count * rank / telpher_context_size(job);
}

/* [put] */
static void
exchange(telpher_opencl_remote *buffer, uint32_t *numbers, uint32_t rank)
{
    uint64_t count = telpher_opencl_size(buffer) / sizeof(*numbers);
    uint64_t first = first_of(rank, count), end = first_of(rank + 1, count);
    uint32_t next = (rank + 1) % telpher_context_size(job);

    for (uint64_t i = first; i < end; i++) {
        numbers[i - first] = (uint32_t)i;
    }
    must(telpher_opencl_put(buffer, first * sizeof(*numbers), numbers,
                            (size_t)(end - first) * sizeof(*numbers)),
         "put");
    must(telpher_barrier(job, LIMIT), "barrier");
    first = first_of(next, count);
    end = first_of(next + 1, count);
    must(telpher_opencl_get(buffer, first * sizeof(*numbers), numbers,
                            (size_t)(end - first) * sizeof(*numbers)),
         "get");
    for (uint64_t i = first; i < end; i++) {
        if (numbers[i - first] != (uint32_t)i) {
            must(TELPHER_ERR_DEVICE, "the part of the next rank");
        }
    }
}
/* [end of put] */

int
main(void)
{
    const char *token = getenv("BUFFER_TOKEN");
    telpher_opencl_remote *buffer;
    telpher_error err = {0};
    uint32_t *numbers;

    if (token == NULL) {
        fprintf(stderr, "BUFFER_TOKEN is not set: 07_exported_buffer starts this\n");
        return EXIT_FAILURE;
    }
    if (telpher_context_create(NULL, &job, &err) != TELPHER_OK ||
        telpher_opencl_open(job, token, 0, &buffer, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    numbers = malloc((size_t)telpher_opencl_size(buffer));
    if (numbers == NULL) {
        return EXIT_FAILURE;
    }
    exchange(buffer, numbers, telpher_context_rank(job));
    free(numbers);
    telpher_opencl_close(buffer);
    telpher_context_destroy(job);
    return EXIT_SUCCESS;
}
