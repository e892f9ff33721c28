/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher-worker-derive [--verbose] PROGRAM: writes a C table of the plain functions in a
 * program, by its debug information, for telpher_kernel_register_derived(). A function is
 * taken when it is external, takes no more than 16 values that the letters of
 * telpher/kernel.h can say, and returns nothing or int. Without any it writes nothing.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <telpher/kernel.h>

enum { TEXT_MAX = 1024, DEPTH_MAX = 8 };

struct text {
    char chars[TEXT_MAX];
    size_t len;
    const char *why; /* what could not be said; NULL = nothing */
};

static void
put(struct text *t, char c)
{
    if (t->len + 1 < sizeof(t->chars)) {
        t->chars[t->len++] = c;
        t->chars[t->len] = '\0';
    } else {
        t->why = "too many members";
    }
}

static Dwarf_Word
number(Dwarf_Die *die, unsigned attribute, Dwarf_Word otherwise)
{
    Dwarf_Attribute attr;
    Dwarf_Word value;

    if (dwarf_attr_integrate(die, attribute, &attr) == NULL ||
        dwarf_formudata(&attr, &value) != 0) {
        return otherwise;
    }
    return value;
}

/* The type without names and qualifiers. @return false for void */
static bool
type_of(Dwarf_Die *die, Dwarf_Die *ret_type)
{
    Dwarf_Attribute attr;

    if (dwarf_attr_integrate(die, DW_AT_type, &attr) == NULL ||
        dwarf_formref_die(&attr, ret_type) == NULL) {
        return false;
    }
    switch (dwarf_tag(ret_type)) {
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_atomic_type: {
        Dwarf_Die named = *ret_type;

        return type_of(&named, ret_type);
    }
    default:
        return true;
    }
}

static void
put_base(struct text *t, Dwarf_Die *type)
{
    Dwarf_Word size = number(type, DW_AT_byte_size, 0);
    static const char by_size[] = {[1] = 'c', [2] = 's', [4] = 'i', [8] = 'l'};
    char letter = size < sizeof(by_size) ? by_size[size] : '\0';

    switch (number(type, DW_AT_encoding, 0)) {
    case DW_ATE_boolean:
        letter = size == 1 ? 'o' : '\0';
        break;
    case DW_ATE_signed:
    case DW_ATE_signed_char:
        break;
    case DW_ATE_unsigned:
    case DW_ATE_unsigned_char:
    case DW_ATE_UTF:
        letter = letter != '\0' ? (char)(letter - 'a' + 'A') : '\0';
        break;
    case DW_ATE_float:
        letter = size == 4                     ? 'f'
                 : size == 8                   ? 'd'
                 : size == sizeof(long double) ? 'g'
                                               : '\0';
        break;
    case DW_ATE_complex_float:
        letter = size == 8 ? 'x' : size == 16 ? 'z' : '\0';
        break;
    default:
        letter = '\0';
    }
    if (letter == '\0') {
        t->why = "a type without a letter";
        return;
    }
    put(t, letter);
}

static void put_type(struct text *t, Dwarf_Die *type, int depth);

/* An array in a struct is so many members. */
static void
put_array(struct text *t, Dwarf_Die *type, int depth)
{
    Dwarf_Die element, range;
    Dwarf_Word count;

    if (!type_of(type, &element) || dwarf_child(type, &range) != 0) {
        t->why = "an array of unknown size";
        return;
    }
    count = number(&range, DW_AT_count, number(&range, DW_AT_upper_bound, 63) + 1);
    if (dwarf_siblingof(&range, &range) == 0 || count > 64) {
        t->why = "an array with many elements or dimensions";
        return;
    }
    for (Dwarf_Word i = 0; i < count && t->why == NULL; i++) {
        put_type(t, &element, depth);
    }
}

