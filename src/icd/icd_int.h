/* SPDX-License-Identifier: Apache-2.0 */
/* Internal declarations shared by the platform, device, context, program and kernel files. */
#ifndef TELPHER_ICD_ICD_INT_H
#define TELPHER_ICD_ICD_INT_H

#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"
#include "icd/session/session.h"
#include "icd/settings.h"

/* ---- object.c -------------------------------------------------------------------- */

/** @return true if @p handle is a live cl_mem; @p handle may be any value. */
bool tp_icd_is_mem(const void *handle);
/** @return true if @p handle is a live cl_sampler; @p handle may be any value. */
bool tp_icd_is_sampler(const void *handle);
/** Answers a query with a text and its NUL. */
cl_int tp_icd_answer_text(size_t value_size, void *value, size_t *size_ret,
                          const char *text);

/* ---- image_format.c -------------------------------------------------------------- */

/** True if the driver supports images and lists formats for them. */
bool tp_icd_device_has_images(const struct _cl_device_id *dev);
/** True if some device of the context supports images. */
bool tp_icd_context_has_images(const struct _cl_context *ctx);

/* ---- discover.c ------------------------------------------------------------------ */

/**
 * Requests facts from all servers, within the connect timeout of the settings. Sets
 * `facts` and `idle` of the servers that answer. @return OK, NO_MEMORY.
 */
telpher_status tp_icd_discover(struct tp_icd_server *servers, size_t count);
/** Requests the devices of a server on a new stream. Blocks. @return OK, or why it did not
 *  answer */
telpher_status tp_icd_request_devices(struct tp_icd_server *server,
                                      struct tp_stream *stream,
                                      struct tp_icd_facts **ret_facts,
                                      struct tp_error *err);
/**
 * Requests the devices of an already discovered server again, on a new stream: the server
 * may have restarted with other devices. Blocks.
 * @return OK; DEVICE_LOST if the devices differ; or why the server did not answer
 */
telpher_status tp_icd_recognize(struct tp_icd_server *server, struct tp_stream *stream,
                                struct tp_error *err);

/* ---- platform.c ------------------------------------------------------------------ */

/**
 * Finds the devices of a type. @p ret_devices has room for all devices of the platform.
 * @return CL_SUCCESS, CL_INVALID_DEVICE_TYPE, CL_DEVICE_NOT_FOUND.
 */
cl_int tp_icd_platform_find(struct _cl_platform_id *platform, cl_device_type type,
                            struct _cl_device_id **ret_devices, cl_uint *ret_count);
/** Reads a number of at most 8 bytes, as reported by the driver. */
uint64_t tp_icd_device_number(const struct _cl_device_id *dev, uint32_t param,
                              uint64_t if_absent);
/** Sets the limits of a new device, against which calls are checked. */
void tp_icd_device_limits(struct _cl_device_id *dev);
/** [ns] of the host timer; 0: some driver cannot relate its clock to a host clock. */
cl_ulong tp_icd_timer_resolution(void);
/** The platform's extensions: "cl_khr_icd" and those that all its devices have. */
const char *tp_icd_platform_extensions(void);

/* ---- capabilities.c, device.c ------------------------------------------------------------ */

/** @return the driver's text, or @p if_absent. */
const char *tp_icd_device_text(const struct _cl_device_id *dev, uint32_t param,
                               const char *if_absent);
/** The driver's table as an array for tp_free(); *ret_list is NULL when it has none. */
size_t tp_icd_device_names(const struct _cl_device_id *dev, uint32_t param,
                           cl_name_version **ret_list);
/** True if @p able is true for some device of the platform. */
bool tp_icd_platform_has(bool (*able)(const struct _cl_device_id *dev));
/** True if the driver supports and reports sub-groups. */
bool tp_icd_device_has_sub_groups(const struct _cl_device_id *dev);
/** True if its driver suggests work-group sizes and its server passes them on. */
bool tp_icd_device_suggests(const struct _cl_device_id *dev);
/** True if a device has pipes that this library can forward. */
bool tp_icd_device_has_pipes(const struct _cl_device_id *dev);
/** True if the driver accepts programs in SPIR-V. */
bool tp_icd_device_has_il(const struct _cl_device_id *dev);
/** @return what holds of the driver's shared virtual memory from here; 0: none. */
cl_device_svm_capabilities tp_icd_device_svm(const struct _cl_device_id *dev);
/** True if its kernels use host memory, so that SVM may have any address. */
bool tp_icd_device_takes_addresses(const struct _cl_device_id *dev);
enum { TP_ICD_IL_TEXT_MAX = 1024 };
/** Lists the SPIR-V versions it accepts, "SPIR-V_1.0 SPIR-V_1.2". @return length */
size_t tp_icd_device_il(const struct _cl_device_id *dev, char *list, size_t size);
/**
 * Lists the extensions of the device's driver that this library can forward.
 * @return text for tp_free(), or NULL: no memory.
 */
