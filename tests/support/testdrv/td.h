/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private declarations of the test driver: a small OpenCL driver that tests script by
 * TESTDRV_… in the environment (tests/README.md lists them). Its kernels are C functions
 * known by name; everything else behaves as OpenCL 3.0 says, asynchronously.
 *
 * Threads: td_mutex protects every member that changes after an object's creation, apart
 * from those said to be fixed. Nothing calls out (callbacks, td_unref) while holding it.
 */
#ifndef TESTDRV_TD_H
#define TESTDRV_TD_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TD_DEVICES_MAX = 16,
    TD_BASE_ALIGN_BYTES = 128,
    TD_GROUP_MAX = 1024, /* work-items of a work-group */
    TD_LOCAL_MEM_BYTES = 32768,
    TD_OOO_WORKERS = 3 /* threads of an out-of-order queue */
};
#define TD_ALLOC_MAX_BYTES ((cl_ulong)1 << 30)

/* ---- objects (object.c) ---- */

enum td_kind {
    TD_PLATFORM,
    TD_DEVICE,
    TD_CONTEXT,
    TD_QUEUE,
    TD_MEM,
    TD_PROGRAM,
    TD_KERNEL,
    TD_EVENT,
    TD_KINDS
};

/** First member of every object. */
struct td_obj {
    cl_icd_dispatch *dispatch; /* the loader's; must be the first word */
    void *reserved; /* for a second word of the loader's */
    enum td_kind kind;
    unsigned id; /* 1, 2, … of its kind, for the log */
    cl_uint api_refs; /* what the program holds */
    unsigned refs; /* that, and what the driver holds */
    void (*destroy)(struct td_obj *obj);
};

extern pthread_mutex_t td_mutex;

/** Allocates a zeroed object with one reference of the program's. NULL: no memory. */
void *td_new(enum td_kind kind, size_t size, void (*destroy)(struct td_obj *));
/** Takes one of the driver's references. NULL is allowed. */
void td_ref(void *obj);
/** Drops one of the driver's references and perhaps the object; not under td_mutex. */
void td_unref(void *obj);
bool td_is(const void *obj, enum td_kind kind);
/** @return the object's number, 0 for NULL. */
unsigned td_id(const void *obj);
cl_uint td_api_refs(const void *obj);
/** Bodies of clRetain… and clRelease…. @p bad is returned for a wrong handle. */
cl_int td_retain(void *obj, enum td_kind kind, cl_int bad);
cl_int td_release(void *obj, enum td_kind kind, cl_int bad);

/** A list of callbacks; the latest registered is the first called. */
struct td_callback {
    struct td_callback *next;
    void(CL_CALLBACK *fn)(void *obj, void *data);
    void *data;
};
bool td_callback_add(struct td_callback **list, void(CL_CALLBACK *fn)(void *, void *),
                     void *data);
/** Calls and frees all of @p list. */
void td_callback_run(struct td_callback *list, void *obj);

/* ---- script (script.c) ---- */

/**
 * To be called first in every entry: records the call, then does what the script wants of
 * it: crash, hang or fail. @return CL_SUCCESS, or the error to return.
 */
cl_int td_enter(const char *function, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** The same for the execution of a command; records nothing. */
cl_int td_enter_command(const char *function);
/** Records that an object has come or gone; @p what is "created" or "destroyed". */
void td_record_object(const char *what, const struct td_obj *obj);
/** Fixed after the first call. */
struct td_script {
    const char *name; /* of the platform */
    unsigned devices;
    unsigned delay_us; /* of every command */
    bool lazy; /* commands start only after a flush */
    bool in_flush; /* commands run on the thread that flushes or waits */
    bool cascade; /* what fails takes all behind it with it, at once */
    bool late; /* with cascade: 2 ms later, on another thread */
    bool
        forgives; /* a wait list that failed before the call does not fail the command */
    bool forgives_all; /* nor does one that fails later */
    unsigned vendor; /* CL_DEVICE_VENDOR_ID */
    bool version12;
    bool unified; /* memory is the host's, says the device */
    cl_device_type device_type;
    bool timer; /* device and host timers */
    cl_ulong clock_ahead_ns; /* of the devices, before the host's */
    unsigned il; /* devices that take SPIR-V: the first ones */
    bool built_in; /* kernels that need no source */
    const char
        *camera; /* file of frames for the built-in kernel of that name, or NULL */
    cl_ulong svm; /* 0: none; 1: anywhere; else the address of the first allocation */
    size_t group_said; /* answer to CL_KERNEL_WORK_GROUP_SIZE; larger groups run */
    unsigned sub_group; /* work-items of a sub-group; 0 = there are none */
};
const struct td_script *td_script(void);
_Noreturn void td_hang(void);
_Noreturn void td_crash(void);

/* ---- answers to queries (info.c) ---- */

/** Where the answer to a query goes. */
struct td_out {
    size_t size;
    void *value;
    size_t *ret_size;
};
#define TD_OUT(size, value, ret_size) (&(struct td_out){(size), (value), (ret_size)})
cl_int td_out_bytes(const struct td_out *out, const void *bytes, size_t len);
cl_int td_out_text(const struct td_out *out, const char *text);
cl_int td_out_u32(const struct td_out *out, cl_uint value);
cl_int td_out_u64(const struct td_out *out, cl_ulong value);
cl_int td_out_size(const struct td_out *out, size_t value);
cl_int td_out_ptr(const struct td_out *out, const void *value);

/* ---- platform, devices, contexts, queues ---- */

struct _cl_platform_id {
    struct td_obj obj;
};

struct _cl_device_id {
    struct td_obj obj;
    char name[32];
};

struct _cl_context {
    struct td_obj obj;
    cl_uint num_devices;
    cl_device_id device[TD_DEVICES_MAX];
    cl_context_properties *props; /* as given, with the final 0 */
    size_t props_bytes;
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *);
    void *notify_data;
    struct td_callback *on_destroy;
};

