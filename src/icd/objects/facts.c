/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cached answers of a driver, looked up by object and query parameter. Records stay in their
 * encoded form; a hash table of offsets indexes them.
 */
#include "icd/objects/platform.h"

#include <string.h>

#include "base/alloc.h"
#include "icd/icd_int.h"

enum { KINDS = TP_WIRE_FACT_IMAGE_FORMATS + 1 };

struct tp_icd_facts {
    uint8_t *blob;
    size_t len; /**< [bytes] of blob */
    uint32_t *table; /**< offset of a record + 1; 0 is empty */
    uint32_t mask; /**< slots of the table - 1 */
    uint32_t count[KINDS]; /**< 1 + highest index of each kind */
};

static uint32_t
hash(uint16_t kind, uint32_t index, uint32_t sub, uint32_t param)
{
    uint64_t h = ((uint64_t)kind << 48) ^ ((uint64_t)index << 24) ^ param;

    h = (h ^ sub * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
    h ^= h >> 32;
    return (uint32_t)((h * 0xc4ceb9fe1a85ec53ULL) >> 32);
}

static bool
is_about(const struct tp_wire_fact *fact, uint16_t kind, uint32_t index, uint32_t sub,
         uint32_t param)
{
    return fact->kind == kind && fact->index == index && fact->sub == sub &&
           fact->param == param;
}

/** Reads the record at an offset that is known to be good. */
static void
record_at(const struct tp_icd_facts *facts, uint32_t offset,
          struct tp_wire_fact *ret_fact)
{
    const uint8_t *src = facts->blob + offset;

    (void)tp_wire_get_fact(&src, facts->blob + facts->len, ret_fact);
}

/** @return the slot that holds the record, or the empty one where it would be. */
static uint32_t
slot_of(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index, uint32_t sub,
        uint32_t param)
{
    uint32_t slot = hash(kind, index, sub, param) & facts->mask;

    while (facts->table[slot] != 0) {
        struct tp_wire_fact fact;

        record_at(facts, facts->table[slot] - 1, &fact);
        if (is_about(&fact, kind, index, sub, param)) {
            break;
        }
        slot = (slot + 1) & facts->mask;
    }
    return slot;
}

/** Counts the records. @return false: malformed. */
static bool
count_records(const uint8_t *blob, size_t len, size_t *ret_count)
{
    const uint8_t *src = blob, *end = blob + len;
    struct tp_wire_fact fact;
    size_t count = 0;

    while (tp_wire_get_fact(&src, end, &fact)) {
        if (fact.index == UINT32_MAX) {
            return false;
        }
        count++;
    }
    *ret_count = count;
    return src == end;
}

static void
enter_records(struct tp_icd_facts *facts)
{
    const uint8_t *src = facts->blob, *end = src + facts->len;
    struct tp_wire_fact fact;
    uint32_t offset = 0;

    while (tp_wire_get_fact(&src, end, &fact)) {
        uint32_t slot = slot_of(facts, fact.kind, fact.index, fact.sub, fact.param);

        facts->table[slot] = offset + 1; /* the later of two about the same counts */
        if (fact.kind < KINDS && facts->count[fact.kind] <= fact.index) {
            facts->count[fact.kind] = fact.index + 1;
        }
        offset = (uint32_t)(src - facts->blob);
    }
}

telpher_status
tp_icd_facts_create(const uint8_t *blob, size_t len, struct tp_icd_facts **ret_facts)
{
    struct tp_icd_facts *facts;
    size_t count, slots = 8;

    if (len >= UINT32_MAX || !count_records(blob, len, &count)) {
        return TELPHER_ERR_PROTO;
    }
    while (slots < 2 * count) {
        slots *= 2;
    }
    facts = tp_zalloc(sizeof(*facts), "facts");
    if (facts == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    facts->blob = tp_memdup(blob, len, "facts");
    facts->table = tp_alloc_array(slots, sizeof(facts->table[0]), "facts");
    if (facts->blob == NULL || facts->table == NULL) {
        tp_icd_facts_destroy(facts);
        return TELPHER_ERR_NO_MEMORY;
    }
    facts->len = len;
    facts->mask = (uint32_t)slots - 1;
    enter_records(facts);
    *ret_facts = facts;
    return TELPHER_OK;
}

void
tp_icd_facts_destroy(struct tp_icd_facts *facts)
{
    if (facts == NULL) {
        return;
    }
    tp_free(facts->blob);
    tp_free(facts->table);
    tp_free(facts);
}

bool
tp_icd_facts_get(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                 uint32_t sub, uint32_t param, struct tp_wire_fact *ret_fact)
{
    uint32_t slot = slot_of(facts, kind, index, sub, param);

    if (facts->table[slot] == 0) {
        return false;
    }
    record_at(facts, facts->table[slot] - 1, ret_fact);
    return true;
}

uint32_t
tp_icd_facts_count(const struct tp_icd_facts *facts, uint16_t kind)
{
    return kind < KINDS ? facts->count[kind] : 0;
}

bool
tp_icd_facts_value(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                   uint32_t sub, uint32_t param, struct tp_wire_fact *ret_fact)
{
    return facts != NULL &&
           tp_icd_facts_get(facts, kind, index, sub, param, ret_fact) &&
           ret_fact->error == CL_SUCCESS;
}

bool
tp_icd_facts_number(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                    uint32_t sub, uint32_t param, void *ret_number, size_t len)
{
    struct tp_wire_fact fact;

    if (!tp_icd_facts_value(facts, kind, index, sub, param, &fact) || fact.len != len) {
        return false;
    }
    memcpy(ret_number, fact.data, len);
    return true;
}

const char *
tp_icd_facts_text(const struct tp_icd_facts *facts, uint16_t kind, uint32_t index,
                  uint32_t sub, uint32_t param, const char *if_absent)
{
    struct tp_wire_fact fact;

    return tp_icd_facts_value(facts, kind, index, sub, param, &fact) && fact.len > 0 &&
                   fact.data[fact.len - 1] == '\0'
               ? (const char *)fact.data
               : if_absent;
}

uint64_t
tp_icd_device_number(const struct _cl_device_id *dev, uint32_t param,
                     uint64_t if_absent)
{
    struct tp_wire_fact fact;
    uint64_t value = 0;

    if (!tp_icd_device_fact(dev, param, &fact) || fact.len == 0 ||
        fact.len > sizeof(value)) {
        return if_absent;
    }
    memcpy(&value, fact.data, fact.len);
    return value;
}
