/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content of validated iterations. It differs by sender, receiver, place and iteration, so that
 * no block passes for another one or for an older one. It goes to and from device memory by
 * staging memory that is allocated for it alone each time.
 */
#include "bench/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLEARED = 0xa5, ALL = -1 };

int
ranks_blocks_of(enum ranks_blocks blocks, const struct bench_work *w)
{
    bool root = w->rank == w->root;

    switch (blocks) {
    case RANKS_ONE:
    case RANKS_PORTION:
        return 1;
    case RANKS_FIRST:
        return w->first;
    case RANKS_SECOND:
        return !w->first;
    case RANKS_EACH:
        return w->size;
    case RANKS_ROOT:
        return root;
    case RANKS_ROOT_EACH:
        return root ? w->size : 0;
    case RANKS_OTHERS:
        return !root;
    case RANKS_NEIGHBORS:
        return w->destination_count;
    case RANKS_SOURCES:
        return w->source_count;
    default:
        return 0;
    }
}

bool
ranks_has_layouts(const struct ranks_pattern *pattern)
{
    return (pattern->flags & RANKS_EVERY) != 0 ||
           ((pattern->flags & (RANKS_SUM | RANKS_WINDOW)) == 0 &&
            pattern->receives != RANKS_NONE &&
            strstr(pattern->name, "partitioned") == NULL);
}

/* Is that byte of a message sent? */
static bool
is_sent(const struct ranks_options *o, size_t at, size_t len)
{
    const struct bench_layout *l = o->layout;
    size_t i = at / bench_type_size(o->type), n = len / bench_type_size(o->type);

    if (l->kind == BENCH_VECTOR) {
        size_t stride = (size_t)l->stride;

        return i < n / stride * stride && i % stride < (size_t)l->block;
    }
    for (int b = 0; l->kind == BENCH_INDEXED && b < l->count; b++) {
        if (i >= (size_t)l->places[b] &&
            i - (size_t)l->places[b] < (size_t)l->lengths[b]) {
            return true;
        }
    }
    return l->kind == BENCH_CONTIGUOUS && i < n;
}

/* Bytes that are not sent stay as they were, but where a copy by way of host memory took all. */
static void
keep_gaps(const struct ranks_pair *p, uint8_t *wanted, const uint8_t *received,
          size_t len)
{
    for (size_t at = 0; p->o->layout != NULL && at < len; at++) {
        if (!is_sent(p->o, at, len)) {
            wanted[at] = p->fills_gaps ? received[at] : CLEARED;
        }
    }
}

bool
ranks_layout_fits(const struct ranks_options *o, size_t len, size_t *ret_sent)
{
    const struct bench_layout *l = o->layout;
    size_t size = bench_type_size(o->type), n = len / size, sent = n;

    if (l != NULL && l->kind == BENCH_VECTOR) {
        sent = n / (size_t)l->stride * (size_t)l->block;
    } else if (l != NULL && l->kind == BENCH_INDEXED) {
        sent = 0;
        for (int i = 0; i < l->count; i++) {
            sent += (size_t)l->lengths[i];
            if ((size_t)l->places[i] + (size_t)l->lengths[i] > n) {
                return false;
            }
        }
    }
    *ret_sent = sent * size;
    return true;
}

/* ---- what is at a place ---- */

/* Different from its neighbors in each respect. */
static unsigned
number_of(const struct ranks_pair *p, int from, int to, size_t i)
{
    return ((unsigned)i * 31 + (unsigned)from * 7 + (unsigned)(to + 1) * 13 +
            (unsigned)p->iteration * 5) %
           p->numbers;
}

/* Sums must fit into a byte: some MPIs let them saturate, others wrap around. */
static unsigned
count_numbers(const struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    unsigned terms = (pattern->flags & RANKS_SUM) != 0 ? p->size : 1;
    unsigned most = (pattern->flags & (RANKS_SUM | RANKS_WINDOW)) != 0 ? 127 : 251;

    return most / terms > 1 ? most / terms : 2;
}

static void
store(uint8_t *at, enum bench_type type, unsigned number)
{
    int32_t whole = (int32_t)number;
    float real = (float)number;

    if (type == BENCH_CHAR) {
        *at = (uint8_t)number;
    } else if (type == BENCH_INT) {
        memcpy(at, &whole, sizeof(whole));
    } else {
        memcpy(at, &real, sizeof(real));
    }
}

