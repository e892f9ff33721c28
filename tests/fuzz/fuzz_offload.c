/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders of a worker (a launch: header, records, arguments of each kind, arrays) and of a
 * parent (the table of kernels). The first byte chooses.
 */
#include "support/fuzz.h"

#include "base/trace/log.h"
#include "offload/worker/parts.h"

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
static void
resident(telpher_block a, int b, telpher_block c)
{
    (void)b;
    touch(a.data, (size_t)(a.rows * a.row_bytes));
    memset(c.data, 1, (size_t)(c.rows * c.row_bytes));
}
TELPHER_KERNEL(plain, int, double, char)
TELPHER_KERNEL(block, telpher_bytes, short, telpher_bytes)
TELPHER_KERNEL(odd, struct odd, long double)
TELPHER_KERNEL(resident, telpher_block, int, telpher_block)

static struct tp_offload_table table;
static struct tp_offload_parts parts;

static void
check_record(const struct tp_offload_record *r, const uint8_t *args)
{
    void *found[TELPHER_KERNEL_ARGS_MAX];
    telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX];
    const struct tp_offload_kernel *k = &table.kernels[r->kernel];

    if (tp_offload_args_get(&k->sig, args, r->len, found, bytes) == TELPHER_OK &&
        tp_offload_parts_args(&parts, &k->sig, found) == TELPHER_OK) {
        (void)tp_offload_kernel_invoke(k, found);
    }
}

/* Worker 1 of 3 makes, finds and frees its rows. */
static void
check_array(const struct tp_offload_record *r, const uint8_t *args)
{
    struct tp_offload_array a;
    struct tp_error err = {0};

    if (tp_offload_array_read(r, args, &a) != TELPHER_OK) {
        return;
    }
    require(a.row_bytes == 0 || a.rows <= TP_OFFLOAD_ARRAY_MAX / a.row_bytes);
    if ((r->flags & TP_OFFLOAD_CREATE) != 0 &&
        (a.row_bytes == 0 || a.rows < 65536 / a.row_bytes)) {
        (void)tp_offload_parts_create(&parts, &a, 3, 1, &err);
        require(tp_map_count(&parts.by_id) > 0);
    } else if ((r->flags & TP_OFFLOAD_FREE) != 0) {
        tp_offload_parts_free(&parts, a.id);
        require(tp_offload_parts_find(&parts, &a) == NULL);
    } else if (tp_offload_parts_find(&parts, &a) != NULL) {
        const telpher_block *part = tp_offload_parts_find(&parts, &a);

        require(part->first + part->rows <= a.rows);
        memset(part->data, 2, (size_t)(part->rows * part->row_bytes));
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
        uint8_t *records = exact_copy(raw + h.bytes, h.len);
        struct tp_offload_record r;
        const uint8_t *args;

        while (at < h.len && tp_offload_record_next(&table, records, h.len, &at, &r,
                                                    &args) == TELPHER_OK) {
            require(at <= h.len);
            if ((r.flags & TP_OFFLOAD_ARRAY) != 0) {
                check_array(&r, args);
            } else if (r.kernel < table.count) {
                check_record(&r, args);
            }
        }
        free(records);
        tp_offload_parts_fini(&parts);
        parts = (struct tp_offload_parts){0};
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
        require(tp_offload_table_create(&table) == TELPHER_OK && table.count == 4);
    }
    if (len > 0 && data[0] % 2 == 0) {
        check_launch(data + 1, len - 1);
    } else if (len > 0) {
        check_names(data + 1, len - 1);
    }
    return 0;
}
