/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of fuzz_executor: see driver.h. */
#include "../../support/testdrv/td.h" /* first: it wants old calls, too */

#include "driver.h"
#include "fuzz.h"

enum { IMAGES_MAX = 4096, PARTS_MAX = 64 };

/* ---- images: buffers of their size ---------------------------------------------------- */

/** [bytes] of an element of each live image. */
static struct {
    cl_mem mem;
    size_t element;
} images[IMAGES_MAX];
static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;

static void
note_image(cl_mem mem, size_t element)
{
    static size_t next; /* the oldest goes: no input has so many alive */
    size_t i = IMAGES_MAX;

    pthread_mutex_lock(&images_lock);
    for (size_t k = 0; k < IMAGES_MAX && i == IMAGES_MAX; k++) {
        i = images[k].mem == mem ? k : i; /* of a block that is used again */
    }
    if (i == IMAGES_MAX) {
        i = next++ % IMAGES_MAX;
    }
    images[i].mem = mem;
    images[i].element = element;
    pthread_mutex_unlock(&images_lock);
}

static size_t
bytes_of(cl_mem mem, const size_t region[3])
{
    size_t element = 0;

    pthread_mutex_lock(&images_lock);
    for (size_t k = 0; k < IMAGES_MAX; k++) {
        if (images[k].mem == mem) {
            element = images[k].element;
        }
    }
    pthread_mutex_unlock(&images_lock);
    require(element != 0);
    return element * region[0] * region[1] * region[2];
}

/* Large enough for what the executor counts: it has checked that nothing overflows. */
static cl_mem CL_API_CALL
create_image(cl_context context, cl_mem_flags flags, const cl_image_format *format,
             const cl_image_desc *desc, void *host, cl_int *ret_error)
{
    size_t element = format->image_channel_data_type == CL_FLOAT ? 16 : 4;
    size_t rows = desc->image_height != 0 ? desc->image_height : 1;
    size_t slices = desc->image_depth != 0 ? desc->image_depth : 1;
    size_t layers = desc->image_array_size != 0 ? desc->image_array_size : 1;
    cl_mem mem;

    if (format->image_channel_order != CL_RGBA || desc->image_width > 4096 ||
        rows > 4096 || slices > 64 || layers > 64) {
        *ret_error = CL_IMAGE_FORMAT_NOT_SUPPORTED;
        return NULL;
    }
    if (desc->mem_object != NULL &&
        td_clGetMemObjectInfo(desc->mem_object, CL_MEM_SIZE, 0, NULL, NULL) !=
            CL_SUCCESS) {
        abort();
    }
    mem = td_clCreateBuffer(context, flags,
                            element * desc->image_width * rows * slices * layers, host,
                            ret_error);
    if (mem != NULL) {
        note_image(mem, element);
    }
    return mem;
}

static cl_int CL_API_CALL
read_image(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin,
           const size_t *region, size_t row_pitch, size_t slice_pitch, void *dst,
           cl_uint count, const cl_event *waits, cl_event *event)
{
    (void)origin, (void)row_pitch, (void)slice_pitch;
    return td_clEnqueueReadBuffer(queue, image, blocking, 0, bytes_of(image, region),
                                  dst, count, waits, event);
}

static cl_int CL_API_CALL
write_image(cl_command_queue queue, cl_mem image, cl_bool blocking,
            const size_t *origin, const size_t *region, size_t row_pitch,
            size_t slice_pitch, const void *src, cl_uint count, const cl_event *waits,
            cl_event *event)
{
    (void)origin, (void)row_pitch, (void)slice_pitch;
    return td_clEnqueueWriteBuffer(queue, image, blocking, 0, bytes_of(image, region),
                                   src, count, waits, event);
}

static cl_int CL_API_CALL
fill_image(cl_command_queue queue, cl_mem image, const void *colour,
           const size_t *origin, const size_t *region, cl_uint count,
           const cl_event *waits, cl_event *event)
{
    (void)origin;
    return td_clEnqueueFillBuffer(queue, image, colour, 4, 0, bytes_of(image, region),
                                  count, waits, event);
}

static cl_int CL_API_CALL
copy_image(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin,
           const size_t *to_origin, const size_t *region, cl_uint count,
           const cl_event *waits, cl_event *event)
{
    (void)from_origin, (void)to_origin;
    require(bytes_of(from, region) == bytes_of(to, region));
    return td_clEnqueueCopyBuffer(queue, from, to, 0, 0, bytes_of(from, region), count,
                                  waits, event);
}

static cl_int CL_API_CALL
copy_to_buffer(cl_command_queue queue, cl_mem image, cl_mem buffer,
               const size_t *origin, const size_t *region, size_t offset, cl_uint count,
               const cl_event *waits, cl_event *event)
{
    (void)origin;
    return td_clEnqueueCopyBuffer(queue, image, buffer, 0, offset,
                                  bytes_of(image, region), count, waits, event);
}

