/* SPDX-License-Identifier: Apache-2.0 */
/* Files of pairs of numbers; see ranks_lists.h. */
#include "bench/ranks/ranks_lists.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r");
}

/* @return what follows the number, or NULL */
static const char *
parse_number(const char *at, int *ret_number)
{
    char *end;
    long number;

    at = skip_blanks(at);
    if (*at < '0' || *at > '9') {
        return NULL;
    }
    number = strtol(at, &end, 10);
    if (number > INT_MAX) {
        return NULL;
    }
    *ret_number = (int)number;
    return skip_blanks(end);
}

static bool
parse_line(const char *at, int *ret_first, int *ret_second)
{
    at = parse_number(at, ret_first);
    if (at == NULL || *at != ',') {
        return false;
    }
    at = parse_number(at + 1, ret_second);
    return at != NULL && (*at == '\n' || *at == '\0');
}

int
ranks_list_parse(const char *text, struct ranks_list *ret_list)
{
    int number = 1;

    ret_list->count = 0;
    for (const char *at = text; *at != '\0'; number++) {
        const char *word = skip_blanks(at);
        int i = ret_list->count;

        if (*word != '#' && *word != '\n' && *word != '\0') {
            if (i == RANKS_LIST_MAX ||
                !parse_line(word, &ret_list->first[i], &ret_list->second[i])) {
                return number;
            }
            ret_list->count++;
        }
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return 0;
}

const char *
ranks_list_read(const char *path, struct ranks_list *ret_list)
{
    static char reason[96];
    FILE *file = fopen(path, "r");
    char *text = calloc(1, RANKS_LIST_BYTES);
    size_t len =
        file != NULL && text != NULL ? fread(text, 1, RANKS_LIST_BYTES, file) : 0;
    const char *why = file == NULL || ferror(file) ? strerror(errno)
                      : text == NULL               ? "out of memory"
                      : len == RANKS_LIST_BYTES    ? "longer than 128 KiB"
                                                   : NULL;
    int bad = why == NULL ? ranks_list_parse(text, ret_list) : 0;

    if (why == NULL && (bad != 0 || ret_list->count == 0)) {
        snprintf(reason, sizeof(reason),
                 bad != 0 ? "line %d is not two numbers with a comma between them, "
                            "or one of more than %d"
                          : "has no line with two numbers",
                 bad, RANKS_LIST_MAX);
        why = reason;
    }
    if (file != NULL) {
        fclose(file);
    }
    free(text);
    return why;
}
