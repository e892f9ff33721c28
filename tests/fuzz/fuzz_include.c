/* SPDX-License-Identifier: Apache-2.0 */
/* Include lines: the walk ends and stays inside, a line that is found is also noticed by the
 * check for any, and a cleaned name stays as it is when cleaned again. */
#include "support/fuzz.h"

#include "base/text/include.h"

static void
try_name(const struct tp_include *inc)
{
    char *name = malloc(inc->name_len + 1), *again;

    require(name != NULL);
    memcpy(name, inc->name, inc->name_len);
    name[inc->name_len] = '\0';
    tp_include_clean(name);
    require(strlen(name) <= inc->name_len);
    again = strdup(name);
    require(again != NULL);
    tp_include_clean(again);
    require(strcmp(name, again) == 0);
    (void)tp_include_is_plain(inc->name, inc->name_len);
    free(again);
    free(name);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = exact_copy(data, len);
    const char *at = text;
    bool occurs = tp_include_occurs(text, len);
    struct tp_include inc;

    while (tp_include_next(&at, text + len, &inc)) {
        require(occurs && at <= text + len);
        require(inc.name >= text && inc.name + inc.name_len < text + len);
        try_name(&inc);
    }
    require(at == text + len);
    free(text);
    return 0;
}
