/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of including files: results and messages of builds with the machine's own drivers,
 * and through one server and two, must be the same.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "report.h"
#include "servers.h"

enum { DEVICES_MAX = 4, LOG_MAX = 16384, MANY = 300, MANY_LONG = 5000 };

/* ---- files ------------------------------------------------------------------------------- */

#define KERNEL(value) "kernel void k(global int *out) { out[0] = " value "; }\n"

/* The folder is the present one of all reports; @ in a text stands for it. */
static const struct {
    const char *name, *text;
} files[] = {
    {"here.h", "#define HERE 1\n"},
    {"inc/a.h", "#include \"sub/b.h\"\n#define A (B + 1)\n"},
    {"inc/sub/b.h", "#include \"../c.h\"\n#include <d.h>\n#define B (C + D)\n"},
    {"inc/c.h", "#pragma once\n#define C 20\nconstant int once = 1;\n"},
    {"inc/next.h", "#define FIRST 3\n#include_next <next.h>\n"},
    {"other/d.h", "#define D 300\n"},
    {"other/next.h", "#define SECOND 4000\n"},
    {"other/inc_vendor.h",
     "#define VENDOR 5\n#include M2S(INCLUDE_PATH/inc_types.h)\n"},
    {"other/inc_types.h", "#define TYPES 60\n"},
    {"other/generated_7.h", "#define GENERATED 700\n"},
    {"other/bad.h", "int fine;\nthis is wrong;\n"},
    {"other/warn.h", "#warning look here\n#define W 8\n"},
    {"other/file.h", "constant char file[] = __FILE__; enum { LINE = __LINE__ };\n"},
    {"other/deep.h", "#include \"deeper/deep.h\"\n"},
    {"other/deeper/deep.h", "#include \"missing.h\"\n"},
    {"other/kernel.h",
     "#ifndef KERNEL_H\n#define KERNEL_H\n#include <d.h>\n" KERNEL("D + 5") "#endif\n"},
    {"include/default.h", "#define DEFAULT 9\n"},
    {"spaces in it.h", "#define SPACES 11\n"},
};

#define M2S "#define M2S_(x) #x\n#define M2S(x) M2S_(x)\n"

