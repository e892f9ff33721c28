/* SPDX-License-Identifier: Apache-2.0 */
/* In a static program kernels register themselves, too: links.sh. */
#include <stdio.h>

#include "offload/worker/registry.h"

struct pair {
    double d;
    long l;
};

int
main(void)
{
    struct tp_offload_table table;
    struct pair p = {2.5, -3};
    float f = 0.5f;
    double a = 1.5;
    int b = 42;
    char c = 'x';
    void *args[] = {&a, &b, &c}, *pair_args[] = {&p, &f};
    int64_t dic, pair;

    if (tp_offload_table_create(&table) != TELPHER_OK) {
        return 1;
    }
    dic = tp_offload_table_find(&table, "dic");
    pair = tp_offload_table_find(&table, "pair");
    if (dic >= 0 && pair >= 0 &&
        tp_offload_kernel_invoke(&table.kernels[dic], args) == 0 &&
        tp_offload_kernel_invoke(&table.kernels[pair], pair_args) == 0) {
        puts("static: all kernels");
    }
    tp_offload_table_destroy(&table);
    return 0;
}
