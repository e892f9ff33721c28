/* SPDX-License-Identifier: Apache-2.0 */
/* A program of a user of libtelpher: a context of one rank. */
#include <stdio.h>
#include <telpher/context.h>
#include <telpher/version.h>

int
main(void)
{
    telpher_context *context = NULL;
    telpher_error err;

    if (telpher_context_create(NULL, &context, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("rank %u of %u, version %s\n", (unsigned)telpher_context_rank(context),
           (unsigned)telpher_context_size(context), telpher_version());
    telpher_context_destroy(context);
    return 0;
}
