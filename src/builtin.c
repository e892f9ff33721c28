/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one file that names every transport, and what secures them: each artefact compiles
 * it with the list it wants (TP_BUILTIN_TCP …), see CMakeLists.txt beside it.
 */
#include "waist/transport.h"

#ifdef TP_BUILTIN_TCP
#include "transport/tcp/tcp.h"
#endif
#ifdef TP_BUILTIN_TLS
#include "transport/tls/tls.h"
#endif

const struct tp_transport *const tp_builtin_transports[] = {
#ifdef TP_BUILTIN_TCP
    &tp_tcp_transport,
#endif
    NULL,
};

#ifdef TP_BUILTIN_TLS
const struct tp_secure *const tp_builtin_secure = &tp_tls_secure;
#else
const struct tp_secure *const tp_builtin_secure = NULL;
#endif
