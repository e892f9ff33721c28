/* SPDX-License-Identifier: Apache-2.0 */
/* Makes random programs: objects, and the commands of each intent. */
#include "plan.h"

#include <string.h>

#include "order.h"

/** Enough for sub-buffers of every driver. */
enum { ALIGNMENT = 512, OPS_SOFT_MAX = PLAN_OPS / 2 };

uint64_t
plan_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t
plan_mix(uint64_t a, uint64_t b)
{
    uint64_t state = a ^ (b + 1) * UINT64_C(0xd6e8feb86659fd93);

    return plan_random(&state);
}

unsigned
plan_intents(uint64_t seed)
{
    uint64_t rng = plan_mix(seed, 1000);

    return 8 + (unsigned)plan_below(&rng, PLAN_INTENTS - 8 + 1);
}

/* ---- objects ------------------------------------------------------------------------------ */

static size_t
any_buffer_size(uint64_t *rng)
{
    unsigned kind = (unsigned)plan_below(rng, 100);
    size_t max = kind < 75 ? 16 : kind < 97 ? 600 : 6000;

    return ALIGNMENT * (1 + plan_below(rng, max));
}

static void
plan_buffer(struct mem_plan *mem, uint64_t *rng)
{
    mem->parent = -1;
    mem->size = any_buffer_size(rng);
    mem->source = (enum mem_source)plan_below(rng, 3);
}

/** Gives some buffers memory with pointers. @param first the first of its context */
static void
plan_pointers(struct mem_plan *mem, const struct plan_options *options, bool first,
              uint64_t seed)
{
    unsigned kind = (unsigned)plan_below(&seed, 100);

    if (kind < 25 && (options->features & PLAN_SVM) != 0) {
        mem->source = MEM_SVM;
    } else if (kind >= 75 && !first && (options->features & PLAN_USM) != 0) {
        mem->source = MEM_USM;
    }
}

static void
plan_sub_buffer(struct mem_plan *mem, const struct mem_plan *parent, uint64_t *rng)
{
    size_t blocks = parent->size / ALIGNMENT, first = plan_below(rng, blocks);

    mem->origin = first * ALIGNMENT;
    mem->size = ALIGNMENT * (1 + plan_below(rng, blocks - first));
}

static void
plan_image(struct mem_plan *mem, uint64_t *rng)
{
    static const size_t pixels[MEM_IMAGE_FORMATS] = {4, 16, 4, 16};
    unsigned dimensions;

    mem->image = true;
    mem->parent = -1;
    mem->form = plan_chance(rng, 50) ? 1 : (uint8_t)plan_below(rng, MEM_IMAGE_FORMS);
    mem->format = (uint8_t)plan_below(rng, MEM_IMAGE_FORMATS);
    mem->pixel = pixels[mem->format];
    mem->source = plan_chance(rng, 50) ? MEM_COPIED : MEM_WRITTEN;
    dimensions = mem->form == 0 ? 1 : mem->form == 1 ? 2 : 3;
    mem->size = mem->pixel;
    for (unsigned i = 0; i < 3; i++) {
        mem->extent[i] = i < dimensions ? 1 + plan_below(rng, i == 2 ? 6 : 40) : 1;
        mem->size *= mem->extent[i];
    }
}

static void
plan_objects(struct plan *plan, const struct plan_options *options)
{
    uint64_t rng = plan_mix(plan->seed, 1001);
    unsigned roots;

    plan->contexts = plan_chance(&rng, 30) ? PLAN_CONTEXTS : 1;
    plan->queue_count =
        plan->contexts + (unsigned)plan_below(&rng, PLAN_QUEUES - plan->contexts + 1);
    for (unsigned i = 0; i < plan->queue_count; i++) {
        plan->queues[i].context = (uint8_t)(i % plan->contexts);
        plan->queues[i].device = (uint8_t)plan_below(&rng, options->devices);
        plan->queues[i].out_of_order =
            plan_chance(&rng, 40) && (options->features & PLAN_OUT_OF_ORDER) != 0;
    }
    roots = 2 * plan->contexts + (unsigned)plan_below(&rng, 10);
    plan->mem_count = roots + (unsigned)plan_below(&rng, PLAN_MEMS - roots + 1);
    for (unsigned i = 0; i < plan->mem_count; i++) {
        struct mem_plan *mem = &plan->mems[i];
        unsigned parent = (unsigned)plan_below(&rng, roots);
        bool image = plan_chance(&rng, 40) && (options->features & PLAN_IMAGES) != 0;

        mem->context = (uint8_t)(i % plan->contexts);
        if (i < 2 * plan->contexts || (i < roots && !image)) {
            plan_buffer(mem, &rng);
            plan_pointers(mem, options, i < plan->contexts,
                          plan_mix(plan->seed, 3000 + i));
        } else if (i < roots) {
            plan_image(mem, &rng);
        } else {
            while (plan->mems[parent].image || plan->mems[parent].source == MEM_USM) {
                parent = (parent + 1) % roots;
            }
            mem->parent = (int16_t)parent;
            mem->context = plan->mems[parent].context;
            plan_sub_buffer(mem, &plan->mems[parent], &rng);
        }
    }
}

