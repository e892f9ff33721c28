/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's kernel. */
#include <telpher/kernel.h>

static int
plugged(void)
{
    return 5;
}
TELPHER_KERNEL(plugged)
