/* SPDX-License-Identifier: Apache-2.0 */
/* The telpher command: finds the subcommand and runs it. */
#include "telpher.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"run", command_run, "run a program on remote devices"},
    {"launch", command_launch, "start the ranks of a job"},
    {"cluster", command_script, "run a program on the devices of an allocation"},
    {"devices", command_devices, "list the devices of servers"},
    {"info", command_info, "show what is installed, found and set"},
    {"ping", command_ping, "measure round trip and bandwidth to a server"},
    {"sessions", command_sessions, "list the sessions of this machine's server"},
    {"top", command_script, "watch the sessions of servers"},
    {"trace", command_script, "join traces of programs and servers"},
    {"kill", command_kill, "end a session of this machine's server"},
    {"keygen", command_keygen, "make the key that a server and its clients share"},
};

static void
print_help(void)
{
    printf("usage: telpher COMMAND [OPTION]... [ARG]...\n\n"
           "Makes OpenCL devices of other machines usable as if they sat in this one, "
           "and\n"
           "starts programs whose ranks communicate.\n\n"
           "commands:\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        printf("  %-9s %s\n", commands[i].name, commands[i].help);
    }
    printf("\n`telpher COMMAND --help` says more. Try it here, without any server:\n"
           "  telpher run -- clinfo -l\n"
           "With the devices of another machine, through ssh; there and here:\n"
           "  telpherd --socket /tmp/me.sock\n"
           "  ssh -N -L /tmp/far.sock:/tmp/me.sock HOST &\n"
           "  telpher run -s unix:/tmp/far.sock -- PROGRAM\n"
           "Without ssh, there:\n"
           "  telpher keygen\n"
           "  telpherd --listen 0.0.0.0\n"
           "copy ~/.telpher/key from there to the same place here, and here:\n"
           "  telpher run -s HOST -- PROGRAM\n"
           "Four ranks of a program that uses libtelpher:\n"
           "  telpher launch -n 4 -- PROGRAM\n");
}

int
main(int argc, char **argv)
{
    (void)telpher_config_get("TELPHER_SERVERS"); /* warns of misspelt variables */
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        return argc < 2 ? EXIT_USAGE : 0;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("telpher %s\n", telpher_version());
        return 0;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    failure("no command '%s'; `telpher --help` lists them", argv[1]);
    return EXIT_USAGE;
}
