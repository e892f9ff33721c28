/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory for staging. OpenCL has no call for it; a buffer of the host's memory
 * that stays mapped is what drivers pin. Where that cannot be had, any memory does.
 */
#include "base/alloc.h"
#include "core/device_file.h"
#include "device/opencl/memory_int.h"

struct pinned {
    struct tp_list link;
    struct tp_opencl_site *site;
    cl_mem buffer;
    void *chunk;
};

static struct pinned *
pin(struct tp_opencl_memories *ms, struct tp_opencl_site *site, size_t bytes)
{
    struct pinned *p = tp_zalloc(sizeof(*p), "pinned chunks");
    cl_int error;

    if (p == NULL) {
        return NULL;
    }
    tp_list_init(&p->link);
    p->site = site;
    p->buffer = ms->cl.CreateBuffer(
        site->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &error);
    if (error != CL_SUCCESS) {
        tp_free(p);
        return NULL;
    }
    p->chunk = ms->cl.EnqueueMapBuffer(site->lanes[TP_OPENCL_WRITE].queue, p->buffer,
                                       CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                       NULL, NULL, &error);
    if (error != CL_SUCCESS) {
        ms->cl.ReleaseMemObject(p->buffer);
        tp_free(p);
        return NULL;
    }
    return p;
}

void *
tp_opencl_chunk_alloc(struct tp_device *d, size_t bytes)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    struct tp_list *first = tp_list_first(&ms->sites);
    struct pinned *p = NULL;

    if (first != NULL && ms->cl.EnqueueMapBuffer != NULL &&
        ms->cl.EnqueueUnmapMemObject != NULL) {
        p = pin(ms, tp_list_entry(first, struct tp_opencl_site, link), bytes);
    }
    if (p == NULL) {
        return tp_device_plain_chunk_alloc(d, bytes);
    }
    p->site->refs++;
    tp_list_push_back(&ms->pinned, &p->link);
    return p->chunk;
}

void
tp_opencl_chunk_free(struct tp_device *d, void *chunk, size_t bytes)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);

    tp_list_for_each(pos, &ms->pinned)
    {
        struct pinned *p = tp_list_entry(pos, struct pinned, link);

        if (p->chunk == chunk) {
            cl_command_queue queue = p->site->lanes[TP_OPENCL_WRITE].queue;

            tp_list_remove(pos);
            (void)ms->cl.EnqueueUnmapMemObject(queue, p->buffer, chunk, 0, NULL, NULL);
            (void)ms->cl.Flush(queue);
            ms->cl.ReleaseMemObject(p->buffer);
            p->site->refs--;
            tp_free(p);
            return;
        }
    }
    tp_device_plain_chunk_free(d, chunk, bytes);
}
