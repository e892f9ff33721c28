/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the native program of a source or SPIR-V. It is kept for further builds, which may
 * be for other devices; a program of cached binaries and one with constants is created again
 * when its inputs change.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/text/sha256.h"
#include "base/trace/log.h"
#include "daemon/executor/objects/objects.h"
#include "daemon/executor/program/build.h"
#include "daemon/executor/program/program.h"

/* A binary from the cache. */
struct kept {
    cl_device_id device;
    uint8_t *data;
    size_t size;
};

struct tp_exec_text {
    uint8_t digest[TP_SHA256_BYTES]; /**< of text, files and constants */
    char *
        cached; /**< options of the driver's call if native came from the cache, or NULL */
    enum tp_exec_build_kind kind; /**< then: what was done */
    struct kept *kept; /**< objects and libraries of the cache, [device_count] */
    cl_uint device_count; /**< of the context */
    bool built[]; /**< for which of them */
};

void
tp_exec_text_free(struct tp_exec_text *text)
{
    if (text != NULL) {
        for (cl_uint i = 0; text->kept != NULL && i < text->device_count; i++) {
            tp_free(text->kept[i].data);
        }
        tp_free(text->kept);
        tp_free(text->cached);
        tp_free(text);
    }
}

static void
take_digest(const struct tp_exec_build *build, uint8_t *ret_digest)
{
    struct tp_sha256 sum;

    tp_sha256_begin(&sum);
    tp_exec_build_sum(build, &sum);
    tp_sha256_add_sized(&sum, build->specs, build->spec_count * sizeof(*build->specs));
    tp_sha256_end(&sum, ret_digest);
}

static bool
builds_for(const struct tp_exec_build *build, uint32_t index)
{
    for (cl_uint i = 0; i < build->device_count; i++) {
        if (build->indices[i] == index) {
            return true;
        }
    }
    return false;
}

/* True if a device outside of this build has a program built from the old text. */
static bool
others_lose(const struct tp_exec_build *build, const struct tp_exec_text *old)
{
    const struct tp_exec_context *c = build->program->context;

    for (cl_uint i = 0; old != NULL && i < old->device_count; i++) {
        if (old->built[i] && !builds_for(build, c->devices[i].number)) {
            return true;
        }
    }
    return false;
}

int32_t
tp_exec_source_create(const struct tp_exec_program *p, cl_program *ret_native)
{
    size_t len = p->text_len;
    const char *text = len == 0 ? "" : p->text; /* length 0 would mean: up to the NUL */
    int32_t error;

    *ret_native = p->obj.x->cl.CreateProgramWithSource(p->context->native, 1, &text,
                                                       &len, &error);
    return error;
}

/* Allocates an empty record for the program's context. */
static struct tp_exec_text *
new_text(const struct tp_exec_program *p, const uint8_t *digest)
{
    cl_uint count = p->context->device_count;
    struct tp_exec_text *text =
        tp_zalloc(sizeof(*text) + count * sizeof(text->built[0]), "program");

    if (text != NULL) {
        memcpy(text->digest, digest, sizeof(text->digest));
        text->device_count = count;
    }
    return text;
}

/* Replaces the native program; takes both. */
static void
put_native(struct tp_exec_program *p, cl_program native, struct tp_exec_text *text)
{
    if (p->native != NULL) {
        p->obj.x->cl.ReleaseProgram(p->native);
    }
    tp_exec_text_free(p->made_of);
    p->native = native;
    p->made_of = text;
}

static int32_t
renew(struct tp_exec_build *build, const uint8_t *digest)
{
    struct tp_exec_text *fresh = new_text(build->program, digest);
    cl_program native = NULL;
    int32_t error = fresh == NULL ? CL_OUT_OF_HOST_MEMORY : 0;

    if (error == 0) {
        error = build->program->origin == TP_EXEC_FROM_IL
                    ? tp_exec_il_create(build->program, &native)
                    : tp_exec_source_create(build->program, &native);
    }
    if (error != 0) {
        tp_exec_text_free(fresh);
        return error;
    }
    put_native(build->program, native, fresh);
    return 0;
}

bool
tp_exec_text_replace(struct tp_exec_build *build, cl_program native)
{
    uint8_t digest[TP_SHA256_BYTES];
    struct tp_exec_text *text;

    take_digest(build, digest);
    text = new_text(build->program, digest);
    if (text != NULL) {
        text->cached = tp_exec_build_options(build);
        text->kind = build->kind;
    }
    if (text == NULL || text->cached == NULL) {
        tp_exec_text_free(text);
        return false;
    }
    put_native(build->program, native, text);
    return true;
}

