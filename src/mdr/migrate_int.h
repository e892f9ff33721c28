/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that are packed and move to other processes: pup.c, migrate.c. */
#ifndef TELPHER_MDR_MIGRATE_INT_H
#define TELPHER_MDR_MIGRATE_INT_H

#include "mdr/object_int.h"

struct telpher_mdr_pup {
    telpher_mdr *mdr;
    int mode; /**< enum telpher_mdr_pup_mode */
    uint8_t *at, *end; /**< PACK and UNPACK: the rest of the packed bytes */
    size_t bytes; /**< SIZE: so far */
    telpher_status status;
};

/** First parameters of MIGRATE: what an element has besides its object. */
struct tp_mdr_migrant {
    uint64_t contributed, heard;
    uint32_t resume; /**< entry + 1 that runs on arrival, or 0 */
    uint32_t syncs;
    uint64_t debt;
    uint32_t joined, inserted;
    uint64_t before_ns;
};

/** Packs an element with its channels. The caller frees *ret_data, of malloc(). */
telpher_status tp_mdr_pack(telpher_mdr *mdr, struct tp_mdr_element *e, void **ret_data,
                           size_t *ret_len);
telpher_status tp_mdr_unpack(telpher_mdr *mdr, struct tp_mdr_element *e, void *data,
                             size_t len);
/** Elements whose entries have ended leave. @return true if one left */
bool tp_mdr_leave(telpher_mdr *mdr);
/** Handles MIGRATE: makes the element, which messages find; to be unpacked when the local queue
 *  comes to @p m. @return false after an error, which ends the run */
bool tp_mdr_migrant_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                            struct tp_mdr_message *m);
/** Unpacks a migrant, outside of callbacks. */
void tp_mdr_migrant_unpack(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                           struct tp_mdr_message *m);

/** Handles ARRIVED. */
void tp_mdr_arrived_receive(telpher_mdr *mdr, const struct tp_mdr_header *h);

#endif
