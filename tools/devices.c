/* SPDX-License-Identifier: Apache-2.0 */
/* telpher devices: the devices of servers, asked from their daemons. */
#include "telpher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: telpher devices [OPTION]... [SERVER]...\n\n"
    "Lists the devices that servers offer. Without servers: $TELPHER_SERVERS, "
    "else\n"
    "the telpherd of this machine.\n\n";

static const char *
type_name(uint32_t type)
{
    switch (type) {
    case TELPHER_DEVICE_CPU:
        return "CPU";
    case TELPHER_DEVICE_GPU:
        return "GPU";
    case TELPHER_DEVICE_ACCELERATOR:
        return "ACC";
    default:
        return "dev";
    }
}

/** Says what shared virtual memory there is from here, and why not all that the driver has. */
static const char *
svm_text(const telpher_device_info *d)
{
    const uint64_t coarse = 1, fine = 2, atomics = 8; /* CL_DEVICE_SVM_... */

    if ((d->svm_native & coarse) == 0) {
        return "none, the driver has none";
    }
    if ((d->svm & coarse) == 0) {
        return "none, the server is older than this program";
    }
    if ((d->svm & fine) != 0) {
        return (d->svm & atomics) != 0 ? "coarse and fine grain, atomics"
                                       : "coarse and fine grain";
    }
    if ((d->svm_native & fine) == 0) {
        return "coarse grain";
    }
    return d->type == TELPHER_DEVICE_CPU
               ? "coarse grain; fine grain only through the server's Unix socket"
               : "coarse grain; fine grain only on CPU devices";
}

struct printing {
    bool verbose;
    unsigned count;
};

static void
print_device(void *user, const telpher_device_info *d)
{
    struct printing *p = user;
    char memory[32], largest[32];

    p->count++;
    printf("  %2u  %s  %s  (%s)%s\n", d->index, type_name(d->type), d->name,
           d->platform_name, d->available ? "" : "  not available");
    if (p->verbose) {
        printf("          vendor %s, %s, driver %s\n", d->vendor, d->version,
               d->driver_version);
        printf("          %u units at %u MHz, memory %s, largest buffer %s\n",
               d->compute_units, d->clock_mhz,
               size_text(memory, sizeof(memory), d->memory_bytes),
               size_text(largest, sizeof(largest), d->max_allocation_bytes));
        printf("          shared virtual memory: %s\n", svm_text(d));
    }
}

static int
list_server(const char *address, uint64_t timeout_ns, bool verbose, unsigned *ret_count)
{
    struct printing printing = {.verbose = verbose};
    telpher_server *server;
    telpher_error err = {0};
    telpher_status status;

    status = telpher_server_connect(address, timeout_ns, &server, &err);
    if (status != TELPHER_OK) {
        return failure("%s", err.text);
    }
    printf("%s\n", address);
    status = telpher_server_devices(server, print_device, &printing, &err);
    telpher_server_close(server);
    if (status != TELPHER_OK) {
        return failure("%s: %s", address, err.text);
    }
    *ret_count = printing.count;
    if (printing.count == 0) {
        printf("  no OpenCL device: install a driver there, e.g. pocl-opencl-icd; "
               "telpherd's log says if it could not ask\n");
    }
    return 0;
}

/** Lists servers, and tells how content passes between those that have devices. */
static int
list_all(const struct addresses *list, uint64_t timeout_ns, bool verbose)
{
    size_t usable = 0;
    char wait[32];
    int code = 0;

    snprintf(wait, sizeof(wait), "%llums", (unsigned long long)(timeout_ns / 1000000));
    setenv("TELPHER_CONNECT_TIMEOUT", wait, 0); /* for the OpenCL library */
    for (size_t i = 0; i < list->count; i++) {
        unsigned count = 0;

        code |= list_server(list->item[i], timeout_ns, verbose, &count);
        usable += count != 0;
    }
    print_between_servers(list, verbose && usable > 1);
    return code;
}

static int
list_servers(const char *servers, uint64_t timeout_ns, bool verbose)
{
    const char *environment = telpher_config_get("TELPHER_SERVERS");
    struct addresses list;
    int code = addresses_parse("devices", servers, &list);

    if (code != 0) {
        return code;
    }
    code = list_all(&list, timeout_ns, verbose);
    addresses_free(&list);
    if (code != 0 && servers == NULL && (environment == NULL || *environment == '\0')) {
        fprintf(stderr, "No server was named, so this machine's was asked. Name one: "
                        "telpher devices HOST\n"
                        "or start one here: telpherd &\n");
    }
    return code;
}

int
command_devices(int argc, char **argv)
{
    uint64_t timeout_ns = 2000000000;
    const char *servers = NULL;
    struct addresses list;
    bool verbose = false;
    const struct cli_option options[] = {
        CLI_TEXT('s', "servers", "LIST", "servers, with commas between", &servers),
        CLI_FLAG('v', "verbose",
                 "memory, units, versions, shared virtual memory as well; of several\n"
                 "servers, how content passes between each two",
                 &verbose),
        CLI_CALL('t', "timeout", "TIME", "how long to wait for each server (2s)",
                 &timeout_ns, parse_duration),
    };
    int code = cli_read(argc, argv, usage,
                        "\nThe exit code is 1 if a server does not answer.\n", options,
                        sizeof(options) / sizeof(options[0]));

    if (code >= 0) {
        return code;
    }
    if (optind < argc && servers != NULL) {
        return cli_wrong("devices", "give servers with -s or as arguments, not both");
    }
    if (optind == argc) {
        return list_servers(servers, timeout_ns, verbose);
    }
    list.count = (size_t)(argc - optind);
    if (list.count > sizeof(list.item) / sizeof(list.item[0])) {
        return cli_wrong("devices", "%zu servers are too many", list.count);
    }
    memcpy(list.item, argv + optind, list.count * sizeof(list.item[0]));
    return list_all(&list, timeout_ns, verbose);
}
