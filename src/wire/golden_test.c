/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of protocol version 1, frozen in tests/golden/wire-1.txt: what an encoder writes
 * today must be what it wrote when the version was made. A difference is a new version of
 * the protocol, never a reason to write the file again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/facts.h"
#include "wire/files.h"
#include "wire/image.h"
#include "wire/launch.h"

enum { TEXT_MAX = 1024 };

/* Finds the hexadecimal digits after "name " in the golden file. */
static void
load_golden(const char *name, char *ret_hex)
{
    FILE *file = fopen(GOLDEN_FILE, "r");
    char line[TEXT_MAX], word[64];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%63s %1023s", word, ret_hex) == 2 &&
            strcmp(word, name) == 0) {
            fclose(file);
            return;
        }
    }
    fclose(file);
    fail_msg("%s: no line %s", GOLDEN_FILE, name);
}

static void
check(const char *name, const uint8_t *bytes, size_t len)
{
    char want[TEXT_MAX], got[TEXT_MAX];

    assert_true(2 * len < sizeof(got));
    got[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        snprintf(got + 2 * i, 3, "%02x", bytes[i]);
    }
    load_golden(name, want);
    if (strcmp(want, got) != 0) {
        fail_msg("%s\n is  %s\n was %s", name, got, want);
    }
}

static void
check_message(uint16_t type, const void *m)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    uint8_t frame[TEXT_MAX / 2];
    struct tp_wire_header h = {.type = type, .seq = 5, .ack = 4};

    h.len = (uint32_t)(TP_WIRE_HEADER_BYTES + row->size(m));
    assert_true(h.len <= sizeof(frame));
    tp_wire_put_header(frame, &h);
    row->put(frame + TP_WIRE_HEADER_BYTES, m);
    check(row->name, frame, h.len);
}

static void
test_prefaces(void **state)
{
    uint8_t raw[TP_WIRE_PREFACE_REPLY_BYTES];
    struct tp_wire_preface p = {.version_min = 1,
                                .version_max = 1,
                                .stream = TP_WIRE_STREAM_BULK,
                                .session = {0xa0, 0xa1, [15] = 0xaf},
                                .index = 2,
                                .auth_len = TP_WIRE_NONCE_BYTES};
    struct tp_wire_preface_reply r = {.version = 1,
                                      .session = {0xa0, 0xa1, [15] = 0xaf},
                                      .window = TP_WIRE_WINDOW,
                                      .bulk_max = 4,
                                      .frame_max = TP_WIRE_FRAME_MAX};

    (void)state;
    tp_wire_put_preface(raw, &p);
    check("preface", raw, TP_WIRE_PREFACE_BYTES);
    tp_wire_put_preface_reply(raw, &r);
    check("preface_reply", raw, TP_WIRE_PREFACE_REPLY_BYTES);
    tp_wire_put_challenge(raw,
                          &(struct tp_wire_challenge){.nonce = {0xb0, [31] = 0xbf},
                                                      .proof = {0xc0, [31] = 0xcf}});
    check("challenge", raw, TP_WIRE_CHALLENGE_BYTES);
    r = (struct tp_wire_preface_reply){.status = TELPHER_ERR_AUTH, .text = "no cookie"};
    tp_wire_put_preface_reply(raw, &r);
    check("preface_refusal", raw, TP_WIRE_PREFACE_REPLY_BYTES);
}

static void
test_launch(void **state)
{
    const uint64_t sizes[] = {0, 0, 0, 1024, 512, 2, 16, 8, 1};
    struct tp_wire_launch m = {.event = tp_wire_id(TP_WIRE_KIND_EVENT, 9),
                               .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 2),
                               .kernel = tp_wire_id(TP_WIRE_KIND_KERNEL, 7),
                               .flags = TP_WIRE_NOTIFY,
                               .dims = 3,
                               .sizes = {9, sizes}};

    (void)state;
    check_message(TP_WIRE_LAUNCH, &m);
}

