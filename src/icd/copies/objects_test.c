/* SPDX-License-Identifier: Apache-2.0 */
/* The frames that a new second server gets: those of what lives, in order, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "icd/copies/copies_int.h"

enum { SENT_MAX = 64, MANY = 1000, TOO_MANY = 5000 };

static struct tp_icd_copies c;
static struct tp_icd_session twin;
/* Frames to the second server. */
static uint16_t sent_types[SENT_MAX];
static size_t sent_count;
static struct tp_copies_haul hauls[SENT_MAX];
static size_t haul_count;

/* ---- what is beside objects.c ---- */

void
tp_icd_put_now(struct tp_icd_session *session, uint16_t type, const void *msg)
{
    (void)msg;
    assert_ptr_equal(session, &twin);
    assert_true(sent_count < SENT_MAX);
    sent_types[sent_count++] = type;
}

bool
tp_copies_haul_off(struct tp_icd_copies *of, uint64_t context,
                   const struct tp_copies_haul *what)
{
    assert_ptr_equal(of, &c);
    assert_int_equal(context, 1);
    hauls[haul_count++] = *what;
    return true;
}

/* ---- frames ---- */

static int
setup(void **state)
{
    (void)state;
    memset(&c, 0, sizeof(c));
    tp_list_init(&c.frames);
    tp_list_init(&c.log);
    c.twin = &twin;
    sent_count = haul_count = 0;
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    tp_copies_free_objects(&c);
    return 0;
}

static void
keep(uint16_t type, const void *msg, int32_t status)
{
    assert_null(tp_copies_keep_object(&c, type, msg, status));
}

static void
release(uint64_t id)
{
    keep(TP_WIRE_RELEASE, &(struct tp_wire_release){.ids = {1, &id}}, 0);
}

static void
source(uint64_t program)
{
    keep(TP_WIRE_PROGRAM_SOURCE,
         &(struct tp_wire_program_source){
             .program = program, .context = 1, .source = {3, "abc"}},
         0);
}

static void
build(uint64_t program, uint64_t device, int32_t status)
{
    keep(TP_WIRE_PROGRAM_BUILD,
         &(struct tp_wire_program_build){
             .request = 7, .program = program, .devices = {1, &device}},
         status);
}

static const char *
link_from(uint64_t program, uint64_t input)
{
    return tp_copies_keep_object(&c, TP_WIRE_PROGRAM_LINK,
                                 &(struct tp_wire_program_link){.request = 8,
                                                                .program = program,
                                                                .inputs = {1, &input}},
                                 0);
}

static void
constant(uint64_t program, uint32_t id)
{
    keep(TP_WIRE_SPEC_CONSTANT,
         &(struct tp_wire_spec_constant){
             .program = program, .id = id, .value = {4, "five"}},
         0);
}

static void
argument(uint64_t kernel, uint32_t index, uint64_t mem)
{
    keep(TP_WIRE_KERNEL_ARG,
         &(struct tp_wire_kernel_arg){.kernel = kernel,
                                      .index = index,
                                      .kind = TP_WIRE_ARG_MEM,
                                      .size = sizeof(mem),
                                      .value = {sizeof(mem), &mem}},
         0);
}

static void
files(uint64_t program)
{
    keep(TP_WIRE_PROGRAM_FILES,
         &(struct tp_wire_program_files){
             .program = program, .size = 4, .files = {4, "file"}},
         0);
}

/** Replays all frames, and answers those that want it. */
static void
expect_frames(size_t count, const uint16_t *types)
{
    sent_count = 0;
    tp_copies_begin_replay(&c);
    while (!tp_copies_go_on_replaying(&c)) {
        assert_true(c.request != 0);
        c.request = 0;
    }
    assert_int_equal(sent_count, count);
    assert_memory_equal(sent_types, types, count * sizeof(types[0]));
}
#define EXPECT(...)                                                                    \
    expect_frames(sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t),                \
                  (uint16_t[]){__VA_ARGS__})

static void
create(uint16_t type, uint64_t id)
{
    if (type == TP_WIRE_CONTEXT_CREATE) {
        keep(type, &(struct tp_wire_context_create){.context = id}, 0);
    } else if (type == TP_WIRE_BUFFER_CREATE) {
        keep(type, &(struct tp_wire_buffer_create){.mem = id, .context = 1, .size = 9},
             0);
    } else {
        keep(type, &(struct tp_wire_kernel_create){.kernel = id, .name = {1, "k"}}, 0);
    }
}

/* ---- tests ---- */

static void
creations_come_first_and_builds_are_waited_for(void **state)
{
    (void)state;
    create(TP_WIRE_CONTEXT_CREATE, 1);
    source(2);
    build(2, 0, 0);
    create(TP_WIRE_KERNEL_CREATE, 3);
    create(TP_WIRE_BUFFER_CREATE, 4);
    tp_copies_begin_replay(&c);
    assert_int_equal(sent_count, 2);
    assert_false(tp_copies_go_on_replaying(&c));
    assert_int_equal(c.request, 7);
    assert_int_equal(sent_count, 4);
    c.request = 0;
    assert_true(tp_copies_go_on_replaying(&c));
    EXPECT(TP_WIRE_CONTEXT_CREATE, TP_WIRE_BUFFER_CREATE, TP_WIRE_PROGRAM_SOURCE,
           TP_WIRE_PROGRAM_BUILD, TP_WIRE_KERNEL_CREATE);
    for (uint64_t id = 1; id <= 4; id++) {
        release(id);
    }
    expect_frames(0, sent_types);
    assert_int_equal(tp_map_count(&c.objects), 0);
}

