/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configures OpenSSL from key and certificate files: TLS 1.3 only, two cipher suites, no
 * tickets, no early data. A shared key or a certificate always authenticates the peer.
 */
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/text/hex.h"
#include "transport/tls/shake.h"

enum { SECURITY_LEVEL = 2 }; /* OpenSSL: RSA keys of at least 2048 bits */

static struct tp_tls_shake *
shake_of(const struct tp_openssl *o, const SSL *ssl)
{
    return o->SSL_get_ex_data(ssl, 0);
}

/* For callbacks, which get the connection only. */
static struct tp_tls_shake *
find_shake(const SSL *ssl)
{
    return shake_of(tp_openssl(NULL), ssl);
}

/* ---- secrets ---- */

/* Callback: a line "LABEL RANDOM SECRET" of the key log. OpenSSL writes it nowhere else. */
static void
note_secret(const SSL *ssl, const char *line)
{
    struct tp_tls_shake *s = find_shake(ssl);
    const char *secret = strrchr(line, ' ');

    if (secret == NULL) {
        return;
    }
    if (strncmp(line, "CLIENT_TRAFFIC_SECRET_0 ", 24) == 0) {
        s->have_client = tp_hex_decode(s->client_secret, sizeof(s->client_secret),
                                       secret + 1) == TELPHER_OK;
    } else if (strncmp(line, "SERVER_TRAFFIC_SECRET_0 ", 24) == 0) {
        s->have_server = tp_hex_decode(s->server_secret, sizeof(s->server_secret),
                                       secret + 1) == TELPHER_OK;
    }
}