/* ---- choices of an intent --------------------------------------------------------------------- */

/** @return a buffer or an image of the context, other than @p except and its relations; -1 */
static int
any_mem(struct planner *p, unsigned context, bool image, int except)
{
    const struct plan *plan = p->plan;
    unsigned first = (unsigned)plan_below(&p->rng, plan->mem_count);

    for (unsigned i = 0; i < plan->mem_count; i++) {
        int m = (int)((first + i) % plan->mem_count);
        const struct mem_plan *mem = &plan->mems[m];

        if (mem->context == context && mem->image == image &&
            (!p->wants_object || mem->source != MEM_USM) &&
            (except < 0 || plan_root(plan, m) != plan_root(plan, except))) {
            return m;
        }
    }
    return -1;
}

static size_t
min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/** A range of @p unit bytes each that fits all sizes. */
static void
any_range(struct planner *p, struct op *op, size_t size, size_t other, size_t unit)
{
    size_t max = min_size(size, other) / unit;

    op->size = unit * (1 + plan_below(&p->rng, max));
    op->offset[0] = unit * plan_below(&p->rng, (size - op->size) / unit + 1);
    op->offset[1] = unit * plan_below(&p->rng, (other - op->size) / unit + 1);
}

/** Chooses pitches and origin of one side for the region that the command has. */
static void
any_rectangle(struct planner *p, struct op *op, unsigned side, size_t size)
{
    size_t row = op->region[0] + plan_below(&p->rng, 8);
    size_t slice = row * (op->region[1] + plan_below(&p->rng, 3));
    size_t used =
        slice * (op->region[2] - 1) + row * (op->region[1] - 1) + op->region[0];
    bool loose = (p->options.features & PLAN_LOOSE_PITCHES) != 0;

    if (used > size ||
        (!loose && slice * op->region[2] > size)) { /* tight always fits */
        row = op->region[0];
        slice = row * op->region[1];
        used = slice * op->region[2];
    }
    op->row_pitch[side] = row;
    op->slice_pitch[side] = slice;
    op->origin[side][0] =
        plan_below(&p->rng, min_size(size - used, row - op->region[0]) + 1);
    if (used + row <= size && plan_chance(&p->rng, 50) &&
        slice >= row * (op->region[1] + 1)) {
        op->origin[side][1] = used + row + op->origin[side][0] <= size;
    }
    if (used + slice + row <= size && (loose || slice * (op->region[2] + 1) <= size)) {
        op->origin[side][2] = plan_below(&p->rng, 2);
        if (op->origin[side][2] != 0 &&
            used + slice + row * op->origin[side][1] + op->origin[side][0] > size) {
            op->origin[side][2] = 0;
        }
    }
}

static void
any_region(struct planner *p, struct op *op, size_t size)
{
    op->region[0] = 1 + plan_below(&p->rng, min_size(size, 96));
    op->region[1] = 1 + plan_below(&p->rng, min_size(size / op->region[0], 12));
    op->region[2] =
        1 + plan_below(&p->rng, min_size(size / op->region[0] / op->region[1], 5));
}

/** A region of an image, no larger than @p other allows. */
static void
any_image_region(struct planner *p, struct op *op, const struct mem_plan *image,
                 const struct mem_plan *other)
{
    for (unsigned i = 0; i < 3; i++) {
        size_t a = image->extent[i], b = other == NULL ? a : other->extent[i];

        op->region[i] = 1 + plan_below(&p->rng, min_size(a, b));
        op->origin[0][i] = plan_below(&p->rng, a - op->region[i] + 1);
        op->origin[1][i] = plan_below(&p->rng, b - op->region[i] + 1);
    }
}

