/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of shared virtual memory: taken in the program, in an executor, or nowhere free;
 * chosen by a driver; beyond a limit of memory; and a kernel that writes elsewhere. It works,
 * or there is no memory, and never is an address wrong. With the argument "fixed" addresses are
 * not randomised, so that the program and the executors look alike. Each case is a process of
 * its own.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "servers.h"

/* Sanitizers need more addresses than a limit leaves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_LIMIT false
#else
#define MAY_LIMIT true
#endif

#define DRIVERS_FIRST                                                                  \
    0x300000000000ULL /* of servers whose driver chooses these addresses */
#define DRIVERS_STEP 0x100000ULL

enum {
    STARTS = 200,
    INTS = 1000,
    TIB = 40 /* log2 of its bytes */,
    LIMIT_S = 100 /* of a case */
};

static struct servers real, anywhere, chosen, limited;
/** The driver of the machine chooses addresses, as NVIDIA's does. */
static bool real_chooses;

/* ---- what a case uses --------------------------------------------------------------------- */

struct scene {
    cl_device_id devices[4];
    cl_uint count;
    cl_context ctx;
    cl_command_queue queues[4];
    cl_program program;
};

static void
open_scene(struct scene *s)
{
    const char *source =
        "kernel void inc(global int *x, int by) { x[get_global_id(0)] += by; }\n"
        "kernel void wild(global int *x) { x[1L << 40] = 1; }\n";
    cl_platform_id platform;
    cl_int err;

    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 4, s->devices, &s->count));
    s->ctx = clCreateContext(NULL, s->count, s->devices, NULL, NULL, &err);
    CHECK(err);
    for (cl_uint i = 0; i < s->count; i++) {
        s->queues[i] =
            clCreateCommandQueueWithProperties(s->ctx, s->devices[i], NULL, &err);
        CHECK(err);
    }
    s->program = clCreateProgramWithSource(s->ctx, 1, &source, NULL, &err);
    CHECK(err);
    CHECK(clBuildProgram(s->program, 0, NULL, NULL, NULL, NULL));
}

/** Changes an allocation with kernels on all devices; a wrong address would show. */
static void
use(const struct scene *s, int *ints)
{
    cl_int err, by = 3;
    cl_kernel kernel = clCreateKernel(s->program, "inc", &err);
    size_t global = INTS;

    CHECK(err);
    CHECK(clEnqueueSVMMap(s->queues[0], CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, ints,
                          INTS * sizeof(int), 0, NULL, NULL));
    for (int i = 0; i < INTS; i++) {
        ints[i] = i;
    }
    CHECK(clEnqueueSVMUnmap(s->queues[0], ints, 0, NULL, NULL));
    CHECK(clFinish(s->queues[0]));
    CHECK(clSetKernelArgSVMPointer(kernel, 0, ints));
    CHECK(clSetKernelArg(kernel, 1, sizeof(by), &by));
    for (cl_uint i = 0; i < s->count; i++) {
        CHECK(clEnqueueNDRangeKernel(s->queues[i], kernel, 1, NULL, &global, NULL, 0,
                                     NULL, NULL));
        CHECK(clFinish(s->queues[i]));
    }
    CHECK(clEnqueueSVMMap(s->queues[0], CL_TRUE, CL_MAP_READ, ints, INTS * sizeof(int),
                          0, NULL, NULL));
    for (int i = 0; i < INTS; i++) {
        MUST(ints[i] == i + 3 * (int)s->count);
    }
    CHECK(clEnqueueSVMUnmap(s->queues[0], ints, 0, NULL, NULL));
    CHECK(clFinish(s->queues[0]));
    clReleaseKernel(kernel);
}

static int *
allocate(const struct scene *s)
{
    return clSVMAlloc(s->ctx, CL_MEM_READ_WRITE, INTS * sizeof(int), 0);
}

static void
works(void)
{
    struct scene s;
    int *ints;

    open_scene(&s);
    ints = allocate(&s);
    MUST(ints != NULL);
    use(&s, ints);
    clSVMFree(s.ctx, ints);
}

static void (*this_case)(void);

static void
run_this_case(void)
{
    this_case();
    _exit(0); /* what a case holds ends with it */
}

/** Runs a case with some servers, in a child that may set a place. @return its exit status */
static int
run_case(void (*what)(void), const char *addresses, const char *place)
{
    setenv("TELPHER_SVM_ADDRESS", place, 1);
    this_case = what;
    return servers_run_case(run_this_case, addresses, LIMIT_S);
}

static const char *
address_of(const struct servers *servers, unsigned i)
{
    static char text[128];

    snprintf(text, sizeof(text), "unix:%s/%u.sock", servers->dir, i);
    return text;
}

