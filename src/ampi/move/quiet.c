/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMPI_Migrate: when all ranks of the job wait in it and no message is under way, all processes
 * choose the same new places, and send each other the memory of the ranks that move. In between
 * they meet; messages between two processes are in order, so a meeting follows what was sent
 * before it.
 */
#include <stdio.h>
#include <string.h>

#include <telpher/mdr.h>
#include <telpher/server.h>

#include "ampi/info.h"
#include "ampi/move/copies.h"
#include "ampi/process.h"
#include "base/alloc.h"
#include "base/trace/log.h"
#include "mdr/object_int.h"

static uint32_t meeting; /* number of the last */
static uint64_t missing[4]; /* processes that have not come, by number of a meeting */
static bool refused; /* by another process: tp_ampi_quiet_agree() */
static struct tp_ampi_report *reports; /* by rank of the world */

/* ---- messages of processes ---- */

void
tp_ampi_quiet_send(uint32_t process, enum tp_ampi_message_kind kind, uint32_t rank,
                   uint32_t id, const void *data, size_t len)
{
    const struct tp_ampi_envelope env = {
        .kind = (uint8_t)kind, .to = rank, .id = id, .len = len};

    if (tp_ampi_transmit(process, &env, data, len) < 0) {
        tp_ampi_check_peers();
    }
}

static void
send(uint32_t process, enum tp_ampi_message_kind kind, uint32_t id, const void *data,
     size_t len)
{
    tp_ampi_quiet_send(process, kind, 0, id, data, len);
}

void
tp_ampi_quiet_progress(void)
{
    if (telpher_progress_wait(tp_ampi.ctx, TP_AMPI_IDLE_NS) == TELPHER_ERR_TIMEOUT) {
        tp_ampi_check_peers();
    }
}

void
tp_ampi_quiet_await(const uint64_t *count)
{
    while (*count != 0) {
        tp_ampi_quiet_progress();
    }
}

void
tp_ampi_quiet_meet(void)
{
    uint64_t *left = &missing[++meeting % TP_ARRAY_LEN(missing)];

    *left += tp_ampi.processes - 1; /* less those that were here before */
    for (uint32_t p = 0; p < tp_ampi.processes; p++) {
        if (p != tp_ampi.process) {
            send(p, TP_AMPI_MEET, meeting, NULL, 0);
        }
    }
    tp_ampi_quiet_await(left);
}

bool
tp_ampi_quiet_agree(bool mine)
{
    bool all;

    for (uint32_t p = 0; !mine && p < tp_ampi.processes; p++) {
        if (p != tp_ampi.process) {
            send(p, TP_AMPI_REFUSE, 0, NULL, 0);
        }
    }
    tp_ampi_quiet_meet();
    all = mine && !refused;
    refused = false;
    tp_ampi_quiet_meet(); /* before another one refuses the next */
    return all;
}

void
tp_ampi_on_quiet(uint32_t process, const struct tp_ampi_envelope *env, const void *data)
{
    const struct tp_ampi_report *report = data;

    if (env->kind == TP_AMPI_REFUSE) {
        refused = true;
    } else if (env->kind == TP_AMPI_MEET) {
        missing[env->id % TP_ARRAY_LEN(missing)]--;
    } else if (env->kind == TP_AMPI_MOVE) {
        tp_ampi_transfer_receive(process, env, data);
    } else if (env->kind == TP_AMPI_FOUND) {
        tp_ampi_copies_found(process, data);
    } else if (env->kind == TP_AMPI_COPY) {
        tp_ampi_copies_receive(process, env, data);
    } else if (reports != NULL && report->rank < tp_ampi.world_size) {
        if (report->layout != tp_ampi_memory_layout()) {
            (void)fprintf(
                stderr,
                "telpher-ampi: ranks cannot move: libraries of process %u lie at "
                "other addresses than those of process %u: start both with the "
                "same files and limits\n",
                process, tp_ampi.process);
            tp_ampi_abort(1);
        }
        reports[report->rank] = *report;
    }
}

/* ---- what binds a rank to its process ---- */

static bool
has_bound_message(const struct tp_ampi_mail *mail)
{
    tp_list_for_each_entry(const struct tp_ampi_unexpected, u, &mail->unexpected,
                           link) {
        if (u->env.kind != TP_AMPI_EAGER) {
            return true;
        }
    }
    return false;
}

static const char *
find_bond(const struct tp_ampi_rank *rank)
{
    tp_list_for_each_entry(const struct tp_ampi_request, req, &tp_ampi.sending, link) {
        if (req->comm->owner == rank) {
            return "a send that is not complete";
        }
    }
    if (rank->collectives != 0) {
        return "a collective that is not complete";
    }
    tp_list_for_each_entry(const struct tp_ampi_request, req, &tp_ampi.starved, link) {
        if (req->owner == rank) {
            return "a collective that is not complete";
        }
    }
    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        for (uint32_t i = 0; i < rank->mails[r].count; i++) {
            if (rank->mails[r].at[i] != NULL &&
                has_bound_message(rank->mails[r].at[i])) {
                return "a long message that it has not received";
            }
        }
    }
    return tp_ampi_handles_any(rank, TP_AMPI_WIN)       ? "a window"
           : tp_ampi_handles_any(rank, TP_AMPI_MESSAGE) ? "a matched message"
                                                        : NULL;
}

