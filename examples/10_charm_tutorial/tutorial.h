/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the programs of this folder share: they register a class and run the main function. */
#ifndef TUTORIAL_H
#define TUTORIAL_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <telpher/mdr_dynamic.h>

/* Ends all processes if a call fails. */
#define MUST(call)                                                                     \
    do {                                                                               \
        telpher_status must_ = (call);                                                 \
        if (must_ != TELPHER_OK && must_ != TELPHER_ERR_CANCELED) {                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                         \
                    telpher_status_name(must_));                                       \
            exit(EXIT_FAILURE);                                                        \
        }                                                                              \
    } while (0)

/* The program's argument, a number, as the main function sees it. */
static inline int32_t
tutorial_argument(const telpher_mdr_call *call, int32_t otherwise)
{
    const char *text = telpher_mdr_user(call->mdr);

    return text != NULL && atoi(text) > 0 ? atoi(text) : otherwise;
}

static inline int
tutorial_main(int argc, char **argv, const telpher_mdr_class *class_def,
              telpher_mdr_entry_fn main_fn)
{
    telpher_mdr *mdr = NULL;
    telpher_error err = {0};
    uint32_t class_id;
    telpher_status status = telpher_mdr_create(NULL, &mdr, &err);

    if (status != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    status = telpher_mdr_class_register(mdr, class_def, &class_id);
    if (status == TELPHER_OK) {
        status = telpher_mdr_run(mdr, main_fn, argc > 1 ? argv[1] : NULL);
    }
    if (status != TELPHER_OK) {
        fprintf(stderr, "%s: %s\n", telpher_status_name(status),
                telpher_mdr_last_error(mdr));
    }
    telpher_mdr_destroy(mdr);
    return status == TELPHER_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
