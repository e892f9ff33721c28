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

#endif