static void
test_launch_again(void **state)
{
    const uint64_t mem = tp_wire_id(TP_WIRE_KIND_MEM, 3);
    const struct tp_wire_kernel_arg arg = {
        .index = 1, .kind = TP_WIRE_ARG_MEM, .value = {sizeof(mem), &mem}};
    uint8_t args[TP_WIRE_AGAIN_ARGS_MAX], raw[64];
    const uint8_t *end = tp_wire_put_again_arg(args, args + sizeof(args), &arg);
    struct tp_wire_launch_again m = {.queue = 2,
                                     .event = 9,
                                     .flags = TP_WIRE_NOTIFY | TP_WIRE_AFTER_LAST,
                                     .args = {(uint32_t)(end - args), args}};
    uint16_t len = (uint16_t)tp_wire_size_launch_again(&m);

    (void)state;
    check_message(TP_WIRE_LAUNCH_AGAIN, &m);
    tp_wire_put_short(raw, TP_WIRE_LAUNCH_AGAIN, len);
    tp_wire_put_launch_again(raw + TP_WIRE_SHORT_BYTES, &m);
    check("launch_again_short", raw, TP_WIRE_SHORT_BYTES + (size_t)len);
}

static void
test_write(void **state)
{
    const uint64_t wait[] = {tp_wire_id(TP_WIRE_KIND_EVENT, 1)};
    struct tp_wire_write m = {.event = tp_wire_id(TP_WIRE_KIND_EVENT, 10),
                              .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 2),
                              .mem = tp_wire_id(TP_WIRE_KIND_MEM, 3),
                              .offset = 4096,
                              .size = 4,
                              .wait = {1, wait},
                              .data = {4, "\1\2\3\4"}};

    (void)state;
    check_message(TP_WIRE_WRITE, &m);
}

static void
test_small_ones(void **state)
{
    const uint64_t stamps[] = {100, 200, 300, 400, 500};
    const uint64_t ids[] = {tp_wire_id(TP_WIRE_KIND_MEM, 3)};
    struct tp_wire_done done = {.event = tp_wire_id(TP_WIRE_KIND_EVENT, 9),
                                .status = -5,
                                .stamps = {5, stamps},
                                .data = {2, "ok"}};
    struct tp_wire_release release = {.ids = {1, ids}};
    struct tp_wire_kernel_arg arg = {.kernel = tp_wire_id(TP_WIRE_KIND_KERNEL, 7),
                                     .index = 1,
                                     .kind = TP_WIRE_ARG_MEM,
                                     .size = 8,
                                     .value = {8, ids}};
    struct tp_wire_data data = {.transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1),
                                .offset = 262144,
                                .bytes = {3, "abc"}};
    struct tp_wire_close closing = {.status = TELPHER_ERR_PROTO, .text = {3, "bad"}};
    struct tp_wire_ack ack = {0};

    (void)state;
    check_message(TP_WIRE_DONE, &done);
    check_message(TP_WIRE_RELEASE, &release);
    check_message(TP_WIRE_KERNEL_ARG, &arg);
    check_message(TP_WIRE_DATA, &data);
    check_message(TP_WIRE_CLOSE, &closing);
    check_message(TP_WIRE_ACK, &ack);
}

static void
test_parts(void **state)
{
    const uint64_t counts[] = {0x1087, 3, 1}; /* CL_DEVICE_PARTITION_BY_COUNTS */
    struct tp_wire_sub_devices m = {.request = tp_wire_id(TP_WIRE_KIND_REQUEST, 2),
                                    .device = 1,
                                    .first = TP_WIRE_SUB_DEVICE_FIRST,
                                    .room = 2,
                                    .properties = {3, counts}};
    struct tp_wire_sub_devices_reply r = {
        .request = m.request, .count = 2, .facts = {3, "abc"}};
    struct tp_wire_device_timer t = {.request = m.request, .device = 1};
    struct tp_wire_device_timer_reply tr = {
        .request = m.request, .status = -59, .device_ns = 1234567890123};

    (void)state;
    check_message(TP_WIRE_SUB_DEVICES, &m);
    check_message(TP_WIRE_SUB_DEVICES_REPLY, &r);
    check_message(TP_WIRE_DEVICE_TIMER, &t);
    check_message(TP_WIRE_DEVICE_TIMER_REPLY, &tr);
}

