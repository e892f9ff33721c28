/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The basic types that a datatype consists of, in their order, and their representation external32:
 * big-endian, of sizes that do not depend on the machine. MPI-3.1, 13.5.2.
 */
#include <float.h>
#include <string.h>

#include "ampi/type.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "external32 is reversed");

/* ---- signature ---- */

/* The two basic types of a pair. @return false: it is none */
static bool
split_pair(MPI_Datatype pair, MPI_Datatype *first, MPI_Datatype *second)
{
    static const MPI_Datatype all[][3] = {
        {MPI_FLOAT_INT, MPI_FLOAT, MPI_INT},
        {MPI_DOUBLE_INT, MPI_DOUBLE, MPI_INT},
        {MPI_LONG_INT, MPI_LONG, MPI_INT},
        {MPI_SHORT_INT, MPI_SHORT, MPI_INT},
        {MPI_2INT, MPI_INT, MPI_INT},
        {MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE, MPI_INT},
        {MPI_2INTEGER, MPI_INTEGER, MPI_INTEGER},
        {MPI_2REAL, MPI_REAL, MPI_REAL},
        {MPI_2DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION},
    };

    for (size_t i = 0; i < TP_ARRAY_LEN(all); i++) {
        if (all[i][0] == pair) {
            *first = all[i][1];
            *second = all[i][2];
            return true;
        }
    }
    return false;
}

static bool
visit_named(MPI_Datatype type, size_t count, tp_ampi_basic_fn *fn, void *arg)
{
    MPI_Datatype first, second;

    if (!split_pair(type, &first, &second)) {
        return count == 0 || fn(arg, type, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!fn(arg, first, 1) || !fn(arg, second, 1)) {
            return false;
        }
    }
    return true;
}

bool
tp_ampi_type_visit(MPI_Datatype handle, size_t count, tp_ampi_basic_fn *fn, void *arg)
{
    const struct tp_ampi_type *type = tp_ampi_type_get(handle);
    MPI_Datatype part = type->element;

    if (type->combiner == MPI_COMBINER_NAMED || type->size == 0) {
        return type->size == 0 || visit_named(handle, count, fn, arg);
    }
    if (part == MPI_DATATYPE_NULL && type->combiner != MPI_COMBINER_STRUCT) {
        part = type->types[0];
    }
    if (part != MPI_DATATYPE_NULL) { /* all of one kind, however they lie */
        return tp_ampi_type_visit(
            part, count * (type->size / tp_ampi_type_get(part)->size), fn, arg);
    }
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < type->type_count; k++) {
            if (!tp_ampi_type_visit(type->types[k], (size_t)type->integers[k + 1], fn,
                                    arg)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- external32 ---- */

/* A basic type: `units` numbers, each of so many bytes here and there. */
struct form {
    size_t units, native, external;
    bool is_signed, is_quad; /**< quad: IEEE's binary128 there, a long double here */
};

static struct form
form_of(MPI_Datatype basic)
{
    size_t size = tp_ampi_type_size(basic);
    struct form form = {.units = 1, .native = size, .external = size};

    switch (basic) {
    case MPI_LONG:
        form.is_signed = true;
        form.external = 4;
        break;
    case MPI_UNSIGNED_LONG:
        form.external = 4;
        break;
    case MPI_WCHAR:
        form.external = 2;
        break;
    case MPI_LONG_DOUBLE:
        form.is_quad = true;
        break;
    case MPI_C_FLOAT_COMPLEX:
    case MPI_C_DOUBLE_COMPLEX:
    case MPI_C_LONG_DOUBLE_COMPLEX:
    case MPI_CXX_FLOAT_COMPLEX:
    case MPI_CXX_DOUBLE_COMPLEX:
    case MPI_CXX_LONG_DOUBLE_COMPLEX:
    case MPI_COMPLEX:
    case MPI_DOUBLE_COMPLEX:
    case MPI_COMPLEX8:
    case MPI_COMPLEX16:
        form.units = 2;
        form.native = form.external = size / 2;
        form.is_quad = form.native == sizeof(long double);
        break;
    default:
        break;
    }
    return form;
}

static void
reverse(unsigned char *to, const unsigned char *from, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        to[i] = from[len - 1 - i];
    }
}

#if LDBL_MANT_DIG == 113
typedef long double quad;
#else
__extension__ typedef __float128 quad;
#endif

static void
write_unit(const struct form *form, const unsigned char *from, unsigned char *to)
{
    if (form->is_quad) {
        long double here;
        quad there;

        memcpy(&here, from, sizeof(here));
        there = here;
        reverse(to, (const unsigned char *)&there, sizeof(there));
    } else {
        reverse(to, from, form->external);
    }
}

static void
read_unit(const struct form *form, const unsigned char *from, unsigned char *to)
{
    if (form->is_quad) {
        long double here;
        quad there;

        reverse((unsigned char *)&there, from, sizeof(there));
        here = (long double)there;
        memcpy(to, &here, sizeof(here));
    } else {
        memset(to, form->is_signed && from[0] >= 0x80 ? 0xff : 0, form->native);
        reverse(to, from, form->external);
    }
}

struct conversion {
    unsigned char *native, *external; /**< NULL: only adds up `len` */
    bool writes;
    size_t len;
};

static bool
convert(void *arg, MPI_Datatype basic, size_t count)
{
    struct conversion *c = arg;
    struct form form = form_of(basic);

    c->len += count * form.units * form.external;
    for (size_t i = 0; c->native != NULL && i < count * form.units; i++) {
        if (c->writes) {
            write_unit(&form, c->native, c->external);
        } else {
            read_unit(&form, c->external, c->native);
        }
        c->native += form.native;
        c->external += form.external;
    }
    return true;
}

size_t
tp_ampi_external_size(MPI_Datatype handle)
{
    struct conversion c = {0};

    (void)tp_ampi_type_visit(handle, 1, convert, &c);
    return c.len;
}

void
tp_ampi_external_write(const void *native, size_t count, MPI_Datatype handle,
                       void *external)
{
    struct conversion c = {(void *)(uintptr_t)native, external, true, 0};

    (void)tp_ampi_type_visit(handle, count, convert, &c);
}

void
tp_ampi_external_read(const void *external, size_t count, MPI_Datatype handle,
                      void *native)
{
    struct conversion c = {native, (void *)(uintptr_t)external, false, 0};

    (void)tp_ampi_type_visit(handle, count, convert, &c);
}
