/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images and samplers through the ICD, with two servers on Unix sockets and whatever driver
 * the machine has: content against values computed on the host, and what kernels and samplers
 * make of it against what the same driver makes of it without us.
 */
#include "icd_image.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

const cl_mem_object_type image_types[] = {
    CL_MEM_OBJECT_IMAGE1D,       CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D,
    CL_MEM_OBJECT_IMAGE2D_ARRAY, CL_MEM_OBJECT_IMAGE3D,
};
const size_t image_type_count = sizeof(image_types) / sizeof(image_types[0]);
const cl_image_format rgba8 = {CL_RGBA, CL_UNSIGNED_INT8};
const cl_image_format r32 = {CL_R, CL_UNSIGNED_INT32};
char native_samples[64];

/* ---- pictures --------------------------------------------------------------------------- */

cl_image_desc
describe(cl_mem_object_type type, size_t x, size_t y, size_t z)
{
    cl_image_desc desc = {.image_type = type, .image_width = x};

    switch (type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
        desc.image_array_size = y;
        break;
    case CL_MEM_OBJECT_IMAGE2D:
        desc.image_height = y;
        break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
        desc.image_height = y;
        desc.image_array_size = z;
        break;
    case CL_MEM_OBJECT_IMAGE3D:
        desc.image_height = y;
        desc.image_depth = z;
        break;
    default:
        break;
    }
    return desc;
}

static void
set_dims(struct picture *p, const cl_image_desc *desc)
{
    p->dims[0] = desc->image_width;
    p->dims[1] = p->dims[2] = 1;
    if (desc->image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY) {
        p->dims[1] = desc->image_array_size;
    } else if (desc->image_height != 0) {
        p->dims[1] = desc->image_height;
    }
    if (desc->image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY) {
        p->dims[2] = desc->image_array_size;
    } else if (desc->image_type == CL_MEM_OBJECT_IMAGE3D) {
        p->dims[2] = desc->image_depth;
    }
}

void
picture_open(struct picture *p, const struct world *w, cl_image_format format,
             cl_image_desc desc, uint32_t seed)
{
    cl_int err = 1;
    size_t element;

    memset(p, 0, sizeof(*p));
    p->format = format;
    set_dims(p, &desc);
    p->element = format.image_channel_order == CL_RGBA ? 4 : 1;
    p->element *= format.image_channel_data_type == CL_UNSIGNED_INT8 ? 1 : 4;
    p->size = p->element * p->dims[0] * p->dims[1] * p->dims[2];
    p->model = pattern_new(p->size, seed);
    p->mem =
        clCreateImage(w->ctx, CL_MEM_COPY_HOST_PTR, &format, &desc, p->model, &err);
    ok(err);
    ok(clGetImageInfo(p->mem, CL_IMAGE_ELEMENT_SIZE, sizeof(element), &element, NULL));
    assert_int_equal(element, p->element);
}

void
picture_close(struct picture *p)
{
    ok(clReleaseMemObject(p->mem));
    free(p->model);
}

uint8_t *
picture_at(const struct picture *p, size_t x, size_t y, size_t z)
{
    return p->model + ((z * p->dims[1] + y) * p->dims[0] + x) * p->element;
}

/** Walks the rows of a region. */
static void
each_row(const struct picture *p, const size_t origin[3], const size_t region[3],
         uint8_t *packed, bool to_model)
{
    size_t row = region[0] * p->element;

    for (size_t z = 0; z < region[2]; z++) {
        for (size_t y = 0; y < region[1]; y++, packed += row) {
            uint8_t *at = picture_at(p, origin[0], origin[1] + y, origin[2] + z);

            memcpy(to_model ? at : packed, to_model ? packed : at, row);
        }
    }
}

void
picture_put(struct picture *p, const size_t origin[3], const size_t region[3],
            const uint8_t *packed)
{
    each_row(p, origin, region, (uint8_t *)(uintptr_t)packed, true);
}

void
picture_get(const struct picture *p, const size_t origin[3], const size_t region[3],
            uint8_t *packed)
{
    each_row(p, origin, region, packed, false);
}

void
picture_check(const struct picture *p, cl_command_queue q)
{
    const size_t origin[3] = {0, 0, 0};
    uint8_t *got = malloc(p->size);

    assert_non_null(got);
    memset(got, 0xa5, p->size);
    ok(clEnqueueReadImage(q, p->mem, CL_TRUE, origin, p->dims, 0, 0, got, 0, NULL,
                          NULL));
    for (size_t i = 0; i < p->size; i++) {
        if (got[i] != p->model[i]) {
            fail_msg("byte %zu of %zu is %u, should be %u", i, p->size, got[i],
                     p->model[i]);
        }
    }
    free(got);
}

void
any_region(const struct picture *p, size_t origin[3], size_t region[3])
{
    for (int i = 0; i < 3; i++) {
        origin[i] = any((uint32_t)p->dims[i]);
        region[i] = 1 + any((uint32_t)(p->dims[i] - origin[i]));
    }
}

/* ---- the driver without us ----------------------------------------------------------------- */

/** In a process of its own, before there are servers: what the first device makes of it. */
static int
write_native_samples(const char *path)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_context ctx;
    cl_command_queue q;
    uint8_t *samples;
    size_t size;
    FILE *file;
    cl_int err;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        return 1;
    }
    ctx = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    q = err == CL_SUCCESS ? clCreateCommandQueue(ctx, device, 0, &err) : NULL;
    samples = q != NULL ? sample_images(ctx, q, &size) : NULL;
    file = samples != NULL ? fopen(path, "wb") : NULL;
    if (file == NULL || fwrite(samples, 1, size, file) != size || fclose(file) != 0) {
        return 1;
    }
    free(samples);
    return 0;
}

static void
make_native_samples(const char *program)
{
    char path[] = "/tmp/telpher-samples-XXXXXX";
    int fd = mkstemp(path), status = 1;
    pid_t pid;

    if (fd < 0) {
        return;
    }
    close(fd);
    pid = fork();
    if (pid == 0) {
        execl(program, program, "--samples", path, (char *)NULL);
        _exit(1);
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) {
        snprintf(native_samples, sizeof(native_samples), "%s", path);
    } else {
        fprintf(stderr, "the driver alone could not run the kernels\n");
        unlink(path);
    }
}

static int
run_all(void)
{
    struct {
        const char *name;
        const struct CMUnitTest *tests;
        size_t count;
    } groups[] = {
        {"transfers", image_transfer_tests, image_transfer_test_count},
        {"maps", image_map_tests, image_map_test_count},
        {"kernels", image_kernel_tests, image_kernel_test_count},
        {"refusals", image_refusal_tests, image_refusal_test_count},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        failed += _cmocka_run_group_tests(groups[i].name, groups[i].tests,
                                          groups[i].count, NULL, NULL);
    }
    return failed;
}

int
main(int argc, char **argv)
{
    int result;

    if (argc == 3 && strcmp(argv[1], "--samples") == 0) {
        return write_native_samples(argv[2]);
    }
    make_native_samples(argv[0]);
    result = worlds_run(argc, argv, run_all);
    if (native_samples[0] != '\0') {
        unlink(native_samples);
    }
    return result;
}
