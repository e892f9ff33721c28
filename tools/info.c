/* SPDX-License-Identifier: Apache-2.0 */
/* telpher info: what is installed, what was found, what can be set. */
#include "telpher.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_config.h"

static void
print_help(void)
{
    printf("usage: telpher info [OPTION]...\n\n"
           "Shows what is installed, whether the servers answer, and all settings.\n\n"
           "  -c, --config    settings only\n"
           "  -b, --build     what is installed only\n"
           "  -h, --help\n");
}

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

static void
count_device(void *user, const telpher_device_info *info)
{
    ++*(unsigned *)user;
}

static void
print_server(const char *address)
{
    telpher_error err = {0};
    telpher_server *server;
    unsigned count = 0;

    if (telpher_server_connect(address, 0, &server, &err) != TELPHER_OK) {
        printf("  %s  %s\n", address, err.text);
        return;
    }
    if (telpher_server_devices(server, count_device, &count, &err) == TELPHER_OK) {
        printf("  %s  %u device%s\n", address, count, count == 1 ? "" : "s");
    } else {
        printf("  %s  %s\n", address, err.text);
    }
    telpher_server_close(server);
}

static void
print_servers(void)
{
    struct addresses list;
    const char *set = telpher_config_get("TELPHER_SERVERS");

    printf("\nservers (%s)\n", set == NULL || set[0] == '\0'
                                   ? "TELPHER_SERVERS is not set; this machine's daemon"
                                   : "TELPHER_SERVERS");
    if (addresses_parse("info", NULL, &list) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            print_server(list.item[i]);
        }
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
    static const struct option options[] = {{"config", no_argument, NULL, 'c'},
                                            {"build", no_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int c, only = 0;

    while ((c = getopt_long(argc, argv, "cbh", options, NULL)) != -1) {
        if (c == 'h') {
            print_help();
            return 0;
        }
        if (c != 'c' && c != 'b') {
            return usage_error("info", "unknown option, or one without its value");
        }
        only = c;
    }
    if (optind < argc) {
        return usage_error("info", "takes no argument, got '%s'", argv[optind]);
    }
    if (only != 'c') {
        print_build();
    }
    if (only == 0) {
        print_servers();
    }
    if (only != 'b') {
        print_config();
    }
    return 0;
}
