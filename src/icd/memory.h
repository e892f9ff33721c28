/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects and commands: what mem.c, image*.c, map.c, move.c, stage.c, mover.c,
 * enqueue.c, transfer.c, hazard.c, command.c, launch.c and geometry.c offer each other.
 * Nobody else includes this.
 *
 * A command goes through tp_icd_op_run(): check the wait list, take the lock, make content
 * valid where it is used, collect what must be waited for, put the frame, give the event,
 * release the lock, flush, and wait if it blocks.
 */
#ifndef TELPHER_ICD_MEMORY_H
#define TELPHER_ICD_MEMORY_H

#include "icd/icd.h"

/* ---- geometry.c: pure functions over ranges and rectangles ------------------------ */

/** A box of bytes in linear memory: of a buffer, or of host memory. */
struct tp_icd_rect {
    size_t origin[3]; /**< bytes, rows, slices */
    size_t region[3]; /**< bytes, rows, slices; none is 0 */
    size_t row_pitch, slice_pitch;
};

/** True if [offset, offset + size) lies in [0, limit), without overflow. */
bool tp_icd_range_fits(size_t offset, size_t size, size_t limit);
/** True if both ranges have a byte in common. */
bool tp_icd_ranges_meet(size_t a, size_t a_size, size_t b, size_t b_size);
/**
 * Copies the arguments of a rect command; pitches of 0 become tight ones.
 * @return false if a pointer is NULL, a region is 0, or a pitch does not fit the region.
 */
bool tp_icd_rect_set(struct tp_icd_rect *rect, const size_t *origin,
                     const size_t *region, size_t row_pitch, size_t slice_pitch);
/** Gives the first byte of the box and the byte behind its last; false on overflow. */
bool tp_icd_rect_extent(const struct tp_icd_rect *rect, size_t *ret_first,
                        size_t *ret_end);
/** [bytes] of the box when packed; the extent must have been computed without overflow. */
size_t tp_icd_rect_bytes(const struct tp_icd_rect *rect);
/** True if two boxes of one memory, at these distances from its start, share a byte. */
bool tp_icd_rects_meet(const struct tp_icd_rect *a, size_t a_start,
                       const struct tp_icd_rect *b, size_t b_start);
/** True if the bytes of a box lie one behind the other. */
bool tp_icd_box_is_packed(const struct tp_icd_box *box);
/** Copies [offset, offset + len) of the packed content of a box from the box at src. */
void tp_icd_box_pack(uint8_t *dst, const struct tp_icd_box *box, const uint8_t *src,
                     size_t offset, size_t len);
/** The other way: packed bytes src[0 .. len), which belong at @p offset, into the box. */
void tp_icd_box_unpack(uint8_t *dst, const struct tp_icd_box *box, const uint8_t *src,
                       size_t offset, size_t len);

/* ---- mem.c -------------------------------------------------------------------------- */

static inline struct _cl_mem *
tp_icd_mem_root(struct _cl_mem *mem)
{
    while (mem->parent != NULL) {
        mem = mem->parent;
    }
    return mem;
}

/**
 * Makes a memory object with refs 1 that holds its context, and nothing else of it.
 * @return NULL: no memory.
 */
struct _cl_mem *tp_icd_mem_create(struct _cl_context *ctx, cl_mem_flags flags,
                                  size_t size);
/**
 * Fills in a new memory object without parent: properties, directory, first content.
 * @param box how the content lies at @p host_ptr; NULL: in one piece.
 */
cl_int tp_icd_mem_fill(struct _cl_mem *mem, const cl_mem_properties *properties,
                       void *host_ptr, const struct tp_icd_box *box);
/** Makes the rest of a new memory object that is a part of @p parent, and holds that. */
void tp_icd_mem_adopt(struct _cl_mem *mem, struct _cl_mem *parent, size_t offset);
/** Copies the list of properties. CL_SUCCESS, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_mem_set_properties(struct _cl_mem *mem, const cl_mem_properties *list);
/** [bytes] of host memory that all of it takes. */
static inline size_t
tp_icd_mem_host_bytes(const struct _cl_mem *mem)
{
    return mem->image != NULL ? mem->image->host_bytes : mem->size;
}
/** True if the flags of clCreateBuffer or clCreateImage agree with each other. */
bool tp_icd_mem_flags_are_valid(cl_mem_flags flags);
/** Checks the flags of a part against those of the whole, and completes them. */
bool tp_icd_mem_inherit(cl_mem_flags flags, cl_mem_flags parent,
                        cl_mem_flags *ret_flags);
/** What the server needs to know of the flags. */
cl_mem_flags tp_icd_mem_wire_flags(const struct _cl_mem *mem);

