/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates pinned host memory for staging. OpenCL has no call for it, but drivers pin a
 * host memory buffer that stays mapped, and memory used for a buffer. Where neither works,
 * ordinary memory is used.
 */
#include "base/alloc.h"
#include "device/opencl/memory/memory_int.h"
#include "waist/device_file.h"

struct pinned {
    struct tp_list link;
    struct tp_opencl_site *site;
    cl_mem buffer;
    void *chunk;
    bool mapped; /* false: the caller's memory */
};

/* Makes the buffer; there may be no driver yet. */
static struct pinned *
make(struct tp_opencl_memories *ms, cl_mem_flags flags, void *memory, size_t bytes)
{
    struct tp_list *first = tp_list_first(&ms->sites);
    struct pinned *p = first != NULL ? tp_zalloc(sizeof(*p), "pinned chunks") : NULL;
    cl_int error;

    if (p == NULL) {
        return NULL;
    }
    tp_list_init(&p->link);
    p->site = tp_list_entry(first, struct tp_opencl_site, link);
    p->buffer = ms->cl.CreateBuffer(p->site->context, CL_MEM_READ_WRITE | flags, bytes,
                                    memory, &error);
    if (error != CL_SUCCESS) {
        tp_free(p);
        return NULL;
    }
    p->chunk = memory;
    return p;
}

static void
keep(struct tp_opencl_memories *ms, struct pinned *p)
{
    p->site->refs++;
    tp_list_push_back(&ms->pinned, &p->link);
}

/* Ends one. @return false if there is none for this memory */
static bool
end(struct tp_opencl_memories *ms, void *chunk)
{
    tp_list_for_each_entry(struct pinned, p, &ms->pinned, link) {
        cl_command_queue queue = p->site->lanes[TP_OPENCL_WRITE].queue;

        if (p->chunk != chunk) {
            continue;
        }
        tp_list_remove(&p->link);
        if (p->mapped) {
            (void)ms->cl.EnqueueUnmapMemObject(queue, p->buffer, chunk, 0, NULL, NULL);
            (void)ms->cl.Flush(queue);
        }
        ms->cl.ReleaseMemObject(p->buffer);
        p->site->refs--;
        tp_free(p);
        return true;
    }
    return false;
}

/* ---- memory of the driver ---- */

static struct pinned *
make_mapped(struct tp_opencl_memories *ms, size_t bytes)
{
    struct pinned *p = make(ms, CL_MEM_ALLOC_HOST_PTR, NULL, bytes);
    cl_int error;

    if (p == NULL) {
        return NULL;
    }
    p->chunk = ms->cl.EnqueueMapBuffer(p->site->lanes[TP_OPENCL_WRITE].queue, p->buffer,
                                       CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                       NULL, NULL, &error);
    if (error != CL_SUCCESS) {
        ms->cl.ReleaseMemObject(p->buffer);
        tp_free(p);
        return NULL;
    }
    p->mapped = true;
    return p;
}

void *
tp_opencl_chunk_alloc(struct tp_device *d, size_t bytes)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    struct pinned *p = NULL;

    if (ms->cl.EnqueueMapBuffer != NULL && ms->cl.EnqueueUnmapMemObject != NULL) {
        p = make_mapped(ms, bytes);
    }
    if (p == NULL) {
        return tp_device_plain_chunk_alloc(d, bytes);
    }
    keep(ms, p);
    return p->chunk;
}

void
tp_opencl_chunk_free(struct tp_device *d, void *chunk, size_t bytes)
{
    if (!end(tp_opencl_memories_of(d), chunk)) {
        tp_device_plain_chunk_free(d, chunk, bytes);
    }
}

/* ---- memory of the caller ---- */

telpher_status
tp_opencl_pin(struct tp_device *d, void *memory, size_t bytes)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    struct pinned *p = make(ms, CL_MEM_USE_HOST_PTR, memory, bytes);

    if (p == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    keep(ms, p);
    return TELPHER_OK;
}

void
tp_opencl_unpin(struct tp_device *d, void *memory, size_t bytes)
{
    (void)end(tp_opencl_memories_of(d), memory);
}