struct _cl_command_queue {
    struct td_obj obj;
    cl_context context;
    cl_device_id device;
    cl_command_queue_properties props;
    cl_queue_properties prop_list[8]; /* as given, with the final 0 */
    size_t prop_bytes;
    pthread_cond_t work; /* something is ready, or the queue closes */
    struct td_cmd *ready; /* may run now, oldest first */
    struct td_cmd *all; /* not complete yet, newest first */
    struct td_cmd *gated; /* wait for a flush (script: lazy) */
    cl_event last; /* of the newest command, until it completes; holds a reference */
    cl_event barrier; /* of the newest barrier, likewise */
    unsigned workers; /* threads */
    unsigned idle; /* of these, waiting for work */
    bool closing;
};

/** The one platform with its devices; made at the first call. */
cl_platform_id td_platform(void);
cl_device_id td_device(unsigned index);
bool td_context_has(cl_context context, cl_device_id device);
/** Tells the context's error callback and standard error. */
void td_context_notify(cl_context context, const char *text);
void td_queue_close(cl_command_queue queue);

/* ---- memory (mem.c) ---- */

struct td_map {
    struct td_map *next;
    void *ptr;
};

struct _cl_mem {
    struct td_obj obj;
    cl_context context;
    cl_mem parent; /* of a sub-buffer; holds a reference */
    cl_mem_flags flags;
    size_t size;
    size_t origin; /* in the parent */
    uint8_t *data;
    void *host_ptr;
    bool owns_data;
    struct td_map *maps;
    struct td_callback *on_destroy;
};

/** @return true if bytes [off .. off + len) lie in the buffer. */
bool td_mem_in_range(cl_mem mem, size_t off, size_t len);
bool td_mem_map_add(cl_mem mem, void *ptr);
/** @return false if @p ptr does not come from a map of this buffer. */
bool td_mem_map_remove(cl_mem mem, void *ptr);

/* ---- programs and kernels ---- */

enum td_arg_kind { TD_ARG_GLOBAL, TD_ARG_CONSTANT, TD_ARG_LOCAL, TD_ARG_VALUE };

/** Declaration of one argument in the source. */
struct td_arg_info {
    enum td_arg_kind kind;
    char name[48];
    char type[48];
    size_t size; /* of a value; 0 = not known, any */
    cl_kernel_arg_type_qualifier quals;
};

struct td_kernel_info {
    struct td_kernel_info *next;
    char name[64];
    char attributes[64];
    cl_uint num_args;
    struct td_arg_info *arg;
};

/** Finds all kernels of a source text (parse.c). Gives a list; NULL if there is none. */
struct td_kernel_info *td_parse(const char *source);
void td_parse_free(struct td_kernel_info *list);

struct td_build {
    cl_build_status status;
    cl_program_binary_type type;
    char *log;
};

enum { TD_SPECS_MAX = 8 };
/** A specialization constant. */
struct td_spec {
    cl_uint id;
    size_t size;
    cl_ulong value;
};

struct _cl_program {
    struct td_obj obj;
    cl_context context;
    cl_uint num_devices;
    cl_device_id device[TD_DEVICES_MAX];
    char *source; /* of a binary: what it was made from */
    bool from_binary;
    void *il; /* as given; NULL: it is not of SPIR-V */
    size_t il_len;
    struct td_spec spec[TD_SPECS_MAX];
    unsigned num_specs;
    cl_ulong spec_sum; /* of all values, as they were at the latest build */
    char *options; /* of the latest build */
    struct td_build build[TD_DEVICES_MAX];
    struct td_kernel_info *kernels; /* known after the first good build, then fixed */
    unsigned live_kernels;
};

