/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of memory, in their own file so that they can be listed without linking
 * the module. */
#include "core/comm/mem/mem.h"

#include "base/compiler.h"

#define SETTINGS_OF struct tp_mems_settings

const struct tp_config_entry tp_mems_entries[] = {
#define SETTING TP_SETTING
#include "base/settings/mem.def"
#undef SETTING
};
const size_t tp_mems_entry_count = TP_ARRAY_LEN(tp_mems_entries);
