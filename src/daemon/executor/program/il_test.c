/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in SPIR-V, built-in kernels and sub-groups over the protocol alone, with the
 * test driver: what a client may ask, and what one that means harm may try.
 */
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/test/test_session.h"

static struct test_daemon the_daemon;

/* OpString "kernel void spec(global int *x);" and constant 7, an int of 20. */
static const uint32_t module[] = {
    0x07230203, 0x00010000, 0,          40,         0,          0x000b0007, 1,
    0x6e72656b, 0x76206c65, 0x2064696f, 0x63657073, 0x6f6c6728, 0x206c6162, 0x20746e69,
    0x3b29782a, 0,          0x00040047, 2,          1,          7,          0x00040015,
    3,          32,         0,          0x00040032, 3,          2,          20};

static uint64_t
make_context(struct test_session *s)
{
    struct tp_wire_context_create m = {.context = test_id(s, TP_WIRE_KIND_CONTEXT),
                                       .devices = TEST_IDS(0)};

    test_put(s, TP_WIRE_CONTEXT_CREATE, &m);
    return m.context;
}

static uint64_t
make_il(struct test_session *s, uint64_t context, const void *il, uint32_t len)
{
    struct tp_wire_program_il m = {.program = test_id(s, TP_WIRE_KIND_PROGRAM),
                                   .context = context,
                                   .size = len,
                                   .il = {len, il}};

    test_put(s, TP_WIRE_PROGRAM_IL, &m);
    return m.program;
}

static void
set_constant(struct test_session *s, uint64_t program, uint32_t id, const void *value,
             uint32_t len)
{
    struct tp_wire_spec_constant m = {
        .program = program, .id = id, .value = {len, value}};

    test_put(s, TP_WIRE_SPEC_CONSTANT, &m);
}

/* @return status of the build */
static int32_t
build(struct test_session *s, uint64_t program)
{
    struct tp_wire_program_build m = {.request = test_id(s, TP_WIRE_KIND_REQUEST),
                                      .program = program,
                                      .devices = TEST_IDS(0),
                                      .options = TEST_TEXT("")};
    struct tp_wire_build_reply reply;

    test_put(s, TP_WIRE_PROGRAM_BUILD, &m);
    test_expect(s, TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.request, m.request);
    return reply.status;
}

static uint64_t
make_kernel(struct test_session *s, uint64_t program)
{
    struct tp_wire_kernel_create m = {.kernel = test_id(s, TP_WIRE_KIND_KERNEL),
                                      .program = program,
                                      .name = TEST_TEXT("spec")};

    test_put(s, TP_WIRE_KERNEL_CREATE, &m);
    return m.kernel;
}

static void
open_session(struct test_session *s)
{
    test_session_open(s, &the_daemon);
    test_session_start(s);
}

static void
close_session(struct test_session *s)
{
    test_session_close(s);
    test_daemon_wait_children(&the_daemon, 0);
}

/* Puts one message that no client may send: the session ends. */
static void
expect_end(uint16_t type, const void *msg)
{
    struct test_session s;

    open_session(&s);
    test_put(&s, type, msg);
    test_flush(&s);
    assert_int_not_equal(test_expect_end(&s), TELPHER_OK);
    close_session(&s);
}

