/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: all alone | parent | worker
 * All static libraries in one program, each doing its work: alone, a rank of libtelpher, a
 * kernel of libtelpher-rma, an object of libtelpher-mdr and the devices of libtelpher-opencl; as
 * parent and worker of one launch, a kernel of libtelpher-offload.
 */
#include <CL/cl_icd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telpher/context.h>
#include <telpher/mdr.h>
#include <telpher/offload.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

enum { RANKS = 4 };

static int
twice(int number)
{
    return 2 * number;
}

TELPHER_KERNEL(twice, int)

TELPHER_RMA_KERNEL(sum)
{
    uint64_t *cells = (uint64_t *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    telpher_rma_win win;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, &cells[me], sizeof(cells[me]), &win);
    if (me > 0) {
        telpher_rma_wait(rma, 0, 1);
    }
    telpher_rma_put_value_notify(rma, win, (me + 1) % RANKS, 0, cells[me] + me, 0);
    if (me == 0) {
        telpher_rma_wait(rma, 0, 1);
    }
    telpher_rma_win_free(rma, win);
}

static void
use_api(void)
{
    telpher_context *context = NULL;

    CHECK(telpher_context_create(NULL, &context, NULL) == TELPHER_OK);
    CHECK(telpher_context_size(context) == 1);
    telpher_context_destroy(context);
}

static void
use_rma(void)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    uint64_t cells[RANKS] = {0};

    params.ranks = RANKS;
    CHECK(telpher_rma_create(&params, &job, NULL) == TELPHER_OK);
    CHECK(telpher_rma_run(job, &sum, cells, NULL) == TELPHER_OK);
    CHECK(cells[0] == RANKS * (RANKS - 1) / 2);
    telpher_rma_destroy(job);
}

struct counter {
    uint64_t sum;
};

/* The last of the numbers 1 to RANKS ends the run. */
static void
counter_add(telpher_mdr_call *call)
{
    struct counter *c = TELPHER_MDR_SELF(call, struct counter);
    uint64_t number = *TELPHER_MDR_PARAMS(call, uint64_t);

    c->sum += number;
    if (number == RANKS) {
        telpher_mdr_exit(call->mdr, c->sum == RANKS * (RANKS + 1) / 2
                                        ? TELPHER_OK
                                        : TELPHER_ERR_PROTO);
    }
}

static void
count(telpher_mdr_call *call)
{
    const uint32_t *class_id = telpher_mdr_user(call->mdr);
    const telpher_mdr_index first = {{0, 0, 0}};
    const int32_t extent = 1;
    telpher_mdr_array counters;

    CHECK(telpher_mdr_array_create(call->mdr, *class_id, 1, &extent, NULL, 0,
                                   &counters) == TELPHER_OK);
    for (uint64_t number = 1; number <= RANKS; number++) {
        CHECK(TELPHER_MDR_INVOKE(call->mdr, &counters, first, 0, uint64_t, &number) ==
              TELPHER_OK);
    }
}

static void
use_mdr(void)
{
    static const telpher_mdr_entry entries[] = {
        TELPHER_MDR_ENTRY(counter_add, uint64_t)};
    static const telpher_mdr_class counters = {.struct_size = sizeof(counters),
                                               .entry_count = 1,
                                               .name = "counter",
                                               .object_size = sizeof(struct counter),
                                               .entries = entries};
    telpher_mdr *mdr;
    uint32_t class_id;

    CHECK(telpher_mdr_create(NULL, &mdr, NULL) == TELPHER_OK);
    CHECK(telpher_mdr_class_register(mdr, &counters, &class_id) == TELPHER_OK);
    CHECK(telpher_mdr_run(mdr, count, &class_id) == TELPHER_OK);
    telpher_mdr_destroy(mdr);
}

static void
use_opencl(void)
{
    cl_platform_id platform;
    const cl_icd_dispatch *table;
    cl_uint count = 0, devices = 0;

    CHECK(clIcdGetPlatformIDsKHR(1, &platform, &count) == CL_SUCCESS && count == 1);
    table = *(const cl_icd_dispatch **)(void *)platform;
    CHECK(table->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &devices) ==
          CL_SUCCESS);
    CHECK(devices > 0);
}

static void
use_offload(void)
{
    int number = 21, sizes[] = {sizeof(number)};
    void *args[] = {&number};
    MPI_Comm inter;
    MPIX_Kernel_request request;
    MPIX_Kernel_status status = {0};

    CHECK(telpher_offload_start(NULL, 0, MPI_COMM_WORLD, &inter, NULL) == TELPHER_OK);
    MPIX_Kernel_icall("twice", 1, args, sizes, 0, MPI_COMM_WORLD, inter, &request);
    MPIX_Kernel_wait(&request, &status);
    CHECK(status.result == 2 * number);
    MPIX_Kernel_call("", 0, NULL, NULL, 0, MPI_COMM_WORLD, inter);
}

int
main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";

    if (strcmp(part, "worker") == 0) {
        return telpher_worker_main(1, argv); /* other arguments are plugins */
    }
    if (strcmp(part, "parent") == 0) {
        MPI_Init(&argc, &argv);
        use_offload();
        MPI_Finalize();
    } else {
        use_api();
        use_rma();
        use_mdr();
        use_opencl();
    }
    printf("%s: good\n", part);
    return 0;
}