/** Has a command use pointers if it can; it must if there is no object. */
static void
choose_pointers(const struct planner *p, struct op *op)
{
    bool can = plan_has_pointer(p->plan, op->mem[0]), must = false;

    for (unsigned i = 0; i < 2 && op->mem[i] >= 0; i++) {
        can = can && plan_has_pointer(p->plan, op->mem[i]);
        must = must || p->plan->mems[op->mem[i]].source == MEM_USM;
    }
    op->by_pointer = can && (must || (op->seed & 2) != 0);
}

/* ---- commands ----------------------------------------------------------------------------------- */

/** Enters a command with its objects. @return NULL: no room */
static struct op *
command(struct planner *p, unsigned queue, int dst, int src, enum host_use use)
{
    struct access a[2] = {{dst, true}, {src, false}};
    struct op *op;

    if (dst < 0) { /* only reads */
        op = order_command(p, queue, a + 1, 1, use);
    } else {
        op = order_command(p, queue, a, src < 0 ? 1 : 2, use);
    }
    if (op != NULL) {
        op->mem[0] = (int16_t)(dst < 0 ? src : dst);
        op->mem[1] = (int16_t)(dst < 0 ? -1 : src);
    }
    return op;
}

static void
plan_transfer(struct planner *p, unsigned queue, enum op_kind kind)
{
    bool writes = kind == OP_WRITE || kind == OP_WRITE_RECT || kind == OP_WRITE_IMAGE;
    bool image = kind == OP_WRITE_IMAGE || kind == OP_READ_IMAGE;
    bool blocking = plan_chance(&p->rng, 25);
    int m = any_mem(p, p->plan->queues[queue].context, image, -1);
    const struct mem_plan *mem = &p->plan->mems[m < 0 ? 0 : m];
    struct op *op = m < 0 ? NULL
                          : command(p, queue, writes ? m : -1, writes ? -1 : m,
                                    blocking ? HOST_BLOCKS : HOST_NOTHING);

    if (op == NULL) {
        return;
    }
    op->kind = kind;
    op->blocking = blocking;
    if (image) {
        any_image_region(p, op, mem, NULL);
        op->row_pitch[1] = plan_chance(&p->rng, 50)
                               ? 0
                               : mem->pixel * (op->region[0] + plan_below(&p->rng, 4));
        op->size =
            (op->row_pitch[1] != 0 ? op->row_pitch[1] : op->region[0] * mem->pixel) *
            op->region[1] * op->region[2];
    } else if (kind == OP_WRITE_RECT || kind == OP_READ_RECT) {
        any_region(p, op, mem->size);
        any_rectangle(p, op, 0, mem->size);
        op->size = 2 * op->region[0] * op->region[1] * op->region[2] + 4096;
        any_rectangle(p, op, 1, op->size);
    } else {
        any_range(p, op, mem->size, mem->size, 1);
        choose_pointers(p, op);
    }
    order_enter(p, op);
}

static void
plan_copy(struct planner *p, unsigned queue, enum op_kind kind)
{
    unsigned context = p->plan->queues[queue].context;
    bool to_image = kind == OP_BUFFER_TO_IMAGE || kind == OP_COPY_IMAGE;
    bool from_image = kind == OP_IMAGE_TO_BUFFER || kind == OP_COPY_IMAGE;
    int dst = any_mem(p, context, to_image, -1);
    int src = any_mem(p, context, from_image, dst);
    bool whole = kind != OP_COPY && (p->options.features & PLAN_PARTS_IN_COPIES) == 0;
    const struct mem_plan *to, *from, *image, *buffer;
    struct op *op;

    if (dst < 0 || src < 0 ||
        (p->plan->mems[dst].source == MEM_USM && !plan_has_pointer(p->plan, src)) ||
        (p->plan->mems[src].source == MEM_USM && !plan_has_pointer(p->plan, dst))) {
        return;
    }
    dst = whole ? plan_root(p->plan, dst) : dst;
    src = whole ? plan_root(p->plan, src) : src;
    to = &p->plan->mems[dst];
    from = &p->plan->mems[src];
    image = to_image ? to : from;
    buffer = to_image ? from : to;
    if (kind == OP_COPY_IMAGE && to->format != from->format) {
        return;
    }
    if (to_image != from_image && buffer->size < image->size) {
        return;
    }
    op = command(p, queue, dst, src, HOST_NOTHING);
    if (op == NULL) {
        return;
    }
    op->kind = kind;
    if (kind == OP_COPY) {
        any_range(p, op, to->size, from->size, 1);
        choose_pointers(p, op);
    } else if (kind == OP_COPY_RECT) {
        any_region(p, op, min_size(to->size, from->size));
        any_rectangle(p, op, 0, to->size);
        any_rectangle(p, op, 1, from->size);
    } else {
        any_image_region(p, op, image, kind == OP_COPY_IMAGE ? from : NULL);
        op->size = image->pixel * op->region[0] * op->region[1] * op->region[2];
        op->offset[0] =
            plan_below(&p->rng, buffer->size - min_size(buffer->size, op->size) + 1);
    }
    order_enter(p, op);
}

