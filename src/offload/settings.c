/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of kernel offload. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/config/config.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"

#define FIELD(member) .offset = offsetof(struct tp_offload_settings, member)

static const char *const modes[] = {"auto", "spawn", "split", NULL};
static const char *const idles[] = {"auto", "spin", "yield", "sleep", NULL};

static const struct tp_config_entry entries[] = {
    {.name = "OFFLOAD",
     .default_text = "auto",
     .help = "how a program gets its workers: spawn, split (those that mpirun started "
             "beside it), or auto = split where there are such",
     .parser = &tp_config_choice,
     .choices = modes,
     FIELD(mode)},
    {.name = "OFFLOAD_WORKERS",
     .default_text = "0",
     .help =
         "the last so many processes of the launch are workers, whatever they run; 0 "
         "= those that run a worker program",
     .parser = &tp_config_int,
     .min = 0,
     .max = 1000000,
     FIELD(workers)},
    {.name = "OFFLOAD_THREAD",
     .default_text = "yes",
     .help = "ask MPI for threads, so that queued launches leave while the program "
             "computes",
     .parser = &tp_config_bool,
     FIELD(thread)},
    {.name = "OFFLOAD_SHARED",
     .default_text = "yes",
     .help = "launches to workers of the same machine go by memory that both sides "
             "have, not by MPI",
     .parser = &tp_config_bool,
     FIELD(shared)},
    {.name = "OFFLOAD_TIMEOUT",
     .default_text = "60s",
     .help = "time for workers to come and to answer; then the job ends with words",
     .parser = &tp_config_duration,
     .min = 10000000,
     .max = INT64_MAX,
     FIELD(timeout_ns)},
    {.name = "OFFLOAD_KERNEL_WARNING",
     .default_text = "10s",
     .help = "a worker says that a kernel has run for so long, again after twice the "
             "time, and so on; 0 = never",
     .parser = &tp_config_duration,
     .min = 0,
     .max = INT64_MAX,
     FIELD(kernel_warning_ns)},
    {.name = "OFFLOAD_KERNEL_TIMEOUT",
     .default_text = "0",
     .help = "a kernel that has run for so long ends the job; 0 = none does",
     .parser = &tp_config_duration,
     .min = 0,
     .max = INT64_MAX,
     FIELD(kernel_timeout_ns)},
    {.name = "OFFLOAD_IDLE",
     .default_text = "auto",
     .help =
         "how a worker waits for a launch: spin, yield, sleep, or auto = first one, "
         "then the other",
     .parser = &tp_config_choice,
     .choices = idles,
     FIELD(idle)},
    {.name = "OFFLOAD_LIMIT",
     .default_text = "1G",
     .help = "arguments that a worker takes with one launch",
     .parser = &tp_config_size,
     .min = 65536,
     .max = INT64_MAX,
     FIELD(limit_bytes)},
};

/* core/comm has it, too, for the ranks of its jobs. */
static const struct tp_config_entry shared[] = {
    {.name = "MAPPING",
     .default_text = "",
     .help =
         "device of each rank of a machine, 2:0:3 for example, from the front again "
         "when there are more ranks; empty = by turns",
     .parser = &tp_config_string,
     FIELD(mapping)},
};

static struct tp_offload_settings values;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
load_table(struct tp_config *config, const struct tp_config_entry *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tp_error err = {0};
        char name[64];
        const char *value;

        snprintf(name, sizeof(name), "TELPHER_%s", table[i].name);
        value = getenv(name);
        if (value != NULL &&
            tp_config_set(config, table[i].name, value, name, &err) != TELPHER_OK) {
            tp_warn("offload", "%s", tp_error_text(&err));
        }
    }
}

static void
load(void)
{
    const struct tp_config_room rooms[] = {
        {"offload", entries, TP_ARRAY_LEN(entries), &values},
        {"mem", shared, TP_ARRAY_LEN(shared), &values},
    };
    static struct tp_config *config; /* lives as long as the process */

    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config) != TELPHER_OK) {
        tp_offload_world_abort("out of memory");
    }
    load_table(config, entries, TP_ARRAY_LEN(entries));
    load_table(config, shared, TP_ARRAY_LEN(shared));
}

const struct tp_offload_settings *
tp_offload_settings(void)
{
    pthread_once(&once, load);
    return &values;
}