static void
test_peers(void **state)
{
    static const uint8_t key[TP_WIRE_PEER_KEY_BYTES] = {0x11, 0x22, [31] = 0x33};
    const uint64_t event = tp_wire_id(TP_WIRE_KIND_EVENT, 9);
    const uint64_t request = tp_wire_id(TP_WIRE_KIND_REQUEST, 1);
    const struct tp_wire_bytes secret = {sizeof(key), key};
    const struct tp_wire_bytes name = {TP_WIRE_SESSION_BYTES, "sixteen letters."};
    struct tp_wire_peer_accept accept = {request, 3, name, secret};
    struct tp_wire_peer_connect connect = {request, 3, name, secret, {9, "host:7717"}};
    struct tp_wire_route_accept way = {request, name, secret, {9, "host:7717"}};
    struct tp_wire_push push = {.event = event,
                                .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 2),
                                .mem = tp_wire_id(TP_WIRE_KIND_MEM, 3),
                                .peer = 3,
                                .offset = 4096,
                                .size = 65536,
                                .transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 4),
                                .wait = {1, &event}};
    struct tp_wire_pull pull = {.event = event,
                                .queue = push.queue,
                                .mem = push.mem,
                                .flags = TP_WIRE_NOTIFY,
                                .peer = 3,
                                .offset = 4096,
                                .size = 65536,
                                .transfer = push.transfer,
                                .wait = {1, &event}};
    struct tp_wire_forward forward = {3, {1, &event}};
    struct tp_wire_peer_event ours = {event, tp_wire_id(TP_WIRE_KIND_CONTEXT, 1), 3};
    struct tp_wire_export export = {request,
                                    tp_wire_id(TP_WIRE_KIND_EXPORT, 5),
                                    push.queue,
                                    push.mem,
                                    TP_WIRE_EXPORT_READ | TP_WIRE_EXPORT_WRITE,
                                    4096,
                                    65536,
                                    60000,
                                    name,
                                    secret};
    struct tp_wire_endpoint endpoint = {
        3, TP_WIRE_EXPORT_WRITE, push.transfer, event, 4096, 65536};
    struct tp_wire_peer_reply reply = {request, -111, {3, "why"}};
    struct tp_wire_peer_lost lost = {3, -104, {3, "why"}};
    struct tp_wire_peer_ready ready = {0};
    struct tp_wire_drain drain = {30000000000};

    (void)state;
    check_message(TP_WIRE_DRAIN, &drain);
    check_message(TP_WIRE_PEER_ACCEPT, &accept);
    check_message(TP_WIRE_PEER_CONNECT, &connect);
    check_message(TP_WIRE_ROUTE_ACCEPT, &way);
    check_message(TP_WIRE_PUSH, &push);
    check_message(TP_WIRE_PULL, &pull);
    check_message(TP_WIRE_FORWARD, &forward);
    check_message(TP_WIRE_PEER_EVENT, &ours);
    check_message(TP_WIRE_EXPORT, &export);
    check_message(TP_WIRE_ENDPOINT, &endpoint);
    check_message(TP_WIRE_PEER_REPLY, &reply);
    check_message(TP_WIRE_PEER_LOST, &lost);
    check_message(TP_WIRE_PEER_READY, &ready);
}

static void
test_shared_memory(void **state)
{
    struct tp_wire_share share = {.region = 7, .size = 1048576};
    struct tp_wire_unshare unshare = {.region = 7};
    struct tp_wire_piece piece = {.transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1),
                                  .offset = 262144,
                                  .len = 65536,
                                  .region = 7,
                                  .at = 4096};
    struct tp_wire_share_reply reply = {.region = 7, .status = -1};
    struct tp_wire_piece_done done = {.transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 1),
                                      .offset = 262144,
                                      .len = 65536};

    (void)state;
    check_message(TP_WIRE_SHARE, &share);
    check_message(TP_WIRE_UNSHARE, &unshare);
    check_message(TP_WIRE_PIECE, &piece);
    check_message(TP_WIRE_SHARE_REPLY, &reply);
    check_message(TP_WIRE_PIECE_DONE, &done);
}

