/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs that both sides of a connection know a secret, by HMAC-SHA256. */
#include "core/session/proof.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os/random.h"

_Static_assert(sizeof(struct tp_proof_input) == 128, "no padding between the parts");

static telpher_status
check_library(struct tp_error *err)
{
    return tp_builtin_secure != NULL
               ? TELPHER_OK
               : tp_error_set(
                     err, TELPHER_ERR_UNSUPPORTED,
                     "this program was built without OpenSSL, which checks the "
                     "cookie; use a Unix socket");
}

telpher_status
tp_proof_make(enum tp_proof_side side, const uint8_t secret[TP_CONN_KEY_BYTES],
              const struct tp_proof_input *input,
              uint8_t ret_proof[TP_WIRE_PROOF_BYTES], struct tp_error *err)
{
    uint8_t data[6 + sizeof(*input)];
    telpher_status status = check_library(err);

    if (status != TELPHER_OK) {
        return status;
    }
    memcpy(data, side == TP_PROOF_SERVER ? "server" : "client", 6);
    memcpy(data + 6, input, sizeof(*input));
    return tp_builtin_secure->mac(secret, data, sizeof(data), ret_proof, err);
}

telpher_status
tp_proof_check(enum tp_proof_side side, const uint8_t secret[TP_CONN_KEY_BYTES],
               const struct tp_proof_input *input,
               const uint8_t proof[TP_WIRE_PROOF_BYTES], struct tp_error *err)
{
    uint8_t right[TP_WIRE_PROOF_BYTES];
    telpher_status status = tp_proof_make(side, secret, input, right, err);

    if (status != TELPHER_OK) {
        return status;
    }
    return tp_random_equal(proof, right, sizeof(right)) ? TELPHER_OK : TELPHER_ERR_AUTH;
}

telpher_status
tp_proof_route_key(const uint8_t pair_key[TP_CONN_KEY_BYTES], const char *address,
                   uint8_t ret_key[TP_CONN_KEY_BYTES], struct tp_error *err)
{
    telpher_status status = check_library(err);
    char *data;

    if (status != TELPHER_OK) {
        return status;
    }
    data = tp_asprintf("route key", "route%s", address);
    if (data == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    status = tp_builtin_secure->mac(pair_key, data, strlen(data), ret_key, err);
    tp_free(data);
    return status;
}
