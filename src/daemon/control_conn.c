/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a connection of a descriptor and a state that the broker passed. */
#include <unistd.h>

#include "daemon/control.h"
#include "waist/transport.h"

telpher_status
tp_control_adopt(const struct tp_control *msg, const uint8_t *rest, int fd,
                 struct tp_conn **ret_conn)
{
    struct tp_conn *plain;
    telpher_status status = tp_builtin_transports[0]->adopt(fd, &plain);

    if (status != TELPHER_OK) {
        (void)close(fd);
        return status;
    }
    if (msg->tls.suite == 0) {
        *ret_conn = plain;
        return TELPHER_OK;
    }
    status = tp_tls_wrap(plain, &msg->tls, rest, msg->rest_len, false, ret_conn);
    if (status != TELPHER_OK) {
        tp_conn_destroy(plain);
    }
    return status;
}
