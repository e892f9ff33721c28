/* SPDX-License-Identifier: Apache-2.0 */
/* The prefix of the installation that this code belongs to. */
#include "base/prefix.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"

telpher_status
tp_prefix_of(const char *object, char *dst, size_t size)
{
    static const char libdir[] = "/" TP_BUILD_LIBDIR;
    const char *slash = strrchr(object, '/');
    size_t len = slash != NULL ? (size_t)(slash - object) : 0;
    int written;

    if (len >= sizeof(libdir) - 1 &&
        memcmp(slash - (sizeof(libdir) - 1), libdir, sizeof(libdir) - 1) == 0) {
        len -= sizeof(libdir) - 1;
    } else {
        while (len > 0 && object[--len] != '/') {
        }
    }
    if (slash == NULL || slash == object) {
        return TELPHER_ERR_INVALID;
    }
    written = snprintf(dst, size, "%.*s", (int)len, object);
    return written >= 0 && (size_t)written < size ? TELPHER_OK : TELPHER_ERR_RANGE;
}

telpher_status
tp_prefix_settings_file(const char *prefix, const char *name, char *dst, size_t size)
{
    static const char folder[] = TP_BUILD_SYSCONFDIR;
    /* loaders and systemd look in /etc for programs installed in these */
    bool is_system = strcmp(prefix, "/usr") == 0 || strcmp(prefix, "/usr/local") == 0;
    int written = folder[0] == '/' ? snprintf(dst, size, "%s/%s", folder, name)
                  : is_system      ? snprintf(dst, size, "/%s/%s", folder, name)
                              : snprintf(dst, size, "%s/%s/%s", prefix, folder, name);

    return written >= 0 && (size_t)written < size ? TELPHER_OK : TELPHER_ERR_RANGE;
}

telpher_status
tp_prefix_own_settings_file(const char *name, char *dst, size_t size)
{
    char object[PATH_MAX], prefix[PATH_MAX];
    Dl_info self;
    telpher_status status;

    if (dladdr((const void *)(uintptr_t)tp_prefix_of, &self) == 0 ||
        realpath(self.dli_fname, object) == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    status = tp_prefix_of(object, prefix, sizeof(prefix));
    return status == TELPHER_OK ? tp_prefix_settings_file(prefix, name, dst, size)
                                : status;
}
