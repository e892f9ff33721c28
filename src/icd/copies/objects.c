/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of a session with copies, as the frames that create them. A new second server gets
 * these frames, and then the content.
 *
 * The frames stand for the state before the first frame of the log, which is the state of the
 * second server while there is one. They are as many as the program's own objects: one for each
 * object, one for each argument of a kernel, and for a program its text, its last builds, and the
 * files that these included. A program that others were compiled or linked from stays as long as
 * those.
 */
#include "icd/copies/copies_int.h"
#include "icd/copies/frames.h"
#include "icd/icd.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/image.h"

enum {
    ORPHANS_MAX = 4096, /* released programs that others are made from */
    KEY_BYTES =
        12, /* id of a kernel and index of an argument; of a program and a constant */
};

struct tp_copies_frame {
    struct tp_list link; /**< of all frames, in the order of the calls */
    struct tp_list object_link; /**< of those of its object */
    uint16_t type;
    uint32_t round; /**< number of a build, also for files that belong to it; 0: none */
    size_t len; /**< [bytes] */
    uint8_t body[];
};

struct tp_copies_object {
    uint64_t id;
    struct tp_list frames;
    uint32_t rounds; /**< builds that succeeded */
    uint32_t users; /**< frames of other programs that need this one */
    bool released, orphan; /**< orphan: counted in `orphans` */
};

static void drop_unused(struct tp_icd_copies *c, struct tp_copies_object *o);

/* ---- frames ------------------------------------------------------------------------------- */

static struct tp_copies_frame *
frame_create(uint16_t type, const void *msg)
{
    const struct tp_wire_message *row = tp_wire_message(type);
    size_t len = row->size(msg);
    struct tp_copies_frame *f = tp_malloc(sizeof(*f) + len, "frame of an object");

    if (f == NULL) {
        return NULL;
    }
    tp_list_init(&f->link);
    tp_list_init(&f->object_link);
    f->type = type;
    f->round = 0;
    f->len = len;
    row->put(f->body, msg);
    return f;
}

static void
frame_decode(const struct tp_copies_frame *f, void *msg)
{
    (void)tp_wire_message(f->type)->get(f->body, f->body + f->len, msg);
}

/** Counts the programs that a frame needs besides its own. */
static void
count_users(struct tp_icd_copies *c, const struct tp_copies_frame *f, int by)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    const struct tp_wire_u64s *ids;

    if (f->type == TP_WIRE_PROGRAM_COMPILE) {
        ids = &((const struct tp_wire_program_compile *)msg)->headers;
    } else if (f->type == TP_WIRE_PROGRAM_LINK) {
        ids = &((const struct tp_wire_program_link *)msg)->inputs;
    } else {
        return;
    }
    frame_decode(f, msg);
    for (size_t i = 0; i < ids->count; i++) {
        struct tp_copies_object *o = tp_map_get(&c->objects, tp_wire_u64_at(ids, i));

        if (o != NULL) {
            o->users += (uint32_t)by;
            drop_unused(c, o);
        }
    }
}

static void
frame_drop(struct tp_icd_copies *c, struct tp_copies_frame *f)
{
    tp_list_remove(&f->link);
    tp_list_remove(&f->object_link);
    count_users(c, f, -1);
    tp_free(f);
}

static struct tp_copies_object *
find_object(struct tp_icd_copies *c, uint64_t id, bool creates)
{
    struct tp_copies_object *o = tp_map_get(&c->objects, id);

    if (o != NULL || !creates) {
        return o;
    }
    o = tp_zalloc(sizeof(*o), "object");
    if (o == NULL || tp_map_put(&c->objects, id, o) != TELPHER_OK) {
        tp_free(o);
        return NULL;
    }
    o->id = id;
    tp_list_init(&o->frames);
    return o;
}

/** Frees a released object that no other needs. */
static void
drop_unused(struct tp_icd_copies *c, struct tp_copies_object *o)
{
    struct tp_list *first;

    if (!o->released || o->users != 0) {
        return;
    }
    tp_map_remove(&c->objects, o->id);
    c->orphans -= o->orphan;
    while ((first = tp_list_first(&o->frames)) != NULL) {
        frame_drop(c, tp_list_entry(first, struct tp_copies_frame, object_link));
    }
    tp_free(o);
}