static const struct {
    const char *name, *options, *text;
} cases[] = {
    {"quoted, nested", "-Iinc -I@/other", "#include \"a.h\"\n" KERNEL("A")},
    {"angled, absolute folder", "-I @/inc -I @/other", "#include <a.h>\n" KERNEL("A")},
    {"pragma once by two names", "-Iinc -Iother",
     "#include <c.h>\n#include \"@/inc/c.h\"\n#include <sub/../c.h>\n" KERNEL("once")},
    {"present folder", "", "#include \"here.h\"\n" KERNEL("HERE")},
    {"present folder, spelled", "-I.", "#include \"./here.h\"\n" KERNEL("HERE")},
    {"absolute name", "", "#include \"@/here.h\"\n" KERNEL("HERE")},
    {"name with blanks", "", "#include \"spaces in it.h\"\n" KERNEL("SPACES")},
    {"object-like macro", "", "#define H \"here.h\"\n#include H\n" KERNEL("HERE")},
    {"angled macro", "-Iother", "#define H <d.h>\n#include H\n" KERNEL("D")},
    {"function-like macro", "", "#define Q(x) #x\n#include Q(here.h)\n" KERNEL("HERE")},
    {"stringised path of an option", "-DINCLUDE_PATH=@/other",
     M2S "#include M2S(INCLUDE_PATH/inc_vendor.h)\n" KERNEL("VENDOR + TYPES")},
    {"stringised relative path", "-D INCLUDE_PATH=other",
     M2S "#include M2S(INCLUDE_PATH/inc_vendor.h)\n" KERNEL("VENDOR + TYPES")},
    {"function-like macro of an option", "-DP(x)=<x.h> -Iother",
     "#include P(d)\n" KERNEL("D")},
    {"generated name", "-Iother -DN=7",
     M2S "#define CAT_(a, b) a##b.h\n#define CAT(a, b) CAT_(a, b)\n"
         "#include M2S(CAT(generated_, N))\n" KERNEL("GENERATED")},
    {"-D with quotes", "-DH=\"here.h\"", "#include H\n" KERNEL("HERE")},
    {"-D with escaped quotes", "-DH=\\\"here.h\\\"", "#include H\n" KERNEL("HERE")},
    {"include_next", "-Iinc -Iother", "#include <next.h>\n" KERNEL("FIRST + SECOND")},
    {"conditional, taken", "-DUSE -Iother",
     "#ifdef USE\n#include <d.h>\n#else\n#include <nowhere.h>\n#define D "
     "1\n#endif\n" KERNEL("D")},
    {"conditional, left out", "",
     "#if 0\n#include \"/etc/passwd\"\n#include NO\n#endif\n" KERNEL("1")},
    {"__has_include", "-Iother",
     "#if __has_include(<d.h>) && !__has_include(<e.h>) && __has_include(\"here.h\")\n"
     "enum { V = 2 };\n#else\nenum { V = 1 };\n#endif\n" KERNEL("V")},
    {"spliced", "", "#inc\\\nlude \"he\\\nre.h\"\n" KERNEL("HERE")},
    {"digraph, comments", "",
     "%: /* # */ include /**/ \"here.h\" // \"\n" KERNEL("HERE")},
    {"in a comment", "", "/*\n#include \"nowhere.h\"\n*/\n" KERNEL("1")},
    {"-include", "-include here.h", KERNEL("HERE")},
    {"folder include", "", "#include <default.h>\n" KERNEL("DEFAULT")},
    {"__FILE__ and __LINE__", "-Iother",
     "#include <file.h>\n" KERNEL("sizeof(file) + 100 * LINE + file[0]")},
    {"trigraphs", "-trigraphs", "?\?=include \"here.h\"\n" KERNEL("HERE")},
    {"trigraphs that are off", "", "?\?=include \"nowhere.h\"\n" KERNEL("1")},
    {"a program of headers alone", "-Iinc -Iother", "#include <kernel.h>\n"},
    {"headers alone, twice guarded", "-Iother",
     "#include \"kernel.h\"\n#include \"kernel.h\"\n"},
    {".incbin of a file", "", "__asm__(\".incbin \\\"here.h\\\"\");\n" KERNEL("1")},
    {"missing", "-Iother", "\n#include <nowhere.h>\n" KERNEL("1")},
    {"missing below", "-I@/other", "#include \"deep.h\"\n" KERNEL("1")},
    {"missing, computed", "-Iother", M2S "#include M2S(nowhere/x.h)\n" KERNEL("1")},
    {"error in a file", "-Iother", "#include \"bad.h\"\n" KERNEL("1")},
    {"error in a file, absolute", "-I@/other", "#include \"bad.h\"\n" KERNEL("1")},
    {"warning in a file", "-Iother", "#include \"warn.h\"\n" KERNEL("W")},
    {"operand that is none", "", "#include here.h\n" KERNEL("1")},
    {"folder as a file", "-I.", "#include \"inc\"\n" KERNEL("1")},
    {"folder that is missing", "-Inowhere -Iother", "#include <d.h>\n" KERNEL("D")},
};

static char folder[64];

/* @return a text with @ replaced by the folder, until the next call but one */
static const char *
expand(const char *text)
{
    static char out[2][4096];
    static int turn;
    char *to = out[turn = !turn];

    for (*to = '\0'; *text != '\0'; text++) {
        to += sprintf(to, *text == '@' ? "%s" : "%.1s", *text == '@' ? folder : text);
    }
    return out[turn];
}

