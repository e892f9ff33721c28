/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of domains whose memory is a memory file (base/os/memfd.h), and plain chunks. */
#ifndef TELPHER_WAIST_DEVICE_FILE_H
#define TELPHER_WAIST_DEVICE_FILE_H

#include "waist/device.h"

/** Writes the file's name as a domain's blob. @return OK; UNSUPPORTED. */
telpher_status tp_device_file_export(int fd, uint8_t blob[TP_DEVICE_BLOB_MAX],
                                     size_t *ret_len);
/** Opens the file of a blob. @return OK, the descriptor to be closed, and a size > 0;
 *  INVALID (no such blob), UNSUPPORTED (cannot be reached from here). */
telpher_status tp_device_file_import(const uint8_t *blob, size_t len, int *ret_fd,
                                     uint64_t *ret_size);

/** chunk_alloc and chunk_free of domains that any host memory is good for. */
void *tp_device_plain_chunk_alloc(struct tp_device *d, size_t bytes);
void tp_device_plain_chunk_free(struct tp_device *d, void *chunk, size_t bytes);
/** pin and unpin of the same. */
telpher_status tp_device_plain_pin(struct tp_device *d, void *memory, size_t bytes);
void tp_device_plain_unpin(struct tp_device *d, void *memory, size_t bytes);

#endif
