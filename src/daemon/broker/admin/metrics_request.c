/* SPDX-License-Identifier: Apache-2.0 */
/* Parses requests for metrics: HTTP/1.1 with GET, one request a connection. */
#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "daemon/broker/admin/metrics.h"

/* Skips @p word. @return false: @p *at does not begin with it */
static bool
skip_word(const char **at, const char *end, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(end - *at) < len || memcmp(*at, word, len) != 0) {
        return false;
    }
    *at += len;
    return true;
}

/* Skips visible characters. @return their number */
static size_t
skip_visible(const char **at, const char *end)
{
    const char *from = *at, *to = from;

    while (to<end && * to> ' ' && *to < 0x7f) {
        to++;
    }
    *at = to;
    return (size_t)(to - from);
}

/* Answers the request line, which ends before @p end. */
static int
parse_line(const char *at, const char *end)
{
    bool gets = skip_word(&at, end, "GET ");
    const char *path;
    size_t len;

    if (!gets && (skip_visible(&at, end) == 0 || !skip_word(&at, end, " "))) {
        return 400;
    }
    path = at;
    len = skip_visible(&at, end);
    if (len == 0 || *path != '/' || !skip_word(&at, end, " HTTP/")) {
        return 400;
    }
    if (!skip_word(&at, end, "1.1") && !skip_word(&at, end, "1.0")) {
        return 505;
    }
    if (at != end) {
        return 400;
    }
    if (!gets) {
        return 405;
    }
    len = memchr(path, '?', len) != NULL
              ? (size_t)((const char *)memchr(path, '?', len) - path)
              : len;
    return len == 8 && memcmp(path, "/metrics", len) == 0 ? 200 : 404;
}

int
tp_broker_http_parse(const char *data, size_t len)
{
    const char *line_end = memchr(data, '\n', len);
    const char *after;

    if (line_end != NULL && (line_end == data || line_end[-1] != '\r')) {
        return 400;
    }
    after = line_end != NULL ? memmem(line_end - 1, (size_t)(data + len - line_end) + 1,
                                      "\r\n\r\n", 4)
                             : NULL;
    if (after != NULL) {
        return parse_line(data, line_end - 1);
    }
    return len < TP_BROKER_HTTP_MAX ? 0 : 431;
}