static const char *
addresses_of(const struct servers *a, const struct servers *b)
{
    static char text[256];

    snprintf(text, sizeof(text), "unix:%s/0.sock,unix:%s/%u.sock", a->dir, b->dir,
             a == b);
    return text;
}

/** A second driver that chooses addresses cannot be told the first one's. */
static void
case_none(void)
{
    struct scene s;

    open_scene(&s);
    MUST(allocate(&s) == NULL);
}

/** Memory of one device needs the address of one driver: the first device uses its own. */
static void
case_one_device(void)
{
    clDeviceMemAllocINTEL_fn alloc;
    clSetKernelArgMemPointerINTEL_fn set_pointer;
    clEnqueueMemcpyINTEL_fn copy;
    clMemFreeINTEL_fn release;
    const size_t count = INTS;
    cl_platform_id platform;
    int ints[INTS] = {0}, by = 3;
    cl_kernel kernel;
    struct scene s;
    cl_int err;
    void *ptr;

    open_scene(&s);
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    alloc = (clDeviceMemAllocINTEL_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clDeviceMemAllocINTEL");
    set_pointer =
        (clSetKernelArgMemPointerINTEL_fn)clGetExtensionFunctionAddressForPlatform(
            platform, "clSetKernelArgMemPointerINTEL");
    copy = (clEnqueueMemcpyINTEL_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueMemcpyINTEL");
    release = (clMemFreeINTEL_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clMemFreeINTEL");
    MUST(alloc != NULL && set_pointer != NULL && copy != NULL && release != NULL);
    ptr = alloc(s.ctx, s.devices[0], NULL, sizeof(ints), 0, &err);
    CHECK(err);
    CHECK(copy(s.queues[0], CL_TRUE, ptr, ints, sizeof(ints), 0, NULL, NULL));
    kernel = clCreateKernel(s.program, "inc", &err);
    CHECK(err);
    CHECK(set_pointer(kernel, 0, ptr));
    CHECK(clSetKernelArg(kernel, 1, sizeof(by), &by));
    CHECK(clEnqueueNDRangeKernel(s.queues[0], kernel, 1, NULL, &count, NULL, 0, NULL,
                                 NULL));
    CHECK(copy(s.queues[0], CL_TRUE, ints, ptr, sizeof(ints), 0, NULL, NULL));
    for (int i = 0; i < INTS; i++) {
        MUST(ints[i] == by);
    }
    CHECK(release(s.ctx, ptr));
}

/** Fails if the memory is not at the place that was asked for. */
static void
case_at_place(void)
{
    uintptr_t from = strtoull(getenv("TELPHER_SVM_ADDRESS"), NULL, 0), at;
    struct scene s;

    open_scene(&s);
    at = (uintptr_t)allocate(&s);
    MUST(at != 0);
    if (at < from || at - from >= (uintptr_t)1 << TIB) {
        _exit(2);
    }
}

/* ---- taken in the program ------------------------------------------------------------------ */

static void
occupy(uint64_t from, uint64_t len)
{
    void *taken =
        mmap((void *)(uintptr_t)from, len, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    MUST(taken == (void *)(uintptr_t)from || errno == EEXIST); /* a sanitizer has it */
}

static void
case_first_range_taken(void)
{
    occupy((uint64_t)32 << TIB, (uint64_t)16 << TIB);
    works();
}

static void
case_both_ranges_taken(void)
{
    occupy((uint64_t)128 << 30, (uint64_t)64 << 30);
    case_first_range_taken();
}

/** All of the place that was asked for is taken: there is no memory, nothing else happens. */
static void
case_place_taken(void)
{
    struct scene s;

    occupy((uint64_t)80 << TIB, (uint64_t)1 << TIB);
    open_scene(&s);
    MUST(allocate(&s) == NULL);
}

static void
the_program_has_it(void **state)
{
    (void)state;
    assert_int_equal(run_case(case_both_ranges_taken, address_of(&real, 0), ""), 0);
    if (real_chooses) {
        assert_int_equal(run_case(case_none, addresses_of(&real, &real), ""), 0);
        return; /* no place can be asked for */
    }
    assert_int_equal(run_case(works, addresses_of(&real, &real), ""), 0);
    assert_int_equal(run_case(case_first_range_taken, addresses_of(&real, &real), ""),
                     0);
    assert_int_equal(run_case(case_place_taken, address_of(&real, 0), "0x500000000000"),
                     0);
}

/* ---- taken in an executor --------------------------------------------------------------------- */

static bool
is_free_here(unsigned long long from, unsigned long long to)
{
    void *memory =
        mmap((void *)(uintptr_t)from, to - from, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    if (memory != MAP_FAILED) {
        munmap(memory, to - from);
    }
    return memory != MAP_FAILED;
}

/** The executor of this process's session: the youngest child of the server. */
static pid_t
executor_of(pid_t server)
{
    char path[64];
    int pid = 0, last = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)server, (int)server);
    file = fopen(path, "r");
    MUST(file != NULL);
    while (fscanf(file, "%d", &pid) == 1) {
        last = pid;
    }
    fclose(file);
    MUST(last != 0);
    return last;
}

/** Writes down an address near the end of a mapping that the executor has and this process
 *  has not; behind it is room on both sides. */
static void
case_find_place(void)
{
    const unsigned long long room = 0x400000;
    unsigned long long from, to, from_before = 0, to_before = 0;
    struct scene s;
    char path[64], line[512];
    FILE *maps, *out = fopen(getenv("PLACE_FILE"), "w");

    open_scene(&s);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)executor_of(real.pid[0]));
    maps = fopen(path, "r");
    MUST(maps != NULL && out != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%llx-%llx", &from, &to) == 2 && to_before != 0 &&
            to_before - from_before >= 0x80000 && from - to_before >= room &&
            is_free_here(to_before - 0x80000, to_before + room)) {
            fprintf(out, "0x%llx", (to_before - 0x80000) / 0x10000 * 0x10000);
            break;
        }
        from_before = from;
        to_before = to;
    }
    fclose(maps);
    fclose(out);
}

