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
#include <telpher/mdr_dynamic.h>
#include <telpher/interop/opencl.h>
"""

# Python functions that C code of mdr calls, and constants that are macros.
EXTRA = """
#define TELPHER_MDR_ANY_LENGTH ...
#define TELPHER_MDR_ANY_PROCESS ...
#define TELPHER_MSG_BUFFERS ...
#define TELPHER_TAGS ...
#define PENDING ...
#define LANDED ...

int64_t channel_send(telpher_channel *channel, const void *data, size_t len);
int64_t channel_recv(telpher_channel *channel, void *data, size_t len);
int64_t window_put(telpher_win *win, uint32_t rank, uint64_t offset, const void *data, size_t len);
int64_t window_put_notify(telpher_win *win, uint32_t rank, uint64_t offset, const void *data, size_t len, uint32_t tag);
int64_t window_get(telpher_win *win, uint32_t rank, uint64_t offset, void *data, size_t len);
int64_t request_test(int64_t request);
int64_t request_wait(int64_t request, uint64_t ns);

extern "Python" void mdr_create(telpher_mdr_call *);
extern "Python" void mdr_destroy(telpher_mdr_call *);
extern "Python" void mdr_post(telpher_mdr_call *);
extern "Python" void mdr_invoke(telpher_mdr_call *, uint64_t, const char *, size_t);
extern "Python" void mdr_channel(telpher_mdr_call *, uint64_t, const char *, size_t);
extern "Python" void mdr_place(telpher_mdr_call *, uint64_t, const char *, size_t);
extern "Python" void mdr_landed(uint64_t);
extern "Python" void mdr_future(telpher_mdr_call *);
extern "Python" void mdr_reduce(telpher_mdr_call *);
extern "Python" void mdr_start(telpher_mdr_call *);
extern "Python" void mdr_remote(telpher_mdr_call *);
extern "Python" void mdr_resume(telpher_mdr_call *);
extern "Python" void mdr_pup(telpher_mdr_call *, telpher_mdr_pup *);
extern "Python" void mdr_sent(void *, telpher_status, size_t);
extern "Python" void add_device(void *, const telpher_device_info *);
extern "Python" void add_address(void *, const char *);
extern "Python" void add_setting(void *, const telpher_config_info *);
typedef struct { telpher_mdr *mdr; telpher_mdr_array array; telpher_mdr_index index; } mdr_where;
telpher_status mdr_send(const mdr_where *to, uint32_t entry, const char *params, size_t params_len);
typedef struct { mdr_where to; char name[...]; uint32_t sequence; ...; } mdr_out;
typedef struct { int kind; size_t len; char text[]; } mdr_description;
int64_t mdr_send_array(mdr_out *out, const mdr_description *what, void *data, size_t len);
telpher_status mdr_send_inline(mdr_out *out, const mdr_description *what, const void *data, size_t len);
uint64_t mdr_number(void);
#define INLINE_MAX ...
typedef struct mdr_posted { uint64_t end; int landed, waits; unsigned char head[...]; ...; } mdr_posted;
typedef struct { uint64_t number; mdr_posted *posted; } mdr_object;
void mdr_expect(mdr_object *object, mdr_posted *posted, uint32_t sequence, void *data, size_t len, int on_host);
void mdr_expect_like(mdr_object *object, mdr_posted *posted, uint32_t sequence, void *data, size_t len,
                     const char *description, size_t description_len);
void mdr_forget(mdr_object *object, mdr_posted *posted);
void mdr_post_channel(telpher_mdr_call *call);
typedef struct { uintptr_t numbers[256]; unsigned count; } mdr_done_list;
extern mdr_done_list mdr_done;
void mdr_run_create(telpher_mdr_call *call);
void mdr_run_invoke(telpher_mdr_call *call);
void mdr_run_channel(telpher_mdr_call *call);
void mdr_run_future(telpher_mdr_call *call);
void mdr_run_reduce(telpher_mdr_call *call);
void mdr_run_start(telpher_mdr_call *call);
void mdr_run_remote(telpher_mdr_call *call);
void mdr_run_resume(telpher_mdr_call *call);
void mdr_run_pup(telpher_mdr_call *call, telpher_mdr_pup *pup);
telpher_status mdr_turns(telpher_mdr *mdr, const mdr_posted *posted);
void mdr_main(telpher_mdr_call *call);
void mdr_quiet(telpher_mdr_call *call);
void mdr_wake(telpher_mdr *mdr, uint64_t at_ns);
"""

# Python code never runs on the stack of a light thread, so what waits in one is written in C.
CODE = HEADERS + """
#include <string.h>
#include <time.h>