/* Members of packed or aligned structs lie at other offsets than the letters imply. */
static void
put_struct(struct text *t, Dwarf_Die *type, int depth)
{
    Dwarf_Die member, member_type;

    if (dwarf_hasattr(type, DW_AT_alignment)) {
        t->why = "a struct aligned by hand";
        return;
    }
    put(t, '{');
    for (int rc = dwarf_child(type, &member); rc == 0 && t->why == NULL;
         rc = dwarf_siblingof(&member, &member)) {
        if (dwarf_tag(&member) != DW_TAG_member) {
            continue;
        }
        if (dwarf_hasattr(&member, DW_AT_bit_size) ||
            dwarf_hasattr(&member, DW_AT_alignment) ||
            !type_of(&member, &member_type)) {
            t->why = "a struct with bit fields or members aligned by hand";
            return;
        }
        put_type(t, &member_type, depth + 1);
    }
    put(t, '}');
}

static bool
is_named(Dwarf_Die *die, const char *wanted)
{
    Dwarf_Attribute attr;
    Dwarf_Die type;

    if (dwarf_attr_integrate(die, DW_AT_type, &attr) == NULL ||
        dwarf_formref_die(&attr, &type) == NULL) {
        return false;
    }
    if (dwarf_tag(&type) == DW_TAG_const_type) {
        return is_named(&type, wanted);
    }
    return dwarf_diename(&type) != NULL && strcmp(dwarf_diename(&type), wanted) == 0;
}

static void
put_type(struct text *t, Dwarf_Die *type, int depth)
{
    if (depth > DEPTH_MAX) {
        t->why = "structs nested too deeply";
        return;
    }
    switch (dwarf_tag(type)) {
    case DW_TAG_base_type:
        put_base(t, type);
        break;
    case DW_TAG_enumeration_type:
        put(t, number(type, DW_AT_byte_size, 0) == 4 ? 'I' : '?');
        break;
    case DW_TAG_structure_type:
        put_struct(t, type, depth);
        break;
    case DW_TAG_array_type:
        put_array(t, type, depth);
        break;
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        t->why = "a pointer means nothing in another process; telpher_bytes does";
        break;
    default:
        t->why = "a type that cannot be passed";
    }
}

/* Size and alignment of what the letters say, to compare with what the compiler made. */
static bool
measure(const char **at, Dwarf_Word *ret_size, Dwarf_Word *ret_align)
{
    static const char letters[] = "ocCsSiIlLfdgxz";
    static const unsigned char sizes[] = {
        1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, sizeof(long double), 8, 16};
    static const unsigned char aligns[] = {
        1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, _Alignof(long double), 4, 8};
    const char *found;
    Dwarf_Word end = 0, size, align;

    if (**at != '{') {
        found = strchr(letters, *(*at)++);
        if (found == NULL) {
            return false;
        }
        *ret_size = sizes[found - letters];
        *ret_align = aligns[found - letters];
        return true;
    }
    *ret_align = 1;
    for ((*at)++; **at != '}';) {
        if (!measure(at, &size, &align)) {
            return false;
        }
        end = (end + align - 1) / align * align + size;
        *ret_align = align > *ret_align ? align : *ret_align;
    }
    (*at)++;
    *ret_size = (end + *ret_align - 1) / *ret_align * *ret_align;
    return end != 0;
}

static void
put_parameter(struct text *t, Dwarf_Die *parameter)
{
    size_t start = t->len;
    const char *at;
    Dwarf_Die type;
    Dwarf_Word size, align;

    if (is_named(parameter, "telpher_bytes")) {
        put(t, 'B');
        return;
    }
    if (is_named(parameter, "telpher_block")) {
        put(t, 'A');
        return;
    }
    if (!type_of(parameter, &type)) {
        t->why = "a parameter without a type";
        return;
    }
    put_type(t, &type, 0);
    at = t->chars + start;
    if (t->why == NULL && dwarf_tag(&type) == DW_TAG_structure_type &&
        (!measure(&at, &size, &align) || size != number(&type, DW_AT_byte_size, 0))) {
        t->why = "a packed or empty struct";
    }
}

