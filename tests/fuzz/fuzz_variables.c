/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of programs, in which variables are looked for. */
#include "support/fuzz.h"

#include "icd/copies/variables.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = (char *)exact_copy(data, len);

    (void)tp_copies_may_have_variables(text, len);
    (void)tp_copies_language_of(text, len);
    free(text);
    return 0;
}
