/* SPDX-License-Identifier: Apache-2.0 */
/* The trace ring as Chrome trace JSON. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/trace/trace_int.h"

/* Readers of JSON keep numbers as doubles, which are exact up to here. */
#define JSON_EXACT_MAX ((uint64_t)1 << 53)

static void
put_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c < 0x20 || *c == '"' || *c == '\\') {
            fprintf(out, "\\u%04x", *c);
        } else {
            putc(*c, out);
        }
    }
    putc('"', out);
}

static void
put_args(FILE *out, const struct tp_trace_arg *args)
{
    fputs(",\"args\":{", out);
    for (int i = 0; i < TP_TRACE_ARGS && args[i].name != NULL; i++) {
        if (i > 0) {
            putc(',', out);
        }
        put_string(out, args[i].name);
        fprintf(out,
                args[i].value <= JSON_EXACT_MAX ? ":%" PRIu64 : ":\"0x%" PRIx64 "\"",
                args[i].value);
    }
    putc('}', out);
}

/* Chrome wants microseconds. */
static void
put_time(FILE *out, const char *key, tp_ns t)
{
    fprintf(out, ",\"%s\":%" PRIu64 ".%03u", key, t / 1000, (unsigned)(t % 1000));
}

static void
put_record(FILE *out, const struct tp_trace_entry *record, int pid)
{
    fprintf(out, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d", record->phase, pid,
            record->tid);
    put_time(out, "ts", record->ts);
    if (record->phase == 'X') {
        put_time(out, "dur", record->duration);
    } else if (record->phase == 'i') {
        fputs(",\"s\":\"t\"", out);
    }
    fputs(",\"cat\":", out);
    put_string(out, record->category);
    fputs(",\"name\":", out);
    put_string(out, record->name);
    put_args(out, record->args);
    putc('}', out);
}

static void
put_name(FILE *out, const char *what, int pid, int tid, const char *name)
{
    fprintf(out,
            "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":",
            what, pid, tid);
    put_string(out, name);
    fputs("}}", out);
}

/* Names of the threads that still live; the others stay numbers. */
static void
put_thread_names(FILE *out, int pid)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this function's own */
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        char path[300];
        char name[32] = "";
        FILE *comm;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        comm = task->d_name[0] != '.' ? fopen(path, "re") : NULL;
        if (comm == NULL) {
            continue;
        }
        if (fgets(name, sizeof(name), comm) != NULL) {
            name[strcspn(name, "\n")] = '\0';
            fputs(",\n", out);
            put_name(out, "thread_name", pid, atoi(task->d_name), name);
        }
        (void)fclose(comm); /* it was only read */
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
}

/* Names the clock: processes with the same one compare times as they are. */
static void
put_clock(FILE *out)
{
    char boot[64] = "";
    FILE *in = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (in != NULL && fgets(boot, sizeof(boot), in) != NULL) {
        boot[strcspn(boot, "\n")] = '\0';
    }
    if (in != NULL) {
        (void)fclose(in); /* it was only read */
    }
    fputs(",\"clock\":", out);
    put_string(out, boot);
}

static void
put_streams(FILE *out, const struct tp_trace_streams *s)
{
    size_t count = TP_MIN(s->count, (size_t)TP_TRACE_STREAMS);

    fputs(",\"streams\":[", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s[%" PRIu64 ",\"%016" PRIx64 "\"]", i > 0 ? "," : "",
                s->last[i].stream, s->last[i].session);
    }
    fputs("]", out);
}

static void
put_all(FILE *out, struct tp_trace_ring *ring, const char *process_name,
        const struct tp_trace_streams *streams)
{
    uint64_t end = atomic_load(&ring->next);
    uint64_t first = end > ring->mask + 1 ? end - ring->mask - 1 : 0;
    uint64_t written = 0;
    int pid = (int)getpid();
    struct tp_trace_entry record;

    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
    put_name(out, "process_name", pid, pid, process_name);
    put_thread_names(out, pid);
    for (uint64_t number = first; number < end; number++) {
        if (tp_trace_ring_read(ring, number, &record)) {
            put_record(out, &record, pid);
            written++;
        }
    }
    fprintf(out, "\n],\"otherData\":{\"records\":%" PRIu64 ",\"dropped\":%" PRIu64,
            written, end - written);
    put_clock(out);
    put_streams(out, streams);
    fputs("}}\n", out);
}

static telpher_status
write_to(const char *path, struct tp_trace_ring *ring, const char *process_name,
         const struct tp_trace_streams *streams, struct tp_error *err)
{
    FILE *out = fopen(path, "we");
    bool failed;

    if (out == NULL) {
        return tp_error_set_errno(err, errno, "cannot write trace %s", path);
    }
    put_all(out, ring, process_name, streams);
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        return tp_error_set_errno(err, errno != 0 ? errno : EIO,
                                  "cannot write trace %s", path);
    }
    return TELPHER_OK;
}

telpher_status
tp_trace_write_file(struct tp_trace_ring *ring, const char *path,
                    const char *process_name, const struct tp_trace_streams *streams,
                    struct tp_error *err)
{
    char *fresh = tp_asprintf("trace path", "%s.new", path);
    telpher_status status;

    if (fresh == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the name of trace %s", path);
    }
    status = write_to(fresh, ring, process_name, streams, err);
    if (status == TELPHER_OK && rename(fresh, path) != 0) {
        status = tp_error_set_errno(err, errno, "cannot write trace %s", path);
    }
    if (status != TELPHER_OK) {
        unlink(fresh);
    }
    tp_free(fresh);
    return status;
}
