/* SPDX-License-Identifier: Apache-2.0 */
/* Tells whether a program may have variables that outlive its kernels, which are not copied. */
#ifndef TELPHER_ICD_COPIES_VARIABLES_H
#define TELPHER_ICD_COPIES_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/** True unless the text surely has none, by the rules of OpenCL C 2.0 and later. Of what the
 *  preprocessor makes of it, a guess that errs on the side of true. */
bool tp_copies_may_have_variables(const char *text, size_t len);
/** Language options of a build. */
enum tp_copies_language {
    TP_COPIES_C1, /**< without such variables */
    TP_COPIES_C2, /**< or later */
    TP_COPIES_OTHER,
};
enum tp_copies_language tp_copies_language_of(const char *options, size_t len);

#endif