/** A block of content of one pair of ranks, or the sum over all. */
struct block {
    int from, to;
    size_t first; /* element that it begins with */
};

static void
write_block(uint8_t *at, const struct ranks_pair *p, struct block b, size_t len)
{
    size_t size = bench_type_size(p->work.type);

    for (size_t i = 0; i < len / size; i++) {
        unsigned number = 0;

        for (int from = b.from == ALL ? 0 : b.from;
             b.from == ALL ? from < p->work.size : from == b.from; from++) {
            number += number_of(p, from, b.to, b.first + i);
        }
        store(at + i * size, p->work.type, number);
    }
    memset(at + len / size * size, 0, len % size);
}

/* ---- staging ---- */

static uint8_t *
take_staging(const struct ranks_pair *p, size_t bytes)
{
    uint8_t *host = malloc(bytes != 0 ? bytes : 1);

    ranks_check(p, host != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY,
                "memory to check content");
    memset(host, CLEARED, bytes);
    return host;
}

static void
stage(const struct ranks_pair *p, void *dst, const void *src, size_t bytes)
{
    if (bytes != 0) {
        ranks_check(p, telpher_mem_copy(p->ctx, dst, src, bytes), "staging of content");
    }
}

/* ---- sending ---- */

/* The rank that block @p i goes to; ALL where all get the same. */
static int
receiver_of(const struct ranks_pattern *pattern, const struct bench_work *w, int i)
{
    switch (pattern->sends) {
    case RANKS_EACH:
    case RANKS_ROOT_EACH:
        return i;
    case RANKS_NEIGHBORS:
        return w->destinations[i];
    default:
        return ALL;
    }
}

static int
slots_of(const struct ranks_pair *p)
{
    return p->work.stride != 0 ? p->work.window : 1;
}

/* A wrong byte in each block, by the rank whose content others receive: the test of tests. */
static bool
flips(const struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    return p->flips &&
           (p->work.rank == p->work.root || pattern->sends == RANKS_SECOND ||
            pattern->sends == RANKS_OTHERS);
}

/* A byte that is sent, in the middle if that one is. */
static size_t
place_to_flip(const struct ranks_pair *p, size_t len)
{
    size_t at = len / 2;

    for (size_t i = 0; p->o->layout != NULL && i < len; i++) {
        if (is_sent(p->o, (at + i) % len, len)) {
            return (at + i) % len;
        }
    }
    return at;
}

/* Where in place a rank has what it sends [bytes]. */
static size_t
own_block(const struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    bool gathers =
        pattern->sends == RANKS_ONE &&
        (pattern->receives == RANKS_EACH || pattern->receives == RANKS_ROOT_EACH);

    return gathers ? (size_t)p->work.rank * p->work.len : 0;
}

/* The root of a scatter in place, whose block stays where it is. */
static bool
keeps_own(const struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    return p->work.in_place && pattern->sends == RANKS_ROOT_EACH &&
           p->work.rank == p->work.root;
}

void
ranks_fill(struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    struct bench_work *w = &p->work;
    int sends = ranks_blocks_of(pattern->sends, w);
    int receives = ranks_blocks_of(pattern->receives, w);
    int most = sends > receives ? sends : receives;
    uint8_t *host = take_staging(p, (size_t)most * w->len);
    bool in_place = w->in_place && receives != 0 && !keeps_own(p, pattern);
    uint8_t *to = in_place ? ranks_in(p) + own_block(p, pattern) : ranks_out(p);

    p->numbers = count_numbers(p, pattern);
    if ((pattern->flags & RANKS_WINDOW) != 0) { /* operations add to it */
        memset(host, 0, (size_t)most * w->len);
    }
    for (int i = 0; receives != 0 && i < slots_of(p); i++) {
        stage(p, ranks_in(p) + (size_t)i * w->stride, host, (size_t)receives * w->len);
    }
    for (int i = 0; i < sends; i++) {
        struct block b = {w->rank, receiver_of(pattern, w, i), 0};

        write_block(host + (size_t)i * w->len, p, b, w->len);
        host[(size_t)i * w->len + place_to_flip(p, w->len)] ^=
            flips(p, pattern) && w->len != 0 ? 0x40 : 0;
    }
    for (int i = 0; sends != 0 && i < slots_of(p); i++) {
        stage(p, to + (size_t)i * w->stride, host, (size_t)sends * w->len);
    }
    free(host);
}

/* ---- receiving ---- */

