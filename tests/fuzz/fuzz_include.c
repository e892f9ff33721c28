/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Include directives: the walk ends and stays inside; a second look at what was rewritten
 * finds nothing that the first one missed. The first byte says what is done to them.
 */
#include "fuzz.h"

#include "base/text/include.h"

static enum tp_include_verdict
judge(void *arg, const struct tp_include *inc, struct tp_buf *out)
{
    const uint8_t *how = arg;

    touch(inc->name, inc->name_len);
    touch(inc->line, inc->line_len);
    require(inc->operand <= inc->rest && inc->rest <= inc->line_len);
    (void)tp_include_is_plain(inc->name, inc->name_len);
    if (*how & 1) {
        return TP_INCLUDE_REFUSE;
    }
    require(tp_buf_append(out, "\"a.h\"", 5) == TELPHER_OK);
    return TP_INCLUDE_REPLACE;
}

static enum tp_include_verdict
look_again(void *arg, const struct tp_include *inc, struct tp_buf *out)
{
    const uint8_t *how = arg;

    (void)out;
    if (inc->operand == inc->line_len) {
        return TP_INCLUDE_KEEP; /* in a comment that never ends */
    }
    require((*how & 1) == 0);
    require(inc->rest - inc->operand >= 5);
    require(memcmp(inc->line + inc->operand, "\"a.h\"", 5) == 0);
    return TP_INCLUDE_KEEP;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t how = len > 0 ? data[0] : 0;
    size_t text_len = len > 0 ? len - 1 : 0;
    char *text = exact_copy(data + (len > 0), text_len);
    struct tp_buf once, twice;

    tp_buf_init(&once, 0);
    tp_buf_init(&twice, 0);
    require(tp_include_rewrite(text, text_len, judge, &how, &once) == TELPHER_OK);
    require(tp_include_rewrite((char *)tp_buf_data(&once), tp_buf_len(&once),
                               look_again, &how, &twice) == TELPHER_OK);
    tp_buf_fini(&once);
    tp_buf_fini(&twice);
    free(text);
    return 0;
}
