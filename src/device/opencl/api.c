/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the server's libOpenCL and its functions. */
#include "device/opencl/api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libOpenCL.so.1"

static const char *
library_name(void)
{
    const char *name = getenv("TELPHER_LIBOPENCL");

    return name != NULL && name[0] != '\0' ? name : LIBRARY;
}

/* Looks one function up; dlsym gives data pointers, so the bytes are copied. */
static void
look_up(void *library, const char *name, void *ret_function)
{
    void *symbol = dlsym(library, name);

    memcpy(ret_function, &symbol, sizeof(symbol));
}

telpher_status
tp_opencl_load(struct tp_opencl *ret_cl, struct tp_error *err)
{
    struct tp_opencl cl = {.library = NULL};

    cl.library = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
    if (cl.library == NULL) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND,
                            "no OpenCL here (%s); install an OpenCL loader (package "
                            "ocl-icd-libopencl1) and a driver",
                            dlerror());
    }
#define LOOK_UP(name) look_up(cl.library, "cl" #name, &cl.name);
    TP_OPENCL_REQUIRED(LOOK_UP)
    TP_OPENCL_OPTIONAL(LOOK_UP)
#undef LOOK_UP
#define CHECK(name)                                                                    \
    if (cl.name == NULL) {                                                             \
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "%s has no cl%s",              \
                            library_name(), #name);                                    \
    }
    TP_OPENCL_REQUIRED(CHECK)
#undef CHECK
    *ret_cl = cl;
    return TELPHER_OK;
}
