/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections: elements of an array that hear multicasts and make reductions of their own. All
 * processes know the members, so that elements may move. A multicast goes the way of a broadcast,
 * and so does the list of members, which therefore comes first.
 */
#include "mdr/object_int.h"

#include "base/alloc.h"

/* Members in one message. */
#define MEMBERS 64

/* ---- the program's calls ---- */

static telpher_status
send_to_all(telpher_mdr *mdr, const telpher_mdr_section *s, uint8_t kind, uint8_t flags,
            uint32_t entry, const void *params, size_t params_len)
{
    const struct tp_mdr_header h = {.kind = kind,
                                    .flags = (uint8_t)(flags | TP_MDR_UNNUMBERED),
                                    .entry = (uint16_t)entry,
                                    .root = mdr->rank,
                                    .id = s->array.id,
                                    .at = {0, 0, (int32_t)(uint32_t)s->number},
                                    .moves = (uint32_t)(s->number >> 32)};

    return tp_mdr_send(mdr, 0, &h, NULL, 0, params, params_len);
}

telpher_status
telpher_mdr_section_create(telpher_mdr *mdr, const telpher_mdr_array *array,
                           const telpher_mdr_index *members, size_t count,
                           telpher_mdr_section *ret_section)
{
    telpher_mdr_section s = {*array,
                             (uint64_t)(mdr->rank + 1) << 32 | ++mdr->section_counter};
    telpher_status status = TELPHER_OK;

    for (size_t i = 0; i < count; i++) {
        if (telpher_mdr_home(mdr, array, members[i]) == UINT32_MAX) {
            return tp_mdr_error(mdr, TELPHER_ERR_RANGE,
                                "the array of class %s has no element (%d, %d, %d)",
                                mdr->classes[array->class_id]->name, members[i].at[0],
                                members[i].at[1], members[i].at[2]);
        }
    }
    if (count == 0) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE,
                            "a section of class %s has no members; name at least one",
                            mdr->classes[array->class_id]->name);
    }
    for (size_t i = 0; i < count && status == TELPHER_OK; i += MEMBERS) {
        status = send_to_all(mdr, &s, TP_MDR_SECTION, 0, 0, members + i,
                             TP_MIN(count - i, MEMBERS) * sizeof(*members));
    }
    if (status == TELPHER_OK) {
        *ret_section = s;
    }
    return status;
}

telpher_status
telpher_mdr_section_broadcast(telpher_mdr *mdr, const telpher_mdr_section *section,
                              uint32_t entry, const void *params, size_t params_len)
{
    telpher_status status =
        tp_mdr_check_call(mdr, &section->array, entry, params_len, 0);

    if (status == TELPHER_OK) {
        status = tp_mdr_hold(mdr);
    }
    return status == TELPHER_OK ? send_to_all(mdr, section, TP_MDR_BROADCAST,
                                              TP_MDR_MEMBERS, entry, params, params_len)
                                : status;
}

/* Counts the element's contributions to a section. */
static uint64_t *
turns_of(struct tp_mdr_element *e, uint64_t section)
{
    struct tp_mdr_turn *t;

    tp_list_for_each_entry(struct tp_mdr_turn, found, &e->turns, link) {
        if (found->section == section) {
            return &found->contributed;
        }
    }
    t = tp_zalloc(sizeof(*t), "mdr section");
    if (t == NULL) {
        return NULL;
    }
    t->section = section;
    tp_list_init(&t->link);
    tp_list_push_back(&e->turns, &t->link);
    return &t->contributed;
}

telpher_status
telpher_mdr_section_contribute(telpher_mdr_call *call,
                               const telpher_mdr_section *section, const void *data,
                               size_t len, uint32_t op,
                               const telpher_mdr_target *target)
{
    struct tp_mdr_element *e = tp_mdr_element_of_call(call);
    const struct tp_mdr_section_state *s;
    uint64_t *turns;

    if (e == NULL) {
        return TELPHER_ERR_INVALID;
    }
    s = section->array.id == call->array.id
            ? tp_mdr_section_of(e->array, section->number)
            : NULL;
    if (s == NULL || !tp_mdr_is_member(s, e)) {
        return tp_mdr_error(call->mdr, TELPHER_ERR_NOT_FOUND,
                            "element (%d, %d, %d) of class %s is not in that section",
                            e->index.at[0], e->index.at[1], e->index.at[2],
                            call->mdr->classes[call->array.class_id]->name);
    }
    turns = turns_of(e, s->number);
    if (turns == NULL) {
        return tp_mdr_error(call->mdr, TELPHER_ERR_NO_MEMORY,
                            "no memory for a contribution");
    }
    return tp_mdr_contribute_to(call, s, turns, data, len, op, target);
}

