/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds see no file of the server, whatever form the source or the options have, and see
 * those that the client sends: over the protocol alone, with the machine's own driver.
 */
#include <CL/cl.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/text/sha256.h"
#include "daemon/test/test_session.h"
#include "wire/files.h"

static struct test_daemon the_daemon;

static char secret[128]; /* name of a file that only the server has */

#define SECRET "SECRET_TOKEN is what no client may read\n"
#define S "#define S_(x) #x\n#define S(x) S_(x)\n"

/* ---- builds ---- */

static uint64_t
make_program(struct test_session *s, const char *text)
{
    struct tp_wire_context_create context = {
        .context = test_id(s, TP_WIRE_KIND_CONTEXT), .devices = TEST_IDS(0)};
    struct tp_wire_program_source m = {.program = test_id(s, TP_WIRE_KIND_PROGRAM),
                                       .context = context.context,
                                       .size = strlen(text),
                                       .source = {(uint32_t)strlen(text), text}};

    test_put(s, TP_WIRE_CONTEXT_CREATE, &context);
    test_put(s, TP_WIRE_PROGRAM_SOURCE, &m);
    return m.program;
}

static void
put_build(struct test_session *s, uint64_t program, const char *options)
{
    struct tp_wire_program_build m = {.request = test_id(s, TP_WIRE_KIND_REQUEST),
                                      .program = program,
                                      .devices = TEST_IDS(0),
                                      .options = {(uint32_t)strlen(options), options}};

    test_put(s, TP_WIRE_PROGRAM_BUILD, &m);
}

static size_t
write_record(uint8_t *raw, enum tp_wire_file_kind kind, const char *name,
             const char *content)
{
    uint8_t digest[TP_SHA256_BYTES];
    struct tp_wire_file file = {.kind = kind,
                                .name_len = (uint32_t)strlen(name),
                                .name = name,
                                .digest = digest};

    if (content != NULL) {
        file.has_content = true;
        file.len = (uint32_t)strlen(content);
        file.content = (const uint8_t *)content;
        tp_sha256_of(content, file.len, digest);
    }
    tp_wire_put_file(raw, &file);
    return tp_wire_file_size(&file);
}

/* Puts one name of the client, and the folder that PoCL always looks for. */
static void
put_file(struct test_session *s, uint64_t program, enum tp_wire_file_kind kind,
         const char *name, const char *content)
{
    uint8_t raw[1024];
    struct tp_wire_program_files m = {.program = program};

    m.size = write_record(raw, TP_WIRE_FILE_ABSENT, "include", NULL);
    m.size += write_record(raw + m.size, kind, name, content);
    m.files = (struct tp_wire_bytes){(uint32_t)m.size, raw};
    test_put(s, TP_WIRE_PROGRAM_FILES, &m);
}

/* Waits until a name is asked for, among others. */
static void
expect_wanted(struct test_session *s, const char *name)
{
    struct tp_wire_files_wanted m;

    test_expect(s, TP_WIRE_FILES_WANTED, &m);
    assert_non_null(memmem(m.names.data, m.names.len, name, strlen(name) + 1));
}

/* Waits for the result; what the driver says must not have the secret. @return status */
static int32_t
finish(struct test_session *s)
{
    struct tp_wire_build_reply reply;

    test_expect(s, TP_WIRE_BUILD_REPLY, &reply);
    assert_null(memmem(reply.facts.data, reply.facts.len, "SECRET_TOKEN", 12));
    assert_null(memmem(reply.facts.data, reply.facts.len, "root:", 5));
    return reply.status;
}

static int32_t
build(const char *text, const char *options)
{
    struct test_session s;
    int32_t status;

    test_session_open(&s, &the_daemon);
    test_session_start(&s);
    put_build(&s, make_program(&s, text), options);
    status = finish(&s);
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
    return status;
}

/* @return a text with the names of the secret and of its folder put for @ and ~ */
static const char *
expand(const char *text)
{
    static char out[2][2048];
    static int turn;
    char *to = out[turn = !turn];

    for (*to = '\0'; *text != '\0'; text++) {
        to += sprintf(to, "%s",
                      *text == '@'   ? secret
                      : *text == '~' ? the_daemon.folder
                                     : (const char[]){*text, '\0'});
    }
    return out[turn];
}

/* ---- tests ---- */

