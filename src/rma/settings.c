/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of notified access between ranks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/config/config.h"
#include "base/trace/log.h"
#include "rma/rma_int.h"

#define FIELD(member) .offset = offsetof(struct tp_rma_settings, member)

static const char *const checks[] = {"none", "lanes", "races", "all", NULL};

static const struct tp_config_entry entries[] = {
    {.name = "RMA_RANKS",
     .default_text = "0",
     .help = "ranks of kernels whose program asks for no number; 0 = one a processor",
     .parser = &tp_config_int,
     .min = 0,
     .max = TELPHER_RMA_RANKS_MAX,
     FIELD(ranks)},
    {.name = "RMA_CHECK",
     .default_text = "none",
     .help = "what kernels are looked at for: lanes that part ways, races, all",
     .parser = &tp_config_choice,
     .choices = checks,
     FIELD(check)},
    {.name = "RMA_TIMEOUT",
     .default_text = "60s",
     .help = "a wait of a kernel that takes longer ends the launch with a table of who "
             "waits for whom",
     .parser = &tp_config_duration,
     .min = 1000,
     .max = INT64_MAX,
     FIELD(timeout_ns)},
    {.name = "RMA_SEED",
     .default_text = "0",
     .help = "order in which lanes run under TELPHER_RMA_CHECK; 0 = another each time",
     .parser = &tp_config_u64,
     FIELD(seed)},
    {.name = "RMA_STACK",
     .default_text = "128K",
     .help = "stack of a lane, for kernels with large variables of their own",
     .parser = &tp_config_size,
     .min = TP_RMA_STACK_MIN,
     .max = (int64_t)1 << 30,
     FIELD(stack_bytes)},
};

static struct tp_rma_settings values;
static struct tp_error wrong; /* the first setting that is none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
load(void)
{
    const struct tp_config_room rooms[] = {
        {"rma", entries, TP_ARRAY_LEN(entries), &values},
    };
    static struct tp_config *config; /* lives as long as the process */

    tp_log_configure_env();
    if (tp_config_create(rooms, TP_ARRAY_LEN(rooms), &config) != TELPHER_OK) {
        values.timeout_ns = (uint64_t)60 * 1000000000;
        values.stack_bytes = 128 << 10;
        return;
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(entries); i++) {
        struct tp_error err = {0};
        char name[64];
        const char *value;

        snprintf(name, sizeof(name), "TELPHER_%s", entries[i].name);
        value = getenv(name); /* NOLINT(concurrency-mt-unsafe): nobody here sets it */
        if (value != NULL &&
            tp_config_set(config, entries[i].name, value, name, &err) != TELPHER_OK) {
            wrong = wrong.code == TELPHER_OK ? err : wrong;
        }
    }
}

const struct tp_rma_settings *
tp_rma_settings(void)
{
    pthread_once(&once, load);
    return &values;
}

const char *
tp_rma_settings_wrong(void)
{
    (void)tp_rma_settings();
    return wrong.code == TELPHER_OK ? NULL : tp_error_text(&wrong);
}
