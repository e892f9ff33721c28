/* SPDX-License-Identifier: Apache-2.0 */
/* Making shared keys: include/telpher/key.h. */
#include <telpher/key.h>

#include "api/api_int.h"
#include "transport/tls/tls.h"

telpher_status
telpher_key_create(const char *path, const char *name, telpher_error *err)
{
    struct tp_error words = {0};
    telpher_status status = tp_tls_psk_create(path, name, &words);

    return status == TELPHER_OK ? status : tp_api_error(err, status, &words);
}
