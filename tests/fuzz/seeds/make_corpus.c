/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the seed inputs of the fuzz targets: make_corpus tests/fuzz/corpus
 * Inputs found by the fuzzer lie beside them, under its own names, and are kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "make_corpus.h"

#include "base/text/sha256.h"
#include "daemon/cache/entry.h"
#include "wire/facts.h"
#include "wire/files.h"
#include "wire/test/sample.h"

static const char *top;
static struct tp_sample_room room;

void
save(const char *target, const char *name, const void *data, size_t len)
{
    char path[1024];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/fuzz_%s", top, target);
    (void)mkdir(path, 0777);
    (void)snprintf(path, sizeof(path), "%s/fuzz_%s/%s", top, target, name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, len, file) != len || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void
save_text(const char *target, const char *name, const char *text)
{
    save(target, name, text, strlen(text));
}

static void
make_prefaces(void)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES] = {0};
    struct tp_wire_preface p = {
        .version_min = 1, .version_max = 1, .stream = TP_WIRE_STREAM_COMMAND};
    struct tp_wire_preface_reply r = {.version = 1,
                                      .window = TP_WIRE_WINDOW,
                                      .bulk_max = 4,
                                      .frame_max = TP_WIRE_FRAME_MAX};

    tp_wire_put_preface(raw, &p);
    save("preface", "command", raw, TP_WIRE_PREFACE_BYTES);
    p.stream = TP_WIRE_STREAM_BULK;
    p.version_max = 9;
    p.auth_len = TP_WIRE_NONCE_BYTES;
    p.session[3] = 7;
    tp_wire_put_preface(raw, &p);
    save("preface", "bulk", raw, TP_WIRE_PREFACE_BYTES + TP_WIRE_NONCE_BYTES);
    tp_wire_put_challenge(raw, &(struct tp_wire_challenge){.nonce = {1}, .proof = {2}});
    save("preface", "challenge", raw, TP_WIRE_CHALLENGE_BYTES);
    tp_wire_put_preface_reply(raw, &r);
    save("preface", "reply", raw, sizeof(raw));
    r.status = TELPHER_ERR_AUTH;
    memcpy(r.text, "wrong cookie", 13);
    tp_wire_put_preface_reply(raw, &r);
    save("preface", "refusal", raw, sizeof(raw));
}

/* Type and body. */
static void
make_messages(void)
{
    static uint8_t raw[1 << 20];
    const struct tp_wire_message *row;

    for (size_t i = 0; (row = tp_wire_message_at(i)) != NULL; i++) {
        _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX] = {0};

        tp_sample(row->type, TP_SAMPLE_PATTERN, &room, m);
        raw[0] = (uint8_t)row->type;
        row->put(raw + 1, m);
        save("messages", row->name, raw, 1 + row->size(m));
    }
}

struct frames {
    uint8_t bytes[8192];
    size_t len;
    uint64_t seq;
};

static void
add_frame(struct frames *f, uint16_t type, const void *m)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    struct tp_wire_header h = {.type = type, .seq = ++f->seq};

    h.len = (uint32_t)(TP_WIRE_HEADER_BYTES + row->size(m));
    tp_wire_put_header(f->bytes + f->len, &h);
    row->put(f->bytes + f->len + TP_WIRE_HEADER_BYTES, m);
    f->len += h.len;
}

static void
add_sample(struct frames *f, uint16_t type)
{
    _Alignas(16) uint8_t m[TP_WIRE_STRUCT_MAX] = {0};

    tp_sample(type, TP_SAMPLE_PATTERN, &room, m);
    add_frame(f, type, m);
}

/* The first byte is the size of the pieces, 0 for whole. */
static void
make_streams(void)
{
    struct frames commands = {.bytes = {0}, .len = 1}, bulk = {.bytes = {7}, .len = 1};
    struct frames mixed = {.bytes = {50}, .len = 1}, small = {.bytes = {1}, .len = 1};
    struct tp_wire_ack ack = {0};
    struct tp_wire_data data = {.transfer = 2, .bytes = {200, room.bytes}};
    struct tp_wire_data discarded = {
        .transfer = 1, .offset = 9, .bytes = {99, room.bytes}};

    for (size_t i = 1; i < 20; i++) {
        if (tp_wire_message_at(i)->type != TP_WIRE_DATA) {
            add_sample(&commands, tp_wire_message_at(i)->type);
        }
    }
    save("stream", "commands", commands.bytes, commands.len);
    add_frame(&bulk, TP_WIRE_DATA, &data);
    add_frame(&bulk, TP_WIRE_DATA, &discarded);
    add_frame(&bulk, TP_WIRE_DATA, &data);
    save("stream", "bulk", bulk.bytes, bulk.len);
    add_sample(&mixed, TP_WIRE_DONE);
    add_frame(&mixed, TP_WIRE_DATA, &data);
    add_frame(&mixed, TP_WIRE_ACK, &ack);
    mixed.seq--; /* a duplicate */
    add_frame(&mixed, TP_WIRE_ACK, &ack);
    add_sample(&mixed, TP_WIRE_LAUNCH);
    save("stream", "mixed", mixed.bytes, mixed.len);
    save("stream", "cut", mixed.bytes, mixed.len - 5);
    add_sample(&small, TP_WIRE_CREDIT);
    small.seq += 3; /* a gap */
    add_sample(&small, TP_WIRE_CREDIT);
    save("stream", "gap", small.bytes, small.len);
    tp_wire_put_short(commands.bytes + commands.len, TP_WIRE_PRINTF, 5);
    memcpy(commands.bytes + commands.len + TP_WIRE_SHORT_BYTES, "\1\0\0\0a", 5);
    commands.len += TP_WIRE_SHORT_BYTES + 5;
    save("stream", "short", commands.bytes, commands.len);
}

