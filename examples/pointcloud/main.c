/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A viewer of a moving cloud of points: the first device makes the frames, or a camera does,
 * which is a custom device with the built-in kernel "camera"; the last one sorts the indices of
 * each frame's points by depth, far ones first, and the program reads the indices to draw by.
 * Through Telpher the two devices may be on two servers: the points then go from one to the
 * other, and the program's link carries indices only. A frame has an eighth to a half of the
 * points that its buffer holds; with cl_pocl_content_size only those travel.
 */
#include "example.h"

#include <CL/cl_ext.h>
#include <getopt.h>
#include <stdint.h>
#include <sys/resource.h>

/* As in PoCL's header, which not every system has. */
typedef cl_int(CL_API_CALL *set_content_size)(cl_mem buffer, cl_mem size_buffer);

static const char usage[] =
    "Usage: pointcloud [OPTION]...\n"
    "Sorts the points of each frame by depth on an OpenCL device.\n\n"
    "  --platform NAME   part of the platform's name (the first)\n"
    "  --devices K       make frames on the first device, sort on the K-th (all)\n"
    "  --camera          frames come from the first custom device's kernel \"camera\"\n"
    "  --write-frames FILE  write the file of such a camera, and nothing else\n"
    "  --content-size    use cl_pocl_content_size\n"
    "  --points N        points that a frame may have, a power of two (65536)\n"
    "  --frames N        (30)\n"
    "  --interface NAME  count the bytes on this network interface, as link0\n"
    "  --label TEXT      name of the run in the output\n"
    "  --json            print one JSON object\n"
    "  --help            this text\n"
    "Exit status: 0 if the order of the first and the last frame is right.\n";

/* Coordinates are whole numbers, so that the host finds the same depths. */
static const char source[] =
    "uint mix_bits(uint x)\n"
    "{ x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ x >> "
    "16; }\n"
    "__kernel void make_frame(__global int4 *points, __global ulong *bytes, uint "
    "frame,\n"
    "                         uint count)\n"
    "{\n"
    "    const uint i = get_global_id(0);\n"
    "    if (i == 0)\n"
    "        *bytes = count * sizeof(int4);\n"
    "    const int4 at = (int4)(mix_bits(3 * i), mix_bits(3 * i + 1), mix_bits(3 * i + "
    "2), 0);\n"
    "    const int4 speed = (int4)(mix_bits(i) & 255, mix_bits(~i) & 255, 128, 0) - "
    "128;\n"
    "    points[i] = (at & 0xffff) - 0x8000 + speed * (int)frame;\n"
    "}\n"
    "__kernel void find_depths(__global const int4 *points,\n"
    "                          __global const ulong *bytes, __global uint2 *pairs,\n"
    "                          __global ulong *index_bytes, int4 view)\n"
    "{\n"
    "    const uint i = get_global_id(0), count = *bytes / sizeof(int4);\n"
    "    const int4 p = i < count ? points[i] * view : (int4)(0);\n"
    "    if (i == 0)\n"
    "        *index_bytes = count * sizeof(uint);\n"
    "    pairs[i] = i < count ? (uint2)((uint)(p.x + p.y + p.z) ^ 0x80000000u, i)\n"
    "                         : (uint2)(0, 0xffffffffu); /* no point: at the end */\n"
    "}\n"
    "__kernel void exchange(__global uint2 *pairs, uint block, uint distance)\n"
    "{\n"
    "    const uint t = get_global_id(0);\n"
    "    const uint i = 2 * t - (t & (distance - 1)), j = i + distance;\n"
    "    const uint2 a = pairs[i], b = pairs[j];\n"
    "    const int before = a.x > b.x || (a.x == b.x && a.y < b.y); /* far ones first "
    "*/\n"
    "    if (before != ((i & block) == 0)) {\n"
    "        pairs[i] = b;\n"
    "        pairs[j] = a;\n"
    "    }\n"
    "}\n"
    "__kernel void take_indices(__global const uint2 *pairs, __global uint *indices)\n"
    "{ indices[get_global_id(0)] = pairs[get_global_id(0)].y; }\n";

struct options {
    const char *platform, *interface, *label, *write_frames;
    size_t devices, points, frames;
    int json, camera, content_size;
};

