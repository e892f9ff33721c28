/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of all types, registered by the compiler's knowledge and by text: arguments go
 * into bytes, out of them, and into a call; what cannot be passed is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <complex.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/trace/log.h"
#include "offload/message.h"

struct pair {
    double d;
    long l;
};
struct triple {
    double v[3];
};
struct floats {
    float a, b, c, d;
};

static char got[512];

#define SAY(...) snprintf(got, sizeof(got), __VA_ARGS__)

static void
listing2(double a, int b, char c)
{
    SAY("%g %d %c", a, b, c);
}
static int
none(void)
{
    SAY("none");
    return -7;
}
static void
integers(_Bool o, signed char c, unsigned char C, short s, unsigned short S, int i,
         unsigned int j, long l, unsigned long L)
{
    SAY("%d %d %u %d %u %d %u %ld %lu", o, c, C, s, S, i, j, l, L);
}
static void
reals(float f, double d, long double g, float _Complex x, double _Complex z)
{
    SAY("%g %g %Lg %g+%gi %g+%gi", (double)f, d, g, (double)crealf(x),
        (double)cimagf(x), creal(z), cimag(z));
}
static int
structs(struct pair p, int i, struct triple t, struct floats f, char c)
{
    SAY("%g %ld %d %g %g %g %g %g %c", p.d, p.l, i, t.v[0], t.v[2], (double)f.a,
        (double)f.d, (double)f.b, c);
    return 42;
}
static int
nine(double a, double b, double c, double d, double e, double f, double g, double h,
     double i)
{
    SAY("%g %g %g %g %g %g %g %g %g", a, b, c, d, e, f, g, h, i);
    return 0;
}
static int
sixteen(int a, double b, long c, float d, char e, double f, int g, double h, short i,
        double j, int k, double l, long m, double n, int o, double p)
{
    SAY("%d %g %ld %g %d %g %d %g %d %g %d %g %ld %g %d %g", a, b, c, (double)d, e, f,
        g, h, i, j, k, l, m, n, o, p);
    return 16;
}
static int
block(int before, telpher_bytes bytes, double after)
{
    const char *text = bytes.data;

    assert_int_equal((uintptr_t)bytes.data % TP_OFFLOAD_ALIGN, 0);
    SAY("%d %.*s %g", before, (int)bytes.len, text, after);
    return (int)bytes.len;
}

TELPHER_KERNEL(listing2, double, int, char)
TELPHER_KERNEL(none)
TELPHER_KERNEL(integers, _Bool, signed char, unsigned char, short, unsigned short, int,
               unsigned int, long, unsigned long)
TELPHER_KERNEL(reals, float, double, long double, float _Complex, double _Complex)
TELPHER_KERNEL(structs, struct pair, int, struct triple, struct floats, char)
TELPHER_KERNEL(nine, double, double, double, double, double, double, double, double,
               double)
TELPHER_KERNEL(sixteen, int, double, long, float, char, double, int, double, short,
               double, int, double, long, double, int, double)
TELPHER_KERNEL(block, int, telpher_bytes, double)

TELPHER_KERNEL_TEXT(listing2, "t_listing2", "dic")
TELPHER_KERNEL_TEXT(none, "t_none", ">i")
TELPHER_KERNEL_TEXT(integers, "t_integers", "ocCsSiIlL")
TELPHER_KERNEL_TEXT(reals, "t_reals", "fdgxz")
TELPHER_KERNEL_TEXT(structs, "t_structs", "{dl}i{ddd}{ffff}c>i")
TELPHER_KERNEL_TEXT(nine, "t_nine", "ddddddddd>i")
TELPHER_KERNEL_TEXT(sixteen, "t_sixteen", "idlfcdidsdidldid>i")
TELPHER_KERNEL_TEXT(block, "t_block", "iBd>i")

static struct tp_offload_table table;

