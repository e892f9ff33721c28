/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace ring. A writer takes a number, which selects a slot and a turn; the slot's
 * `turn` says whose record it holds. It is BUSY while a thread writes or reads the
 * record; another thread that finds it BUSY skips it, so no thread ever waits. Rings
 * are never freed, because a late writer may still hold one.
 */
#include "base/trace/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config/settings.h"
#include "base/os/thread.h"
#include "base/trace/log.h"
#include "base/trace/trace_int.h"

#define RECORDS_MAX ((size_t)1 << 24)
#define BUSY UINT64_MAX

_Atomic bool tp_trace_on;

static _Atomic(struct tp_trace_ring *) current_ring;

/* Protects what follows. */
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static char *trace_path; /* NULL = tracing is off */
static struct tp_trace_ring *all_rings;
static char process_name[32] = "telpher";
static bool hooks_installed;
static struct tp_trace_streams streams;

void
tp_trace_record(char phase, const char *category, const char *name, tp_ns start_ns,
                const struct tp_trace_arg args[TP_TRACE_ARGS])
{
    struct tp_trace_ring *ring =
        atomic_load_explicit(&current_ring, memory_order_acquire);
    tp_ns now = tp_clock_ns();
    struct tp_trace_slot *slot;
    uint64_t number;
    uint64_t turn;

    if (ring == NULL) {
        return;
    }
    number = atomic_fetch_add_explicit(&ring->next, 1, memory_order_relaxed);
    slot = &ring->slots[number & ring->mask];
    turn = atomic_load_explicit(&slot->turn, memory_order_relaxed);
    if (turn == BUSY || turn > number + 1 ||
        !atomic_compare_exchange_strong_explicit(
            &slot->turn, &turn, BUSY, memory_order_acquire, memory_order_relaxed)) {
        return; /* counted as dropped: its number is nowhere in the ring */
    }
    slot->record.category = category;
    slot->record.name = name;
    slot->record.phase = phase;
    slot->record.ts = phase == 'X' ? start_ns : now;
    slot->record.duration = phase == 'X' && now > start_ns ? now - start_ns : 0;
    slot->record.tid = tp_thread_id();
    memcpy(slot->record.args, args, sizeof(slot->record.args));
    atomic_store_explicit(&slot->turn, number + 1, memory_order_release);
}

bool
tp_trace_ring_read(struct tp_trace_ring *ring, uint64_t number,
                   struct tp_trace_entry *ret_record)
{
    struct tp_trace_slot *slot = &ring->slots[number & ring->mask];
    uint64_t turn = number + 1;

    if (!atomic_compare_exchange_strong_explicit(
            &slot->turn, &turn, BUSY, memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    *ret_record = slot->record;
    atomic_store_explicit(&slot->turn, number + 1, memory_order_release);
    return true;
}

/* ---- start and end ---- */

/* The path with %p and %% replaced. */
static char *
expand_path(const char *path)
{
    size_t size = strlen(path) + 1;
    char *expanded;
    char *at;

    for (const char *c = path; *c != '\0'; c++) {
        size += *c == '%' ? 12 : 0;
    }
    expanded = tp_malloc(size, "trace path");
    if (expanded == NULL) {
        return NULL;
    }
    at = expanded;
    for (const char *c = path; *c != '\0'; c++) {
        if (c[0] == '%' && c[1] == 'p') {
            at += sprintf(at, "%d", (int)getpid());
            c++;
        } else {
            *at++ = *c;
            c += c[0] == '%' && c[1] == '%';
        }
    }
    *at = '\0';
    return expanded;
}

static struct tp_trace_ring *
create_ring(size_t record_count)
{
    struct tp_trace_ring *ring;
    size_t capacity = 16;

    while (capacity < record_count) {
        capacity *= 2;
    }
    ring = tp_zalloc(sizeof(*ring) + capacity * sizeof(ring->slots[0]), "trace ring");
    if (ring != NULL) {
        ring->mask = capacity - 1;
        ring->before = all_rings;
        all_rings = ring;
    }
    return ring;
}

static void
flush_at_exit(void)
{
    struct tp_error err = {0};

    if (tp_trace_flush(&err) != TELPHER_OK) {
        tp_warn("base", "trace not written: %s", tp_error_text(&err));
    }
}

/*
 * A child must not write into its parent's file. The lock starts afresh, since the thread
 * that held it at the moment of fork(), if there was one, is not in the child to free it.
 */
static void
forget_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    atomic_store(&tp_trace_on, false);
    atomic_store(&current_ring, NULL);
    tp_free(trace_path);
    trace_path = NULL;
    streams.count = 0;
    trace_lock = fresh;
}

static void
install_hooks(void)
{
    if (!hooks_installed) {
        hooks_installed = true;
        pthread_atfork(NULL, NULL, forget_in_child);
        (void)atexit(flush_at_exit); /* else there is only what flush writes */
    }
}

static telpher_status
start_locked(const char *path, size_t record_count, struct tp_error *err)
{
    struct tp_trace_ring *ring;
    char *expanded;

    if (trace_path != NULL) {
        return tp_error_set(err, TELPHER_ERR_EXISTS, "already tracing into %s",
                            trace_path);
    }
    expanded = expand_path(path);
    ring = expanded != NULL ? create_ring(record_count) : NULL;
    if (ring == NULL) {
        tp_free(expanded);
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY, "out of memory for %zu records",
                            record_count);
    }
    install_hooks();
    trace_path = expanded;
    atomic_store_explicit(&current_ring, ring, memory_order_release);
    atomic_store(&tp_trace_on, true);
    return TELPHER_OK;
}

