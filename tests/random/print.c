/* SPDX-License-Identifier: Apache-2.0 */
/* Writes random programs for people. */
#include "plan.h"

static const char *const op_names[OP_KINDS] = {
    [OP_WRITE] = "write",
    [OP_READ] = "read",
    [OP_COPY] = "copy",
    [OP_FILL] = "fill",
    [OP_WRITE_RECT] = "write rect",
    [OP_READ_RECT] = "read rect",
    [OP_COPY_RECT] = "copy rect",
    [OP_KERNEL] = "kernel",
    [OP_MIGRATE] = "migrate",
    [OP_MAP] = "map",
    [OP_UNMAP] = "unmap",
    [OP_WRITE_IMAGE] = "write image",
    [OP_READ_IMAGE] = "read image",
    [OP_COPY_IMAGE] = "copy image",
    [OP_FILL_IMAGE] = "fill image",
    [OP_IMAGE_TO_BUFFER] = "copy image to buffer",
    [OP_BUFFER_TO_IMAGE] = "copy buffer to image",
    [OP_MARKER] = "marker",
    [OP_BARRIER] = "barrier",
    [OP_USER] = "create user event",
    [OP_SET] = "set user event",
    [OP_WAIT] = "wait for events",
    [OP_FLUSH] = "flush",
    [OP_FINISH] = "finish",
};

static const char *const kernel_names[KERNEL_KINDS] = {
    [KERNEL_ADD] = "add",           [KERNEL_MIX] = "mix",
    [KERNEL_REVERSE] = "reverse",   [KERNEL_COUNT] = "count",
    [KERNEL_STRUCT] = "structure",  [KERNEL_TABLE] = "table",
    [KERNEL_NONE] = "none",         [KERNEL_GRID] = "grid",
    [KERNEL_TO_IMAGE] = "to_image", [KERNEL_FROM_IMAGE] = "from_image",
    [KERNEL_CHASE] = "chase",
};

static void
print_mem(const struct mem_plan *m, unsigned i, FILE *to)
{
    static const char *const sources[] = {"COPY_HOST_PTR", "USE_HOST_PTR", "written",
                                          "over SVM", "USM"};
    static const char *const forms[] = {"1D", "2D", "2D array", "3D"};
    static const char *const formats[] = {"UNSIGNED_INT8", "UNSIGNED_INT32",
                                          "UNORM_INT8", "FLOAT"};

    if (m->image) {
        fprintf(to, "  mem %u: context %u, image %s of %s, %zu x %zu x %zu, %s\n", i,
                m->context, forms[m->form], formats[m->format], m->extent[0],
                m->extent[1], m->extent[2], sources[m->source]);
    } else if (m->parent >= 0) {
        fprintf(to, "  mem %u: bytes %zu to %zu of mem %d\n", i, m->origin,
                m->origin + m->size, m->parent);
    } else {
        fprintf(to, "  mem %u: context %u, buffer of %zu bytes, %s\n", i, m->context,
                m->size, sources[m->source]);
    }
}

static void
print_triple(const char *what, const size_t *at, FILE *to)
{
    fprintf(to, ", %s %zu %zu %zu", what, at[0], at[1], at[2]);
}

/** Where a command reads and writes. */
static void
print_place(const struct op *op, FILE *to)
{
    if (op->region[0] != 0) {
        print_triple("region", op->region, to);
        print_triple("at", op->origin[0], to);
        print_triple("other side at", op->origin[1], to);
        fprintf(to, ", pitches %zu %zu, other side %zu %zu", op->row_pitch[0],
                op->slice_pitch[0], op->row_pitch[1], op->slice_pitch[1]);
    }
    if (op->size != 0) {
        fprintf(to, ", %zu bytes at %zu, other side at %zu", op->size, op->offset[0],
                op->offset[1]);
    }
}

static void
print_op(const struct plan *plan, unsigned i, FILE *to)
{
    const struct op *op = &plan->ops[i];

    fprintf(to, "  op %u: %s", i, op_names[op->kind]);
    if (op->kind == OP_KERNEL) {
        fprintf(to, " %s, local size %d", kernel_names[op->kernel],
                op->local == 0 ? 0 : 1 << (op->local - 1));
    } else if (op->kind == OP_USER || op->kind == OP_SET) {
        fprintf(to, ", status %d",
                plan->ops[op->kind == OP_USER ? (int)i : op->target].status);
    } else if (op->kind == OP_MAP) {
        fprintf(to, " for %s",
                op->invalidate ? "WRITE_INVALIDATE"
                : op->status   ? "writing"
                               : "reading");
    }
    if (op->kind < OP_USER || op->kind == OP_FLUSH || op->kind == OP_FINISH) {
        fprintf(to, ", queue %u", op->queue);
    }
    for (unsigned k = 0; k < 2; k++) {
        if (op->mem[k] >= 0) {
            fprintf(to, ", %s %d", k == 0 ? "mem" : "from mem", op->mem[k]);
        }
    }
    print_place(op, to);
    if (op->target >= 0) {
        fprintf(to, ", of op %d", op->target);
    }
    for (unsigned k = 0; k < op->wait_count; k++) {
        fprintf(to, "%s%d", k == 0 ? ", waits for op " : " ", op->waits[k]);
    }
    fprintf(to, "%s%s%s%s%s\n", op->by_pointer ? ", by pointer" : "",
            op->blocking ? ", blocking" : "",
            op->has_event && op->kind != OP_USER ? ", with event" : "",
            op->release_early ? " released at once" : "",
            op->callback ? ", with callback" : "");
}

void
plan_print(const struct plan *plan, FILE *to)
{
    for (unsigned i = 0; i < plan->queue_count; i++) {
        fprintf(to, "  queue %u: context %u, device %u, %s\n", i,
                plan->queues[i].context, plan->queues[i].device,
                plan->queues[i].out_of_order ? "out of order" : "in order");
    }
    for (unsigned i = 0; i < plan->mem_count; i++) {
        bool used = false;

        for (unsigned k = 0; k < plan->op_count; k++) {
            used =
                used || plan->ops[k].mem[0] == (int)i || plan->ops[k].mem[1] == (int)i;
        }
        if (used) {
            print_mem(&plan->mems[i], i, to);
        }
    }
    for (unsigned i = 0; i < plan->op_count; i++) {
        print_op(plan, i, to);
    }
}