/* Encodes, decodes and calls @p name; checks what the kernel saw. */
static int
launch(const char *name, uint32_t count, void **args, const uint64_t *sizes,
       const char *expected)
{
    int64_t index = tp_offload_table_find(&table, name);
    const struct tp_offload_kernel *k;
    struct tp_error err = {0};
    void *found[TELPHER_KERNEL_ARGS_MAX];
    telpher_bytes bytes[TELPHER_KERNEL_ARGS_MAX];
    uint64_t len;
    uint8_t *raw;
    int result;

    assert_true(index >= 0);
    k = &table.kernels[index];
    assert_int_equal(tp_offload_check(name, &k->sig, count, sizes, NULL, &err),
                     TELPHER_OK);
    len = tp_offload_args_len(&k->sig, sizes);
    raw = tp_alloc_aligned(TP_OFFLOAD_ALIGN, len + 1, "arguments");
    assert_non_null(raw);
    tp_offload_args_put(&k->sig, args, sizes, raw);
    assert_int_equal(tp_offload_args_get(&k->sig, raw, len, found, bytes), TELPHER_OK);
    for (uint64_t cut = 0; cut < len; cut++) {
        assert_int_equal(tp_offload_args_get(&k->sig, raw, cut, found, bytes),
                         TELPHER_ERR_PROTO);
    }
    assert_int_equal(tp_offload_args_get(&k->sig, raw, len, found, bytes), TELPHER_OK);
    strcpy(got, "not called");
    result = tp_offload_kernel_invoke(k, found);
    tp_free(raw);
    assert_string_equal(got, expected);
    return result;
}

#define SIZES(...) ((const uint64_t[]){__VA_ARGS__})

