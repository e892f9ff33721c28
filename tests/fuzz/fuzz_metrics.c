/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP requests for telpherd's metrics, received a byte at a time. */
#include "support/fuzz.h"

#include "daemon/broker/admin/metrics.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);
    int status = 0, whole = len > 0 ? tp_broker_http_parse((const char *)data, len) : 0;
    size_t have = 0;

    require(copy != NULL);
    while (status == 0 && have < len) {
        copy[have] = (char)data[have];
        have++;
        status = tp_broker_http_parse(copy, have);
    }
    if (whole == 200 || whole == 404) {
        require(status == whole); /* pieces change nothing */
    }
    require(status == 0 || (status >= 200 && status <= 505));
    require(status != 200 || memcmp(copy, "GET /metrics", 12) == 0);
    free(copy);
    return 0;
}
