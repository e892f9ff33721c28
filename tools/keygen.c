/* SPDX-License-Identifier: Apache-2.0 */
/* telpher keygen: makes the key that a server and its clients share. */
#include "telpher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <telpher/key.h>
#include <unistd.h>

static const char usage[] =
    "usage: telpher keygen [OPTION]... [FILE]\n\n"
    "Makes a key with which clients authenticate, in a file that only you can\n"
    "read: ~/.telpher/key, or /etc/telpher/key for root. Copy it, over a way you\n"
    "trust, to the same place on the other machines. Its holder may run code on\n"
    "the server. To take it from one of several clients, give each a key of its\n"
    "own: all lines of the server's file are good.\n\n";

/* Makes the folder of the default place, for this user alone. */
static void
default_path(char *dst, size_t size)
{
    const char *home = getenv("HOME");
    char folder[900];

    snprintf(folder, sizeof(folder), "%s%s",
             geteuid() == 0 || home == NULL ? "/etc" : home,
             geteuid() == 0 || home == NULL ? "/telpher" : "/.telpher");
    (void)mkdir(folder, geteuid() == 0 ? 0755 : 0700);
    snprintf(dst, size, "%s/key", folder);
}

int
command_keygen(int argc, char **argv)
{
    const char *name = NULL;
    const struct cli_option options[] = {
        CLI_TEXT('n', "name", "NAME",
                 "what the server's log calls it (default: random)", &name),
    };
    telpher_error err = {0};
    char path[1024];
    int code =
        cli_read(argc, argv, usage, "", options, sizeof(options) / sizeof(options[0]));

    if (code >= 0) {
        return code;
    }
    if (argc - optind > 1) {
        return cli_wrong("keygen", "takes one file, got '%s' as well",
                         argv[optind + 1]);
    }
    if (argc - optind == 1) {
        snprintf(path, sizeof(path), "%s", argv[optind]);
    } else {
        default_path(path, sizeof(path));
    }
    if (telpher_key_create(path, name, &err) != TELPHER_OK) {
        return failure("%s", err.text);
    }
    printf("%s\n", path);
    return 0;
}
