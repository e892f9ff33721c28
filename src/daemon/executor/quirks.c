/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the table of driver quirks and finds those of the session's driver. */
#include "daemon/executor/quirks.h"

#include <string.h>

#include "base/trace/log.h"
#include "daemon/executor/executor.h"
#include "device/opencl/check.h"
#include "device/opencl/serial.h"
#include "device/opencl/watch.h"

enum { VENDOR_NVIDIA = 0x10de };

/* clang-format off */
static const struct tp_exec_quirk_row rows[TP_EXEC_QUIRK_COUNT] = {
    [TP_EXEC_QUIRK_NOT_THREAD_SAFE] = {
        .id = "not-thread-safe", .match = TP_EXEC_PLATFORM_NAME, .name = "Oclgrind", .driver = "oclgrind 21.10",
        .symptom = "crashes when two threads call it: it keeps commands in plain maps",
        .remedy = "calls take turns",
        .where = "src/device/opencl/serial.c", .test = "src/device/opencl/serial_test.c"},
    [TP_EXEC_QUIRK_LATE_CALLBACKS] = {
        .id = "late-callbacks", .match = TP_EXEC_DEVICE_VENDOR, .vendor = VENDOR_NVIDIA, .driver = "NVIDIA 580.159",
        .symptom = "event callbacks come 0.2 to 20 ms after the command has ended",
        .remedy = "a thread, or the waiting reader, looks at the events; a marker follows launches instead of an event each",
        .where = "src/device/opencl/watch.c", .test = "src/device/opencl/watch_test.c"},
    [TP_EXEC_QUIRK_FLUSH_RUNS_COMMANDS] = {
        .id = "flush-runs-commands", .match = TP_EXEC_PROBED, .driver = "oclgrind 21.10",
        .symptom = "clFlush runs the queue on the calling thread and waits there for user events",
        .remedy = "a queue is flushed only when no user event blocks it, and before the first command that one blocks",
        .where = "src/daemon/executor/flush.c", .test = "src/daemon/executor/flush_test.c"},
    [TP_EXEC_QUIRK_FLUSH_ENDS_TOGETHER] = {
        .id = "flush-ends-together", .match = TP_EXEC_PLATFORM_NAME, .name = "rusticl", .driver = "rusticl 22.3.6",
        .symptom = "commands of one clFlush complete together, after the last has had its wait list",
        .remedy = "the queue is flushed between the gate of a large transfer and the barrier that waits for its end",
        .where = "src/daemon/executor/commands/large_transfer.c", .test = "scripts/check/drivers"},
    [TP_EXEC_QUIRK_ENDS_OUT_OF_TURN] = {
        .id = "ends-out-of-turn", .match = TP_EXEC_PLATFORM_NAME, .name = "rusticl", .driver = "rusticl 22.3.6",
        .symptom = "says that a command has ended before it says so of those before it in its in-order queue",
        .remedy = "the end of a command is the end of all before it, also of reads that a command of another queue waited for",
        .where = "src/daemon/executor/event.c", .test = "src/daemon/executor/commands/read_order_test.c"},
    [TP_EXEC_QUIRK_UNHELD_FAILURE_CRASHES] = {
        .id = "unheld-failure-crashes", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "ends the process when a command fails whose event is released",
        .remedy = "events that failed are held until all commands have ended",
        .where = "src/daemon/executor/held_events.c", .test = "tests/integration/icd_failure.c"},
    [TP_EXEC_QUIRK_FAILURE_NOT_REPORTED] = {
        .id = "failure-not-reported", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "no callback comes for a command that fails because of its wait list",
        .remedy = "the watchdog looks at pending events once a second, and where a failure is likely at once",
        .where = "src/daemon/executor/event.c", .test = "tests/integration/icd_failure.c"},
    [TP_EXEC_QUIRK_FAILURE_WITHOUT_CODE] = {
        .id = "failure-without-code", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "the status of every failed command is -1, which would be CL_DEVICE_NOT_FOUND",
        .remedy = "-1 becomes the error that fits the command",
        .where = "src/daemon/executor/event.c", .test = "tests/integration/icd_failure.c"},
    [TP_EXEC_QUIRK_QUEUE_STUCK_AFTER_FAILURE] = {
        .id = "queue-stuck-after-failure", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "commands enqueued after a failed one never start",
        .remedy = "the native queue is replaced",
        .where = "src/daemon/executor/objects/context.c", .test = "tests/integration/icd_failure.c"},
    [TP_EXEC_QUIRK_MARKER_WAITS_FOR_ALL] = {
        .id = "marker-waits-for-all", .match = TP_EXEC_PLATFORM_NAME, .name = "Portable Computing Language",
        .driver = "PoCL 3.1",
        .symptom = "in an out-of-order queue a marker with a wait list waits for all earlier commands",
        .remedy = "one byte migrates instead; large transfers wait for the events of their wait list one by one",
        .where = "src/daemon/executor/commands/command.c", .test = "tests/integration/memory/icd_memory_order.c"},
    [TP_EXEC_QUIRK_RECORD_READS_ARGUMENTS_LATE] = {
        .id = "record-reads-arguments-late", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "a command buffer takes kernel arguments when it is enqueued, not when it is recorded",
        .remedy = "a recorded kernel is a clone",
        .where = "src/daemon/executor/commands/command_buffer_record.c", .test = "tests/integration/icd_commands.c"},
    [TP_EXEC_QUIRK_MIGRATE_CRASHES] = {
        .id = "migrate-crashes", .match = TP_EXEC_DEVICE_VENDOR, .vendor = VENDOR_NVIDIA, .driver = "NVIDIA 580.159",
        .symptom = "clEnqueueMigrateMemObjects ends the process in some programs that migrate sub-buffers, and reads its list of buffers late",
        .remedy = "a marker takes the place of the migration",
        .where = "src/daemon/executor/commands/migrate.c", .test = "src/daemon/executor/objects/sub_buffer_test.c"},
    [TP_EXEC_QUIRK_MIGRATE_WAITS_FOR_FAILED] = {
        .id = "migrate-waits-for-failed", .match = TP_EXEC_PLATFORM_NAME, .name = "Portable Computing Language",
        .driver = "PoCL 3.1",
        .symptom = "a migration to the host waits forever if the last command of a buffer has failed",
        .remedy = "after a failure, buffers migrate to the device, which has the host's memory",
        .where = "src/daemon/executor/commands/migrate.c", .test = "tests/integration/icd_failure.c"},
    [TP_EXEC_QUIRK_FAILED_WAIT_IGNORED] = {
        .id = "failed-wait-ignored", .match = TP_EXEC_ANY_DRIVER, .driver = "NVIDIA 580.159",
        .symptom = "a command runs although an event of its wait list had failed when it was enqueued",
        .remedy = "the wait list is looked at again after the driver has taken the command",
        .where = "src/daemon/executor/commands/command.c", .test = "src/daemon/executor/peer/peer_failure_test.c"},
    [TP_EXEC_QUIRK_KERNEL_RELEASED_LATE] = {
        .id = "kernel-released-late", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "a rebuild after the last kernel was released fails with CL_INVALID_OPERATION for a moment",
        .remedy = "the build is tried again for a bounded time",
        .where = "src/daemon/executor/program/build.c", .test = "tests/integration/program/icd_rebuild.c"},
    [TP_EXEC_QUIRK_BUILD_CACHE_RACES] = {
        .id = "build-cache-races", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "a build fails without a log when two processes write the driver's cache",
        .remedy = "a build that failed without a log is tried once more",
        .where = "src/daemon/executor/program/build.c", .test = "tests/integration/program/icd_rebuild.c"},
    [TP_EXEC_QUIRK_BUILD_CACHE_ABORTS] = {
        .id = "build-cache-aborts", .match = TP_EXEC_PLATFORM_NAME, .name = "Portable Computing Language",
        .driver = "PoCL 3.1",
        .symptom = "a build ends the process when another one removes the program's file from the driver's cache",
        .remedy = "executors of a user build the same program one after the other",
        .where = "src/daemon/executor/program/build_lock.c", .test = "tests/integration/program/icd_rebuild.c"},
    [TP_EXEC_QUIRK_BINARIES_COST_BUILDS] = {
        .id = "binaries-cost-builds", .match = TP_EXEC_ANY_DRIVER, .driver = "PoCL 3.1",
        .symptom = "asked for binaries it compiles every kernel for every work-group size",
        .remedy = "the build cache is written when the session ends",
        .where = "src/daemon/executor/program/build_cache_write.c", .test = "tests/integration/program/icd_cache_end.c"},
    [TP_EXEC_QUIRK_QUEUE_WAITS_FOR_ITSELF] = {
        .id = "queue-waits-for-itself", .match = TP_EXEC_PLATFORM_NAME, .name = "Intel(R) OpenCL",
        .driver = "Intel CPU runtime 2026.22.10",
        .symptom = "a queue released while its last command ends is destroyed by that command's thread, which waits for itself",
        .remedy = "a queue is released one to two seconds after its commands have ended",
        .where = "src/daemon/executor/held_events.c", .test = "src/daemon/executor/queue_release_test.c"},
    [TP_EXEC_QUIRK_LIMITS_TOO_STRICT] = {
        .id = "limits-too-strict", .match = TP_EXEC_PLATFORM_NAME, .name = "rusticl", .driver = "rusticl 22.3.6",
        .symptom = "says work-group size 32 and twice the local memory of a kernel; launches above these limits run",
        .remedy = "the client checks launches against the device's work-group size, and local memory not at all",
        .where = "src/daemon/executor/program/facts.c", .test = "tests/support/testdrv_remote.c"},
    [TP_EXEC_QUIRK_FILL_IMAGE_BLOCKS] = {
        .id = "fill-image-blocks", .match = TP_EXEC_DEVICE_VENDOR, .vendor = VENDOR_NVIDIA, .driver = "NVIDIA 580.159",
        .symptom = "clEnqueueFillImage may return after its wait list only, which a user event may be in",
        .remedy = "while a user event is open, a new image is filled and copied",
        .where = "src/daemon/executor/commands/image_command.c", .test = "tests/random/CMakeLists.txt"},
    [TP_EXEC_QUIRK_SUB_BUFFERS_IN_TURN] = {
        .id = "sub-buffers-in-turn", .match = TP_EXEC_DEVICE_VENDOR, .vendor = VENDOR_NVIDIA, .driver = "NVIDIA 580.159",
        .symptom = "ends the process when a sub-buffer is released before one of the same parent that was made later",
        .remedy = "sub-buffers are released from the last one back, the parent after them",
        .where = "src/daemon/executor/objects/buffer.c", .test = "src/daemon/executor/objects/sub_buffer_test.c"},
    [TP_EXEC_QUIRK_STARTS_AT_ONCE] = {
        .id = "starts-at-once", .match = TP_EXEC_PLATFORM_NAME, .name = "Portable Computing Language",
        .driver = "PoCL 3.1",
        .symptom = "threads run a command when it is enqueued, wake up for each, and contend with the caller for locks",
        .remedy = "launches that arrive together wait for a user event, which is set after the last",
        .where = "src/daemon/executor/flush.c", .test = "src/daemon/executor/commands/launch_batch_test.c"},
};
/* clang-format on */

