/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about the platform, devices, contexts, programs and kernels share. */
#ifndef TELPHER_ICD_ICD_INT_H
#define TELPHER_ICD_ICD_INT_H

#include "icd/icd.h"

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
    uint64_t connect_timeout_ns; /**< for all servers at once */
    int platform_name; /**< enum tp_icd_platform_name */
};
extern struct tp_icd_settings tp_icd_settings;
/** Loads them from the configuration file and the environment; says what is wrong. */
void tp_icd_settings_load(void);

/* ---- object.c -------------------------------------------------------------------- */

/** @return true if @p handle is a cl_mem that lives; any value may be asked about. */
bool tp_icd_is_mem(const void *handle);
/** Answers with a text and its NUL. */
cl_int tp_icd_answer_text(size_t value_size, void *value, size_t *size_ret,
                          const char *text);

/* ---- discover.c ------------------------------------------------------------------ */

/**
 * Asks all servers for their facts; those that answer get `facts` and `idle`. Within
 * the time limit of the settings. @return OK, NO_MEMORY.
 */
telpher_status tp_icd_discover(struct tp_icd_server *servers, size_t count);

/* ---- platform.c ------------------------------------------------------------------ */

/**
 * Finds the devices of a type. @p ret_devices has room for all devices of the platform.
 * @return CL_SUCCESS, CL_INVALID_DEVICE_TYPE, CL_DEVICE_NOT_FOUND.
 */
cl_int tp_icd_platform_find(struct _cl_platform_id *platform, cl_device_type type,
                            struct _cl_device_id **ret_devices, cl_uint *ret_count);
/** The platform's own extensions: "cl_khr_icd" and what all its devices have. */
const char *tp_icd_platform_extensions(void);

/* ---- device.c -------------------------------------------------------------------- */

/**
 * The extensions of a device that work through us, of those that its driver has.
 * @return text for tp_free(), or NULL: no memory.
 */
char *tp_icd_device_extensions(const struct _cl_device_id *dev);
/**
 * Names with version 1.0.0 where @p known has none, from a list separated by blanks.
 * @param known the driver's own table, @p known_count entries.
 * @param ret_list gives an array for tp_free(); NULL if empty.
 */
cl_int tp_icd_name_versions(const char *names, const cl_name_version *known,
                            size_t known_count, cl_name_version **ret_list,
                            size_t *ret_count);

/* ---- blob.c: content of any size beside a command ---------------------------------- */

/** Content on its way out for which nobody waits: it is freed when all has been sent. */
struct tp_icd_outgoing {
    struct tp_icd_source source;
    struct tp_icd_object *keep; /**< held until then; may be NULL */
    uint8_t *own; /**< freed then; may be NULL */
};
/**
 * Sends @p len bytes as a transfer. Under the lock.
 * @param keep object that owns @p data, held meanwhile; or NULL and
 * @param own  @p data itself, taken: freed with tp_free() also on failure.
 * @param ret_transfer gives the id for the message that announces it.
 */
telpher_status tp_icd_blob_send(struct tp_icd_place *place, const uint8_t *data,
                                size_t len, struct tp_icd_object *keep, uint8_t *own,
                                uint64_t *ret_transfer);

/** Content on its way in. */
struct tp_icd_incoming {
    struct tp_icd_sink sink;
    uint8_t *data; /**< heap, NULL if size is 0; freed by tp_icd_blob_fini */
    size_t size;
    bool done;
    telpher_status status;
};
/** Takes a copy of inline content. */
void tp_icd_blob_copy(struct tp_icd_incoming *in, const void *data, size_t len);
/** Receives a transfer that the server chose. Not under the lock. */
void tp_icd_blob_receive(struct tp_icd_incoming *in, struct tp_icd_place *place,
                         uint64_t transfer, uint64_t size);
/** Waits until all is there. Not under the lock. */
telpher_status tp_icd_blob_wait(struct tp_icd_incoming *in);
void tp_icd_blob_fini(struct tp_icd_incoming *in);

/* ---- program.c, build.c ------------------------------------------------------------ */

/** What a program has beyond what other files see. */
struct tp_icd_program {
    struct _cl_program pub;
    struct {
        char *log; /**< NULL: none */
        cl_program_binary_type binary_type;
        size_t global_bytes;
        cl_int binary_status;
    } * device; /**< [device_count] */
    char **kernels; /**< names by index, the same at all places */
    uint32_t kernel_names;
    bool from_binary;
    struct tp_icd_incoming *binaries; /**< [place_count] last fetched; NULL = not */
    uint64_t *binary_sizes; /**< [device_count] */
    uint8_t **binary; /**< [device_count] borrowed from binaries */
};
static inline struct tp_icd_program *
tp_icd_program_of(struct _cl_program *program)
{
    return (struct tp_icd_program *)program;
}
/** @return index in program->devices, or -1. */
int tp_icd_program_device(const struct _cl_program *program,
                          const struct _cl_device_id *dev);
/** Forgets fetched binaries. Under the lock. */
void tp_icd_program_forget_binaries(struct tp_icd_program *p);
/** Sends the source to a place unless it is there. Under the lock. */
telpher_status tp_icd_program_ensure(struct _cl_program *program, uint32_t place_index);
/** Fetches sizes and content of the binaries unless that was done since the last build. */
cl_int tp_icd_program_fetch_binaries(struct tp_icd_program *p);
/** @return index of a kernel built for at least one device, or -1. */
int tp_icd_program_kernel(const struct tp_icd_program *p, const char *name);
/** @return some place's facts that know the kernel, or NULL. */
const struct tp_icd_facts *tp_icd_program_kernel_facts(const struct tp_icd_program *p,
                                                       uint32_t index);

/* ---- destructor callbacks: context.c -------------------------------------------------- */

#endif
