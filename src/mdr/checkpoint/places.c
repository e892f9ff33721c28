/* SPDX-License-Identifier: Apache-2.0 */
/* Which process has which part of a checkpoint, and which one gets a copy. */
#include "mdr/checkpoint/parts.h"

enum { RANDOM_BITS = 16 }; /* of a generation: the lowest */

bool
tp_mdr_has_part(const struct tp_mdr_found *f, uint64_t generation, uint32_t part)
{
    return f->generation == generation && part < f->size &&
           (f->parts[part / 8] >> part % 8 & 1) != 0;
}

uint64_t
tp_mdr_newest_of(const struct tp_mdr_found *found, uint32_t count, uint32_t *ret_parts)
{
    uint64_t newest = 0;

    *ret_parts = 0;
    for (uint32_t r = 0; r < count; r++) {
        if (found[r].generation > newest) {
            newest = found[r].generation;
            *ret_parts = found[r].size;
        }
    }
    return newest;
}

uint64_t
tp_mdr_next_generation(const struct tp_mdr_found *found, uint32_t count,
                       uint64_t newest)
{
    uint32_t random = 0;

    for (uint32_t r = 0; r < count; r++) {
        random ^= found[r].random;
    }
    return ((newest >> RANDOM_BITS) + 1) << RANDOM_BITS |
           (random & ((1u << RANDOM_BITS) - 1));
}

uint32_t
tp_mdr_holder_of(const struct tp_mdr_found *found, uint32_t count, uint64_t generation,
                 uint32_t part)
{
    uint32_t r = 0;

    while (r < count && !tp_mdr_has_part(&found[r], generation, part)) {
        r++;
    }
    return r;
}

bool
tp_mdr_is_whole(const struct tp_mdr_found *found, uint32_t count, uint64_t generation,
                uint32_t parts)
{
    uint32_t part = 0;

    while (part < parts && tp_mdr_holder_of(found, count, generation, part) < count) {
        part++;
    }
    return part == parts;
}

uint32_t
tp_mdr_buddy_of(const struct tp_mdr_found *found, uint32_t count, uint32_t rank)
{
    uint32_t r = (rank + 1) % count;

    while (r != rank && found[r].place == found[rank].place) {
        r = (r + 1) % count;
    }
    return r;
}