/**
 * What a command may do with a handle: a memory object of the queue's context, aligned for
 * the queue's device.
 * @return CL_SUCCESS, CL_INVALID_MEM_OBJECT, CL_INVALID_CONTEXT or
 *         CL_MISALIGNED_SUB_BUFFER_OFFSET.
 */
cl_int tp_icd_mem_check(const struct _cl_command_queue *q, cl_mem handle);
/** The same of a buffer: an image is CL_INVALID_MEM_OBJECT. */
cl_int tp_icd_buffer_check(const struct _cl_command_queue *q, cl_mem handle);
/** True if the host may do it: CL_MAP_READ, CL_MAP_WRITE by the HOST_* flags. */
bool tp_icd_mem_host_may(const struct _cl_mem *mem, cl_map_flags what);

/* ---- enqueue.c: what all commands have in common ------------------------------------- */

enum {
    TP_ICD_USE_READ = 1 << 0, /**< needs the content */
    TP_ICD_USE_WRITE = 1 << 1, /**< changes some of it */
    TP_ICD_USE_WHOLE =
        1 << 2, /**< with WRITE: all of it, what was there is not needed */
};

struct tp_icd_use {
    struct _cl_mem *mem;
    unsigned how;
};

struct _cl_command_buffer_khr;

/** What recording a command has in the place of events: commands.c. */
struct tp_icd_sync {
    cl_uint count;
    const cl_uint *list; /**< sync points */
    cl_uint *ret_point; /**< NULL: not wanted */
};

enum { TP_ICD_OP_IDS = 32 };

/** One command on its way to a queue; lives on the stack of its entry point. */
struct tp_icd_op {
    struct _cl_command_queue *q;
    struct _cl_command_buffer_khr *record; /**< NULL: it goes to the queue */
    const struct tp_icd_sync *sync; /**< with record, instead of events */
    cl_command_type type;
    cl_uint wait_count;
    const cl_event *wait_list;
    cl_event *ret_event;
    struct tp_icd_use *uses; /**< borrowed */
    size_t use_count;
    bool blocking; /**< return when it has ended, with its status */
    uint64_t
        early_size; /**< [bytes] of a blocking write that may return before its end */
    bool copies; /**< blocking write that need not wait if its content is copied */
    bool until_sent; /**< or if the caller has sent its content */
    bool need_event; /**< for content, for a wait */
    bool flush; /**< send at once */
    bool push; /**< its content goes through slots */
    uint64_t push_bulk; /**< transfer that the caller sends on the bulk stream, or 0 */
    bool strict; /**< a wait list known to have failed is an error of the call */
    bool expect; /**< something comes back even if no thread waits for it */
    uint8_t flags; /**< of the command; a put function may add NOTIFY if ev is there */
    struct _cl_event *ev; /**< NULL: nobody needs one */
    uint64_t *ids; /**< what the server must wait for */
    uint16_t id_count;
    size_t id_room;
    uint32_t touched_count;
    /* From here on set only as far as the counts say. */
    uint64_t few[TP_ICD_OP_IDS];
    struct tp_icd_place *touched[TP_ICD_PLACES_MAX]; /**< others that must be flushed */
};

/** Puts the frame of a command; under the lock. @return CL_SUCCESS or why not. */
typedef cl_int (*tp_icd_op_put)(struct tp_icd_op *op, void *arg);

/**
 * Starts a command: checks the queue, keeps what every command has.
 * @return CL_SUCCESS or CL_INVALID_COMMAND_QUEUE.
 */
cl_int tp_icd_op_init(struct tp_icd_op *op, cl_command_queue queue,
                      cl_command_type type, cl_uint wait_count,
                      const cl_event *wait_list, cl_event *ret_event);
/** The rest, see the top of this file. Nothing has changed if it returns an error, save
 *  that a blocking command reports how it ended. */
cl_int tp_icd_op_run(struct tp_icd_op *op, tp_icd_op_put put, void *arg);
/** Adds an event to what the command waits for. Under the lock. CL_SUCCESS or no memory. */
cl_int tp_icd_op_wait(struct tp_icd_op *op, struct _cl_event *ev);
/** The place got frames without which the command might never run: it will be flushed. */
void tp_icd_op_touch(struct tp_icd_op *op, struct tp_icd_place *place);
/** 0 or the id of the event, for the frame. */
uint64_t tp_icd_op_event_id(const struct tp_icd_op *op);
struct tp_wire_u64s tp_icd_op_ids(const struct tp_icd_op *op);
/** Makes room for @p more ids. CL_SUCCESS, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY. */
cl_int tp_icd_op_reserve_ids(struct tp_icd_op *op, size_t more);
void tp_icd_op_free_ids(struct tp_icd_op *op);
/** Puts the frame of a command, or records it. Under the lock. */
cl_int tp_icd_op_send(struct tp_icd_op *op, uint16_t type, const void *msg);
/** Puts a command that only completes after what it waits for. Under the lock. */
cl_int tp_icd_op_put_nothing(struct tp_icd_op *op, void *arg);

