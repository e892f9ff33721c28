/* SPDX-License-Identifier: Apache-2.0 */
/* How long to spin; see spin.h. */
#include "base/os/spin.h"

#include <sched.h>
#include <string.h>

enum { MANY = 4 }; /* processors: the two ends, the driver, and one to spare */

#define TIME_WITH_MANY (50 * TP_CLOCK_US)

static telpher_status
parse_spin(const struct tp_config_entry *entry, const char *text, void *field,
           struct tp_error *err)
{
    const struct tp_config_entry bounded = {.name = entry->name, .max = TP_SPIN_MAX};
    const uint64_t automatic = TP_SPIN_AUTO;

    if (strcmp(text, "auto") == 0) {
        memcpy(field, &automatic, sizeof(automatic));
        return TELPHER_OK;
    }
    return tp_config_duration.parse(&bounded, text, field, err);
}

const struct tp_config_parser tp_config_spin = {"duration or auto", sizeof(uint64_t),
                                                parse_spin, NULL};

unsigned
tp_spin_processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    return count > 1 ? (unsigned)count : 1;
}

tp_ns
tp_spin_time(uint64_t setting, tp_ns few)
{
    if (setting != TP_SPIN_AUTO) {
        return setting;
    }
    return tp_spin_processors() >= MANY ? TIME_WITH_MANY : few;
}
