/* SPDX-License-Identifier: Apache-2.0 */
/* Manages OpenCL memory and its sites (a site is a device in a context). */
#include "device/opencl/memory/memory.h"

#include <sys/mman.h>

#include "base/alloc.h"
#include "base/trace/log.h"
#include "device/opencl/domain.h"
#include "device/opencl/inventory.h"
#include "device/opencl/memory/memory_int.h"

telpher_status
tp_opencl_status(cl_int error)
{
    switch (error) {
    case CL_SUCCESS:
        return TELPHER_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
        return TELPHER_ERR_NO_MEMORY;
    case CL_DEVICE_NOT_AVAILABLE:
        return TELPHER_ERR_DEVICE_LOST;
    case CL_INVALID_MEM_OBJECT:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_DEVICE:
        return TELPHER_ERR_INVALID;
    default:
        return TELPHER_ERR_DEVICE;
    }
}

/* ---- sites --------------------------------------------------------------------------- */

static void
site_destroy(const struct tp_opencl *cl, struct tp_opencl_site *site)
{
    tp_list_remove(&site->link);
    tp_opencl_combine_fini(cl, site);
    for (int i = 0; i < TP_OPENCL_QUEUES; i++) {
        if (site->lanes[i].queue != NULL) {
            cl->ReleaseCommandQueue(site->lanes[i].queue);
        }
    }
    tp_free(site);
}

static bool
is_idle(const struct tp_opencl_site *site)
{
    for (int i = 0; i < TP_OPENCL_QUEUES; i++) {
        if (!tp_list_is_empty(&site->lanes[i].running)) {
            return false;
        }
    }
    return site->refs == 0;
}

/* Frees sites without memory. Not done at the free of their last memory, since that may
 * happen during an iteration over the sites. */
static void
reap(struct tp_opencl_memories *ms)
{
    tp_list_for_each_entry_safe(struct tp_opencl_site, site, &ms->sites, link) {
        if (site != ms->home && !ms->walking && is_idle(site)) {
            site_destroy(&ms->cl, site);
        }
    }
}

static telpher_status
site_create(struct tp_opencl_memories *ms, cl_context context, cl_device_id device,
            struct tp_opencl_site **ret_site)
{
    struct tp_opencl_site *site = tp_zalloc(sizeof(*site), "opencl site");
    cl_int error = CL_SUCCESS;

