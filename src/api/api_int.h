/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtelpher: the public calls of include/telpher over core. What its files share.
 *
 *   server.c  connect, ping, close, server lists     devices.c  facts to devices
 *   config.c  settings of all of Telpher
 */
#ifndef TELPHER_API_API_INT_H
#define TELPHER_API_API_INT_H

#include <telpher/context.h>
#include <telpher/server.h>

#include "base/error.h"
#include "core/session/stream.h"

/** One connection to a broker. One request is under way at a time. */
struct telpher_server {
    struct tp_stream *stream;
    char *address;
    uint64_t timeout_ns;
    uint64_t features; /* of both prefaces */
    uint64_t last_request; /* counter of the id of the request under way */
    struct tp_error err; /* what the server said when it left */

    /* Answer to the request under way, written by the receiving call. */
    bool answered;
    struct tp_wire_pong pong; /* its data is compared, not kept */
    uint64_t pong_ns;
    const uint8_t *payload; /* what PONG must bring back */
    size_t payload_bytes;
    int32_t facts_status;
    uint8_t *facts; /* heap */
    size_t facts_bytes;
};

/** Fills the caller's error (NULL is fine) from ours, keeps it for telpher_last_error(NULL)
 *  and returns @p status. */
telpher_status tp_api_error(telpher_error *err, telpher_status status,
                            const struct tp_error *words);

/** Sets the context's text if @p status is an error: "cannot <what> <kind>: <why>". */
telpher_status tp_api_memory_failed(const telpher_context *ctx, telpher_status status,
                                    const char *what, uint32_t kind);
/** "CUDA memory" for TELPHER_MEM_CUDA. */
const char *tp_api_kind_name(uint32_t kind);

/**
 * Calls @p on_device for every device in @p facts, after all have been checked.
 * @p features are those of the server's prefaces.
 * @return OK, PROTO.
 */
telpher_status tp_api_decode_devices(const uint8_t *facts, size_t len,
                                     uint64_t features, telpher_device_fn on_device,
                                     void *user);

#endif