static void
plan_fill(struct planner *p, unsigned queue, enum op_kind kind)
{
    bool image = kind == OP_FILL_IMAGE;
    int m = any_mem(p, p->plan->queues[queue].context, image, -1);
    size_t unit = (size_t)1 << plan_below(&p->rng, 8);
    bool blocks = image && (p->options.features & PLAN_LOOSE_FILLS) == 0;
    struct op *op =
        m < 0 ? NULL : command(p, queue, m, -1, blocks ? HOST_BLOCKS : HOST_NOTHING);

    if (op == NULL) {
        return;
    }
    op->kind = kind;
    if (image) {
        any_image_region(p, op, &p->plan->mems[m], NULL);
    } else {
        any_range(p, op, p->plan->mems[m].size, p->plan->mems[m].size, unit);
        op->row_pitch[0] = unit;
        choose_pointers(p, op);
    }
    order_enter(p, op);
}

static void
plan_map(struct planner *p, unsigned queue)
{
    unsigned context = p->plan->queues[queue].context;
    bool image = plan_chance(&p->rng, 25), writes = plan_chance(&p->rng, 60);
    bool blocking = plan_chance(&p->rng, 40);
    int m = any_mem(p, context, image, -1);
    const struct mem_plan *mem = &p->plan->mems[m < 0 ? 0 : m];
    struct op *op;

    if (m < 0) {
        return;
    }
    if (p->map[m] >= 0) {
        order_unmap(p, m, p->plan->ops[p->map[m]].queue);
        return;
    }
    op = command(p, queue, writes ? m : -1, writes ? -1 : m, HOST_READS);
    if (op == NULL) {
        return;
    }
    op->kind = OP_MAP;
    op->blocking = blocking;
    op->status = writes;
    op->invalidate = writes && plan_chance(&p->rng, 50);
    if (image) {
        any_image_region(p, op, mem, NULL);
    } else {
        any_range(p, op, mem->size, mem->size, 1);
        choose_pointers(p, op);
    }
    p->map[m] = (int)(op - p->plan->ops);
    order_enter(p, op);
}

/** Enters a kernel that follows a pointer; its source is written, too. */
static struct op *
chase(struct planner *p, unsigned queue, int dst, int src)
{
    const struct access both[2] = {{dst, true}, {src, true}};
    struct op *op = order_command(p, queue, both, 2, HOST_NOTHING);

    if (op != NULL) {
        op->mem[0] = (int16_t)dst;
        op->mem[1] = (int16_t)src;
    }
    return op;
}

static void
plan_kernel(struct planner *p, unsigned queue)
{
    unsigned context = p->plan->queues[queue].context;
    bool images = plan_chance(&p->rng, 25);
    unsigned kernel = images ? KERNEL_OF_IMAGE + (unsigned)plan_below(&p->rng, 2)
                             : (unsigned)plan_below(&p->rng, KERNEL_OF_IMAGE);
    int dst = any_mem(p, context, kernel == KERNEL_TO_IMAGE, -1);
    int src = any_mem(p, context, kernel == KERNEL_FROM_IMAGE, dst);
    const struct mem_plan *image;
    struct op *op;

    if (dst < 0 || (src < 0 && images)) {
        return;
    }
    image = &p->plan->mems[kernel == KERNEL_TO_IMAGE ? dst : src < 0 ? 0 : src];
    if (images && image->form != 1) {
        return; /* kernels take 2D images */
    }
    if (kernel == KERNEL_STRUCT && (p->options.features & PLAN_STRUCTS) == 0) {
        kernel = KERNEL_ADD;
    }
    if (kernel == KERNEL_ADD || kernel == KERNEL_STRUCT || kernel == KERNEL_NONE ||
        kernel == KERNEL_GRID) {
        src = -1;
    } else if (src < 0 || (kernel == KERNEL_TABLE && p->plan->mems[src].size > 16384)) {
        kernel = KERNEL_ADD;
        src = -1;
    }
    if (src >= 0 && !images && plan_has_pointer(p->plan, dst) &&
        plan_has_pointer(p->plan, src) && plan_chance(&p->rng, 50)) {
        kernel = KERNEL_CHASE;
    }
    op = kernel == KERNEL_CHASE ? chase(p, queue, dst, src)
                                : command(p, queue, dst, src, HOST_NOTHING);
    if (op == NULL) {
        return;
    }
    op->kind = OP_KERNEL;
    op->kernel = (uint8_t)kernel;
    op->local =
        (uint8_t)(plan_chance(&p->rng, 40) ? 0 : 1 + 2 * plan_below(&p->rng, 4));
    order_enter(p, op);
}

