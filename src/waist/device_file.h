/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of domains whose memory is a memory file (base/os/memfd.h), and plain chunks. */
#ifndef TELPHER_WAIST_DEVICE_FILE_H
#define TELPHER_WAIST_DEVICE_FILE_H

#include "waist/device.h"

/** A memory file that is mapped. */
struct tp_device_file {
    void *base;
    uint64_t size;
    int fd; /**< -1: another process's, imported */
};

/** @return OK and a file to close; NO_MEMORY, LIMIT (too many open files) */
telpher_status tp_device_file_create(const char *name, uint64_t size,
                                     struct tp_device_file *ret_file);
void tp_device_file_close(struct tp_device_file *file);
/** Writes the file's name as a domain's blob. @return OK; UNSUPPORTED. */
telpher_status tp_device_file_export(const struct tp_device_file *file,
                                     uint8_t blob[TP_DEVICE_BLOB_MAX], size_t *ret_len);
/** Maps the file of a blob. @return OK and a file to close; INVALID (no such blob), NO_MEMORY,
 *  UNSUPPORTED (cannot be reached from here) */
telpher_status tp_device_file_import(const uint8_t *blob, size_t len,
                                     struct tp_device_file *ret_file);

/** chunk_alloc and chunk_free of domains that any host memory is good for. */
void *tp_device_plain_chunk_alloc(struct tp_device *d, size_t bytes);
void tp_device_plain_chunk_free(struct tp_device *d, void *chunk, size_t bytes);
/** pin and unpin of the same. */
telpher_status tp_device_plain_pin(struct tp_device *d, void *memory, size_t bytes);
void tp_device_plain_unpin(struct tp_device *d, void *memory, size_t bytes);

#endif