static void
note_alert(const SSL *ssl, int where, int value)
{
    struct tp_tls_shake *s = find_shake(ssl);

    if (s != NULL && (where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT) {
        s->alerted = true;
        s->alert = (uint8_t)(value & 0xff);
    }
}

/* ---- shared keys ---- */

static SSL_SESSION *
make_psk_session(const struct tp_openssl *o, SSL *ssl, const uint8_t *key)
{
    static const unsigned char suite[] = {TP_TLS_AES128 >> 8, TP_TLS_AES128 & 0xff};
    SSL_SESSION *session = o->SSL_SESSION_new();

    if (session != NULL &&
        (o->SSL_SESSION_set1_master_key(session, key, TP_TLS_SECRET_BYTES) != 1 ||
         o->SSL_SESSION_set_cipher(session, o->SSL_CIPHER_find(ssl, suite)) != 1 ||
         o->SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1)) {
        o->SSL_SESSION_free(session);
        session = NULL;
    }
    return session;
}

/* Keeps the name of the client's key for the log, without control characters. */
static void
note_name(struct tp_tls_shake *s, const unsigned char *name, size_t len)
{
    size_t n = TP_MIN(len, sizeof(s->psk_name) - 1);

    for (size_t i = 0; i < n; i++) {
        s->psk_name[i] = name[i] > ' ' && name[i] < 0x7f ? (char)name[i] : '?';
    }
    s->psk_name[n] = '\0';
}

static int
find_psk(SSL *ssl, const unsigned char *name, size_t len, SSL_SESSION **ret_session)
{
    struct tp_tls_shake *s = find_shake(ssl);

    *ret_session = NULL;
    note_name(s, name, len);
    for (size_t i = 0; i < s->psk_count; i++) {
        if (strlen(s->psks[i].name) == len && memcmp(s->psks[i].name, name, len) == 0) {
            s->psk_known = true;
            *ret_session = make_psk_session(s->o, ssl, s->psks[i].key);
            return *ret_session != NULL;
        }
    }
    return 1; /* unknown key: OpenSSL continues with certificates */
}

/* The key for the server's host, else the first one for any. NULL: neither is in the file */
static const struct tp_tls_psk *
choose_psk(const struct tp_tls_shake *s)
{
    const struct tp_tls_psk *any = NULL;

    for (size_t i = 0; i < s->psk_count; i++) {
        const struct tp_tls_psk *psk = &s->psks[i];

        if (psk->host[0] != '\0' && s->host != NULL &&
            strcmp(psk->host, s->host) == 0) {
            return psk;
        }
        any = any == NULL && psk->host[0] == '\0' ? psk : any;
    }
    return any;
}

static int
use_psk(SSL *ssl, const EVP_MD *md, const unsigned char **ret_name, size_t *ret_len,
        SSL_SESSION **ret_session)
{
    struct tp_tls_shake *s = find_shake(ssl);
    const struct tp_tls_psk *psk = choose_psk(s);

    (void)md; /* both suites have the same hash */
    *ret_session = NULL;
    if (psk == NULL) {
        return 1; /* without one, OpenSSL continues with certificates */
    }
    *ret_session = make_psk_session(s->o, ssl, psk->key);
    *ret_name = (const unsigned char *)psk->name;
    *ret_len = strlen(psk->name);
    return *ret_session != NULL;
}

static telpher_status
set_psk(struct tp_tls_shake *s, const uint8_t *session_key, struct tp_error *err)
{
    telpher_status status = TELPHER_OK;

    if (session_key != NULL) {
        s->psks = tp_zalloc(sizeof(*s->psks), "session key");
        if (s->psks == NULL) {
            return TELPHER_ERR_NO_MEMORY;
        }
        memcpy(s->psks->name, "session", sizeof("session"));
        memcpy(s->psks->key, session_key, sizeof(s->psks->key));
        s->psk_count = 1;
    } else if (tp_tls_is_set(s->files->psk)) {
        status = tp_tls_psk_load(s->files->psk, &s->psks, &s->psk_count, err);
    }
    if (status == TELPHER_OK && s->psk_count > 0) {
        if (s->server) {
            s->o->SSL_CTX_set_psk_find_session_callback(s->ctx, find_psk);
        } else {
            s->o->SSL_CTX_set_psk_use_session_callback(s->ctx, use_psk);
        }
    }
    return status;
}

/* ---- certificates ---- */

static const char *
openssl_error_text(const struct tp_openssl *o)
{
    const char *why = o->ERR_reason_error_string(o->ERR_peek_last_error());

    return why != NULL ? why : "unknown reason";
}

/* Callback: a server cannot ask for the password of a key. */
static int
refuse_password(char *buf, int size, int writing, void *arg)
{
    return 0;
}

static void
note_dates(struct tp_tls_shake *s, const X509 *cert)
{
    struct tm from = {0}, to = {0};
    size_t n;

    if (cert != NULL &&
        s->o->ASN1_TIME_to_tm(s->o->X509_get0_notBefore(cert), &from) == 1 &&
        s->o->ASN1_TIME_to_tm(s->o->X509_get0_notAfter(cert), &to) == 1) {
        n = strftime(s->verify_dates, sizeof(s->verify_dates), "%Y-%m-%d to ", &from);
        (void)strftime(s->verify_dates + n, sizeof(s->verify_dates) - n, "%Y-%m-%d",
                       &to);
    }
}

static int
note_verification(int good, X509_STORE_CTX *store)
{
    const struct tp_openssl *o = tp_openssl(NULL);
    const SSL *ssl =
        o->X509_STORE_CTX_get_ex_data(store, o->SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tp_tls_shake *s = shake_of(o, ssl);

    if (good != 1 && s->verify_error == X509_V_OK) {
        s->verify_error = o->X509_STORE_CTX_get_error(store);
        note_dates(s, o->X509_STORE_CTX_get_current_cert(store));
    }
    return good;
}

static telpher_status
set_own_certificate(struct tp_tls_shake *s, struct tp_error *err)
{
    const struct tp_secure_files *f = s->files;
    telpher_status status;

    if (tp_tls_is_set(f->cert) != tp_tls_is_set(f->key)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TLS: a certificate needs its key and a key needs its "
                            "certificate: set both tls_cert and tls_key");
    }
    if (!tp_tls_is_set(f->cert)) {
        return TELPHER_OK;
    }
    status = tp_tls_check_private(f->key, err);
    if (status != TELPHER_OK) {
        return status;
    }
    s->o->SSL_CTX_set_default_passwd_cb(s->ctx, refuse_password);
    if (s->o->SSL_CTX_use_certificate_chain_file(s->ctx, f->cert) != 1) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TLS: cannot use certificate %s: %s", f->cert,
                            openssl_error_text(s->o));
    }
    if (s->o->SSL_CTX_use_PrivateKey_file(s->ctx, f->key, SSL_FILETYPE_PEM) != 1 ||
        s->o->SSL_CTX_check_private_key(s->ctx) != 1) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TLS: %s is not the key of %s, or has a password: %s",
                            f->key, f->cert, openssl_error_text(s->o));
    }
    return TELPHER_OK;
}

