/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for main.f90. */
#include <telpher/offload.h>

static int sum;

static int
scaled(int number, double factor)
{
    return (int)(number * factor);
}

static void
add(int number)
{
    sum += number;
}

static int
total(void)
{
    return sum;
}

TELPHER_KERNEL(scaled, int, double)
TELPHER_KERNEL(add, int)
TELPHER_KERNEL(total)
