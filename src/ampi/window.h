/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: memory that other ranks access. The target's process executes what is not direct. */
#ifndef TELPHER_AMPI_WINDOW_H
#define TELPHER_AMPI_WINDOW_H

#include "ampi/attribute.h"
#include "ampi/info.h"
#include "ampi/process.h"
#include "ampi/type.h"

/** Operation of a message of kind ONE_SIDED: its flags. */
enum tp_ampi_wish {
    TP_AMPI_PUT, /**< segments, data */
    TP_AMPI_PUT_LONG, /**< one segment; data follows on the channel */
    TP_AMPI_GET, /**< segments */
    TP_AMPI_ACCUMULATE, /**< segments, data */
    TP_AMPI_FETCH, /**< segments, data: accumulate, and give what was there before */
    TP_AMPI_SWAP, /**< one segment; the value to compare with, the new one */
    TP_AMPI_GOT, /**< data of GET, FETCH, SWAP */
    TP_AMPI_GOT_LONG, /**< one segment: its address is not used */
    TP_AMPI_FLUSH, /**< for FLUSHED, when all earlier puts are complete */
    TP_AMPI_FLUSHED,
    TP_AMPI_LOCK, /**< `tag` is the kind of lock */
    TP_AMPI_GRANT,
    TP_AMPI_UNLOCK,
    TP_AMPI_POST,
    TP_AMPI_COMPLETE,
    TP_AMPI_WISHES,
};

/** A run of bytes at the target. */
struct tp_ampi_segment {
    uint64_t at, len;
};

/** Follows the envelope of an access; then segments, then data. */
struct tp_ampi_access_head {
    uint32_t segments;
    int32_t type, op; /**< element of ACCUMULATE, FETCH, SWAP */
    uint32_t channel; /**< of LONG */
    uint64_t offset; /**< of the first byte in what the origin gets */
    uint64_t reserved;
};
_Static_assert(sizeof(struct tp_ampi_access_head) == 32, "data is aligned to 16");

/** One member's part of a window, and the state of accesses between that member and this rank. */
struct tp_ampi_part {
    uint64_t base, size; /**< address in its process, [bytes] */
    int32_t unit;
    char *mapped; /**< where this process has it: shared memory. NULL: nowhere */
    /* this rank is the origin */
    bool dirty; /**< it executes accesses that no FLUSHED has confirmed */
    bool flushing, granted;
    int lock; /**< kind that this rank holds there, 0: none */
    uint32_t pending; /**< gets, and long puts that read the origin's memory */
    uint32_t posted; /**< POSTs that no MPI_Win_start has used */
    /* this rank is the target */
    uint32_t incoming; /**< long puts under way */
    bool flush_waits; /**< FLUSHED is sent when none is */
    uint32_t completed; /**< COMPLETEs that no MPI_Win_wait has used */
};

/** Memory of a dynamic window. */
struct tp_ampi_attached {
    struct tp_list link;
    uint64_t base, size;
};

struct tp_ampi_win {
    int handle;
    struct tp_ampi_comm *comm; /**< the window's own */
    int flavor, model;
    void *base;
    MPI_Aint size;
    int unit;
    bool device; /**< this rank's part, or some of it, is device memory */
    void *memory; /**< to free: allocated, or mapped */
    size_t mapped_bytes; /**< 0: allocated */
    struct tp_ampi_part *parts;
    struct tp_list attached; /**< of tp_ampi_attached */
    struct tp_list waits; /**< callers that wait for an event of this window */
    struct tp_list lock_queue; /**< origins that want a lock of this part */
    int exclusive, shared; /**< locks of this part that are held */
    struct tp_ampi_group *started, *exposed; /**< MPI_Win_start, MPI_Win_post */
    bool all_locked;
    bool fenced; /**< a fence began an epoch that no lock or start has ended */
    MPI_Errhandler errhandler;
    struct tp_ampi_info *info;
    struct tp_ampi_attribute *attributes;
    char name[MPI_MAX_OBJECT_NAME];
};

/** An access of this rank under way: a get, or a long put. */
struct tp_ampi_access {
    int handle; /**< names it to the target */
    struct tp_ampi_win *win;
    int target;
    struct tp_ampi_request *request; /**< NULL: none */
    void *buf; /**< the program's */
    size_t count;
    MPI_Datatype type;
    char *data; /**< where bytes arrive: in the program's memory, or `packed` */
    void *packed;
    bool device; /**< `data` is device memory */
    size_t total, got; /**< [bytes] */
};

/* ---- window.c ---- */

/** The window of a handle. Reports if there is none. */
struct tp_ampi_win *tp_ampi_win_find(MPI_Win handle);
/** Calls the error handler of a window. @return @p code */
int tp_ampi_win_error(struct tp_ampi_win *win, int code, const char *fmt, ...)
    TP_PRINTF(3, 4);
/** May others access these bytes of this rank's part? */
bool tp_ampi_win_has(const struct tp_ampi_win *win, uint64_t at, uint64_t len);
/** Wakes all that wait for an event of the window. */
void tp_ampi_win_signal(struct tp_ampi_win *win);
/** Waits until @p done says so. */
void tp_ampi_win_wait(struct tp_ampi_win *win,
                      bool (*done)(const struct tp_ampi_win *win, const void *arg),
                      const void *arg);

/* ---- window_serve.c ---- */

/** Is the member in this process? */
bool tp_ampi_win_is_local(const struct tp_ampi_win *win, int rank);
/** Sends a member a message without data: to a rank of this process by a call. */
void tp_ampi_win_tell(struct tp_ampi_win *win, int rank, enum tp_ampi_wish wish,
                      int tag);
/** The window as a member of this process has it. NULL: it has freed it */
struct tp_ampi_win *tp_ampi_win_of(const struct tp_ampi_win *win, int rank);
/**
 * Executes an access to one run of bytes. @param device  some of the memory is a device's
 * @param before  [len] receives what was there, if the wish is GET, FETCH or SWAP
 */
void tp_ampi_win_execute(bool device, enum tp_ampi_wish wish, MPI_Op op,
                         MPI_Datatype type, void *at, size_t len, const void *data,
                         void *before);
/** Ends the job: both sides cannot agree on an access any more. */
_Noreturn void tp_ampi_access_failed(const char *what, telpher_status status);
/** An access has got bytes. The last ends it. */
void tp_ampi_access_got(struct tp_ampi_access *access, size_t len);
/** A message of kind ONE_SIDED. */
void tp_ampi_on_one_sided(uint32_t process, const struct tp_ampi_envelope *env,
                          const void *body);

/* ---- window_lock.c ---- */

/** A member asks for a lock of this part, or gives it back. */
void tp_ampi_win_on_lock(struct tp_ampi_win *win, int origin, int kind);
void tp_ampi_win_on_unlock(struct tp_ampi_win *win, int origin);
/** Waits until accesses to a member are complete: locally, or also there. Members from
 *  @p first to before @p end. */
void tp_ampi_win_flush(struct tp_ampi_win *win, int first, int end, bool remote);

#endif