telpher_status
tp_trace_start(const char *path, size_t record_count, struct tp_error *err)
{
    telpher_status status;

    if (record_count == 0) {
        record_count = TP_TRACE_RECORDS_DEFAULT;
    }
    if (record_count > RECORDS_MAX) {
        return tp_error_set(err, TELPHER_ERR_RANGE, "%zu trace records; at most %zu",
                            record_count, RECORDS_MAX);
    }
    pthread_mutex_lock(&trace_lock);
    status = start_locked(path, record_count, err);
    pthread_mutex_unlock(&trace_lock);
    return status;
}

/* TELPHER_TRACE_RECORDS, if it is set. */
static telpher_status
read_record_count(uint64_t *count, struct tp_error *err)
{
    const char *text = tp_settings_get("TRACE_RECORDS");

    for (size_t i = 0; text != NULL && i < tp_settings_entry_count; i++) {
        const struct tp_config_entry *entry = &tp_settings_entries[i];

        if (strcmp(entry->name, "TRACE_RECORDS") == 0) {
            return entry->parser->parse(entry, text, count, err);
        }
    }
    return TELPHER_OK;
}

void
tp_trace_start_env(void)
{
    /* Not for a set-user-id program: its user must not make it write files. */
    const char *path = tp_settings_get("TRACE");
    struct tp_error err = {0};
    uint64_t count = 0;
    telpher_status status;

    if (path == NULL || path[0] == '\0') {
        return;
    }
    status = read_record_count(&count, &err);
    if (status != TELPHER_OK) {
        tp_warn("base", "TELPHER_TRACE_RECORDS is ignored: %s", tp_error_text(&err));
    }
    if (tp_trace_start(path, count, &err) != TELPHER_OK) {
        tp_warn("base", "TELPHER_TRACE is ignored: %s", tp_error_text(&err));
    }
}

void
tp_trace_set_process_name(const char *name)
{
    pthread_mutex_lock(&trace_lock);
    snprintf(process_name, sizeof(process_name), "%s", name);
    pthread_mutex_unlock(&trace_lock);
}

void
tp_trace_stream(uint64_t stream, uint64_t session)
{
    pthread_mutex_lock(&trace_lock);
    if (trace_path != NULL) {
        streams.last[streams.count++ % TP_TRACE_STREAMS] =
            (struct tp_trace_stream){stream, session};
    }
    pthread_mutex_unlock(&trace_lock);
}

static telpher_status
flush_locked(struct tp_error *err)
{
    struct tp_trace_ring *ring = atomic_load(&current_ring);

    if (trace_path == NULL || ring == NULL) {
        return TELPHER_OK;
    }
    return tp_trace_write_file(ring, trace_path, process_name, &streams, err);
}

telpher_status
tp_trace_flush(struct tp_error *err)
{
    telpher_status status;

    pthread_mutex_lock(&trace_lock);
    status = flush_locked(err);
    pthread_mutex_unlock(&trace_lock);
    return status;
}

telpher_status
tp_trace_stop(struct tp_error *err)
{
    telpher_status status;

    pthread_mutex_lock(&trace_lock);
    atomic_store(&tp_trace_on, false);
    status = flush_locked(err);
    tp_free(trace_path);
    trace_path = NULL;
    pthread_mutex_unlock(&trace_lock);
    return status;
}
