/* SPDX-License-Identifier: Apache-2.0 */
/* Growable byte buffer. */
#include "base/container/buf.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

#define MIN_CAPACITY 256

void
tp_buf_init(struct tp_buf *buf, size_t limit_bytes)
{
    tp_buf_init_front(buf, limit_bytes, 0);
}

void
tp_buf_init_front(struct tp_buf *buf, size_t limit_bytes, size_t front)
{
    *buf = (struct tp_buf){
        .limit_bytes = limit_bytes, .start = front, .end = front, .front = front};
}

void
tp_buf_fini(struct tp_buf *buf)
{
    tp_free(buf->data);
    tp_buf_init_front(buf, buf->limit_bytes, buf->front);
}

/* Moves the contents into a block with room for @p needed bytes or more behind the front. */
static telpher_status
grow(struct tp_buf *buf, size_t needed)
{
    size_t most = buf->limit_bytes != 0 && buf->limit_bytes <= SIZE_MAX / 2
                      ? buf->limit_bytes * 2
                      : SIZE_MAX;
    size_t doubled = buf->capacity <= SIZE_MAX / 2 ? buf->capacity * 2 : SIZE_MAX;
    size_t capacity = TP_MAX(TP_MAX(needed, MIN_CAPACITY), TP_MIN(doubled, most));
    size_t len = tp_buf_len(buf);
    uint8_t *data = NULL;

    if (capacity <= SIZE_MAX - buf->front) {
        capacity += buf->front;
        data = tp_malloc(capacity, "buffer");
    }
    if (data == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (len != 0) {
        memcpy(data + buf->front, tp_buf_data(buf), len);
    }
    tp_free(buf->data);
    buf->data = data;
    buf->start = buf->front;
    buf->end = buf->front + len;
    buf->capacity = capacity;
    return TELPHER_OK;
}

/* Moves the contents to the front of their block. */
static void
pull_up(struct tp_buf *buf)
{
    size_t len = tp_buf_len(buf);

    memmove(buf->data + buf->front, buf->data + buf->start, len);
    buf->start = buf->front;
    buf->end = buf->front + len;
}

telpher_status
tp_buf_reserve(struct tp_buf *buf, size_t len, uint8_t **ret_tail)
{
    size_t used = tp_buf_len(buf);
    size_t limit = buf->limit_bytes != 0 ? buf->limit_bytes : SIZE_MAX;

    if (used > limit || len > limit - used) {
        return TELPHER_ERR_LIMIT;
    }
    if (buf->data == NULL || buf->capacity - buf->end < len) {
        if (buf->data != NULL && buf->start - buf->front >= used &&
            buf->capacity - buf->front - used >= len) {
            pull_up(buf);
        } else if (grow(buf, used + len) != TELPHER_OK) {
            return TELPHER_ERR_NO_MEMORY;
        }
    }
    *ret_tail = buf->data + buf->end;
    return TELPHER_OK;
}

void
tp_buf_commit(struct tp_buf *buf, size_t len)
{
    tp_assert(len <= buf->capacity - buf->end);
    buf->end += len;
}

telpher_status
tp_buf_append(struct tp_buf *buf, const void *src, size_t len)
{
    uint8_t *tail;
    telpher_status status = tp_buf_reserve(buf, len, &tail);

    if (status == TELPHER_OK && len != 0) {
        memcpy(tail, src, len);
        tp_buf_commit(buf, len);
    }
    return status;
}

void
tp_buf_consume(struct tp_buf *buf, size_t len)
{
    tp_assert(len <= tp_buf_len(buf));
    buf->start += len;
    if (buf->start == buf->end) {
        tp_buf_clear(buf);
    }
}

void
tp_buf_clear(struct tp_buf *buf)
{
    buf->start = buf->front;
    buf->end = buf->front;
}

void
tp_buf_trim(struct tp_buf *buf, size_t keep_bytes)
{
    if (tp_buf_len(buf) == 0 && buf->capacity > keep_bytes) {
        tp_buf_fini(buf);
    }
}
