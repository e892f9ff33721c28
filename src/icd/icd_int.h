/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about the platform, devices, contexts, programs and kernels share. */
#ifndef TELPHER_ICD_ICD_INT_H
#define TELPHER_ICD_ICD_INT_H

#include "icd/icd.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/program/program.h"
#include "icd/session/session.h"

/* ---- settings.c ------------------------------------------------------------------ */

/** How the platform calls itself. */
enum tp_icd_platform_name {
    TP_ICD_NAME_TELPHER, /**< "Telpher" */
    TP_ICD_NAME_NATIVE, /**< as the first server's driver does */
};

/** Values of the room's settings, constant once loaded. */
struct tp_icd_settings {
    char *servers; /**< "" = none, no platform */
    char *cookie; /**< path; "" = the default places */
    char *tls_psk, *tls_ca, *tls_cert, *tls_key; /**< paths; "" = none named */
    bool insecure; /**< servers elsewhere without TLS */
    struct tp_client_security security; /**< the five above, for core */
    uint64_t connect_timeout_ns; /**< for all servers at once */
    int platform_name; /**< enum tp_icd_platform_name */
    bool shared_memory; /**< with servers on this machine */
    uint64_t shared_memory_size; /**< [bytes] of slots */
    uint64_t spin_ns; /**< of a caller that waits, before it sleeps */
};
extern struct tp_icd_settings tp_icd_settings;
/** Loads them from the configuration file and the environment; says what is wrong. */
void tp_icd_settings_load(void);

/* ---- object.c -------------------------------------------------------------------- */

/** @return true if @p handle is a cl_mem that lives; any value may be asked about. */
bool tp_icd_is_mem(const void *handle);
/** Likewise a cl_sampler. */
bool tp_icd_is_sampler(const void *handle);
/** Answers with a text and its NUL. */
cl_int tp_icd_answer_text(size_t value_size, void *value, size_t *size_ret,
                          const char *text);

/* ---- image_format.c -------------------------------------------------------------- */

/** True if the driver has images and lists formats for them. */
bool tp_icd_device_has_images(const struct _cl_device_id *dev);
/** True if some device of the context has. */
bool tp_icd_context_has_images(const struct _cl_context *ctx);

/* ---- discover.c ------------------------------------------------------------------ */

/**
 * Asks all servers for their facts; those that answer get `facts` and `idle`. Within
 * the time limit of the settings. @return OK, NO_MEMORY.
 */
telpher_status tp_icd_discover(struct tp_icd_server *servers, size_t count);
/**
 * Asks a server that was discovered before for its devices again, on a fresh stream: it may
 * have been started anew since, with others. Waits. @return OK, DEVICE_LOST: they are not the
 * same, or why it did not answer
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
/** Reads a number of at most 8 bytes, as the driver gave it. */
uint64_t tp_icd_device_number(const struct _cl_device_id *dev, uint32_t param,
                              uint64_t if_absent);
/** Sets the limits of a new device that calls are checked against. */
void tp_icd_device_limits(struct _cl_device_id *dev);
/** [ns] of the host timer; 0: some driver cannot relate its clock to any. */
cl_ulong tp_icd_timer_resolution(void);
/** The platform's own extensions: "cl_khr_icd" and what all its devices have. */
const char *tp_icd_platform_extensions(void);

/* ---- capabilities.c, device.c ------------------------------------------------------------ */

/** @return the driver's text, or @p if_absent. */
const char *tp_icd_device_text(const struct _cl_device_id *dev, uint32_t param,
                               const char *if_absent);
/** The driver's table as an array for tp_free(); *ret_list is NULL when it has none. */
size_t tp_icd_device_names(const struct _cl_device_id *dev, uint32_t param,
                           cl_name_version **ret_list);
/** True if some device of the platform is able. */
bool tp_icd_platform_has(bool (*able)(const struct _cl_device_id *dev));
/** True if the driver has sub-groups, and says so. */
bool tp_icd_device_has_sub_groups(const struct _cl_device_id *dev);
/** True if the driver takes programs in SPIR-V. */
bool tp_icd_device_has_il(const struct _cl_device_id *dev);
enum { TP_ICD_IL_TEXT_MAX = 1024 };
/** Gives the versions of SPIR-V that it takes, "SPIR-V_1.0 SPIR-V_1.2". @return length */
size_t tp_icd_device_il(const struct _cl_device_id *dev, char *list, size_t size);
/**
 * The extensions of a device that work through us, of those that its driver has.
 * @return text for tp_free(), or NULL: no memory.
 */
char *tp_icd_device_extensions(const struct _cl_device_id *dev);
enum { TP_ICD_PARTITIONS_MAX = 8 };
/** How a device can be partitioned. @return number of entries; 0: not at all */
size_t
tp_icd_device_partitions(const struct _cl_device_id *dev,
                         cl_device_partition_property list[TP_ICD_PARTITIONS_MAX]);
/**
 * Names, a list separated by blanks, with the versions that the device's driver gives
 * them; 1.0.0 where it gives none.
 * @param param the driver's table, CL_DEVICE_…_WITH_VERSION
 * @param ret_list gives an array for tp_free(); NULL if empty.
 */
