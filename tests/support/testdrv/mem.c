/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and sub-buffers of the test driver. */
#include "td.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_ACCESS (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY)
#define HOST_ACCESS                                                                    \
    (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS)
#define HOST_PLACE (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)

/* The program's memory must be there as long as a buffer over it: other drivers use it. */
static void
touch(const cl_mem m)
{
    const volatile uint8_t *bytes = m->data;

    if (m->host_ptr != NULL && m->parent == NULL) {
        (void)bytes[0];
        (void)bytes[m->size - 1];
    }
}

static void
destroy_mem(struct td_obj *obj)
{
    cl_mem m = (cl_mem)obj;

    touch(m);
    td_callback_run(m->on_destroy, m); /* the program may free host_ptr from here on */
    while (m->maps != NULL) {
        struct td_map *map = m->maps;

        m->maps = map->next;
        free(map);
    }
    if (m->owns_data) {
        free(m->data);
    }
    td_unref(m->parent);
    td_unref(m->context);
    free(m);
}

static bool
at_most_one(cl_mem_flags flags)
{
    return (flags & (flags - 1)) == 0;
}

static cl_int
check_flags(cl_mem_flags flags)
{
    cl_mem_flags place = flags & HOST_PLACE;

    if ((flags & ~(DEVICE_ACCESS | HOST_ACCESS | HOST_PLACE)) != 0 ||
        !at_most_one(flags & DEVICE_ACCESS) || !at_most_one(flags & HOST_ACCESS) ||
        ((place & CL_MEM_USE_HOST_PTR) != 0 && place != CL_MEM_USE_HOST_PTR)) {
        return CL_INVALID_VALUE;
    }
    return CL_SUCCESS;
}