/* The sender of block @p i. */
static struct block
sender_of(const struct ranks_pattern *pattern, const struct bench_work *w, int i)
{
    bool distinct = pattern->sends == RANKS_EACH || pattern->sends == RANKS_ROOT_EACH ||
                    pattern->sends == RANKS_NEIGHBORS;
    struct block b = {w->peer, distinct ? w->rank : ALL, 0};

    if ((pattern->flags & RANKS_SUM) != 0) {
        b.from = ALL;
    } else if (pattern->receives == RANKS_EACH ||
               pattern->receives == RANKS_ROOT_EACH) {
        b.from = i;
    } else if (ranks_has_neighbors(pattern)) {
        b.from = w->sources[i];
    } else if (pattern->sends == RANKS_ROOT || pattern->sends == RANKS_ROOT_EACH) {
        b.from = w->root;
    }
    return b;
}

static size_t
received_len(const struct ranks_pattern *pattern, const struct bench_work *w,
             struct block *b)
{
    size_t size = bench_type_size(w->type);
    int count = (int)(w->len / size);

    if (pattern->receives != RANKS_PORTION) {
        return w->len;
    }
    if (strncmp(strstr(pattern->name, "reduce"), "reduce_scatter_block", 20) == 0) {
        b->first = (size_t)w->rank * (size_t)(count / w->size);
        return (size_t)(count / w->size) * size;
    }
    for (int i = 0; i < w->rank; i++) {
        b->first += (size_t)bench_portion(count, w->size, i);
    }
    return (size_t)bench_portion(count, w->size, w->rank) * size;
}

static void
refuse(struct ranks_pair *p, const struct ranks_pattern *pattern, int block, size_t at,
       unsigned is, unsigned wanted)
{
    if (p->counts) {
        p->wrong++;
        return;
    }
    fprintf(stderr,
            "telpher-bench: rank %d: %s of %zu bytes, iteration %d: byte %zu of block "
            "%d is %u, not %u\n",
            p->work.rank, pattern->name, p->work.len, p->iteration, at, block, is,
            wanted);
    fflush(NULL);
    if (p->job->abort != NULL) {
        p->job->abort();
    }
    exit(EXIT_FAILURE);
}

/* Lists what is wrong in a block, in a file of this rank, pattern and size. */
static void
log_block(const struct ranks_pair *p, const struct ranks_pattern *pattern, int block,
          const uint8_t *received, const uint8_t *wanted, size_t len)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s-%zu-rank%d.log", p->o->log_folder,
             pattern->name, p->work.len, p->work.rank);
    file = fopen(path, "a");
    if (file == NULL) {
        perror(path);
        return;
    }
    for (size_t at = 0; at < len; at++) {
        if (received[at] != wanted[at]) {
            fprintf(file, "iteration %d, block %d, byte %zu: %u, not %u\n",
                    p->iteration, block, at, received[at], wanted[at]);
        }
    }
    fclose(file);
}

static void
check_block(struct ranks_pair *p, const struct ranks_pattern *pattern,
            const uint8_t *received, int i)
{
    struct block b = sender_of(pattern, &p->work, i);
    size_t len = received_len(pattern, &p->work, &b);
    uint8_t *wanted = take_staging(p, len);

    write_block(wanted, p, b, len);
    keep_gaps(p, wanted, received, len);
    if (p->o->log_folder != NULL && memcmp(received, wanted, len) != 0) {
        log_block(p, pattern, i, received, wanted, len);
    }
    for (size_t at = 0; at < len; at++) {
        if (received[at] != wanted[at]) {
            refuse(p, pattern, i, at, received[at], wanted[at]);
        }
    }
    free(wanted);
}

void
ranks_check_content(struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    struct bench_work *w = &p->work;
    int receives = ranks_blocks_of(pattern->receives, w);
    bool once = pattern->kind == RANKS_LATENCY; /* one buffer each time */
    uint8_t *host = take_staging(p, (size_t)receives * w->len);

    for (int slot = 0; receives != 0 && slot < slots_of(p) && !keeps_own(p, pattern);
         slot++) {
        if (once && slot != p->iteration % slots_of(p)) {
            continue;
        }
        stage(p, host, ranks_in(p) + (size_t)slot * w->stride,
              (size_t)receives * w->len);
        for (int i = 0; i < receives; i++) {
            if (pattern->kind != RANKS_FAN || i != w->root || w->rank != w->root) {
                check_block(p, pattern, host + (size_t)i * w->len, i);
            }
        }
    }
    free(host);
}