static void
test_images(void **state)
{
    const uint64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const uint64_t region[] = {0, 1, 2, 6, 7, 8};
    struct tp_wire_image_create image = {.mem = tp_wire_id(TP_WIRE_KIND_MEM, 11),
                                         .context = tp_wire_id(TP_WIRE_KIND_CONTEXT, 1),
                                         .flags = 4,
                                         .image_type = 0x10f1,
                                         .channel_order = 0x10b5,
                                         .channel_type = 0x10da,
                                         .width = 640,
                                         .height = 480,
                                         .row_pitch = 2560,
                                         .parent = tp_wire_id(TP_WIRE_KIND_MEM, 3)};
    struct tp_wire_sampler_create sampler = {.sampler =
                                                 tp_wire_id(TP_WIRE_KIND_SAMPLER, 12),
                                             .context = image.context,
                                             .normalized = 1,
                                             .addressing = 0x1133,
                                             .filter = 0x1141};
    struct tp_wire_copy_image copy = {.event = tp_wire_id(TP_WIRE_KIND_EVENT, 10),
                                      .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 2),
                                      .src = image.mem,
                                      .dst = tp_wire_id(TP_WIRE_KIND_MEM, 13),
                                      .region = {9, numbers}};
    struct tp_wire_copy_image_to_buffer out = {.event = copy.event,
                                               .queue = copy.queue,
                                               .src = image.mem,
                                               .dst = image.parent,
                                               .offset = 4096,
                                               .region = {6, region}};
    struct tp_wire_copy_buffer_to_image in = {.event = copy.event,
                                              .queue = copy.queue,
                                              .src = image.parent,
                                              .dst = image.mem,
                                              .offset = 4096,
                                              .region = {6, region}};
    struct tp_wire_fill_image fill = {.event = copy.event,
                                      .queue = copy.queue,
                                      .mem = image.mem,
                                      .region = {6, region},
                                      .colour = {16, "0123456789abcdef"}};

    (void)state;
    check_message(TP_WIRE_IMAGE_CREATE, &image);
    check_message(TP_WIRE_SAMPLER_CREATE, &sampler);
    check_message(TP_WIRE_COPY_IMAGE, &copy);
    check_message(TP_WIRE_COPY_IMAGE_TO_BUFFER, &out);
    check_message(TP_WIRE_COPY_BUFFER_TO_IMAGE, &in);
    check_message(TP_WIRE_FILL_IMAGE, &fill);
}

static void
test_image_content(void **state)
{
    const uint64_t from[] = {1, 2, 3, 64, 32, 3}, to[] = {1, 2, 0, 1, 1, 1};
    const uint64_t wait[] = {tp_wire_id(TP_WIRE_KIND_EVENT, 1)};
    struct tp_wire_read_image read = {.event = tp_wire_id(TP_WIRE_KIND_EVENT, 10),
                                      .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 2),
                                      .mem = tp_wire_id(TP_WIRE_KIND_MEM, 11),
                                      .flags = TP_WIRE_NOTIFY,
                                      .size = 24576,
                                      .transfer = tp_wire_id(TP_WIRE_KIND_TRANSFER, 4),
                                      .region = {6, from}};
    struct tp_wire_write_image write = {.event = read.event,
                                        .queue = read.queue,
                                        .mem = read.mem,
                                        .size = 4,
                                        .region = {6, to},
                                        .wait = {1, wait},
                                        .data = {4, "\1\2\3\4"}};

    (void)state;
    check_message(TP_WIRE_READ_IMAGE, &read);
    check_message(TP_WIRE_WRITE_IMAGE, &write);
}

