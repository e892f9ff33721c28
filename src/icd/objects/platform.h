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

/** Answers of a driver, by (kind, index, sub, param). Immutable after creation. */
struct tp_icd_facts;

/** Parses records (wire/facts.h); copies them. OK, PROTO, NO_MEMORY. */
telpher_status tp_icd_facts_create(const uint8_t *blob, size_t len,
                                   struct tp_icd_facts **ret_facts);
void tp_icd_facts_destroy(struct tp_icd_facts *facts);
/** @return true and the record (borrowed from @p facts), or false: not known. */
bool tp_icd_facts_get(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                      uint32_t sub, uint32_t param, struct tp_wire_fact *ret_fact);
/** @return 1 + the highest index of a kind, 0 if there is none. */
/** As tp_icd_facts_get(); false also if the driver returned an error, or without facts. */
bool tp_icd_facts_value(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                        uint32_t sub, uint32_t param, struct tp_wire_fact *ret_fact);
/** Copies a value of exactly @p len bytes. @return false: none, nothing copied */
bool tp_icd_facts_number(const struct tp_icd_facts *facts, uint16_t kind,
                         uint32_t index, uint32_t sub, uint32_t param, void *ret_number,
                         size_t len);
/** @return a value that ends with a 0 byte, or @p if_absent */
const char *tp_icd_facts_text(const struct tp_icd_facts *facts, uint16_t kind,
                              uint32_t index, uint32_t sub, uint32_t param,
                              const char *if_absent);
uint32_t tp_icd_facts_count(const struct tp_icd_facts *facts, uint16_t kind);

/* ---- platform.c: servers and devices ------------------------------------------ */

/** A server of TELPHER_SERVERS. Created at the first call; never freed. */
struct tp_icd_server {
    char *address;
    struct tp_icd_facts *facts; /**< NULL: it did not answer */
    /** Open stream without executor; the first session of this server takes it. */
    struct tp_stream *idle;
    uint8_t idle_session[TP_WIRE_SESSION_BYTES];
    uint64_t idle_features; /**< of prefaces */
    struct tp_icd_session *
        *sessions; /**< [platforms of the server]; NULL = not opened yet */
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

struct tp_icd_subs; /* private to subdevice.c: state shared by parts of a device */

struct _cl_device_id {
    struct tp_icd_object obj;
    struct tp_icd_server *server;
    struct _cl_device_id *parent; /**< held; NULL: a device of the server */
    struct tp_icd_subs *subs; /**< NULL: a device of the server */
    uint32_t index; /**< its number on the wire, as in the facts about it */
    uint32_t platform; /**< of the server, in its facts */
    cl_device_type type;
    cl_uint address_align_bytes; /**< MEM_BASE_ADDR_ALIGN / 8 */
    cl_ulong max_alloc_bytes;
    size_t max_group_size;
    bool
        images; /**< its driver supports images in a format the protocol can transfer */
    cl_bool available; /**< false once its session is lost; of a device of the server */
};

/** Looks up a device fact; false if absent or the driver returned an error. */
bool tp_icd_device_fact(const struct _cl_device_id *dev, uint32_t param,
                        struct tp_wire_fact *ret_fact);

/* ---- subdevice.c -------------------------------------------------------------- */

/** Looks up a fact specific to a sub-device; false if its parent's value applies. */
bool tp_icd_sub_device_fact(const struct _cl_device_id *dev, uint32_t param,
                            struct tp_wire_fact *ret_fact);
/** @return the session where a sub-device exists; it may be lost. */
struct tp_icd_session *tp_icd_sub_device_session(const struct _cl_device_id *dev);

#endif