static telpher_status
set_authority(struct tp_tls_shake *s, struct tp_error *err)
{
    s->o->SSL_CTX_set_verify(s->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                             note_verification);
    if (tp_tls_is_set(s->files->ca) &&
        s->o->SSL_CTX_load_verify_file(s->ctx, s->files->ca) != 1) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TLS: %s holds no certificate of an authority: %s",
                            s->files->ca, openssl_error_text(s->o));
    }
    return TELPHER_OK;
}

static telpher_status
set_certificates(struct tp_tls_shake *s, struct tp_error *err)
{
    telpher_status status = set_authority(s, err);

    if (status == TELPHER_OK) {
        status = set_own_certificate(s, err);
    }
    if (status != TELPHER_OK || !s->server) {
        return status;
    }
    if (tp_tls_is_set(s->files->cert) != tp_tls_is_set(s->files->ca)) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TLS: certificates need all of --tls-cert, --tls-key and "
                            "--tls-ca: clients are authenticated as well");
    }
    if (!tp_tls_is_set(s->files->cert) && s->psk_count == 0) {
        return tp_error_set(err, TELPHER_ERR_NOT_FOUND,
                            "TLS: no keys to authenticate clients; make a key with "
                            "`telpher keygen` and name it in --tls-psk, or set "
                            "--tls-cert, --tls-key and --tls-ca");
    }
    return TELPHER_OK;
}

/* ---- the context ---- */

static bool
cpu_has_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes");
#elif defined(__aarch64__)
    return (getauxval(AT_HWCAP) & (1UL << 3)) != 0; /* HWCAP_AES */
#else
    return false;
#endif
}

static telpher_status
make_context(struct tp_tls_shake *s)
{
    const struct tp_openssl *o = s->o;
    static const unsigned char context[] =
        "telpher"; /* OpenSSL requires one for shared keys */
    const char *suites = cpu_has_aes()
                             ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                             : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";

    s->ctx = o->SSL_CTX_new_ex(
        o->lib, NULL, s->server ? o->TLS_server_method() : o->TLS_client_method());
    if (s->ctx == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    o->SSL_CTX_set_security_level(s->ctx, SECURITY_LEVEL);
    o->SSL_CTX_set_options(s->ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    o->SSL_CTX_clear_options(s->ctx, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    o->SSL_CTX_set_keylog_callback(s->ctx, note_secret);
    o->SSL_CTX_set_info_callback(s->ctx, note_alert);
    return o->SSL_CTX_ctrl(s->ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION,
                           NULL) == 1 &&
                   o->SSL_CTX_set_ciphersuites(s->ctx, suites) == 1 &&
                   o->SSL_CTX_set_num_tickets(s->ctx, 0) == 1 &&
                   (!s->server || o->SSL_CTX_set_session_id_context(
                                      s->ctx, context, sizeof(context) - 1) == 1)
               ? TELPHER_OK
               : TELPHER_ERR_UNSUPPORTED;
}

telpher_status
tp_tls_shake_init(struct tp_tls_shake *s, bool server,
                  const struct tp_secure_files *files, const uint8_t *session_key,
                  struct tp_error *err)
{
    static const struct tp_secure_files none;
    telpher_status status;

    *s = (struct tp_tls_shake){.server = server,
                               .joins = session_key != NULL,
                               .files = session_key != NULL ? &none : files};
    s->o = tp_openssl(err);
    if (s->o == NULL) {
        return TELPHER_ERR_UNSUPPORTED;
    }
    (void)s->o->ERR_set_mark(); /* keep the program's own errors */
    status = make_context(s);
    if (status != TELPHER_OK) {
        return tp_error_set(err, status, "cannot set up TLS: %s",
                            openssl_error_text(s->o));
    }
    status = set_psk(s, session_key, err);
    return status == TELPHER_OK ? set_certificates(s, err) : status;
}

void
tp_tls_shake_fini(struct tp_tls_shake *s)
{
    if (s->o == NULL) {
        return;
    }
    s->o->SSL_free(s->ssl);
    s->o->SSL_CTX_free(s->ctx);
    (void)s->o->ERR_pop_to_mark();
    if (s->psks != NULL) {
        explicit_bzero(s->psks, s->psk_count * sizeof(*s->psks));
        tp_free(s->psks);
    }
    explicit_bzero(s, sizeof(*s));
}
