/* SPDX-License-Identifier: Apache-2.0 */
/* Servers with a build cache in a folder that the test looks into. */
#include "cache_folder.h"

#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "servers.h"

char top[64], room[128];
static struct servers servers;

void
look(struct seen *seen)
{
    DIR *dir = opendir(room);
    struct dirent *e;

    seen->count = 0;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char path[512];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", room, e->d_name);
        if (strlen(e->d_name) == KEY_CHARS && stat(path, &st) == 0 &&
            seen->count < ENTRIES_MAX) {
            strcpy(seen->name[seen->count], e->d_name);
            seen->used[seen->count++] = st.st_mtim;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

int
count_used(const struct seen *before, const struct seen *after)
{
    int used = 0;

    for (int i = 0; i < before->count; i++) {
        for (int k = 0; k < after->count; k++) {
            used +=
                strcmp(before->name[i], after->name[k]) == 0 &&
                memcmp(&before->used[i], &after->used[k], sizeof(struct timespec)) != 0;
        }
    }
    return used;
}

/* @return true if a process has children */
static int
has_children(pid_t pid)
{
    char path[64], first = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = fopen(path, "r");
    assert_non_null(file);
    (void)!fread(&first, 1, 1, file);
    fclose(file);
    return first != 0;
}

int
wait_over(void)
{
    int ms = 0;

    while (has_children(servers.pid[0])) {
        assert_true(ms < WAIT_MS);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        ms++;
    }
    return ms;
}

void
wait_entries(int count, struct seen *seen)
{
    (void)wait_over();
    look(seen);
    assert_int_equal(seen->count, count);
}

int
run_client(const char *a, const char *b)
{
    char self[PATH_MAX] = "";
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 && chdir(top) == 0) {
            execl(self, self, "--client", a, b, (char *)NULL);
        }
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The server's drivers, and our own, as where both are installed. */
static int
make_vendors(void)
{
    char command[512], folder[128];

    snprintf(folder, sizeof(folder), "%s/vendors", top);
    snprintf(command, sizeof(command),
             "mkdir '%s' && cp ${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}/*.icd '%s' && "
             "echo libtelpher-opencl.so >'%s/telpher.icd'",
             folder, folder, folder);
    if (system(command) != 0) {
        return -1;
    }
    return setenv("OCL_ICD_VENDORS", folder, 1);
}

int
cache_setup(void **state)
{
    char folder[128];

    *state = &servers;
    strcpy(top, "/tmp/telpher-cache-XXXXXX");
    assert_non_null(mkdtemp(top));
    snprintf(room, sizeof(room), "%s/cache/user-%lu", top, (unsigned long)getuid());
    snprintf(folder, sizeof(folder), "%s/cache", top);
    setenv("TELPHER_CACHE", folder, 1);
    return make_vendors() == 0 ? servers_start(&servers, 1) : -1;
}

int
cache_teardown(void **state)
{
    char command[128];

    servers_stop(*state);
    snprintf(command, sizeof(command), "rm -rf '%s'", top);
    return system(command);
}