const struct tp_exec_quirk_row *
tp_exec_quirk_row(enum tp_exec_quirk quirk)
{
    return &rows[quirk];
}

bool
tp_exec_has_quirk(const struct tp_exec *x, enum tp_exec_quirk quirk)
{
    return (atomic_load(&x->quirks) >> quirk & 1) != 0;
}

void
tp_exec_found_quirk(struct tp_exec *x, enum tp_exec_quirk quirk)
{
    atomic_fetch_or(&x->quirks, UINT32_C(1) << quirk);
    tp_info("executor", "driver quirk %s (%s): %s", rows[quirk].id, rows[quirk].symptom,
            rows[quirk].remedy);
}

/* A device of the session's platform; NULL if the platform has none. */
static cl_device_id
first_device(const struct tp_exec *x)
{
    for (uint32_t i = 0; i < x->inventory.device_count; i++) {
        if (x->inventory.devices[i].platform == x->platform) {
            return x->inventory.devices[i].id;
        }
    }
    return NULL;
}

static bool
matches(const struct tp_exec *x, const struct tp_exec_quirk_row *row)
{
    cl_platform_id platform = x->inventory.platforms[x->platform];
    cl_device_id device = first_device(x);
    cl_uint vendor = 0;
    char name[64];

    switch (row->match) {
    case TP_EXEC_PLATFORM_NAME:
        return x->cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name,
                                     NULL) == CL_SUCCESS &&
               strcmp(name, row->name) == 0;
    case TP_EXEC_DEVICE_VENDOR:
        return device != NULL &&
               x->cl.GetDeviceInfo(device, CL_DEVICE_VENDOR_ID, sizeof(vendor), &vendor,
                                   NULL) == CL_SUCCESS &&
               vendor == row->vendor;
    case TP_EXEC_ANY_DRIVER:
    case TP_EXEC_PROBED:
        break;
    }
    return row->match == TP_EXEC_ANY_DRIVER;
}