static void
test_nothing_is_read(void **state)
{
    static const struct {
        const char *text, *options;
    } forms[] = {
        {"#include \"@\"\n", ""},
        {"#include <@>\n", ""},
        {S "#include S(@)\n", ""},
        {S "#include S(P/secret.h)\n", "-DP=~"},
        {"#define L <\n#define C(a, b) a##b\n#include H\n", "-DH=<@>"},
        {"#include \"secret.h\"\n", "-I~"},
        {"#include <secret.h>\n", "-I ~"},
        {"#include \"executor/../secret.h\"\n", "-I~"},
        {"#include_next <secret.h>\n", "-I~"},
        {"#inc\\\nlude \"@\"\n", ""},
        {"#import \"@\"\n", ""},
        {"int x;\n", "-include @"},
        {"int x;\n", "-imacros @"},
        {"#include \"secret.h\"\n", "-isystem ~"},
        {"#include \"/etc/passwd\"\n", ""},
        {S "#include S(/etc/passwd)\n", ""},
        {S "#define F(n) S(~/n)\n#include F(secret.h)\n", ""},
        {"#include F(secret)\n", "-DF(x)=<~/x.h>"},
        {S "#define C_(a, b) a##b.h\n#define C(a, b) C_(a, b)\n"
           "#include S(~/C(sec, N))\n",
         "-DN=ret"},
        {"#include H\n", "-DH=\"@\""},
        {"#include H\n", "-DH=\\\"@\\\""},
        {"#if 1\n#include \"@\"\n#else\nint x;\n#endif\n", ""},
        {"#if __has_include_next(<secret.h>)\nkernel void k() "
         "{}\n#else\n#error\n#endif\n",
         "-I~"},
        {"%: include \"@\"\n", ""},
        {"#include \"/telpher-present-folder/secret.h\"\n", ""},
        {"#include \"/telpher-present-folder/~/secret.h\"\n", ""},
        {"#include \"secret.h\"\n", ""},
        {"#include \"/proc/self/environ\"\n", ""},
        {"#include \"/proc/self/root/etc/passwd\"\n", ""},
        {"#include \"/proc/self/cwd/secret.h\"\n", ""},
        {"#include \"/dev/../etc/passwd\"\n", ""},
        {"#include \"/proc/thread-self/root/etc/passwd\"\n", ""},
        {"#include \"/proc/self/fd/2\"\n", ""},
        {"#include \"/proc/self/fd/../environ\"\n", ""},
        {"#include \"/dev/fd/2\"\n", ""},
        {"#include \"/root/.bashrc\"\n", ""},
        {"?\?=include \"@\"\n", "-trigraphs"},
        {"#include \"executor/?\?/../secret.h\"\n", "-I~ -trigraphs"},
        {"#include <@>\n#include \"~/secret.h\"\n", ""},
        {"#embed \"@\"\n", ""},
        {"kernel void k() {\n#embed </etc/passwd>\n}\n", ""},
        {"int x;\n", "-include /etc/passwd"},
        {"int x;\n", "-I~ -include secret.h"},
        {"#include \"/usr/share/../../etc/passwd\"\n", ""},
        {"#if __has_include(\"@\")\nkernel void k() {}\n#else\n#error none\n#endif\n",
         ""},
        {"#if __has_include(</etc/passwd>)\nkernel void k() "
         "{}\n#else\n#error\n#endif\n",
         ""},
    };

    struct test_session s;

    (void)state;
    test_session_open(&s, &the_daemon);
    test_session_start(&s);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        put_build(&s, make_program(&s, expand(forms[i].text)),
                  expand(forms[i].options));
        if (finish(&s) == 0) {
            fail_msg("a build succeeded: %s", forms[i].text);
        }
    }
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
}

/* An assembler's directives may build, since PoCL assembles when a kernel is launched; what
 * the build answers has no secret. */
static void
test_assembly(void **state)
{
    static const char *const texts[] = {
        "__asm__(\".incbin \\\"@\\\"\");\n",
        "kernel void k(global int *o) { __asm__ volatile(\".incbin \\\"@\\\"\"); }\n",
        "kernel void k(global int *o) { __asm__ volatile(\".include \\\"@\\\"\"); }\n",
        "__asm__(\".include \\\"/etc/passwd\\\"\");\n",
        "__asm__(\"no such directive\");\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)build(expand(texts[i]), "");
    }
}

static void
test_options_that_write(void **state)
{
    static const char *const options[] = {"-o x", "-MD", "-Xclang -load", "@x",
                                          "-fplugin=x"};

    (void)state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        assert_int_equal(build("kernel void k() {}\n", options[i]),
                         CL_INVALID_BUILD_OPTIONS);
    }
}

