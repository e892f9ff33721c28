/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of the telpher command and of telpher-bench: a table of options, from which
 * both parsing and the help text are made. Letters and long names are given to
 * getopt_long(). Programs are compiled with CLI_PROGRAM, their name, and CLI_VERSION,
 * which is empty where commands have no --version.
 */
#ifndef TELPHER_TOOLS_CLI_H
#define TELPHER_TOOLS_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

enum cli_kind {
    CLI_KIND_FLAG, /**< bool */
    CLI_KIND_TEXT, /**< const char *, not copied */
    CLI_KIND_INT, /**< int, within the bounds */
    CLI_KIND_CALL, /**< anything else, by the function */
    CLI_KIND_PROGRAM /**< no option: after them comes a program with its own */
};

struct cli_option {
    char letter; /**< 0: none */
    const char *name; /**< NULL: `help` is a heading */
    const char *argument; /**< what the help text calls it; NULL of a flag */
    const char *help; /**< lines with '\n' between them; NULL: not in the help text */
    enum cli_kind kind;
    void *place; /**< what the value is written to; borrowed */
    int least, most; /**< of CLI_KIND_INT */
    bool
        may_lack; /**< of CLI_KIND_CALL: the value may be left out, then it is read as "" */
    /** Of CLI_KIND_CALL: reads the text into @p place. @return false if it has no
     *  meaning */
    bool (*read)(void *place, const char *text);
};

#define CLI_HEADING(text)                                                              \
    {                                                                                  \
        .help = (text)                                                                 \
    }
#define CLI_OPTION(l, n, a, h, k, p)                                                   \
    .letter = (l), .name = (n), .argument = (a), .help = (h), .kind = (k), .place = (p)
#define CLI_FLAG(l, n, h, p)                                                           \
    {                                                                                  \
        CLI_OPTION(l, n, NULL, h, CLI_KIND_FLAG, p)                                    \
    }
#define CLI_TEXT(l, n, a, h, p)                                                        \
    {                                                                                  \
        CLI_OPTION(l, n, a, h, CLI_KIND_TEXT, p)                                       \
    }
#define CLI_INT(l, n, a, h, p, low, high)                                              \
    {                                                                                  \
        CLI_OPTION(l, n, a, h, CLI_KIND_INT, p), .least = (low), .most = (high)        \
    }
#define CLI_CALL(l, n, a, h, p, f)                                                     \
    {                                                                                  \
        CLI_OPTION(l, n, a, h, CLI_KIND_CALL, p), .read = (f)                          \
    }

/** The last entry, where options end at the first argument, which must be there. */
#define CLI_RUNS_PROGRAM                                                               \
    {                                                                                  \
        .kind = CLI_KIND_PROGRAM                                                       \
    }

/**
 * Reads the options; optind is left at the first argument that is none. --help and
 * --version are added.
 * @param argv   argv[0] is the command's name
 * @param usage  what the help text begins with
 * @param tail   what it ends with, or ""
 * @return an exit status if the program ends here, else -1
 */
int cli_read(int argc, char **argv, const char *usage, const char *tail,
             const struct cli_option *options, size_t count);

/** Says on standard error what is wrong with the arguments of a command. @return 2 */
int cli_wrong(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Reads bytes, or with K, M, G; *ret_end is left after it. @return false if it is none */
bool cli_parse_size(const char *text, const char **ret_end, size_t *ret_bytes);
/** Reads "[MIN:]MAX" or "MIN:" of -m; what is not given stays, but MIN is not above MAX.
 *  @return false if it has no meaning, or MIN is below @p least */
bool cli_parse_sizes(const char *text, size_t least, size_t *min, size_t *max);
/** CLI_CALL of -f text|json, into a bool. */
bool cli_parse_json(void *place, const char *text);

#endif
