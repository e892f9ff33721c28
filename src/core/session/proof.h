/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that both sides of a connection know a secret, which is never sent: docs/protocol.md
 * section 2.2. HMAC-SHA256 by the library that secures connections, loaded at first use.
 */
#ifndef TELPHER_CORE_SESSION_PROOF_H
#define TELPHER_CORE_SESSION_PROOF_H

#include "waist/transport.h"
#include "wire/frame.h"

/** The proving side. The server proves first. */
enum tp_proof_side { TP_PROOF_SERVER, TP_PROOF_CLIENT };

/** Input of a proof: the connection's preface and a random number of each side. */
struct tp_proof_input {
    uint8_t preface[TP_WIRE_PREFACE_BYTES];
    uint8_t client_nonce[TP_WIRE_NONCE_BYTES];
    uint8_t server_nonce[TP_WIRE_NONCE_BYTES];
};

/**
 * Makes the proof of one side.
 * @param secret TP_CONN_KEY_BYTES, random.
 * @return OK; UNSUPPORTED (built without OpenSSL, or it is not installed: @p err says so)
 */
telpher_status tp_proof_make(enum tp_proof_side side,
                             const uint8_t secret[TP_CONN_KEY_BYTES],
                             const struct tp_proof_input *input,
                             uint8_t ret_proof[TP_WIRE_PROOF_BYTES],
                             struct tp_error *err);

/**
 * Makes the key that admits to a gateway for one stream between servers, from the key of their
 * pair: docs/protocol.md section 2.4. The gateway cannot compute the pair's key from it.
 * @param address the gateway and all that follows, as the connecting server has it.
 */
telpher_status tp_proof_route_key(const uint8_t pair_key[TP_CONN_KEY_BYTES],
                                  const char *address,
                                  uint8_t ret_key[TP_CONN_KEY_BYTES],
                                  struct tp_error *err);

/** @return OK; AUTH: @p proof is not that of @p side; UNSUPPORTED as tp_proof_make() */
telpher_status tp_proof_check(enum tp_proof_side side,
                              const uint8_t secret[TP_CONN_KEY_BYTES],
                              const struct tp_proof_input *input,
                              const uint8_t proof[TP_WIRE_PROOF_BYTES],
                              struct tp_error *err);

#endif