/* ---- early.c: see icd.h; all under the lock ------------------------------------------- */

/** Whether a write with early_size may return early: sets what follows from that. */
void tp_icd_early_decide(struct tp_icd_op *op);
/** Whether content of a write may go before the server gives credit, as far as it has to
 *  keep it: false if much of that is on its way. */
bool tp_icd_early_window(struct _cl_event *ev, uint64_t size);
/** A write that may has been put. */
void tp_icd_early_note(struct tp_icd_op *op);
/** Before a command is put: has it come behind early writes of other queues. */
void tp_icd_early_order(struct tp_icd_op *op);

/* ---- command.c, image_command.c, launch.c: commands for a queue or for a record --------------------------- */

/** Both checked with the rest. Each is tp_icd_op_run with its own checks before it. */
cl_int tp_icd_run_copy(struct tp_icd_op *op, cl_mem src, cl_mem dst, size_t src_offset,
                       size_t dst_offset, size_t size);
/** What clEnqueueCopyBufferRect gets. */
struct tp_icd_copy_rect {
    const size_t *src_origin, *dst_origin, *region;
    size_t src_row_pitch, src_slice_pitch, dst_row_pitch, dst_slice_pitch;
};
cl_int tp_icd_run_copy_rect(struct tp_icd_op *op, cl_mem src, cl_mem dst,
                            const struct tp_icd_copy_rect *rect);
cl_int tp_icd_run_fill(struct tp_icd_op *op, cl_mem buffer, const void *pattern,
                       size_t pattern_size, size_t offset, size_t size);
cl_int tp_icd_run_copy_image(struct tp_icd_op *op, cl_mem src, cl_mem dst,
                             const size_t *src_origin, const size_t *dst_origin,
                             const size_t *region);
cl_int tp_icd_run_copy_image_to_buffer(struct tp_icd_op *op, cl_mem src, cl_mem dst,
                                       const size_t *origin, const size_t *region,
                                       size_t offset);
cl_int tp_icd_run_copy_buffer_to_image(struct tp_icd_op *op, cl_mem src, cl_mem dst,
                                       size_t offset, const size_t *origin,
                                       const size_t *region);
cl_int tp_icd_run_fill_image(struct tp_icd_op *op, cl_mem handle, const void *colour,
                             const size_t *origin, const size_t *region);
/** CL_COMMAND_MARKER or CL_COMMAND_BARRIER, by the type of the op. */
cl_int tp_icd_run_marker(struct tp_icd_op *op);
/** What clEnqueueNDRangeKernel gets. */
struct tp_icd_range {
    cl_uint dims;
    const size_t *offset, *global, *local;
};
cl_int tp_icd_run_launch(struct tp_icd_op *op, cl_kernel kernel,
                         const struct tp_icd_range *range);

/* ---- commands.c: command buffers --------------------------------------------------------- */

/** Starts a command that is recorded: checks the buffer. */
cl_int tp_icd_op_init_record(struct tp_icd_op *op,
                             struct _cl_command_buffer_khr *commands,
                             cl_command_queue queue, cl_command_type type,
                             const struct tp_icd_sync *sync, void *mutable_handle);
/** tp_icd_op_run of a command that is recorded. */
cl_int tp_icd_op_record(struct tp_icd_op *op, tp_icd_op_put put, void *arg);
/** Puts RECORD with this message in it. Under the lock. */
cl_int tp_icd_record_put(struct tp_icd_op *op, uint16_t type, const void *msg);

/* ---- hazard.c: host memory that commands under way will write ------------------------- */

/** A READ under way into [lo, hi) of host memory. */
struct tp_icd_landing {
    struct tp_list link;
    uintptr_t lo, hi;
    bool bulk; /**< its content comes on the bulk stream */
    struct _cl_event *ev; /**< borrowed: ended before it goes */
    struct tp_list followers; /**< READs into the same memory that wait for it */
};

/**
 * Content of a WRITE that must not be taken from host memory yet: it waits for READs under
 * way into that memory, or for user events of its wait list, after which the program may
 * have filled it.
 */
