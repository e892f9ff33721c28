/* SPDX-License-Identifier: Apache-2.0 */
/* Parses requests of the control socket. */
#include "daemon/broker/admin/admin.h"

#include <stdint.h>
#include <string.h>

/* Parses a decimal number from 1 to INT32_MAX. @return 0: it is not one */
static pid_t
parse_session(const char *text, size_t len)
{
    int64_t number = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return 0;
        }
        number = number * 10 + (text[i] - '0');
        if (number > INT32_MAX) {
            return 0;
        }
    }
    return (pid_t)number;
}

enum tp_broker_admin_verb
tp_broker_admin_parse(const char *line, size_t len, pid_t *ret_session)
{
    static const char list[] = "sessions", figures[] = "figures 1", end[] = "kill ";

    if (len == sizeof(list) - 1 && memcmp(line, list, len) == 0) {
        return TP_BROKER_ADMIN_SESSIONS;
    }
    if (len == sizeof(figures) - 1 && memcmp(line, figures, len) == 0) {
        return TP_BROKER_ADMIN_FIGURES;
    }
    if (len < sizeof(end) || memcmp(line, end, sizeof(end) - 1) != 0) {
        return TP_BROKER_ADMIN_BAD;
    }
    *ret_session = parse_session(line + sizeof(end) - 1, len - (sizeof(end) - 1));
    return *ret_session > 0 ? TP_BROKER_ADMIN_KILL : TP_BROKER_ADMIN_BAD;
}
