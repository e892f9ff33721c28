/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and operations of the program: the same tables in every process. */
#include "mdr/mdr_int.h"

#include <string.h>

#include "base/hash.h"

/* By which processes notice that they registered different classes. */
static uint64_t
hash_class(uint64_t hash, const telpher_mdr_class *def)
{
    hash = tp_hash_add(hash, def->name, strlen(def->name) + 1);
    hash = tp_hash_add(hash, &def->object_size, sizeof(def->object_size));
    for (uint32_t i = 0; i < def->entry_count; i++) {
        const telpher_mdr_entry *e = &def->entries[i];

        hash = tp_hash_add(hash, e->name, strlen(e->name) + 1);
        hash = tp_hash_add(hash, &e->params_len, sizeof(e->params_len));
    }
    return hash;
}

static telpher_status
check_class(telpher_mdr *mdr, const telpher_mdr_class *def)
{
    if (def->struct_size != sizeof(*def) || def->name == NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "a class needs struct_size = sizeof(telpher_mdr_class) and "
                            "a name");
    }
    if (def->entry_count > TELPHER_MDR_ENTRIES) {
        return tp_mdr_error(mdr, TELPHER_ERR_LIMIT, "class %s: more than %d entries",
                            def->name, TELPHER_MDR_ENTRIES);
    }
    for (uint32_t i = 0; i < def->entry_count; i++) {
        const telpher_mdr_entry *e = &def->entries[i];

        if (e->run == NULL || e->name == NULL || (e->flags & ~TELPHER_MDR_WAITS) != 0) {
            return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                                "class %s: entry %u has no function, no name or an "
                                "unknown flag",
                                def->name, i);
        }
    }
    return TELPHER_OK;
}

telpher_status
telpher_mdr_class_register(telpher_mdr *mdr, const telpher_mdr_class *def,
                           uint32_t *ret_class)
{
    telpher_status status = check_class(mdr, def);

    if (status != TELPHER_OK) {
        return status;
    }
    if (mdr->ran) {
        return tp_mdr_error(mdr, TELPHER_ERR_BUSY,
                            "class %s: register classes before telpher_mdr_run()",
                            def->name);
    }
    if (mdr->class_count == TELPHER_MDR_CLASSES) {
        return tp_mdr_error(mdr, TELPHER_ERR_LIMIT, "more than %d classes",
                            TELPHER_MDR_CLASSES);
    }
    mdr->classes_hash = hash_class(mdr->classes_hash, def);
    mdr->classes[mdr->class_count] = def;
    *ret_class = mdr->class_count++;
    return TELPHER_OK;
}

telpher_status
telpher_mdr_op_register(telpher_mdr *mdr, telpher_mdr_op_fn fn, uint32_t *ret_op)
{
    if (fn == NULL || mdr->ran) {
        return tp_mdr_error(mdr, fn == NULL ? TELPHER_ERR_INVALID : TELPHER_ERR_BUSY,
                            "register operations before telpher_mdr_run()");
    }
    if (mdr->op_count == TP_MDR_OPS) {
        return tp_mdr_error(mdr, TELPHER_ERR_LIMIT, "more than %d operations",
                            TP_MDR_OPS);
    }
    mdr->classes_hash = tp_hash_add(mdr->classes_hash, "op", 3);
    mdr->ops[mdr->op_count] = fn;
    *ret_op = TELPHER_MDR_OP_USER + mdr->op_count++;
    return TELPHER_OK;
}

const telpher_mdr_entry *
tp_mdr_find_entry(telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t entry)
{
    const telpher_mdr_class *def;

    if (array->class_id >= mdr->class_count) {
        (void)tp_mdr_error(mdr, TELPHER_ERR_RANGE, "there is no class %u",
                           array->class_id);
        return NULL;
    }
    def = mdr->classes[array->class_id];
    if (entry >= def->entry_count) {
        (void)tp_mdr_error(mdr, TELPHER_ERR_RANGE, "class %s has no entry %u, only %u",
                           def->name, entry, def->entry_count);
        return NULL;
    }
    return &def->entries[entry];
}

telpher_status
tp_mdr_refuse_call(telpher_mdr *mdr, const telpher_mdr_array *array, uint32_t entry,
                   size_t params_len, size_t buffer_count)
{
    const telpher_mdr_entry *e = tp_mdr_find_entry(mdr, array, entry);
    const char *name;

    if (e == NULL) {
        return TELPHER_ERR_RANGE;
    }
    name = mdr->classes[array->class_id]->name;
    if (e->params_len != TELPHER_MDR_ANY_LENGTH && e->params_len != params_len) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "%s.%s takes %zu bytes of parameters, not %zu", name,
                            e->name, e->params_len, params_len);
    }
    if (buffer_count > TELPHER_MSG_BUFFERS) {
        return tp_mdr_error(mdr, TELPHER_ERR_RANGE, "%s.%s: more than %d buffers", name,
                            e->name, TELPHER_MSG_BUFFERS);
    }
    return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                        "%s.%s takes no buffers: it has no post entry", name, e->name);
}