struct tp_icd_gate {
    struct tp_list link;
    struct _cl_event **events; /**< held; [count] */
    size_t count;
    void (*open)(struct tp_icd_gate *gate); /**< under the lock, when count fell to 0 */
};

/** All under the lock. */
void tp_icd_landing_add(struct tp_icd_landing *landing, struct _cl_event *ev,
                        const void *ptr, size_t len, bool bulk);
/**
 * Before a READ into [ptr, ptr + len) is put: makes it wait until READs under way into that
 * memory have landed, if their content could come after its own.
 */
cl_int tp_icd_landing_order(struct tp_icd_op *op, const void *ptr, size_t len,
                            bool bulk);
/** The event of a landing has ended: opens the gates that waited for it. */
void tp_icd_landing_end(struct tp_icd_landing *landing);
/**
 * Fills in a gate for host memory [ptr, ptr + len) and a wait list. Gives gate->count = 0
 * if the content may be taken now. @return CL_SUCCESS, CL_OUT_OF_HOST_MEMORY.
 */
cl_int tp_icd_gate_init(struct tp_icd_gate *gate, struct tp_icd_op *op, const void *ptr,
                        size_t len);
/** True if a gate is needed for that. */
bool tp_icd_gate_needed(const struct tp_icd_op *op, const void *ptr, size_t len);
/** The gate is not needed any more; open will not be called. */
void tp_icd_gate_fini(struct tp_icd_gate *gate);

/* ---- transfer.c: content between host memory and a buffer ------------------------------- */

enum { TP_ICD_COPY_MAX = 256 << 10 }; /**< [bytes] that a blocking write may copy */

/** What a read or a write moves. */
struct tp_icd_content {
    struct _cl_mem *mem;
    uint64_t offset, size; /**< [bytes] linear: in the buffer; rect: size when packed */
    bool is_rect; /**< box of the buffer in rect */
    struct tp_icd_rect rect;
    uint8_t *ptr; /**< first byte in host memory */
    size_t extent; /**< [bytes] from ptr to the end of the box there */
    struct tp_icd_box box; /**< how it lies in host memory */
    bool hold_mem; /**< ptr belongs to the buffer: keep it until the end */
    bool is_image; /**< a region of an image, in elements, rows and slices */
    size_t origin[3], region[3];
};

/** Linear content. */
void tp_icd_content_set(struct tp_icd_content *content, struct _cl_mem *mem,
                        size_t offset, size_t size, const void *ptr);
/**
 * A region of an image that fits it. @param row_pitch [bytes] of host memory between rows
 * (or layers of a 1D array), @p slice_pitch between slices (or layers of a 2D array).
 */
void tp_icd_content_set_image(struct tp_icd_content *content, struct _cl_mem *mem,
                              const size_t origin[3], const size_t region[3],
                              size_t row_pitch, size_t slice_pitch, const void *ptr);
/** For tp_icd_op_run; arg is a struct tp_icd_content, borrowed until return. */
cl_int tp_icd_put_read(struct tp_icd_op *op, void *arg);
cl_int tp_icd_put_write(struct tp_icd_op *op, void *arg);

/** Runs a read or a write of content: what both kinds of memory object share. */
cl_int tp_icd_run_read(struct tp_icd_op *op, bool blocking,
                       struct tp_icd_content *content);
/** @param whole nothing of the old content stays. */
cl_int tp_icd_run_write(struct tp_icd_op *op, bool blocking,
                        struct tp_icd_content *content, bool whole);

/* ---- image_format.c, image.c ------------------------------------------------------------ */

/** True if the order and the type of channels are ones that OpenCL puts together. */
bool tp_icd_image_format_is_valid(const cl_image_format *format);
/** True if a device of the context lists a format for images with these flags. */
bool tp_icd_image_format_known(const struct _cl_context *ctx, cl_mem_flags flags,
                               cl_mem_object_type type, const cl_image_format *format);
/** True if an image of that size is not too large for a device. */
bool tp_icd_image_size_fits(const struct _cl_device_id *dev,
                            const struct tp_icd_image *image);
/**
 * Whether a command on a queue may use an image.
 * @return as tp_icd_mem_check, or CL_INVALID_OPERATION, CL_INVALID_IMAGE_SIZE,
 *         CL_IMAGE_FORMAT_NOT_SUPPORTED.
 */
cl_int tp_icd_image_check(const struct _cl_command_queue *q, cl_mem handle);
/** Puts IMAGE_CREATE. Under the lock. */
void tp_icd_image_put_create(const struct _cl_mem *mem, struct _cl_context *ctx,
                             uint32_t place_index);
