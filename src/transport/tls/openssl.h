/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of OpenSSL 3's functions, loaded at first use: a program without TLS connections
 * does not load it. Has its own library context, apart from the one that the program may
 * use and configure.
 */
#ifndef TELPHER_TRANSPORT_TLS_OPENSSL_H
#define TELPHER_TRANSPORT_TLS_OPENSSL_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/error.h"

#define TP_OPENSSL_CRYPTO(X)                                                           \
    X(OPENSSL_init_crypto)                                                             \
    X(OSSL_LIB_CTX_new)                                                                \
    X(OSSL_LIB_CTX_free)                                                               \
    X(EVP_CIPHER_fetch)                                                                \
    X(EVP_CIPHER_free)                                                                 \
    X(EVP_CIPHER_CTX_new)                                                              \
    X(EVP_CIPHER_CTX_free)                                                             \
    X(EVP_CIPHER_CTX_ctrl)                                                             \
    X(EVP_CipherInit_ex)                                                               \
    X(EVP_CipherUpdate)                                                                \
    X(EVP_CipherFinal_ex)                                                              \
    X(EVP_Q_mac)                                                                       \
    X(BIO_new)                                                                         \
    X(BIO_s_mem)                                                                       \
    X(BIO_read)                                                                        \
    X(BIO_write)                                                                       \
    X(BIO_free)                                                                        \
    X(BIO_ctrl_pending)                                                                \
    X(ERR_set_mark)                                                                    \
    X(ERR_pop_to_mark)                                                                 \
    X(ERR_peek_last_error)                                                             \
    X(ERR_reason_error_string)                                                         \
    X(X509_free)                                                                       \
    X(X509_get_subject_name)                                                           \
    X(X509_get0_notBefore)                                                             \
    X(X509_get0_notAfter)                                                              \
    X(X509_NAME_oneline)                                                               \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                   \
    X(X509_verify_cert_error_string)                                                   \
    X(X509_STORE_CTX_get_current_cert)                                                 \
    X(X509_STORE_CTX_get_error)                                                        \
    X(X509_STORE_CTX_get_ex_data)                                                      \
    X(ASN1_TIME_to_tm)

#define TP_OPENSSL_SSL(X)                                                              \
    X(TLS_client_method)                                                               \
    X(TLS_server_method)                                                               \
    X(SSL_CTX_new_ex)                                                                  \
    X(SSL_CTX_free)                                                                    \
    X(SSL_CTX_ctrl)                                                                    \
    X(SSL_CTX_set_ciphersuites)                                                        \
    X(SSL_CTX_set_options)                                                             \
    X(SSL_CTX_clear_options)                                                           \
    X(SSL_CTX_set_num_tickets)                                                         \
    X(SSL_CTX_set_session_id_context)                                                  \
    X(SSL_CTX_set_security_level)                                                      \
    X(SSL_CTX_set_info_callback)                                                       \
    X(SSL_CTX_set_verify)                                                              \
    X(SSL_CTX_load_verify_file)                                                        \
    X(SSL_CTX_use_certificate_chain_file)                                              \
    X(SSL_CTX_use_PrivateKey_file)                                                     \
    X(SSL_CTX_check_private_key)                                                       \
    X(SSL_CTX_set_default_passwd_cb)                                                   \
    X(SSL_CTX_set_keylog_callback)                                                     \
    X(SSL_CTX_set_psk_find_session_callback)                                           \
    X(SSL_CTX_set_psk_use_session_callback)                                            \
    X(SSL_new)                                                                         \
    X(SSL_free)                                                                        \
    X(SSL_set_ex_data)                                                                 \
    X(SSL_get_ex_data)                                                                 \
    X(SSL_get_ex_data_X509_STORE_CTX_idx)                                              \
    X(SSL_set_bio)                                                                     \
    X(SSL_set_connect_state)                                                           \
    X(SSL_set_accept_state)                                                            \
    X(SSL_set1_host)                                                                   \
    X(SSL_get0_param)                                                                  \
    X(SSL_do_handshake)                                                                \
    X(SSL_want)                                                                        \
    X(SSL_session_reused)                                                              \
    X(SSL_get_current_cipher)                                                          \
    X(SSL_get_verify_result)                                                           \
    X(SSL_get1_peer_certificate)                                                       \
    X(SSL_export_keying_material)                                                      \
    X(SSL_CIPHER_find)                                                                 \
    X(SSL_CIPHER_get_protocol_id)                                                      \
    X(SSL_SESSION_new)                                                                 \
    X(SSL_SESSION_free)                                                                \
    X(SSL_SESSION_set1_master_key)                                                     \
    X(SSL_SESSION_set_cipher)                                                          \
    X(SSL_SESSION_set_protocol_version)

struct tp_openssl {
#define TP_OPENSSL_MEMBER(name) __typeof__(name) *name;
    TP_OPENSSL_CRYPTO(TP_OPENSSL_MEMBER)
    TP_OPENSSL_SSL(TP_OPENSSL_MEMBER)
#undef TP_OPENSSL_MEMBER
    OSSL_LIB_CTX *lib;
    EVP_CIPHER *aes128, *chacha;
};

/**
 * Loads the library once for the process. Any thread.
 * @return NULL if it is not installed: @p err says what to install
 */
const struct tp_openssl *tp_openssl(struct tp_error *err);

/** Loads two libraries by name; tests only, else call tp_openssl(). */
telpher_status tp_openssl_open(const char *crypto, const char *ssl,
                               struct tp_openssl *ret_o, struct tp_error *err);

#endif