static void
calls(const char *prefix)
{
    char name[64];
    double d = 2.5, e = -1;
    int i = 42;
    char c = 'x';
    _Bool o = 1;
    signed char sc = -3;
    unsigned char uc = 250;
    short s = -30000;
    unsigned short us = 60000;
    unsigned int ui = 4000000000u;
    long l = -9000000000000;
    unsigned long ul = 18000000000000000000u;
    float f = 0.5f;
    long double g = 1e300L;
    float _Complex x = 1 + 2 * I;
    double _Complex z = 3 + 4 * I;
    struct pair p = {1.5, -8};
    struct triple t = {{1, 2, 3}};
    struct floats fs = {4, 5, 6, 7};
    double ds[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

#define LAUNCH(kernel, n, args, sizes, expected)                                       \
    (snprintf(name, sizeof(name), "%s" kernel, prefix),                                \
     launch(name, n, (void *[]){STRIP args, NULL}, sizes, expected))
#define STRIP(...) __VA_ARGS__
    LAUNCH("listing2", 3, (&d, &i, &c), SIZES(8, 4, 1), "2.5 42 x");
    assert_int_equal(LAUNCH("none", 0, (NULL), SIZES(0), "none"), -7);
    LAUNCH("integers", 9, (&o, &sc, &uc, &s, &us, &i, &ui, &l, &ul),
           SIZES(1, 1, 1, 2, 2, 4, 4, 8, 8),
           "1 -3 250 -30000 60000 42 4000000000 -9000000000000 18000000000000000000");
    LAUNCH("reals", 5, (&f, &d, &g, &x, &z), SIZES(4, 8, sizeof(g), 8, 16),
           "0.5 2.5 1e+300 1+2i 3+4i");
    assert_int_equal(LAUNCH("structs", 5, (&p, &i, &t, &fs, &c),
                            SIZES(16, 4, 24, 16, 1), "1.5 -8 42 1 3 4 7 5 x"),
                     42);
    LAUNCH("nine", 9,
           (ds, ds + 1, ds + 2, ds + 3, ds + 4, ds + 5, ds + 6, ds + 7, ds + 8),
           SIZES(8, 8, 8, 8, 8, 8, 8, 8, 8), "1 2 3 4 5 6 7 8 9");
    assert_int_equal(
        LAUNCH("sixteen", 16,
               (&i, &d, &l, &f, &c, &e, &i, &d, &s, &e, &i, &d, &l, &e, &i, &d),
               SIZES(4, 8, 8, 4, 1, 8, 4, 8, 2, 8, 4, 8, 8, 8, 4, 8),
               "42 2.5 -9000000000000 0.5 120 -1 42 2.5 -30000 -1 42 2.5 "
               "-9000000000000 -1 42 2.5"),
        16);
    assert_int_equal(
        LAUNCH("block", 3, (&i, (void *)"hello", &d), SIZES(4, 5, 8), "42 hello 2.5"),
        5);
    assert_int_equal(LAUNCH("block", 3, (&i, NULL, &d), SIZES(4, 0, 8), "42  2.5"), 0);
#undef LAUNCH
}

static void
registered_kernels_get_their_arguments(void **state)
{
    (void)state;
    calls("");
}

static void
kernels_by_text_get_their_arguments(void **state)
{
    (void)state;
    calls("t_");
}

static void
refused(const char *name, uint32_t count, const uint64_t *sizes, const char *words)
{
    int64_t index = tp_offload_table_find(&table, name);
    struct tp_error err = {0};

    assert_true(index >= 0);
    assert_int_equal(
        tp_offload_check(name, &table.kernels[index].sig, count, sizes, NULL, &err),
        TELPHER_ERR_INVALID);
    if (strstr(err.text, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, err.text);
    }
}

static void
wrong_calls_are_refused(void **state)
{
    struct tp_offload_signature types;
    struct tp_error err = {0};
    const struct tp_offload_signature *sig =
        &table.kernels[tp_offload_table_find(&table, "listing2")].sig;

    (void)state;
    refused("listing2", 2, SIZES(8, 4), "takes 3 arguments, the caller passes 2");
    refused("listing2", 3, SIZES(8, 8, 1),
            "argument 2 is declared int of 4 bytes, the caller passes 8 bytes");
    refused("structs", 5, SIZES(16, 4, 20, 16, 1),
            "argument 3 is declared struct of 24");
    assert_int_equal(tp_offload_signature_read("dfc", 3, &types, &err), TELPHER_OK);
    assert_int_equal(tp_offload_check("listing2", sig, 3, SIZES(8, 4, 1), &types, &err),
                     TELPHER_ERR_INVALID);
    assert_non_null(
        strstr(err.text, "declared int of 4 bytes, the caller passes float"));
}

static void
bad_signatures_are_refused(void **state)
{
    static const struct {
        const char *text;
        telpher_status status;
    } cases[] = {
        {"p", TELPHER_ERR_UNSUPPORTED}, {"q", TELPHER_ERR_INVALID},
        {"{", TELPHER_ERR_INVALID},     {"{d", TELPHER_ERR_INVALID},
        {"{}", TELPHER_ERR_INVALID},    {"}", TELPHER_ERR_INVALID},
        {"{B}", TELPHER_ERR_INVALID},   {"{{{{{{{{{d}}}}}}}}}", TELPHER_ERR_LIMIT},
        {"T8", TELPHER_ERR_INVALID},    {"T8.3", TELPHER_ERR_INVALID},
        {"T0.1", TELPHER_ERR_INVALID},  {"T64.32", TELPHER_ERR_UNSUPPORTED},
        {"T6.4", TELPHER_ERR_INVALID},  {"T2097152.8", TELPHER_ERR_LIMIT},
        {"d>", TELPHER_ERR_INVALID},    {"d>d", TELPHER_ERR_INVALID},
        {"d>ii", TELPHER_ERR_INVALID},  {"ddddddddddddddddd", TELPHER_ERR_LIMIT},
    };

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cases); i++) {
        struct tp_offload_signature sig;
        struct tp_error err = {0};
        telpher_status status =
            tp_offload_signature_read(cases[i].text, strlen(cases[i].text), &sig, &err);

        if (status != cases[i].status || err.text[0] == '\0') {
            fail_msg("%s: %s, \"%s\"", cases[i].text, telpher_status_name(status),
                     err.text);
        }
    }
}

/* Every table can be decoded from its encoded form. */
static void
the_table_is_read_back(void **state)
{
    struct tp_offload_names names;
    struct tp_error err = {0};
    struct tp_buf text;

    (void)state;
    tp_buf_init(&text, 0);
    assert_int_equal(tp_offload_table_write(&table, &text), TELPHER_OK);
    assert_int_equal(tp_offload_names_read((char *)tp_buf_data(&text),
                                           tp_buf_len(&text), &names, &err),
                     TELPHER_OK);
    assert_int_equal(names.count, table.count);
    for (uint32_t i = 0; i < table.count; i++) {
        const struct tp_offload_kernel *k = &table.kernels[i];

        assert_int_equal(tp_offload_names_find(&names, k->kernel->name), i);
        assert_int_equal(names.known[i].sig.count, k->sig.count);
        assert_int_equal(names.known[i].sig.returns_int, k->sig.returns_int);
        for (uint32_t a = 0; a < k->sig.count; a++) {
            assert_true(
                tp_offload_type_fits(&k->sig.args[a], &names.known[i].sig.args[a]));
            assert_int_equal(k->sig.args[a].size, names.known[i].sig.args[a].size);
        }
    }
    assert_int_equal(tp_offload_names_find(&names, "abort"), -1);
    assert_string_equal(tp_offload_names_guess(&names, "listing_2"), "listing2");
    assert_null(tp_offload_names_guess(&names, "entirely_else"));
    tp_offload_names_fini(&names);
    tp_buf_fini(&text);
}