/* Transfers of ranks give one number: an error, or the bytes of one that is complete, or PENDING and its request. */
#define PENDING (INT64_C(1) << 62)

static int64_t started(telpher_status status, telpher_request *request, size_t len)
{
    return status == TELPHER_IN_PROGRESS ? PENDING + (intptr_t)request : status < 0 ? status : (int64_t)len;
}

static int64_t channel_send(telpher_channel *channel, const void *data, size_t len)
{
    telpher_request *request = NULL;
    telpher_status status = telpher_channel_send(channel, data, len, NULL, &request);

    return started(status, request, len);
}

static int64_t channel_recv(telpher_channel *channel, void *data, size_t len)
{
    telpher_request *request = NULL;
    size_t got = 0;
    telpher_status status = telpher_channel_recv(channel, data, len, NULL, &request, &got);

    return started(status, request, got);
}

static int64_t window_put(telpher_win *win, uint32_t rank, uint64_t offset, const void *data, size_t len)
{
    telpher_request *request = NULL;
    telpher_status status = telpher_put(win, rank, offset, data, len, NULL, &request);

    return started(status, request, len);
}

static int64_t window_put_notify(telpher_win *win, uint32_t rank, uint64_t offset, const void *data, size_t len,
                                 uint32_t tag)
{
    telpher_request *request = NULL;
    telpher_status status = telpher_put_notify(win, rank, offset, data, len, tag, NULL, &request);

    return started(status, request, len);
}

static int64_t window_get(telpher_win *win, uint32_t rank, uint64_t offset, void *data, size_t len)
{
    telpher_request *request = NULL;
    telpher_status status = telpher_get(win, rank, offset, data, len, NULL, &request);

    return started(status, request, len);
}

static int64_t request_test(int64_t request)
{
    size_t got = 0;
    telpher_status status = telpher_request_test((telpher_request *)(intptr_t)(request - PENDING), &got);

    return status == TELPHER_IN_PROGRESS ? request : started(status, NULL, got);
}

static int64_t request_wait(int64_t request, uint64_t ns)
{
    size_t got = 0;
    telpher_status status = telpher_request_wait((telpher_request *)(intptr_t)(request - PENDING), ns, &got);

    return started(status, NULL, got);
}

enum { GROUP_START = 0, GROUP_QUIET_DONE = 1 };

/* of constants.py; CHANNEL_HEAD */
enum { CHANNEL_ENTRY = 1, LONE_BUFFER = 0x41, LONE_INLINE = 0x60, HEAD_BYTES = 28, NAME_BYTES = 24 };

typedef struct { telpher_mdr *mdr; telpher_mdr_array array; telpher_mdr_index index; } mdr_where;

/* The sending end of a channel. */
typedef struct {
    mdr_where to;
    char name[NAME_BYTES];
    uint32_t sequence; /* of the next message */
    uint32_t skips; /* of push_data() */
} mdr_out;

/* How Python describes arrays of a type and shape. */
typedef struct {
    int kind; /* of memory */
    size_t len;
    char text[];
} mdr_description;

/* Each argument and each member costs Python about 0.1 us, so small messages have few. */
static telpher_status mdr_send(const mdr_where *to, uint32_t entry, const char *params, size_t params_len)
{
    return telpher_mdr_invoke(to->mdr, &to->array, to->index, entry, params, params_len, NULL, 0, NULL);
}

static void mdr_sent(void *, telpher_status, size_t);

/* Names what is sent: Python keeps it until it has been sent. */
static uint64_t mdr_number(void)
{
    static uint64_t last;

    return ++last;
}