/* Builds fail after the driver refused the IL, or after a constant of a source program. */
static void
test_il(void **state)
{
    const uint32_t value = 5;
    struct test_session s;
    uint64_t context, program;
    struct tp_wire_program_source source = {.source = TEST_TEXT("kernel void f() {}")};

    (void)state;
    open_session(&s);
    context = make_context(&s);
    program = make_il(&s, context, module, sizeof(module));
    set_constant(&s, program, 7, &value, sizeof(value));
    assert_int_equal(build(&s, program), 0);
    set_constant(&s, program, 8, &value, sizeof(value)); /* there is none */
    assert_int_equal(build(&s, program), CL_INVALID_SPEC_ID);
    assert_int_equal(build(&s, make_il(&s, context, "rubbish!", 8)), CL_INVALID_VALUE);
    assert_int_equal(build(&s, make_il(&s, context, NULL, 0)), CL_INVALID_VALUE);
    assert_int_equal(build(&s, make_il(&s, program, module, sizeof(module))),
                     CL_INVALID_CONTEXT);
    set_constant(&s, 12345, 7, &value, sizeof(value)); /* no program: nothing happens */
    source.program = test_id(&s, TP_WIRE_KIND_PROGRAM);
    source.context = context;
    source.size = source.source.len;
    test_put(&s, TP_WIRE_PROGRAM_SOURCE, &source);
    set_constant(&s, source.program, 7, &value, sizeof(value));
    assert_int_equal(build(&s, source.program), CL_INVALID_PROGRAM);
    program = make_il(&s, context, module, sizeof(module));
    assert_int_equal(build(&s, program), 0);
    close_session(&s);
}

/* More constants than memory is granted for. */
static void
test_many_constants(void **state)
{
    const uint32_t value = 5;
    struct test_session s;
    struct tp_wire_failed failed;
    uint64_t context, program;

    (void)state;
    open_session(&s);
    context = make_context(&s);
    program = make_il(&s, context, module, sizeof(module));
    for (uint32_t i = 0; i < 100000; i++) {
        set_constant(&s, program, i, &value, sizeof(value));
    }
    test_expect(&s, TP_WIRE_FAILED, &failed);
    assert_int_equal(failed.id, program);
    assert_int_equal(failed.status, CL_OUT_OF_HOST_MEMORY);
    assert_int_equal(build(&s, program), CL_OUT_OF_HOST_MEMORY);
    test_put(&s, TP_WIRE_RELEASE, &(struct tp_wire_release){.ids = TEST_IDS(program)});
    program = make_il(&s, context, module, sizeof(module));
    assert_int_equal(build(&s, program), 0);
    close_session(&s);
}

static void
test_bad_messages(void **state)
{
    static const uint8_t value[16];
    static const uint64_t sizes[8];
    struct tp_wire_program_il il = {
        .program = tp_wire_id(TP_WIRE_KIND_PROGRAM, 1), .size = 5, .il = {4, value}};
    struct tp_wire_program_built_in built_in = {.program = il.program,
                                                .names = TEST_TEXT("inc")};
    struct tp_wire_sub_group_info info = {
        .param = 0x1234, .room = 1, .input = TEST_IDS(1)};

    (void)state;
    expect_end(TP_WIRE_PROGRAM_IL, &il);
    il.size = 4;
    il.program = tp_wire_id(TP_WIRE_KIND_MEM, 1);
    expect_end(TP_WIRE_PROGRAM_IL, &il);
    for (uint32_t len = 0; len <= 16; len++) {
        struct tp_wire_spec_constant constant = {.program = 1, .value = {len, value}};

        if (len != 1 && len != 2 && len != 4 && len != 8) {
            expect_end(TP_WIRE_SPEC_CONSTANT, &constant);
        }
    }
    expect_end(TP_WIRE_PROGRAM_BUILT_IN, &built_in);
    expect_end(TP_WIRE_SUB_GROUP_INFO, &info);
    info.param = CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE;
    info.room = 2;
    expect_end(TP_WIRE_SUB_GROUP_INFO, &info);
    info.room = 0;
    expect_end(TP_WIRE_SUB_GROUP_INFO, &info);
    info.param = CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT;
    info.room = UINT32_MAX;
    expect_end(TP_WIRE_SUB_GROUP_INFO, &info);
    info.room = 3;
    info.input.count = 0;
    expect_end(TP_WIRE_SUB_GROUP_INFO, &info);
    for (uint16_t count = 0; count <= 8; count++) {
        const struct tp_wire_suggested_size m = {.sizes = {count, sizes}};

        if (count % 2 != 0 || count == 0 || count > 6) {
            expect_end(TP_WIRE_SUGGESTED_SIZE, &m);
        }
    }
}

