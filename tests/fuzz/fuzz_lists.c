/* SPDX-License-Identifier: Apache-2.0 */
/* Files of blocks and of edges that telpher-bench reads by -D indx and -N graph. */
#include "support/fuzz.h"

#include "bench/ranks/ranks_lists.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ranks_list *list = malloc(sizeof(*list));
    char *text = string_copy(data, len);
    int lines = 1;

    require(list != NULL);
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    require(ranks_list_parse(text, list) <= lines);
    require(list->count >= 0 && list->count <= RANKS_LIST_MAX && list->count <= lines);
    for (int i = 0; i < list->count; i++) {
        require(list->first[i] >= 0 && list->second[i] >= 0);
    }
    free(list);
    free(text);
    return 0;
}