static void
report_rank(const struct tp_ampi_rank *rank)
{
    static bool said;
    const char *bond = find_bond(rank);
    struct tp_ampi_report *report = &reports[rank->world];

    *report = (struct tp_ampi_report){.load = rank->load_ns,
                                      .layout = tp_ampi_memory_layout(),
                                      .wish = rank->wish,
                                      .to = rank->wish_to,
                                      .fixed = bond != NULL,
                                      .rank = rank->world};
    if (bond != NULL && !said && rank->wish != TP_AMPI_STAY) {
        said = true;
        tp_warn("ampi", "rank %u stays in process %u, which %s binds it to",
                rank->world, tp_ampi.process, bond);
    }
    for (uint32_t p = 0; p < tp_ampi.processes; p++) {
        if (p != tp_ampi.process) {
            send(p, TP_AMPI_REPORT, 0, report, sizeof(*report));
        }
    }
}

/* ---- new places ---- */

/* Aborts without memory: a process that continued would choose other places than the rest. */
static void *
take_array(size_t count, size_t size, const char *purpose)
{
    void *array = tp_alloc_array(count, size, purpose);

    if (array == NULL) {
        tp_ampi_abort(MPI_ERR_NO_MEM);
    }
    return array;
}

/* A process without ranks would not take part: its first rank stays. */
static void
fill_processes(uint32_t *to)
{
    uint32_t *counts = take_array(tp_ampi.processes, sizeof(*counts), "MPI processes");
    bool changed = true;

    while (changed) {
        changed = false;
        memset(counts, 0, tp_ampi.processes * sizeof(*counts));
        for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
            counts[to[r]]++;
        }
        for (uint32_t r = 0; r < tp_ampi.world_size && !changed; r++) {
            if (counts[tp_ampi.places[r].process] == 0) {
                to[r] = tp_ampi.places[r].process;
                changed = true;
            }
        }
    }
    tp_free(counts);
}

static void
balance(uint32_t *to)
{
    telpher_mdr_load *loads =
        take_array(tp_ampi.world_size, sizeof(*loads), "MPI ranks");

    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        loads[r] = (telpher_mdr_load){.rank = to[r], .ns = reports[r].load};
        loads[r].index.at[0] = r;
    }
    tp_mdr_balance_refine(loads, tp_ampi.world_size, tp_ampi.processes, NULL);
    for (uint32_t i = 0; i < tp_ampi.world_size; i++) {
        to[loads[i].index.at[0]] = loads[i].rank;
    }
    tp_free(loads);
}

/* The same in all processes. */
static uint32_t *
choose_places(void)
{
    uint32_t *to = take_array(tp_ampi.world_size, sizeof(*to), "MPI ranks");

    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        if (reports[r].wish != reports[0].wish) {
            (void)fprintf(stderr,
                          "telpher-ampi: ranks 0 and %u call AMPI_Migrate with "
                          "different arguments\n",
                          r);
            tp_ampi_abort(MPI_ERR_ARG);
        }
        to[r] =
            reports[r].wish == TP_AMPI_GO ? reports[r].to : tp_ampi.places[r].process;
    }
    if (reports[0].wish == TP_AMPI_BALANCE) {
        balance(to);
    }
    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        if (reports[r].fixed != 0 || to[r] >= tp_ampi.processes) {
            to[r] = tp_ampi.places[r].process;
        }
    }
    fill_processes(to);
    return to;
}

/* ---- the move ---- */

static uint32_t
count_arrivals(const uint32_t *to)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        count += to[r] == tp_ampi.process && tp_ampi.places[r].process != to[r];
    }
    return count;
}

static void
exchange(const uint32_t *to)
{
    const uint32_t expected = count_arrivals(to);

    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        struct tp_ampi_rank *rank = tp_ampi.ranks[i];

        tp_ampi.arrived[rank->world] = rank;
        if (to[rank->world] != tp_ampi.process) {
            tp_ampi_handles_pack(rank);
            tp_ampi_transfer_send(rank, to[rank->world]);
        }
    }
    while (tp_ampi.arrivals != expected || tp_ampi.transfers != 0) {
        tp_ampi_quiet_progress();
    }
    tp_ampi.arrivals = 0;
}

/* All processes number ranks alike. */
static void
apply(const uint32_t *to)
{
    uint32_t *counts = take_array(tp_ampi.processes, sizeof(*counts), "MPI processes");

    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        bool was = tp_ampi.places[r].process == tp_ampi.process;
        bool is = to[r] == tp_ampi.process;

        tp_ampi.places[r] =
            (struct tp_ampi_place){.process = to[r], .local = counts[to[r]]++};
        if (is) {
            tp_ampi.ranks[tp_ampi.places[r].local] = tp_ampi.arrived[r];
            tp_ampi.arrived[r]->local = tp_ampi.places[r].local;
        }
        if (is && !was) {
            tp_ampi_memory_guard(r);
            tp_ampi_handles_unpack(tp_ampi.arrived[r]);
        } else if (was && !is) {
            tp_ampi_memory_drop(r);
        }
    }
    tp_ampi.live += counts[tp_ampi.process] - tp_ampi.rank_count;
    tp_ampi.rank_count = counts[tp_ampi.process];
    tp_ampi.acting = tp_ampi.ranks[0];
    tp_free(counts);
}

