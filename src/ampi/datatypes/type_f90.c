/* SPDX-License-Identifier: Apache-2.0 */
/* Types of Fortran that are chosen by precision and range: made once, never freed. MPI-3.1, 17.1.9. */
#include "ampi/process.h"
#include "base/alloc.h"

/** A type that a rank has asked for. */
struct tp_ampi_f90 {
    struct tp_ampi_f90 *next;
    int combiner, precision, range;
    MPI_Datatype type;
};

struct choice {
    int precision, range; /**< decimal: the most that the type has */
    MPI_Datatype type;
};

static const struct choice integers[] = {{0, 2, MPI_INTEGER1},
                                         {0, 4, MPI_INTEGER2},
                                         {0, 9, MPI_INTEGER4},
                                         {0, 18, MPI_INTEGER8}};
static const struct choice reals[] = {
    {6, 37, MPI_REAL4}, {15, 307, MPI_REAL8}, {18, 4931, MPI_LONG_DOUBLE}};
static const struct choice complexes[] = {{6, 37, MPI_COMPLEX8},
                                          {15, 307, MPI_COMPLEX16},
                                          {18, 4931, MPI_C_LONG_DOUBLE_COMPLEX}};

static MPI_Datatype
choose(const struct choice *choices, size_t count, int precision, int range)
{
    for (size_t i = 0; i < count; i++) {
        if (precision <= choices[i].precision && range <= choices[i].range) {
            return choices[i].type;
        }
    }
    return MPI_DATATYPE_NULL;
}

static int
make(MPI_Datatype base, int combiner, const int *integers_of, int integer_count,
     MPI_Datatype *ret)
{
    const struct tp_ampi_block block = {0, 1, tp_ampi_type_get(base)};
    const struct tp_ampi_contents contents = {
        .combiner = combiner, .integers = integers_of, .integer_count = integer_count};
    struct tp_ampi_type *type = NULL;
    int error = tp_ampi_type_make(&block, 1, &contents, &type);

    error = tp_ampi_type_give(type, error, ret);
    if (error == MPI_SUCCESS) {
        type->committed = true;
    }
    return error;
}

static int
find_or_make(int combiner, MPI_Datatype base, int precision, int range,
             MPI_Datatype *ret)
{
    const int numbers[2] = {precision, range};
    bool is_integer = combiner == MPI_COMBINER_F90_INTEGER;
    struct tp_ampi_rank *rank = tp_ampi_current();
    struct tp_ampi_f90 *made = rank->f90_types;
    int error;

    while (made != NULL && (made->combiner != combiner ||
                            made->precision != precision || made->range != range)) {
        made = made->next;
    }
    if (made != NULL) {
        *ret = made->type;
        return MPI_SUCCESS;
    }
    made = tp_zalloc(sizeof(*made), "MPI datatype");
    error = made != NULL ? make(base, combiner, is_integer ? &range : numbers,
                                is_integer ? 1 : 2, ret)
                         : MPI_ERR_NO_MEM;
    if (error != MPI_SUCCESS) {
        tp_free(made);
        return error;
    }
    *made = (struct tp_ampi_f90){rank->f90_types, combiner, precision, range, *ret};
    rank->f90_types = made;
    return MPI_SUCCESS;
}

void
tp_ampi_f90_types_fini(struct tp_ampi_rank *rank)
{
    while (rank->f90_types != NULL) {
        struct tp_ampi_f90 *made = rank->f90_types;

        rank->f90_types = made->next;
        tp_ampi_type_unref(made->type);
        tp_free(made);
    }
}

static int
create(int combiner, const struct choice *choices, size_t count, int precision,
       int range, MPI_Datatype *ret)
{
    MPI_Datatype base =
        choose(choices, count, precision == MPI_UNDEFINED ? 0 : precision,
               range == MPI_UNDEFINED ? 0 : range);
    int error;

    *ret = MPI_DATATYPE_NULL;
    if (base == MPI_DATATYPE_NULL) {
        return tp_ampi_error(NULL, MPI_ERR_ARG,
                             "no type of Fortran has %d digits and exponents up to %d",
                             precision, range);
    }
    tp_ampi_enter();
    error = find_or_make(combiner, base, precision, range, ret);
    tp_ampi_leave();
    return error;
}

int
PMPI_Type_create_f90_integer(int range, MPI_Datatype *ret)
{
    return create(MPI_COMBINER_F90_INTEGER, integers, TP_ARRAY_LEN(integers), 0, range,
                  ret);
}
TP_MPI_NAME(Type_create_f90_integer);

int
PMPI_Type_create_f90_real(int precision, int range, MPI_Datatype *ret)
{
    return create(MPI_COMBINER_F90_REAL, reals, TP_ARRAY_LEN(reals), precision, range,
                  ret);
}
TP_MPI_NAME(Type_create_f90_real);

int
PMPI_Type_create_f90_complex(int precision, int range, MPI_Datatype *ret)
{
    return create(MPI_COMBINER_F90_COMPLEX, complexes, TP_ARRAY_LEN(complexes),
                  precision, range, ret);
}
TP_MPI_NAME(Type_create_f90_complex);