/** Adds a frame to an object. @return false: no memory */
static bool
add_frame(struct tp_icd_copies *c, struct tp_copies_object *o, uint16_t type,
          const void *msg, uint32_t round)
{
    struct tp_copies_frame *f = o == NULL ? NULL : frame_create(type, msg);

    if (f == NULL) {
        return false;
    }
    f->round = round;
    tp_list_push_back(&c->frames, &f->link);
    tp_list_push_back(&o->frames, &f->object_link);
    count_users(c, f, 1);
    return true;
}

/* ---- values of arguments and of constants ----------------------------------------------------- */

static bool
is_build(uint16_t type)
{
    return type == TP_WIRE_PROGRAM_BUILD || type == TP_WIRE_PROGRAM_COMPILE;
}

/** True if a later frame of the object sets the same, and no build used the earlier value. */
static bool
is_superseded(const struct tp_copies_object *o, const struct tp_copies_frame *f)
{
    for (const struct tp_list *at = f->object_link.next; at != &o->frames;
         at = at->next) {
        const struct tp_copies_frame *later =
            tp_list_entry(at, struct tp_copies_frame, object_link);

        if (is_build(later->type)) {
            return false;
        }
        if (later->type == f->type && memcmp(later->body, f->body, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

static void
drop_superseded(struct tp_icd_copies *c, struct tp_copies_object *o, uint16_t type)
{
    tp_list_for_each_entry_safe(struct tp_copies_frame, f, &o->frames, object_link) {
        if (f->type == type && is_superseded(o, f)) {
            frame_drop(c, f);
        }
    }
}

/** Replaces the value of an argument or a constant. */
static bool
keep_value(struct tp_icd_copies *c, struct tp_copies_object *o, uint16_t type,
           const void *msg)
{
    if (!add_frame(c, o, type, msg, 0)) {
        return false;
    }
    drop_superseded(c, o, type);
    return true;
}

/* ---- builds ------------------------------------------------------------------------------------ */

static void
drop_round(struct tp_icd_copies *c, struct tp_copies_object *o, uint32_t round)
{
    tp_list_for_each_entry_safe(struct tp_copies_frame, f, &o->frames, object_link) {
        if (f->round == round) {
            frame_drop(c, f);
        }
    }
}

static struct tp_wire_u64s
devices_of(uint16_t type, const void *msg)
{
    return type == TP_WIRE_PROGRAM_BUILD
               ? ((const struct tp_wire_program_build *)msg)->devices
               : ((const struct tp_wire_program_compile *)msg)->devices;
}

static bool
has_all(const struct tp_wire_u64s *set, const struct tp_wire_u64s *of)
{
    for (size_t i = 0; i < of->count; i++) {
        bool has = false;

        for (size_t k = 0; k < set->count && !has; k++) {
            has = tp_wire_u64_at(set, k) == tp_wire_u64_at(of, i);
        }
        if (!has) {
            return false;
        }
    }
    return true;
}

/** @return the number of a build whose devices are all among these; 0: there is none */
static uint32_t
find_build(const struct tp_copies_object *o, const struct tp_wire_u64s *devices)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];

    tp_list_for_each_entry(struct tp_copies_frame, f, &o->frames, object_link) {
        struct tp_wire_u64s old;

        if (is_build(f->type)) {
            frame_decode(f, msg);
            old = devices_of(f->type, msg);
            if (has_all(devices, &old)) {
                return f->round;
            }
        }
    }
    return 0;
}

/** Drops the builds whose devices are all built again. */
static void
drop_builds(struct tp_icd_copies *c, struct tp_copies_object *o,
            const struct tp_wire_u64s *devices)
{
    uint32_t round;

    while ((round = find_build(o, devices)) != 0) {
        drop_round(c, o, round);
    }
    drop_superseded(c, o, TP_WIRE_SPEC_CONSTANT);
}

/** Keeps a build that succeeded. One that failed leaves nothing for its devices. */
static bool
keep_build(struct tp_icd_copies *c, uint16_t type, const void *msg, int32_t status)
{
    uint64_t program = ((const struct tp_wire_program_build *)msg)->program;
    struct tp_copies_object *o = find_object(c, program, false);
    struct tp_wire_u64s devices = devices_of(type, msg);

    if (o == NULL) {
        return true;
    }
    drop_builds(c, o, &devices);
    if (status < 0) {
        drop_round(c, o, o->rounds + 1);
        return true;
    }
    return add_frame(c, o, type, msg, ++o->rounds);
}

/** Keeps the files for the next build, which replace those given before. */
static bool
keep_files(struct tp_icd_copies *c, const struct tp_wire_program_files *msg)
{
    struct tp_copies_object *o = find_object(c, msg->program, false);

    if (o == NULL) {
        return true;
    }
    drop_round(c, o, o->rounds + 1);
    return add_frame(c, o, TP_WIRE_PROGRAM_FILES, msg, o->rounds + 1);
}

bool
tp_copies_find_files(struct tp_icd_copies *c, uint64_t program,
                     struct tp_wire_program_files *ret_files)
{
    struct tp_copies_object *o = find_object(c, program, false);

    if (o != NULL) {
        tp_list_for_each_entry(struct tp_copies_frame, f, &o->frames, object_link) {
            if (f->type == TP_WIRE_PROGRAM_FILES && f->round == o->rounds + 1) {
                frame_decode(f, ret_files);
                return true;
            }
        }
    }
    return false;
}

/* ---- keeping ------------------------------------------------------------------------------------- */

/** @return false: too many programs are released that others are made from */
static bool
release_objects(struct tp_icd_copies *c, const struct tp_wire_release *msg)
{
    for (size_t i = 0; i < msg->ids.count; i++) {
        struct tp_copies_object *o =
            tp_map_get(&c->objects, tp_wire_u64_at(&msg->ids, i));

        if (o != NULL) {
            o->orphan = !o->released && o->users != 0;
            o->released = true;
            c->orphans += o->orphan;
            drop_unused(c, o);
        }
    }
    return c->orphans <= ORPHANS_MAX;
}

const char *
tp_copies_keep_object(struct tp_icd_copies *c, uint16_t type, const void *msg,
                      int32_t status)
{
    /* frames of these types begin with the object's id; requests have their own id before it */
    const uint64_t *id = (const uint64_t *)msg + tp_copies_is_request(type);
    bool ok = true;

    c->has_binaries = c->has_binaries || type == TP_WIRE_PROGRAM_BINARY;
    switch (type) {
    case TP_WIRE_ABORT:
        break;
    case TP_WIRE_RELEASE:
        return release_objects(c, msg) ? NULL
                                       : "too many programs are made from others that "
                                         "are released";
    case TP_WIRE_PROGRAM_BUILD:
    case TP_WIRE_PROGRAM_COMPILE:
        ok = keep_build(c, type, msg, status);
        break;
    case TP_WIRE_PROGRAM_FILES:
        ok = keep_files(c, msg);
        break;
    case TP_WIRE_KERNEL_ARG:
    case TP_WIRE_SPEC_CONSTANT:
        ok = find_object(c, *id, false) == NULL ||
             keep_value(c, find_object(c, *id, false), type, msg);
        break;
    default:
        ok = status < 0 || add_frame(c, find_object(c, *id, true), type, msg, 0);
    }
    return ok ? NULL : "no memory";
}

void
tp_copies_free_objects(struct tp_icd_copies *c)
{
    struct tp_copies_object *o;
    size_t cursor = 0;
    uint64_t id;

    tp_list_for_each_entry_safe(struct tp_copies_frame, f, &c->frames, link) {
        tp_free(f);
    }
    while (tp_map_next(&c->objects, &cursor, &id, (void **)&o)) {
        tp_free(o);
    }
    tp_map_fini(&c->objects);
}

/* ---- a new second server --------------------------------------------------------------------------- */

static void
put_frame(struct tp_icd_copies *c, const struct tp_copies_frame *f)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];

    frame_decode(f, msg);
    tp_icd_put_now(c->twin, f->type, msg);
}

