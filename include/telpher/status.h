/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes: what every call of Telpher returns, and their texts.
 *
 * The codes are grouped by what is lost, so that a caller can decide what to rebuild:
 * nothing but this request, the peer, the device, the context, or only the caller's time.
 */
#ifndef TELPHER_STATUS_H
#define TELPHER_STATUS_H

#include <stdint.h>

/** Marks what the shared libraries export; everything else stays hidden. */
#if defined(__GNUC__)
#define TELPHER_CALL __attribute__((visibility("default")))
#else
#define TELPHER_CALL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** 0 = done, 1 = started, negative = an error of TELPHER_STATUS_MAP. */
typedef int32_t telpher_status;

/* clang-format off */
/**
 * The one list of status codes: X(name, value, text). Values never change and are never
 * used twice; the gaps between groups are for codes to come.
 */
#define TELPHER_STATUS_MAP(X)                                                           \
    X(TELPHER_OK,                0, "success")                                          \
    X(TELPHER_IN_PROGRESS,       1, "started, not yet complete")                        \
    /* lost: this request; peer, device and context are as before */                    \
    X(TELPHER_ERR_TIMEOUT,     -10, "deadline passed")                                  \
    X(TELPHER_ERR_CANCELED,    -11, "canceled")                                         \
    X(TELPHER_ERR_AGAIN,       -12, "would block, try again")                           \
    X(TELPHER_ERR_TRUNCATED,   -13, "data does not fit and was cut off")                \
    X(TELPHER_ERR_DEPENDENCY,  -14, "something this request waited for has failed")     \
    X(TELPHER_ERR_DEADLOCK,    -15, "no rank is left to send what this waits for")       \
    X(TELPHER_ERR_RACE,        -16, "memory was used by two without an order")          \
    /* lost: the peer, and all that it held for us */                                   \
    X(TELPHER_ERR_PEER_LOST,   -30, "connection to peer lost")                          \
    X(TELPHER_ERR_PROTO,       -31, "peer broke the protocol")                          \
    X(TELPHER_ERR_VERSION,     -32, "no protocol version in common with peer")          \
    X(TELPHER_ERR_AUTH,        -33, "authentication failed")                            \
    X(TELPHER_ERR_UNREACHABLE, -34, "peer cannot be reached")                           \
    X(TELPHER_ERR_REFUSED,     -35, "peer refused")                                     \
    /* lost: the device, or what it was computing */                                    \
    X(TELPHER_ERR_DEVICE,      -50, "device reported an error")                         \
    X(TELPHER_ERR_DEVICE_LOST, -51, "device lost")                                      \
    /* lost: what the context as a whole needs to go on */                              \
    X(TELPHER_ERR_NO_MEMORY,   -70, "out of memory")                                    \
    X(TELPHER_ERR_IO,          -71, "input/output error")                               \
    X(TELPHER_ERR_LIMIT,       -72, "limit or quota reached")                           \
    /* lost: nothing; the caller asked for what cannot be */                            \
    X(TELPHER_ERR_INVALID,     -90, "invalid argument")                                 \
    X(TELPHER_ERR_RANGE,       -91, "value or offset out of range")                     \
    X(TELPHER_ERR_UNSUPPORTED, -92, "not supported")                                    \
    X(TELPHER_ERR_NOT_FOUND,   -93, "not found")                                        \
    X(TELPHER_ERR_EXISTS,      -94, "exists already")                                   \
    X(TELPHER_ERR_BUSY,        -95, "in use")                                           \
    X(TELPHER_ERR_PERMISSION,  -96, "permission denied")
/* clang-format on */

enum telpher_status_code {
#define TELPHER_STATUS_ENUM(name, value, text) name = (value),
    TELPHER_STATUS_MAP(TELPHER_STATUS_ENUM)
#undef TELPHER_STATUS_ENUM
};

/**
 * Names a status, for example "TELPHER_ERR_PEER_LOST".
 *
 * @return a string that is static; "TELPHER_ERR_UNKNOWN" for a value not in the list.
 * Threads: any. Cost: no allocation, no lock. Since: 0.1.
 */
TELPHER_CALL const char *telpher_status_name(telpher_status status);

/**
 * Says in English what a status means, lower case, without a full stop.
 *
 * @return a string that is static; "unknown status" for a value not in the list.
 * Threads: any. Cost: no allocation, no lock. Since: 0.1.
 */
TELPHER_CALL const char *telpher_status_text(telpher_status status);

#ifdef __cplusplus
}
#endif

#endif
