/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for program-scope and static variables in OpenCL C. Some drivers accept them, and say that
 * a program has none. The text is not preprocessed: everything that may hide a variable counts as
 * one.
 */
#include "icd/copies/variables.h"

#include <stdint.h>
#include <string.h>

/** The declaration being read, outside of all braces. */
struct declaration {
    unsigned names; /**< identifiers outside parentheses and braces */
    unsigned names_before; /**< those before the first parenthesis */
    bool has_parenthesis, has_brace, has_value, has_pointer;
    bool is_type, is_typedef, is_constant, is_sampler;
};

struct scan {
    const char *at, *end;
    unsigned braces, parentheses;
    unsigned
        attribute; /**< parentheses of an attribute that are open, plus 1; 0: none */
    struct declaration d;
    char last; /**< the last sign that is no space */
};

static bool
is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

static bool
equals(const char *name, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(name, word, len) == 0;
}

/** Skips a comment or a literal. @return false: there is none */
static bool
skip_quiet(struct scan *s)
{
    const char *p = s->at;

    if (s->end - p >= 2 && p[0] == '/' && p[1] == '/') {
        while (p < s->end && *p != '\n') {
            p++;
        }
    } else if (s->end - p >= 2 && p[0] == '/' && p[1] == '*') {
        for (p += 2; p < s->end && !(p[-1] == '*' && p[0] == '/' && p > s->at + 2);) {
            p++;
        }
        p += p < s->end;
    } else if (*p == '"' || *p == '\'') {
        char quote = *p;

        for (p++; p < s->end && *p != quote; p++) {
            p += *p == '\\' && p + 1 < s->end;
        }
        p += p < s->end;
    } else {
        return false;
    }
    s->at = p;
    return true;
}

/** Reads a line of the preprocessor. @return false: it may hide a variable */
static bool
take_directive(struct scan *s)
{
    const char *begin = s->at;
    int braces = 0;
    bool hides = false;

    while (s->at < s->end && *s->at != '\n') {
        if (*s->at == '\\' && s->at + 1 < s->end) {
            s->at += 2; /* also a line that goes on */
            continue;
        }
        if (skip_quiet(s)) {
            continue;
        }
        braces += (*s->at == '{') - (*s->at == '}');
        hides = hides || (*s->at == ';' && braces <= 0);
        s->at++;
    }
    for (begin++; begin < s->at && (*begin == ' ' || *begin == '\t'); begin++) {
    }
    if (s->at - begin >= 7 && memcmp(begin, "include", 7) == 0) {
        return false;
    }
    return !(hides && s->at - begin >= 6 && memcmp(begin, "define", 6) == 0);
}

/** Reads a name. @return false: it makes a variable */
static bool
take_name(struct scan *s)
{
    const char *name = s->at;
    struct declaration *d = &s->d;
    size_t len;

    while (s->at < s->end && is_name(*s->at)) {
        s->at++;
    }
    len = (size_t)(s->at - name);
    if (s->braces != 0) {
        return !equals(name, len, "static") && !equals(name, len, "extern");
    }
    if (equals(name, len, "__attribute__")) {
        s->attribute = 1;
        return true;
    }
    if (s->parentheses != 0) {
        return true;
    }
    d->names++;
    d->names_before += !d->has_parenthesis;
    d->is_type = d->is_type || equals(name, len, "struct") ||
                 equals(name, len, "union") || equals(name, len, "enum");
    d->is_typedef = d->is_typedef || equals(name, len, "typedef");
    d->is_sampler = d->is_sampler || equals(name, len, "sampler_t");
    d->is_constant = d->is_constant || equals(name, len, "constant") ||
                     equals(name, len, "__constant");
    return true;
}

/** True if a declaration that ends with ';' makes no variable. */
static bool
is_harmless(const struct declaration *d)
{
    if (d->names == 0 || d->is_typedef || d->is_sampler) {
        return true;
    }
    if (d->is_constant) {
        return !d->has_pointer;
    }
    if (d->has_parenthesis) {
        return d->names_before >= 2 && !d->has_value && !d->has_brace;
    }
    return d->is_type && d->names <= 2 && !d->has_value;
}

/** Reads a sign of a declaration. @return false: it makes a variable */
static bool
take_sign(struct scan *s, char c)
{
    struct declaration *d = &s->d;
    bool is_function = d->has_parenthesis && !d->has_value;

    if (c == '(' || c == ')') {
        if (c == '(') {
            s->parentheses++;
        } else if (s->parentheses != 0) {
            s->parentheses--;
        }
        if (s->attribute != 0) {
            s->attribute = s->parentheses == 0 ? 0 : s->attribute;
        } else {
            d->has_parenthesis = true;
        }
    } else if (c == '{') {
        s->braces++;
        d->has_brace = true;
        return !is_function || d->names_before >= 2;
    } else if (c == ';' && s->parentheses == 0) {
        bool harmless = is_harmless(d);

        memset(d, 0, sizeof(*d));
        return harmless;
    }
    d->has_value = d->has_value || c == '=';
    d->has_pointer = d->has_pointer || c == '*';
    return true;
}

/** Reads a sign inside of braces. */
static void
take_inner_sign(struct scan *s, char c)
{
    if (c == '{') {
        s->braces++;
    } else if (c == '}') {
        s->braces--;
    }
    if (s->braces == 0 && s->d.has_parenthesis && !s->d.has_value) {
        memset(&s->d, 0, sizeof(s->d)); /* the end of a function */
    }
}

bool
tp_copies_may_have_variables(const char *text, size_t len)
{
    struct scan s = {.at = text, .end = text + len, .last = '\n'};

    while (s.at < s.end) {
        char c = *s.at;
        bool ok = true;

        if (skip_quiet(&s)) {
            continue;
        }
        if (c == '#') {
            ok = take_directive(&s);
        } else if (is_name(c)) {
            ok = take_name(&s);
        } else {
            s.at++;
            if (s.braces != 0) {
                take_inner_sign(&s, c);
            } else {
                ok = take_sign(&s, c);
            }
        }
        if (!ok) {
            return true;
        }
    }
    return s.braces != 0 || s.parentheses != 0 || s.d.names != 0;
}

enum tp_copies_language
tp_copies_language_of(const char *options, size_t len)
{
    static const char option[] = "-cl-std=";
    enum tp_copies_language found = TP_COPIES_C1;
    const size_t head = sizeof(option) - 1;

    for (size_t i = 0; i + head + 3 <= len; i++) {
        const char *value = options + i + head;
        enum tp_copies_language this;

        if (memcmp(options + i, option, head) != 0) {
            continue;
        }
        this = memcmp(value, "CL1", 3) == 0 ? TP_COPIES_C1
               : memcmp(value, "CL2", 3) == 0 || memcmp(value, "CL3", 3) == 0
                   ? TP_COPIES_C2
                   : TP_COPIES_OTHER;
        found = this > found ? this : found;
    }
    return found;
}
