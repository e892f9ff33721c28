/* SPDX-License-Identifier: Apache-2.0 */
/* Loads OpenSSL: see openssl.h. Never unloads it: its code may be running. */
#include "transport/tls/openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

static telpher_status
report_missing(struct tp_error *err)
{
    const char *why = dlerror(); /* NOLINT(concurrency-mt-unsafe): glibc's is not */

    return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                        "TLS needs OpenSSL 3: install the package libssl3 (%s)",
                        why != NULL ? why : "not found");
}

static void *
find_symbol(void *library, const char *name, bool *ok)
{
    void *address = dlsym(library, name);

    *ok = *ok && address != NULL;
    return address;
}

static bool
find_all(void *crypto, void *ssl, struct tp_openssl *o)
{
    bool ok = true;

#define FIND_CRYPTO(name) *(void **)(&o->name) = find_symbol(crypto, #name, &ok);
#define FIND_SSL(name) *(void **)(&o->name) = find_symbol(ssl, #name, &ok);
    TP_OPENSSL_CRYPTO(FIND_CRYPTO)
    TP_OPENSSL_SSL(FIND_SSL)
#undef FIND_CRYPTO
#undef FIND_SSL
    return ok;
}

static telpher_status
fetch_ciphers(struct tp_openssl *o, struct tp_error *err)
{
    /* no exit handler: our threads may still decrypt while the program exits */
    (void)o->OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    o->lib = o->OSSL_LIB_CTX_new();
    if (o->lib != NULL) {
        o->aes128 = o->EVP_CIPHER_fetch(o->lib, "AES-128-GCM", NULL);
        o->chacha = o->EVP_CIPHER_fetch(o->lib, "ChaCha20-Poly1305", NULL);
    }
    if (o->aes128 == NULL || o->chacha == NULL) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                            "TLS: this OpenSSL lacks AES-128-GCM or ChaCha20-Poly1305");
    }
    return TELPHER_OK;
}

telpher_status
tp_openssl_open(const char *crypto, const char *ssl, struct tp_openssl *ret_o,
                struct tp_error *err)
{
    void *crypto_library = dlopen(crypto, RTLD_NOW | RTLD_LOCAL);
    void *ssl_library =
        crypto_library != NULL ? dlopen(ssl, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (ssl_library == NULL || !find_all(crypto_library, ssl_library, ret_o)) {
        return report_missing(err);
    }
    return fetch_ciphers(ret_o, err);
}

static struct tp_openssl the_library;
static struct tp_error load_error;

static void
load_once(void)
{
    (void)tp_openssl_open("libcrypto.so.3", "libssl.so.3", &the_library, &load_error);
}

const struct tp_openssl *
tp_openssl(struct tp_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, load_once);
    if (load_error.code != TELPHER_OK) {
        (void)tp_error_set(err, load_error.code, "%s", load_error.text);
        return NULL;
    }
    return &the_library;
}
