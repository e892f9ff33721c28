/* SPDX-License-Identifier: Apache-2.0 */
/* Facts: records one by one, and the list of devices that libtelpher makes of them. */
#include "support/fuzz.h"

#include "api/api_int.h"
#include "wire/facts.h"

static void
check_records(const uint8_t *src, const uint8_t *end)
{
    struct tp_wire_fact f;
    const uint8_t *start = src;

    while (tp_wire_get_fact(&src, end, &f)) {
        size_t size = tp_wire_fact_size(f.len);
        uint8_t *again = malloc(size);

        require(again != NULL && start + size == src);
        tp_wire_put_fact(again, &f);
        require(memcmp(start, again, size) == 0);
        free(again);
        start = src;
    }
    require(start == src); /* nothing moves when nothing is read */
}

static void
check_device(void *user, const telpher_device_info *info)
{
    uint32_t *next = user;

    require(info->index == (*next)++);
    touch(info->platform_name, strlen(info->platform_name));
    touch(info->name, strlen(info->name));
    touch(info->driver_version, strlen(info->driver_version));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *facts = exact_copy(data, len);
    uint32_t next = 0;

    check_records(facts, facts + len);
    (void)tp_api_decode_devices(facts, len, UINT64_MAX, check_device, &next);
    free(facts);
    return 0;
}