cl_int tp_icd_device_name_versions(const struct _cl_device_id *dev, uint32_t param,
                                   const char *names, cl_name_version **ret_list,
                                   size_t *ret_count);

/* ---- blob.c: requests, and content of any size beside a message ---------------------- */

/**
 * A request whose reply is waited for. `reply` of the request ends with tp_icd_settle();
 * the request must live until then, also when the place is lost. Without a place: what
 * comes from no single one.
 */
void tp_icd_settle(struct tp_icd_session *session, struct tp_icd_request *req);
/** Waits for that. Not under the lock. */
void tp_icd_await(struct tp_icd_session *session, struct tp_icd_request *req);

/**
 * Puts a message with the request's id and waits for the reply. Not under the lock.
 * @return OK, or why it was not put: then `reply` was not called
 */
telpher_status tp_icd_ask(struct tp_icd_session *session, struct tp_icd_request *req,
                          uint16_t type, const void *msg);

/**
 * Sends @p len bytes as a transfer. Under the lock.
 * @param keep object that owns @p data, held meanwhile; or NULL and
 * @param own  @p data itself, taken: freed with tp_free() also on failure.
 * @param ret_transfer gives the id for the message that announces it.
 */
telpher_status tp_icd_blob_send(struct tp_icd_session *session, const uint8_t *data,
                                size_t len, struct tp_icd_object *keep, uint8_t *own,
                                uint64_t *ret_transfer);

/** Content of a reply, on its way in. */
struct tp_icd_incoming {
    struct tp_icd_sink sink;
    uint8_t *data; /**< heap; freed by tp_icd_blob_fini */
    size_t size; /**< [bytes] */
    telpher_status status;
    /** Called once when all is there or will not come, without locks. */
    void (*then)(struct tp_icd_incoming *in);
    void *user;
};
/**
 * Takes the content of a reply: inline (a copy) if @p transfer is 0, else the transfer
 * that the server chose. Calls in->then, maybe before it returns. Not under the lock.
 */
void tp_icd_blob_receive(struct tp_icd_incoming *in, struct tp_icd_session *session,
                         const struct tp_wire_bytes *bytes, uint64_t transfer,
                         uint64_t size);
void tp_icd_blob_fini(struct tp_icd_incoming *in);

/* ---- program.c ------------------------------------------------------------------------ */

/** What the last build for a device said. */
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

/** A program: what other files see, and what belongs to building and binaries. */
struct tp_icd_program {
    struct _cl_program pub;
    struct tp_icd_build_info *info; /**< [device_count] */
    char **kernels; /**< names by index, the same at all places */
    uint32_t kernel_names;
    bool from_binary;
    bool linked; /**< by clLinkProgram */
    bool built_in; /**< the kernels are the driver's own */
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
 * Makes a program for devices of a context, with nothing in it. Holds the context.
 * @return NULL: no memory.
 */
struct tp_icd_program *tp_icd_program_create(struct _cl_context *ctx, uint32_t count,
                                             struct _cl_device_id *const *devices);
/** @return index of a device in the program, or -1. */
int tp_icd_program_device(const struct _cl_program *program,
                          const struct _cl_device_id *dev);
/** Makes the source or the SPIR-V exist at a place. Under the lock. */
telpher_status tp_icd_program_ensure(struct _cl_program *program,
                                     uint32_t session_index);
/** @return the device that a query about a kernel means; NULL: none. */
const struct _cl_device_id *tp_icd_kernel_device(const struct _cl_kernel *kernel,
                                                 cl_device_id handle);
/** True if it has an executable for device @p i. Under the lock. */
bool tp_icd_program_is_executable(const struct _cl_program *program, uint32_t i);
/** True if it was built for some device. Under the lock. */
bool tp_icd_program_is_built(const struct _cl_program *program);
/** @return name of a kernel that was built for some device, else NULL. Under the lock. */
const char *tp_icd_program_kernel(const struct tp_icd_program *p, uint32_t index);

/* ---- il.c ----------------------------------------------------------------------------- */

/** Puts PROGRAM_IL and the constants that are set. Under the lock. */
telpher_status tp_icd_il_put(struct _cl_program *program, uint32_t session_index);

/* ---- argument.c ------------------------------------------------------------------------- */

/** Fills in what the compiler said of the arguments of a new kernel. */
void tp_icd_args_declare(struct _cl_kernel *kernel, const struct tp_icd_facts *facts);
/** Copies the values to a clone. Under the lock. CL_SUCCESS, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_args_copy(struct _cl_kernel *to, const struct _cl_kernel *from);
/** Puts a value that is set, after what it names. Under the lock. */
void tp_icd_arg_put(struct _cl_kernel *kernel, uint32_t index, uint32_t session_index);

/* ---- build.c, binary.c ------------------------------------------------------------------ */

/** Forgets binaries that were fetched: a build makes others. Under the lock. */
void tp_icd_binaries_forget(struct tp_icd_program *p);
/** Fetches the binaries unless they are there. One round trip. Not under the lock. */
cl_int tp_icd_binaries_fetch(struct tp_icd_program *p);

#endif
