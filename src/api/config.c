/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of all of Telpher, for `telpher info`. Those of base and of core/comm are linked in; those of
 * the OpenCL library, of the daemon, of kernel offload and of rma, which are other files, are listed here again, and
 * a test compares with their tables.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/api_int.h"
#include "base/compiler.h"
#include "base/config/settings.h"
#include "core/comm/settings.h"

struct setting {
    const char *room, *name, *type, *default_text, *help;
};

static const struct setting elsewhere[] = {
#define SETTING(room, name, type, default_text, help)                                  \
    {room, name, type, default_text, help},
#include "api/settings.def"
#undef SETTING
};

static void
describe(const struct setting *s, telpher_config_fn on_setting, void *user)
{
    char name[64];
    telpher_config_info info = {
        .struct_size = sizeof(info),
        .room = s->room,
        .name = name,
        .type = s->type,
        .default_text = s->default_text,
        .help = s->help,
    };

    snprintf(name, sizeof(name), "TELPHER_%s", s->name);
    info.value = getenv(name);
    on_setting(user, &info);
}

static void
describe_table(const char *room, const struct tp_config_entry *entries, size_t count,
               telpher_config_fn on_setting, void *user)
{
    for (size_t i = 0; i < count; i++) {
        const struct tp_config_entry *e = &entries[i];
        const struct setting s = {room, e->name, e->parser->type, e->default_text,
                                  e->help};

        describe(&s, on_setting, user);
    }
}

void
telpher_config_describe(telpher_config_fn on_setting, void *user)
{
    describe_table("base", tp_settings_entries, tp_settings_entry_count, on_setting,
                   user);
    describe_table("comm", tp_comm_entries, tp_comm_entry_count, on_setting, user);
    describe_table("mem", tp_mems_entries, tp_mems_entry_count, on_setting, user);
    for (size_t i = 0; i < TP_ARRAY_LEN(elsewhere); i++) {
        describe(&elsewhere[i], on_setting, user);
    }
}
