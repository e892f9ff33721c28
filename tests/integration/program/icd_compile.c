/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separate compiling and linking, header programs, and files of this machine that a build
 * includes, through the loader and the ICD, on two servers.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "servers.h"

enum { DEVICES_MAX = 16, TEXT_MAX = 16384, WAIT_MS = 20000, MANY = 1500 };

#define ok(call) assert_int_equal((call), CL_SUCCESS)

static struct {
    cl_device_id devices[DEVICES_MAX];
    cl_uint count;
    cl_context ctx;
    char dir[64]; /* of the files that are included */
} all;

/* ---- helpers ----------------------------------------------------------------------------- */

static cl_program
source(const char *text)
{
    cl_int err;
    cl_program p = clCreateProgramWithSource(all.ctx, 1, &text, NULL, &err);

    ok(err);
    return p;
}

static cl_program
compiled(const char *text)
{
    cl_program p = source(text);

    ok(clCompileProgram(p, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL));
    return p;
}

static const char *
build_log(cl_program p)
{
    static char log[TEXT_MAX];

    log[0] = '\0';
    ok(clGetProgramBuildInfo(p, all.devices[0], CL_PROGRAM_BUILD_LOG, sizeof(log), log,
                             NULL));
    return log;
}

static cl_program
linked(const char *options, cl_uint count, const cl_program *inputs)
{
    cl_int err;
    cl_program p =
        clLinkProgram(all.ctx, 0, NULL, options, count, inputs, NULL, NULL, &err);

    if (err != CL_SUCCESS) {
        fail_msg("clLinkProgram: %d: %s", err, p == NULL ? "" : build_log(p));
    }
    assert_non_null(p);
    return p;
}

static void
expect_type(cl_program p, cl_program_binary_type wanted, cl_build_status status)
{
    for (cl_uint i = 0; i < all.count; i++) {
        cl_program_binary_type type = 99;
        cl_build_status got = 99;

        ok(clGetProgramBuildInfo(p, all.devices[i], CL_PROGRAM_BINARY_TYPE,
                                 sizeof(type), &type, NULL));
        ok(clGetProgramBuildInfo(p, all.devices[i], CL_PROGRAM_BUILD_STATUS,
                                 sizeof(got), &got, NULL));
        assert_int_equal(type, wanted);
        assert_int_equal(got, status);
    }
}

/** Runs kernel k(out) on every device; out[0] must be @p wanted. */
static void
expect_result(cl_program p, cl_int wanted)
{
    cl_int err;
    cl_kernel k = clCreateKernel(p, "k", &err);
    cl_mem out;

    ok(err);
    out = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, sizeof(cl_int), NULL, &err);
    ok(err);
    ok(clSetKernelArg(k, 0, sizeof(cl_mem), &out));
    for (cl_uint i = 0; i < all.count; i++) {
        cl_command_queue q =
            clCreateCommandQueueWithProperties(all.ctx, all.devices[i], NULL, &err);
        size_t one = 1;
        cl_int got = ~wanted;

        ok(err);
        ok(clEnqueueNDRangeKernel(q, k, 1, NULL, &one, NULL, 0, NULL, NULL));
        ok(clEnqueueReadBuffer(q, out, CL_TRUE, 0, sizeof(got), &got, 0, NULL, NULL));
        assert_int_equal(got, wanted);
        ok(clReleaseCommandQueue(q));
    }
    ok(clReleaseMemObject(out));
    ok(clReleaseKernel(k));
}