static void
case_beyond_what_the_executor_has(void)
{
    struct scene s;
    int *ints;

    open_scene(&s);
    ints = allocate(&s);
    MUST(ints != NULL);
    MUST((uintptr_t)ints > strtoull(getenv("TELPHER_SVM_ADDRESS"), NULL, 0));
    use(&s, ints);
}

static void
the_executor_has_it(void **state)
{
    char path[128], place[32] = "";
    FILE *file;

    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the sanitizer's own mappings lie behind the place that is found */
#endif
    if (real_chooses || (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0) {
        skip(); /* the next executor's addresses are not known */
    }
    snprintf(path, sizeof(path), "%s/place", real.dir);
    setenv("PLACE_FILE", path, 1);
    assert_int_equal(run_case(case_find_place, address_of(&real, 0), ""), 0);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%31s", place), 1);
    fclose(file);
    unlink(path);
    assert_int_equal(
        run_case(case_beyond_what_the_executor_has, address_of(&real, 0), place), 0);
}

/* ---- chosen by a driver ------------------------------------------------------------------------- */

static void
case_two_of_the_drivers_places_taken(void)
{
    struct scene s;
    int *ints;

    occupy(DRIVERS_FIRST, 2 * DRIVERS_STEP);
    open_scene(&s);
    ints = allocate(&s);
    MUST(ints == (void *)(uintptr_t)(DRIVERS_FIRST + 2 * DRIVERS_STEP));
    use(&s, ints);
}

static void
case_all_of_the_drivers_places_taken(void)
{
    struct scene s;

    occupy(DRIVERS_FIRST, 64 * DRIVERS_STEP);
    open_scene(&s);
    MUST(allocate(&s) == NULL);
}

static void
drivers_choose(void **state)
{
    (void)state;
    assert_int_equal(run_case(works, address_of(&anywhere, 0), ""), 0);
    assert_int_equal(
        run_case(case_two_of_the_drivers_places_taken, address_of(&chosen, 0), ""), 0);
    assert_int_equal(
        run_case(case_all_of_the_drivers_places_taken, address_of(&chosen, 0), ""), 0);
    /* where kernels use host memory, memory comes to the address of another's driver */
    assert_int_equal(
        run_case(real_chooses ? case_none : works, addresses_of(&real, &chosen), ""),
        0);
    assert_int_equal(run_case(case_none, addresses_of(&anywhere, &anywhere), ""), 0);
    assert_int_equal(run_case(case_one_device, addresses_of(&anywhere, &anywhere), ""),
                     0);
}

static void
many_starts(void **state)
{
    (void)state;
    for (int i = 0; i < STARTS; i++) {
        assert_int_equal(run_case(works, address_of(&anywhere, 0), ""), 0);
    }
}

/* ---- limits of memory ---------------------------------------------------------------------------- */

static void
limit_addresses(rlim_t more)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    struct rlimit limit;

    MUST(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    limit.rlim_cur = limit.rlim_max =
        (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void
case_limit_here(void)
{
    struct scene s;
    int *ints;

    open_scene(&s);
    limit_addresses(64 << 20);
    MUST(clSVMAlloc(s.ctx, CL_MEM_READ_WRITE, 100 << 20, 0) == NULL);
    ints = allocate(&s);
    MUST(ints != NULL);
    use(&s, ints);
}

/** The server's limit ends it; what was allocated before stays good. */
static void
case_limit_there(void)
{
    struct scene s;
    int *ints, i = 0;

    open_scene(&s);
    ints = allocate(&s);
    MUST(ints != NULL);
    while (i < 64 && clSVMAlloc(s.ctx, CL_MEM_READ_WRITE, 512 << 20, 0) != NULL) {
        i++;
    }
    MUST(i < 64);
    use(&s, ints);
}

static void
memory_is_limited(void **state)
{
    (void)state;
    if (!MAY_LIMIT) {
        skip();
    }
    assert_int_equal(run_case(case_limit_here, address_of(&real, 0), ""), 0);
    if (!real_chooses) { /* such a driver may reserve more addresses than the limit */
        assert_int_equal(run_case(case_limit_there, address_of(&limited, 0), ""), 0);
    }
}

/* ---- a kernel that writes elsewhere ---------------------------------------------------------------- */

static void
case_wild(void)
{
    struct scene s;
    cl_kernel kernel;
    cl_int err;
    size_t one = 1;
    int *ints;

    open_scene(&s);
    kernel = clCreateKernel(s.program, "wild", &err);
    CHECK(err);
    ints = allocate(&s);
    MUST(ints != NULL);
    CHECK(clSetKernelArgSVMPointer(kernel, 0, ints));
    err =
        clEnqueueNDRangeKernel(s.queues[0], kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    MUST(err != CL_SUCCESS || clFinish(s.queues[0]) != CL_SUCCESS);
}

static void
case_beside_it(void)
{
    struct scene s;
    int *ints;

    open_scene(&s);
    ints = allocate(&s);
    MUST(ints != NULL);
    for (int i = 0; i < 50; i++) {
        use(&s, ints);
        usleep(10000);
    }
}

static void
a_wild_kernel_hurts_its_own_session(void **state)
{
    const char *address = address_of(&real, 0);
    pid_t beside = fork();
    int status = 0;

    (void)state;
    if (beside == 0) {
        _exit(run_case(case_beside_it, address, ""));
    }
    assert_int_equal(run_case(case_wild, address, ""), 0);
    assert_int_equal(waitpid(beside, &status, 0), beside);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(run_case(works, address, ""), 0);
}

/* ---- servers ------------------------------------------------------------------------------------------ */

/** Starts servers with the test driver, its SVM as told. */
static bool
start_scripted(struct servers *servers, unsigned count, const char *svm)
{
    setenv("OCL_ICD_VENDORS", TESTDRV_VENDORS_DIR, 1);
    setenv("TESTDRV_SVM", svm, 1);
    setenv("TESTDRV_DEVICES", "1", 1);
    return servers_start(servers, count) == 0;
}

/** Finds out whether the machine's driver chooses addresses. @return false: it has no SVM */
static bool
find_chooser(void)
{
    int status = run_case(case_at_place, address_of(&real, 0), "0x400000000000");

    real_chooses = status == 2;
    return status == 0 || status == 2;
}

/** Starts a server under a limit of addresses, with the drivers of the machine. */
static bool
start_limited(void)
{
    const struct rlimit limit = {(rlim_t)8 << 30, RLIM_INFINITY},
                        none = {RLIM_INFINITY, RLIM_INFINITY};
    bool started;

    if (!MAY_LIMIT || real_chooses) {
        return true;
    }
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
    started = servers_start(&limited, 1) == 0;
    MUST(setrlimit(RLIMIT_AS, &none) == 0);
    return started;
}

static void
restore_vendors(const char *vendors)
{
    if (vendors[0] != '\0') {
        setenv("OCL_ICD_VENDORS", vendors, 1);
    } else {
        unsetenv("OCL_ICD_VENDORS");
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_has_it),
        cmocka_unit_test(the_executor_has_it),
        cmocka_unit_test(drivers_choose),
        cmocka_unit_test(many_starts),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(a_wild_kernel_hurts_its_own_session),
    };
    const char *given = getenv("OCL_ICD_VENDORS");
    char vendors[256];
    int failed = 1;

    if (argc > 1 && (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0) {
        MUST(personality(ADDR_NO_RANDOMIZE) >= 0);
        execv(argv[0], argv);
        return 1;
    }
    snprintf(vendors, sizeof(vendors), "%s", given != NULL ? given : "");
    if (servers_start(&real, 2) == 0 && find_chooser()) {
        restore_vendors(vendors);
        if (start_limited() && start_scripted(&anywhere, 2, "1") &&
            start_scripted(&chosen, 1, "0x300000000000")) {
            failed = cmocka_run_group_tests(tests, NULL, NULL);
        }
    }
    servers_stop(&chosen);
    servers_stop(&anywhere);
    servers_stop(&limited);
    servers_stop(&real);
    return failed != 0;
}