/** [bytes] of host memory between the rows of dims, for pitches as calls give them. */
size_t tp_icd_image_row_step(const struct tp_icd_image *image, size_t row_pitch,
                             size_t slice_pitch);
/** The whole image as a region: origin and region for the wire and for content. */
void tp_icd_image_whole(const struct _cl_mem *mem, size_t origin[3], size_t region[3]);
/** Checks origin and region against the image. CL_SUCCESS, CL_INVALID_VALUE. */
cl_int tp_icd_image_region_check(const struct _cl_mem *mem, const size_t *origin,
                                 const size_t *region);
/** True if a region, which fits, is all of the image. */
bool tp_icd_image_region_is_whole(const struct _cl_mem *mem, const size_t *region);

/* ---- map.c ------------------------------------------------------------------------------ */

/** One map of a buffer or an image, in the list of its root. */
struct tp_icd_map {
    struct tp_list link;
    struct _cl_mem *mem; /**< what was mapped: the root or a part of it; borrowed */
    uint8_t *ptr; /**< what the program got */
    size_t offset, size; /**< [bytes] in the root, from the first byte to the last */
    size_t origin[3], region[3]; /**< of an image */
    cl_map_flags flags;
};

/** CL_SUCCESS, CL_INVALID_VALUE or CL_INVALID_OPERATION (host access of the object). */
cl_int tp_icd_map_flags_check(const struct _cl_mem *mem, cl_map_flags flags);
/** Runs a map whose arguments were checked. @param want mem, offset, size and so on. */
cl_int tp_icd_map_run(struct tp_icd_op *op, const struct tp_icd_map *want,
                      void **ret_ptr);

/* ---- mover.c, stage.c: content without a command of the program ------------------------- */

/** The internal queue of a place; made at first use. Under the lock. NULL: no memory. */
struct _cl_command_queue *tp_icd_mover(struct _cl_context *ctx, uint32_t place_index);

/** Content on its way through this process: all of a buffer. Under the lock. */
struct tp_icd_stage;
/** Gives a stage with one reference, nothing in it yet; needs no lock. NULL: no memory. */
struct tp_icd_stage *tp_icd_stage_create(size_t size);
/** Fills it whole, from one piece (box NULL) or from a box; before anybody else knows it. */
void tp_icd_stage_fill(struct tp_icd_stage *stage, const void *src,
                       const struct tp_icd_box *box);
void tp_icd_stage_ref(struct tp_icd_stage *stage);
/** NULL is fine. */
void tp_icd_stage_unref(struct tp_icd_stage *stage);
/** True if it can still become whole. */
bool tp_icd_stage_usable(const struct tp_icd_stage *stage);

/**
 * Puts a READ of a whole buffer at a place into a stage, after @p wait. @p ended is called
 * under the lock when it has ended.
 * @return its event, with a hold for the caller; NULL: *ret_err says why.
 */
struct _cl_event *tp_icd_stage_fetch(struct tp_icd_stage *stage, struct _cl_mem *root,
                                     uint32_t place_index,
                                     const struct tp_wire_u64s *wait, cl_int *ret_err);
/**
 * Puts a WRITE of a whole buffer at a place; its content comes from the stage as that fills.
 * @param ended called under the lock when it has ended.
 * @return as tp_icd_stage_fetch.
 */
struct _cl_event *tp_icd_stage_feed(
    struct tp_icd_stage *stage, struct _cl_mem *root, uint32_t place_index,
    const struct tp_wire_u64s *wait,
    void (*ended)(struct _cl_mem *root, uint32_t place_index, struct _cl_event *ev),
    cl_int *ret_err);

/* ---- move.c: where the content of a buffer is -------------------------------------------- */

/** Gives the directory of a buffer in a context that spans places. NULL: no memory. */
struct tp_icd_directory *tp_icd_directory_create(const struct _cl_context *ctx);
/** Not under the lock; nothing of the buffer is under way any more. NULL is fine. */
void tp_icd_directory_destroy(struct tp_icd_directory *dir, uint32_t place_count);
/**
 * Gives a new buffer its first content, which the stage has whole. Takes the reference.
 * Under the lock.
 */
cl_int tp_icd_mem_first(struct _cl_mem *mem, struct tp_icd_stage *stage);
/**
 * Makes the content valid at the queue's place before the command uses it, and adds what
 * must be waited for. Under the lock.
 */
cl_int tp_icd_mem_use(struct tp_icd_op *op, const struct tp_icd_use *use);
/** The command has been put: what it writes is now valid at its place alone. Cannot fail
 *  after tp_icd_mem_use. Under the lock. */
void tp_icd_mem_used(struct tp_icd_op *op, const struct tp_icd_use *use);

#endif