void
tp_exec_quirks_init(struct tp_exec *x)
{
    for (int i = 0; i < TP_EXEC_QUIRK_COUNT; i++) {
        if (!matches(x, &rows[i])) {
            continue;
        }
        if (rows[i].match == TP_EXEC_ANY_DRIVER) {
            atomic_fetch_or(&x->quirks, UINT32_C(1) << i);
        } else {
            tp_exec_found_quirk(x, i);
        }
    }
    if (tp_exec_has_quirk(x, TP_EXEC_QUIRK_NOT_THREAD_SAFE)) {
        tp_opencl_serialize(&x->cl);
    }
    tp_opencl_check(&x->cl);
    if (tp_exec_has_quirk(x, TP_EXEC_QUIRK_LATE_CALLBACKS)) {
        (void)tp_opencl_watch_start(&x->cl);
    }
    /* with this driver an event costs a launch 1.3 us, a marker 0.8 us */
    x->bare_launches = tp_opencl_watches();
}

void
tp_exec_quirks_print(FILE *out)
{
    for (int i = 0; i < TP_EXEC_QUIRK_COUNT; i++) {
        const struct tp_exec_quirk_row *row = &rows[i];

        (void)fprintf(
            out,
            "%s\n  driver   %s%s\n  symptom  %s\n  remedy   %s\n  source   %s\n  test  "
            "   %s\n",
            row->id, row->driver,
            row->match == TP_EXEC_ANY_DRIVER ? " (the remedy is applied to all)" : "",
            row->symptom, row->remedy, row->where, row->test);
    }
}
