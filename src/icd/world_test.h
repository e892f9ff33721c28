/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world without a network for the room's tests: facts made by hand, and a context whose
 * one place is lost, so that frames put there go nowhere.
 */
#ifndef TELPHER_ICD_WORLD_TEST_H
#define TELPHER_ICD_WORLD_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "icd/icd_int.h"
#include "icd/objects/context.h"
#include "icd/objects/object.h"
#include "icd/objects/platform.h"
#include "icd/session/session_int.h"

/** Records one behind the other. */
struct world_facts {
    uint8_t bytes[16384];
    size_t len;
};

static inline void
world_add(struct world_facts *f, uint16_t kind, uint32_t index, uint32_t sub,
          uint32_t param, const void *data, size_t len)
{
    const struct tp_wire_fact fact = {.kind = kind,
                                      .index = index,
                                      .sub = sub,
                                      .param = param,
                                      .len = (uint32_t)len,
                                      .data = data};

    assert_true(f->len + tp_wire_fact_size(fact.len) <= sizeof(f->bytes));
    tp_wire_put_fact(f->bytes + f->len, &fact);
    f->len += tp_wire_fact_size(fact.len);
}

static inline void
world_add_text(struct world_facts *f, uint16_t kind, uint32_t index, uint32_t sub,
               uint32_t param, const char *text)
{
    world_add(f, kind, index, sub, param, text, strlen(text) + 1);
}

static inline void
world_add_u32(struct world_facts *f, uint16_t kind, uint32_t index, uint32_t sub,
              uint32_t param, uint32_t number)
{
    world_add(f, kind, index, sub, param, &number, sizeof(number));
}

static inline void
world_add_u64(struct world_facts *f, uint16_t kind, uint32_t index, uint32_t sub,
              uint32_t param, uint64_t number)
{
    world_add(f, kind, index, sub, param, &number, sizeof(number));
}

static inline struct tp_icd_facts *
world_parse(const struct world_facts *f)
{
    struct tp_icd_facts *facts = NULL;

    assert_int_equal(tp_icd_facts_create(f->bytes, f->len, &facts), TELPHER_OK);
    return facts;
}

static inline void
world_keep(struct tp_icd_object *obj)
{
    (void)obj;
}

/** One server, one device, one lost place, one context. */
struct world {
    struct tp_icd_server server;
    struct tp_icd_session session;
    struct _cl_device_id device;
    struct _cl_device_id *devices[1];
    struct _cl_context context;
};

static inline void
world_init(struct world *w, const struct world_facts *device_facts)
{
    memset(w, 0, sizeof(*w));
    w->server.facts = world_parse(device_facts);
    w->session.server = &w->server;
    w->session.face = &w->server;
    w->session.lost = true;
    tp_icd_object_init(&w->device.obj, TP_ICD_DEVICE, 0, world_keep);
    w->device.server = &w->server;
    w->device.type = CL_DEVICE_TYPE_GPU;
    w->device.available = CL_TRUE;
    w->devices[0] = &w->device;
    tp_icd_object_init(&w->context.obj, TP_ICD_CONTEXT, 1, world_keep);
    w->context.devices = w->devices;
    w->context.device_count = 1;
    w->context.sessions[0] = &w->session;
    w->context.session_count = 1;
    tp_list_init(&w->context.destructors);
}

static inline void
world_fini(struct world *w)
{
    tp_icd_facts_destroy(w->server.facts);
}

#endif