static void
write_file(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = path + strlen(folder); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int
many(void)
{
    return getenv("TEST_MANY_FILES") != NULL ? MANY_LONG : MANY;
}

static void
write_files(void)
{
    char name[32], text[96];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        write_file(files[i].name, files[i].text);
    }
    for (int i = 0; i < many(); i++) { /* a tree, ten to a file */
        FILE *file;

        snprintf(name, sizeof(name), "%s/m%d.h", folder, i);
        file = fopen(name, "w");
        assert_non_null(file);
        for (int k = i * 10 + 1; k <= i * 10 + 10 && k < many(); k++) {
            fprintf(file, "#include \"m%d.h\"\n", k);
        }
        snprintf(text, sizeof(text), "enum { M%d = %d };\n", i, i);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
}

/* ---- reports ------------------------------------------------------------------------------ */

static struct {
    cl_device_id devices[DEVICES_MAX];
    cl_uint count;
    cl_context ctx;
} all;

static cl_program
source(const char *text)
{
    cl_int err;
    cl_program p = clCreateProgramWithSource(all.ctx, 1, &text, NULL, &err);

    CHECK(err);
    return p;
}

static void
replace(char *log, const char *what, const char *with)
{
    size_t len = strlen(what), new_len = strlen(with);

    for (char *at = log; (at = strstr(at, what)) != NULL; at += new_len) {
        memmove(at + new_len, at + len, strlen(at + len) + 1);
        memcpy(at, with, new_len);
    }
}

/* Intel's runtime calls sources by the number of the build. */
static void
mask_numbers(char *log)
{
    for (char *at = log; at != NULL && *at != '\0'; at = strchr(at, '\n')) {
        static const char from[] = "In file included from ";
        size_t digits;

        at += *at == '\n';
        at += strncmp(at, from, strlen(from)) == 0 ? strlen(from) : 0;
        digits = strspn(at, "0123456789");
        if (digits > 0 && at[digits] == ':' &&
            strspn(at + digits + 1, "0123456789") > 0) {
            *at = 'N';
            memmove(at + 1, at + digits, strlen(at + digits) + 1);
        }
    }
}

/* Names of temporary files differ from build to build, the present folder's on both sides. */
static void
mask(char *log)
{
    static const char *const begins[] = {"tempfile_", "tempfile-", "kcache/"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        for (char *at = log; (at = strstr(at, begins[i])) != NULL;) {
            at += strlen(begins[i]);
            for (int n = 0; n < 6 && *at != '\0' && *at != '/' && *at != ':'; n++) {
                *at++ = 'X';
            }
        }
    }
    replace(log, "/telpher-present-folder", "@");
    replace(log, folder, "@");
    replace(log, " \n",
            "\n"); /* Intel's runtime quotes options with a blank between ours */
    mask_numbers(log);
}

static const char *
log_of(cl_program p, cl_uint device)
{
    static char logs[2][LOG_MAX];
    static int turn;
    char *log = logs[turn = !turn];

    log[0] = '\0';
    CHECK(clGetProgramBuildInfo(p, all.devices[device], CL_PROGRAM_BUILD_LOG, LOG_MAX,
                                log, NULL));
    mask(log);
    return log;
}

static cl_int
run(cl_program p, cl_uint device)
{
    cl_int err, got = -1;
    cl_kernel k = clCreateKernel(p, "k", &err);
    cl_mem out;
    cl_command_queue q;
    size_t one = 1;

    CHECK(err);
    out = clCreateBuffer(all.ctx, CL_MEM_READ_WRITE, sizeof(cl_int), NULL, &err);
    CHECK(err);
    q = clCreateCommandQueue(all.ctx, all.devices[device], 0, &err);
    CHECK(err);
    CHECK(clSetKernelArg(k, 0, sizeof(cl_mem), &out));
    CHECK(clEnqueueNDRangeKernel(q, k, 1, NULL, &one, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(q, out, CL_TRUE, 0, sizeof(got), &got, 0, NULL, NULL));
    CHECK(clReleaseCommandQueue(q));
    CHECK(clReleaseMemObject(out));
    CHECK(clReleaseKernel(k));
    return got;
}

/* Writes what came of a build; of several devices once, since all are alike. */
static void
report_built(const char *name, cl_program p, cl_int err)
{
    for (cl_uint i = 0; i < all.count; i++) {
        const char *log = log_of(p, i);
        cl_int got = err == CL_SUCCESS ? run(p, i) : 0;

        if (i == 0) {
            printf("%s: error %d, result %d\n%s\n", name, err, got, log);
        } else if (strcmp(log, log_of(p, 0)) != 0 ||
                   (err == CL_SUCCESS && got != run(p, 0))) {
            printf("device %u: result %d\n%s\n", i, got, log);
        }
    }
    CHECK(clReleaseProgram(p));
}

static void
report_compiled(void)
{
    cl_program p = source("#include \"sub/h.h\"\n#include <d.h>\n" KERNEL("H + D + G"));
    cl_program headers[] = {source("#include \"g.h\"\n#define H (G * 2)\n"),
                            source("#define G 21\n#include M(here.h)\n")};
    const char *names[] = {"sub/h.h", "g.h"};
    cl_program exe = NULL;
    cl_int err = clCompileProgram(p, 0, NULL, "-Iother -DM(x)=<x>", 2, headers, names,
                                  NULL, NULL);

    printf("compiled: error %d\n%s\n", err, log_of(p, 0));
    if (err == CL_SUCCESS) {
        exe = clLinkProgram(all.ctx, 0, NULL, NULL, 1, &p, NULL, NULL, &err);
        report_built("linked", exe, err);
    }
    CHECK(clReleaseProgram(p));
    CHECK(clReleaseProgram(headers[0]));
    CHECK(clReleaseProgram(headers[1]));
}

static void
report_changed(void)
{
    static const char text[] = "#include \"changed.h\"\n" KERNEL("CHANGED");
    cl_program p = source(text);

    write_file("changed.h", "#define CHANGED 1\n");
    CHECK(clBuildProgram(p, 0, NULL, NULL, NULL, NULL));
    printf("before: %d\n", run(p, 0));
    CHECK(clReleaseProgram(p)); /* Intel's runtime builds one only once */
    p = source(text);
    write_file("changed.h", "#define CHANGED 2\n");
    report_built("after a change", p, clBuildProgram(p, 0, NULL, NULL, NULL, NULL));
}

static int
report(void)
{
    cl_platform_id platform;
    cl_program p;
    cl_int err;

    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, all.devices,
                         &all.count));
    all.ctx = clCreateContext(NULL, all.count, all.devices, NULL, NULL, &err);
    CHECK(err);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        p = source(expand(cases[i].text));
        report_built(cases[i].name, p,
                     clBuildProgram(p, 0, NULL, expand(cases[i].options), NULL, NULL));
    }
    p = source("#include \"m0.h\"\n" KERNEL("M0 + M299"));
    report_built("many files", p, clBuildProgram(p, 0, NULL, "", NULL, NULL));
    report_compiled();
    report_changed();
    CHECK(clReleaseContext(all.ctx));
    return 0;
}

