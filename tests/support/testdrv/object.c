/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of the test driver: reference counts, numbers, and the count of the living. */
#include "td.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t td_mutex = PTHREAD_MUTEX_INITIALIZER;

static unsigned created[TD_KINDS];
static unsigned living[TD_KINDS];

void *
td_new(enum td_kind kind, size_t size, void (*destroy)(struct td_obj *))
{
    struct td_obj *obj = calloc(1, size);

    if (obj == NULL) {
        return NULL;
    }
    obj->dispatch = td_dispatch;
    obj->kind = kind;
    obj->api_refs = 1;
    obj->refs = 1;
    obj->destroy = destroy;
    pthread_mutex_lock(&td_mutex);
    obj->id = ++created[kind];
    living[kind]++;
    pthread_mutex_unlock(&td_mutex);
    td_record_object("created", obj);
    return obj;
}

void
td_ref(void *obj)
{
    struct td_obj *o = obj;

    if (o != NULL) {
        pthread_mutex_lock(&td_mutex);
        o->refs++;
        pthread_mutex_unlock(&td_mutex);
    }
}

void
td_unref(void *obj)
{
    struct td_obj *o = obj;
    bool last;

    if (o == NULL) {
        return;
    }
    pthread_mutex_lock(&td_mutex);
    last = --o->refs == 0;
    if (last) {
        living[o->kind]--;
    }
    pthread_mutex_unlock(&td_mutex);
    if (last) {
        td_record_object("destroyed", o);
        o->destroy(o); /* nobody else can reach it */
    }
}

bool
td_is(const void *obj, enum td_kind kind)
{
    const struct td_obj *o = obj;

    return o != NULL && o->dispatch == td_dispatch && o->kind == kind;
}

unsigned
td_id(const void *obj)
{
    return obj != NULL ? ((const struct td_obj *)obj)->id : 0;
}

cl_uint
td_api_refs(const void *obj)
{
    cl_uint refs;

    pthread_mutex_lock(&td_mutex);
    refs = ((const struct td_obj *)obj)->api_refs;
    pthread_mutex_unlock(&td_mutex);
    return refs;
}

cl_int
td_retain(void *obj, enum td_kind kind, cl_int bad)
{
    struct td_obj *o = obj;

    if (!td_is(obj, kind)) {
        return bad;
    }
    pthread_mutex_lock(&td_mutex);
    o->api_refs++;
    o->refs++;
    pthread_mutex_unlock(&td_mutex);
    return CL_SUCCESS;
}

cl_int
td_release(void *obj, enum td_kind kind, cl_int bad)
{
    struct td_obj *o = obj;
    bool ok;

    if (!td_is(obj, kind)) {
        return bad;
    }
    pthread_mutex_lock(&td_mutex);
    ok = o->api_refs > 0;
    o->api_refs -= ok;
    pthread_mutex_unlock(&td_mutex);
    if (!ok) {
        return bad; /* released more often than retained, and still in use by us */
    }
    td_unref(o);
    return CL_SUCCESS;
}

bool
td_callback_add(struct td_callback **list, void(CL_CALLBACK *fn)(void *, void *),
                void *data)
{
    struct td_callback *c = malloc(sizeof(*c));

    if (c == NULL) {
        return false;
    }
    c->fn = fn;
    c->data = data;
    pthread_mutex_lock(&td_mutex);
    c->next = *list;
    *list = c;
    pthread_mutex_unlock(&td_mutex);
    return true;
}

void
td_callback_run(struct td_callback *list, void *obj)
{
    while (list != NULL) {
        struct td_callback *c = list;

        list = c->next;
        c->fn(obj, c->data);
        free(c);
    }
}

char *
td_strdup(const char *text, size_t len)
{
    char *copy = malloc(len + 1);

    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

/* Threads may still be letting go of commands that have completed. */
static void
wait_for_threads(void)
{
    static const struct timespec pause = {.tv_nsec = 2000000};
    bool quiet = false;

    for (int i = 0; i < 100 && !quiet; i++) {
        quiet = true;
        pthread_mutex_lock(&td_mutex);
        for (int kind = 0; kind < TD_KINDS; kind++) {
            quiet = quiet && living[kind] == 0;
        }
        pthread_mutex_unlock(&td_mutex);
        if (!quiet) {
            nanosleep(&pause, NULL);
        }
    }
}

/* TESTDRV_LEAKS=1: one line on standard error; else the name of a file to append to. */
__attribute__((destructor)) static void
tell_living(void)
{
    const char *where = getenv("TESTDRV_LEAKS");
    char line[160];
    int len;
    int fd;

    if (where == NULL) {
        return;
    }
    wait_for_threads();
    pthread_mutex_lock(&td_mutex);
    len =
        snprintf(line, sizeof(line),
                 "testdrv %d: living: context %u queue %u mem %u program %u kernel %u "
                 "event %u\n",
                 (int)getpid(), living[TD_CONTEXT], living[TD_QUEUE], living[TD_MEM],
                 living[TD_PROGRAM], living[TD_KERNEL], living[TD_EVENT]);
    pthread_mutex_unlock(&td_mutex);
    if (strcmp(where, "1") == 0) {
        fputs(line, stderr);
        return;
    }
    fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)len) != len) {
        perror("testdrv: TESTDRV_LEAKS");
    }
    if (fd >= 0) {
        close(fd);
    }
}