    if (site == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    tp_list_init(&site->link);
    site->context = context;
    site->device = device;
    for (int i = 0; i < TP_OPENCL_QUEUES && error == CL_SUCCESS; i++) {
        tp_list_init(&site->lanes[i].running);
        error = tp_opencl_queue_create(&ms->cl, context, device, 120, 0,
                                       &site->lanes[i].queue);
    }
    if (error != CL_SUCCESS) {
        tp_debug("mem", "opencl: cannot create a queue: %s",
                 tp_opencl_error_name(error));
        site_destroy(&ms->cl, site);
        return tp_opencl_status(error);
    }
    tp_opencl_usm_load(&ms->cl, site);
    tp_list_push_back(&ms->sites, &site->link);
    *ret_site = site;
    return TELPHER_OK;
}

static bool
is_cpu(const struct tp_opencl *cl, cl_device_id device)
{
    cl_device_type type = 0;

    (void)cl->GetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    return (type & CL_DEVICE_TYPE_CPU) != 0;
}

static telpher_status
site_get(struct tp_opencl_memories *ms, cl_context context, cl_device_id device,
         struct tp_opencl_site **ret_site)
{
    tp_list_for_each_entry(struct tp_opencl_site, site, &ms->sites, link) {
        if (site->context == context && site->device == device) {
            *ret_site = site;
            return TELPHER_OK;
        }
    }
    reap(ms);
    ms->device.on_processor |= is_cpu(&ms->cl, device);
    return site_create(ms, context, device, ret_site);
}

/* ---- finding a device ---------------------------------------------------------------- */

static telpher_status
load(struct tp_opencl_memories *ms)
{
    struct tp_error err = {0};

    if (!ms->loaded && !ms->absent) {
        if (tp_opencl_load(&ms->cl, &err) != TELPHER_OK) {
            tp_debug("mem", "no opencl memory: %s", tp_error_text(&err));
        }
        ms->loaded = err.code == TELPHER_OK && ms->cl.GetMemObjectInfo != NULL &&
                     ms->cl.GetContextInfo != NULL &&
                     ms->cl.GetCommandQueueInfo != NULL;
        ms->absent = !ms->loaded;
    }
    return ms->loaded ? TELPHER_OK : TELPHER_ERR_UNSUPPORTED;
}

/* Chooses the device of this rank; CPU devices count only if there is no other. */
static telpher_status
choose(const struct tp_opencl_memories *ms, const struct tp_opencl_inventory *inventory,
       cl_device_id *ret_device)
{
    uint32_t count = 0, index;
    bool cpus = true;

    for (uint32_t i = 0; i < inventory->device_count; i++) {
        cpus = cpus && is_cpu(&ms->cl, inventory->devices[i].id);
    }
    for (uint32_t i = 0; i < inventory->device_count; i++) {
        count += is_cpu(&ms->cl, inventory->devices[i].id) == cpus;
    }
    if (count == 0) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    index = ms->ordinal != UINT32_MAX ? ms->ordinal : ms->local_rank % count;
    for (uint32_t i = 0; i < inventory->device_count; i++) {
        if (is_cpu(&ms->cl, inventory->devices[i].id) == cpus && index-- == 0) {
            *ret_device = inventory->devices[i].id;
            return TELPHER_OK;
        }
    }
    tp_error("mem", "TELPHER_MAPPING: opencl device %u does not exist, there are %u",
             ms->ordinal, count);
    return TELPHER_ERR_UNSUPPORTED;
}

static telpher_status
make_home(struct tp_opencl_memories *ms, cl_device_id device)
{
    cl_int error;
    cl_context context = ms->cl.CreateContext(NULL, 1, &device, NULL, NULL, &error);
    telpher_status status;

    if (error != CL_SUCCESS) {
        tp_debug("mem", "opencl: cannot create a context: %s",
                 tp_opencl_error_name(error));
        return tp_opencl_status(error);
    }
    status = site_get(ms, context, device, &ms->home);
    ms->cl.ReleaseContext(context); /* the queues keep it */
    return status;
}

/* Creates a context if the program has named none. */
static telpher_status
need_home(struct tp_opencl_memories *ms)
{
    struct tp_opencl_inventory inventory;
    cl_device_id device;
    telpher_status status = load(ms);

    if (status != TELPHER_OK || ms->home != NULL) {
        return status;
    }
    if (!tp_list_is_empty(&ms->sites)) { /* the program's context serves as well */
        ms->home =
            tp_list_entry(tp_list_first(&ms->sites), struct tp_opencl_site, link);
        return TELPHER_OK;
    }
    status = tp_opencl_inventory_init(&ms->cl, NULL, 0, &inventory, NULL);
    if (status != TELPHER_OK) {
        return status == TELPHER_ERR_NO_MEMORY ? status : TELPHER_ERR_UNSUPPORTED;
    }
    status = choose(ms, &inventory, &device);
    tp_opencl_inventory_fini(&inventory);
    return status == TELPHER_OK ? make_home(ms, device) : status;
}

static telpher_status
site_of_queue(struct tp_opencl_memories *ms, cl_command_queue queue,
              struct tp_opencl_site **ret_site)
{
    cl_context context;
    cl_device_id device;

    if (ms->cl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(context), &context,
                                   NULL) != CL_SUCCESS ||
        ms->cl.GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device,
                                   NULL) != CL_SUCCESS) {
        return TELPHER_ERR_INVALID;
    }
    return site_get(ms, context, device, ret_site);
}

/* The first device of the buffer's context. */
static telpher_status
site_of_buffer(struct tp_opencl_memories *ms, cl_mem buffer,
               struct tp_opencl_site **ret_site)
{
    cl_device_id devices[64];
    cl_context context;
    size_t size = 0;

    if (ms->cl.GetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof(context), &context,
                                NULL) != CL_SUCCESS ||
        ms->cl.GetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(devices), devices,
                              &size) != CL_SUCCESS ||
        size < sizeof(devices[0])) {
        return TELPHER_ERR_INVALID;
    }
    return site_get(ms, context, devices[0], ret_site);
}

