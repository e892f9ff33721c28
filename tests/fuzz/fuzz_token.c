/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of exported buffers, as they come from other programs. */
#include "support/fuzz.h"

#include "core/session/buffer_token.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = string_copy(data, len), again[TP_BUFFER_TOKEN_BYTES];
    struct tp_buffer_token t, same;

    if (tp_buffer_token_read(text, &t)) {
        require(t.size > 0 && t.rights >= 1 && t.rights <= 3);
        require(t.address[0] != '\0' && strlen(t.address) < sizeof(t.address));
        require(tp_buffer_token_write(&t, again) && tp_buffer_token_read(again, &same));
        require(strcmp(t.address, same.address) == 0 && t.size == same.size);
        require(memcmp(t.key, same.key, sizeof(t.key)) == 0);
    }
    free(text);
    return 0;
}
