/* SPDX-License-Identifier: Apache-2.0 */
/* telpher info: what is installed, what was found, what can be set. */
#include "telpher.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"

static const char usage[] =
    "usage: telpher info [OPTION]...\n\n"
    "Shows what is installed, whether the servers answer, and all settings.\n\n";

static void
print_artefact(const char *what, const char *in_build, const char *installed,
               const char *name)
{
    char path[4096];

    if (find_artefact(in_build, installed, name, path, sizeof(path)) == 0) {
        printf("  %-16s %s\n", what, path);
    } else {
        printf("  %-16s not installed\n", what);
    }
}

static void
print_library(const char *what, const char *name, const char *missing)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);

    printf("  %-16s %s\n", what, handle != NULL ? name : missing);
    if (handle != NULL) {
        dlclose(handle);
    }
}

static void
print_build(void)
{
    printf("telpher %s\n\ninstalled\n", telpher_version());
    print_artefact("OpenCL library", "../lib", TP_BUILD_BIN_TO_LIB,
                   "libtelpher-opencl.so." TP_BUILD_SONAME_VERSION);
    print_artefact("daemon", ".", ".", "telpherd");
    print_artefact("executor", "../libexec/telpher", TP_BUILD_BIN_TO_LIBEXEC,
                   "telpher-executor");
    print_artefact("benchmark", ".", ".", "telpher-bench");
    print_library("OpenCL loader", "libOpenCL.so.1",
                  "not found: install ocl-icd-libopencl1");
}

/** @return whether it has devices */
static bool
print_server(const char *address)
{
    telpher_error err = {0};
    unsigned count = 0;

    if (server_count_devices(address, 0, &count, &err) == TELPHER_OK) {
        printf("  %s  %u device%s\n", address, count, count == 1 ? "" : "s");
    } else {
        printf("  %s  %s\n", address, err.text);
    }
    return count != 0;
}

static void
print_servers(void)
{
    struct addresses list;
    size_t usable = 0;
    const char *set = telpher_config_get("TELPHER_SERVERS");

    printf("\nservers (%s)\n", set == NULL || set[0] == '\0'
                                   ? "TELPHER_SERVERS is not set; this machine's daemon"
                                   : "TELPHER_SERVERS");
    if (addresses_parse("info", NULL, &list) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            usable += print_server(list.item[i]);
        }
        print_between_servers(&list, usable > 1);
        addresses_free(&list);
    }
}

static void
print_setting(void *user, const telpher_config_info *s)
{
    const char **room = user;

    if (*room == NULL || strcmp(*room, s->room) != 0) {
        printf("\n  [%s]\n", s->room);
        *room = s->room;
    }
    printf("  %-28s %s\n      %s (%s, default %s)\n", s->name,
           s->value == NULL ? "-" : s->value, s->help, s->type,
           s->default_text[0] == '\0' ? "empty" : s->default_text);
}

static void
print_config(void)
{
    const char *room = NULL;

    printf("\nsettings: environment variables, and what they are set to here\n");
    telpher_config_describe(print_setting, &room);
}

int
command_info(int argc, char **argv)
{
    bool config = false, build = false;
    const struct cli_option options[] = {
        CLI_FLAG('c', "config", "settings only", &config),
        CLI_FLAG('b', "build", "what is installed only", &build),
    };
    int code =
        cli_read(argc, argv, usage, "", options, sizeof(options) / sizeof(options[0]));

    if (code >= 0) {
        return code;
    }
    if (optind < argc) {
        return cli_wrong("info", "takes no argument, got '%s'", argv[optind]);
    }
    if (build || !config) {
        print_build();
    }
    if (build == config) {
        print_servers();
    }
    if (config || !build) {
        print_config();
    }
    return 0;
}
