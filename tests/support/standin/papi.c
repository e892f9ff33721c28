/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a library that is called like PAPI 7.1 and counts starts, in place of events. */
#include <string.h>

enum { VERSION = 7 << 24 | 1 << 16, INVALID = -1, NO_EVENT = -7 };

static int events;
static long long starts;

#define EXPORT __attribute__((visibility("default")))

EXPORT int PAPI_library_init(int version);
EXPORT int PAPI_create_eventset(int *set);
EXPORT int PAPI_add_named_event(int set, const char *name);
EXPORT int PAPI_start(int set);
EXPORT int PAPI_stop(int set, long long *values);
EXPORT const char *PAPI_strerror(int error);

int
PAPI_library_init(int version)
{
    return version == VERSION ? VERSION : INVALID;
}

int
PAPI_create_eventset(int *set)
{
    *set = 0;
    return 0;
}

int
PAPI_add_named_event(int set, const char *name)
{
    events++;
    return strncmp(name, "PAPI_", 5) == 0 || strncmp(name, "perf::", 6) == 0 ? set
                                                                             : NO_EVENT;
}

int
PAPI_start(int set)
{
    starts++;
    return set;
}

int
PAPI_stop(int set, long long *values)
{
    for (int i = 0; i < events; i++) {
        values[i] = 100 * (i + 1) + starts;
    }
    return set;
}

const char *
PAPI_strerror(int error)
{
    return error == NO_EVENT ? "Event does not exist" : "wrong";
}