/* Numbers of what has been sent, which Python takes between turns. */
enum { DONE_MAX = 256 };
typedef struct { uintptr_t numbers[DONE_MAX]; unsigned count; } mdr_done_list;
static mdr_done_list mdr_done;

static uintptr_t sending; /* what mdr_send_array() sends; 0: it has been sent, and Python need not keep it */

static void note_sent(void *user, telpher_status status, size_t len)
{
    if ((uintptr_t)user == sending) {
        sending = 0;
    } else if (mdr_done.count < DONE_MAX) {
        mdr_done.numbers[mdr_done.count++] = (uintptr_t)user;
    } else {
        mdr_sent(user, status, len);
    }
}

static void mdr_invoke(telpher_mdr_call *, uint64_t, const char *, size_t);
static void mdr_channel(telpher_mdr_call *, uint64_t, const char *, size_t);
static void mdr_place(telpher_mdr_call *, uint64_t, const char *, size_t);
static void mdr_landed(uint64_t);

#define INLINE_MAX 8192 /* [bytes] of the description and the content of a message with LONE_INLINE */

static void write_head(unsigned char *at, const mdr_out *out)
{
    memcpy(at, out->name, NAME_BYTES);
    memcpy(at + NAME_BYTES, &out->sequence, sizeof(out->sequence));
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A receiver that waits sends its CTS within half a microsecond: the data leaves before Python goes on, not after. Where it
 * does not come, as in one process, the channel's next sends do not wait. A message that arrives meanwhile may be early,
 * before its receive names memory. Then no sends wait for a while. */
enum { LARGE = 1 << 16, CTS_NS = 1500, PUSH_NS = 200000, SKIPS = 32, HURRIED = 1024 };
static unsigned hurried; /* sends that do not wait, since a message came before its receive */

static void push_data(mdr_out *out)
{
    telpher_context *ctx = telpher_mdr_context(out->to.mdr);
    uint64_t end = now_ns() + CTS_NS;
    int begun = 0;

    if (hurried != 0 || out->skips != 0) {
        hurried -= hurried != 0;
        out->skips -= out->skips != 0;
        return;
    }
    do {
        if (telpher_progress(ctx) != 0 && !begun) {
            begun = 1;
            end += PUSH_NS;
        }
    } while (sending != 0 && now_ns() < end);
    out->skips = begun ? 0 : SKIPS;
}

/* A message of a channel that is one array. @return a number below 0: the error; 0: it has been sent, or the number of what
 * Python keeps until mdr_done has it */
static int64_t mdr_send_array(mdr_out *out, const mdr_description *what, void *data, size_t len)
{
    const telpher_msg_buffer buffer = {.data = data, .len = len};
    const uint64_t number = mdr_number(), outer = sending; /* of a send that runs below: of a destructor, for example */
    const telpher_xfer_params xfer = {.struct_size = sizeof(xfer), .on_done = note_sent, .user = (void *)number};
    unsigned char params[2 + HEAD_BYTES + INLINE_MAX];
    telpher_status status;
    int64_t left;

    if (what->len > INLINE_MAX) {
        return TELPHER_ERR_RANGE;
    }
    params[0] = LONE_BUFFER;
    params[1] = (unsigned char)what->kind;
    write_head(params + 2, out);
    memcpy(params + 2 + HEAD_BYTES, what->text, what->len);
    sending = number;
    status = telpher_mdr_invoke(out->to.mdr, &out->to.array, out->to.index, CHANNEL_ENTRY, params,
                                2 + HEAD_BYTES + what->len, &buffer, 1, &xfer);
    out->sequence += status == TELPHER_OK;
    if (status == TELPHER_OK && len >= LARGE && sending != 0) {
        push_data(out);
    }
    left = (int64_t)sending;
    sending = outer;
    return status == TELPHER_OK ? left : status;
}

/* A message of a channel that is one small array: its content is after its description, whose length is before it. */
static telpher_status mdr_send_inline(mdr_out *out, const mdr_description *what, const void *data, size_t len)
{
    unsigned char params[3 + HEAD_BYTES + INLINE_MAX];
    unsigned char *at = params + 1 + HEAD_BYTES;
    telpher_status status;

    params[0] = LONE_INLINE;
    write_head(params + 1, out);
    at[0] = what->len & 0xff;
    at[1] = (unsigned char)(what->len >> 8);
    memcpy(at + 2, what->text, what->len);
    memcpy(at + 2 + what->len, data, len);
    status = telpher_mdr_invoke(out->to.mdr, &out->to.array, out->to.index, CHANNEL_ENTRY, params,
                                3 + HEAD_BYTES + what->len + len, NULL, 0, NULL);
    out->sequence += status == TELPHER_OK;
    return status;
}

/* A receive into one buffer. Its message needs Python only if a method is suspended until it has landed. */
typedef struct mdr_posted {
    uint64_t end; /* number of the channel's end in Python */
    struct mdr_posted *next;
    void *data;
    size_t len;
    const char *description; /* NULL: the buffer takes any array; otherwise those with this description and length */
    size_t description_len;
    int placed, landed, waits, on_host; /* waits: a method is suspended */
    unsigned char head[HEAD_BYTES]; /* of the message; Python writes the name */
} mdr_posted;

/* The state of an object: its number in Python, and its receives. */
typedef struct { uint64_t number; mdr_posted *posted; } mdr_object;

static void mdr_expect_like(mdr_object *object, mdr_posted *posted, uint32_t sequence, void *data, size_t len,
                            const char *description, size_t description_len)
{
    posted->on_host = 1;
    posted->data = data;
    posted->len = len;
    posted->description = description;
    posted->description_len = description_len;
    posted->placed = posted->landed = posted->waits = 0;
    memcpy(posted->head + NAME_BYTES, &sequence, sizeof(sequence));
    posted->next = object->posted;
    object->posted = posted;
}

static void mdr_expect(mdr_object *object, mdr_posted *posted, uint32_t sequence, void *data, size_t len, int on_host)
{
    mdr_expect_like(object, posted, sequence, data, len, NULL, 0);
    posted->on_host = on_host;
}

static void mdr_forget(mdr_object *object, mdr_posted *posted)
{
    mdr_posted **at = &object->posted;

    while (*at != NULL && *at != posted) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = posted->next;
    }
}