struct viewer {
    struct example e;
    cl_command_queue camera, sorter;
    cl_program built_in; /* of the camera, or NULL */
    cl_kernel make_frame, find_depths, exchange, take_indices;
    cl_mem points, bytes, pairs, indices, index_bytes;
    size_t count; /* points that a frame may have */
    cl_uint *order; /* of the last frame */
    cl_ulong order_bytes;
};

static const cl_int view[4] = {3, -5, 7, 0};

/* Bytes that an interface has sent and received. */
static double
interface_bytes(const char *name)
{
    double in, out, sum = 0;
    char line[512];
    FILE *file = name != NULL ? fopen("/proc/self/net/dev", "r") : NULL;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *colon = strchr(line, ':');
        const char *start = line + strspn(line, " ");

        if (colon != NULL && strncmp(start, name, (size_t)(colon - start)) == 0 &&
            sscanf(colon + 1, "%lf %*s %*s %*s %*s %*s %*s %*s %lf", &in, &out) == 2) {
            sum += in + out;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return sum;
}

static double
processor_ms(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return 1e3 * (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           1e-3 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* Energy that the processor has used, if the kernel says so. */
static double
energy_joules(void)
{
    double microjoules = 0;
    FILE *file = fopen("/sys/class/powercap/intel-rapl:0/energy_uj", "r");

    if (file != NULL) {
        if (fscanf(file, "%lf", &microjoules) != 1) {
            microjoules = 0;
        }
        fclose(file);
    }
    return 1e-6 * microjoules;
}

/* ---- what is in a frame ---- */

static uint32_t
mix_bits(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* An eighth to a half of the points that a frame may have. */
static uint32_t
points_of(size_t most, uint32_t frame)
{
    const uint32_t eighth = (uint32_t)((most + 7) / 8);

    return eighth + mix_bits(frame) % (3 * eighth + 1);
}

static void
find_point(uint32_t i, uint32_t frame, int32_t ret_point[4])
{
    const int32_t speed[3] = {(int32_t)(mix_bits(i) & 255) - 128,
                              (int32_t)(mix_bits(~i) & 255) - 128, 0};

    for (uint32_t k = 0; k < 3; k++) {
        const int32_t at = (int32_t)(mix_bits(3 * i + k) & 0xffff) - 0x8000;

        ret_point[k] = at + speed[k] * (int32_t)frame;
    }
    /* the fourth, as the kernel makes it: nothing reads it */
    ret_point[3] = -0x8000 - 128 * (int32_t)frame;
}

static uint32_t
depth_of(uint32_t i, uint32_t frame)
{
    int32_t point[4], sum = 0;

    find_point(i, frame, point);
    for (uint32_t k = 0; k < 3; k++) {
        sum += point[k] * view[k];
    }
    return (uint32_t)sum ^ 0x80000000u;
}

/* Every point is there once, and none is behind the one before it. */
static int
is_in_order(const struct viewer *v, cl_uint frame)
{
    const size_t count = points_of(v->count, frame);
    char *seen = calloc(count, 1);
    int good = seen != NULL && v->order_bytes == count * sizeof(v->order[0]);

    for (size_t i = 0; good && i < count; i++) {
        const cl_uint at = v->order[i];

        good = at < count && !seen[at] &&
               (i == 0 || depth_of(v->order[i - 1], frame) >= depth_of(at, frame));
        if (good) {
            seen[at] = 1;
        }
    }
    free(seen);
    return good;
}

/* The file of a camera: of each frame its bytes, as 8, and its points. */
static int
write_frames(const struct options *o)
{
    FILE *file = fopen(o->write_frames, "wb");
    int good = file != NULL;

    for (uint32_t frame = 0; good && frame <= o->frames; frame++) {
        const uint32_t count = points_of(o->points, frame);
        const uint64_t bytes = 16 * (uint64_t)count;

        good = fwrite(&bytes, sizeof(bytes), 1, file) == 1;
        for (uint32_t i = 0; good && i < count; i++) {
            int32_t point[4];

            find_point(i, frame, point);
            good = fwrite(point, sizeof(point), 1, file) == 1;
        }
    }
    if (file != NULL) {
        good = fclose(file) == 0 && good;
    }
    if (!good) {
        perror(o->write_frames);
    }
    return good;
}

/* ---- frames ---- */

static void
run(cl_command_queue queue, cl_kernel kernel, size_t count, const cl_event *after,
    cl_event *ret_done)
{
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, after != NULL,
                                 after, ret_done));
}

/* Bitonic sort: log2(n) * (log2(n) + 1) / 2 launches, none of which waits for the program. */
static void
sort(struct viewer *v)
{
    for (cl_uint block = 2; block <= v->count; block *= 2) {
        for (cl_uint distance = block / 2; distance > 0; distance /= 2) {
            example_argument(v->exchange, 1, sizeof(block), &block);
            example_argument(v->exchange, 2, sizeof(distance), &distance);
            run(v->sorter, v->exchange, v->count / 2, NULL, NULL);
        }
    }
}

static void
show_frame(struct viewer *v, cl_uint frame)
{
    const cl_uint count = points_of(v->count, frame);
    cl_event made;

    example_argument(v->make_frame, 2, sizeof(frame), &frame);
    if (v->built_in == NULL) {
        example_argument(v->make_frame, 3, sizeof(count), &count);
    }
    run(v->camera, v->make_frame, v->built_in == NULL ? count : 1, NULL, &made);
    CHECK(clFlush(v->camera));
    run(v->sorter, v->find_depths, v->count, &made, NULL);
    sort(v);
    run(v->sorter, v->take_indices, v->count, NULL, NULL);
    CHECK(clEnqueueReadBuffer(v->sorter, v->index_bytes, CL_FALSE, 0,
                              sizeof(v->order_bytes), &v->order_bytes, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(v->sorter, v->indices, CL_TRUE, 0,
                              v->count * sizeof(v->order[0]), v->order, 0, NULL, NULL));
    CHECK(clReleaseEvent(made));
}

/* ---- the program ---- */

/* With a camera, it is the device after those that sort. */
static void
open_devices(struct viewer *v, const struct options *o)
{
    const cl_platform_id platform = example_platform(o->platform);
    struct example *e = &v->e;
    cl_uint sorters;
    cl_int status;

    example_find(e, platform, (cl_uint)o->devices);
    sorters = e->count;
    v->built_in = NULL;
    if (o->camera) {
        sorters = sorters < EXAMPLE_DEVICES ? sorters : EXAMPLE_DEVICES - 1;
        CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CUSTOM, 1, &e->devices[sorters],
                             NULL));
        e->count = sorters + 1;
    }
    example_start(e, sorters, source);
    v->camera = e->queues[o->camera ? sorters : 0];
    v->sorter = e->queues[sorters - 1];
    if (o->camera) {
        v->built_in = clCreateProgramWithBuiltInKernels(
            e->context, 1, &e->devices[sorters], "camera", &status);
        CHECK(status);
        v->make_frame = clCreateKernel(v->built_in, "camera", &status);
        CHECK(status);
    } else {
        v->make_frame = example_kernel(e, "make_frame");
    }
}

static void
use_content_size(struct viewer *v, cl_platform_id platform)
{
    const set_content_size set =
        (set_content_size)clGetExtensionFunctionAddressForPlatform(
            platform, "clSetContentSizeBufferPoCL");

    if (set == NULL) {
        fprintf(stderr, "the platform has no cl_pocl_content_size\n");
        exit(EXIT_FAILURE);
    }
    CHECK(set(v->points, v->bytes));
    CHECK(set(v->indices, v->index_bytes));
}

static void
open_viewer(struct viewer *v, const struct options *o)
{
    open_devices(v, o);
    v->count = o->points;
    v->order = calloc(v->count, sizeof(v->order[0]));
    if (v->order == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    v->find_depths = example_kernel(&v->e, "find_depths");
    v->exchange = example_kernel(&v->e, "exchange");
    v->take_indices = example_kernel(&v->e, "take_indices");
    v->points = example_buffer(&v->e, v->count * sizeof(cl_int4));
    v->bytes = example_buffer(&v->e, sizeof(cl_ulong));
    v->pairs = example_buffer(&v->e, v->count * sizeof(cl_uint2));
    v->indices = example_buffer(&v->e, v->count * sizeof(cl_uint));
    v->index_bytes = example_buffer(&v->e, sizeof(cl_ulong));
    if (o->content_size) {
        use_content_size(v, example_platform(o->platform));
    }
    example_argument(v->make_frame, 0, sizeof(cl_mem), &v->points);
    example_argument(v->make_frame, 1, sizeof(cl_mem), &v->bytes);
    example_argument(v->find_depths, 0, sizeof(cl_mem), &v->points);
    example_argument(v->find_depths, 1, sizeof(cl_mem), &v->bytes);
    example_argument(v->find_depths, 2, sizeof(cl_mem), &v->pairs);
    example_argument(v->find_depths, 3, sizeof(cl_mem), &v->index_bytes);
    example_argument(v->find_depths, 4, sizeof(view), view);
    example_argument(v->exchange, 0, sizeof(cl_mem), &v->pairs);
    example_argument(v->take_indices, 0, sizeof(cl_mem), &v->pairs);
    example_argument(v->take_indices, 1, sizeof(cl_mem), &v->indices);
}

static void
close_viewer(struct viewer *v)
{
    const cl_kernel kernels[] = {v->make_frame, v->find_depths, v->exchange,
                                 v->take_indices};
    const cl_mem buffers[] = {v->points, v->bytes, v->pairs, v->indices,
                              v->index_bytes};

    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        CHECK(clReleaseKernel(kernels[i]));
    }
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
        CHECK(clReleaseMemObject(buffers[i]));
    }
    if (v->built_in != NULL) {
        CHECK(clReleaseProgram(v->built_in));
    }
    example_close(&v->e);
    free(v->order);
}

