/* SPDX-License-Identifier: Apache-2.0 */
/* Finding include directives: lines are joined first as a compiler does, then looked at. */
#include "base/include.h"

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
}

void
tp_include_end(struct tp_include_scan *scan)
{
    tp_buf_fini(&scan->line);
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

static void
add(struct tp_include_scan *s, char c)
{
    s->failed = s->failed || tp_buf_append(&s->line, &c, 1) != TELPHER_OK;
}

/*
 * A backslash that joining left at the end would join once more when the line is written:
 * a splice behind it keeps it as it is.
 */
static void
keep_backslash(struct tp_include_scan *s, size_t *joined)
{
    const char *line = (const char *)tp_buf_data(&s->line);
    size_t len = tp_buf_len(&s->line);

    while (len > 0 && is_blank(line[len - 1])) {
        len--;
    }
    if ((len > 0 && line[len - 1] == '\\') ||
        (len > 2 && memcmp(line + len - 3, "?\?/", 3) == 0)) {
        add(s, '\\');
        add(s, '\n');
        *joined -= *joined > 0;
    }
}

/* Appends lines up to the next end that is not spliced; leaves s->at at that end. */
static void
join(struct tp_include_scan *s, size_t *joined)
{
    while (s->at < s->len && line_end(s, s->at) == 0 && !s->failed) {
        size_t spliced = splice(s, s->at);

        if (spliced != 0) {
            s->at += spliced;
            (*joined)++;
        } else if (has(s, s->at, "?\?=")) {
            add(s, '#');
            s->at += 3;
        } else {
            add(s, s->text[s->at++]);
        }
    }
    keep_backslash(s, joined);
}

/* The line at hand while a directive is looked for in it. */
struct view {
    struct tp_include_scan *s;
    size_t *joined;
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
        v->s->at += line_end(v->s, v->s->at);
        add(v->s, '\n');
        join(v->s, v->joined);
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
    struct view v = {s, &ret->joined, 0};
    size_t from = 0;

    tp_buf_clear(&s->line);
    ret->begin = s->at;
    ret->joined = 0;
    join(s, &ret->joined);
    if (!find_directive(&v, &from)) {
        return false;
    }
    take_operand(&v, ret);
    while (find_directive(&v, &from)) { /* which of them counts is not known */
        ret->form = TP_INCLUDE_OTHER;
        ret->rest = tp_buf_len(&s->line);
    }
    ret->line = (const char *)tp_buf_data(&s->line);
    ret->line_len = tp_buf_len(&s->line);
    ret->name = ret->line + ret->operand + (ret->form != TP_INCLUDE_OTHER);
    ret->name_len = ret->form != TP_INCLUDE_OTHER ? ret->rest - ret->operand - 2
                                                  : ret->rest - ret->operand;
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

static telpher_status
append_ends(size_t count, struct tp_buf *out)
{
    telpher_status status = TELPHER_OK;

    for (size_t i = 0; i < count && status == TELPHER_OK; i++) {
        status = tp_buf_append(out, "\n", 1);
    }
    return status;
}

/* Everything that may open or close a comment stays where it is, so that nothing else
 * becomes a directive by it. */
static telpher_status
append_refused(const struct tp_include *inc, struct tp_buf *out)
{
    static const char *const words[] = {"include", "import", "embed"};
    static const char instead[] = "did_not_come_with_the_build_";
    size_t copied = 0;
    telpher_status status = TELPHER_OK;

    for (size_t at = 0; at < inc->line_len && status == TELPHER_OK; at++) {
        for (size_t i = 0; i < TP_ARRAY_LEN(words); i++) {
            size_t len = strlen(words[i]);

            if (inc->line_len - at >= len &&
                memcmp(inc->line + at, words[i], len) == 0) {
                status = tp_buf_append(out, inc->line + copied, at - copied);
                if (status == TELPHER_OK) {
                    status = tp_buf_append(out, instead, sizeof(instead) - 1);
                }
                copied = at + len;
                at = copied - 1;
                break;
            }
        }
    }
    return status == TELPHER_OK
               ? tp_buf_append(out, inc->line + copied, inc->line_len - copied)
               : status;
}

static telpher_status
append_replaced(const struct tp_include *inc, const struct tp_buf *operand,
                struct tp_buf *out)
{
    telpher_status status = tp_buf_append(out, inc->line, inc->operand);

    if (status == TELPHER_OK) {
        status = tp_buf_append(out, tp_buf_data(operand), tp_buf_len(operand));
    }
    return status == TELPHER_OK
               ? tp_buf_append(out, inc->line + inc->rest, inc->line_len - inc->rest)
               : status;
}

/* Appends a directive as the verdict has it. */
static telpher_status
append_judged(const struct tp_include *inc, enum tp_include_verdict verdict,
              const struct tp_buf *operand, struct tp_buf *out)
{
    bool odd = memchr(inc->line + inc->operand, '*', inc->rest - inc->operand) != NULL;
    telpher_status status;

    if (verdict == TP_INCLUDE_NO_MEMORY) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = verdict == TP_INCLUDE_REPLACE && !odd ? append_replaced(inc, operand, out)
                                                   : append_refused(inc, out);
    return status == TELPHER_OK ? append_ends(inc->joined, out) : status;
}

telpher_status
tp_include_rewrite(const char *text, size_t len,
                   enum tp_include_verdict (*judge)(void *arg,
                                                    const struct tp_include *include,
                                                    struct tp_buf *out),
                   void *arg, struct tp_buf *out)
{
    struct tp_include_scan scan;
    struct tp_include inc;
    struct tp_buf operand;
    telpher_status status = TELPHER_OK;
    size_t copied = 0;

    tp_include_begin(&scan, text, len);
    tp_buf_init(&operand, 0);
    while (status == TELPHER_OK && tp_include_next(&scan, &inc)) {
        enum tp_include_verdict verdict;

        tp_buf_clear(&operand);
        verdict = judge(arg, &inc, &operand);
        if (verdict != TP_INCLUDE_KEEP) {
            status = tp_buf_append(out, text + copied, inc.begin - copied);
            if (status == TELPHER_OK) {
                status = append_judged(&inc, verdict, &operand, out);
            }
            copied = inc.end;
        }
    }
    if (status == TELPHER_OK && scan.failed) {
        status = TELPHER_ERR_NO_MEMORY;
    }
    if (status == TELPHER_OK) {
        status = tp_buf_append(out, text + copied, len - copied);
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
