/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bootstrap server: a thread that accepts ranks, collects data from each, and sends
 * all of it to all. Connections without the secret are closed; ranks that never connect
 * are listed in the error. This file starts and stops it; serve.c is the thread,
 * client.c a connection.
 */
#include "core/comm/bootstrap/server_int.h"

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/os/descriptor.h"
#include "base/os/random.h"
#include "base/os/thread.h"
#include "base/text/hex.h"

static telpher_status
set_job(struct telpher_root *root, const char *job, struct tp_error *err)
{
    telpher_status status = job != NULL
                                ? tp_hex_decode(root->job, sizeof(root->job), job)
                                : tp_random_bytes(root->job, sizeof(root->job));

    if (status != TELPHER_OK) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "TELPHER_JOB must be %d hexadecimal digits",
                            2 * TP_BOOTSTRAP_JOB_BYTES);
    }
    tp_hex_encode(root->job_text, root->job, sizeof(root->job));
    return TELPHER_OK;
}

static uint16_t
port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } a;
    socklen_t len = sizeof(a);

    if (getsockname(fd, &a.any, &len) != 0) {
        return 0;
    }
    return ntohs(a.any.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
}

static void
root_free(struct telpher_root *root)
{
    for (size_t i = 0; root->clients != NULL && i < root->client_count; i++) {
        if (root->clients[i].conn != NULL) {
            tp_bootstrap_client_close(&root->clients[i]);
        }
    }
    tp_descriptor_close(root->listen_fd);
    tp_descriptor_close(root->stop_fd);
    tp_descriptor_close(root->ended_fd);
    tp_free(root->clients);
    tp_free(root->polls);
    tp_free(root->polled);
    tp_free(root->all);
    tp_free(root->came);
    tp_free((void *)root->ended);
    tp_free(root);
}

telpher_status
tp_bootstrap_server_start(const char *address, uint32_t size, const char *job,
                          tp_ns timeout, telpher_root **ret_root, struct tp_error *err)
{
    struct telpher_root *root;
    telpher_status status;

    if (size == 0 || size > TP_BOOTSTRAP_RANKS_MAX) {
        return tp_error_set(err, TELPHER_ERR_INVALID, "a job has 1 to %d ranks",
                            TP_BOOTSTRAP_RANKS_MAX);
    }
    root = tp_zalloc(sizeof(*root), "root");
    if (root == NULL) {
        return TELPHER_ERR_NO_MEMORY;
    }
    root->size = size;
    root->client_count = (size_t)size + TP_BOOTSTRAP_UNAUTHENTICATED_MAX;
    root->deadline = tp_clock_deadline(timeout);
    root->listen_fd = -1;
    root->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    root->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    root->clients = tp_alloc_array(root->client_count, sizeof(*root->clients), "root");
    root->polls = tp_alloc_array(root->client_count + TP_BOOTSTRAP_POLLS,
                                 sizeof(*root->polls), "root");
    root->polled = tp_alloc_array(root->client_count + TP_BOOTSTRAP_POLLS,
                                  sizeof(struct tp_bootstrap_client *), "root");
    root->came = tp_alloc_array(size, sizeof(*root->came), "root");
    root->ended = tp_alloc_array(size, sizeof(*root->ended), "root");
    status = root->clients != NULL && root->polls != NULL && root->polled != NULL &&
                     root->came != NULL && root->ended != NULL && root->stop_fd >= 0 &&
                     root->ended_fd >= 0
                 ? set_job(root, job, err)
                 : TELPHER_ERR_NO_MEMORY;
    if (status == TELPHER_OK) {
        status = tp_builtin_transports[0]->listen(address, &root->listen_fd, err);
    }
    if (status == TELPHER_OK) {
        root->port = port_of(root->listen_fd);
        status = tp_thread_create(&root->thread, "telpher-root",
                                  tp_bootstrap_server_run, root);
    }
    if (status != TELPHER_OK) {
        root_free(root);
        return status;
    }
    *ret_root = root;
    return TELPHER_OK;
}

uint16_t
telpher_root_port(const telpher_root *root)
{
    return root->port;
}

const char *
telpher_root_job(const telpher_root *root)
{
    return root->job_text;
}

void
telpher_root_rank_ended(telpher_root *root, uint32_t rank)
{
    if (rank < root->size) {
        atomic_store(&root->ended[rank], true);
        (void)eventfd_write(root->ended_fd, 1);
    }
}

void
telpher_root_stop(telpher_root *root)
{
    if (root == NULL) {
        return;
    }
    (void)eventfd_write(root->stop_fd, 1);
    tp_thread_join(root->thread);
    root_free(root);
}
