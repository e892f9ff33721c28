/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the CUDA driver and its functions. */
#include "device/cuda/api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/config/settings.h"

#define LIBRARY "libcuda.so.1"

static const char *
library_name(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nothing of ours sets variables */
    const char *name = tp_settings_get("LIBCUDA");

    return name != NULL && name[0] != '\0' ? name : LIBRARY;
}

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define FUNCTION(member, name, parameters) {name, offsetof(struct tp_cuda_api, member)},
    TP_CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

telpher_status
tp_cuda_load(struct tp_cuda_api *ret_api, struct tp_error *err)
{
    void *library = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
    struct tp_cuda_api api;

    if (library == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED, "no CUDA driver (%s)",
                            library_name());
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(functions); i++) {
        void *symbol = dlsym(library, functions[i].name);

        if (symbol == NULL) {
            return tp_error_set(err, TELPHER_ERR_UNSUPPORTED, "%s has no %s",
                                library_name(), functions[i].name);
        }
        memcpy((char *)&api + functions[i].offset, &symbol, sizeof(symbol));
    }
    *ret_api = api;
    return TELPHER_OK;
}

telpher_status
tp_cuda_status(CUresult error)
{
    switch (error) {
    case CUDA_SUCCESS:
        return TELPHER_OK;
    case CUDA_ERROR_INVALID_VALUE:
        return TELPHER_ERR_INVALID;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return TELPHER_ERR_NO_MEMORY;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NOT_SUPPORTED:
        return TELPHER_ERR_UNSUPPORTED;
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
        return TELPHER_ERR_DEVICE_LOST;
    default:
        return TELPHER_ERR_DEVICE;
    }
}

const char *
tp_cuda_error_name(const struct tp_cuda_api *api, CUresult error)
{
    const char *name = NULL;

    return api->GetErrorName(error, &name) == CUDA_SUCCESS && name != NULL
               ? name
               : "unknown CUDA error";
}
