/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of every command: a table of options, from which both parsing and the
 * help text are made. Letters and long names are given to getopt_long().
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum bench_option_kind {
    BENCH_FLAG, /**< bool */
    BENCH_TEXT, /**< const char *, not copied */
    BENCH_INT, /**< int, within the bounds */
    BENCH_CALL /**< anything else, by the function */
};

struct bench_option {
    char letter; /**< 0: none */
    const char *name; /**< NULL: `help` is a heading */
    const char *argument; /**< what the help text calls it; NULL of a flag */
    const char *help; /**< lines with '\n' between them; NULL: not in the help text */
    enum bench_option_kind kind;
    void *place; /**< what the value is written to; borrowed */
    int least, most; /**< of BENCH_INT */
    /** Of BENCH_CALL: reads the text into @p place. @return false if it has no meaning */
    bool (*read)(void *place, const char *text);
};

#define BENCH_HEADING(text)                                                            \
    {                                                                                  \
        .help = (text)                                                                 \
    }
#define BENCH_OPTION(l, n, a, h, k, p)                                                 \
    .letter = (l), .name = (n), .argument = (a), .help = (h), .kind = (k), .place = (p)
#define BENCH_FLAG_OPTION(l, n, h, p)                                                  \
    {                                                                                  \
        BENCH_OPTION(l, n, NULL, h, BENCH_FLAG, p)                                     \
    }
#define BENCH_TEXT_OPTION(l, n, a, h, p)                                               \
    {                                                                                  \
        BENCH_OPTION(l, n, a, h, BENCH_TEXT, p)                                        \
    }
#define BENCH_INT_OPTION(l, n, a, h, p, low, high)                                     \
    {                                                                                  \
        BENCH_OPTION(l, n, a, h, BENCH_INT, p), .least = (low), .most = (high)         \
    }
#define BENCH_CALL_OPTION(l, n, a, h, p, f)                                            \
    {                                                                                  \
        BENCH_OPTION(l, n, a, h, BENCH_CALL, p), .read = (f)                           \
    }

/**
 * Reads the options; optind is left at the first argument that is none. --help and
 * --version are added.
 * @param argv   argv[0] is the command's name
 * @param usage  what the help text begins with
 * @param tail   what it ends with, or ""
 * @return an exit status if the program ends here, else -1
 */
int bench_options_read(int argc, char **argv, const char *usage, const char *tail,
                       const struct bench_option *options, size_t count);

/** Says what is wrong with an argument of the command. @return 2 */
int bench_options_wrong(const char *command, const char *what, const char *text);

/** Reads a whole number. @return false if it is none, or outside the bounds */
bool bench_parse_int(const char *text, int least, int most, int *ret_value);
/** Reads bytes, or with K, M, G; *ret_end is left after it. @return false if it is none */
bool bench_parse_size(const char *text, const char **ret_end, size_t *ret_bytes);
/** Reads "[MIN:]MAX" of -m; what is not given stays, but MIN is not above MAX.
 *  @return false if it has no meaning, or MIN is below @p least */
bool bench_parse_sizes(const char *text, size_t least, size_t *min, size_t *max);
/** BENCH_CALL of -f text|json, into a bool. */
bool bench_parse_json(void *place, const char *text);

#endif
