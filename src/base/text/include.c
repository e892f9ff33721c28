/* SPDX-License-Identifier: Apache-2.0 */
/* Finding include directives: lines are joined first as a compiler does, then looked at. */
#include "base/text/include.h"

#include <string.h>

#include "base/compiler.h"

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\0';
}

static bool
is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

static bool
is_word(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

void
tp_include_begin(struct tp_include_scan *scan, const char *text, size_t len)
{
    *scan = (struct tp_include_scan){.text = text, .len = len};
    tp_buf_init(&scan->line, 0);
    tp_buf_init(&scan->map, 0);
}

void
tp_include_end(struct tp_include_scan *scan)
{
    tp_buf_fini(&scan->line);
    tp_buf_fini(&scan->map);
}

/* @return bytes of the line end at @p at: 0 if there is none, 2 for CR LF */
static size_t
line_end(const struct tp_include_scan *s, size_t at)
{
    if (at >= s->len || !is_line_end(s->text[at])) {
        return 0;
    }
    return s->text[at] == '\r' && at + 1 < s->len && s->text[at + 1] == '\n' ? 2 : 1;
}

static bool
has(const struct tp_include_scan *s, size_t at, const char *word)
{
    size_t len = strlen(word);

    return at + len <= s->len && memcmp(s->text + at, word, len) == 0;
}

/* @return bytes of a splice at @p at: a backslash, blanks, a line end; 0 if there is none */
static size_t
splice(const struct tp_include_scan *s, size_t at)
{
    size_t from = at, end;

    if (has(s, at, "\\")) {
        at += 1;
    } else if (has(s, at, "?\?/")) {
        at += 3;
    } else {
        return 0;
    }
    while (at < s->len && is_blank(s->text[at])) {
        at++;
    }
    end = line_end(s, at);
    return end != 0 ? at + end - from : 0;
}

/* Appends a character that stands for what lies at s->at. */
static void
add(struct tp_include_scan *s, char c)
{
    s->failed = s->failed || tp_buf_append(&s->line, &c, 1) != TELPHER_OK ||
                tp_buf_append(&s->map, &s->at, sizeof(s->at)) != TELPHER_OK;
}

/* Appends lines up to the next end that is not spliced; leaves s->at at that end. */
static void
join(struct tp_include_scan *s)
{
    while (s->at < s->len && line_end(s, s->at) == 0 && !s->failed) {
        size_t spliced = splice(s, s->at);

        if (spliced != 0) {
            s->at += spliced;
        } else if (has(s, s->at, "?\?=")) {
            add(s, '#');
            s->at += 3;
        } else {
            add(s, s->text[s->at]);
            s->at++;
        }
    }
}

/* @return where in the text a place of the joined line is; its end is that of the lines */
static size_t
place_of(const struct tp_include_scan *s, size_t at)
{
    size_t place;

    if (at >= tp_buf_len(&s->line)) {
        return s->at;
    }
    memcpy(&place, tp_buf_data(&s->map) + at * sizeof(place), sizeof(place));
    return place;
}

/* The line at hand while a directive is looked for in it. */
struct view {
    struct tp_include_scan *s;
    size_t at; /* in the line */
};

static char
peek(const struct view *v, size_t ahead)
{
    return v->at + ahead < tp_buf_len(&v->s->line)
               ? (char)tp_buf_data(&v->s->line)[v->at + ahead]
               : '\n';
}

/* Skips a comment that began; it may go on in the next lines, which are joined. */
static void
skip_comment(struct view *v)
{
    v->at += 2;
    for (;;) {
        if (peek(v, 0) == '*' && peek(v, 1) == '/') {
            v->at += 2;
            return;
        }
        if (v->at < tp_buf_len(&v->s->line)) {
            v->at++;
            continue;
        }
        if (v->s->at >= v->s->len || v->s->failed) {
            return;
        }
        add(v->s, '\n');
        v->s->at += line_end(v->s, v->s->at);
        join(v->s);
    }
}

static void
skip_blanks(struct view *v)
{
    for (;;) {
        if (is_blank(peek(v, 0))) {
            v->at++;
        } else if (peek(v, 0) == '/' && peek(v, 1) == '*') {
            skip_comment(v);
        } else {
            return;
        }
    }
}

/*
 * Goes behind the next "#" that has nothing but blanks in front of it, or a comment's end:
 * whether the line begins inside of a comment is not known.
 */
static bool
find_hash(struct view *v)
{
    size_t len = tp_buf_len(&v->s->line);
    const char *line = (const char *)tp_buf_data(&v->s->line);
    bool clear = v->at == 0; /* later, only behind a comment's end */

    for (size_t i = v->at; i < len; i++) {
        bool two = i + 1 < len;

        if (clear &&
            (line[i] == '#' || (two && line[i] == '%' && line[i + 1] == ':'))) {
            v->at = i + (line[i] == '#' ? 1 : 2);
            return true;
        }
        if (line[i] == '\n') {
            clear = true;
        } else if (two && line[i] == '*' && line[i + 1] == '/') {
            clear = true;
            i++;
        } else if (!is_blank(line[i]) && (line[i] & 0x80) == 0) {
            clear = false;
        }
    }
    v->at = len;
    return false;
}

/* @return true if the word at hand names a directive that reads a file; goes behind it */
static bool
take_directive(struct view *v)
{
    static const char *const words[] = {"include", "include_next", "import",
                                        "__include_macros", "embed"};
    const char *word;
    size_t from, len;

    skip_blanks(v);
    from = v->at;
    while (is_word(peek(v, 0))) {
        v->at++;
    }
    word = (const char *)tp_buf_data(&v->s->line) + from;
    len = v->at - from;
    for (size_t i = 0; i < TP_ARRAY_LEN(words); i++) {
        if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0) {
            return true;
        }
    }
    return false;
}

