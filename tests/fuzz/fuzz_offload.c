/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker decodes (a launch: header, records, arguments of each kind) and what a
 * parent decodes (the table of kernels). The first byte chooses.
 */
#include "fuzz.h"

#include "base/log.h"
#include "offload/message.h"

static void
plain(int a, double b, char c)
{
    (void)a, (void)b, (void)c;
}
static void
block(telpher_bytes a, short b, telpher_bytes c)
{
    (void)b;
    touch(a.data, a.len);
    touch(c.data, c.len);
}
struct odd {
    char text[13];
};
static int
odd(struct odd a, long double b)
{
    (void)b;
    return a.text[0];
}
TELPHER_KERNEL(plain, int, double, char)
TELPHER_KERNEL(block, telpher_bytes, short, telpher_bytes)
TELPHER_KERNEL(odd, struct odd, long double)

static struct tp_offload_table table;

static void
check_record(const struct tp_offload_record *r, const uint8_t *args)
{
    void *found[TELPHER_KERNEL_ARGS_MAX];
    telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX];
    const struct tp_offload_kernel *k = &table.kernels[r->kernel];

    if (tp_offload_args_get(&k->sig, args, r->len, found, bytes) == TELPHER_OK) {
        (void)tp_offload_kernel_invoke(k, found);
    }
}

static void
check_launch(const uint8_t *data, size_t len)
{
    uint8_t *raw = aligned_alloc(TP_OFFLOAD_ALIGN, (len + 31) / 16 * 16);
    struct tp_offload_header h;
    uint64_t at = 0;

    require(raw != NULL);
    memcpy(raw, data, len);
    if (tp_offload_header_check(raw, len, &h) == TELPHER_OK && h.total == h.len) {
        uint8_t *records = exact_copy(raw + sizeof(h), h.len);
        struct tp_offload_record r;
        const uint8_t *args;

        while (at < h.len && tp_offload_record_next(&table, records, h.len, &at, &r,
                                                    &args) == TELPHER_OK) {
            require(at <= h.len);
            if (r.kernel < table.count) {
                check_record(&r, args);
            }
        }
        free(records);
    }
    free(raw);
}

static void
check_names(const uint8_t *data, size_t len)
{
    char *text = exact_copy(data, len);
    struct tp_offload_names names;
    struct tp_error err = {0};

    if (tp_offload_names_read(text, len, &names, &err) == TELPHER_OK) {
        for (uint32_t i = 0; i < names.count; i++) {
            require(tp_offload_names_find(&names, names.known[i].name) == i);
            require(names.known[i].sig.count <= TELPHER_KERNEL_ARGS_MAX);
        }
        (void)tp_offload_names_guess(&names, "kernel0");
        tp_offload_names_fini(&names);
    } else {
        require(err.text[0] != '\0');
    }
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (table.kernels == NULL) {
        require(tp_offload_table_create(&table) == TELPHER_OK && table.count == 3);
    }
    if (len > 0 && data[0] % 2 == 0) {
        check_launch(data + 1, len - 1);
    } else if (len > 0) {
        check_names(data + 1, len - 1);
    }
    return 0;
}
