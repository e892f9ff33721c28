/* SPDX-License-Identifier: Apache-2.0 */
/* Datatypes: external32, types of Fortran by precision, elements of parts of a type, statuses.
 * Any MPI runs it. usage: telpher launch -n N -- ampi_datatypes [+vp M] */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static int rank, failures;

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition) && failures++ < 10) {                                         \
            fprintf(stderr, "rank %d, line %d: %s: FAILED\n", rank, __LINE__,          \
                    #condition);                                                       \
        }                                                                              \
    } while (0)

struct record {
    char tag;
    double values[2];
    long wide;
    short last;
};

static MPI_Datatype
make_record(void)
{
    const int lengths[4] = {1, 2, 1, 1};
    const MPI_Aint displs[4] = {
        offsetof(struct record, tag), offsetof(struct record, values),
        offsetof(struct record, wide), offsetof(struct record, last)};
    const MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_LONG, MPI_SHORT};
    MPI_Datatype record, resized;

    MPI_Type_create_struct(4, lengths, displs, types, &record);
    MPI_Type_create_resized(record, 0, sizeof(struct record), &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&record);
    return resized;
}

/* ---- external32 ---- */

static void
expect_bytes(const void *value, MPI_Datatype type, const char *bytes, size_t len)
{
    char packed[64] = {0}, back[64] = {0};
    MPI_Aint position = 0, size = 0;
    int native;

    MPI_Pack_external_size("external32", 1, type, &size);
    EXPECT(size == (MPI_Aint)len);
    MPI_Pack_external("external32", value, 1, type, packed, sizeof(packed), &position);
    EXPECT(position == (MPI_Aint)len && memcmp(packed, bytes, len) == 0);
    position = 0;
    MPI_Unpack_external("external32", packed, (MPI_Aint)len, &position, back, 1, type);
    MPI_Type_size(type, &native);
    EXPECT(position == (MPI_Aint)len &&
           memcmp(value, back, type == MPI_LONG_DOUBLE ? 10 : (size_t)native) == 0);
}

static void
test_external(void)
{
    const int number = 0x01020304;
    const short small = -2;
    const double one = 1.0;
    const float half[2] = {0.5f, -2.0f};
    const long minus = -5;
    const unsigned long large = 0x80000001ul;
    const wchar_t letter = 0x20ac;
    const long double third = 1.0L / 3;
    const struct {
        double value;
        int at;
    } pair = {1.0, 7};

    expect_bytes(&number, MPI_INT, "\1\2\3\4", 4);
    expect_bytes(&small, MPI_SHORT, "\xff\xfe", 2);
    expect_bytes(&one, MPI_DOUBLE, "\x3f\xf0\0\0\0\0\0\0", 8);
    expect_bytes(half, MPI_C_FLOAT_COMPLEX, "\x3f\0\0\0\xc0\0\0\0", 8);
    expect_bytes(&minus, MPI_LONG, "\xff\xff\xff\xfb", 4);
    expect_bytes(&large, MPI_UNSIGNED_LONG, "\x80\0\0\1", 4);
    expect_bytes(&letter, MPI_WCHAR, "\x20\xac", 2);
    expect_bytes(&third, MPI_LONG_DOUBLE,
                 "\x3f\xfd\x55\x55\x55\x55\x55\x55\x55\x56\0\0\0\0\0\0", 16);
    expect_bytes(&pair, MPI_DOUBLE_INT, "\x3f\xf0\0\0\0\0\0\0\0\0\0\7", 12);
}