static mdr_posted *posted_for(const telpher_mdr_call *call)
{
    mdr_posted *p = ((mdr_object *)call->self)->posted;
    const char *params = (const char *)call->params;

    params += params[0] == LONE_BUFFER ? 2 : 1;
    while (p != NULL && memcmp(p->head, params, HEAD_BYTES) != 0) {
        p = p->next;
    }
    return p;
}

/* Whether the receive takes an array of @len bytes. */
static int fits(const mdr_posted *posted, const unsigned char *description, size_t description_len, size_t len)
{
    if (posted->description == NULL) {
        return len <= posted->len;
    }
    return len == posted->len && description_len == posted->description_len &&
           memcmp(description, posted->description, description_len) == 0;
}

static int take_inline(mdr_posted *posted, const telpher_mdr_call *call)
{
    const unsigned char *params = (const unsigned char *)call->params;
    size_t start = 3 + HEAD_BYTES, description_len;

    if (params[0] != LONE_INLINE || call->params_len < start || !posted->on_host) {
        return 0;
    }
    description_len = params[start - 2] | (size_t)params[start - 1] << 8;
    if (description_len > call->params_len - start ||
        !fits(posted, params + start, description_len, call->params_len - start - description_len)) {
        return 0;
    }
    start += description_len;
    memcpy(posted->data, params + start, call->params_len - start);
    return 1;
}

static int takes_buffer(const mdr_posted *posted, const telpher_mdr_call *call)
{
    const unsigned char *params = (const unsigned char *)call->params;
    const size_t start = 2 + HEAD_BYTES;

    return params[0] == LONE_BUFFER && call->params_len >= start &&
           fits(posted, params + start, call->params_len - start, call->buffers[0].len);
}

static int python_ran; /* what C called may have put methods into Python's queue */

