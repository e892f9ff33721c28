/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of all of Telpher, for `telpher info`, and the value of a single one. */
#include <stdio.h>
#include <string.h>

#include "api/api_int.h"
#include "base/config/settings.h"

static void
describe(const char *room, const struct tp_config_entry *e,
         telpher_config_fn on_setting, void *user)
{
    char name[64];
    const telpher_config_info info = {
        .struct_size = sizeof(info),
        .room = room,
        .name = name,
        .type = e->parser->type,
        .default_text = e->default_text,
        .value = tp_settings_get(e->name),
        .help = e->help,
    };

    (void)snprintf(name, sizeof(name), "TELPHER_%s", e->name);
    on_setting(user, &info);
}

void
telpher_config_describe(telpher_config_fn on_setting, void *user)
{
    for (size_t i = 0; i < tp_settings_known_count; i++) {
        const struct tp_config_room *room = &tp_settings_known[i];

        for (size_t j = 0; j < room->entry_count; j++) {
            describe(room->name, &room->entries[j], on_setting, user);
        }
    }
}

const char *
telpher_config_get(const char *name)
{
    tp_settings_start();
    return tp_settings_get(strncmp(name, "TELPHER_", 8) == 0 ? name + 8 : name);
}
