/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where elements are. A process that an element left knows where it went. The element's home,
 * the process in which it begins, receives a message at each arrival. A message goes to the
 * place that its sender knows, else to the home; a process without the element sends it on.
 *
 * Each place is known with the number of moves that led there. A message is sent on only to a
 * place with more moves than the last, or to the home, which keeps it until the element arrives
 * somewhere. So no message travels in a circle.
 */
#include "mdr/object_int.h"

/* A place as the value of a map: never NULL, nor an address of this process. */
#define PLACE_MARK ((uint64_t)1 << 63)

/* The process of an element that ended. Its moves stay, so that older places are known as such
 * when it is inserted again. */
#define GONE UINT32_MAX

struct place {
    uint32_t rank, moves;
};

static bool
get_place(const struct tp_mdr_array_state *a, telpher_mdr_index index,
          struct place *ret)
{
    uint64_t key;
    uint64_t value = 0;

    if (tp_mdr_key(&a->proxy, index, &key)) {
        value = (uint64_t)(uintptr_t)tp_map_get(&a->places, key);
    }
    *ret = (struct place){.rank = (uint32_t)value,
                          .moves = (uint32_t)((value & ~PLACE_MARK) >> 32)};
    return value != 0;
}

static void
put_place(telpher_mdr *mdr, struct tp_mdr_array_state *a, telpher_mdr_index index,
          struct place p)
{
    uint64_t key = 0;
    uint64_t value = PLACE_MARK | (uint64_t)p.moves << 32 | p.rank;

    (void)tp_mdr_key(&a->proxy, index, &key);
    if (tp_map_get(&a->places, key) != NULL) {
        (void)tp_map_remove(&a->places, key);
    }
    if (tp_map_put(&a->places, key, (void *)(uintptr_t)value) != TELPHER_OK) {
        tp_mdr_fail(mdr, TELPHER_ERR_NO_MEMORY,
                    "class %s: out of memory for the process of element (%d, %d, %d)",
                    mdr->classes[a->proxy.class_id]->name, index.at[0], index.at[1],
                    index.at[2]);
    }
}

uint32_t
tp_mdr_place(telpher_mdr *mdr, const struct tp_mdr_array_state *a,
             telpher_mdr_index index, uint32_t *ret_moves)
{
    struct place p;

    *ret_moves = 0;
    if (!get_place(a, index, &p) || p.rank == GONE) {
        return telpher_mdr_home(mdr, &a->proxy, index);
    }
    *ret_moves = p.moves;
    return p.rank;
}

/* Messages that waited at the home for the element go on, from the local queue. */
static void
release_homeless(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                 telpher_mdr_index index)
{
    tp_list_for_each_entry_safe(struct tp_mdr_message, m, &a->homeless, link) {
        const telpher_mdr_index to = tp_mdr_index_in(&m->header);

        if (to.at[0] == index.at[0] && to.at[1] == index.at[1] &&
            to.at[2] == index.at[2]) {
            tp_list_remove(&m->link);
            tp_list_push_back(&mdr->local, &m->link);
            mdr->homeless--;
        }
    }
}

void
tp_mdr_note_place(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                  telpher_mdr_index index, uint32_t rank, uint32_t moves)
{
    struct place known;

    if (rank == mdr->rank || tp_mdr_find(a, index) != NULL ||
        (get_place(a, index, &known) && known.moves >= moves)) {
        return;
    }
    put_place(mdr, a, index, (struct place){rank, moves});
    release_homeless(mdr, a, index);
}

void
tp_mdr_note_arrival(telpher_mdr *mdr, struct tp_mdr_element *e)
{
    struct tp_mdr_array_state *a = e->array;
    uint32_t home = telpher_mdr_home(mdr, &a->proxy, e->index);
    const struct tp_mdr_header h = {
        .kind = TP_MDR_LOCATED,
        .root = mdr->rank,
        .id = a->proxy.id,
        .at = {e->index.at[0], e->index.at[1], e->index.at[2]},
        .moves = e->moves};
    uint64_t key = 0;
    telpher_status status = TELPHER_OK;

    (void)tp_mdr_key(&a->proxy, e->index, &key);
    (void)tp_map_remove(&a->places, key);
    release_homeless(mdr, a, e->index);
    if (home != mdr->rank) {
        status = tp_mdr_send(mdr, home, &h, NULL, 0, NULL, 0);
    }
    if (status != TELPHER_OK && !mdr->exiting) {
        tp_mdr_fail(
            mdr, status,
            "class %s: process %u cannot be informed where element (%d, %d, %d) is: %s",
            mdr->classes[a->proxy.class_id]->name, home, e->index.at[0], e->index.at[1],
            e->index.at[2], telpher_status_text(status));
    }
}

bool
tp_mdr_reroute(telpher_mdr *mdr, struct tp_mdr_array_state *a, struct tp_mdr_message *m)
{
    const telpher_mdr_index index = tp_mdr_index_in(&m->header);
    uint32_t home = telpher_mdr_home(mdr, &a->proxy, index);
    struct place p;

    m->header.flags |= TP_MDR_FORWARDED;
    if (get_place(a, index, &p) && p.rank != GONE && p.moves > m->header.moves) {
        m->header.moves = p.moves;
        tp_mdr_send_kept(mdr, p.rank, m);
    } else if (home != mdr->rank) {
        tp_mdr_send_kept(mdr, home, m);
    } else {
        tp_list_push_back(&a->homeless, &m->link);
        mdr->homeless++;
        return false;
    }
    return true;
}

bool
tp_mdr_may_insert(const struct tp_mdr_array_state *a, telpher_mdr_index index,
                  uint32_t *ret_moves)
{
    struct place p;
    bool known = get_place(a, index, &p);

    *ret_moves = known ? p.moves + 1 : 1;
    return tp_mdr_find(a, index) == NULL && (!known || p.rank == GONE);
}

void
tp_mdr_note_gone(telpher_mdr *mdr, struct tp_mdr_array_state *a,
                 telpher_mdr_index index, uint32_t moves)
{
    struct place known;

    if (!get_place(a, index, &known) || known.moves < moves) {
        put_place(mdr, a, index, (struct place){GONE, moves});
    }
}

void
tp_mdr_answer_place(telpher_mdr *mdr, const struct tp_mdr_element *e,
                    const struct tp_mdr_header *h)
{
    struct tp_mdr_header answer = *h;

    answer.kind = TP_MDR_PLACE;
    answer.root = mdr->rank;
    answer.moves = e->moves;
    if (h->root < mdr->size && h->root != mdr->rank) {
        (void)tp_mdr_control(mdr, h->root, &answer, NULL, 0); /* a hint, no more */
    }
}

void
tp_mdr_place_receive(telpher_mdr *mdr, const struct tp_mdr_header *h)
{
    struct tp_mdr_array_state *a = tp_mdr_array_known(mdr, h->id);
    uint64_t key;

    if (a == NULL || !a->created || h->root >= mdr->size ||
        !tp_mdr_key(&a->proxy, tp_mdr_index_in(h), &key)) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "process %u named the place of element (%d, %d, %d) of array %llx, "
                    "which has no such element",
                    h->root, h->at[0], h->at[1], h->at[2], (unsigned long long)h->id);
        return;
    }
    if (h->kind == TP_MDR_GONE) {
        tp_mdr_note_gone(mdr, a, tp_mdr_index_in(h), h->moves);
    } else {
        tp_mdr_note_place(mdr, a, tp_mdr_index_in(h), h->root, h->moves);
    }
}
