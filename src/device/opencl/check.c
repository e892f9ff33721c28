/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers that check for held locks before each driver call, in debug builds. */
#include "device/opencl/check.h"

#ifdef NDEBUG

void
tp_opencl_check(struct tp_opencl *cl)
{
}

#else

#include <stdlib.h>

#include "base/os/effort.h"
#include "base/trace/log.h"
#include "device/opencl/calls.h"

static struct tp_opencl driver;

static void
check(const char *call)
{
    if (tp_effort.held != 0) {
        tp_error("opencl", "%s is called while its thread holds %llu locks", call,
                 (unsigned long long)tp_effort.held);
        abort();
    }
}

#define CALL(type, name, parameters, arguments)                                        \
    static CL_API_ENTRY type CL_API_CALL check_##name parameters                       \
    {                                                                                  \
        check("cl" #name);                                                             \
        return driver.name arguments;                                                  \
    }
TP_OPENCL_CALLS(CALL)
TP_OPENCL_FREE_CALLS(CALL)
#undef CALL

void
tp_opencl_check(struct tp_opencl *cl)
{
    driver = *cl;
#define CALL(type, name, parameters, arguments)                                        \
    cl->name = driver.name != NULL ? check_##name : NULL;
    TP_OPENCL_CALLS(CALL)
    TP_OPENCL_FREE_CALLS(CALL)
#undef CALL
}

#endif