static void
test_commands(void **state)
{
    const uint64_t wait[] = {2};
    struct tp_wire_barrier barrier = {.queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 2),
                                      .wait = {1, wait}};
    uint8_t body[64];
    struct tp_wire_commands_create create = {.commands =
                                                 tp_wire_id(TP_WIRE_KIND_COMMANDS, 4),
                                             .queue = barrier.queue,
                                             .flags = 1};
    struct tp_wire_record record = {
        .commands = create.commands,
        .type = TP_WIRE_BARRIER,
        .body = {(uint32_t)tp_wire_size_barrier(&barrier), body}};
    struct tp_wire_commands_finalize finalize = {.commands = create.commands};
    struct tp_wire_commands_enqueue enqueue = {.event =
                                                   tp_wire_id(TP_WIRE_KIND_EVENT, 9),
                                               .queue = barrier.queue,
                                               .commands = create.commands,
                                               .flags = TP_WIRE_NOTIFY};

    (void)state;
    tp_wire_put_barrier(body, &barrier);
    check_message(TP_WIRE_COMMANDS_CREATE, &create);
    check_message(TP_WIRE_RECORD, &record);
    check_message(TP_WIRE_COMMANDS_FINALIZE, &finalize);
    check_message(TP_WIRE_COMMANDS_ENQUEUE, &enqueue);
}

static void
test_fact(void **state)
{
    struct tp_wire_fact f = {TP_WIRE_FACT_DEVICE,   1, 0, 0x102b, 0, 4,
                             (const uint8_t *)"cpu"};
    const struct tp_wire_image_format format = {0x10b5, 0x10da, 7};
    uint8_t raw[64];

    (void)state;
    tp_wire_put_fact(raw, &f);
    check("fact", raw, tp_wire_fact_size(f.len));
    f = (struct tp_wire_fact){TP_WIRE_FACT_IMAGE_FORMATS,
                              1,
                              0,
                              0x10f1,
                              0,
                              sizeof(format),
                              (const uint8_t *)(const void *)&format};
    tp_wire_put_fact(raw, &f);
    check("image_formats", raw, tp_wire_fact_size(f.len));
}

static void
test_programs(void **state)
{
    const uint64_t device[] = {0}, input[] = {tp_wire_id(TP_WIRE_KIND_PROGRAM, 2)},
                   header[] = {tp_wire_id(TP_WIRE_KIND_PROGRAM, 3)};
    static const uint8_t digest[TP_WIRE_FILE_DIGEST_BYTES] = {0xd1, 0xd2};
    struct tp_wire_program_compile compile = {.request =
                                                  tp_wire_id(TP_WIRE_KIND_REQUEST, 1),
                                              .program = input[0],
                                              .devices = {1, device},
                                              .headers = {1, header},
                                              .names = {4, "a.h"},
                                              .options = {2, "-w"}};
    struct tp_wire_program_link link = {.request = compile.request,
                                        .program = tp_wire_id(TP_WIRE_KIND_PROGRAM, 5),
                                        .context = tp_wire_id(TP_WIRE_KIND_CONTEXT, 1),
                                        .inputs = {1, input}};
    struct tp_wire_program_files files = {
        .program = input[0], .size = 3, .files = {3, "abc"}};
    struct tp_wire_files_wanted wanted = {.request = compile.request,
                                          .names = {4, "b.h"}};
    struct tp_wire_file f = {.kind = TP_WIRE_FILE_REGULAR,
                             .has_content = true,
                             .name_len = 3,
                             .len = 4,
                             .identity = 7,
                             .digest = digest,
                             .name = "a.h",
                             .content = (const uint8_t *)"text"};
    uint8_t raw[64];

    (void)state;
    check_message(TP_WIRE_PROGRAM_COMPILE, &compile);
    check_message(TP_WIRE_PROGRAM_LINK, &link);
    check_message(TP_WIRE_PROGRAM_FILES, &files);
    tp_wire_put_file(raw, &f);
    check("file", raw, tp_wire_file_size(&f));
    f = (struct tp_wire_file){
        .kind = TP_WIRE_FILE_ABSENT, .name_len = 3, .name = "b.h"};
    tp_wire_put_file(raw, &f);
    check("file_absent", raw, tp_wire_file_size(&f));
    check_message(TP_WIRE_FILES_WANTED, &wanted);
}