static cl_int
check_create(cl_context context, cl_mem_flags flags, size_t size, const void *host_ptr)
{
    bool wants_ptr = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
    cl_int err;

    if (!td_is(context, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    err = check_flags(flags);
    if (err != CL_SUCCESS) {
        return err;
    }
    if (size == 0 || size > TD_ALLOC_MAX_BYTES) {
        return CL_INVALID_BUFFER_SIZE;
    }
    return wants_ptr == (host_ptr != NULL) ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

static bool
place_data(cl_mem m, void *host_ptr)
{
    void *data;

    if ((m->flags & CL_MEM_USE_HOST_PTR) != 0) {
        m->host_ptr = host_ptr;
        m->data = host_ptr;
        return true;
    }
    if (posix_memalign(&data, TD_BASE_ALIGN_BYTES, m->size) != 0) {
        return false;
    }
    m->data = data;
    m->owns_data = true;
    if (host_ptr != NULL) {
        memcpy(m->data, host_ptr, m->size);
    } else {
        memset(m->data, 0xcd,
               m->size); /* new memory is undefined, and should look so */
    }
    return true;
}

static cl_int
create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
              cl_mem *ret_mem)
{
    cl_int err = check_create(context, flags, size, host_ptr);
    cl_mem m;

    if (err != CL_SUCCESS) {
        return err;
    }
    m = td_new(TD_MEM, sizeof(*m), destroy_mem);
    if (m == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    m->flags = (flags & DEVICE_ACCESS) != 0 ? flags : flags | CL_MEM_READ_WRITE;
    m->size = size;
    if (!place_data(m, host_ptr)) {
        td_unref(m);
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    td_ref(context);
    m->context = context;
    *ret_mem = m;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_mem CL_API_CALL
td_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                  cl_int *errcode_ret)
{
    cl_mem m = NULL;
    cl_int err = td_enter("clCreateBuffer", "context=%u flags=%#llx size=%zu",
                          td_id(context), (unsigned long long)flags, size);

    if (err == CL_SUCCESS) {
        err = create_buffer(context, flags, size, host_ptr, &m);
    }
    td_set_error(errcode_ret, err);
    return m;
}

CL_API_ENTRY cl_mem CL_API_CALL
td_clCreateBufferWithProperties(cl_context context, const cl_mem_properties *props,
                                cl_mem_flags flags, size_t size, void *host_ptr,
                                cl_int *errcode_ret)
{
    cl_mem m = NULL;
    cl_int err =
        td_enter("clCreateBufferWithProperties", "context=%u flags=%#llx size=%zu",
                 td_id(context), (unsigned long long)flags, size);

    if (err == CL_SUCCESS && props != NULL && props[0] != 0) {
        err = CL_INVALID_PROPERTY;
    }
    if (err == CL_SUCCESS) {
        err = create_buffer(context, flags, size, host_ptr, &m);
    }
    td_set_error(errcode_ret, err);
    return m;
}

/* A sub-buffer inherits flags that it does not set from its parent. */
static cl_int
inherit_flags(cl_mem_flags parent, cl_mem_flags own, cl_mem_flags *ret_flags)
{
    cl_mem_flags access = own & DEVICE_ACCESS;
    cl_mem_flags host = own & HOST_ACCESS;

    if (check_flags(own) != CL_SUCCESS || (own & HOST_PLACE) != 0 ||
        ((parent & CL_MEM_WRITE_ONLY) != 0 && access != 0 &&
         access != CL_MEM_WRITE_ONLY) ||
        ((parent & CL_MEM_READ_ONLY) != 0 && access != 0 &&
         access != CL_MEM_READ_ONLY) ||
        ((parent & CL_MEM_HOST_WRITE_ONLY) != 0 &&
         (host & CL_MEM_HOST_READ_ONLY) != 0) ||
        ((parent & CL_MEM_HOST_READ_ONLY) != 0 &&
         (host & CL_MEM_HOST_WRITE_ONLY) != 0) ||
        ((parent & CL_MEM_HOST_NO_ACCESS) != 0 &&
         (host & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY)) != 0)) {
        return CL_INVALID_VALUE;
    }
    *ret_flags = (access != 0 ? access : parent & DEVICE_ACCESS) |
                 (host != 0 ? host : parent & HOST_ACCESS) | (parent & HOST_PLACE);
    return CL_SUCCESS;
}

static cl_int
create_sub_buffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type,
                  const cl_buffer_region *region, cl_mem *ret_mem)
{
    cl_int err;
    cl_mem m;

    if (!td_is(parent, TD_MEM) || parent->parent != NULL) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (type != CL_BUFFER_CREATE_TYPE_REGION || region == NULL ||
        !td_mem_in_range(parent, region->origin, region->size)) {
        return CL_INVALID_VALUE;
    }
    if (region->size == 0) {
        return CL_INVALID_BUFFER_SIZE;
    }
    if (region->origin % TD_BASE_ALIGN_BYTES != 0) {
        return CL_MISALIGNED_SUB_BUFFER_OFFSET;
    }
    err = inherit_flags(parent->flags, flags, &flags);
    if (err != CL_SUCCESS) {
        return err;
    }
    m = td_new(TD_MEM, sizeof(*m), destroy_mem);
    if (m == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    td_ref(parent);
    td_ref(parent->context);
    m->parent = parent;
    m->context = parent->context;
    m->flags = flags;
    m->size = region->size;
    m->origin = region->origin;
    m->data = parent->data + region->origin;
    m->host_ptr = parent->host_ptr != NULL ? m->data : NULL;
    *ret_mem = m;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_mem CL_API_CALL
td_clCreateSubBuffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type,
                     const void *info, cl_int *errcode_ret)
{
    const cl_buffer_region *region = info;
    cl_mem m = NULL;
    cl_int err = td_enter("clCreateSubBuffer", "mem=%u flags=%#llx origin=%zu size=%zu",
                          td_id(parent), (unsigned long long)flags,
                          region != NULL ? region->origin : 0,
                          region != NULL ? region->size : 0);

    if (err == CL_SUCCESS) {
        err = create_sub_buffer(parent, flags, type, region, &m);
    }
    td_set_error(errcode_ret, err);
    return m;
}

bool
td_mem_in_range(cl_mem mem, size_t off, size_t len)
{
    return off <= mem->size && len <= mem->size - off;
}

bool
td_mem_map_add(cl_mem mem, void *ptr)
{
    struct td_map *map = malloc(sizeof(*map));

    if (map == NULL) {
        return false;
    }
    map->ptr = ptr;
    pthread_mutex_lock(&td_mutex);
    map->next = mem->maps;
    mem->maps = map;
    pthread_mutex_unlock(&td_mutex);
    return true;
}

bool
td_mem_map_remove(cl_mem mem, void *ptr)
{
    struct td_map *found = NULL;

    pthread_mutex_lock(&td_mutex);
    for (struct td_map **p = &mem->maps; *p != NULL; p = &(*p)->next) {
        if ((*p)->ptr == ptr) {
            found = *p;
            *p = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&td_mutex);
    free(found);
    return found != NULL;
}

static cl_uint
map_count(cl_mem mem)
{
    cl_uint count = 0;

    pthread_mutex_lock(&td_mutex);
    for (struct td_map *map = mem->maps; map != NULL; map = map->next) {
        count++;
    }
    pthread_mutex_unlock(&td_mutex);
    return count;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clRetainMemObject(cl_mem mem)
{
    cl_int err = td_enter("clRetainMemObject", "mem=%u", td_id(mem));

    return err != CL_SUCCESS ? err : td_retain(mem, TD_MEM, CL_INVALID_MEM_OBJECT);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clReleaseMemObject(cl_mem mem)
{
    cl_int err = td_enter("clReleaseMemObject", "mem=%u", td_id(mem));

    return err != CL_SUCCESS ? err : td_release(mem, TD_MEM, CL_INVALID_MEM_OBJECT);
}

CL_API_ENTRY cl_int CL_API_CALL
td_clSetMemObjectDestructorCallback(cl_mem mem, void(CL_CALLBACK *fn)(cl_mem, void *),
                                    void *data)
{
    cl_int err = td_enter("clSetMemObjectDestructorCallback", "mem=%u", td_id(mem));

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(mem, TD_MEM)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (fn == NULL) {
        return CL_INVALID_VALUE;
    }
    return td_callback_add(&mem->on_destroy, (void(CL_CALLBACK *)(void *, void *))fn,
                           data)
               ? CL_SUCCESS
               : CL_OUT_OF_HOST_MEMORY;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetMemObjectInfo(cl_mem m, cl_mem_info name, size_t size, void *value,
                      size_t *ret_size)
{
    const struct td_out *out = TD_OUT(size, value, ret_size);
    cl_int err = td_enter("clGetMemObjectInfo", "mem=%u name=%#x", td_id(m), name);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(m, TD_MEM)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (td_script()->version12 && name > CL_MEM_OFFSET) {
        return CL_INVALID_VALUE;
    }
    switch (name) {
    case CL_MEM_TYPE:
        return td_out_u32(out, CL_MEM_OBJECT_BUFFER);
    case CL_MEM_FLAGS:
        return td_out_u64(out, m->flags);
    case CL_MEM_SIZE:
        return td_out_size(out, m->size);
    case CL_MEM_HOST_PTR:
        return td_out_ptr(out, m->host_ptr);
    case CL_MEM_MAP_COUNT:
        return td_out_u32(out, map_count(m));
    case CL_MEM_REFERENCE_COUNT:
        return td_out_u32(out, td_api_refs(m));
    case CL_MEM_CONTEXT:
        return td_out_ptr(out, m->context);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return td_out_ptr(out, m->parent);
    case CL_MEM_OFFSET:
        return td_out_size(out, m->origin);
    case CL_MEM_USES_SVM_POINTER:
        return td_out_u32(out, CL_FALSE);
    case CL_MEM_PROPERTIES:
        return td_out_bytes(out, NULL, 0);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL
td_clGetSupportedImageFormats(cl_context context, cl_mem_flags flags,
                              cl_mem_object_type type, cl_uint num_entries,
                              cl_image_format *formats, cl_uint *num_formats)
{
    cl_int err =
        td_enter("clGetSupportedImageFormats", "context=%u flags=%#llx type=%#x",
                 td_id(context), (unsigned long long)flags, type);

    if (err != CL_SUCCESS) {
        return err;
    }
    if (!td_is(context, TD_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if (num_entries == 0 && formats != NULL) {
        return CL_INVALID_VALUE;
    }
    if (num_formats != NULL) {
        *num_formats = 0; /* no device has images */
    }
    return CL_SUCCESS;
}