bool
tp_exec_text_keep(struct tp_exec_build *build, const size_t *sizes,
                  const uint8_t *const *binaries)
{
    struct tp_exec_text *text = build->program->made_of;

    text->kept = tp_alloc_array(text->device_count, sizeof(*text->kept), "binaries");
    for (cl_uint i = 0; text->kept != NULL && i < build->device_count; i++) {
        struct kept *kept = &text->kept[i];

        kept->device = build->devices[i];
        kept->size = sizes[i];
        kept->data = tp_memdup(binaries[i], sizes[i], "binaries");
        if (kept->data == NULL) {
            return false;
        }
    }
    return text->kept != NULL;
}

const uint8_t *
tp_exec_text_kept(const struct tp_exec_program *p, cl_device_id device,
                  size_t *ret_size)
{
    const struct tp_exec_text *text = p->made_of;

    for (cl_uint i = 0; text != NULL && text->kept != NULL && i < text->device_count;
         i++) {
        if (text->kept[i].device == device) {
            *ret_size = text->kept[i].size;
            return text->kept[i].data;
        }
    }
    return NULL;
}

/*
 * Replaces a program of cached binaries by one of source, and repeats its builds for the
 * other devices: a program of binaries cannot be built from source for one device.
 */
static int32_t
leave_cache(struct tp_exec_build *build, const uint8_t *digest)
{
    struct tp_exec_program *p = build->program;
    enum tp_exec_build_kind kind = p->made_of->kind;
    char *options = p->made_of->cached;
    bool others = others_lose(build, p->made_of);
    int32_t error;

    p->made_of->cached = NULL;
    error = renew(build, digest);
    for (cl_uint i = 0; error == 0 && others && i < p->context->device_count; i++) {
        const struct tp_exec_device *d = &p->context->devices[i];

        if (!builds_for(build, d->number)) {
            error = kind == TP_EXEC_COMPILE
                        ? tp_exec_build_compile(build, 1, &d->native, options)
                        : p->obj.x->cl.BuildProgram(p->native, 1, &d->native, options,
                                                    NULL, NULL);
            p->made_of->built[i] = error == 0;
        }
    }
    tp_free(options);
    return error;
}

/*
 * Ensures that the native program has the present text, files and constants. Setting new
 * constants on an existing program is the exception, used when another device would lose
 * its build: Intel's runtime for CPUs ignores such a change.
 */
static int32_t
prepare(struct tp_exec_build *build)
{
    struct tp_exec_program *p = build->program;
    uint8_t digest[TP_SHA256_BYTES];

    take_digest(build, digest);
    if (p->made_of != NULL && memcmp(p->made_of->digest, digest, sizeof(digest)) == 0) {
        return p->made_of->cached != NULL ? leave_cache(build, digest) : 0;
    }
    if (p->made_of != NULL && p->origin == TP_EXEC_FROM_SOURCE &&
        p->made_of->cached == NULL) {
        memcpy(p->made_of->digest, digest, sizeof(digest));
        return 0; /* only other files: the compiler reads them */
    }
    if (others_lose(build, p->made_of)) {
        if (p->origin == TP_EXEC_FROM_IL) {
            return 0;
        }
        tp_info("executor", "clBuildProgram: included files differ from the build for "
                            "another device of this program; build for all devices "
                            "at once");
        return CL_INVALID_OPERATION;
    }
    return renew(build, digest);
}

void
tp_exec_text_forget(struct tp_exec_build *build)
{
    struct tp_exec_program *p = build->program;

    if (p->native != NULL && !others_lose(build, p->made_of)) {
        put_native(p, NULL, NULL);
    }
}

int32_t
tp_exec_text_prepare(struct tp_exec_build *build)
{
    int32_t error = prepare(build);

    return error == 0 && build->program->origin == TP_EXEC_FROM_IL
               ? tp_exec_il_specialize(build)
               : error;
}

void
tp_exec_text_built(struct tp_exec_build *build)
{
    const struct tp_exec_context *c = build->program->context;
    struct tp_exec_text *text = build->program->made_of;

    for (cl_uint i = 0; text != NULL && i < text->device_count; i++) {
        text->built[i] = text->built[i] || builds_for(build, c->devices[i].number);
    }
}