static void
plan_migrate(struct planner *p, unsigned queue)
{
    int m = any_mem(p, p->plan->queues[queue].context, false, -1);
    struct op *op = m < 0 || (p->options.features & PLAN_MIGRATIONS) == 0
                        ? NULL
                        : command(p, queue, m, -1, HOST_NOTHING);

    if (op != NULL) {
        op->kind = OP_MIGRATE;
        op->invalidate = plan_chance(&p->rng, 20); /* to the host */
        choose_pointers(p, op);
        order_enter(p, op);
    }
}

/* ---- order ---------------------------------------------------------------------------------------- */

/** At most one unset user event of a context fails. */
static void
plan_user_event(struct planner *p, unsigned context)
{
    bool fails = plan_chance(&p->rng, 35) && (p->options.features & PLAN_FAILURES) != 0;
    struct op *op;

    for (unsigned i = 0; i < p->plan->op_count; i++) {
        const struct op *other = &p->plan->ops[i];

        fails = fails && !(other->kind == OP_USER && other->context == context &&
                           other->status < 0 && !set_has(&p->set, (int)i));
    }
    op = order_host_op(p, OP_USER, context);
    if (op != NULL) {
        op->status = fails ? -1 - (int)plan_below(&p->rng, 100) : 0;
        op->has_event = true;
        p->known[p->plan->op_count - 1].poisoned = fails;
    }
}

/** True if a pending command of an out-of-order queue will fail. */
static bool
will_fail(const struct planner *p, unsigned queue)
{
    bool fails = false;

    for (unsigned i = 0; i < p->plan->op_count; i++) {
        fails = fails ||
                (p->plan->ops[i].kind < OP_USER && p->plan->ops[i].queue == queue &&
                 p->known[i].poisoned && !set_has(&p->done, (int)i));
    }
    return fails && p->plan->queues[queue].out_of_order;
}

static void
plan_order(struct planner *p, unsigned queue, enum op_kind kind)
{
    unsigned first = (unsigned)plan_below(&p->rng, PLAN_OPS);
    struct op *op;

    if (kind == OP_USER && (p->options.features & PLAN_USER_EVENTS) != 0) {
        plan_user_event(p, p->plan->queues[queue].context);
    } else if (kind == OP_FLUSH) {
        op = order_host_op(p, OP_FLUSH, p->plan->queues[queue].context);
        if (op != NULL) {
            op->queue = (uint8_t)queue;
        }
    } else if (kind == OP_FINISH) {
        order_finish(p, queue);
    } else if (kind == OP_BARRIER || (kind == OP_MARKER && plan_chance(&p->rng, 50))) {
        (void)order_whole_queue(p, kind, queue);
    } else if (kind == OP_MARKER &&
               ((p->options.features & PLAN_MARKERS_PAST_FAILURES) != 0 ||
                !will_fail(p, queue))) {
        op = order_command(p, queue, NULL, 0, HOST_NOTHING);
        if (op != NULL) {
            order_enter(p, op);
        }
    }
    for (unsigned i = 0; i < p->plan->op_count && (kind == OP_SET || kind == OP_WAIT);
         i++) {
        int at = (int)((first + i) % p->plan->op_count);
        bool user = p->plan->ops[at].kind == OP_USER;

        if (kind == OP_SET && user && !set_has(&p->set, at)) {
            order_set_user_event(p, at);
            return;
        }
        if (kind == OP_WAIT && p->plan->ops[at].kind < OP_USER &&
            !set_has(&p->done, at)) {
            order_wait_for(p, at);
            return;
        }
    }
}

