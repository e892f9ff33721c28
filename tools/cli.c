/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines from tables; see cli.h. */
#include "tools/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 48, HELP_COLUMN = 26, FIRST_CODE = 256 };

static const char version[] = CLI_VERSION;

int
cli_wrong(const char *command, const char *format, ...)
{
    char why[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    /* at once: several ranks may say it at the same time */
    fprintf(stderr,
            CLI_PROGRAM " %s: %s\n`" CLI_PROGRAM " %s --help` shows how it is used\n",
            command, why, command);
    return 2;
}

/* ---- help ---- */

static void
print_option(const struct cli_option *o)
{
    const char *text = o->help;
    int used;

    if (o->name == NULL) {
        printf("\n%s\n", text);
        return;
    }
    printf("  %c%c%c ", o->letter != 0 ? '-' : ' ', o->letter != 0 ? o->letter : ' ',
           o->letter != 0 ? ',' : ' ');
    used = 6 + printf("--%s%s%s", o->name, o->argument != NULL ? " " : "",
                      o->argument != NULL ? o->argument : "");
    for (size_t len; *text != '\0'; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        if (used >= HELP_COLUMN) {
            printf("\n");
            used = 0;
        }
        printf("%*s%.*s\n", HELP_COLUMN - used, "", (int)len, text);
        used = 0;
    }
}

static void
print_help(const char *usage, const char *tail, const struct cli_option *options,
           size_t count)
{
    static const struct cli_option last[] = {
        {.letter = 'h', .name = "help", .help = "this text"},
        {.letter = 'v', .name = "version", .help = "the version"}};

    fputs(usage, stdout);
    for (size_t i = 0; i < count; i++) {
        if (options[i].help != NULL) {
            print_option(&options[i]);
        }
    }
    print_option(&last[0]);
    if (version[0] != '\0') {
        print_option(&last[1]);
    }
    fputs(tail, stdout);
}

/* ---- values ---- */

static bool
parse_int(const char *text, int least, int most, int *ret_value)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > most) {
        return false;
    }
    *ret_value = (int)value;
    return true;
}

bool
cli_parse_size(const char *text, const char **ret_end, size_t *ret_bytes)
{
    static const char suffixes[] = "KMG";
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    const char *suffix = *end != '\0' ? strchr(suffixes, *end) : NULL;

    if (end == text || value > (1ull << 40)) {
        return false;
    }
    if (suffix != NULL) {
        value <<= 10 * (suffix - suffixes + 1);
        end++;
    }
    *ret_end = end;
    *ret_bytes = (size_t)value;
    return value <= (1ull << 34);
}

bool
cli_parse_sizes(const char *text, size_t least, size_t *min, size_t *max)
{
    const char *end;
    size_t most = *max;

    if (!cli_parse_size(text, &end, max)) {
        return false;
    }
    if (end[0] == ':' && end[1] == '\0') {
        *min = *max;
        *max = most;
        end++;
    } else if (*end == ':') {
        *min = *max;
        if (!cli_parse_size(end + 1, &end, max)) {
            return false;
        }
    } else if (*min > *max) {
        *min = *max;
    }
    return *end == '\0' && *min >= least && *min <= *max && *max != 0;
}

bool
cli_parse_json(void *place, const char *text)
{
    *(bool *)place = strcmp(text, "json") == 0;
    return *(bool *)place || strcmp(text, "text") == 0;
}

static bool
set(const struct cli_option *o, const char *text)
{
    switch (o->kind) {
    case CLI_KIND_FLAG:
        *(bool *)o->place = true;
        return true;
    case CLI_KIND_TEXT:
        *(const char **)o->place = text;
        return true;
    case CLI_KIND_INT:
        return parse_int(text, o->least, o->most, o->place);
    case CLI_KIND_CALL:
        return o->read(o->place, text != NULL ? text : "");
    case CLI_KIND_PROGRAM:
        break;
    }
    return false;
}

/* ---- the table ---- */

static bool
runs_program(const struct cli_option *options, size_t count)
{
    return count != 0 && options[count - 1].kind == CLI_KIND_PROGRAM;
}

/* An option has its letter as getopt's code, or FIRST_CODE and its index. */
static void
make_getopt(const struct cli_option *options, size_t count, struct option *longs,
            char *letters)
{
    *longs++ = (struct option){"help", no_argument, NULL, 'h'};
    if (runs_program(options, count)) {
        *letters++ = '+';
    }
    *letters++ = 'h';
    if (version[0] != '\0') {
        *longs++ = (struct option){"version", no_argument, NULL, 'v'};
        *letters++ = 'v';
    }
    for (size_t i = 0; i < count; i++) {
        const struct cli_option *o = &options[i];

        if (o->name != NULL) {
            *longs++ =
                (struct option){o->name,
                                o->may_lack           ? optional_argument
                                : o->argument != NULL ? required_argument
                                                      : no_argument,
                                NULL, o->letter != 0 ? o->letter : FIRST_CODE + (int)i};
        }
        if (o->letter != 0) {
            *letters++ = o->letter;
            *letters = ':';
            letters[1] = ':';
            letters += o->may_lack ? 2 : o->argument != NULL;
        }
    }
    *longs = (struct option){NULL, 0, NULL, 0};
    *letters = '\0';
}

static const struct cli_option *
find(const struct cli_option *options, size_t count, int code)
{
    for (size_t i = 0; i < count; i++) {
        if (code == FIRST_CODE + (int)i ||
            (options[i].letter != 0 && options[i].letter == code)) {
            return &options[i];
        }
    }
    return NULL;
}

/* Of what getopt_long() did not take: the letter, or the long name as it was written. */
static int
refuse(const char *command, const char *written)
{
    const char letter[] = {'-', (char)optopt, '\0'};

    return cli_wrong(command, "unknown option, or one without its value: %s",
                     optopt > 0 && optopt < FIRST_CODE ? letter : written);
}

/* @return -1 to go on, or the exit status */
static int
take(const struct cli_option *o, const char *command, const char *text)
{
    if (set(o, text)) {
        return -1;
    }
    return o->kind == CLI_KIND_INT
               ? cli_wrong(command, "--%s is %d to %d, not \"%s\"", o->name, o->least,
                           o->most, text)
               : cli_wrong(command, "--%s takes %s, not \"%s\"", o->name,
                           o->argument != NULL ? o->argument : "no value", text);
}

int
cli_read(int argc, char **argv, const char *usage, const char *tail,
         const struct cli_option *options, size_t count)
{
    struct option longs[OPTIONS_MAX + 3];
    char letters[3 * OPTIONS_MAX + 6];
    int code, status = -1;

    make_getopt(options, count < OPTIONS_MAX ? count : OPTIONS_MAX, longs, letters);
    optind = 1;
    opterr = 0; /* one line, below */
    while (status < 0 && (code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct cli_option *o = find(options, count, code);

        if (o == NULL && code == 'h') {
            print_help(usage, tail, options, count);
            return EXIT_SUCCESS;
        }
        if (o == NULL && code == 'v') {
            printf(CLI_PROGRAM " %s\n", version);
            return EXIT_SUCCESS;
        }
        status =
            o != NULL ? take(o, argv[0], optarg) : refuse(argv[0], argv[optind - 1]);
    }
    if (status < 0 && optind == argc && runs_program(options, count)) {
        status = cli_wrong(argv[0], "no program given");
    }
    return status;
}