static int
show_frames(struct viewer *v, const struct options *o)
{
    double begin, used, bytes, ms, joules;
    int good;

    show_frame(v, 0); /* streams and kernels are there after it */
    good = is_in_order(v, 0);
    begin = example_now_ms();
    used = processor_ms();
    bytes = interface_bytes(o->interface);
    joules = energy_joules();
    for (cl_uint frame = 1; frame <= o->frames; frame++) {
        show_frame(v, frame);
    }
    ms = (example_now_ms() - begin) / (double)o->frames;
    used = (processor_ms() - used) / (double)o->frames;
    bytes = (interface_bytes(o->interface) - bytes) / (double)o->frames;
    joules = (energy_joules() - joules) / (double)o->frames;
    good = good && is_in_order(v, (cl_uint)o->frames);
    if (o->json) {
        printf("{\"example\": \"pointcloud\", \"label\": \"%s\", \"points\": %zu, "
               "\"fps\": %.2f, \"bytes\": %.0f, \"client_ms\": %.3f, ",
               o->label, v->count, 1e3 / ms, bytes, used);
        if (joules > 0) {
            printf("\"joules\": %.4f, ", joules);
        }
        printf("\"right\": %s}\n", good ? "true" : "false");
    } else {
        printf("up to %zu points: %.2f frames/s, %.0f bytes a frame on the interface, "
               "%.3f ms of this program's processor a frame, %s\n",
               v->count, 1e3 / ms, bytes, used, good ? "right" : "WRONG");
    }
    return good;
}