static int32_t
make_built_in(struct test_session *s, uint64_t context, const char *names,
              const struct tp_wire_u64s *devices, uint64_t *ret_program)
{
    struct tp_wire_program_built_in m = {.request = test_id(s, TP_WIRE_KIND_REQUEST),
                                         .program = test_id(s, TP_WIRE_KIND_PROGRAM),
                                         .context = context,
                                         .devices = *devices,
                                         .names = {(uint32_t)strlen(names), names}};
    struct tp_wire_build_reply reply;

    test_put(s, TP_WIRE_PROGRAM_BUILT_IN, &m);
    test_expect(s, TP_WIRE_BUILD_REPLY, &reply);
    assert_int_equal(reply.request, m.request);
    *ret_program = m.program;
    return reply.status;
}

static void
test_built_in(void **state)
{
    const struct tp_wire_u64s first = TEST_IDS(0), beyond = TEST_IDS(77);
    struct test_session s;
    uint64_t context, program;

    (void)state;
    open_session(&s);
    context = make_context(&s);
    assert_int_equal(make_built_in(&s, context, "copy;inc", &first, &program), 0);
    assert_int_equal(build(&s, program), 0);
    assert_int_equal(make_built_in(&s, context, "none", &first, &program),
                     CL_INVALID_VALUE);
    assert_int_not_equal(build(&s, program), 0);
    assert_int_equal(make_built_in(&s, context, "", &first, &program),
                     CL_INVALID_VALUE);
    assert_int_equal(make_built_in(&s, context, "inc", &beyond, &program),
                     CL_INVALID_DEVICE);
    assert_int_equal(make_built_in(&s, 0, "inc", &first, &program), CL_INVALID_CONTEXT);
    close_session(&s);
}

static int32_t
ask(struct test_session *s, uint64_t kernel, uint32_t device,
    struct tp_wire_sub_group_info_reply *ret_reply)
{
    struct tp_wire_sub_group_info m = {.request = test_id(s, TP_WIRE_KIND_REQUEST),
                                       .kernel = kernel,
                                       .device = device,
                                       .param = CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE,
                                       .room = 1,
                                       .input = TEST_IDS(10, 2)};

    test_put(s, TP_WIRE_SUB_GROUP_INFO, &m);
    test_expect(s, TP_WIRE_SUB_GROUP_INFO_REPLY, ret_reply);
    assert_int_equal(ret_reply->request, m.request);
    return ret_reply->status;
}

static void
test_sub_groups(void **state)
{
    struct tp_wire_sub_group_info_reply reply;
    struct test_session s;
    uint64_t context, program, kernel;

    (void)state;
    open_session(&s);
    context = make_context(&s);
    program = make_il(&s, context, module, sizeof(module));
    assert_int_equal(build(&s, program), 0);
    kernel = make_kernel(&s, program);
    assert_int_equal(ask(&s, kernel, 0, &reply), 0);
    assert_int_equal(reply.values.count, 1);
    assert_int_equal(tp_wire_u64_at(&reply.values, 0), 3); /* of 8 for 20 */
    assert_int_equal(ask(&s, kernel, 1, &reply), CL_INVALID_DEVICE);
    assert_int_equal(reply.values.count, 0);
    assert_int_equal(ask(&s, program, 0, &reply), CL_INVALID_KERNEL);
    assert_int_equal(ask(&s, kernel + 100, 0, &reply), CL_INVALID_KERNEL);
    close_session(&s);
}

static int
start_daemon(void **state)
{
    const char *const options[] = {"--max-host-memory", "1M", NULL};

    *state = &the_daemon;
    setenv("OCL_ICD_VENDORS", TEST_VENDORS, 1);
    setenv("TESTDRV_IL", "2", 1);
    setenv("TESTDRV_BUILT_IN", "1", 1);
    setenv("TESTDRV_SUB_GROUPS", "8", 1);
    test_daemon_start(&the_daemon, options);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_il),           cmocka_unit_test(test_many_constants),
        cmocka_unit_test(test_bad_messages), cmocka_unit_test(test_built_in),
        cmocka_unit_test(test_sub_groups),
    };

    return cmocka_run_group_tests(tests, start_daemon, test_daemon_teardown);
}
