/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries of a server: reachability, round-trip time, devices, settings. For tools; programs
 * that compute use OpenCL through libtelpher-opencl.so.
 *
 * Addresses are "host", "host:port" (default port 7717), "[v6]:port", "unix:/path" or "/path",
 * and "local" for the default Unix socket of this user.
 */
#ifndef TELPHER_SERVER_H
#define TELPHER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include <telpher/error.h>
#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Connection to a server's broker; the broker loads no driver for it. */
typedef struct telpher_server telpher_server;

/** Largest payload of telpher_server_ping(). */
#define TELPHER_PING_MAX_BYTES 524288

/** Kinds of devices, as bits. */
enum telpher_device_type {
    TELPHER_DEVICE_CPU = 1,
    TELPHER_DEVICE_GPU = 2,
    TELPHER_DEVICE_ACCELERATOR = 4,
    TELPHER_DEVICE_CUSTOM = 8
};

/** One device of a server. Strings are the driver's, "" if it gave none. */
typedef struct telpher_device_info {
    uint32_t struct_size; /**< [bytes] of this struct in the library's version */
    uint32_t index; /**< number of the device on its server, from 0 */
    uint32_t platform_index; /**< number of its platform on the server, from 0 */
    uint32_t type; /**< enum telpher_device_type, 0 = unknown */
    const char *platform_name; /**< "Portable Computing Language" */
    const char *platform_version; /**< "OpenCL 3.0 …" */
    const char *name;
    const char *vendor;
    const char *version; /**< "OpenCL 3.0 …" of the device */
    const char *driver_version;
    uint64_t memory_bytes; /**< global memory */
    uint64_t max_allocation_bytes; /**< largest single buffer */
    uint32_t compute_units;
    uint32_t clock_mhz;
    uint32_t available; /**< 0: the driver reports that it cannot be used now */
    uint64_t svm_native; /**< CL_DEVICE_SVM_CAPABILITIES of the driver, 0 = none */
    uint64_t svm; /**< what holds of it for programs here */
} telpher_device_info;

/** Receives one device; @p info and its strings are borrowed until return. */
typedef void (*telpher_device_fn)(void *user, const telpher_device_info *info);

/**
 * Connects to the server at @p address.
 *
 * On loopback TCP the client sends this user's cookie, from the file $TELPHER_COOKIE or the
 * default path. It is never sent to another machine.
 *
 * @param address     see above; borrowed.
 * @param timeout_ns  bounds this call and each later request; 0 = 2 s.
 * @param ret_server  receives the connection; close it with telpher_server_close().
 * @param err         filled on failure with a text for the user; may be NULL.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_INVALID      malformed address
 *         TELPHER_ERR_UNREACHABLE  unknown host, no route, or no server listens
 *         TELPHER_ERR_REFUSED      connection refused, or the server is at its limit
 *         TELPHER_ERR_PERMISSION   this user may not open the Unix socket
 *         TELPHER_ERR_AUTH         no cookie, or a wrong one
 *         TELPHER_ERR_VERSION      no common protocol version
 *         TELPHER_ERR_PROTO        the peer is not telpherd
 *         TELPHER_ERR_TIMEOUT, TELPHER_ERR_PEER_LOST, TELPHER_ERR_NO_MEMORY
 *
 * In a child of fork() the connection is closed: the child opens its own.
 *
 * Threads: one at a time per server; different servers are independent. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_server_connect(const char *address,
                                                   uint64_t timeout_ns,
                                                   telpher_server **ret_server,
                                                   telpher_error *err);

/**
 * Sends @p payload_bytes and waits until the server has returned them unchanged.
 *
 * @param payload_bytes       0 .. TELPHER_PING_MAX_BYTES.
 * @param ret_rtt_ns          time from before the send until all bytes have returned.
 * @param ret_server_mono_ns  monotonic clock of the server when it answered; may be NULL.
 * @param ret_server_real_ns  its real-time clock, ns since 1970 UTC; may be NULL.
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_RANGE      payload too large; nothing was sent
 *         TELPHER_ERR_TIMEOUT    no answer in time; close the connection
 *         TELPHER_ERR_PEER_LOST, TELPHER_ERR_PROTO  the connection is broken; close it
 *         TELPHER_ERR_NO_MEMORY
 *
 * Threads: one at a time per server. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_server_ping(telpher_server *server,
                                                size_t payload_bytes,
                                                uint64_t *ret_rtt_ns,
                                                uint64_t *ret_server_mono_ns,
                                                uint64_t *ret_server_real_ns);

/**
 * Queries the devices of the server and calls @p on_device for each, in their order.
 *
 * @param on_device  called from this call, never after it; must not use @p server.
 * @param user       passed to it.
 * @param err        filled on failure; may be NULL.
 *
 * @return TELPHER_OK           also if there is no device: on_device is not called then
 *         TELPHER_ERR_DEVICE   the server's query failed; err has its text
 *         TELPHER_ERR_TIMEOUT, TELPHER_ERR_PEER_LOST, TELPHER_ERR_PROTO  close it
 *         TELPHER_ERR_NO_MEMORY
 *
 * Threads: one at a time per server. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_server_devices(telpher_server *server,
                                                   telpher_device_fn on_device,
                                                   void *user, telpher_error *err);

/** Disconnects and frees; NULL is allowed. Since: 0.1. */
TELPHER_CALL void telpher_server_close(telpher_server *server);

/** Receives one address of a server list; borrowed until return. */
typedef void (*telpher_address_fn)(void *user, const char *address);

/**
 * Splits a server list as in TELPHER_SERVERS: "host1,host2:7000,unix:/run/x.sock,local".
 * Blanks around an item are skipped; "local" becomes the path of the default Unix socket.
 *
 * @return TELPHER_OK, TELPHER_ERR_INVALID (an empty item or a malformed address; @p err
 *         says which; @p on_address was not called), TELPHER_ERR_NO_MEMORY
 *
 * Threads: any. Since: 0.1.
 */
TELPHER_CALL telpher_status telpher_servers_parse(const char *text,
                                                  telpher_address_fn on_address,
                                                  void *user, telpher_error *err);

/** One setting: an environment variable and a line of a configuration file. */
typedef struct telpher_config_info {
    uint32_t struct_size;
    const char *room; /**< module that it belongs to: "base", "core" */
    const char *name; /**< the variable: "TELPHER_LOG" */
    const char *type; /**< "string", "duration", … */
    const char *default_text; /**< in the syntax of a value */
    const char *value; /**< text in the environment or the file; NULL = not set */
    const char *help; /**< one line */
} telpher_config_info;

/** Receives one setting; borrowed until return. */
typedef void (*telpher_config_fn)(void *user, const telpher_config_info *info);

/**
 * Lists the settings of all of Telpher, by room and then in a fixed order.
 *
 * Threads: any, while none changes the environment. Since: 0.1.
 */
TELPHER_CALL void telpher_config_describe(telpher_config_fn on_setting, void *user);

/**
 * Text of one setting, as the libraries read it: from the environment, otherwise from the file
 * that TELPHER_CONFIG names. Also warns, once per process, of unknown TELPHER_* variables.
 *
 * @param name  "TELPHER_SERVERS", or the same without TELPHER_.
 * @return the text, valid until the environment changes; NULL = not set.
 *
 * Threads: any, while none changes the environment. Since: 0.1.
 */
TELPHER_CALL const char *telpher_config_get(const char *name);

#ifdef __cplusplus
}
#endif

#endif
