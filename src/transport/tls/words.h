/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong with TLS, in words that say how to mend it. */
#ifndef TELPHER_TRANSPORT_TLS_WORDS_H
#define TELPHER_TRANSPORT_TLS_WORDS_H

#include <stdint.h>

/** What an alert of the peer (RFC 8446 section 6.2) means to a client of telpherd. Lives
 *  for ever. */
const char *tp_tls_alert_words(uint8_t alert);

#endif
