/* SPDX-License-Identifier: Apache-2.0 */
/* Fortran's MPI_Comm_spawn and MPI_Comm_spawn_multiple: arguments are arrays of blank-padded texts. */
#include "ampi/fortran/fortran.h"

static bool
is_blank(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == ' ') {
        length--;
    }
    return length == 0;
}

static void
free_texts(char **texts)
{
    for (char **at = texts; at != NULL && *at != NULL; at++) {
        tp_free(*at);
    }
    tp_free(texts);
}

/* Every @p step-th text of an array: @p most of them, or up to a blank one if @p most is 0.
 * @return NULL: no memory */
static char **
read_texts(const char *texts, size_t length, size_t step, size_t most)
{
    char **ret;
    size_t count = 0;

    while (most == 0 ? !is_blank(texts + count * step * length, length)
                     : count < most) {
        count++;
    }
    ret = tp_alloc_array(count + 1, sizeof(char *), "text of Fortran");
    for (size_t i = 0; ret != NULL && i < count; i++) {
        ret[i] = tp_fortran_text(texts + i * step * length, length);
        if (ret[i] == NULL) {
            free_texts(ret);
            ret = NULL;
        }
    }
    return ret;
}

/* The arguments of each command. @return NULL: no memory */
static char ***
read_arguments(const char *texts, size_t length, size_t count)
{
    char ***ret = tp_alloc_array(count + 1, sizeof(char **), "text of Fortran");

    for (size_t i = 0; ret != NULL && i < count && !tp_fortran_is_no_argv(texts); i++) {
        ret[i] = read_texts(texts + i * length, length, count, 0);
    }
    return ret;
}

static int
spawn(const char *commands, size_t command_length, const char *argvs,
      size_t argv_length, int count, const int *maxprocs, const int *infos, int root,
      int comm, int *ret, int *errcodes)
{
    char **names = read_texts(commands, command_length, 1, (size_t)count);
    char ***arguments = read_arguments(argvs, argv_length, (size_t)count);
    int error = MPI_ERR_NO_MEM;

    if (names != NULL && arguments != NULL) {
        error = PMPI_Comm_spawn_multiple(count, names, arguments, maxprocs, infos, root,
                                         comm, ret, tp_fortran_errcodes(errcodes));
    }
    for (int i = 0; arguments != NULL && i < count; i++) {
        free_texts(arguments[i]);
    }
    tp_free(arguments);
    free_texts(names);
    return error;
}

FORTRAN(comm_spawn, (const char *command, const char *argv, int *maxprocs, int *info,
                     int *root, int *comm, int *intercomm, int *errcodes, int *ierror,
                     size_t command_length, size_t argv_length))
{
    *tp_fortran_error(ierror) =
        spawn(command, command_length, argv, argv_length, 1, maxprocs, info, *root,
              *comm, intercomm, errcodes);
}

FORTRAN(comm_spawn_multiple,
        (int *count, const char *commands, const char *argvs, int *maxprocs, int *infos,
         int *root, int *comm, int *intercomm, int *errcodes, int *ierror,
         size_t command_length, size_t argv_length))
{
    *tp_fortran_error(ierror) =
        spawn(commands, command_length, argvs, argv_length, *count, maxprocs, infos,
              *root, *comm, intercomm, errcodes);
}
