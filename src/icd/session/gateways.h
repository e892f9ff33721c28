/* SPDX-License-Identifier: Apache-2.0 */
/* Opens routes through gateways for streams between servers: docs/protocol.md section 2.4. */
#ifndef TELPHER_ICD_SESSION_GATEWAYS_H
#define TELPHER_ICD_SESSION_GATEWAYS_H

#include "base/error.h"
#include "wire/frame.h"

/**
 * Has each gateway of @p address pass a stream on that proves the key derived from @p key; waits
 * for all of them. The routes stay open as long as this process and the gateways live.
 * @param address the server as another one reaches it; without gateways there is nothing to do.
 * @param own     the same server as this process reaches it; ends with what follows the first
 *                gateway of @p address.
 * @return OK; else why not in @p err
 */
telpher_status tp_icd_gateways_open(const char *address, const char *own,
                                    const uint8_t name[TP_WIRE_SESSION_BYTES],
                                    const uint8_t key[TP_WIRE_PEER_KEY_BYTES],
                                    struct tp_error *err);

#endif
