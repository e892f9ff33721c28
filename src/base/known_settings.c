/* SPDX-License-Identifier: Apache-2.0 */
/* The names of all of Telpher's settings, so that each library recognises those of
 * the others. */
#include <string.h>

#include "base/compiler.h"
#include "base/config/config_int.h"
#include "base/config/settings.h"
#include "base/os/spin.h"
#include "base/text/text.h"

#define SETTING(setting, type, text, about, ...)                                       \
    {.name = #setting,                                                                 \
     .default_text = (text),                                                           \
     .help = (about),                                                                  \
     .parser = &tp_config_##type},

static const struct tp_config_entry base[] = {
#include "base/settings/base.def"
};
static const struct tp_config_entry comm[] = {
#include "base/settings/comm.def"
};
static const struct tp_config_entry mem[] = {
#include "base/settings/mem.def"
};
static const struct tp_config_entry opencl[] = {
#include "base/settings/opencl.def"
};
static const struct tp_config_entry daemon_entries[] = {
#include "base/settings/daemon.def"
};
static const struct tp_config_entry offload[] = {
#include "base/settings/offload.def"
};
static const struct tp_config_entry rma[] = {
#include "base/settings/rma.def"
};
static const struct tp_config_entry mdr[] = {
#include "base/settings/mdr.def"
};
static const struct tp_config_entry ampi[] = {
#include "base/settings/ampi.def"
};
static const struct tp_config_entry mpidev[] = {
#include "base/settings/mpidev.def"
};
static const struct tp_config_entry direct[] = {
#include "base/settings/direct.def"
};

const struct tp_config_room tp_settings_known[] = {
    {"base", base, TP_ARRAY_LEN(base), NULL},
    {"comm", comm, TP_ARRAY_LEN(comm), NULL},
    {"mem", mem, TP_ARRAY_LEN(mem), NULL},
    {"opencl", opencl, TP_ARRAY_LEN(opencl), NULL},
    {"daemon", daemon_entries, TP_ARRAY_LEN(daemon_entries), NULL},
    {"offload", offload, TP_ARRAY_LEN(offload), NULL},
    {"rma", rma, TP_ARRAY_LEN(rma), NULL},
    {"mdr", mdr, TP_ARRAY_LEN(mdr), NULL},
    {"ampi", ampi, TP_ARRAY_LEN(ampi), NULL},
    {"mpidev", mpidev, TP_ARRAY_LEN(mpidev), NULL},
    {"single", direct, TP_ARRAY_LEN(direct), NULL},
};
const size_t tp_settings_known_count = TP_ARRAY_LEN(tp_settings_known);

bool
tp_config_is_known(const char *name)
{
    for (size_t i = 0; i < tp_settings_known_count; i++) {
        for (size_t j = 0; j < tp_settings_known[i].entry_count; j++) {
            if (tp_config_same_name(tp_settings_known[i].entries[j].name, name)) {
                return true;
            }
        }
    }
    return strncmp(name, "TEST_", 5) == 0; /* of test programs */
}

const char *
tp_config_nearest_known(const char *name, unsigned *distance, const char *nearest)
{
    for (size_t i = 0; i < tp_settings_known_count; i++) {
        for (size_t j = 0; j < tp_settings_known[i].entry_count; j++) {
            const char *known = tp_settings_known[i].entries[j].name;
            unsigned d = tp_text_distance(name, known);

            if (d < *distance) {
                *distance = d;
                nearest = known;
            }
        }
    }
    return nearest;
}
