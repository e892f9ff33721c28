/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of telpherd's control socket. */
#include "support/fuzz.h"

#include <stdio.h>

#include "daemon/broker/admin/admin.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1), again[TP_BROKER_ADMIN_LINE_MAX];
    pid_t session = 0, same = 0;

    require(copy != NULL);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    if (tp_broker_admin_parse(copy, len, &session) == TP_BROKER_ADMIN_KILL) {
        require(session > 0);
        (void)snprintf(again, sizeof(again), "kill %ld", (long)session);
        require(tp_broker_admin_parse(again, strlen(again), &same) ==
                TP_BROKER_ADMIN_KILL);
        require(same == session);
    }
    free(copy);
    return 0;
}