char *tp_icd_device_extensions(const struct _cl_device_id *dev);
enum { TP_ICD_PARTITIONS_MAX = 8 };
/** Lists how a device can be partitioned. @return number of entries; 0: not at all */
size_t
tp_icd_device_partitions(const struct _cl_device_id *dev,
                         cl_device_partition_property list[TP_ICD_PARTITIONS_MAX]);
/**
 * Pairs each name of a space-separated list with the version reported by the device's
 * driver, or 1.0.0 if the driver reports none.
 * @param param the driver's table, CL_DEVICE_…_WITH_VERSION
 * @param ret_list gives an array for tp_free(); NULL if empty.
 */
cl_int tp_icd_device_name_versions(const struct _cl_device_id *dev, uint32_t param,
                                   const char *names, cl_name_version **ret_list,
                                   size_t *ret_count);

/* ---- blob.c: requests, and content of any size sent with a message ------------------- */

/**
 * Completes a request for which a thread waits. The request's `reply` callback must end
 * with this call. The request must live until then, also when the session is lost.
 * @p session is NULL for a result that combines several sessions.
 */
void tp_icd_settle(struct tp_icd_session *session, struct tp_icd_request *req);
/** Waits until the request is settled. Not under the lock. */
void tp_icd_await(struct tp_icd_session *session, struct tp_icd_request *req);

/**
 * Sends a message with the request's id and waits for the reply. Not under the lock.
 * @param fd  borrowed until return; -1: none
 * @return OK, or why it was not sent: then `reply` was not called
 */
telpher_status tp_icd_request_run(struct tp_icd_session *session,
                                  struct tp_icd_request *req, uint16_t type,
                                  const void *msg, int fd);
/**
 * Decodes a reply that begins with a request's id and a status.
 * @param want  the type it must have
 * @param ret_msg  all 0 if it is no such reply
 * @return its status as a CL error, or why there is none
 */
cl_int tp_icd_reply_get(uint16_t want, uint16_t type, const uint8_t *body,
                        const uint8_t *end, void *ret_msg);

/** A question to a server, with a reply that tp_icd_reply_get() decodes. */
struct tp_icd_ask {
    struct tp_icd_session *session;
    uint16_t type, reply_type;
    /** Takes the decoded reply if its status is CL_SUCCESS; by the reading thread, without
     *  locks; may change the result. */
    void (*take)(struct tp_icd_ask *ask, const void *reply);
    cl_int result;
    struct tp_icd_request req;
};
/** Sends a message that begins with a new request's id, and waits. Not under the lock.
 *  @param fd  as above  @return the result */
cl_int tp_icd_ask(struct tp_icd_ask *ask, const void *msg, int fd);
/** Waits until all servers of a context have handled what was put before. Lost ones count as such. Not under
 *  the lock. */
void tp_icd_ping_all(struct _cl_context *ctx);

/**
 * Sends @p len bytes as a transfer. Under the lock.
 * @param keep object that owns @p data, held until the transfer ends; or NULL
 * @param own  with keep NULL: @p data itself; freed with tp_free(), also on failure
 * @param ret_transfer gives the transfer id, for the message that describes it
 */
telpher_status tp_icd_blob_send(struct tp_icd_session *session, const uint8_t *data,
                                size_t len, struct tp_icd_object *keep, uint8_t *own,
                                uint64_t *ret_transfer);

/** Content of a reply while it is received. */
struct tp_icd_incoming {
    struct tp_icd_sink sink;
    uint8_t *data; /**< heap; freed by tp_icd_blob_fini */
    size_t size; /**< [bytes] */
    telpher_status status;
    /** Called once, without locks, when all content has arrived or the transfer failed. */
    void (*then)(struct tp_icd_incoming *in);
    void *user;
};
/**
 * Receives the content of a reply: a copy of the inline bytes if @p transfer is 0, else
 * the transfer that the server chose. Calls in->then, possibly before it returns. Not
 * under the lock.
 */