/* ---- tests -------------------------------------------------------------------------------- */

static const char *program; /* this one */
static char *native; /* report without Telpher */

static void
compare(unsigned count)
{
    const char *vendors = getenv("OCL_ICD_VENDORS");
    char *ours, *before = vendors == NULL ? NULL : strdup(vendors);
    struct servers servers;
    bool same;

    if (servers_start(&servers, count) != 0) {
        fail();
    }
    ours = report_take(program);
    servers_stop(&servers);
    if (before != NULL) { /* the next servers need drivers */
        setenv("OCL_ICD_VENDORS", before, 1);
    } else {
        unsetenv("OCL_ICD_VENDORS");
    }
    free(before);
    assert_non_null(ours);
    same = report_same(native, ours);
    free(ours);
    assert_true(same);
}

static void
one_server(void **state)
{
    (void)state;
    compare(1);
}

static void
two_servers(void **state)
{
    (void)state;
    compare(2);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_server),
        cmocka_unit_test(two_servers),
    };
    char path[4096], cache[128], command[128];
    int failed = 1;

    if (argc == 2 && strcmp(argv[1], "--report") == 0) {
        snprintf(folder, sizeof(folder), "%s", getenv("TEST_FOLDER"));
        return chdir(folder) == 0 ? report() : 1;
    }
    strcpy(folder, "/tmp/telpher-include-XXXXXX");
    if (mkdtemp(folder) == NULL || realpath(argv[0], path) == NULL) {
        return 1;
    }
    program = path;
    write_files();
    /* PoCL 3.1 gives no log for a program of its cache: a folder that no other test fills meanwhile */
    snprintf(cache, sizeof(cache), "%s/kcache", folder);
    mkdir(cache, 0700);
    setenv("POCL_CACHE_DIR", cache, 1);
    setenv("TEST_FOLDER", folder, 1);
    native = report_take(program);
    if (native != NULL) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    free(native);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command) == 0 ? failed : 1;
}
