/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated device memory. Callers see an address range without any access; the content is
 * a memory file that is mapped a second time elsewhere. There is no thread: progress() looks
 * at the clock, and does what should have been done by now.
 */
#include "device/sim/sim.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/config/config.h"
#include "base/container/list.h"
#include "waist/device_file.h"

enum { READ, WRITE, MOVE, ENGINES };
struct engine {
    struct tp_list running; /* in the order they end */
    tp_ns free_at;
    tp_ns last_end;
};

struct sim {
    struct tp_device device;
    struct engine engines[ENGINES];
    tp_ns latency;
    uint64_t bandwidth; /* [bytes/s], 0 = no limit */
    uint64_t until_failure; /* copies to start, 0 = none fails */
    bool by_net; /* transports may reach it */
};

struct memory {
    void *base; /* what callers see */
    struct tp_device_file file; /* the content */
    size_t users; /* copies under way, and its owner until it is freed */
};

/* State of a running copy, in tp_device_copy.room. */
struct running {
    struct tp_list link;
    tp_ns ends;
    bool fails;
};
_Static_assert(sizeof(struct running) <= sizeof(((struct tp_device_copy *)0)->room),
               "fits the room");

static struct sim *
sim_of(struct tp_device *d)
{
    return tp_container_of(d, struct sim, device);
}

void
tp_sim_set(struct tp_device *d, tp_ns latency, uint64_t bytes_per_s)
{
    sim_of(d)->latency = latency;
    sim_of(d)->bandwidth = bytes_per_s;
}

void
tp_sim_fail_nth(struct tp_device *d, uint64_t nth)
{
    sim_of(d)->until_failure = nth;
}

void *
tp_sim_content(void *mem)
{
    return ((struct memory *)mem)->file.base;
}

/* ---- memory -------------------------------------------------------------------------- */

/* Takes the file. */
static telpher_status
adopt(struct tp_device *d, struct tp_device_file file, struct tp_device_memory *ret)
{
    struct memory *m = tp_malloc(sizeof(*m), "simulated memory");
    void *base = m == NULL ? MAP_FAILED
                           : mmap(NULL, file.size, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        tp_device_file_close(&file);
        tp_free(m);
        return TELPHER_ERR_NO_MEMORY;
    }
    *m = (struct memory){.base = base, .file = file, .users = 1};
    *ret = (struct tp_device_memory){
        .device = d,
        .mem = m,
        .base = base,
        .size = file.size,
        .by_net = sim_of(d)->by_net ? file.base : NULL,
        .kind = TELPHER_MEM_SIM,
    };
    return TELPHER_OK;
}

static telpher_status
sim_alloc(struct tp_device *d, uint64_t bytes, struct tp_device_memory *ret)
{
    struct tp_device_file file;
    telpher_status status = tp_device_file_create("telpher-sim", bytes, &file);

    return status == TELPHER_OK ? adopt(d, file, ret) : status;
}

/* Drops a use of the memory. Copies under way are users, as with drivers, because the copies of a
 * dead rank still run to their end. */
static void
release(struct memory *m)
{
    if (--m->users != 0) {
        return;
    }
    munmap(m->base, m->file.size);
    tp_device_file_close(&m->file);
    tp_free(m);
}

static void
sim_free(struct tp_device *d, void *mem)
{
    release(mem);
}

static telpher_status
sim_export(struct tp_device *d, void *mem, uint8_t blob[TP_DEVICE_BLOB_MAX],
           size_t *ret_len)
{
    return tp_device_file_export(&((struct memory *)mem)->file, blob, ret_len);
}

static telpher_status
sim_import(struct tp_device *d, const uint8_t *blob, size_t len,
           struct tp_device_memory *ret)
{
    struct tp_device_file file;
    telpher_status status = tp_device_file_import(blob, len, &file);

    return status == TELPHER_OK ? adopt(d, file, ret) : status;
}

/* ---- copies -------------------------------------------------------------------------- */

static struct running *
running_of(struct tp_device_copy *copy)
{
    return (struct running *)(void *)&copy->room;
}

static struct tp_device_copy *
copy_of(struct tp_list *link)
{
    return tp_container_of(link, struct tp_device_copy, room);
}

static tp_ns
time_of_bytes(const struct sim *s, uint64_t bytes)
{
    /* in double: exact enough, and cannot overflow */
    return s->bandwidth == 0 ? 0 : (tp_ns)((double)bytes * 1e9 / (double)s->bandwidth);
}

/* Latest end first: queues may make a later copy wait longer, so an engine is in order. */
static int32_t
start(struct tp_device *d, struct tp_device_copy *copy, int which)
{
    struct sim *s = sim_of(d);
    struct engine *e = &s->engines[which];
    struct running *r = running_of(copy);
    const struct tp_sim_queue *queue = copy->queue;
    tp_ns begins = TP_MAX(tp_clock_ns(), e->free_at);

    if (queue != NULL) {
        begins = TP_MAX(begins, queue->busy_until);
    }
    e->free_at = tp_clock_add(begins, time_of_bytes(s, copy->box.region[0]));
    e->last_end = TP_MAX(e->last_end, tp_clock_add(e->free_at, s->latency));
    copy->start_ns = begins;
    r->ends = e->last_end;
    r->fails = s->until_failure == 1;
    s->until_failure -= s->until_failure > 0;
    ((struct memory *)copy->mem)->users++;
    if (which == MOVE) {
        ((struct memory *)copy->from)->users++;
    }
    tp_list_push_back(&e->running, &r->link);
    return 0;
}