/* ---- members ---- */

uint64_t
tp_mdr_section_in(const struct tp_mdr_header *h)
{
    return (uint64_t)h->moves << 32 | (uint32_t)h->at[2];
}

struct tp_mdr_section_state *
tp_mdr_section_of(const struct tp_mdr_array_state *a, uint64_t number)
{
    return tp_map_get(&a->sections, number);
}

bool
tp_mdr_is_member(const struct tp_mdr_section_state *s, const struct tp_mdr_element *e)
{
    uint64_t key;

    return tp_mdr_key(&e->array->proxy, e->index, &key) &&
           tp_map_get(&s->members, key) != NULL;
}

struct tp_mdr_section_state *
tp_mdr_section_made(struct tp_mdr_array_state *a, uint64_t number)
{
    struct tp_mdr_section_state *s = tp_mdr_section_of(a, number);

    if (s != NULL) {
        return s;
    }
    s = tp_zalloc(sizeof(*s), "mdr section");
    if (s == NULL || tp_map_put(&a->sections, number, s) != TELPHER_OK) {
        tp_free(s);
        return NULL;
    }
    s->number = number;
    tp_map_init(&s->members);
    return s;
}

void
tp_mdr_section_receive(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                       const struct tp_mdr_delivery *d)
{
    struct tp_mdr_section_state *s = tp_mdr_section_made(a, tp_mdr_section_in(d->h));
    const telpher_mdr_index *members = d->params;
    telpher_status status = s != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;

    for (size_t i = 0; i < d->params_len / sizeof(*members) && s != NULL; i++) {
        uint64_t key;

        if (!tp_mdr_key(&a->proxy, members[i], &key)) {
            tp_mdr_fail(
                mdr, TELPHER_ERR_PROTO,
                "class %s: a section names element (%d, %d, %d), which the class lacks",
                mdr->classes[a->proxy.class_id]->name, members[i].at[0],
                members[i].at[1], members[i].at[2]);
            return;
        }
        if (tp_map_put(&s->members, key, s) == TELPHER_ERR_NO_MEMORY) {
            status = TELPHER_ERR_NO_MEMORY;
        }
    }
    if (status != TELPHER_OK) {
        tp_mdr_fail(
            mdr, status, "class %s: out of memory for a section of %zu elements",
            mdr->classes[a->proxy.class_id]->name, d->params_len / sizeof(*members));
    }
}

/* ---- moves and the end ---- */

void
tp_mdr_turns_pup(telpher_mdr_pup *pup, struct tp_mdr_element *e)
{
    uint64_t count = tp_list_count(&e->turns);

    telpher_mdr_pup_bytes(pup, &count, sizeof(count));
    if (pup->mode != TELPHER_MDR_UNPACK) {
        tp_list_for_each_entry(struct tp_mdr_turn, t, &e->turns, link) {
            telpher_mdr_pup_bytes(pup, &t->section, 2 * sizeof(uint64_t));
        }
        return;
    }
    for (uint64_t i = 0; i < count && pup->status == TELPHER_OK; i++) {
        uint64_t pair[2] = {0, 0};
        uint64_t *turns;

        telpher_mdr_pup_bytes(pup, pair, sizeof(pair));
        turns = turns_of(e, pair[0]);
        if (turns == NULL) {
            pup->status = TELPHER_ERR_NO_MEMORY;
        } else {
            *turns = pair[1];
        }
    }
}

void
tp_mdr_turns_fini(struct tp_mdr_element *e)
{
    tp_list_for_each_entry_safe(struct tp_mdr_turn, t, &e->turns, link) {
        tp_list_remove(&t->link);
        tp_free(t);
    }
}

void
tp_mdr_sections_fini(struct tp_mdr_array_state *a)
{
    size_t cursor = 0;
    void *value;

    while (tp_map_next(&a->sections, &cursor, NULL, &value)) {
        struct tp_mdr_section_state *s = value;

        tp_map_fini(&s->members);
        tp_free(s);
    }
    tp_map_fini(&a->sections);
}
