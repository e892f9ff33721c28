/* SPDX-License-Identifier: Apache-2.0 */
/* Prints and parses session limits, which the broker passes to executors as text. */
#include "daemon/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *option;
    size_t offset;
} rows[] = {
#define ROW(member, option) {option, offsetof(struct tp_daemon_limits, member)},
    TP_DAEMON_LIMITS(ROW)
#undef ROW
};

static uint64_t *
value_of(struct tp_daemon_limits *limits, const struct row *row)
{
    return (uint64_t *)(void *)((char *)limits + row->offset);
}

void
tp_daemon_limits_none(struct tp_daemon_limits *limits)
{
    *limits = (struct tp_daemon_limits){.objects = UINT64_MAX,
                                        .contexts = UINT64_MAX,
                                        .queues = UINT64_MAX,
                                        .mems = UINT64_MAX,
                                        .programs = UINT64_MAX,
                                        .kernels = UINT64_MAX,
                                        .program_bytes = UINT64_C(1) << 30,
                                        .unread_bytes = UINT64_C(64) << 20};
}

void
tp_daemon_limit_print(const struct tp_daemon_limits *limits, size_t i,
                      char dst[TP_DAEMON_LIMIT_TEXT])
{
    uint64_t value;

    memcpy(&value, (const char *)limits + rows[i].offset, sizeof(value));
    (void)snprintf(dst, TP_DAEMON_LIMIT_TEXT, "%s=%" PRIu64, rows[i].option, value);
}

telpher_status
tp_daemon_limit_read(struct tp_daemon_limits *limits, const char *text)
{
    for (size_t i = 0; i < TP_DAEMON_LIMIT_COUNT; i++) {
        size_t len = strlen(rows[i].option);

        if (strncmp(text, rows[i].option, len) == 0 && text[len] == '=') {
            char *end;
            uint64_t value = strtoull(text + len + 1, &end, 10);

            if (end == text + len + 1 || *end != '\0') {
                return TELPHER_ERR_INVALID;
            }
            *value_of(limits, &rows[i]) = value;
            return TELPHER_OK;
        }
    }
    return TELPHER_ERR_INVALID;
}