static int32_t
sim_read(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, READ);
}

static int32_t
sim_write(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, WRITE);
}

static int32_t
sim_move(struct tp_device *d, struct tp_device_copy *copy)
{
    return start(d, copy, MOVE);
}

static void
do_copy(const struct tp_device_copy *copy, int which)
{
    uint8_t *here = tp_sim_content(copy->mem);
    size_t len = copy->box.region[0];

    here += copy->box.origin[0];
    if (which == READ) {
        memcpy(copy->host, here, len);
    } else if (which == WRITE) {
        memcpy(here, copy->host, len);
    } else {
        memcpy(here, (uint8_t *)tp_sim_content(copy->from) + copy->from_offset, len);
    }
}

static unsigned
progress_engine(struct engine *e, int which, tp_ns now)
{
    unsigned count = 0;
    struct tp_list *link;

    while ((link = tp_list_first(&e->running)) != NULL) {
        struct tp_device_copy *copy = copy_of(link);
        struct running *r = running_of(copy);
        bool fails = r->fails;

        if (r->ends > now) {
            break;
        }
        tp_list_remove(link);
        copy->end_ns = r->ends;
        if (!fails) {
            do_copy(copy, which);
        }
        release(copy->mem);
        if (which == MOVE) {
            release(copy->from);
        }
        copy->done(copy, fails ? TELPHER_ERR_DEVICE : TELPHER_OK);
        count++;
    }
    return count;
}

static unsigned
sim_progress(struct tp_device *d)
{
    struct sim *s = sim_of(d);
    tp_ns now;
    unsigned count = 0;
    bool idle = true;

    for (int i = 0; i < ENGINES; i++) {
        idle = idle && tp_list_is_empty(&s->engines[i].running);
    }
    if (idle) {
        return 0;
    }
    now = tp_clock_ns();
    for (int i = 0; i < ENGINES; i++) {
        count += progress_engine(&s->engines[i], i, now);
    }
    return count;
}

static void
sim_flush(struct tp_device *d)
{
    (void)d; /* everything runs as it is */
}

/* ---- the domain ---------------------------------------------------------------------- */

static telpher_status
set_option(struct sim *s, const char *option, struct tp_error *err)
{
    static const struct {
        const char *name;
        const struct tp_config_parser *parser;
        size_t offset;
    } known[] = {
        {"latency=", &tp_config_duration, offsetof(struct sim, latency)},
        {"bandwidth=", &tp_config_size, offsetof(struct sim, bandwidth)},
        {"fail=", &tp_config_u64, offsetof(struct sim, until_failure)},
        {"net=", &tp_config_bool, offsetof(struct sim, by_net)},
    };
    static const struct tp_config_entry unbounded = {.name = "SIM"};

    for (size_t i = 0; i < TP_ARRAY_LEN(known); i++) {
        size_t len = strlen(known[i].name);

        if (strncmp(option, known[i].name, len) == 0) {
            return known[i].parser->parse(&unbounded, option + len,
                                          (char *)s + known[i].offset, err);
        }
    }
    return tp_error_set(err, TELPHER_ERR_INVALID,
                        "expected latency=, bandwidth=, fail= or net=, found \"%.60s\"",
                        option);
}

static telpher_status
set_options(struct sim *s, const char *options, struct tp_error *err)
{
    struct tp_config_list list = {0};
    static const struct tp_config_entry entry = {.name = "SIM"};
    telpher_status status = tp_config_words.parse(&entry, options, &list, err);

    for (size_t i = 0; status == TELPHER_OK && i < list.count; i++) {
        status = set_option(s, list.items[i], err);
    }
    tp_config_words.clear(&list);
    return status == TELPHER_OK ? status : tp_error_prefix(err, "TELPHER_SIM");
}

static void
sim_destroy(struct tp_device *d)
{
    tp_free(sim_of(d));
}

static const struct tp_device_ops ops = {
    .name = "sim",
    .kind = TELPHER_MEM_SIM,
    .read = sim_read,
    .write = sim_write,
    .flush = sim_flush,
    .destroy = sim_destroy,
    .progress = sim_progress,
    .move = sim_move,
    .alloc = sim_alloc,
    .free = sim_free,
    .export_mem = sim_export,
    .import_mem = sim_import,
    .close_mem = sim_free,
    .chunk_alloc = tp_device_plain_chunk_alloc,
    .chunk_free = tp_device_plain_chunk_free,
    .pin = tp_device_plain_pin,
    .unpin = tp_device_plain_unpin,
};

static telpher_status
create(const struct tp_device_params *params, struct tp_device **ret_device,
       struct tp_error *err)
{
    struct sim *s = tp_zalloc(sizeof(*s), "simulated domain");
    telpher_status status;

    if (s == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the table of simulated memory");
    }
    for (int i = 0; i < ENGINES; i++) {
        tp_list_init(&s->engines[i].running);
    }
    s->device.ops = &ops;
    status = set_options(s, params->options, err);
    if (status != TELPHER_OK) {
        tp_free(s);
        return status;
    }
    *ret_device = &s->device;
    return TELPHER_OK;
}

const struct tp_device_maker tp_sim_maker = {
    .name = "sim",
    .kind = TELPHER_MEM_SIM,
    .create = create,
};