static size_t
add_fact(uint8_t *dst, uint16_t kind, uint32_t param, const void *data, uint32_t len)
{
    struct tp_wire_fact f = {kind, 0, 0, param, 0, len, data};

    tp_wire_put_fact(dst, &f);
    return tp_wire_fact_size(len);
}

static void
make_facts(void)
{
    uint8_t raw[1024], memory[8] = {0, 0, 0, 0, 1};
    size_t len = 0;

    len += add_fact(raw + len, TP_WIRE_FACT_PLATFORM, 0x0902, "Portable", 9);
    len += add_fact(raw + len, TP_WIRE_FACT_PLATFORM, 0x0901, "OpenCL 3.0", 11);
    len += add_fact(raw + len, TP_WIRE_FACT_DEVICE, 0x1000, "\2\0\0\0\0\0\0\0", 8);
    len += add_fact(raw + len, TP_WIRE_FACT_DEVICE, 0x102b, "cpu", 4);
    len += add_fact(raw + len, TP_WIRE_FACT_DEVICE, 0x101f, memory, 8);
    len += add_fact(raw + len, TP_WIRE_FACT_DEVICE, 0x1027, "\1\0\0\0", 4);
    save("facts", "device", raw, len);
    save("facts", "cut", raw, len - 3);
    len = add_fact(raw, TP_WIRE_FACT_KERNEL_ARG, 0x119a, "x", 2);
    len += add_fact(raw + len, TP_WIRE_FACT_KERNEL_DEVICE, 0x11b0, memory, 8);
    save("facts", "kernel", raw, len);
    len = add_fact(raw, TP_WIRE_FACT_IMAGE_FORMATS, 0x10f1,
                   "\265\20\0\0\332\20\0\0\7\0\0\0", 12);
    save("facts", "image_formats", raw, len);
}

static void
make_files(void)
{
    static const uint8_t digest[TP_WIRE_FILE_DIGEST_BYTES] = {1};
    const struct tp_wire_file header = {.kind = TP_WIRE_FILE_REGULAR,
                                        .has_content = true,
                                        .name_len = 5,
                                        .len = 3,
                                        .identity = 7,
                                        .digest = digest,
                                        .name = "d/a.h",
                                        .content = (const uint8_t *)"abc"};
    const struct tp_wire_file absent = {
        .kind = TP_WIRE_FILE_ABSENT, .name_len = 3, .name = "b.h"};
    uint8_t raw[256];
    size_t len = tp_wire_file_size(&absent);

    tp_wire_put_file(raw, &absent);
    tp_wire_put_file(raw + len, &header);
    len += tp_wire_file_size(&header);
    save("files", "two", raw, len);
    save("files", "cut", raw, len - 2);
}

/* Behind the number of a constant. */
static void
make_modules(void)
{
    static const uint32_t words[] = {7,
                                     0x07230203,
                                     0x00010000,
                                     0,
                                     40,
                                     0, /* header */
                                     4U << 16 | 71,
                                     2,
                                     1,
                                     7, /* OpDecorate %2 SpecId 7 */
                                     4U << 16 | 71,
                                     5,
                                     1,
                                     9,
                                     4U << 16 | 21,
                                     3,
                                     64,
                                     0, /* OpTypeInt */
                                     2U << 16 | 20,
                                     4,
                                     5U << 16 | 50,
                                     3,
                                     2,
                                     20,
                                     0, /* OpSpecConstant */
                                     3U << 16 | 48,
                                     4,
                                     5}; /* OpSpecConstantTrue */
    uint32_t swapped[sizeof(words) / sizeof(words[0])] = {9};

    for (size_t i = 1; i < sizeof(words) / sizeof(words[0]); i++) {
        swapped[i] = __builtin_bswap32(words[i]);
    }
    save("spirv", "constants", words, sizeof(words));
    save("spirv", "swapped", swapped, sizeof(swapped));
    save("spirv", "cut", words, sizeof(words) - 6);
}

