/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host and shared allocations of unified memory on servers of other machines, on demand
 * (TELPHER_USM_SHARED): the program's pages are protected while a server has the content, and
 * a page fault brings it back. An allocation moves as a whole.
 *
 * Its memory is a file that is mapped twice: once for the program, protected, and once for
 * this library, which fills it. Order of locks: `views`, then tp_icd.lock.
 */
#include "icd/migration/host_view.h"
#include "icd/commands/read_write.h"
#include "icd/icd.h"
#include "icd/migration/migration.h"
#include "icd/objects/object.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/os/memfd.h"
#include "base/trace/log.h"

enum { USERS = 8 };

/** Where the newest content is. */
enum place {
    IN_PROGRAM, /**< the program may write */
    ON_BOTH, /**< the program may read */
    ON_SERVER, /**< the program may not touch it */
};

struct tp_icd_host_view {
    struct tp_list link;
    struct _cl_mem *mem;
    uint8_t *alias; /**< the same memory for this library */
    enum place place;
    uint32_t session_index; /**< of the last command that may have written */
    struct _cl_event *users[USERS]; /**< held; may not have ended; NULL: free */
};

static struct {
    pthread_mutex_t lock;
    struct tp_list list;
    bool catches; /**< the handler is installed */
    struct sigaction before;
} views = {.lock = PTHREAD_MUTEX_INITIALIZER, .list = {&views.list, &views.list}};

/** This thread has the lock: commands of its own use no views, its faults are faults. */
static _Thread_local bool inside;

static void
enter(void)
{
    pthread_mutex_lock(&views.lock);
    inside = true;
}

static void
leave(void)
{
    inside = false;
    pthread_mutex_unlock(&views.lock);
}

/** Finds the view that has an address. With the lock. */
static struct tp_icd_host_view *
find(const void *ptr)
{
    tp_list_for_each_entry(struct tp_icd_host_view, v, &views.list, link) {
        if ((const uint8_t *)ptr >= v->mem->svm &&
            (size_t)((const uint8_t *)ptr - v->mem->svm) < v->mem->size) {
            return v;
        }
    }
    return NULL;
}

static void
set_place(struct tp_icd_host_view *v, enum place place)
{
    static const int protections[] = {[IN_PROGRAM] = PROT_READ | PROT_WRITE,
                                      [ON_BOTH] = PROT_READ,
                                      [ON_SERVER] = PROT_NONE};

    (void)mprotect(v->mem->svm, v->mem->size, protections[place]);
    v->place = place;
}

/* ---- content ------------------------------------------------------------------------------ */

/** Copies all content to or from a server, and waits. */
static void
transfer(struct tp_icd_host_view *v, uint32_t session_index, bool to_server)
{
    struct tp_icd_content content;
    struct _cl_command_queue *q;
    struct tp_icd_op op;
    cl_event event = NULL;
    cl_int err = CL_OUT_OF_HOST_MEMORY;

    tp_icd_lock();
    q = tp_icd_mover(v->mem->ctx, session_index);
    if (q != NULL) {
        tp_icd_hold(&q->obj);
    }
    tp_icd_unlock();
    if (q != NULL) {
        err = tp_icd_op_init(&op, q, 0, 0, NULL, &event); /* the event keeps it whole */
    }
    if (err == CL_SUCCESS) {
        tp_icd_content_set(&content, v->mem, 0, v->mem->size, v->alias);
        err = to_server ? tp_icd_run_write(&op, true, &content, true)
                        : tp_icd_run_read(&op, true, &content);
    }
    if (event != NULL) {
        tp_clReleaseEvent(event);
    }
    if (q != NULL) {
        tp_icd_drop(&q->obj);
    }
    if (err != CL_SUCCESS) {
        tp_error("icd",
                 "%zu bytes of unified shared memory are lost: copying them %s the "
                 "server failed with CL error %d; see the errors before it, or free "
                 "memory if it is -5 or -6",
                 v->mem->size, to_server ? "to" : "from", err);
    }
}

static void
await_users(struct tp_icd_host_view *v)
{
    for (int i = 0; i < USERS; i++) {
        if (v->users[i] != NULL) {
            (void)tp_icd_event_wait(v->users[i]);
            tp_icd_drop(&v->users[i]->obj);
            v->users[i] = NULL;
        }
    }
}

/** Lets the program read, or write if it may read already. */
static void
give_to_program(struct tp_icd_host_view *v)
{
    if (v->place == ON_SERVER) {
        await_users(v);
        transfer(v, v->session_index, false);
        set_place(v, ON_BOTH);
    } else if (v->place == ON_BOTH) {
        set_place(v, IN_PROGRAM);
    }
}

/* ---- faults --------------------------------------------------------------------------------- */

static bool
mend(const void *address)
{
    struct tp_icd_host_view *v;

    enter();
    v = find(address);
    if (v != NULL) {
        give_to_program(v);
    }
    leave();
    return v != NULL;
}