static void
take_operand(struct view *v, struct tp_include *ret)
{
    char close = '\n';

    skip_blanks(v);
    ret->operand = v->at;
    ret->form = TP_INCLUDE_OTHER;
    if (peek(v, 0) == '"' || peek(v, 0) == '<') {
        ret->form = peek(v, 0) == '"' ? TP_INCLUDE_QUOTED : TP_INCLUDE_ANGLED;
        close = peek(v, 0) == '"' ? '"' : '>';
        v->at++;
    }
    while (v->at < tp_buf_len(&v->s->line) && peek(v, 0) != close &&
           peek(v, 0) != '\n' &&
           !(close == '\n' && peek(v, 0) == '/' &&
             (peek(v, 1) == '*' || peek(v, 1) == '/'))) {
        v->at++;
    }
    if (close != '\n' && peek(v, 0) != close) {
        ret->form = TP_INCLUDE_OTHER; /* never closed: no name */
    } else if (close != '\n') {
        v->at++;
    }
    ret->rest = v->at;
}

/*
 * Goes behind the next directive's word. @param from where to look from; gives where to
 * look for others, which may be in what this one takes for comments
 */
static bool
find_directive(struct view *v, size_t *from)
{
    v->at = *from;
    while (find_hash(v)) {
        *from = v->at;
        if (take_directive(v)) {
            return true;
        }
        v->at = *from;
    }
    return false;
}

/* Looks at one line, with those joined to it. @return true if it has a directive */
static bool
look(struct tp_include_scan *s, struct tp_include *ret)
{
    struct view v = {s, 0};
    size_t from = 0;
    bool named;

    tp_buf_clear(&s->line);
    ret->begin = s->at;
    tp_buf_clear(&s->map);
    join(s);
    if (!find_directive(&v, &from)) {
        return false;
    }
    take_operand(&v, ret);
    while (find_directive(&v, &from)) { /* which of them counts is not known */
        ret->form = TP_INCLUDE_SEVERAL;
        ret->rest = tp_buf_len(&s->line);
    }
    ret->line = (const char *)tp_buf_data(&s->line);
    ret->line_len = tp_buf_len(&s->line);
    named = ret->form == TP_INCLUDE_QUOTED || ret->form == TP_INCLUDE_ANGLED;
    ret->name = ret->line + ret->operand + named;
    ret->name_len = ret->rest - ret->operand - (named ? 2 : 0);
    ret->end = s->at;
    return !s->failed;
}

bool
tp_include_next(struct tp_include_scan *scan, struct tp_include *ret_include)
{
    while (scan->at < scan->len && !scan->failed) {
        size_t begin = scan->at;
        bool found = look(scan, ret_include);

        if (!found) {
            /* what was joined for a comment may begin with a directive of its own */
            while (begin < scan->len && line_end(scan, begin) == 0) {
                size_t spliced = splice(scan, begin);

                begin += spliced != 0 ? spliced : 1;
            }
            scan->at = begin;
        }
        scan->at += line_end(scan, scan->at);
        if (found) {
            return true;
        }
    }
    return false;
}

