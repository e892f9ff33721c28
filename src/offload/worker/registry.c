/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of this process. offload/registry.h says which functions are kernels. */
#include "offload/worker/registry.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/params.h"
#include "base/trace/log.h"

/** In the order of registration. */
struct list {
    telpher_kernel *first, **end;
    uint32_t count;
};

/* Constructors run one after the other, under the loader's lock. */
static struct list kernels = {NULL, &kernels.first, 0};
static struct list derived = {NULL, &derived.first, 0};
static char error_text[TP_ERROR_TEXT_SIZE];

static bool
is_sensible(const telpher_kernel *kernel)
{
    struct tp_offload_signature sig;
    struct tp_error err = {0};
    const char *name = kernel->name;

    if (!tp_params_size_is_valid(kernel->struct_size, sizeof(*kernel)) ||
        name == NULL || name[0] == '\0' || strlen(name) > TELPHER_KERNEL_NAME_MAX ||
        strpbrk(name, "\n\t") != NULL) {
        tp_warn("offload",
                "kernel \"%.40s\" is left out: its name is empty, longer than %d "
                "characters or has a tab or line break, or its struct_size is wrong",
                name != NULL ? name : "", TELPHER_KERNEL_NAME_MAX);
        return false;
    }
    if (kernel->invoke == NULL && kernel->function == NULL) {
        tp_warn("offload",
                "kernel %s is left out: both its invoke and its function are NULL",
                name);
        return false;
    }
    if (tp_offload_signature_of(kernel, &sig, &err) != TELPHER_OK) {
        tp_warn("offload", "kernel %s is left out: %s", name, tp_error_text(&err));
        return false;
    }
    return true;
}

/* Appends a kernel, unless it is in a list already: then it has a next element, or is the last
 * element of one of the two lists. */
static void
append(struct list *list, telpher_kernel *kernel)
{
    if (kernel == NULL || kernel->next != NULL || kernels.end == &kernel->next ||
        derived.end == &kernel->next || !is_sensible(kernel)) {
        return;
    }
    *list->end = kernel;
    list->end = &kernel->next;
    list->count++;
}

void
telpher_kernel_register(telpher_kernel *kernel)
{
    append(&kernels, kernel);
}

void
telpher_kernel_register_derived(telpher_kernel *kernel)
{
    append(&derived, kernel);
}

void
telpher_kernel_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error_text, sizeof(error_text), format, args);
    va_end(args);
}

const char *
tp_offload_error_take(void)
{
    static char taken[sizeof(error_text)];

    if (error_text[0] == '\0') {
        return "";
    }
    memcpy(taken, error_text, sizeof(taken));
    error_text[0] = '\0';
    return taken;
}

static void
add(struct tp_offload_table *table, const telpher_kernel *kernel)
{
    struct tp_offload_kernel *k = &table->kernels[table->count];
    struct tp_error err = {0};
    telpher_status status;

    if (tp_offload_table_find(table, kernel->name) >= 0) {
        tp_debug("offload", "kernel %s is defined twice; using the first",
                 kernel->name);
        return;
    }
    *k = (struct tp_offload_kernel){.kernel = kernel};
    status = tp_offload_signature_of(kernel, &k->sig, &err);
    if (status == TELPHER_OK && kernel->invoke == NULL) {
        status = tp_offload_call_create(&k->sig, &k->call, &err);
    }
    if (status != TELPHER_OK) {
        tp_warn("offload", "kernel %s is left out: %s", kernel->name,
                tp_error_text(&err));
        return;
    }
    table->count++;
}

telpher_status
tp_offload_table_create(struct tp_offload_table *ret_table)
{
    *ret_table = (struct tp_offload_table){
        tp_alloc_array((size_t)kernels.count + derived.count + 1,
                       sizeof(struct tp_offload_kernel), "kernels"),
        0};
    if (ret_table->kernels == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    for (const telpher_kernel *k = kernels.first; k != NULL; k = k->next) {
        add(ret_table, k);
    }
    for (const telpher_kernel *k = derived.first; k != NULL; k = k->next) {
        add(ret_table, k);
    }
    return TELPHER_OK;
}

void
tp_offload_table_destroy(struct tp_offload_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        tp_offload_call_destroy(table->kernels[i].call);
    }
    tp_free(table->kernels);
    *table = (struct tp_offload_table){NULL, 0};
}

int64_t
tp_offload_table_find(const struct tp_offload_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (strcmp(table->kernels[i].kernel->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int
tp_offload_kernel_invoke(const struct tp_offload_kernel *kernel, void *const *args)
{
    if (kernel->kernel->invoke != NULL) {
        return kernel->kernel->invoke(args);
    }
    return tp_offload_call_run(kernel->call, kernel->kernel->function, args);
}

uint32_t
tp_offload_registered(void)
{
    return kernels.count;
}
