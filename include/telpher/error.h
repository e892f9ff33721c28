/* SPDX-License-Identifier: Apache-2.0 */
/* An error with its words: what calls that are not on the data path may be given to fill. */
#ifndef TELPHER_ERROR_H
#define TELPHER_ERROR_H

#include <telpher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TELPHER_ERROR_TEXT_BYTES 256

/** Start with all zero, which is "no error". */
typedef struct telpher_error {
    telpher_status code; /**< the status the call returned */
    char text[TELPHER_ERROR_TEXT_BYTES]; /**< cause and remedy; NUL-terminated */
} telpher_error;

#ifdef __cplusplus
}
#endif

#endif