/** True if an argument was set to an object that is released; no launch can use it. */
static bool
is_stale(struct tp_icd_copies *c, const struct tp_copies_frame *f)
{
    struct tp_wire_kernel_arg msg;
    uint64_t id;

    if (f->type != TP_WIRE_KERNEL_ARG) {
        return false;
    }
    frame_decode(f, &msg);
    if ((msg.kind != TP_WIRE_ARG_MEM && msg.kind != TP_WIRE_ARG_SAMPLER) ||
        msg.value.len < sizeof(id)) {
        return false;
    }
    memcpy(&id, msg.value.data, sizeof(id));
    return tp_map_get(&c->objects, id) == NULL;
}

void
tp_copies_begin_replay(struct tp_icd_copies *c)
{
    tp_list_for_each_entry(struct tp_copies_frame, f, &c->frames, link) {
        if (tp_copies_is_creation(f->type)) {
            put_frame(c, f);
        }
    }
    c->replay = tp_list_first(&c->frames);
    c->replays = true;
}

/** Releases programs that only others needed. */
static void
release_orphans(struct tp_icd_copies *c)
{
    const struct tp_copies_object *o;
    size_t cursor = 0;
    uint64_t id;

    while (tp_map_next(&c->objects, &cursor, &id, (void **)&o)) {
        if (o->released) {
            tp_icd_put_now(c->twin, TP_WIRE_RELEASE,
                           &(struct tp_wire_release){.ids = {1, &id}});
        }
    }
}

