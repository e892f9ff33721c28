/* SPDX-License-Identifier: Apache-2.0 */
/* Computes keys of the build cache from everything that affects a driver's result. */
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build_cache_int.h"
#include "daemon/executor/program/program.h"
#include "telpher/version.h"

/* Hashes name, size and time of a library, since an update may keep the version. */
static int
add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct tp_sha256 *sum = arg;
    struct stat st;

    if (info->dlpi_name != NULL && info->dlpi_name[0] == '/' &&
        stat(info->dlpi_name, &st) == 0) {
        tp_sha256_add_sized(sum, info->dlpi_name, strlen(info->dlpi_name));
        tp_sha256_add(sum, &st.st_size, sizeof(st.st_size));
        tp_sha256_add(sum, &st.st_mtim, sizeof(st.st_mtim));
    }
    return 0;
}

/* True for variables that select drivers. They are left out: the libraries identify the
 * drivers, and the folder of tp_opencl_vendors_hide() has a new name in each process. */
static bool
names_drivers(const char *variable)
{
    return strncmp(variable, "OCL_ICD_VENDORS=", strlen("OCL_ICD_VENDORS=")) == 0;
}

/* Hashes the environment variables that affect drivers. */
static void
add_environment(struct tp_sha256 *sum)
{
    static const char *const begins[] = {"POCL_", "OCL",   "CL_",    "CUDA_",
                                         "NV",    "GPU_",  "AMD_",   "IGC",
                                         "NEO",   "LLVM_", "RUSTICL"};

    for (char **e = environ; *e != NULL; e++) {
        for (size_t i = 0; i < TP_ARRAY_LEN(begins); i++) {
            if (strncmp(*e, begins[i], strlen(begins[i])) == 0 && !names_drivers(*e)) {
                tp_sha256_add_sized(sum, *e, strlen(*e));
                break;
            }
        }
    }
}

void
tp_exec_cache_take_drivers(struct tp_exec_cache *cache)
{
    struct tp_sha256 sum;

    tp_sha256_begin(&sum);
    (void)dl_iterate_phdr(add_library, &sum);
    add_environment(&sum);
    tp_sha256_end(&sum, cache->drivers);
}

static void
add_device(struct tp_exec *x, const struct tp_exec_device *d, struct tp_sha256 *sum)
{
    static const cl_device_info params[] = {
        CL_DEVICE_NAME,      CL_DEVICE_VENDOR,           CL_DEVICE_VERSION,
        CL_DRIVER_VERSION,   CL_DEVICE_OPENCL_C_VERSION, CL_DEVICE_EXTENSIONS,
        CL_DEVICE_VENDOR_ID, CL_DEVICE_ADDRESS_BITS};

    tp_sha256_add(sum, &d->number, sizeof(d->number));
    for (size_t i = 0; i < TP_ARRAY_LEN(params); i++) {
        char value[8192];
        size_t size = 0;

        if (x->cl.GetDeviceInfo(d->native, params[i], sizeof(value), value, &size) !=
            CL_SUCCESS) {
            size = 0;
        }
        tp_sha256_add_sized(sum, value, size);
    }
}

/* True if the build is for all devices of the context, and none is a sub-device. */
static bool
is_for_all(const struct tp_exec_build *build)
{
    const struct tp_exec_context *c = build->program->context;

    for (uint32_t i = 0; i < c->device_count; i++) {
        cl_uint k = 0;

        while (k < build->device_count && build->indices[k] != c->devices[i].number) {
            k++;
        }
        if (k == build->device_count ||
            c->devices[i].number >= TP_WIRE_SUB_DEVICE_FIRST) {
            return false;
        }
    }
    return build->device_count == c->device_count;
}

/* Hashes the input of a build: text, headers and files, or keys of programs. @return false: no key */
static bool
add_origin(const struct tp_exec_build *build, struct tp_sha256 *sum)
{
    const struct tp_exec_program *p = build->program;

    if (p->origin == TP_EXEC_FROM_SOURCE) {
        tp_exec_build_sum(build, sum);
        return true;
    }
    for (cl_uint i = 0; i < build->input_count; i++) {
        if (!build->inputs[i]->has_key) {
            return false;
        }
        tp_sha256_add(sum, build->inputs[i]->key, TP_SHA256_BYTES);
    }
    return build->kind == TP_EXEC_LINK;
}

void
tp_exec_cache_take_key(struct tp_exec_build *build)
{
    static const char format[] = "telpher build 3 " TELPHER_VERSION_STRING;
    struct tp_exec *x = build->program->obj.x;
    struct tp_sha256 sum;

    if (x->cache == NULL || !is_for_all(build)) {
        return;
    }
    tp_sha256_begin(&sum);
    tp_sha256_add_sized(&sum, format, sizeof(format));
    tp_sha256_add(&sum, x->cache->drivers, sizeof(x->cache->drivers));
    tp_sha256_add(&sum, &build->kind, sizeof(build->kind));
    tp_sha256_add_sized(&sum, build->options, strlen(build->options));
    for (cl_uint i = 0; i < build->device_count; i++) {
        const struct tp_exec_device *d =
            tp_exec_context_device(build->program->context, build->indices[i]);

        add_device(x, d, &sum);
    }
    build->has_key = add_origin(build, &sum);
    tp_sha256_end(&sum, build->key);
}