/** Writes a file below the folder of this test. */
static void
write_file(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", all.dir, name);
    for (char *slash = path + strlen(all.dir); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char main_text[] = "int f(int);\n"
                                "kernel void k(global int *out) { out[0] = f(3); }\n";
static const char f_text[] = "int f(int x) { return 10 * x; }\n";

/* ---- compile, link -------------------------------------------------------------------------- */

static void
objects_become_a_program(void **state)
{
    cl_program in[2] = {compiled(main_text), compiled(f_text)};
    cl_program exe = linked(NULL, 2, in);
    size_t kernels = 0;
    cl_int err;

    (void)state;
    expect_type(in[0], CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT, CL_BUILD_SUCCESS);
    assert_int_equal(clGetProgramInfo(in[0], CL_PROGRAM_NUM_KERNELS, sizeof(kernels),
                                      &kernels, NULL),
                     CL_INVALID_PROGRAM_EXECUTABLE);
    assert_null(clCreateKernel(in[0], "k", &err));
    assert_int_equal(err, CL_INVALID_PROGRAM_EXECUTABLE);
    expect_type(exe, CL_PROGRAM_BINARY_TYPE_EXECUTABLE, CL_BUILD_SUCCESS);
    ok(clGetProgramInfo(exe, CL_PROGRAM_NUM_KERNELS, sizeof(kernels), &kernels, NULL));
    assert_int_equal(kernels, 1);
    ok(clReleaseProgram(in[0]));
    ok(clReleaseProgram(in[1]));
    expect_result(exe, 30);
    assert_int_equal(clBuildProgram(exe, 0, NULL, NULL, NULL, NULL),
                     CL_INVALID_OPERATION);
    ok(clReleaseProgram(exe));
}

static void
libraries_are_linked(void **state)
{
    cl_program object = compiled(f_text);
    cl_program in[2] = {compiled(main_text), linked("-create-library", 1, &object)};
    cl_program exe;

    (void)state;
    expect_type(in[1], CL_PROGRAM_BINARY_TYPE_LIBRARY, CL_BUILD_SUCCESS);
    exe = linked("", 2, in);
    expect_result(exe, 30);
    ok(clReleaseProgram(object));
    ok(clReleaseProgram(in[0]));
    ok(clReleaseProgram(in[1]));
    ok(clReleaseProgram(exe));
}

/** Takes the binaries of a program and makes another one of them. */
static cl_program
through_binaries(cl_program p)
{
    size_t sizes[DEVICES_MAX];
    unsigned char *data[DEVICES_MAX];
    cl_int status[DEVICES_MAX], err;
    cl_program again;

    ok(clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof(sizes), sizes, NULL));
    for (cl_uint i = 0; i < all.count; i++) {
        assert_true(sizes[i] > 0);
        data[i] = malloc(sizes[i]);
    }
    ok(clGetProgramInfo(p, CL_PROGRAM_BINARIES, sizeof(data), data, NULL));
    again = clCreateProgramWithBinary(all.ctx, all.count, all.devices, sizes,
                                      (const unsigned char **)data, status, &err);
    ok(err);
    for (cl_uint i = 0; i < all.count; i++) {
        ok(status[i]);
        free(data[i]);
    }
    return again;
}

static void
binaries_of_objects_are_linked(void **state)
{
    cl_program in[2] = {compiled(main_text), compiled(f_text)};
    cl_program again[2], exe;

    (void)state;
    for (int i = 0; i < 2; i++) {
        again[i] = through_binaries(in[i]);
        expect_type(again[i], CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT, CL_BUILD_NONE);
        ok(clReleaseProgram(in[i]));
    }
    exe = linked("", 2, again);
    expect_result(exe, 30);
    for (int i = 0; i < 2; i++) {
        ok(clReleaseProgram(again[i]));
    }
    again[0] = through_binaries(exe);
    expect_type(again[0], CL_PROGRAM_BINARY_TYPE_EXECUTABLE, CL_BUILD_NONE);
    ok(clBuildProgram(again[0], 0, NULL, NULL, NULL, NULL));
    expect_result(again[0], 30);
    ok(clReleaseProgram(again[0]));
    ok(clReleaseProgram(exe));
}

static _Atomic(cl_program) told;

static void CL_CALLBACK
on_end(cl_program p, void *user)
{
    assert_ptr_equal(user, &told);
    told = p;
}

static void
wait_told(cl_program p)
{
    for (int i = 0; i < WAIT_MS && told != p; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_ptr_equal(told, p);
    told = NULL;
}

static void
callbacks_tell_of_the_end(void **state)
{
    cl_program in[2] = {source(main_text), source(f_text)}, exe, bad;
    cl_int err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        ok(clCompileProgram(in[i], 0, NULL, NULL, 0, NULL, NULL, on_end, &told));
        wait_told(in[i]);
    }
    exe = clLinkProgram(all.ctx, 0, NULL, NULL, 2, in, on_end, &told, &err);
    ok(err);
    wait_told(exe);
    expect_result(exe, 30);
    bad = source("this is no program\n");
    ok(clCompileProgram(bad, 0, NULL, NULL, 0, NULL, NULL, on_end, &told));
    wait_told(bad);
    assert_true(strlen(build_log(bad)) > 0);
    ok(clReleaseProgram(bad));
    ok(clReleaseProgram(exe));
    ok(clReleaseProgram(in[0]));
    ok(clReleaseProgram(in[1]));
}

static void
wrong_calls_are_refused(void **state)
{
    cl_program object = compiled(main_text), fresh = source(f_text), mixed[2], p;
    const char *name = "a.h";
    cl_int err;

    (void)state;
    /* something to call is missing: the program is given for its log */
    p = clLinkProgram(all.ctx, 0, NULL, NULL, 1, &object, NULL, NULL, &err);
    assert_int_equal(err, CL_LINK_PROGRAM_FAILURE);
    assert_non_null(p);
    expect_type(p, CL_PROGRAM_BINARY_TYPE_NONE, CL_BUILD_ERROR);
    ok(clReleaseProgram(p));
    mixed[0] = object;
    mixed[1] = fresh;
    assert_null(clLinkProgram(all.ctx, 0, NULL, NULL, 2, mixed, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_OPERATION);
    assert_null(clLinkProgram(all.ctx, 0, NULL, NULL, 0, NULL, NULL, NULL, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    assert_null(clLinkProgram(all.ctx, 0, NULL, NULL, 1, &object, NULL, &err, &err));
    assert_int_equal(err, CL_INVALID_VALUE);
    p = clLinkProgram(all.ctx, 0, NULL, "-no-such", 1, &object, NULL, NULL, &err);
    if (err == CL_SUCCESS || err == CL_LINK_PROGRAM_FAILURE) {
        /* which options are invalid is the driver's to say; NVIDIA's knows any, or none */
        assert_non_null(p);
        ok(clReleaseProgram(p));
    } else {
        assert_int_equal(err, CL_INVALID_LINKER_OPTIONS);
        assert_null(p);
    }
    assert_int_equal(
        clCompileProgram(fresh, 0, NULL, NULL, 1, &object, NULL, NULL, NULL),
        CL_INVALID_VALUE);
    assert_int_equal(clCompileProgram(fresh, 0, NULL, NULL, 0, NULL, &name, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(clCompileProgram(fresh, 1, NULL, NULL, 0, NULL, NULL, NULL, NULL),
                     CL_INVALID_VALUE);
    ok(clReleaseProgram(object));
    ok(clReleaseProgram(fresh));
}

/* ---- headers ------------------------------------------------------------------------------- */

static void
header_programs(void **state)
{
    cl_program p = source("#include \"sub/a.h\"\n#include <b.h>\n"
                          "kernel void k(global int *out) { out[0] = A + B + M; }\n");
    cl_program headers[2] = {source("#include \"b.h\"\n#define A (B * 2)\n"),
                             source("#ifndef B\n#define B 21\n#endif\n")};
    const char *names[2] = {"sub/a.h", "b.h"};
    cl_program exe;

    (void)state;
    ok(clCompileProgram(p, 0, NULL, "-DM=1000", 2, headers, names, NULL, NULL));
    exe = linked("", 1, &p);
    expect_result(exe, 1063);
    ok(clReleaseProgram(exe));
    /* another header of the same name, the same program */
    ok(clReleaseProgram(headers[1]));
    headers[1] = source("#define B 1\n");
    ok(clCompileProgram(p, 0, NULL, "-DM=0", 2, headers, names, NULL, NULL));
    exe = linked("", 1, &p);
    expect_result(exe, 3);
    ok(clReleaseProgram(exe));
    /* a name leads nowhere on the server */
    names[1] = "../../../../../../../../../tmp/telpher-never.h";
    assert_int_equal(clCompileProgram(p, 0, NULL, "", 2, headers, names, NULL, NULL),
                     CL_COMPILE_PROGRAM_FAILURE);
    assert_int_not_equal(access("/tmp/telpher-never.h", F_OK), 0);
    ok(clReleaseProgram(p));
    ok(clReleaseProgram(headers[0]));
    ok(clReleaseProgram(headers[1]));
}

static void
many_headers(void **state)
{
    static cl_program headers[MANY];
    static char names[MANY][16], texts[MANY * 64 + 200], text[64];
    const char *list[MANY];
    size_t len = 0;
    cl_program p, exe;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "h%d.h", i);
        snprintf(text, sizeof(text), "#define V%d %d\n", i, i);
        headers[i] = source(text);
        list[i] = names[i];
        len += (size_t)snprintf(texts + len, sizeof(texts) - len, "#include <%s>\n",
                                names[i]);
    }
    snprintf(texts + len, sizeof(texts) - len,
             "kernel void k(global int *out) { out[0] = V0 + V%d + V777; }\n",
             MANY - 1);
    p = source(texts);
    ok(clCompileProgram(p, 0, NULL, NULL, MANY, headers, list, NULL, NULL));
    exe = linked("", 1, &p);
    expect_result(exe, MANY - 1 + 777);
    for (int i = 0; i < MANY; i++) {
        ok(clReleaseProgram(headers[i]));
    }
    ok(clReleaseProgram(p));
    ok(clReleaseProgram(exe));
}

/* ---- files --------------------------------------------------------------------------------- */

static void
files_of_the_client_are_included(void **state)
{
    char options[512], text[512];
    cl_program p;

    (void)state;
    write_file("inc/a.h", "#pragma once\n#include \"sub/b.h\"\n#define A (B + 1)\n");
    write_file("inc/sub/b.h",
               "#include \"../c.h\"\n#include \"../a.h\"\n#define B (C * 2)\n");
    write_file("inc/c.h", "#define C 20\n");
    write_file("other/d.h", "#define D 300\n");
    write_file("more/e.h", "#define E 4000\n");
    write_file("abs.h", "#define F 50000\n");
    snprintf(options, sizeof(options),
             "-I %s/inc -DNAME=e.h -I%s/other -I%s/more -cl-mad-enable", all.dir,
             all.dir, all.dir);
    snprintf(text, sizeof(text),
             "#include \"a.h\"\n#inc\\\nlude <d.h>\n#include \"%s/abs.h\"\n"
             "#define HERE \"../nowhere.h\"\n#if 0\n#include HERE\n#endif\n"
             "#define S_(x) #x\n#define S(x) S_(x)\n#include S(NAME)\n#include "
             "\"sub/../sub/b.h\"\n"
             "kernel void k(global int *out) { out[0] = A + D + E + F; }\n",
             all.dir);
    p = source(text);
    ok(clBuildProgram(p, 0, NULL, options, NULL, NULL));
    expect_result(p, 54341);
    ok(clGetProgramBuildInfo(p, all.devices[0], CL_PROGRAM_BUILD_OPTIONS, sizeof(text),
                             text, NULL));
    assert_string_equal(text, options);
    /* a file that changed is sent again */
    write_file("inc/c.h", "#define C 100\n");
    ok(clBuildProgram(p, 0, NULL, options, NULL, NULL));
    expect_result(p, 54501);
    ok(clReleaseProgram(p));
}

static void
present_folder_and_large_files(void **state)
{
    static char big[1200000];
    char before[4096];
    cl_program p = source("#include \"here.h\"\n"
                          "kernel void k(global int *out) { out[0] = HERE; }\n");

    (void)state;
    memset(big, ' ', sizeof(big) - 20);
    strcpy(big + sizeof(big) - 20, "\n#define HERE 77\n");
    write_file("here.h", big);
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(all.dir), 0);
    ok(clBuildProgram(p, 0, NULL, "", NULL, NULL));
    assert_int_equal(chdir(before), 0);
    expect_result(p, 77);
    ok(clReleaseProgram(p));
}

/* Some drivers name lines as they lie in the file they read, whatever #line says there. */
static bool
driver_heeds_line(void)
{
    cl_program p = source("#include \"h.h\"\n");
    cl_program header = source("#line 7 \"named.h\"\nthis is wrong;\n");
    const char *name = "h.h";
    bool heeds;

    assert_int_equal(clCompileProgram(p, 0, NULL, NULL, 1, &header, &name, NULL, NULL),
                     CL_COMPILE_PROGRAM_FAILURE);
    heeds = strstr(build_log(p), "named.h:7:") != NULL;
    ok(clReleaseProgram(header));
    ok(clReleaseProgram(p));
    return heeds;
}

static void
logs_name_the_files(void **state)
{
    char options[256];
    cl_program p = source("#include \"bad.h\"\n");
    const char *wanted = driver_heeds_line() ? "bad.h:2:" : "this is wrong";

    (void)state;
    write_file("inc/bad.h", "int x;\nthis is wrong;\n");
    snprintf(options, sizeof(options), "-I%s/inc", all.dir);
    assert_int_equal(clBuildProgram(p, 0, NULL, options, NULL, NULL),
                     CL_BUILD_PROGRAM_FAILURE);
    if (strstr(build_log(p), wanted) == NULL) {
        fail_msg("the log lacks %s: %s", wanted, build_log(p));
    }
    ok(clReleaseProgram(p));
}

/* A name that the client's machine lacks is not looked for on the server. A file that the
 * client has, such as its /etc/passwd, may be included and shown: exec_guard_test has a server
 * whose files differ. */
static void
files_of_the_server_stay_there(void **state)
{
    static const char *const texts[] = {
        "#include \"/etc/passwd-none/../passwd\"\n",
        "#include \"../../../../../../../../../../../../etc/hostname-none\"\n",
        "#define S(x) #x\n#include S(/etc/passwd-none/../passwd)\n",
        "#define P(x) </etc/passwd-none/../x>\n%:include P(passwd)\n",
        "# /* \n */ include \"/nowhere/x\"\n",
    };
    static const char *const bad[] = {
        "-I",           "-include /etc/passwd", "-isystem /etc",
        "@/etc/passwd", "-Xclang -load",        "/etc/passwd"};
    cl_int err;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cl_program p = source(texts[i]);

        assert_int_equal(clBuildProgram(p, 0, NULL, "", NULL, NULL),
                         CL_BUILD_PROGRAM_FAILURE);
        assert_null(strstr(build_log(p), "root:"));
        ok(clReleaseProgram(p));
    }
    for (size_t i = 1; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cl_program p = source(f_text);

        err = clBuildProgram(p, 0, NULL, bad[i], NULL, NULL);
        assert_true(
            err == CL_INVALID_BUILD_OPTIONS || /* NVIDIA's compiler takes -include */
            err == CL_BUILD_PROGRAM_FAILURE);
        ok(clReleaseProgram(p));
    }
}

/* ---- main ------------------------------------------------------------------------------------ */

static int
group_setup(void **state)
{
    static struct servers servers;
    cl_platform_id platform;
    cl_int err;

    *state = &servers;
    strcpy(all.dir, "/tmp/telpher-include-XXXXXX");
    assert_non_null(mkdtemp(all.dir));
    if (servers_start(&servers, 2) != 0) {
        return -1;
    }
    ok(clGetPlatformIDs(1, &platform, NULL));
    ok(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, all.devices,
                      &all.count));
    all.ctx = clCreateContext(NULL, all.count, all.devices, NULL, NULL, &err);
    ok(err);
    return 0;
}

static int
group_teardown(void **state)
{
    char command[128];

    ok(clReleaseContext(all.ctx));
    servers_stop(*state);
    snprintf(command, sizeof(command), "rm -rf '%s'", all.dir);
    return system(command);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_become_a_program),
        cmocka_unit_test(libraries_are_linked),
        cmocka_unit_test(binaries_of_objects_are_linked),
        cmocka_unit_test(callbacks_tell_of_the_end),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(header_programs),
        cmocka_unit_test(many_headers),
        cmocka_unit_test(files_of_the_client_are_included),
        cmocka_unit_test(present_folder_and_large_files),
        cmocka_unit_test(logs_name_the_files),
        cmocka_unit_test(files_of_the_server_stay_there),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
