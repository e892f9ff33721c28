/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the owner of a Unix socket. In a folder that others may change, such as /tmp, any
 * user of this machine can have made the socket, and would get programs and content.
 */
#include "core/session/client_int.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of a path, "." if it has none. @return false: too long */
static bool
folder_of(const char *path, char *dst, size_t cap)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);

    if (len >= cap) {
        return false;
    }
    memcpy(dst, slash == NULL ? "." : path, len);
    dst[len] = '\0';
    return true;
}

/* True if only root, this user and @p user can make files in @p folder. */
static bool
is_folder_of(const char *folder, uid_t user)
{
    struct stat st;

    return stat(folder, &st) == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
           (st.st_uid == user || st.st_uid == geteuid() || st.st_uid == 0);
}

telpher_status
tp_client_check_owner(struct tp_conn *conn, const char *address, struct tp_error *err)
{
    const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;
    struct ucred peer;
    socklen_t len = sizeof(peer);
    char folder[256];

    if (conn->ops->fd(conn) < 0 ||
        getsockopt(conn->ops->fd(conn), SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
        peer.uid == geteuid() || peer.uid == 0 ||
        (folder_of(path, folder, sizeof(folder)) && is_folder_of(folder, peer.uid))) {
        return TELPHER_OK;
    }
    return tp_error_set(err, TELPHER_ERR_AUTH,
                        "server %s: user %u listens there, and any user can in that "
                        "folder; use a socket in a folder of that user alone, or set "
                        "TELPHER_INSECURE=yes",
                        address, (unsigned)peer.uid);
}