/* @return false: nothing is as it was asked for */
static bool
act(const char *folder)
{
    uint32_t *to;

    if (reports[0].wish == TP_AMPI_SAVE) {
        for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
            if (reports[r].fixed != 0) {
                return false;
            }
        }
        return tp_ampi_save(folder);
    }
    to = choose_places();
    exchange(to);
    tp_ampi_quiet_meet();
    apply(to);
    tp_free(to);
    return true;
}

void
tp_ampi_quiet(void)
{
    static char folder[TP_AMPI_FOLDER]; /* copies.c keeps it */
    bool done;

    (void)snprintf(folder, sizeof(folder), "%s", tp_ampi.ranks[0]->folder);
    if (reports == NULL) {
        reports = take_array(tp_ampi.world_size, sizeof(*reports), "MPI ranks");
    }
    tp_ampi_quiet_meet(); /* so all envelopes have arrived */
    tp_ampi_quiet_await(&tp_ampi.receiving);
    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        report_rank(tp_ampi.ranks[i]);
    }
    tp_ampi_quiet_meet();
    done = act(folder);
    tp_ampi_quiet_meet();
    tp_ampi.parked = 0;
    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        tp_ampi.ranks[i]->move_error = done ? MPI_SUCCESS : MPI_ERR_IO;
        tp_lights_wake(&tp_ampi.lights, tp_ampi.ranks[i]->light);
    }
}

/* ---- calls ---- */

static int
park(enum tp_ampi_move_kind wish, uint32_t to)
{
    struct tp_ampi_rank *rank = tp_ampi_current();

    if (!tp_ampi.movable) {
        return wish == TP_AMPI_GO ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_SUCCESS;
    }
    rank->wish = wish;
    rank->wish_to = to;
    tp_ampi.parked++;
    tp_ampi_suspend();
    rank->load_ns = 0;
    return rank->move_error;
}

const char *
tp_ampi_memory_folder(void)
{
    struct tp_ampi_heap *heap = tp_ampi_heap_use(NULL);
    const char *folder = telpher_config_get("TELPHER_MDR_CHECKPOINT");

    (void)tp_ampi_heap_use(heap);
    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

/* The folder that a value of ampi_checkpoint names. @return NULL: none */
static const char *
folder_of(const char *value)
{
    static const char file[] = "to_file=";

    return strcmp(value, "in_memory") == 0           ? tp_ampi_memory_folder()
           : strncmp(value, file, strlen(file)) == 0 ? value + strlen(file)
                                                     : NULL;
}

static int
park_to_save(const char *value)
{
    struct tp_ampi_rank *rank = tp_ampi_current();
    const char *folder = folder_of(value);

    if (!tp_ampi.movable) {
        return tp_ampi_error(NULL, MPI_ERR_UNSUPPORTED_OPERATION,
                             "checkpoints want TELPHER_AMPI_MIGRATE=yes");
    }
    if (folder == NULL || strlen(folder) >= sizeof(rank->folder)) {
        return tp_ampi_error(NULL, MPI_ERR_INFO_VALUE,
                             "ampi_checkpoint is to_file=FOLDER, or in_memory "
                             "under telpher launch --restart, not %s",
                             value);
    }
    (void)snprintf(rank->folder, sizeof(rank->folder), "%s", folder);
    return tp_ampi_error(NULL, park(TP_AMPI_SAVE, 0),
                         "no checkpoint in %s: a file was not written, or a "
                         "rank is bound to its process",
                         rank->folder);
}

int
AMPI_Migrate(MPI_Info handle)
{
    const struct tp_ampi_info *info = tp_ampi_info_get(handle);
    const char *balance =
        info != NULL ? tp_ampi_info_find(info, "ampi_load_balance") : NULL;
    const char *save = info != NULL ? tp_ampi_info_find(info, "ampi_checkpoint") : NULL;

    if (save != NULL && strcmp(save, "false") != 0) {
        return park_to_save(save);
    }
    return park(balance != NULL && strcmp(balance, "sync") == 0 ? TP_AMPI_BALANCE
                                                                : TP_AMPI_STAY,
                0);
}

int
AMPI_Migrate_to_pe(int process)
{
    int error = process < 0 || (uint32_t)process >= tp_ampi.processes
                    ? MPI_ERR_ARG
                    : park(TP_AMPI_GO, (uint32_t)process);

    return tp_ampi_error(NULL, error, "%s",
                         tp_ampi.movable ? "there is no such process"
                                         : "TELPHER_AMPI_MIGRATE is not set");
}
