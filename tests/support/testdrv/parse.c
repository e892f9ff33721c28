/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the kernels of an OpenCL C source: the name and arguments of each
 * "kernel void NAME(…)". Bodies, types of the program's own and macros are not looked at.
 */
#include "td.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

static bool
is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Copies the source with a blank for each character of a comment. */
static char *
without_comments(const char *source)
{
    char *copy = td_strdup(source, strlen(source));
    char *p = copy;

    while (p != NULL && *p != '\0') {
        bool line = p[0] == '/' && p[1] == '/';
        bool block = p[0] == '/' && p[1] == '*';

        if (!line && !block) {
            p++;
            continue;
        }
        while (*p != '\0' && !(line ? *p == '\n' : p[0] == '*' && p[1] == '/')) {
            *p++ = ' ';
        }
        if (block && *p != '\0') {
            *p++ = ' ';
            *p++ = ' ';
        }
    }
    return copy;
}

static const char *
skip_space(const char *p)
{
    while (isspace((unsigned char)*p)) {
        p++;
    }
    return p;
}

/* Reads an identifier into word; empty if there is none. @return what follows it. */
static const char *
read_word(const char *p, char word[WORD_MAX])
{
    size_t len = 0;

    p = skip_space(p);
    while (is_word_char(*p)) {
        if (len < WORD_MAX - 1) {
            word[len++] = *p;
        }
        p++;
    }
    word[len] = '\0';
    return p;
}

/* From an opening parenthesis to what follows its closing one; NULL if there is none. */
static const char *
skip_parens(const char *p)
{
    int depth = 0;

    for (; *p != '\0'; p++) {
        depth += (*p == '(') - (*p == ')');
        if (*p == ')' && depth == 0) {
            return p + 1;
        }
    }
    return NULL;
}

struct type_size {
    const char *name;
    size_t size;
};

static const struct type_size type_sizes[] = {
    {"bool", 1}, {"char", 1},   {"uchar", 1},  {"short", 2},     {"ushort", 2},
    {"int", 4},  {"uint", 4},   {"long", 8},   {"ulong", 8},     {"float", 4},
    {"half", 2}, {"double", 8}, {"size_t", 8}, {"ptrdiff_t", 8}, {"unsigned", 4},
};

/* Size of a scalar or vector type; 0 if it is not known. */
static size_t
size_of_type(const char *type)
{
    for (size_t i = 0; i < sizeof(type_sizes) / sizeof(type_sizes[0]); i++) {
        size_t len = strlen(type_sizes[i].name);
        size_t lanes;

        if (strncmp(type, type_sizes[i].name, len) != 0) {
            continue;
        }
        if (type[len] == '\0') {
            return type_sizes[i].size;
        }
        lanes = strtoul(type + len, NULL, 10);
        if (isdigit((unsigned char)type[len]) && lanes >= 2 && lanes <= 16) {
            return type_sizes[i].size * (lanes == 3 ? 4 : lanes);
        }
    }
    return 0;
}

/* One word of an argument's declaration that is no part of its type or name. */
static bool
read_qualifier(const char *word, struct td_arg_info *arg)
{
    const char *plain = strncmp(word, "__", 2) == 0 ? word + 2 : word;

    if (strcmp(plain, "global") == 0) {
        arg->kind = TD_ARG_GLOBAL;
    } else if (strcmp(plain, "constant") == 0) {
        arg->kind = TD_ARG_CONSTANT;
    } else if (strcmp(plain, "local") == 0) {
        arg->kind = TD_ARG_LOCAL;
    } else if (strcmp(plain, "const") == 0) {
        arg->quals |= CL_KERNEL_ARG_TYPE_CONST;
    } else if (strcmp(plain, "restrict") == 0) {
        arg->quals |= CL_KERNEL_ARG_TYPE_RESTRICT;
    } else if (strcmp(plain, "volatile") == 0) {
        arg->quals |= CL_KERNEL_ARG_TYPE_VOLATILE;
    } else if (strcmp(plain, "pipe") == 0) {
        arg->kind = TD_ARG_GLOBAL;
        arg->quals |= CL_KERNEL_ARG_TYPE_PIPE;
    } else {
        return strcmp(plain, "private") == 0 || strcmp(plain, "read_only") == 0 ||
               strcmp(plain, "write_only") == 0;
    }
    return true;
}

/* "unsigned int" is "uint", as a compiler reports it. */
static void
add_type_word(struct td_arg_info *arg, const char *word)
{
    size_t used = strlen(arg->type);

    if (strcmp(arg->type, "unsigned") == 0) {
        snprintf(arg->type, sizeof(arg->type), "u%.40s", word);
    } else {
        snprintf(arg->type + used, sizeof(arg->type) - used, "%s%.40s",
                 used > 0 ? " " : "", word);
    }
}

