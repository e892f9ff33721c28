/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts in words: see words.h. The server's log has the other half of the story. */
#include "transport/tls/words.h"

#include <stddef.h>

static const struct {
    uint8_t alert;
    const char *words;
} table[] = {
    {0, "the server ended the connection"},
    {10, "the server did not expect what was sent; is it another version?"},
    {20, "records arrive damaged: something on the way changes them"},
    {40, "the server does not know this key, or wants a certificate; TELPHER_TLS_PSK "
         "should "
         "name a key that is in the server's --tls-psk file"},
    {42, "the server finds this client's certificate damaged (TELPHER_TLS_CERT)"},
    {43, "the server takes no certificate of this kind; make one for client "
         "authentication"},
    {44, "the server says that this client's certificate was revoked"},
    {45, "this client's certificate has expired, or the server's clock is wrong; renew "
         "TELPHER_TLS_CERT"},
    {46, "the server does not accept this client's certificate; its log says why"},
    {47, "the key is another one than the server's of this name; copy the server's key "
         "file "
         "again (TELPHER_TLS_PSK)"},
    {48, "this client's certificate is signed by another authority than the server's "
         "--tls-ca"},
    {51, "the key is another one than the server's of this name; copy the server's key "
         "file "
         "again (TELPHER_TLS_PSK)"},
    {70, "the server speaks no TLS 1.3"},
    {71, "the server finds the cipher suites too weak"},
    {80, "the server had an error of its own; its log says which"},
    {109, "the server misses an extension; is it telpherd?"},
    {115,
     "the server does not know this key; TELPHER_TLS_PSK should name one that is in "
     "its --tls-psk file"},
    {116,
     "the server wants a certificate: set TELPHER_TLS_CERT and TELPHER_TLS_KEY, or "
     "TELPHER_TLS_PSK"},
};

const char *
tp_tls_alert_words(uint8_t alert)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].alert == alert) {
            return table[i].words;
        }
    }
    return "the server refused the TLS handshake; its log says why";
}
