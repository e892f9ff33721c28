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
    TD_PACKET_MAX_BYTES = 64, /* of a pipe */
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
    const char *driver; /* its version */
    unsigned devices;
    unsigned delay_us; /* of every command */
    unsigned pause_ms; /* of what TESTDRV_PAUSE names */
    bool lazy; /* commands start only after a flush */
    bool in_flush; /* commands run on the thread that flushes or waits */
    bool cascade; /* what fails takes all behind it with it, at once */
    bool late; /* with cascade: 2 ms later, on another thread */
    bool
        forgives; /* a wait list that failed before the call does not fail the command */
    bool forgives_all; /* nor does one that fails later */
    bool untold; /* a read says 300 ms late that it has ended */
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
    bool fine; /* kernels use host memory, says the device */
    unsigned group_said; /* answer to CL_KERNEL_WORK_GROUP_SIZE; larger groups run */
    unsigned local_said; /* [bytes] answer to CL_KERNEL_LOCAL_MEM_SIZE */
    unsigned
        suggests; /* work-items of the work-groups that it suggests; 0: it does not */
    unsigned sub_group; /* work-items of a sub-group; 0 = there are none */
    bool pipes;
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
    cl_uint packet_size, max_packets; /* of a pipe; else 0 */
    cl_uint first_packet, packets; /* that the pipe holds */
    struct td_map *maps;
    struct td_callback *on_destroy;
};

/** @return true if bytes [off .. off + len) lie in the buffer. */
bool td_mem_in_range(cl_mem mem, size_t off, size_t len);
bool td_mem_map_add(cl_mem mem, void *ptr);
/** @return false if @p ptr does not come from a map of this buffer. */
bool td_mem_map_remove(cl_mem mem, void *ptr);

#include "td_command.h"
#include "td_program.h"
#include "td_table.h"

#endif