/** One argument's value. */
struct td_arg {
    bool set;
    cl_mem mem; /* holds a reference; NULL is a value too */
    size_t size; /* of the value, or of the local memory */
    uint8_t *value;
};

struct _cl_kernel {
    struct td_obj obj;
    cl_program program;
    const struct td_kernel_info *info; /* the program's */
    struct td_arg *arg;
};

/** Parameter of a kernel function: one call runs the whole range. */
struct td_launch {
    cl_uint dims;
    size_t offset[3], global[3], local[3];
    size_t items;
    cl_uint num_args;
    const struct td_arg_info *info;
    struct td_arg *arg; /* local memory is in value */
    cl_ulong spec_sum; /* of the program's specialization constants */
};

/** A program with source, which it takes (NULL: no memory), for some devices. */
cl_program td_program_new(cl_context context, cl_uint count,
                          const cl_device_id *devices, char *source);
/** True if a device takes SPIR-V. */
bool td_takes_il(cl_device_id dev);
/** Declarations of the kernels that need no source, the device's first ones; a NULL ends
    them. */
struct td_built_in {
    const char *name, *declaration;
};
const struct td_built_in *td_built_in_kernels(void);

/** A kernel of ours. @return CL_SUCCESS or what the command's event shall say. */
typedef cl_int (*td_function)(const struct td_launch *launch);
/** @return the function for this kernel, NULL if there is none with such arguments. */
td_function td_builtin_find(const struct td_kernel_info *info);

/** Copies arguments, with references. @return false: no memory. */
bool td_args_copy(struct td_arg **ret_to, const struct td_arg *from, cl_uint count);
void td_args_free(struct td_arg *arg, cl_uint count);
/** A copy with a NUL behind it. */
char *td_strdup(const char *text, size_t len);

/* ---- events and commands ---- */

struct td_dependent {
    struct td_dependent *next;
    struct td_cmd *cmd;
    bool listed; /* in the wait list: a failure is passed on */
};

struct td_event_callback {
    struct td_event_callback *next;
    cl_int when;
    void(CL_CALLBACK *fn)(cl_event event, cl_int status, void *data);
    void *data;
};

struct _cl_event {
    struct td_obj obj;
    cl_context context;
    cl_command_queue queue; /* NULL: user event; holds a reference */
    cl_command_type type;
    cl_int status;
    cl_ulong stamp[5]; /* queued, submit, start, end, complete [ns] */
    struct td_dependent *dependents;
    struct td_event_callback *callbacks;
};

/** One command. Its parameters lie behind it, in data. */
struct td_cmd {
    struct td_cmd *next_ready;
    struct td_cmd *next_gated;
    struct td_cmd *prev, *next; /* in queue->all */
    bool waits_for_all, is_barrier;
    cl_command_queue queue;
    cl_event event;
    const char *function; /* the entry that made it */
    cl_int (*run)(struct td_cmd *cmd);
    void (*fini)(struct td_cmd *cmd); /* frees what data refers to; may be NULL */
    unsigned missing; /* events and gates to wait for */
    bool wait_failed;
    void *held[4]; /* objects it needs; hold references */
    unsigned num_held;
    cl_event *dep; /* events it waits for; hold references */
    cl_uint num_dep;
    _Alignas(16) uint8_t data[];
};

/** Arguments common to all enqueue calls. */
struct td_wait {
    cl_uint count;
    const cl_event *list;
    cl_event *ret_event;
    cl_bool blocking;
};

cl_int td_check_wait(cl_context context, cl_uint count, const cl_event *list);
/**
 * With td_mutex: enters the command into its queue, behind what it waits for. It may run
 * as soon as the mutex is free. @param ret_old gives two events to drop, NULL or not.
 */
void td_cmd_link(struct td_cmd *cmd, const struct td_wait *wait, bool waits_for_all,
                 bool is_barrier, void *ret_old[2]);
/** With td_mutex: a command has become ready; makes or wakes a thread for it. */
void td_queue_wake(cl_command_queue queue);
/** NULL: no memory. The caller submits it or destroys it. */
struct td_cmd *td_cmd_create(cl_command_queue queue, cl_command_type type,
                             const char *function, size_t data_bytes);
void td_cmd_hold(struct td_cmd *cmd, void *obj);
void td_cmd_destroy(struct td_cmd *cmd);
/** Runs a command that was taken from the ready ones; it ends there. Not under td_mutex. */
void td_cmd_run(struct td_cmd *cmd);
/**
 * Takes @p cmd in every case; the wait list was checked by the caller.
 * @return what the enqueue call shall return.
 */
cl_int td_cmd_submit(struct td_cmd *cmd, const struct td_wait *wait);
/** Marker or barrier; with no wait list it waits for all earlier commands. */
cl_int td_marker(cl_command_queue queue, bool barrier, const char *function,
                 const struct td_wait *wait);