static void
make_texts(void)
{
    save_text("address", "list", "node1, node2:7000 ,unix:/run/x.sock,local");
    save_text("address", "v6", "[::1]:7717,[fe80::1%eth0]");
    save_text("address", "path", "/run/telpher/telpherd.sock");
    save_text("address", "bare_v6", "::1");
    save_text("address", "empty_item", "a,,b");
    save_text("token", "token",
              "telpher-buffer-1:00112233445566778899aabbccddeeff:"
              "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f:rw:"
              "65536:1800000000:tcp://node1:7717");
    save_text("token", "short", "telpher-buffer-1:00:");
    save_text("config", "all",
              "flag = yes\nNUMBER=-3\ncount = 0x10\nsize = 16M\nduration = 2.5s\n"
              "text = \"a # b\" # comment\nwords = a, b,c\ncolour = green\n");
    save_text("config", "wrong", "number = 11\n");
    save_text("config", "unknown", "colur = red\nwords\n=\n");
    save_text("config", "no_newline", "duration = forever");
    save_text("log", "topics", "warn,icd:debug,core:trace");
    save_text("log", "level", "none");
    save_text("log", "wrong", "warn,:,icd:loud");
    save_text("include", "plain", "#include \"a.h\"\n#include <b/c.h> // why\n");
    save_text("include", "odd", "/*\n# */ #/*\n*/inc\\\nlude M\r?\?=embed \"/x\"");
    save_text("include", "two", "%:include \"a\" */ #import <b");
}

/* Which blob, how many thousand bytes of it, and pairs of place and bits; see fuzz_memory.c. */
static void
make_memory(void)
{
    static const uint8_t host[] = {1, 10}, sim[] = {2, 65},
                         far_off[] = {1, 1, 15, 0x80}, fd[] = {2, 1, 44, 1},
                         bare[] = {0, 1, 0, 1, 0, 0};

    save("memory", "host", host, sizeof(host));
    save("memory", "sim", sim, sizeof(sim));
    save("memory", "offset", far_off, sizeof(far_off));
    save("memory", "descriptor", fd, sizeof(fd));
    save("memory", "bare", bare, sizeof(bare));
}

/* A file of the cache, under the key that is all 0. */
static void
save_cache_file(const char *name, const uint8_t *content, size_t len)
{
    static const uint8_t key[TP_SHA256_BYTES];
    uint8_t raw[512] = "TPCACHE1";
    struct tp_sha256 sum;

    tp_sha256_begin(&sum);
    tp_sha256_add(&sum, key, sizeof(key));
    tp_sha256_add(&sum, content, len);
    tp_sha256_end(&sum, raw + 8);
    memcpy(raw + 8 + TP_SHA256_BYTES, content, len);
    save("cache", name, raw, 8 + TP_SHA256_BYTES + len);
}

/* Its content, behind a byte with the number of devices. */
static size_t
make_entry(uint8_t *raw, struct tp_cache_entry *entry)
{
    uint8_t *places[TP_CACHE_ENTRY_DEVICES_MAX];

    raw[0] = (uint8_t)entry->count;
    tp_cache_entry_write(entry, raw + 1, places);
    for (uint32_t i = 0; i < entry->count; i++) {
        memset(places[i], 'b', entry->sizes[i]);
    }
    return 1 + tp_cache_entry_size(entry);
}

static void
make_cache(void)
{
    struct tp_cache_entry entry = {
        .count = 1, .type = 4, .facts_len = 5, .facts = (const uint8_t *)"facts"};
    uint8_t raw[256];
    size_t len;

    entry.sizes[0] = 20;
    len = make_entry(raw, &entry);
    save("cache", "one", raw, len);
    save("cache", "cut", raw, len - 3);
    save_cache_file("file", raw + 1, len - 1);
    save_cache_file("empty", raw, 0);
    entry.count = 2;
    entry.sizes[1] = 7;
    entry.facts_len = 0;
    save("cache", "two", raw, make_entry(raw, &entry));
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    top = argv[1];
    (void)mkdir(top, 0777);
    tp_sample_room_init(&room);
    make_memory();
    make_prefaces();
    make_messages();
    make_streams();
    make_facts();
    make_files();
    make_modules();
    make_texts();
    make_cache();
    make_rank_seeds();
    make_broker_seeds();
    make_executor_seeds();
    make_client_seeds();
    return 0;
}
