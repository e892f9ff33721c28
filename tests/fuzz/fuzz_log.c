/* SPDX-License-Identifier: Apache-2.0 */
/* Specifications of log levels, as in TELPHER_LOG. */
#include "support/fuzz.h"

#include "base/trace/log.h"

/* Each one that is accepted keeps memory for ever, by design: enough is enough. */
enum { ACCEPTED_MAX = 250000 };

static void
swallow(void *user, enum tp_log_level level, const char *topic, const char *line,
        size_t len)
{
    (void)user;
    (void)level;
    (void)topic;
    require(len > 0 && len <= TP_LOG_LINE_MAX && line[len - 1] == '\n');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static unsigned accepted;
    static bool is_silent;
    struct tp_error err = {0};
    char *spec;

    if (accepted >= ACCEPTED_MAX) {
        return 0;
    }
    if (!is_silent) { /* keeps memory as well */
        is_silent = tp_log_set_sink(swallow, NULL) == TELPHER_OK;
    }
    spec = string_copy(data, len);
    if (tp_log_configure(spec, &err) == TELPHER_OK) {
        accepted++;
        tp_log_write(TP_LOG_ERROR, "core", "%s", spec);
    } else {
        require(err.text[0] != '\0');
    }
    free(spec);
    return 0;
}
