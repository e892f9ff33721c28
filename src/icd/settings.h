/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the OpenCL library: loaded once, then constant. */
#ifndef TELPHER_ICD_SETTINGS_H
#define TELPHER_ICD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/session/client.h"

/** Choice of CL_PLATFORM_NAME. */
enum tp_icd_platform_name {
    TP_ICD_NAME_TELPHER, /**< "Telpher" */
    TP_ICD_NAME_NATIVE, /**< name of the first server's driver */
};

/** Which files of the folders named by -I are sent with a build. */
enum tp_icd_send_includes {
    TP_ICD_SEND_NAMED, /**< those that an #include of the program names */
    TP_ICD_SEND_FOLDERS, /**< all */
};

/** Values of the room's settings, constant once loaded. */
struct tp_icd_settings {
    char *servers; /**< "" = none, no platform */
    char *cookie; /**< path; "" = the default paths */
    char *tls_psk, *tls_ca, *tls_cert, *tls_key; /**< paths; "" = not set */
    bool checksum; /**< off loopback without TLS */
    bool insecure; /**< allow remote servers without TLS */
    struct tp_client_security security; /**< the five above, for core */
    uint64_t connect_timeout_ns; /**< for all servers together */
    int on_loss; /**< of a TCP connection: enum tp_client_resume */
    uint64_t on_loss_ns; /**< how long to wait */
    bool keep_copies; /**< of what commands wrote, on a second server */
    uint64_t
        silence_ns; /**< the connection is closed after the server's machine was silent for so long */
    uint64_t
        server_silence_ns; /**< the session ends after its executor was silent for so long; 0: never */
    int peer; /**< enum tp_icd_peer_choice */
    int platform_name; /**< enum tp_icd_platform_name */
    int send_includes; /**< enum tp_icd_send_includes */
    bool shared_memory; /**< with servers on this machine */
    uint64_t shared_memory_size; /**< [bytes] of slots */
    bool usm_shared; /**< by page faults, where memory is not really shared */
    char *svm_address; /**< "" = the library chooses */
    uint64_t spin_ns; /**< how long a waiting caller spins before it sleeps */
};
extern struct tp_icd_settings tp_icd_settings;
/** Loads them from the configuration file and the environment; logs invalid values. */
void tp_icd_settings_load(void);

#endif
