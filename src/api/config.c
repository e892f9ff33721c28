/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of all of Telpher, for `telpher info`. Those of base are linked in; those of
 * the OpenCL library and of the daemon, which are other files, are listed here again, and
 * a test compares with their tables.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/api_int.h"
#include "base/compiler.h"
#include "base/settings.h"

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

void
telpher_config_describe(telpher_config_fn on_setting, void *user)
{
    for (size_t i = 0; i < tp_settings_entry_count; i++) {
        const struct tp_config_entry *e = &tp_settings_entries[i];
        const struct setting s = {"base", e->name, e->parser->type, e->default_text,
                                  e->help};

        describe(&s, on_setting, user);
    }
    for (size_t i = 0; i < TP_ARRAY_LEN(elsewhere); i++) {
        describe(&elsewhere[i], on_setting, user);
    }
}