/* What is rewritten, and how far it was copied. */
struct rewriting {
    const struct tp_include_scan *scan;
    struct tp_buf *out;
    size_t copied; /* of the text */
};

/* Copies up to a place of the joined line, and puts something instead of the next ones. */
static telpher_status
put_instead(struct rewriting *r, size_t from, size_t to, const void *text, size_t len)
{
    const struct tp_include_scan *s = r->scan;
    size_t begin = place_of(s, from), end = place_of(s, to);
    telpher_status status =
        tp_buf_append(r->out, s->text + r->copied, begin - r->copied);

    if (status == TELPHER_OK) {
        status = tp_buf_append(r->out, text, len);
    }
    for (size_t at = begin; at < end && status == TELPHER_OK; at++) {
        if (s->text[at] == '\n') { /* of a splice: the lines keep their numbers */
            status = tp_buf_append(r->out, "\\\n", 2);
        }
    }
    r->copied = end;
    return status;
}

/* Everything that may open or close a comment stays where it is, so that no other line
 * turns into a directive. */
static telpher_status
put_refused(struct rewriting *r, const struct tp_include *inc)
{
    static const char *const words[] = {"include", "import", "embed"};
    static const char instead[] = "did_not_come_with_the_build_";
    telpher_status status = TELPHER_OK;

    for (size_t at = 0; at < inc->line_len && status == TELPHER_OK; at++) {
        for (size_t i = 0; i < TP_ARRAY_LEN(words); i++) {
            size_t len = strlen(words[i]);

            if (inc->line_len - at >= len &&
                memcmp(inc->line + at, words[i], len) == 0) {
                status = put_instead(r, at, at + len, instead, sizeof(instead) - 1);
                at += len - 1;
                break;
            }
        }
    }
    return status;
}

/* Puts a directive as the verdict has it. */
static telpher_status
put_judged(struct rewriting *r, const struct tp_include *inc,
           enum tp_include_verdict verdict, const struct tp_buf *operand)
{
    bool odd = memchr(inc->line + inc->operand, '*', inc->rest - inc->operand) != NULL;

    switch (verdict) {
    case TP_INCLUDE_KEEP:
        return TELPHER_OK;
    case TP_INCLUDE_NO_MEMORY:
        return TELPHER_ERR_NO_MEMORY;
    case TP_INCLUDE_REPLACE:
        if (!odd && inc->form != TP_INCLUDE_SEVERAL) {
            return put_instead(r, inc->operand, inc->rest, tp_buf_data(operand),
                               tp_buf_len(operand));
        }
        break;
    case TP_INCLUDE_REFUSE:
        break;
    }
    return put_refused(r, inc);
}

telpher_status
tp_include_rewrite(const char *text, size_t len,
                   enum tp_include_verdict (*judge)(void *arg,
                                                    const struct tp_include *include,
                                                    struct tp_buf *out),
                   void *arg, struct tp_buf *out)
{
    struct tp_include_scan scan;
    struct rewriting r = {.scan = &scan, .out = out};
    struct tp_include inc;
    struct tp_buf operand;
    telpher_status status = TELPHER_OK;

    tp_include_begin(&scan, text, len);
    tp_buf_init(&operand, 0);
    while (status == TELPHER_OK && tp_include_next(&scan, &inc)) {
        tp_buf_clear(&operand);
        scan.at = inc.end; /* place_of() means the end of the lines */
        status = put_judged(&r, &inc, judge(arg, &inc, &operand), &operand);
        scan.at += line_end(&scan, scan.at);
    }
    if (status == TELPHER_OK && scan.failed) {
        status = TELPHER_ERR_NO_MEMORY;
    }
    if (status == TELPHER_OK) {
        status = tp_buf_append(out, text + r.copied, len - r.copied);
    }
    tp_buf_fini(&operand);
    tp_include_end(&scan);
    return status;
}

bool
tp_include_is_plain(const char *name, size_t len)
{
    if (len == 0 || name[0] == '/' || memchr(name, '\\', len) != NULL ||
        memchr(name, '\0', len) != NULL || (len > 1 && name[1] == ':')) {
        return false;
    }
    for (size_t i = 0; i + 1 < len; i++) {
        if (name[i] == '.' && name[i + 1] == '.') {
            return false;
        }
    }
    return true;
}