void td_flush(cl_command_queue queue);
/** Script in_flush (in_flush.c): runs on this thread what a queue has, or what an event
 *  needs to complete; returns when that is so. Not under td_mutex. */
void td_run_queue(cl_command_queue queue);
void td_run_event(cl_event event);
/** Broadcast whenever an event completes; with td_mutex. */
extern pthread_cond_t td_completed;
/**
 * Changes the status; starts and tells everything that waited for it. Not under td_mutex.
 * @return false if the event was complete already.
 */
bool td_event_set(cl_event event, cl_int status);
/** @return the final status. */
cl_int td_event_wait(cl_event event);
cl_event td_event_new(cl_context context, cl_command_queue queue, cl_command_type type);
/** The devices' clock: CLOCK_MONOTONIC, set ahead by the script. */
cl_ulong td_now_ns(void);

/* ---- the table (table.c) ---- */

extern cl_icd_dispatch *const td_dispatch;

static inline cl_int
td_set_error(cl_int *errcode_ret, cl_int err)
{
    if (errcode_ret != NULL) {
        *errcode_ret = err;
    }
    return err;
}

/** Entries this driver has; the others refuse. */
/* clang-format off */
#define TD_ENTRIES_12(X) \
    X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo) \
    X(clCreateContext) X(clCreateContextFromType) X(clRetainContext) \
    X(clReleaseContext) X(clGetContextInfo) X(clCreateCommandQueue) \
    X(clRetainCommandQueue) X(clReleaseCommandQueue) X(clGetCommandQueueInfo) \
    X(clCreateBuffer) X(clRetainMemObject) X(clReleaseMemObject) \
    X(clGetSupportedImageFormats) X(clGetMemObjectInfo) X(clCreateProgramWithSource) \
    X(clCreateProgramWithBinary) X(clRetainProgram) X(clReleaseProgram) \
    X(clBuildProgram) X(clUnloadCompiler) X(clGetProgramInfo) \
    X(clGetProgramBuildInfo) X(clCreateKernel) X(clCreateKernelsInProgram) \
    X(clRetainKernel) X(clReleaseKernel) X(clSetKernelArg) X(clGetKernelInfo) \
    X(clGetKernelWorkGroupInfo) X(clWaitForEvents) X(clGetEventInfo) \
    X(clRetainEvent) X(clReleaseEvent) X(clGetEventProfilingInfo) X(clFlush) \
    X(clFinish) X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer) \
    X(clEnqueueCopyBuffer) X(clEnqueueMapBuffer) X(clEnqueueUnmapMemObject) \
    X(clEnqueueNDRangeKernel) X(clEnqueueTask) X(clEnqueueMarker) \
    X(clEnqueueWaitForEvents) X(clEnqueueBarrier) X(clGetExtensionFunctionAddress) \
    X(clSetEventCallback) X(clCreateSubBuffer) X(clSetMemObjectDestructorCallback) \
    X(clCreateUserEvent) X(clSetUserEventStatus) X(clEnqueueReadBufferRect) \
    X(clEnqueueWriteBufferRect) X(clEnqueueCopyBufferRect) X(clRetainDevice) \
    X(clReleaseDevice) X(clCompileProgram) X(clLinkProgram) \
    X(clUnloadPlatformCompiler) X(clGetKernelArgInfo) X(clEnqueueFillBuffer) \
    X(clEnqueueMigrateMemObjects) X(clEnqueueMarkerWithWaitList) \
    X(clEnqueueBarrierWithWaitList) X(clGetExtensionFunctionAddressForPlatform)
#define TD_ENTRIES_30(X) \
    X(clCreateCommandQueueWithProperties) X(clCloneKernel) \
    X(clCreateBufferWithProperties) X(clSetContextDestructorCallback)
#define TD_ENTRIES_IL(X) \
    X(clCreateProgramWithIL) X(clSetProgramSpecializationConstant)
#define TD_ENTRIES_SVM(X) \
    X(clSVMAlloc) X(clSVMFree) X(clSetKernelArgSVMPointer)
#define TD_ENTRIES_TIMER(X) \
    X(clGetDeviceAndHostTimer) X(clGetHostTimer)
/* clang-format on */

#define TD_DECLARE(name) extern __typeof__(*((cl_icd_dispatch *)0)->name) td_##name;
TD_ENTRIES_12(TD_DECLARE)
TD_ENTRIES_30(TD_DECLARE)
TD_ENTRIES_TIMER(TD_DECLARE)
TD_ENTRIES_SVM(TD_DECLARE)
TD_ENTRIES_IL(TD_DECLARE)
TD_DECLARE(clCreateProgramWithBuiltInKernels)
TD_DECLARE(clGetKernelSubGroupInfo)
#undef TD_DECLARE

#endif