telpher_status
tp_opencl_memory_use(struct tp_device *d, cl_command_queue queue)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    telpher_status status = load(ms);

    if (status == TELPHER_OK && queue == NULL) {
        status = TELPHER_ERR_INVALID;
    }
    return status == TELPHER_OK ? site_of_queue(ms, queue, &ms->home) : status;
}

/* ---- memory -------------------------------------------------------------------------- */

static struct tp_opencl_memory *
memory_create(struct tp_opencl_site *site, uint64_t size)
{
    struct tp_opencl_memory *m = tp_zalloc(sizeof(*m), "opencl memory");

    tp_assert(site != NULL);
    if (m != NULL) {
        m->site = site;
        m->size = size;
        site->refs++;
    }
    return m;
}

static void
memory_destroy(struct tp_device *d, void *mem)
{
    const struct tp_opencl *cl = &tp_opencl_memories_of(d)->cl;
    struct tp_opencl_memory *m = mem;

    if (m->base != NULL && m->pointer == NULL) {
        munmap(m->base, m->size);
    }
    if (m->buffer != NULL) {
        cl->ReleaseMemObject(m->buffer);
    }
    m->site->refs--;
    tp_free(m);
}

/* Reserves an address range without access, so that it is unique. */
static telpher_status
reserve(struct tp_opencl_memory *m)
{
    void *base = mmap(NULL, m->size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        return TELPHER_ERR_NO_MEMORY;
    }
    m->base = base;
    return TELPHER_OK;
}

static void
tell(struct tp_device *d, struct tp_opencl_memory *m, struct tp_device_memory *ret)
{
    *ret = (struct tp_device_memory){
        .device = d,
        .mem = m,
        .base = m->base,
        .size = m->size,
        .kind = TELPHER_MEM_OPENCL,
    };
}

static telpher_status
memory_alloc(struct tp_device *d, uint64_t bytes, struct tp_device_memory *ret)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    telpher_status status = need_home(ms);
    struct tp_opencl_memory *m;
    cl_int error;

    if (status != TELPHER_OK) {
        return status;
    }
    m = memory_create(ms->home, bytes);
    if (m == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    m->buffer =
        ms->cl.CreateBuffer(ms->home->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
    status = tp_opencl_status(error);
    if (status == TELPHER_OK) {
        status = reserve(m);
    }
    if (status != TELPHER_OK) {
        memory_destroy(d, m);
        return status;
    }
    tell(d, m, ret);
    return TELPHER_OK;
}

static telpher_status
adopt_buffer(struct tp_opencl_memories *ms, cl_mem buffer, cl_command_queue queue,
             struct tp_opencl_memory **ret_memory)
{
    struct tp_opencl_site *site = NULL;
    struct tp_opencl_memory *m;
    cl_mem_object_type type = 0;
    telpher_status status;
    size_t size = 0;

    if (ms->cl.GetMemObjectInfo(buffer, CL_MEM_TYPE, sizeof(type), &type, NULL) !=
            CL_SUCCESS ||
        type != CL_MEM_OBJECT_BUFFER ||
        ms->cl.GetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof(size), &size, NULL) !=
            CL_SUCCESS) {
        return TELPHER_ERR_INVALID;
    }
    status = queue != NULL ? site_of_queue(ms, queue, &site)
                           : site_of_buffer(ms, buffer, &site);
    if (status != TELPHER_OK) {
        return status;
    }
    m = memory_create(site, size);
    if (m == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *ret_memory = m; /* from here on the caller frees it, also on failure */
    if (ms->cl.RetainMemObject(buffer) != CL_SUCCESS) {
        return TELPHER_ERR_INVALID;
    }
    m->buffer = buffer;
    return reserve(m);
}

static telpher_status
adopt_pointer(struct tp_opencl_memories *ms, struct tp_opencl_site *site, void *pointer,
              uint64_t bytes, struct tp_opencl_memory **ret_memory)
{
    struct tp_opencl_memory *m;

    if (site == NULL) { /* the program has not named a context for it */
        return TELPHER_ERR_INVALID;
    }
    m = memory_create(site, bytes);
    if (m == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    *ret_memory = m;
    m->base = pointer;
    m->pointer = pointer;
    return tp_opencl_pointer_classify(ms, m);
}

/* Gives what was adopted, or destroys what was made of it. */
static telpher_status
finish_adopt(struct tp_device *d, struct tp_opencl_memory *m, telpher_status status,
             struct tp_device_memory *ret)
{
    if (status == TELPHER_OK) {
        tell(d, m, ret);
    } else if (m != NULL) {
        memory_destroy(d, m);
    }
    return status;
}

static telpher_status
memory_adopt(struct tp_device *d, void *object, uint64_t bytes, void *queue,
             struct tp_device_memory *ret)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    struct tp_opencl_site *site = ms->home;
    struct tp_opencl_memory *m = NULL;
    telpher_status status = load(ms);

    if (status == TELPHER_OK && bytes == 0) {
        status = adopt_buffer(ms, object, queue, &m);
    } else if (status == TELPHER_OK) {
        status = queue != NULL ? site_of_queue(ms, queue, &site) : TELPHER_OK;
        status =
            status == TELPHER_OK ? adopt_pointer(ms, site, object, bytes, &m) : status;
    }
    if (m != NULL) {
        m->queue = queue;
    }
    return finish_adopt(d, m, status, ret);
}

static telpher_status
memory_adopt_allocated(struct tp_device *d, void *context, void *device, void *ptr,
                       uint64_t bytes, struct tp_device_memory *ret)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);
    struct tp_opencl_site *site = NULL;
    struct tp_opencl_memory *m = NULL;
    telpher_status status = load(ms);

    if (status == TELPHER_OK) {
        status = site_get(ms, context, device, &site);
    }
    if (status == TELPHER_OK) {
        status = adopt_pointer(ms, site, ptr, bytes, &m);
    }
    return finish_adopt(d, m, status, ret);
}

