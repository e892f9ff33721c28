/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the drivers for their devices in a separate process, so that a driver that
 * crashes or hangs costs its devices but not the daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trace/log.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/process/processes.h"
#include "daemon/broker/service_notify.h"
#include "wire/facts.h"

/* Counts platforms and devices. @return false if the facts are not well-formed */
static bool
count_facts(const struct tp_buf *facts, uint32_t *ret_platforms, uint32_t *ret_devices)
{
    const uint8_t *src = tp_buf_data(facts), *end = src + tp_buf_len(facts);
    uint32_t platforms = 0, devices = 0;
    struct tp_wire_fact fact;

    while (tp_wire_get_fact(&src, end, &fact)) {
        if (fact.kind == TP_WIRE_FACT_PLATFORM && fact.index >= platforms) {
            platforms = fact.index + 1;
        } else if (fact.kind == TP_WIRE_FACT_DEVICE && fact.index >= devices) {
            devices = fact.index + 1;
        }
    }
    *ret_platforms = platforms;
    *ret_devices = devices;
    return src == end;
}

/* Reads available output of the probe. @return false at the end of the output */
static bool
read_some(struct tp_broker_probe *p)
{
    uint8_t *tail;
    ssize_t got;

    if (tp_buf_reserve(&p->facts, 64 << 10, &tail) != TELPHER_OK) {
        return false;
    }
    got = read(p->out.fd, tail, 64 << 10);
    if (got > 0) {
        tp_buf_commit(&p->facts, (size_t)got);
        return true;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Reads the rest of the output after the process has ended. */
static void
drain_output(struct tp_broker_probe *p)
{
    size_t before;

    if (p->out.fd < 0) {
        return;
    }
    do {
        before = tp_buf_len(&p->facts);
    } while (read_some(p) && tp_buf_len(&p->facts) > before);
}

static void
probe_ready(struct tp_broker *b, struct tp_broker_watch *w, uint32_t events)
{
    if (!read_some(&b->probe)) {
        tp_broker_watch_close(b, w);
    }
}

void
tp_broker_probe_start(struct tp_broker *b)
{
    struct tp_broker_probe *p = &b->probe;
    struct tp_error err = {0};
    int pipe_fds[2];
    telpher_status status;

    if (p->pid != 0) {
        return; /* one runs already */
    }
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        (void)tp_error_set_errno(&err, errno, "pipe for the output of %s --probe",
                                 b->executor);
        tp_error("broker", "cannot ask the drivers: %s", tp_error_text(&err));
        return;
    }
    status = tp_broker_spawn(b, NULL, pipe_fds[1], &p->pid, &err);
    (void)close(pipe_fds[1]);
    if (status != TELPHER_OK) {
        tp_error("broker", "cannot ask the drivers: %s; see --executor",
                 tp_error_text(&err));
        (void)close(pipe_fds[0]);
        p->pid = 0;
        return;
    }
    (void)fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    tp_buf_init(&p->facts, 8 << 20);
    p->deadline = tp_clock_deadline(b->options->probe_timeout_ns);
    p->killed = false;
    p->out = (struct tp_broker_watch){pipe_fds[0], probe_ready};
    (void)tp_broker_watch_add(b, &p->out, EPOLLIN);
}

/* Replaces the facts by the complete output. */
static void
use_facts(struct tp_broker *b)
{
    struct tp_broker_probe *p = &b->probe;
    uint32_t platforms, devices;

    if (!count_facts(&p->facts, &platforms, &devices)) {
        tp_error("broker",
                 "%s --probe gave no device descriptions; is it of this version?",
                 b->executor);
        return;
    }
    if (tp_buf_len(&p->facts) > TP_WIRE_BLOB_MAX) {
        tp_error("broker",
                 "%u devices are more than fit in an answer; offer fewer with "
                 "--device",
                 devices);
        return;
    }
    tp_buf_fini(&b->facts);
    b->facts = p->facts;
    tp_buf_init(&p->facts, 0);
    b->platform_count = platforms;
    b->device_count = devices;
    tp_info("broker", "offering %u device%s of %u platform%s", devices,
            devices == 1 ? "" : "s", platforms, platforms == 1 ? "" : "s");
    tp_daemon_notify("STATUS=%u devices", devices);
}

void
tp_broker_probe_ended(struct tp_broker *b, int wait_status)
{
    struct tp_broker_probe *p = &b->probe;
    char text[128];

    drain_output(p);
    tp_broker_watch_close(b, &p->out);
    p->pid = 0;
    if (wait_status == 0) {
        use_facts(b);
    } else if (p->killed) {
        tp_error(
            "broker",
            "a driver did not list its devices within %llu s; offering those known "
            "before. Find it with clinfo, leave it out with OCL_ICD_VENDORS, or "
            "raise --probe-timeout; then send SIGHUP",
            (unsigned long long)(b->options->probe_timeout_ns / TP_CLOCK_S));
    } else {
        tp_broker_describe_end(wait_status, text, sizeof(text));
        tp_error(
            "broker",
            "asking the drivers failed: %s; offering what was known before. Find the "
            "driver with clinfo, leave it out with OCL_ICD_VENDORS, then send SIGHUP",
            text);
    }
    tp_buf_fini(&p->facts);
}

tp_ns
tp_broker_probe_tick(struct tp_broker *b, tp_ns now)
{
    struct tp_broker_probe *p = &b->probe;

    if (p->pid == 0 || p->killed) {
        return TP_CLOCK_FOREVER;
    }
    if (now < p->deadline) {
        return p->deadline;
    }
    p->killed = true;
    (void)kill(p->pid, SIGKILL);
    return TP_CLOCK_FOREVER;
}

void
tp_broker_probe_stop(struct tp_broker *b)
{
    struct tp_broker_probe *p = &b->probe;

    if (p->pid != 0) {
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
        p->pid = 0;
        tp_broker_watch_close(b, &p->out);
        tp_buf_fini(&p->facts);
    }
}