static void
test_external_records(void)
{
    struct record out[3] = {
        {'a', {1, 2}, -3, 4}, {'b', {5, 6}, 7, 8}, {'c', {9, 10}, 11, 12}};
    struct record in[3];
    MPI_Datatype record = make_record(), pairs;
    char packed[128];
    MPI_Aint size, position = 0;
    int code, class;

    memset(in, 0, sizeof(in));
    MPI_Type_contiguous(3, record, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Pack_external_size("external32", 1, pairs, &size);
    EXPECT(size == 3 * (1 + 16 + 4 + 2));
    MPI_Pack_external("external32", out, 3, record, packed, sizeof(packed), &position);
    EXPECT(position == size && packed[0] == 'a' && packed[23] == 'b');
    position = 0;
    MPI_Unpack_external("external32", packed, size, &position, in, 1, pairs);
    for (int i = 0; i < 3; i++) {
        EXPECT(in[i].tag == out[i].tag && in[i].values[1] == out[i].values[1] &&
               in[i].wide == out[i].wide && in[i].last == out[i].last);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    position = 0;
    code = MPI_Pack_external("external32", out, 3, record, packed, size - 1, &position);
    MPI_Error_class(code, &class);
    EXPECT(class != MPI_SUCCESS && position == 0);
    EXPECT(MPI_Pack_external("external64", out, 1, record, packed, size, &position) !=
           MPI_SUCCESS);
    MPI_Type_free(&pairs);
    MPI_Type_free(&record);
}

/* ---- Fortran's types ---- */

static void
test_f90(void)
{
    MPI_Datatype eight, nine, again, real, complex;
    int counts[3], combiner, numbers[2], size, sum = 0, one = 1;
    double in = rank, out = -1;
    MPI_Aint no_address;
    MPI_Datatype no_type;

    MPI_Type_create_f90_integer(8, &eight);
    MPI_Type_create_f90_integer(9, &nine);
    MPI_Type_create_f90_integer(8, &again);
    EXPECT(eight == again && eight != nine);
    MPI_Type_size(eight, &size);
    EXPECT(size == 4);
    MPI_Type_create_f90_real(15, 307, &real);
    MPI_Type_get_envelope(real, &counts[0], &counts[1], &counts[2], &combiner);
    EXPECT(counts[0] == 2 && counts[1] == 0 && counts[2] == 0 &&
           combiner == MPI_COMBINER_F90_REAL);
    MPI_Type_get_contents(real, 2, 0, 0, numbers, &no_address, &no_type);
    EXPECT(numbers[0] == 15 && numbers[1] == 307);
    MPI_Type_create_f90_complex(MPI_UNDEFINED, 37, &complex);
    MPI_Type_size(complex, &size);
    EXPECT(size == 8);
    MPI_Allreduce(&one, &sum, 1, eight, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    EXPECT(sum == size);
    MPI_Allreduce(&in, &out, 1, real, MPI_MAX, MPI_COMM_WORLD);
    EXPECT(out == size - 1);
    EXPECT(MPI_Type_create_f90_integer(400, &again) != MPI_SUCCESS);
    EXPECT(MPI_Type_free(&eight) != MPI_SUCCESS);
}

/* ---- elements, statuses ---- */

static void
expect_elements(MPI_Datatype type, int bytes, int expected)
{
    MPI_Status status;
    char data[64] = {0};
    int count = -1;

    MPI_Sendrecv(data, bytes, MPI_BYTE, 0, 0, data + 32, 32, MPI_BYTE, 0, 0,
                 MPI_COMM_SELF, &status);
    MPI_Get_elements(&status, type, &count);
    EXPECT(count == expected);
}

static void
test_elements(void)
{
    MPI_Datatype record = make_record(), vector;

    expect_elements(record, 0, 0);
    expect_elements(record, 1, 1);
    expect_elements(record, 9, 2);
    expect_elements(record, 25, 4);
    expect_elements(record, 27, 5);
    expect_elements(record, 28, 6);
    expect_elements(record, 10, MPI_UNDEFINED);
    expect_elements(MPI_2INTEGER, 4, 1);
    MPI_Type_vector(2, 1, 2, record, &vector);
    expect_elements(vector, 17, 3);
    MPI_Type_free(&vector);
    MPI_Type_free(&record);
}

static void
test_statuses(void)
{
    MPI_Status status, back;
    MPI_F08_status f08;
    MPI_Fint fortran[MPI_F_STATUS_SIZE];
    int value = 5, count;

    MPI_Sendrecv(&value, 1, MPI_INT, 0, 3, &value, 1, MPI_INT, 0, 3, MPI_COMM_SELF,
                 &status);
    status.MPI_ERROR = 7;
    MPI_Status_c2f08(&status, &f08);
    MPI_Status_f082f(&f08, fortran);
    EXPECT(fortran[MPI_F_SOURCE] == 0 && fortran[MPI_F_TAG] == 3 &&
           fortran[MPI_F_ERROR] == 7);
    memset(&f08, 0, sizeof(f08));
    MPI_Status_f2f08(fortran, &f08);
    MPI_Status_f082c(&f08, &back);
    MPI_Get_count(&back, MPI_INT, &count);
    EXPECT(back.MPI_TAG == 3 && count == 1);
}

static void
expect_extent(MPI_Datatype *type, MPI_Aint lower, MPI_Aint length)
{
    MPI_Aint lb, extent;

    MPI_Type_get_extent(*type, &lb, &extent);
    EXPECT(lb == lower && extent == length);
    MPI_Type_free(type);
}

/* Bounds that the program has set also bound the types made of such a type. */
static void
test_bounds(void)
{
    int lengths[] = {1, 4, 1};
    MPI_Aint displs[] = {-3, 0, 6}, behind[] = {0, 8};
    MPI_Datatype types[] = {MPI_LB, MPI_BYTE, MPI_UB}, short_int, made, copy;
    MPI_Datatype pair[2];

    MPI_Type_create_struct(3, lengths, displs, types, &made);
    MPI_Type_contiguous(2, made, &copy);
    MPI_Type_free(&made);
    expect_extent(&copy, -3, 18);
    MPI_Type_create_resized(MPI_INT, 0, 6, &short_int);
    pair[0] = short_int;
    pair[1] = MPI_INT;
    MPI_Type_create_struct(2, (int[]){1, 1}, behind, pair, &made);
    expect_extent(&made, 0, 6);
    MPI_Type_dup(short_int, &copy);
    expect_extent(&copy, 0, 6);
    MPI_Type_free(&short_int);
}

/* Names of the standard for types that have two. */
static void
test_names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;

    MPI_Type_get_name(MPI_C_FLOAT_COMPLEX, name, &length);
    EXPECT(strcmp(name, "MPI_C_COMPLEX") == 0);
    MPI_Type_get_name(MPI_INTEGER16, name, &length);
    EXPECT(strcmp(name, "MPI_INTEGER16") == 0);
    EXPECT(PMPI_Message_f2c(PMPI_Message_c2f(MPI_MESSAGE_NULL)) == MPI_MESSAGE_NULL);
}

static void
test_others(void)
{
    MPI_Comm copy;
    MPI_Request request;
    MPI_Info info;
    int result, flag, length = 64;
    char value[64];

    MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_compare(copy, MPI_COMM_WORLD, &result);
    EXPECT(result == MPI_CONGRUENT);
    MPI_Comm_free(&copy);
    MPI_Info_create_env(0, NULL, &info);
    MPI_Info_get_string(info, "maxprocs", &length, value, &flag);
    EXPECT(flag);
    MPI_Info_free(&info);
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    test_external();
    test_external_records();
    test_f90();
    test_elements();
    test_statuses();
    test_bounds();
    test_names();
    test_others();
    MPI_Finalize();
    return failures != 0;
}