#define RUNS_PYTHON(what) \\
    static void mdr_##what(telpher_mdr_call *); \\
    static void mdr_run_##what(telpher_mdr_call *call) \\
    { \\
        python_ran = 1; \\
        mdr_##what(call); \\
    }
RUNS_PYTHON(create)
RUNS_PYTHON(future)
RUNS_PYTHON(reduce)
RUNS_PYTHON(start)
RUNS_PYTHON(remote)
RUNS_PYTHON(resume)

static void mdr_pup(telpher_mdr_call *, telpher_mdr_pup *);

static void mdr_run_pup(telpher_mdr_call *call, telpher_mdr_pup *pup)
{
    python_ran = 1;
    mdr_pup(call, pup);
}

static void mdr_run_invoke(telpher_mdr_call *call)
{
    python_ran = 1;
    mdr_invoke(call, *(const uint64_t *)call->self, (const char *)call->params, call->params_len);
}

static void mdr_run_channel(telpher_mdr_call *call)
{
    mdr_posted *posted = call->status == TELPHER_OK ? posted_for(call) : NULL;

    if (posted != NULL && (posted->placed || take_inline(posted, call))) {
        mdr_forget((mdr_object *)call->self, posted);
        posted->landed = 1;
        if (posted->waits) {
            python_ran = 1;
            mdr_landed(posted->end);
        }
        return;
    }
    python_ran = 1;
    mdr_channel(call, *(const uint64_t *)call->self, (const char *)call->params, call->params_len);
}

static void mdr_post_channel(telpher_mdr_call *call)
{
    mdr_posted *posted = posted_for(call);

    if (posted != NULL && call->buffer_count == 1 && takes_buffer(posted, call)) {
        call->buffers[0].data = posted->data;
        posted->placed = 1;
        return;
    }
    hurried = HURRIED;
    mdr_place(call, *(const uint64_t *)call->self, (const char *)call->params, call->params_len);
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

#define WAIT_NS UINT64_C(100000000) /* at most: as the scheduler does */

#define TURNS_NS UINT64_C(1000000) /* Python handles signals afterwards */

#define LANDED 2 /* beside the statuses of telpher_mdr_turn() */

/* Makes turns until Python has something to do, or @posted, which may be NULL, has landed. @return LANDED, or the status of
 * the last turn */
static telpher_status mdr_turns(telpher_mdr *mdr, const mdr_posted *posted)
{
    uint64_t end = now_ns() + TURNS_NS;
    telpher_status status;

    python_ran = 0;
    do {
        status = telpher_mdr_turn(mdr);
    } while (status == TELPHER_IN_PROGRESS && !python_ran && mdr_done.count == 0 &&
             (posted == NULL || !posted->landed) && now_ns() < end);
    return status == TELPHER_IN_PROGRESS && posted != NULL && posted->landed ? LANDED : status;
}

static uint64_t wake_ns; /* of the monotonic clock: when Python's next timer is due */

/* Waits for a message until the timer is due: the scheduler would wait longer. */
static int wait_for_timer(telpher_mdr *mdr, void *user)
{
    uint64_t now = now_ns();

    (void)user;
    if (now < wake_ns) {
        telpher_progress_wait(telpher_mdr_context(mdr), wake_ns - now < WAIT_NS ? wake_ns - now : WAIT_NS);
    }
    python_ran = 1; /* it runs the timers */
    return 1;
}

/* Sets the time of the next timer; 0: there is none. */
static void mdr_wake(telpher_mdr *mdr, uint64_t at_ns)
{
    wake_ns = at_ns;
    telpher_mdr_idle_set(mdr, at_ns != 0 ? wait_for_timer : NULL, NULL);
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
    return re.sub(r"static inline .*?\n}", "", "\n".join(lines), flags=re.S)


ffi = cffi.FFI()
ffi.cdef("struct _cl_mem; struct _cl_command_queue;\n" + preprocess() + EXTRA)
ffi.set_source("telpher._telpher", CODE, include_dirs=INCLUDES, library_dirs=[LIBRARIES],
               libraries=["telpher-mdr", "telpher"],
               extra_link_args=["-Wl,-rpath,$ORIGIN/lib", "-Wl,--disable-new-dtags"])
