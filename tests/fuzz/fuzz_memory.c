/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that another process says it exported: what is opened is as large as was asked for,
 * and anything else is refused. The first byte says where the blob comes from: 0 the input
 * itself, 1 and 2 one of ours, changed at pairs of (place, bits); the second, how much of the
 * memory is wanted.
 */
#include "support/fuzz.h"

#include "base/trace/log.h"
#include "core/comm/mem/mem.h"

enum { SIZE = 65536, OFFSET = 256 };

static struct tp_mems *mems;
static uint8_t blobs[2][TP_MEMS_BLOB_MAX];
static size_t lens[2];

static void
set_up(void)
{
    static const uint32_t kinds[2] = {TELPHER_MEM_HOST, TELPHER_MEM_SIM};
    struct tp_mem_place place;
    void *ptr;

    require(tp_log_configure("none", NULL) == TELPHER_OK);
    require(tp_mems_create(NULL, &mems, NULL) == TELPHER_OK);
    for (int i = 0; i < 2; i++) {
        require(tp_mems_alloc(mems, kinds[i], SIZE, &ptr) == TELPHER_OK);
        require(tp_mems_find(mems, (char *)ptr + OFFSET, 1, &place) == TELPHER_OK);
        require(tp_mems_export(mems, &place, blobs[i], &lens[i]) == TELPHER_OK);
    }
}

static void
read_all(struct tp_mem_place *place, uint64_t wanted)
{
    if (place->host != NULL) {
        touch(place->host, wanted < SIZE ? wanted : SIZE);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct tp_mem_place place;
    uint64_t wanted;
    uint8_t *blob;
    size_t blob_len;

    if (mems == NULL) {
        set_up();
    }
    if (len < 2) {
        return 0;
    }
    wanted = (uint64_t)data[1] * 1000;
    if (data[0] % 3 == 0) {
        blob_len = len - 2;
        blob = exact_copy(data + 2, blob_len);
    } else {
        blob_len = lens[data[0] % 3 - 1];
        blob = exact_copy(blobs[data[0] % 3 - 1], blob_len);
        for (size_t i = 2; i + 1 < len; i += 2) {
            blob[data[i] % blob_len] ^= data[i + 1];
        }
    }
    if (tp_mems_import(mems, blob, blob_len, wanted, &place) == TELPHER_OK) {
        require(wanted <= SIZE);
        read_all(&place, wanted);
        tp_mems_close(mems, &place);
    }
    free(blob);
    return 0;
}