static void
test_programs_without_source(void **state)
{
    const uint64_t devices[] = {0, 1}, count[] = {16}, sizes[] = {128, 1, 1};
    const uint8_t value[8] = {0xe8, 0x03};
    struct tp_wire_program_il il = {.program = tp_wire_id(TP_WIRE_KIND_PROGRAM, 2),
                                    .context = tp_wire_id(TP_WIRE_KIND_CONTEXT, 1),
                                    .size = 4,
                                    .il = {4, "\3\2\43\7"}};
    struct tp_wire_spec_constant constant = {
        .program = il.program, .id = 7, .value = {sizeof(value), value}};
    struct tp_wire_program_built_in built_in = {.request =
                                                    tp_wire_id(TP_WIRE_KIND_REQUEST, 1),
                                                .program = il.program,
                                                .context = il.context,
                                                .devices = {2, devices},
                                                .names = {5, "a.b;c"}};
    struct tp_wire_sub_group_info info = {.request = built_in.request,
                                          .kernel = tp_wire_id(TP_WIRE_KIND_KERNEL, 7),
                                          .device = 1,
                                          .param = 0x11b8,
                                          .room = 3,
                                          .input = {1, count}};
    struct tp_wire_sub_group_info_reply reply = {.request = built_in.request,
                                                 .values = {3, sizes}};
    struct tp_wire_suggested_size suggest = {.request = built_in.request,
                                             .queue = tp_wire_id(TP_WIRE_KIND_QUEUE, 4),
                                             .kernel = info.kernel,
                                             .sizes = {2, sizes}};

    (void)state;
    check_message(TP_WIRE_PROGRAM_IL, &il);
    check_message(TP_WIRE_SPEC_CONSTANT, &constant);
    check_message(TP_WIRE_PROGRAM_BUILT_IN, &built_in);
    check_message(TP_WIRE_SUB_GROUP_INFO, &info);
    check_message(TP_WIRE_SUB_GROUP_INFO_REPLY, &reply);
    check_message(TP_WIRE_SUGGESTED_SIZE, &suggest);
}

static void
test_pipes(void **state)
{
    struct tp_wire_pipe_create create = {.mem = tp_wire_id(TP_WIRE_KIND_MEM, 9),
                                         .context = tp_wire_id(TP_WIRE_KIND_CONTEXT, 1),
                                         .flags = 1,
                                         .packet_size = 16,
                                         .max_packets = 0x12345};

    (void)state;
    check_message(TP_WIRE_PIPE_CREATE, &create);
}

static void
test_shared_virtual_memory(void **state)
{
    const uint64_t pointer[] = {tp_wire_id(TP_WIRE_KIND_MEM, 3), 64};
    struct tp_wire_svm_alloc alloc = {.request = tp_wire_id(TP_WIRE_KIND_REQUEST, 1),
                                      .mem = pointer[0],
                                      .context = tp_wire_id(TP_WIRE_KIND_CONTEXT, 1),
                                      .flags = 1,
                                      .size = 4096,
                                      .address = 0x200000000000,
                                      .shared = 1};
    struct tp_wire_svm_alloc_reply reply = {
        .request = alloc.request, .status = -37, .address = alloc.address};
    struct tp_wire_exec_info info = {.kernel = tp_wire_id(TP_WIRE_KIND_KERNEL, 7),
                                     .mems = {1, pointer}};

    (void)state;
    check_message(TP_WIRE_SVM_ALLOC, &alloc);
    check_message(TP_WIRE_SVM_ALLOC_REPLY, &reply);
    check_message(TP_WIRE_EXEC_INFO, &info);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefaces),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_launch_again),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_small_ones),
        cmocka_unit_test(test_fact),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_image_content),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_programs_without_source),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_shared_virtual_memory),
        cmocka_unit_test(test_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
