/* SPDX-License-Identifier: Apache-2.0 */
/* Settings as loading and printing share them; private to base. */
#ifndef TELPHER_BASE_CONFIG_CONFIG_INT_H
#define TELPHER_BASE_CONFIG_CONFIG_INT_H

#include "base/config/config.h"

/** One setting of one room, with the text of its value. */
struct tp_config_setting {
    const struct tp_config_room *room;
    const struct tp_config_entry *entry;
    char *text;
    char *origin; /* for people: "default", "environment", "file:line", "--option" */
    enum tp_config_source source;
};

struct tp_config {
    struct tp_config_room *rooms;
    size_t room_count;
    struct tp_config_setting *settings; /* room by room */
    size_t setting_count;
};

/** The setting @p name ("-" and small letters are accepted), or NULL. */
struct tp_config_setting *tp_config_find(const struct tp_config *config,
                                         const char *name);

/** True if some component of Telpher has the setting @p name: known_settings.c. */
bool tp_config_is_known(const char *name);
/** The known setting whose name is less than *distance edits from @p name, and sets
 *  *distance to its edits; @p nearest if there is none. */
const char *tp_config_nearest_known(const char *name, unsigned *distance,
                                    const char *nearest);
/** True if both names mean the same setting. */
bool tp_config_same_name(const char *a, const char *b);
/** The largest distance + 1 at which a name is offered as what was meant. */
unsigned tp_config_far(const char *name);

#endif
