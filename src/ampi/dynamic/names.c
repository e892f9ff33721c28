/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published names: a file for each in a folder of the user's, which all his jobs read. Its name is
 * the service's in hexadecimal, its content the name of a port.
 */
#include "ampi/dynamic/dynamic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config/settings.h"
#include "base/folder.h"
#include "base/text/hex.h"

enum { SERVICE_MAX = 100, PATH_BYTES = 1024 };

/* The folder, made if it is not there. @return false: errno; EPERM: others may write to it */
static bool
find_folder(char *path, size_t cap)
{
    const char *set = tp_settings_get("AMPI_NAMES");

    if (set != NULL && set[0] != '\0') {
        (void)snprintf(path, cap, "%s", set);
    } else {
        (void)snprintf(path, cap, "/tmp/telpher-names-%u", (unsigned)geteuid());
    }
    return (mkdir(path, 0700) == 0 || errno == EEXIST) && tp_folder_is_own(path, 022);
}

/* The file of a service. @return MPI_SUCCESS, or a class that was reported */
static int
find_file(const char *service, char *path, size_t cap)
{
    char folder[PATH_BYTES / 2], name[2 * SERVICE_MAX + 1];

    if (service[0] == '\0' || strlen(service) > SERVICE_MAX) {
        return tp_ampi_error(NULL, MPI_ERR_SERVICE,
                             "a service's name has 1 to %d bytes, not %zu", SERVICE_MAX,
                             strlen(service));
    }
    if (!find_folder(folder, sizeof(folder))) {
        return tp_ampi_error(NULL, MPI_ERR_SERVICE,
                             "cannot use the folder of names %s: %s; set "
                             "TELPHER_AMPI_NAMES to one that only this user writes to",
                             folder, strerror(errno));
    }
    tp_hex_encode(name, service, strlen(service));
    (void)snprintf(path, cap, "%s/%s", folder, name);
    return MPI_SUCCESS;
}

/* Writes a file under another name first, so that readers see all of it or none. */
static int
write_file(const char *path, const char *port)
{
    char draft[PATH_BYTES + 32];
    int fd, why = 0;

    (void)snprintf(draft, sizeof(draft), "%s.%ld", path, (long)getpid());
    fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    if (write(fd, port, strlen(port)) != (ssize_t)strlen(port) ||
        link(draft, path) != 0) {
        why = errno;
    }
    (void)close(fd);
    (void)unlink(draft);
    return why;
}

int
PMPI_Publish_name(const char *service, MPI_Info info, const char *port)
{
    char path[PATH_BYTES];
    int error = find_file(service, path, sizeof(path)), why;

    (void)info;
    if (error != MPI_SUCCESS) {
        return error;
    }
    why = write_file(path, port);
    return why == 0
               ? MPI_SUCCESS
               : tp_ampi_error(NULL, MPI_ERR_SERVICE, "cannot publish \"%s\": %s: %s",
                               service, path,
                               why == EEXIST
                                   ? "it is published; MPI_Unpublish_name() removes it"
                                   : strerror(why));
}
TP_MPI_NAME(Publish_name);

int
PMPI_Unpublish_name(const char *service, MPI_Info info, const char *port)
{
    char path[PATH_BYTES];
    int error = find_file(service, path, sizeof(path));

    (void)info;
    (void)port;
    if (error != MPI_SUCCESS) {
        return error;
    }
    return unlink(path) == 0
               ? MPI_SUCCESS
               : tp_ampi_error(NULL, MPI_ERR_SERVICE, "\"%s\" is not published: %s: %s",
                               service, path, strerror(errno));
}
TP_MPI_NAME(Unpublish_name);

int
PMPI_Lookup_name(const char *service, MPI_Info info, char *port)
{
    char path[PATH_BYTES];
    int error = find_file(service, path, sizeof(path)), fd;
    ssize_t len = -1;

    (void)info;
    if (error != MPI_SUCCESS) {
        return error;
    }
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        len = read(fd, port, MPI_MAX_PORT_NAME - 1);
        (void)close(fd);
    }
    if (len < 0) {
        return tp_ampi_error(NULL, MPI_ERR_NAME, "\"%s\" is not published: %s: %s",
                             service, path, strerror(errno));
    }
    port[len] = '\0';
    return MPI_SUCCESS;
}
TP_MPI_NAME(Lookup_name);