void tp_icd_blob_receive(struct tp_icd_incoming *in, struct tp_icd_session *session,
                         const struct tp_wire_bytes *bytes, uint64_t transfer,
                         uint64_t size);
void tp_icd_blob_fini(struct tp_icd_incoming *in);

/* ---- program.c ------------------------------------------------------------------------ */

/** Result of the last build for a device. */
struct tp_icd_build_info {
    char *log; /**< NULL: none */
    cl_program_binary_type binary_type;
    size_t global_bytes; /**< of program-scope variables */
};

/** A specialization constant that the program set. */
struct tp_icd_spec {
    uint32_t id;
    uint32_t len; /**< [bytes] */
    uint8_t value[8];
};

/** A program: the public part, and the state of builds and binaries. */
struct tp_icd_program {
    struct _cl_program pub;
    struct tp_icd_build_info *info; /**< [device_count] */
    char **kernels; /**< names by index, the same in all sessions */
    uint32_t kernel_names;
    bool from_binary;
    bool linked; /**< by clLinkProgram */
    bool built_in; /**< its kernels are built into the driver */
    struct tp_icd_spec *specs; /**< [spec_count], of a program in SPIR-V */
    uint32_t spec_count;
    bool fetched; /**< binaries are those of the last build */
    uint8_t **binary; /**< [device_count] heap; NULL = none */
    size_t *binary_size; /**< [device_count] [bytes] */
};

static inline struct tp_icd_program *
tp_icd_program_of(struct _cl_program *program)
{
    return (struct tp_icd_program *)program;
}

/**
 * Creates an empty program for devices of a context. Holds the context.
 * @return NULL: no memory.
 */
struct tp_icd_program *tp_icd_program_create(struct _cl_context *ctx, uint32_t count,
                                             struct _cl_device_id *const *devices);
/** @return index of a device in the program, or -1. */
int tp_icd_program_device(const struct _cl_program *program,
                          const struct _cl_device_id *dev);
/** Sends the source or the SPIR-V to a session unless it has it. Under the lock. */
telpher_status tp_icd_program_ensure(struct _cl_program *program,
                                     uint32_t session_index);
/** @return the device to which a kernel query applies; NULL: none. */
const struct _cl_device_id *tp_icd_kernel_device(const struct _cl_kernel *kernel,
                                                 cl_device_id handle);
/** True if it has an executable for device @p i. Under the lock. */
bool tp_icd_program_is_executable(const struct _cl_program *program, uint32_t i);
/** True if it was built for some device. Under the lock. */
bool tp_icd_program_is_built(const struct _cl_program *program);
/** @return name of a kernel that was built for some device, else NULL. Under the lock. */
const char *tp_icd_program_kernel(const struct tp_icd_program *p, uint32_t index);

/* ---- il.c ----------------------------------------------------------------------------- */

/** Appends PROGRAM_IL and the constants that are set. Under the lock. */
telpher_status tp_icd_il_put(struct _cl_program *program, uint32_t session_index);

/* ---- argument.c ------------------------------------------------------------------------- */

/** Fills in the compiler's information about the arguments of a new kernel. */
void tp_icd_args_declare(struct _cl_kernel *kernel, const struct tp_icd_facts *facts);
/** Copies the values to a clone. Under the lock. CL_SUCCESS, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_args_copy(struct _cl_kernel *to, const struct _cl_kernel *from);
/** Appends a value that is set, after the objects it refers to: to @p again if that is not
 *  NULL and has room. Under the lock. */
void tp_icd_arg_put(struct _cl_kernel *kernel, uint32_t index, uint32_t session_index,
                    struct tp_icd_again_args *again);

/* ---- build.c, binary.c ------------------------------------------------------------------ */

/** Discards fetched binaries, because a build replaces them. Under the lock. */
void tp_icd_binaries_forget(struct tp_icd_program *p);
/** Fetches the binaries unless they are cached. One round trip. Not under the lock. */
cl_int tp_icd_binaries_fetch(struct tp_icd_program *p);

#endif
