/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins; and names that exist without anybody having said how to call them. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/trace/log.h"
#include "offload/worker/registry_int.h"

enum { PLUGINS_MAX = 256 };
static void *plugins[PLUGINS_MAX];
static uint32_t plugin_count;

telpher_status
tp_offload_load(const char *path, struct tp_error *err)
{
    uint32_t before;
    void *handle;

    if (plugin_count == PLUGINS_MAX) {
        return tp_error_set(err, TELPHER_ERR_LIMIT, "more than %d plugins",
                            PLUGINS_MAX);
    }
    tp_offload_plugins_begin();
    before = tp_offload_registered();
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();

        return tp_error_set(err, TELPHER_ERR_NOT_FOUND, "%s",
                            why != NULL ? why : "the loader says nothing");
    }
    plugins[plugin_count++] = handle;
    tp_info("offload", "plugin %s: kernels %u", path, tp_offload_registered() - before);
    return TELPHER_OK;
}

/* The address where the main program lies, by the headers that the kernel gave it. */
static int
find_program(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    if ((uintptr_t)info->dlpi_phdr != getauxval(AT_PHDR)) {
        return 0;
    }
    *(uintptr_t *)data = (uintptr_t)info->dlpi_phdr;
    return 1;
}

/* Two addresses of one object have one base. */
static bool
same_object(const void *a, const void *b)
{
    Dl_info ia, ib;

    return dladdr(a, &ia) != 0 && dladdr(b, &ib) != 0 && ia.dli_fbase == ib.dli_fbase;
}

static bool
in_plugin(const char *name)
{
    for (uint32_t i = 0; i < plugin_count; i++) {
        const void *at = dlsym(plugins[i], name);
        struct link_map *map;
        Dl_info info;

        /* a handle finds what its libraries have, too: look where it lies */
        if (at != NULL && dladdr(at, &info) != 0 &&
            dlinfo(plugins[i], RTLD_DI_LINKMAP, &map) == 0 &&
            strcmp(map->l_name, info.dli_fname) == 0) {
            return true;
        }
    }
    return false;
}

bool
tp_offload_unsigned(const char *name)
{
    uintptr_t program = 0;
    void *self = dlopen(NULL, RTLD_NOW);
    const void *at = self != NULL ? dlsym(self, name) : NULL;
    bool found = false;

    if (at != NULL && dl_iterate_phdr(find_program, &program) != 0) {
        found = same_object(at, (const void *)program);
    }
    if (self != NULL) {
        dlclose(self);
    }
    return found || in_plugin(name);
}
