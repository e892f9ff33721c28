/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the server's libOpenCL and finds its functions. */
#include "device/opencl/api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/config/settings.h"

#define LIBRARY "libOpenCL.so.1"

static const char *
library_name(void)
{
    const char *name = tp_settings_get("LIBOPENCL");

    return name != NULL && name[0] != '\0' ? name : LIBRARY;
}

/* A function and where it goes. */
struct entry {
    const char *name;
    size_t offset;
    bool required;
};

#define REQUIRED(function) {"cl" #function, offsetof(struct tp_opencl, function), true},
#define OPTIONAL(function)                                                             \
    {"cl" #function, offsetof(struct tp_opencl, function), false},
static const struct entry entries[] = {TP_OPENCL_REQUIRED(REQUIRED)
                                           TP_OPENCL_OPTIONAL(OPTIONAL)};

/* Looks all functions up; dlsym gives data pointers, so their bytes are copied. */
static telpher_status
fill(struct tp_opencl *cl, struct tp_error *err)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(entries); i++) {
        void *symbol = dlsym(cl->library, entries[i].name);

        if (symbol == NULL && entries[i].required) {
            return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "%s has no %s",
                                library_name(), entries[i].name);
        }
        memcpy((char *)cl + entries[i].offset, &symbol, sizeof(symbol));
    }
    return TELPHER_OK;
}

telpher_status
tp_opencl_load(struct tp_opencl *ret_cl, struct tp_error *err)
{
    struct tp_opencl cl = {.library = NULL};
    telpher_status status;

    cl.library = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
    if (cl.library == NULL) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): dlerror is a thread's own */
        const char *why = dlerror();

        return tp_error_set(err, TELPHER_ERR_NOT_FOUND,
                            "no OpenCL here (%s); install an OpenCL loader (package "
                            "ocl-icd-libopencl1) and a driver",
                            why);
    }
    status = fill(&cl, err);
    if (status == TELPHER_OK) {
        *ret_cl = cl;
    }
    return status;
}
