/* SPDX-License-Identifier: Apache-2.0 */
/* Server lists and the addresses in them, as they come from users and the environment. */
#include "support/fuzz.h"

#include "base/alloc.h"
#include "core/session/client.h"
#include "transport/tcp/tcp.h"

static void
check_address(const char *text)
{
    struct tp_error err = {0};
    struct tp_tcp_address a;

    if (tp_tcp_parse_address(text, &a, &err) != TELPHER_OK) {
        require(err.code == TELPHER_ERR_INVALID && err.text[0] != '\0');
        return;
    }
    require(strnlen(a.path, sizeof(a.path)) < sizeof(a.path));
    require(strnlen(a.host, sizeof(a.host)) < sizeof(a.host));
    require(atoi(a.port) <= 65535 &&
            (a.is_unix ? a.path[0] == '/' : a.host[0] != '\0'));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = string_copy(data, len), **list;
    struct tp_error err = {0};
    size_t count;

    check_address(text);
    if (tp_client_parse_servers(text, &list, &count, &err) == TELPHER_OK) {
        require(count >= 1);
        for (size_t i = 0; i < count; i++) {
            require(list[i][0] != '\0' && strchr(list[i], ',') == NULL);
            check_address(list[i]);
        }
        tp_free(list);
    } else {
        require(err.text[0] != '\0');
    }
    free(text);
    return 0;
}
