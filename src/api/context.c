/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of context.h and root.h that may be given a telpher_error. */
#include <telpher/context.h>
#include <telpher/root.h>

#include "api/api_int.h"
#include "core/comm/bootstrap/server.h"
#include "core/comm/comm.h"

telpher_status
telpher_context_create(const telpher_context_params *params, telpher_context **ret_ctx,
                       telpher_error *err)
{
    struct tp_error words = {0};
    telpher_status status = tp_comm_create(params, ret_ctx, &words);

    return status == TELPHER_OK ? status : tp_api_error(err, status, &words);
}

telpher_status
telpher_root_start(const char *address, uint32_t size, const char *job,
                   uint64_t timeout_ns, telpher_root **ret_root, telpher_error *err)
{
    struct tp_error words = {0};
    telpher_status status =
        tp_bootstrap_server_start(address, size, job, timeout_ns, ret_root, &words);

    return status == TELPHER_OK ? status : tp_api_error(err, status, &words);
}
