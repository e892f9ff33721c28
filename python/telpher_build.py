# SPDX-License-Identifier: Apache-2.0
"""Builds telpher._telpher: libtelpher and libtelpher-mdr as cffi sees them.

The declarations are taken from the public headers by the C preprocessor, so there is no second list.
TELPHER_PREFIX names an installed Telpher, or TELPHER_BUILD a build folder.
"""
import os
import re
import subprocess
from pathlib import Path

import cffi

SOURCE = Path(__file__).resolve().parent.parent
BUILD = os.environ.get("TELPHER_BUILD")
PREFIX = os.environ.get("TELPHER_PREFIX")
INCLUDES = [f"{PREFIX}/include"] if PREFIX else [str(SOURCE / "include"), f"{BUILD or SOURCE / 'build/dev'}/include"]
LIBRARIES = os.environ.get("TELPHER_LIBRARIES") or (f"{PREFIX}/lib" if PREFIX else f"{BUILD or SOURCE / 'build/dev'}/lib")

HEADERS = """
#include <telpher/telpher.h>
#include <telpher/mdr.h>
#include <telpher/interop/opencl.h>
"""

# Python functions that C code of mdr calls, and constants that are macros.
EXTRA = """
#define TELPHER_MDR_ANY_LENGTH ...
#define TELPHER_MSG_BUFFERS ...
#define TELPHER_TAGS ...

extern "Python" void mdr_create(telpher_mdr_call *);
extern "Python" void mdr_destroy(telpher_mdr_call *);
extern "Python" void mdr_post(telpher_mdr_call *);
extern "Python" void mdr_invoke(telpher_mdr_call *, uint64_t, const char *, size_t);
extern "Python" void mdr_channel(telpher_mdr_call *, uint64_t, const char *, size_t);
extern "Python" void mdr_future(telpher_mdr_call *);
extern "Python" void mdr_reduce(telpher_mdr_call *);
extern "Python" void mdr_start(telpher_mdr_call *);
extern "Python" void mdr_sent(void *, telpher_status, size_t);
extern "Python" void add_device(void *, const telpher_device_info *);
extern "Python" void add_address(void *, const char *);
extern "Python" void add_setting(void *, const telpher_config_info *);
typedef struct { telpher_mdr *mdr; telpher_mdr_array array; telpher_mdr_index index; } mdr_place;
telpher_status mdr_send(const mdr_place *place, uint32_t entry, const char *params, size_t params_len);
void mdr_run_invoke(telpher_mdr_call *call);
void mdr_run_channel(telpher_mdr_call *call);
void mdr_main(telpher_mdr_call *call);
void mdr_quiet(telpher_mdr_call *call);
"""

# Python code never runs on the stack of a light thread, so what waits in one is written in C.
CODE = HEADERS + """
enum { GROUP_START = 0, GROUP_QUIET_DONE = 1 };

typedef struct { telpher_mdr *mdr; telpher_mdr_array array; telpher_mdr_index index; } mdr_place;

/* Each argument and each member costs Python about 0.1 us, so small messages have few. */
static telpher_status mdr_send(const mdr_place *place, uint32_t entry, const char *params, size_t params_len)
{
    return telpher_mdr_invoke(place->mdr, &place->array, place->index, entry, params, params_len, NULL, 0, NULL);
}

static void mdr_invoke(telpher_mdr_call *, uint64_t, const char *, size_t);
static void mdr_channel(telpher_mdr_call *, uint64_t, const char *, size_t);

/* The state of an object is its number in Python. */
static void mdr_run_invoke(telpher_mdr_call *call)
{
    mdr_invoke(call, *(const uint64_t *)call->self, (const char *)call->params, call->params_len);
}

static void mdr_run_channel(telpher_mdr_call *call)
{
    mdr_channel(call, *(const uint64_t *)call->self, (const char *)call->params, call->params_len);
}

/* The main function of the job: creates the group of managers and starts the program. */
static void mdr_main(telpher_mdr_call *call)
{
    const uint32_t *class_id = telpher_mdr_user(call->mdr);
    const telpher_mdr_index first = {{0, 0, 0}};
    telpher_mdr_array group;
    telpher_status status = telpher_mdr_group_create(call->mdr, *class_id, NULL, 0, &group);

    if (status == TELPHER_OK) {
        status = telpher_mdr_invoke(call->mdr, &group, first, GROUP_START, NULL, 0, NULL, 0, NULL);
    }
    if (status != TELPHER_OK) {
        telpher_mdr_exit(call->mdr, status);
    }
}

/* Waits until the job is quiescent, then sends the parameters, a future's number, on. */
static void mdr_quiet(telpher_mdr_call *call)
{
    telpher_mdr_future quiet;
    telpher_status status = telpher_mdr_future_create(call->mdr, &quiet);

    if (status == TELPHER_OK) {
        status = telpher_mdr_quiescence(call->mdr, quiet);
    }
    if (status == TELPHER_OK) {
        status = telpher_mdr_await(call->mdr, quiet, NULL, 0, NULL);
    }
    if (status == TELPHER_OK) {
        status = telpher_mdr_invoke(call->mdr, &call->array, call->index, GROUP_QUIET_DONE,
                                    call->params, call->params_len, NULL, 0, NULL);
    }
    if (status != TELPHER_OK && status != TELPHER_ERR_CANCELED) {
        telpher_mdr_exit(call->mdr, status);
    }
}
"""


def preprocess():
    """The headers' declarations, without those of the system's headers."""
    text = subprocess.run(
        [os.environ.get("CC", "cc"), "-E", "-U__GNUC__", *(f"-I{path}" for path in INCLUDES), "-x", "c", "-"],
        input=HEADERS, capture_output=True, text=True, check=True).stdout
    ours, lines = False, []
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = "/telpher/" in marker.group(1)
        elif ours and line.strip():
            lines.append(line)
    return "\n".join(lines)


ffi = cffi.FFI()
ffi.cdef("struct _cl_mem; struct _cl_command_queue;\n" + preprocess() + EXTRA)
ffi.set_source("telpher._telpher", CODE, include_dirs=INCLUDES, library_dirs=[LIBRARIES],
               libraries=["telpher-mdr", "telpher"],
               extra_link_args=["-Wl,-rpath,$ORIGIN/lib", "-Wl,--disable-new-dtags"])
