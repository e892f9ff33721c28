/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of the telpher command. */
#ifndef TELPHER_TOOLS_TELPHER_H
#define TELPHER_TOOLS_TELPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <telpher/server.h>
#include <telpher/telpher.h>

#include "tools/cli.h"

/** Exit codes: 0 success, 1 failure, 2 wrong use; `run` gives the program's own, 126 and
 *  127 as a shell does when it cannot be run or found, 128 + signal when one ended it. */
enum { EXIT_USAGE = 2, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

/** Subcommands. argv[0] is the subcommand's name. Each returns the exit code. */
int command_run(int argc, char **argv);
int command_launch(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_info(int argc, char **argv);
int command_ping(int argc, char **argv);
int command_sessions(int argc, char **argv);
int command_kill(int argc, char **argv);
int command_keygen(int argc, char **argv);
/** Runs the script telpher-SUBCOMMAND. */
int command_script(int argc, char **argv);

/** Says what failed on stderr. @return EXIT_FAILURE. */
int failure(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Executes @p argv; ends this process with what a shell exits with where that fails. */
void become_program(char **argv) __attribute__((noreturn));
/** "12.3 us", "4.56 ms": writes into @p dst, returns it. */
const char *duration_text(char *dst, size_t cap, double ns);
/** "512 B", "1.5 GiB": writes into @p dst, returns it. */
const char *size_text(char *dst, size_t cap, uint64_t bytes);
/** CLI_CALL of a time, into ns: seconds with fraction, "us", "ms", "s" or "m" after it. */
bool parse_duration(void *place, const char *text);

/** A server list split into addresses. */
struct addresses {
    char *item[256];
    size_t count;
};
/** Splits @p text, or $TELPHER_SERVERS if NULL. @return 0, or the exit code to leave with. */
int addresses_parse(const char *subcommand, const char *text,
                    struct addresses *ret_list);
void addresses_free(struct addresses *list);
/** Prints how content passes between servers of one program; nothing for one server.
 *  @param try_routes  starts a session on each server, and shows what each pair uses */
void print_between_servers(const struct addresses *list, bool try_routes);

/** Sets TELPHER_MDR_CHECKPOINT to a new folder in memory, unless it is set. @p ret_path: the
 *  folder, or "". @return 0, or the exit code */
int checkpoint_folder_make(char *ret_path, size_t cap);
/** Removes it with its files; "" is allowed. */
void checkpoint_folder_remove(const char *path);

/** Whether @p host is this one. */
bool host_is_here(const char *host);
/** Whether programs can be started on @p host. Waits up to 10 s. */
bool host_answers(const char *host);
/** Removes a folder of another host, with its content; does nothing on this one. */
void host_remove_folder(const char *host, const char *path);
/** Becomes ssh, with a shell on @p host that reads the variables up to an empty line. */
void host_exec(const char *host, char **program, char *variables);

/** Finds the file @p name of this build or installation in one of two folders, which are
 *  relative to this program's. @return 0, or -1 if it is in neither (ret_path names the last). */
int find_artefact(const char *in_build, const char *installed, const char *name,
                  char *ret_path, size_t cap);

/** Adds the devices of the server at @p address to @p ret_count. */
telpher_status server_count_devices(const char *address, uint64_t timeout_ns,
                                    unsigned *ret_count, telpher_error *err);

/** A telpherd of our own on a Unix socket, for as long as we live. */
struct private_daemon {
    pid_t pid;
    char socket[128];
};
/** Starts it in the folder @p dir, at its socket, and waits until it serves. @return 0 or -1
 *  (said why). */
int private_daemon_start(const char *dir, struct private_daemon *ret_daemon);
/** Ends it and waits for that; at most a few seconds. */
void private_daemon_stop(struct private_daemon *daemon);

#endif