static void
a_bad_table_is_refused(void **state)
{
    static const char *const cases[] = {"k\tdi",         "\tdi\n", "kdi\n",
                                        "k\tdi\nk\td\n", "k\tp\n", "\n"};

    (void)state;
    for (size_t i = 0; i < TP_ARRAY_LEN(cases); i++) {
        struct tp_offload_names names;
        struct tp_error err = {0};

        assert_int_equal(
            tp_offload_names_read(cases[i], strlen(cases[i]), &names, &err),
            TELPHER_ERR_PROTO);
        assert_true(err.text[0] != '\0');
    }
}

/* A function of a library is no kernel, whatever its name. */
static void
functions_of_libraries_are_not_found(void **state)
{
    (void)state;
    assert_true(tp_offload_table_find(&table, "abort") < 0);
}

static int lines;

static void
count_line(void *user, enum tp_log_level level, const char *topic, const char *line,
           size_t len)
{
    (void)user, (void)level, (void)topic, (void)line, (void)len;
    lines++;
}

static void
senseless_kernels_are_left_out(void **state)
{
    static const telpher_kernel_arg pointer[] = {{'p', 8, 8}},
                                    vector[] = {{'T', 32, 32}};
    static telpher_kernel bad[] = {
        {.struct_size = 8, .name = "bad_size"},
        {.struct_size = sizeof(telpher_kernel), .name = "bad_function"},
        {.struct_size = sizeof(telpher_kernel), .name = "", .invoke = NULL},
        {.struct_size = sizeof(telpher_kernel),
         .name = "bad_pointer",
         .function = (void (*)(void))none,
         .args = pointer,
         .argcount = 1},
        {.struct_size = sizeof(telpher_kernel),
         .name = "bad_vector",
         .function = (void (*)(void))none,
         .args = vector,
         .argcount = 1},
        {.struct_size = sizeof(telpher_kernel),
         .name = "bad_text",
         .function = (void (*)(void))none,
         .signature = "hello"},
    };
    struct tp_offload_table again;

    (void)state;
    tp_log_set_sink(count_line, NULL);
    for (size_t i = 0; i < TP_ARRAY_LEN(bad); i++) {
        telpher_kernel_register(&bad[i]);
    }
    tp_log_set_sink(NULL, NULL);
    assert_int_equal(lines, TP_ARRAY_LEN(bad));
    assert_int_equal(tp_offload_table_create(&again), TELPHER_OK);
    assert_int_equal(again.count, table.count);
    tp_offload_table_destroy(&again);
}

/* The last one of a list has no next, as one that is in none. */
static void
registered_twice_is_there_once(void **state)
{
    static telpher_kernel last = {.struct_size = sizeof(telpher_kernel),
                                  .name = "registered_last",
                                  .function = (void (*)(void))none,
                                  .signature = ""};
    struct tp_offload_table again;

    (void)state;
    telpher_kernel_register(&last);
    telpher_kernel_register(&last);
    telpher_kernel_register_derived(&last);
    assert_null(last.next);
    assert_int_equal(tp_offload_table_create(&again), TELPHER_OK);
    assert_int_equal(again.count, table.count + 1);
    tp_offload_table_destroy(&again);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registered_kernels_get_their_arguments),
        cmocka_unit_test(kernels_by_text_get_their_arguments),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(bad_signatures_are_refused),
        cmocka_unit_test(the_table_is_read_back),
        cmocka_unit_test(a_bad_table_is_refused),
        cmocka_unit_test(functions_of_libraries_are_not_found),
        cmocka_unit_test(senseless_kernels_are_left_out),
        cmocka_unit_test(registered_twice_is_there_once),
    };
    int failed;

    if (tp_offload_table_create(&table) != TELPHER_OK) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    tp_offload_table_destroy(&table);
    return failed;
}