static void
read_option(struct options *o, int c)
{
    switch (c) {
    case 'p':
        o->platform = optarg;
        break;
    case 'd':
        o->devices = example_number(optarg, 1, EXAMPLE_DEVICES);
        break;
    case 'n':
        o->points = example_number(optarg, 8, 1 << 24);
        break;
    case 'f':
        o->frames = example_number(optarg, 1, 1000);
        break;
    case 'i':
        o->interface = optarg;
        break;
    case 'l':
        o->label = optarg;
        break;
    case 'w':
        o->write_frames = optarg;
        break;
    case 'c':
        o->camera = 1;
        break;
    case 's':
        o->content_size = 1;
        break;
    case 'j':
        o->json = 1;
        break;
    default:
        fputs(usage, c == 'h' ? stdout : stderr);
        exit(c == 'h' ? EXIT_SUCCESS : 2);
    }
}

int
main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"platform", required_argument, NULL, 'p'},
        {"devices", required_argument, NULL, 'd'},
        {"points", required_argument, NULL, 'n'},
        {"frames", required_argument, NULL, 'f'},
        {"interface", required_argument, NULL, 'i'},
        {"label", required_argument, NULL, 'l'},
        {"camera", no_argument, NULL, 'c'},
        {"content-size", no_argument, NULL, 's'},
        {"write-frames", required_argument, NULL, 'w'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    struct options o = {.platform = "", .label = "", .points = 65536, .frames = 30};
    struct viewer v;
    int good;

    for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        read_option(&o, c);
    }
    if ((o.points & (o.points - 1)) != 0) {
        fprintf(stderr, "pointcloud: %zu is no power of two\n", o.points);
        return 2;
    }
    if (o.write_frames != NULL) {
        return write_frames(&o) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    open_viewer(&v, &o);
    good = show_frames(&v, &o);
    close_viewer(&v);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
