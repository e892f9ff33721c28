/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that move between processes: their memory, and the calls of all processes. */
#ifndef TELPHER_AMPI_MOVE_MOVE_H
#define TELPHER_AMPI_MOVE_MOVE_H

#include "ampi/match.h"
#include "ampi/move/heap.h"

enum {
    TP_AMPI_RANGES_MAX = 512, /**< of a rank's memory */
};

/** Address ranges of a rank's memory; sent before it, and first in its file. */
struct tp_ampi_image {
    uint64_t rank; /**< address of its struct tp_ampi_rank */
    uint64_t count;
    struct tp_ampi_range ranges[TP_AMPI_RANGES_MAX];
};

/** Request of all ranks of a process in AMPI_Migrate() or AMPI_Migrate_to_pe(). */
enum tp_ampi_move_kind { TP_AMPI_STAY, TP_AMPI_BALANCE, TP_AMPI_GO, TP_AMPI_SAVE };

/** A rank's state, for the balancer of other processes. */
struct tp_ampi_report {
    uint64_t load; /**< [ns] */
    uint64_t layout; /**< of its process */
    uint32_t wish, to;
    uint32_t fixed; /**< 1: operations bind it to its process */
    uint32_t rank;
};

/* ---- memory.c ---- */

/**
 * Prepares the process for @p ranks ranks that may move, before it joins the job: starts the
 * program again without address space randomization and with libtelpher-ampi-heap.so, then
 * reserves each rank's range and loads a copy of the program for it. Reports why it fails.
 */
bool tp_ampi_memory_start(uint32_t ranks, char **argv);
/** The heap of a rank of the world, made new. */
struct tp_ampi_heap *tp_ampi_memory_heap(uint32_t rank);
/** The lowest address of its stack, guard pages included. */
char *tp_ampi_memory_stack(uint32_t rank, size_t *ret_bytes);
/** Protects the lowest pages of its stack, so that an overflow does not reach its heap. */
void tp_ampi_memory_guard(uint32_t rank);
/** main() of its copy of the program. */
tp_ampi_main tp_ampi_memory_main(uint32_t rank);
/** Lists the memory of a rank that waits, in at most @p max ranges. */
void tp_ampi_memory_image(struct tp_ampi_rank *rank, size_t max,
                          struct tp_ampi_image *ret);
/** Does the image lie in the memory of rank @p rank? */
bool tp_ampi_memory_holds(uint32_t rank, const struct tp_ampi_image *image);
/** Drops the memory of a rank that has left. */
void tp_ampi_memory_drop(uint32_t rank);
/** A hash of all addresses that a rank's memory may name. */
uint64_t tp_ampi_memory_layout(void);

/* ---- quiet.c ---- */

/** All ranks of this process wait in AMPI_Migrate(): does it with the other processes. */
void tp_ampi_quiet(void);
/** Messages of other processes about it. */
void tp_ampi_on_quiet(uint32_t process, const struct tp_ampi_envelope *env,
                      const void *data);
/** Returns when all processes have called it. Makes progress while it waits. */
void tp_ampi_quiet_meet(void);
/** @return true if @p mine is true in all processes, which all call it. */
bool tp_ampi_quiet_agree(bool mine);
/** Sends a message of a rank's move or of a checkpoint. */
void tp_ampi_quiet_send(uint32_t process, enum tp_ampi_message_kind kind, uint32_t rank,
                        uint32_t id, const void *data, size_t len);
/** Makes progress, and ends this process if another one was lost. */
void tp_ampi_quiet_progress(void);
/** Makes progress until @p count is 0. */
void tp_ampi_quiet_await(const uint64_t *count);

/* ---- transfer.c ---- */

/** Sends the memory of a rank to a process. `tp_ampi.transfers` counts those under way. */
void tp_ampi_transfer_send(struct tp_ampi_rank *rank, uint32_t process);
/** Receives a rank's memory, where it belongs. */
void tp_ampi_transfer_receive(uint32_t process, const struct tp_ampi_envelope *env,
                              const void *data);

/* ---- save.c ---- */

/** Writes a checkpoint of this process's ranks into @p folder; called by all processes. */
bool tp_ampi_save(const char *folder);
/** Removes what @p folder has of checkpoints. */
void tp_ampi_unsave(const char *folder);
/** The folder of checkpoints in memory, which telpher launch --restart keeps. NULL: there is none */
const char *tp_ampi_memory_folder(void);
enum tp_ampi_restored { TP_AMPI_RESTORED, TP_AMPI_NONE, TP_AMPI_BROKEN };
/** Reads the ranks of this process from the newest checkpoint, before any has started; called by
 *  all processes. @return NONE: there is no complete one; BROKEN: it was said why */
enum tp_ampi_restored tp_ampi_restore(const char *folder);

#endif