/* The signature of a function, or why it has none. */
static void
describe(Dwarf_Die *function, struct text *t)
{
    Dwarf_Die child, result;
    int parameters = 0;

    t->len = 0;
    t->chars[0] = '\0';
    t->why = NULL;
    if (type_of(function, &result) &&
        (dwarf_tag(&result) != DW_TAG_base_type ||
         number(&result, DW_AT_encoding, 0) != DW_ATE_signed ||
         number(&result, DW_AT_byte_size, 0) != 4)) {
        t->why = "it returns neither nothing nor int";
        return;
    }
    for (int rc = dwarf_child(function, &child); rc == 0 && t->why == NULL;
         rc = dwarf_siblingof(&child, &child)) {
        if (dwarf_tag(&child) == DW_TAG_unspecified_parameters) {
            t->why = "it takes any number of arguments";
        } else if (dwarf_tag(&child) == DW_TAG_formal_parameter) {
            put_parameter(t, &child);
            parameters++;
        }
    }
    if (parameters > TELPHER_KERNEL_ARGS_MAX) {
        t->why = "it takes more than 16 arguments";
    }
    if (dwarf_hasattr_integrate(function, DW_AT_type)) {
        put(t, '>');
        put(t, 'i');
    }
}

struct derive {
    bool verbose;
    int count;
};

static bool
is_identifier(const char *name)
{
    return name[0] != '\0' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                        "0123456789_") == strlen(name);
}

static void
take(struct derive *d, Dwarf_Die *function)
{
    Dwarf_Attribute attr;
    const char *name = dwarf_diename(function);
    bool external = false, declaration = false;
    struct text t;

    if (dwarf_attr(function, DW_AT_external, &attr) != NULL) {
        (void)dwarf_formflag(&attr, &external);
    }
    if (dwarf_attr(function, DW_AT_declaration, &attr) != NULL) {
        (void)dwarf_formflag(&attr, &declaration);
    }
    if (!external || declaration || name == NULL || !is_identifier(name) ||
        strcmp(name, "main") == 0 || dwarf_hasattr(function, DW_AT_linkage_name)) {
        return;
    }
    describe(function, &t);
    if (d->verbose) {
        fprintf(stderr, "telpher-worker-cc: %s: %s\n", name,
                t.why != NULL ? t.why : t.chars);
    }
    if (t.why != NULL) {
        return;
    }
    if (d->count == 0) {
        puts("struct kernel { unsigned struct_size, argcount; const char *name; const "
             "void *args; void *invoke; void *function; const char *signature; int "
             "returns_int; struct kernel *next; };\n"
             "void telpher_kernel_register_derived(struct kernel *);");
    }
    printf("extern char f%d __asm__(\"%s\") __attribute__((weak));\n"
           "static struct kernel k%d = {sizeof(struct kernel), 0, \"%s\", 0, 0, &f%d, "
           "\"%s\", 0, 0};\n",
           d->count, name, d->count, name, d->count, t.chars);
    d->count++;
}

static void
walk(struct derive *d, Dwarf *dwarf)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit, child;
    uint8_t kind;

    while (dwarf_get_units(dwarf, cu, &cu, NULL, &kind, &unit, NULL) == 0) {
        if (kind != DW_UT_compile) {
            continue;
        }
        for (int rc = dwarf_child(&unit, &child); rc == 0;
             rc = dwarf_siblingof(&child, &child)) {
            if (dwarf_tag(&child) == DW_TAG_subprogram) {
                take(d, &child);
            }
        }
    }
}

int
main(int argc, char **argv)
{
    struct derive d = {.verbose = argc == 3 && strcmp(argv[1], "--verbose") == 0};
    const char *path = argc > 1 ? argv[argc - 1] : "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;

    if (dwarf == NULL) {
        fprintf(stderr, "telpher-worker-cc: %s has no debug information: %s\n", path,
                dwarf_errmsg(-1));
        return EXIT_FAILURE;
    }
    walk(&d, dwarf);
    if (d.count != 0) {
        puts("__attribute__((constructor)) static void derived(void)\n{");
        for (int i = 0; i < d.count; i++) {
            printf("    if (&f%d != 0) telpher_kernel_register_derived(&k%d);\n", i, i);
        }
        puts("}");
    }
    dwarf_end(dwarf);
    close(fd);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