static void
expect_clients(const char *include, const char *name)
{
    struct test_session s;
    uint64_t program;

    test_session_open(&s, &the_daemon);
    test_session_start(&s);
    program = make_program(&s, include);
    put_file(&s, program, TP_WIRE_FILE_REGULAR, name, "#define V 1\n");
    put_build(&s, program, "");
    assert_int_equal(finish(&s), 0);
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
}

/* A name of the server leads to the client's file, and so does a name in the folder that
 * compilers get for the present one. */
static void
test_files_of_the_client(void **state)
{
    (void)state;
    expect_clients(expand("#include \"@\"\nkernel void k() { int x = V; }\n"), secret);
    expect_clients("#include \"/telpher-present-folder/sub/v.h\"\n"
                   "kernel void k() { int x = V; }\n",
                   "sub/v.h");
}

/* Names that the compiler looks up are asked for, first the folder, and may be absent. */
static void
test_asked_for(void **state)
{
    struct test_session s;
    uint64_t program;

    (void)state;
    test_session_open(&s, &the_daemon);
    test_session_start(&s);
    program =
        make_program(&s, expand(S "#include S(@)\nkernel void k() { int x = V; }\n"));
    put_file(&s, program, TP_WIRE_FILE_ABSENT, "x", NULL);
    put_build(&s, program, "");
    expect_wanted(&s, the_daemon.folder);
    put_file(&s, program, TP_WIRE_FILE_ABSENT, the_daemon.folder, NULL);
    assert_int_equal(finish(&s), CL_BUILD_PROGRAM_FAILURE);
    put_file(&s, program, TP_WIRE_FILE_ABSENT, "x", NULL);
    put_build(&s, program, "");
    expect_wanted(&s, the_daemon.folder);
    put_file(&s, program, TP_WIRE_FILE_FOLDER, the_daemon.folder, NULL);
    expect_wanted(&s, secret);
    put_file(&s, program, TP_WIRE_FILE_REGULAR, secret, "#define V 1\n");
    assert_int_equal(finish(&s), 0);
    test_session_close(&s);
    test_daemon_wait_children(&the_daemon, 0);
}

/* Without the system's help only programs that cannot include files are built. */
static void
test_no_guard(void **state)
{
    (void)state;
    assert_int_equal(build("kernel void k() {}\n", ""), 0);
    assert_int_equal(build(expand("#include \"@\"\n"), ""), CL_BUILD_PROGRAM_FAILURE);
    assert_int_equal(build("#inc\\\nlude </etc/passwd>\n", ""),
                     CL_BUILD_PROGRAM_FAILURE);
    assert_int_equal(build("kernel void k() {}\n", expand("-include @")),
                     CL_INVALID_BUILD_OPTIONS);
}

/* As on systems before Linux 5.9; the daemon inherits it. */
static bool
forbid_filters(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool
is_pocl(const struct tp_wire_fact *fact)
{
    return fact->kind == TP_WIRE_FACT_DEVICE && fact->param == CL_DEVICE_VERSION &&
           memmem(fact->data, fact->len, "PoCL", 4) != NULL;
}

static int
set_state(void **state)
{
    *state = &the_daemon;
    return 0;
}

static int
clean_up(void **state)
{
    (void)remove(secret);
    return test_daemon_teardown(state);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_read),
        cmocka_unit_test(test_assembly),
        cmocka_unit_test(test_options_that_write),
        cmocka_unit_test(test_files_of_the_client),
        cmocka_unit_test(test_asked_for),
    };
    const struct CMUnitTest no_guard[] = {cmocka_unit_test(test_no_guard)};
    const struct CMUnitTest any_driver[] = {
        cmocka_unit_test(test_nothing_is_read),
        cmocka_unit_test(test_assembly),
    };
    bool guarded = argc < 2 || strcmp(argv[1], "--no-guard") != 0;
    bool any = argc >= 2 && strcmp(argv[1], "--any-driver") == 0;
    const char *const options[] = {"--cache", "none", NULL};
    FILE *file;

    if (!guarded && !forbid_filters()) {
        return 1;
    }
    test_daemon_start(&the_daemon, options);
    if (!any) {
        test_daemon_need(&the_daemon, is_pocl, "PoCL, whose compiler is known");
    }
    (void)snprintf(secret, sizeof(secret), "%s/secret.h", the_daemon.folder);
    file = fopen(secret, "w");
    if (file == NULL || fputs(SECRET, file) < 0 || fclose(file) != 0) {
        return 1;
    }
    if (any) {
        return cmocka_run_group_tests(any_driver, set_state, clean_up);
    }
    return guarded ? cmocka_run_group_tests(tests, set_state, clean_up)
                   : cmocka_run_group_tests(no_guard, set_state, clean_up);
}
