/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. A struct tp_list is either a head or a link inside an
 * object; both are initialised to point at themselves. No allocation, nothing can fail.
 *
 * Threads: the caller's lock.
 */
#ifndef TELPHER_BASE_CONTAINER_LIST_H
#define TELPHER_BASE_CONTAINER_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

struct tp_list {
    struct tp_list *next;
    struct tp_list *prev;
};

/** The object of @p type whose link @p member is at @p ptr. */
#define tp_list_entry(ptr, type, member) tp_container_of(ptr, type, member)

/** Visits each link; the list must not change meanwhile. */
#define tp_list_for_each(pos, head)                                                    \
    for (struct tp_list *pos = (head)->next; pos != (head); pos = pos->next)

/** Visits each link; @p pos itself may be removed (and freed) meanwhile. */
#define tp_list_for_each_safe(pos, head)                                               \
    for (struct tp_list *pos = (head)->next, *pos##_next = pos->next; pos != (head);   \
         pos = pos##_next, pos##_next = pos->next)

/** Visits each object of @p type, whose link is @p member; the list must not change. */
#define tp_list_for_each_entry(type, pos, head, member)                                \
    for (type *pos = tp_list_entry((head)->next, type, member);                        \
         &pos->member != (head); pos = tp_list_entry(pos->member.next, type, member))

/** Visits each object; @p pos itself may be removed (and freed) meanwhile. */
#define tp_list_for_each_entry_safe(type, pos, head, member)                           \
    for (type *pos = tp_list_entry((head)->next, type, member),                        \
              *pos##_next = tp_list_entry(pos->member.next, type, member);             \
         &pos->member != (head);                                                       \
         pos = pos##_next, pos##_next = tp_list_entry(pos->member.next, type, member))

static inline void
tp_list_init(struct tp_list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool
tp_list_is_empty(const struct tp_list *head)
{
    return head->next == head;
}

/** True for a link that is in some list. */
static inline bool
tp_list_is_linked(const struct tp_list *link)
{
    return link->next != link;
}

/** Puts @p link, which is in no list, just before @p pos. */
static inline void
tp_list_insert_before(struct tp_list *pos, struct tp_list *link)
{
    link->next = pos;
    link->prev = pos->prev;
    pos->prev->next = link;
    pos->prev = link;
}

static inline void
tp_list_push_back(struct tp_list *head, struct tp_list *link)
{
    tp_list_insert_before(head, link);
}

static inline void
tp_list_push_front(struct tp_list *head, struct tp_list *link)
{
    tp_list_insert_before(head->next, link);
}

/** Takes @p link out of its list, if it is in one; it is then initialised again. */
static inline void
tp_list_remove(struct tp_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    tp_list_init(link);
}

/** First link or NULL; it stays in the list. */
static inline struct tp_list *
tp_list_first(const struct tp_list *head)
{
    return tp_list_is_empty(head) ? NULL : head->next;
}

/** Last link or NULL; it stays in the list. */
static inline struct tp_list *
tp_list_last(const struct tp_list *head)
{
    return tp_list_is_empty(head) ? NULL : head->prev;
}

/** Takes the first link out and returns it; NULL when empty. */
static inline struct tp_list *
tp_list_pop_front(struct tp_list *head)
{
    struct tp_list *link = tp_list_first(head);

    if (link != NULL) {
        tp_list_remove(link);
    }
    return link;
}

/** Moves all of @p from, in order, to the end of @p to; @p from is empty afterwards. */
static inline void
tp_list_splice_back(struct tp_list *to, struct tp_list *from)
{
    if (tp_list_is_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    tp_list_init(from);
}

/** Number of links; walks the list. */
static inline size_t
tp_list_count(const struct tp_list *head)
{
    size_t count = 0;

    tp_list_for_each(pos, head) {
        count++;
    }
    return count;
}

#endif