static void
arguments_have_their_last_value(void **state)
{
    (void)state;
    create(TP_WIRE_KERNEL_CREATE, 3);
    create(TP_WIRE_BUFFER_CREATE, 4);
    create(TP_WIRE_BUFFER_CREATE, 5);
    for (int i = 0; i < MANY; i++) {
        argument(3, 0, 4);
        argument(3, 1, 5);
    }
    EXPECT(TP_WIRE_BUFFER_CREATE, TP_WIRE_BUFFER_CREATE, TP_WIRE_KERNEL_CREATE,
           TP_WIRE_KERNEL_ARG, TP_WIRE_KERNEL_ARG);
    release(5); /* no launch can use it */
    EXPECT(TP_WIRE_BUFFER_CREATE, TP_WIRE_KERNEL_CREATE, TP_WIRE_KERNEL_ARG);
}

static void
builds_that_are_replaced_go(void **state)
{
    (void)state;
    source(2);
    for (int i = 0; i < MANY; i++) {
        constant(2, 1);
        files(2);
        files(2); /* replaces those before */
        build(2, (uint64_t)i % 2, 0);
    }
    /* the last of each device, with its constant and files */
    EXPECT(TP_WIRE_PROGRAM_SOURCE, TP_WIRE_SPEC_CONSTANT, TP_WIRE_PROGRAM_FILES,
           TP_WIRE_PROGRAM_BUILD, TP_WIRE_SPEC_CONSTANT, TP_WIRE_PROGRAM_FILES,
           TP_WIRE_PROGRAM_BUILD);
    files(2);
    build(2, 0, CL_BUILD_PROGRAM_FAILURE);
    EXPECT(TP_WIRE_PROGRAM_SOURCE, TP_WIRE_SPEC_CONSTANT, TP_WIRE_PROGRAM_FILES,
           TP_WIRE_PROGRAM_BUILD);
}

static void
inputs_stay_as_long_as_what_is_made_of_them(void **state)
{
    (void)state;
    source(2);
    assert_null(link_from(3, 2));
    assert_null(link_from(4, 3));
    release(2);
    release(3);
    EXPECT(TP_WIRE_PROGRAM_SOURCE, TP_WIRE_PROGRAM_LINK, TP_WIRE_PROGRAM_LINK,
           TP_WIRE_RELEASE, TP_WIRE_RELEASE);
    release(4);
    expect_frames(0, sent_types);
    assert_int_equal(c.orphans, 0);
}

static void
an_endless_chain_of_programs_ends_the_copies(void **state)
{
    const char *why = NULL;
    uint64_t id = 2;

    (void)state;
    source(id);
    for (; id < TOO_MANY && why == NULL; id++) {
        assert_null(link_from(id + 1, id));
        why = tp_copies_keep_object(&c, TP_WIRE_RELEASE,
                                    &(struct tp_wire_release){.ids = {1, &id}}, 0);
    }
    assert_non_null(why);
}

static void
all_content_goes_but_that_of_parts(void **state)
{
    const struct tp_wire_image_create image = {.mem = 5,
                                               .context = 1,
                                               .image_type =
                                                   CL_MEM_OBJECT_IMAGE2D_ARRAY,
                                               .channel_order = CL_RGBA,
                                               .channel_type = CL_UNSIGNED_INT8,
                                               .width = 3,
                                               .height = 5,
                                               .array_size = 7};
    const uint64_t region[6] = {0, 0, 0, 3, 5, 7};
    struct tp_wire_image_create of_buffer = image;

    (void)state;
    create(TP_WIRE_BUFFER_CREATE, 4);
    keep(TP_WIRE_IMAGE_CREATE, &image, 0);
    of_buffer.mem = 6;
    of_buffer.parent = 4;
    keep(TP_WIRE_IMAGE_CREATE, &of_buffer, 0);
    assert_true(tp_copies_haul_all(&c));
    assert_int_equal(haul_count, 2);
    assert_int_equal(hauls[0].mem, 4);
    assert_int_equal(hauls[0].span.to, 9);
    assert_int_equal(hauls[1].shadow, 5);
    assert_int_equal(hauls[1].span.to, 4 * 3 * 5 * 7);
    assert_memory_equal(hauls[1].region, region, sizeof(region));
}

/* A buffer that the first server has released has no content to move; a command in the log before
 * its RELEASE may need that content. */
static void
released_content_is_missed(void **state)
{
    const uint64_t id = tp_wire_id(TP_WIRE_KIND_MEM, 4);
    const struct tp_wire_release msg = {.ids = {1, &id}};
    uint8_t body[64];
    struct tp_copies_entry e = {.type = TP_WIRE_RELEASE,
                                .body = body,
                                .len = tp_wire_message(TP_WIRE_RELEASE)->size(&msg)};
    struct tp_copies_entry command = {.type = TP_WIRE_LAUNCH, .event = 1, .sent = true};

    (void)state;
    tp_wire_message(TP_WIRE_RELEASE)->put(body, &msg);
    create(TP_WIRE_BUFFER_CREATE, id);
    tp_list_push_back(&c.log, &e.link);
    assert_true(tp_copies_haul_all(&c));
    assert_int_equal(haul_count, 1); /* it is not sent */
    e.sent = true;
    assert_true(tp_copies_haul_all(&c));
    assert_int_equal(haul_count, 1);
    tp_list_push_front(&c.log, &command.link);
    assert_false(tp_copies_haul_all(&c));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(creations_come_first_and_builds_are_waited_for),
        TEST(arguments_have_their_last_value),
        TEST(builds_that_are_replaced_go),
        TEST(inputs_stay_as_long_as_what_is_made_of_them),
        TEST(an_endless_chain_of_programs_ends_the_copies),
        TEST(all_content_goes_but_that_of_parts),
        TEST(released_content_is_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
