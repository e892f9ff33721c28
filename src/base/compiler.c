/* SPDX-License-Identifier: Apache-2.0 */
/* Aborts the process when an invariant is broken. */
#include "base/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void
tp_assert_failed(const char *cond, const char *file, int line, const char *func)
{
    char text[512];
    int len = snprintf(text, sizeof(text),
                       "telpher[%d] bug: %s:%d: %s: assertion \"%s\" does not hold\n",
                       (int)getpid(), file, line, func, cond);

    if (len > 0) {
        ssize_t ignored =
            write(STDERR_FILENO, text, TP_MIN((size_t)len, sizeof(text) - 1));

        (void)ignored; /* a failed write cannot be reported */
    }
    abort();
}
