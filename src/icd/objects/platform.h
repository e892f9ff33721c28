/* SPDX-License-Identifier: Apache-2.0 */
/* Servers, the platform, devices, and cached answers of drivers. */
#ifndef TELPHER_ICD_OBJECTS_PLATFORM_H
#define TELPHER_ICD_OBJECTS_PLATFORM_H

#include "core/session/client.h"
#include "core/session/stream.h"
#include "icd/objects/object.h"
#include "wire/facts.h"

struct tp_icd_session;

/* ---- facts.c: cached answers -------------------------------------------------- */

/** Answers of a driver, by (kind, index, sub, param). Never changes once made. */
struct tp_icd_facts;

/** Parses records (wire/facts.h); copies them. OK, PROTO, NO_MEMORY. */
telpher_status tp_icd_facts_create(const uint8_t *blob, size_t len,
                                   struct tp_icd_facts **ret_facts);
void tp_icd_facts_destroy(struct tp_icd_facts *facts);
/** @return true and the record (borrowed from @p facts), or false: not known. */
bool tp_icd_facts_get(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                      uint32_t sub, uint32_t param, struct tp_wire_fact *ret_fact);
/** @return 1 + the highest index of a kind, 0 if there is none. */
uint32_t tp_icd_facts_count(const struct tp_icd_facts *facts, uint16_t kind);

/* ---- platform.c: servers and devices ------------------------------------------ */

/** A server of TELPHER_SERVERS. Made once, at the first call; lives for ever. */
struct tp_icd_server {
    char *address;
    struct tp_icd_facts *facts; /**< NULL: it did not answer */
    /** Its opened session without executor, for the first place there. */
    struct tp_stream *idle;
    uint8_t idle_session[TP_WIRE_SESSION_BYTES];
    uint64_t idle_features; /**< of prefaces */
    struct tp_icd_session *
        *sessions; /**< [platforms of the server]; NULL = not in use yet */
    uint32_t platform_count;
};

/** The one platform; `_cl_platform_id` of the headers. */
struct _cl_platform_id {
    struct tp_icd_object obj;
    struct tp_icd_server *servers;
    size_t server_count;
    struct _cl_device_id **devices; /**< of all servers, always the same pointers */
    size_t device_count;
};

struct tp_icd_subs; /* private to subdevice.c: what the parts of a device share */

struct _cl_device_id {
    struct tp_icd_object obj;
    struct tp_icd_server *server;
    struct _cl_device_id *parent; /**< held; NULL: a device of the server */
    struct tp_icd_subs *subs; /**< NULL likewise */
    uint32_t index; /**< its number on the wire, as in the facts about it */
    uint32_t platform; /**< of the server, in its facts */
    cl_device_type type;
    cl_uint address_align_bytes; /**< MEM_BASE_ADDR_ALIGN / 8 */
    cl_ulong max_alloc_bytes;
    size_t max_group_size;
    bool images; /**< its driver has images, in some format that travels */
    cl_bool available; /**< false once its place is lost; of a device of the server */
};

/** Looks a device fact up; false if absent or the driver refused it. */
bool tp_icd_device_fact(const struct _cl_device_id *dev, uint32_t param,
                        struct tp_wire_fact *ret_fact);

/* ---- subdevice.c -------------------------------------------------------------- */

/** Looks a fact of a sub-device alone up: false if it is as its parent's. */
bool tp_icd_sub_device_fact(const struct _cl_device_id *dev, uint32_t param,
                            struct tp_wire_fact *ret_fact);
/** @return the place where a sub-device exists; it may be lost. */
struct tp_icd_session *tp_icd_sub_device_session(const struct _cl_device_id *dev);

#endif