static const struct {
    enum op_kind kind;
    unsigned weight;
} weights[] = {
    {OP_WRITE, 10},
    {OP_READ, 8},
    {OP_COPY, 10},
    {OP_FILL, 8},
    {OP_WRITE_RECT, 5},
    {OP_READ_RECT, 5},
    {OP_COPY_RECT, 7},
    {OP_MAP, 10},
    {OP_KERNEL, 25},
    {OP_MIGRATE, 4},
    {OP_WRITE_IMAGE, 3},
    {OP_READ_IMAGE, 3},
    {OP_COPY_IMAGE, 3},
    {OP_FILL_IMAGE, 3},
    {OP_IMAGE_TO_BUFFER, 4},
    {OP_BUFFER_TO_IMAGE, 4},
    {OP_MARKER, 4},
    {OP_BARRIER, 4},
    {OP_USER, 5},
    {OP_SET, 3},
    {OP_WAIT, 3},
    {OP_FLUSH, 2},
    {OP_FINISH, 2},
};

static enum op_kind
any_kind(uint64_t *rng)
{
    unsigned total = 0, i = 0;
    size_t at;

    for (i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
        total += weights[i].weight;
    }
    at = plan_below(rng, total);
    for (i = 0; at >= weights[i].weight; i++) {
        at -= weights[i].weight;
    }
    return weights[i].kind;
}

static void
plan_intent(struct planner *p)
{
    unsigned queue = (unsigned)plan_below(&p->rng, p->plan->queue_count);
    enum op_kind kind = any_kind(&p->rng);

    p->wants_object =
        kind != OP_WRITE && kind != OP_READ && kind != OP_COPY && kind != OP_FILL &&
        kind != OP_KERNEL &&
        (kind != OP_MIGRATE || (p->options.features & PLAN_USM_MIGRATIONS) == 0);
    switch (kind) {
    case OP_WRITE:
    case OP_READ:
    case OP_WRITE_RECT:
    case OP_READ_RECT:
    case OP_WRITE_IMAGE:
    case OP_READ_IMAGE:
        plan_transfer(p, queue, kind);
        break;
    case OP_COPY:
    case OP_COPY_RECT:
    case OP_COPY_IMAGE:
    case OP_IMAGE_TO_BUFFER:
    case OP_BUFFER_TO_IMAGE:
        plan_copy(p, queue, kind);
        break;
    case OP_FILL:
    case OP_FILL_IMAGE:
        plan_fill(p, queue, kind);
        break;
    case OP_MAP:
        plan_map(p, queue);
        break;
    case OP_KERNEL:
        plan_kernel(p, queue);
        break;
    case OP_MIGRATE:
        plan_migrate(p, queue);
        break;
    default:
        plan_order(p, queue, kind);
        break;
    }
}

/** Sets what user events are left, ends maps, and waits for everything. */
static void
plan_end(struct planner *p)
{
    p->intent = -1;
    p->rng = plan_mix(p->plan->seed, 1002);
    for (unsigned m = 0; m < p->plan->mem_count; m++) {
        if (p->map[m] >= 0) {
            order_unmap(p, (int)m, p->plan->ops[p->map[m]].queue);
        }
    }
    for (unsigned i = 0; i < p->plan->op_count; i++) {
        if (p->plan->ops[i].kind == OP_USER) {
            order_set_user_event(p, (int)i);
        }
    }
    for (unsigned q = 0; q < p->plan->queue_count; q++) {
        order_finish(p, q);
    }
}

/** The options for one program. */
static struct plan_options
options_of(const struct plan_options *options, uint64_t seed)
{
    struct plan_options own = *options;

    if ((own.features & PLAN_PASSING) == 0) {
        own.features &= ~(seed % 2 == 0 ? (unsigned)PLAN_OUT_OF_ORDER
                                        : (unsigned)PLAN_USER_EVENTS | PLAN_FAILURES);
    }
    return own;
}

void
plan_make(struct plan *plan, const struct plan_options *all, uint64_t seed,
          uint64_t kept)
{
    static struct planner planner; /* large */
    struct planner *p = &planner;
    const struct plan_options own = options_of(all, seed), *options = &own;

    memset(plan, 0, sizeof(*plan));
    memset(p, 0, sizeof(*p));
    plan->seed = seed;
    plan->features = options->features;
    plan->intent_count = plan_intents(seed);
    plan_objects(plan, options);
    p->plan = plan;
    p->options = *options;
    memset(p->last, 0xff, sizeof(p->last));
    memset(p->map, 0xff, sizeof(p->map));
    for (unsigned i = 0; i < plan->intent_count && plan->op_count < OPS_SOFT_MAX; i++) {
        if ((kept >> i & 1) != 0) {
            p->intent = (int)i;
            p->rng = plan_mix(seed, i);
            plan_intent(p);
        }
    }
    plan_end(p);
}