cl_mem
tp_opencl_memory_buffer(void *mem)
{
    return ((struct tp_opencl_memory *)mem)->buffer;
}

/* ---- the domain ---------------------------------------------------------------------- */

static void
flush(struct tp_device *d)
{
    (void)d; /* each copy is flushed when it is started */
}

static void
destroy(struct tp_device *d)
{
    struct tp_opencl_memories *ms = tp_opencl_memories_of(d);

    tp_list_for_each_safe(pos, &ms->sites) {
        site_destroy(&ms->cl, tp_list_entry(pos, struct tp_opencl_site, link));
    }
    tp_free(ms);
}

static const struct tp_device_ops ops = {
    .name = "opencl",
    .kind = TELPHER_MEM_OPENCL,
    .read = tp_opencl_memory_read,
    .write = tp_opencl_memory_write,
    .flush = flush,
    .destroy = destroy,
    .progress = tp_opencl_memory_progress,
    .move = tp_opencl_memory_move,
    .can_move = tp_opencl_memory_can_move,
    .combine = tp_opencl_combine,
    .alloc = memory_alloc,
    .free = memory_destroy,
    .adopt = memory_adopt,
    .adopt_allocated = memory_adopt_allocated,
    .release = memory_destroy,
    .chunk_alloc = tp_opencl_chunk_alloc,
    .chunk_free = tp_opencl_chunk_free,
    .pin = tp_opencl_pin,
    .unpin = tp_opencl_unpin,
};

static telpher_status
create(const struct tp_device_params *params, struct tp_device **ret_device,
       struct tp_error *err)
{
    struct tp_opencl_memories *ms = tp_zalloc(sizeof(*ms), "opencl domain");

    if (ms == NULL) {
        return tp_error_set(err, TELPHER_ERR_NO_MEMORY,
                            "out of memory for the table of OpenCL memory");
    }
    ms->device.ops = &ops;
    ms->ordinal = params->ordinal;
    ms->local_rank = params->local_rank;
    tp_list_init(&ms->sites);
    tp_list_init(&ms->pinned);
    *ret_device = &ms->device;
    return TELPHER_OK;
}

const struct tp_device_maker tp_opencl_maker = {
    .name = "opencl",
    .kind = TELPHER_MEM_OPENCL,
    .create = create,
};
