/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable byte buffer: append at the end, consume at the front. Consuming moves an offset;
 * bytes are moved only when room at the end is needed and at least half of the buffer has
 * been consumed, so each byte is moved a bounded number of times. For that the memory may
 * be twice the limit of the contents.
 *
 * Threads: the caller's lock.
 */
#ifndef TELPHER_BASE_CONTAINER_BUF_H
#define TELPHER_BASE_CONTAINER_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <telpher/status.h>

/** Private members, except for the inline calls below. */
struct tp_buf {
    uint8_t *data;
    size_t start;
    size_t end;
    size_t capacity;
    size_t limit_bytes;
    size_t front; /* [bytes] free before the contents */
};

/** Allocates nothing. @p limit_bytes bounds what the buffer may hold; 0 = no limit. */
void tp_buf_init(struct tp_buf *buf, size_t limit_bytes);
/** The same; the @p front bytes before tp_buf_data() are the caller's, for a header: what is
 *  in them is lost with the next call that is not const. */
void tp_buf_init_front(struct tp_buf *buf, size_t limit_bytes, size_t front);
void tp_buf_fini(struct tp_buf *buf);

/** First byte not yet consumed; valid until the next call that is not const. */
static inline uint8_t *
tp_buf_data(const struct tp_buf *buf)
{
    return buf->data == NULL ? NULL : buf->data + buf->start;
}

/** [bytes] not yet consumed. */
static inline size_t
tp_buf_len(const struct tp_buf *buf)
{
    return buf->end - buf->start;
}

/**
 * Makes room for @p len bytes after the contents and gives their address in *ret_tail;
 * fill them, then tp_buf_commit().
 *
 * @return TELPHER_OK
 *         TELPHER_ERR_LIMIT      the limit would be passed; nothing changed
 *         TELPHER_ERR_NO_MEMORY  nothing changed
 */
telpher_status tp_buf_reserve(struct tp_buf *buf, size_t len, uint8_t **ret_tail);

/** Adds the first @p len bytes of those reserved to the contents. */
void tp_buf_commit(struct tp_buf *buf, size_t len);

/** Copies @p len bytes after the contents; statuses of tp_buf_reserve(). */
telpher_status tp_buf_append(struct tp_buf *buf, const void *src, size_t len);

/** Drops the first @p len bytes; @p len <= tp_buf_len(). */
void tp_buf_consume(struct tp_buf *buf, size_t len);

/** Drops everything, keeping the memory. */
void tp_buf_clear(struct tp_buf *buf);

/** Gives memory back when the buffer is empty and larger than @p keep_bytes. */
void tp_buf_trim(struct tp_buf *buf, size_t keep_bytes);

#endif
