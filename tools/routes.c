/* SPDX-License-Identifier: Apache-2.0 */
/* How content passes between servers of one program: asks the OpenCL library, which tries it. */
#include "telpher.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <telpher/interop/opencl.h>

#include "build_config.h"

/* Once is enough: each question tries the pairs that were not tried, and may say more. */
enum { TEXT_MAX = 256 * 1024 /* [bytes] of a line for each pair of servers */ };

typedef int32_t (*platforms_fn)(uint32_t count, struct _cl_platform_id **platforms,
                                uint32_t *ret_count);
typedef void *(*lookup_fn)(struct _cl_platform_id *platform, const char *name);

/** Names the servers for the OpenCL library of this process. @return false: no memory */
static bool
set_servers(const struct addresses *list)
{
    char *text = calloc(1, 1), *longer;

    for (size_t i = 0; text != NULL && i < list->count; i++) {
        longer = NULL;
        if (asprintf(&longer, "%s%s%s", text, i == 0 ? "" : ",", list->item[i]) < 0) {
            longer = NULL;
        }
        free(text);
        text = longer;
    }
    if (text == NULL || setenv("TELPHER_SERVERS", text, 1) != 0) {
        free(text);
        return false;
    }
    free(text);
    return true;
}

/** Finds the function of our OpenCL library, which is loaded without a loader of OpenCL. */
static telpher_opencl_routes_fn
find_function(struct _cl_platform_id **ret_platform)
{
    char path[4096];
    void *library;
    platforms_fn platforms;
    lookup_fn lookup;

    if (find_artefact("../lib", TP_BUILD_BIN_TO_LIB,
                      "libtelpher-opencl.so." TP_BUILD_SONAME_VERSION, path,
                      sizeof(path)) != 0) {
        return NULL;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* its threads stay until exit */
    if (library == NULL) {
        return NULL;
    }
    platforms = (platforms_fn)dlsym(library, "clIcdGetPlatformIDsKHR");
    lookup = (lookup_fn)dlsym(library, "clGetExtensionFunctionAddressForPlatform");
    if (platforms == NULL || lookup == NULL || platforms(1, ret_platform, NULL) != 0) {
        return NULL;
    }
    return (telpher_opencl_routes_fn)lookup(*ret_platform, "clGetServerRoutesTELPHER");
}

static void
print_lines(const char *text)
{
    for (size_t len; *text != '\0'; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        printf("    %.*s\n", (int)len, text);
    }
}

static void
print_routes(const struct addresses *list)
{
    struct _cl_platform_id *platform;
    telpher_opencl_routes_fn routes =
        set_servers(list) ? find_function(&platform) : NULL;
    char *text = malloc(TEXT_MAX);
    int32_t err = -1;

    if (routes == NULL) {
        printf("    not known: no OpenCL library, or no device\n");
    } else if (text != NULL && (err = routes(platform, TEXT_MAX, text, NULL)) == 0) {
        print_lines(text);
    } else {
        printf("    not known: OpenCL error %d\n", (int)err);
    }
    free(text);
}

void
print_between_servers(const struct addresses *list, bool try_routes)
{
    const char *choice = telpher_config_get("TELPHER_PEER");

    if (list->count < 2) {
        return;
    }
    choice = choice != NULL ? choice : "auto";
    if (strcmp(choice, "off") == 0) {
        printf("  between servers: TELPHER_PEER=off, all through the program\n");
    } else if (!try_routes) {
        printf("  between servers: TELPHER_PEER=%s; telpher devices -v tries each pair "
               "that has devices\n",
               choice);
    } else {
        printf("  between servers: TELPHER_PEER=%s\n", choice);
        print_routes(list);
    }
}