static cl_int CL_API_CALL
copy_from_buffer(cl_command_queue queue, cl_mem buffer, cl_mem image, size_t offset,
                 const size_t *origin, const size_t *region, cl_uint count,
                 const cl_event *waits, cl_event *event)
{
    (void)origin;
    return td_clEnqueueCopyBuffer(queue, buffer, image, offset, 0,
                                  bytes_of(image, region), count, waits, event);
}

static cl_sampler CL_API_CALL
create_sampler(cl_context context, cl_bool normalized, cl_addressing_mode addressing,
               cl_filter_mode filter, cl_int *ret_error)
{
    void *sampler = malloc(1);

    (void)context, (void)normalized, (void)addressing, (void)filter;
    *ret_error = sampler != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return sampler;
}

static cl_int CL_API_CALL
release_sampler(cl_sampler sampler)
{
    free(sampler);
    return CL_SUCCESS;
}

/* ---- parts of devices: the device itself ---------------------------------------------- */

static cl_int CL_API_CALL
create_parts(cl_device_id device, const cl_device_partition_property *how, cl_uint room,
             cl_device_id *ret_parts, cl_uint *ret_count)
{
    cl_uint count = 0;

    if (how[0] == CL_DEVICE_PARTITION_BY_COUNTS) {
        while (how[count + 1] != 0) {
            count++;
        }
    } else {
        count = (cl_uint)how[1];
        require(how[2] == 0);
    }
    if (count == 0 || count > PARTS_MAX || (ret_parts != NULL && room < count)) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; ret_parts != NULL && i < count; i++) {
        ret_parts[i] = device;
    }
    if (ret_count != NULL) {
        *ret_count = count;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
keep_device(cl_device_id device)
{
    (void)device;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
device_info(cl_device_id device, cl_device_info param, size_t size, void *value,
            size_t *ret_size)
{
    static const cl_name_version extension = {CL_MAKE_VERSION(0, 9, 0),
                                              CL_KHR_COMMAND_BUFFER_EXTENSION_NAME};

    return param == CL_DEVICE_EXTENSIONS_WITH_VERSION
               ? td_out_bytes(TD_OUT(size, value, ret_size), &extension,
                              sizeof(extension))
               : td_clGetDeviceInfo(device, param, size, value, ret_size);
}

/* ---- command buffers ------------------------------------------------------------------- */

struct _cl_command_buffer_khr {
    bool finalized;
    cl_sync_point_khr points;
};

static cl_command_buffer_khr CL_API_CALL
create_commands(cl_uint count, const cl_command_queue *queues,
                const cl_command_buffer_properties_khr *properties, cl_int *ret_error)
{
    cl_command_buffer_khr c = calloc(1, sizeof(*c));

    (void)properties;
    require(count == 1 && td_is(queues[0], TD_QUEUE));
    *ret_error = c != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return c;
}

static cl_int CL_API_CALL
finalize_commands(cl_command_buffer_khr c)
{
    require(!c->finalized);
    c->finalized = true;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
release_commands(cl_command_buffer_khr c)
{
    free(c);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
enqueue_commands(cl_uint count, cl_command_queue *queues, cl_command_buffer_khr c,
                 cl_uint wait_count, const cl_event *waits, cl_event *event)
{
    require(count == 1 && c->finalized);
    return td_clEnqueueMarkerWithWaitList(queues[0], wait_count, waits, event);
}

/* A command whose objects the caller has looked at. */
static cl_int
record(cl_command_buffer_khr c, cl_uint count, const cl_sync_point_khr *waits,
       cl_sync_point_khr *ret_point)
{
    require(!c->finalized && (count == 0) == (waits == NULL));
    for (cl_uint i = 0; i < count; i++) {
        require(waits[i] >= 1 && waits[i] <= c->points);
    }
    *ret_point = ++c->points;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
record_barrier(cl_command_buffer_khr c, cl_command_queue queue, cl_uint count,
               const cl_sync_point_khr *waits, cl_sync_point_khr *ret_point,
               cl_mutable_command_khr *ret_handle)
{
    (void)queue, (void)ret_handle;
    return record(c, count, waits, ret_point);
}

static cl_int CL_API_CALL
record_copy(cl_command_buffer_khr c, cl_command_queue queue, cl_mem from, cl_mem to,
            size_t from_offset, size_t to_offset, size_t size, cl_uint count,
            const cl_sync_point_khr *waits, cl_sync_point_khr *ret_point,
            cl_mutable_command_khr *ret_handle)
{
    (void)queue, (void)ret_handle;
    return td_mem_in_range(from, from_offset, size) &&
                   td_mem_in_range(to, to_offset, size)
               ? record(c, count, waits, ret_point)
               : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL
record_copy_rect(cl_command_buffer_khr c, cl_command_queue queue, cl_mem from,
                 cl_mem to, const size_t *from_origin, const size_t *to_origin,
                 const size_t *region, size_t from_row, size_t from_slice,
                 size_t to_row, size_t to_slice, cl_uint count,
                 const cl_sync_point_khr *waits, cl_sync_point_khr *ret_point,
                 cl_mutable_command_khr *ret_handle)
{
    (void)queue, (void)ret_handle, (void)from_row, (void)from_slice, (void)to_row;
    (void)to_slice;
    require(td_is(from, TD_MEM) && td_is(to, TD_MEM));
    touch(from_origin, 3 * sizeof(size_t));
    touch(to_origin, 3 * sizeof(size_t));
    touch(region, 3 * sizeof(size_t));
    return record(c, count, waits, ret_point);
}

static cl_int CL_API_CALL
record_fill(cl_command_buffer_khr c, cl_command_queue queue, cl_mem mem,
            const void *pattern, size_t pattern_size, size_t offset, size_t size,
            cl_uint count, const cl_sync_point_khr *waits, cl_sync_point_khr *ret_point,
            cl_mutable_command_khr *ret_handle)
{
    (void)queue, (void)ret_handle;
    touch(pattern, pattern_size);
    return td_mem_in_range(mem, offset, size) ? record(c, count, waits, ret_point)
                                              : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL
record_launch(cl_command_buffer_khr c, cl_command_queue queue,
              const cl_ndrange_kernel_command_properties_khr *properties,
              cl_kernel kernel, cl_uint dims, const size_t *offset,
              const size_t *global, const size_t *local, cl_uint count,
              const cl_sync_point_khr *waits, cl_sync_point_khr *ret_point,
              cl_mutable_command_khr *ret_handle)
{
    (void)queue, (void)properties, (void)ret_handle;
    require(td_is(kernel, TD_KERNEL) && dims >= 1 && dims <= 3);
    touch(offset, dims * sizeof(size_t));
    touch(global, dims * sizeof(size_t));
    if (local != NULL) {
        touch(local, dims * sizeof(size_t));
    }
    return record(c, count, waits, ret_point);
}

static void *CL_API_CALL
find_function(cl_platform_id platform, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"clCreateCommandBufferKHR", (void *)create_commands},
        {"clFinalizeCommandBufferKHR", (void *)finalize_commands},
        {"clReleaseCommandBufferKHR", (void *)release_commands},
        {"clEnqueueCommandBufferKHR", (void *)enqueue_commands},
        {"clCommandBarrierWithWaitListKHR", (void *)record_barrier},
        {"clCommandCopyBufferKHR", (void *)record_copy},
        {"clCommandCopyBufferRectKHR", (void *)record_copy_rect},
        {"clCommandFillBufferKHR", (void *)record_fill},
        {"clCommandNDRangeKernelKHR", (void *)record_launch},
    };

    (void)platform;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return functions[i].function;
        }
    }
    return NULL;
}

/* ---- the table ------------------------------------------------------------------------- */

/* Kernels that do harm on purpose do not belong here. */
static cl_kernel CL_API_CALL
create_kernel(cl_program program, const char *name, cl_int *ret_error)
{
    static const char *const left_out[] = {"hang", "crash", "print", "sleep_ms"};

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
        if (strcmp(name, left_out[i]) == 0) {
            *ret_error = CL_INVALID_KERNEL_NAME;
            return NULL;
        }
    }
    return td_clCreateKernel(program, name, ret_error);
}

void
fuzz_driver_fill(struct tp_opencl *ret_cl)
{
    struct tp_opencl cl = {.library = NULL};

#define FILL(name) cl.name = (void *)td_dispatch->cl##name;
    TP_OPENCL_REQUIRED(FILL)
    TP_OPENCL_OPTIONAL(FILL)
#undef FILL
    cl.CreateImage = create_image;
    cl.EnqueueReadImage = read_image;
    cl.EnqueueWriteImage = write_image;
    cl.EnqueueFillImage = fill_image;
    cl.EnqueueCopyImage = copy_image;
    cl.EnqueueCopyImageToBuffer = copy_to_buffer;
    cl.EnqueueCopyBufferToImage = copy_from_buffer;
    cl.CreatePipe = td_clCreatePipe;
    cl.CreateSampler = create_sampler;
    cl.ReleaseSampler = release_sampler;
    cl.CreateSubDevices = create_parts;
    cl.ReleaseDevice = keep_device;
    cl.GetDeviceInfo = device_info;
    cl.GetExtensionFunctionAddressForPlatform = find_function;
    cl.CreateKernel = create_kernel;
    *ret_cl = cl;
}