/* Reads one argument, up to @p end. */
static void
parse_arg(const char *p, const char *end, struct td_arg_info *arg)
{
    char word[WORD_MAX];
    char pending[WORD_MAX] = "";
    bool pointer = false;

    *arg = (struct td_arg_info){.kind = TD_ARG_VALUE};
    for (p = skip_space(p); p < end; p = skip_space(p)) {
        if (!is_word_char(*p)) {
            pointer |= *p++ == '*';
            if (pointer && pending[0] != '\0') {
                add_type_word(arg, pending);
                pending[0] = '\0';
            }
            continue;
        }
        p = read_word(p, word);
        if (read_qualifier(word, arg)) {
            continue;
        }
        if (pending[0] != '\0') {
            add_type_word(arg, pending);
        }
        memcpy(pending, word, sizeof(pending)); /* the last word is the name */
    }
    snprintf(arg->name, sizeof(arg->name), "%.47s", pending);
    if ((arg->quals & CL_KERNEL_ARG_TYPE_PIPE) != 0) {
        return;
    }
    if (!pointer) {
        arg->kind = TD_ARG_VALUE;
        arg->quals = 0;
        arg->size = size_of_type(arg->type);
        return;
    }
    if (arg->kind == TD_ARG_VALUE) {
        arg->kind =
            TD_ARG_GLOBAL; /* a pointer to anything else cannot be an argument */
    }
    if (arg->kind == TD_ARG_CONSTANT) {
        arg->quals |= CL_KERNEL_ARG_TYPE_CONST;
    }
    strncat(arg->type, "*", sizeof(arg->type) - strlen(arg->type) - 1);
}

static cl_uint
count_args(const char *p, const char *end)
{
    char word[WORD_MAX];
    cl_uint count = 1;

    p = skip_space(p);
    if (p >= end ||
        (skip_space(read_word(p, word)) >= end && strcmp(word, "void") == 0)) {
        return 0;
    }
    for (; p < end; p++) {
        count += *p == ',';
    }
    return count;
}

/* Reads the arguments between the parentheses. */
static bool
parse_args(const char *p, const char *end, struct td_kernel_info *k)
{
    k->num_args = count_args(p, end);
    k->arg = calloc(k->num_args + 1u, sizeof(*k->arg));
    for (cl_uint i = 0; k->arg != NULL && i < k->num_args; i++) {
        const char *comma = memchr(p, ',', (size_t)(end - p));

        parse_arg(p, comma != NULL ? comma : end, &k->arg[i]);
        p = comma != NULL ? comma + 1 : end;
    }
    return k->arg != NULL;
}

/* Reads "[__attribute__((…))] void NAME(…)" at @p p. NULL: it is none. */
static struct td_kernel_info *
parse_kernel(const char *p)
{
    char word[WORD_MAX];
    struct td_kernel_info *k;
    const char *end;

    p = read_word(p, word);
    while (strcmp(word, "__attribute__") == 0 && (p = skip_parens(p)) != NULL) {
        p = read_word(p, word);
    }
    if (p == NULL || strcmp(word, "void") != 0) {
        return NULL;
    }
    p = skip_space(read_word(p, word));
    end = *p == '(' ? skip_parens(p) : NULL;
    if (word[0] == '\0' || end == NULL) {
        return NULL;
    }
    k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return NULL;
    }
    snprintf(k->name, sizeof(k->name), "%s", word);
    if (!parse_args(p + 1, end - 1, k)) {
        free(k);
        return NULL;
    }
    return k;
}

struct td_kernel_info *
td_parse(const char *source)
{
    struct td_kernel_info *list = NULL;
    struct td_kernel_info **tail = &list;
    char *text = without_comments(source);
    const char *p = text;

    while (p != NULL && *p != '\0') {
        char word[WORD_MAX];
        const char *next = read_word(p, word);

        if (word[0] == '\0') {
            p = *next != '\0' ? next + 1 : next;
            continue;
        }
        p = next;
        if (strcmp(word, "kernel") == 0 || strcmp(word, "__kernel") == 0) {
            *tail = parse_kernel(p);
            tail = *tail != NULL ? &(*tail)->next : tail;
        }
    }
    free(text);
    return list;
}

void
td_parse_free(struct td_kernel_info *list)
{
    while (list != NULL) {
        struct td_kernel_info *k = list;

        list = k->next;
        free(k->arg);
        free(k);
    }
}
