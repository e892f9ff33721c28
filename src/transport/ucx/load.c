/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libtelpher-ucx.so beside the library that this is in, and hands over to it. */
#include "transport/ucx/load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static telpher_status
load_and_create(const struct tp_net_params *params, struct tp_net **ret_net,
                struct tp_error *err)
{
    char path[PATH_MAX];
    const char *slash;
    const struct tp_net_ops *ops;
    Dl_info self;
    void *module;

    if (dladdr(&tp_ucx_loader, &self) == 0 ||
        (slash = strrchr(self.dli_fname, '/')) == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "transport ucx: dladdr() does not know the file of "
                            "libtelpher, beside which libtelpher-ucx.so lies");
    }
    snprintf(path, sizeof(path), "%.*s/libtelpher-ucx.so",
             (int)(slash - self.dli_fname), self.dli_fname);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays: UCX cannot be unloaded */
    ops = module != NULL ? dlsym(module, "tp_ucx_net") : NULL;
    if (ops == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "transport ucx cannot be loaded: %s", dlerror());
    }
    return ops->create(params, ret_net, err);
}

const struct tp_net_ops tp_ucx_loader = {
    .name = "ucx",
    .only_if_named = true,
    .create = load_and_create,
};