/** Passes a fault on to what handled faults before. */
static void
pass_on(int number, siginfo_t *info, void *context)
{
    if ((views.before.sa_flags & SA_SIGINFO) != 0) {
        views.before.sa_sigaction(number, info, context);
    } else if (views.before.sa_handler == SIG_DFL ||
               views.before.sa_handler == SIG_IGN) {
        signal(number, SIG_DFL); /* the instruction runs again, and ends the process */
    } else {
        views.before.sa_handler(number);
    }
}

static void
on_fault(int number, siginfo_t *info, void *context)
{
    int before = errno;

    if (inside || tp_icd_forked() || !mend(info->si_addr)) {
        pass_on(number, info, context);
    }
    errno = before;
}

/** Installs the handler, also in front of one that the program has installed since. With the
 *  lock. @return false: not possible */
static bool
catch_faults(void)
{
    struct sigaction now, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now) != 0) {
        return false;
    }
    if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != on_fault) {
        views.before = now;
        views.catches = sigaction(SIGSEGV, &action, NULL) == 0;
    }
    return views.catches;
}

/* ---- commands ------------------------------------------------------------------------------- */

static struct tp_icd_host_view *
view_of(const struct tp_icd_use *use)
{
    return tp_icd_mem_root(use->mem)->view;
}

static void
give_to_server(struct tp_icd_host_view *v, const struct tp_icd_op *op, unsigned how)
{
    bool writes = (how & TP_ICD_USE_WRITE) != 0;

    if (v->place == IN_PROGRAM) {
        set_place(v, ON_BOTH);
        transfer(v, op->q->session_index, true);
    }
    if (writes) {
        set_place(v, ON_SERVER);
        v->session_index = op->q->session_index;
    }
}

bool
tp_icd_view_begin(struct tp_icd_op *op)
{
    bool any = false;

    for (size_t i = 0; i < op->use_count && !inside; i++) {
        any = any || view_of(&op->uses[i]) != NULL;
    }
    if (!any) {
        return false;
    }
    enter();
    (void)catch_faults();
    op->need_event = true;
    for (size_t i = 0; i < op->use_count; i++) {
        if (view_of(&op->uses[i]) != NULL) {
            give_to_server(view_of(&op->uses[i]), op, op->uses[i].how);
        }
    }
    return true;
}

void
tp_icd_view_end(void)
{
    leave();
}

/** Finds room for an event: that of a command before it in its queue, of one that has ended,
 *  or the last. */
static int
place_for(const struct tp_icd_host_view *v, const struct _cl_event *ev)
{
    for (int i = 0; i < USERS; i++) {
        const struct _cl_event *user = v->users[i];

        if (user == NULL || user->ended ||
            (user->queue == ev->queue && tp_icd_queue_in_order(ev->queue))) {
            return i;
        }
    }
    return USERS;
}

void
tp_icd_view_used(const struct tp_icd_op *op)
{
    for (size_t i = 0; i < op->use_count && op->ev != NULL; i++) {
        struct tp_icd_host_view *v = view_of(&op->uses[i]);
        int at = v != NULL ? place_for(v, op->ev) : USERS;

        if (v == NULL || (op->uses[i].how & TP_ICD_USE_WRITE) == 0) {
            continue;
        }
        if (at == USERS) { /* many queues: what comes later ends later, as a rule */
            at = 0;
        }
        if (v->users[at] != NULL) {
            tp_icd_drop_locked(&v->users[at]->obj);
        }
        tp_icd_hold(&op->ev->obj);
        v->users[at] = op->ev;
    }
}

void
tp_icd_view_touch(const void *ptr)
{
    struct tp_icd_host_view *v;

    if (!views.catches || inside) {
        return;
    }
    enter();
    v = find(ptr);
    while (v != NULL && v->place != IN_PROGRAM) {
        give_to_program(v);
    }
    leave();
}

/* ---- life ------------------------------------------------------------------------------------ */

telpher_status
tp_icd_view_create(struct _cl_mem *mem, int fd)
{
    struct tp_icd_host_view *v = tp_zalloc(sizeof(*v), "view");
    void *alias;
    bool catches;

    if (v == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    if (tp_memfd_map(fd, mem->size, &alias) != TELPHER_OK) {
        tp_free(v);
        return TELPHER_ERR_NO_MEMORY;
    }
    v->mem = mem;
    v->alias = alias;
    enter();
    catches = catch_faults();
    mem->view = v;
    tp_list_push_back(&views.list, &v->link);
    leave();
    return catches ? TELPHER_OK : TELPHER_ERR_UNSUPPORTED;
}

void
tp_icd_view_destroy(struct _cl_mem *mem)
{
    struct tp_icd_host_view *v = mem->view;
    bool nested = inside; /* the last hold ended with a command of this file */

    if (v == NULL) {
        return;
    }
    if (!nested) {
        enter();
    }
    tp_list_remove(&v->link);
    if (!nested) {
        leave();
    }
    for (int i = 0; i < USERS; i++) {
        if (v->users[i] != NULL) {
            tp_icd_drop(&v->users[i]->obj);
        }
    }
    munmap(v->alias, mem->size);
    tp_free(v);
    mem->view = NULL;
}
