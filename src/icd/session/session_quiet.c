/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices a server that sends nothing while calls wait for it. A server that works sends something
 * each TP_WIRE_SIGN_S. So either the network carries nothing though the connection stays up, or
 * the executor is stopped.
 */
#include "icd/icd.h"
#include "icd/icd_int.h"
#include "icd/session/session.h"
#include "icd/session/session_int.h"

#include <stdio.h>

#include "base/os/clock.h"
#include "base/trace/log.h"

/* Silence that is noticed: longer than TP_WIRE_SIGN_S thrice, because a server may be slow. */
#define NOTICED (20 * TP_CLOCK_S)
#define LEAST (3 * TP_WIRE_SIGN_S * TP_CLOCK_S) /* that may end a session */

enum { LINE_BYTES = 160 };

/* Silence that ends a session; 0: none does. */
static tp_ns
silence_limit(const struct tp_icd_session *session)
{
    tp_ns limit = (tp_ns)tp_icd_settings.server_silence_ns;

    return limit == 0 || !session->gives_signs ? 0 : TP_MAX(limit, LEAST);
}

static void
lose_stopped(struct tp_icd_session *session, tp_ns quiet)
{
    char line[LINE_BYTES];

    (void)snprintf(
        line, sizeof(line),
        "its executor has given no sign of life for %.3g s, though calls wait "
        "(TELPHER_SERVER_SILENCE)",
        (double)quiet / TP_CLOCK_S);
    tp_icd_session_lose(session, TELPHER_ERR_TIMEOUT, line);
}

void
tp_icd_session_note_quiet(struct tp_icd_session *session)
{
    tp_ns limit = silence_limit(session), before, quiet;

    if (!session->started || tp_stream_is_away(session->stream) ||
        tp_icd_session_only_listens(session)) {
        return; /* an executor that starts drivers gives no signs */
    }
    before = atomic_fetch_add(&session->quiet_ns, TP_ICD_QUIET_LOOK);
    quiet = before + TP_ICD_QUIET_LOOK;
    if (limit != 0 && quiet >= limit) {
        lose_stopped(session, quiet);
        return;
    }
    if (quiet / NOTICED == before / NOTICED ||
        (session->resumes && tp_stream_leave(session->stream))) {
        return; /* the watching thread says that it connects again */
    }
    if (before < NOTICED) {
        tp_warn("icd",
                "%s: no sign of life for %.3g s while calls wait: its executor is "
                "stopped, or nothing passes the connection; the calls go on waiting",
                session->server->address, (double)quiet / TP_CLOCK_S);
    }
}

void
tp_icd_session_note_bytes(struct tp_icd_session *session)
{
    if (atomic_load(&session->quiet_ns) == 0) {
        return;
    }
    if (atomic_exchange(&session->quiet_ns, 0) >= NOTICED) {
        tp_warn("icd", "%s: it gives signs of life again", session->server->address);
    }
}
