/* SPDX-License-Identifier: Apache-2.0 */
/* Loads plugins: shared libraries with kernels. Static programs have none of this. */
#include <dlfcn.h>

#include "base/trace/log.h"
#include "offload/worker/registry.h"

telpher_status
tp_offload_load(const char *path, struct tp_error *err)
{
    uint32_t before = tp_offload_registered();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL) {
        const char *why = dlerror();

        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "cannot load plugin %s: %s",
                            path, why != NULL ? why : "dlopen() gave no reason");
    }
    tp_info("offload", "plugin %s: kernels %u", path, tp_offload_registered() - before);
    return TELPHER_OK;
}