bool
tp_copies_go_on_replaying(struct tp_icd_copies *c)
{
    while (c->request == 0 && c->replay != NULL) {
        const struct tp_copies_frame *f =
            tp_list_entry(c->replay, struct tp_copies_frame, link);

        c->replay = f->link.next == &c->frames ? NULL : f->link.next;
        if (tp_copies_is_creation(f->type) || is_stale(c, f)) {
            continue;
        }
        if (tp_copies_is_request(f->type)) {
            memcpy(&c->request, f->body, sizeof(c->request));
            c->request_status = CL_SUCCESS;
        }
        put_frame(c, f);
    }
    if (c->request != 0) {
        return false;
    }
    if (c->replays) {
        release_orphans(c);
        c->replays = false;
    }
    return true;
}

/* ---- all content ------------------------------------------------------------------------------------ */

/** Collects the objects that the first server has released while the log still has their RELEASE.
 *  They have no content to move. @return false: no memory, or a command before a RELEASE, which
 *  cannot begin yet, may need the content */
static bool
find_released(const struct tp_icd_copies *c, struct tp_map *ret_ids)
{
    struct tp_wire_release msg;
    bool commands = false;

    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        commands = commands || e->event != 0;
        if (e->type != TP_WIRE_RELEASE || !e->sent) {
            continue;
        }
        (void)tp_wire_get_release(e->body, e->body + e->len, &msg);
        for (size_t i = 0; i < msg.ids.count; i++) {
            uint64_t id = tp_wire_u64_at(&msg.ids, i);

            if (tp_wire_id_kind(id) == TP_WIRE_KIND_MEM &&
                (commands || tp_map_put(ret_ids, id, e) != TELPHER_OK)) {
                return false;
            }
        }
    }
    return true;
}

/** Rows, and slices or layers, of an image. */
static void
set_region(uint64_t region[6], const struct tp_wire_image_create *m)
{
    memset(region, 0, 3 * sizeof(region[0]));
    region[3] = m->width;
    region[4] = m->height != 0                                 ? m->height
                : m->image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? m->array_size
                                                               : 1;
    region[5] = m->image_type == CL_MEM_OBJECT_IMAGE3D         ? m->depth
                : m->image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY ? m->array_size
                                                               : 1;
}

/** Moves the content of a buffer or image without parent into the same one there. */
static bool
haul_whole(struct tp_icd_copies *c, const struct tp_copies_frame *f)
{
    _Alignas(16) uint8_t msg[TP_WIRE_STRUCT_MAX];
    const struct tp_wire_buffer_create *buffer = (const void *)msg;
    const struct tp_wire_image_create *image = (const void *)msg;
    struct tp_copies_haul haul = {.is_image = f->type == TP_WIRE_IMAGE_CREATE};

    frame_decode(f, msg);
    if (haul.is_image && image->parent != 0) {
        return true;
    }
    if (haul.is_image) {
        set_region(haul.region, image);
        haul.span.to = haul.region[3] * haul.region[4] * haul.region[5] *
                       tp_wire_image_element(image->channel_order, image->channel_type);
    } else {
        haul.span.to = buffer->size;
    }
    haul.mem = haul.shadow = buffer->mem;
    return tp_copies_haul_off(c, haul.is_image ? image->context : buffer->context,
                              &haul);
}

bool
tp_copies_haul_all(struct tp_icd_copies *c)
{
    struct tp_map released = {0};
    bool ok = find_released(c, &released);

    tp_list_for_each_entry(struct tp_copies_frame, f, &c->frames, link) {
        uint64_t id;

        memcpy(&id, f->body, sizeof(id)); /* both begin with it */
        if ((f->type == TP_WIRE_BUFFER_CREATE || f->type == TP_WIRE_IMAGE_CREATE) &&
            tp_map_get(&released, id) == NULL) {
            ok = ok && haul_whole(c, f);
        }
    }
    tp_map_fini(&released);
    return ok;
}
