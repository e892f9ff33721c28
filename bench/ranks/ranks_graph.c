/* SPDX-License-Identifier: Apache-2.0 */
/* Option -G: all iterations of rank 0 go into a file of rows, which `telpher-bench plot` draws. */
#include "bench/ranks/ranks_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/helper.h"

static char path[] = "/tmp/telpher-bench-XXXXXX";
static FILE *file;
static bool broken;

static void
remove_file(void)
{
    unlink(path);
}

void
ranks_graph_add(const struct ranks_pattern *pattern, const struct ranks_pair *p,
                const double *samples, int count)
{
    int fd;

    if (p->o->graphs == 0 || p->rank != 0 || broken) {
        return;
    }
    if (file == NULL) {
        fd = mkstemp(path);
        file = fd >= 0 ? fdopen(fd, "w") : NULL;
        broken = file == NULL || atexit(remove_file) != 0;
        if (broken) {
            return;
        }
    }
    fprintf(file,
            "{\"test\": \"samples\", \"pattern\": \"%s\", \"bytes\": %zu, \"unit\": "
            "\"%s\", \"samples\": [",
            pattern->name, p->work.len, ranks_has_window(pattern) ? "MB/s" : "us");
    for (int i = 0; i < count; i++) {
        fprintf(file, "%s%.3f", i == 0 ? "" : ", ",
                ranks_value_of(pattern, p, samples[i]));
    }
    fprintf(file, "]}\n");
}

/* `telpher-bench plot FILE -o PICTURE` as a child. */
static bool
plot(const char *picture)
{
    char *const args[] = {(char *)"plot", path, (char *)"-o", (char *)picture, NULL};
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        _exit(bench_helper_script("telpher-bench-plot.py", 4, (char **)args));
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

bool
ranks_graph_draw(const struct ranks_pair *p, const struct ranks_pattern *pattern)
{
    static const char *const suffixes[] = {"", ".png", ".pdf"};
    bool good = !broken;

    if (p->o->graphs == 0 || p->rank != 0 || (file == NULL && !broken)) {
        return true;
    }
    if (broken || fclose(file) != 0) {
        fprintf(stderr, "telpher-bench: -G: cannot write %s\n", path);
        return false;
    }
    file = NULL;
    for (int i = 0; i < RANKS_GRAPHS; i++) {
        char picture[96] = "-";

        if (i != RANKS_TTY) {
            snprintf(picture, sizeof(picture), "osu_%s%s", pattern->name, suffixes[i]);
        }
        good = ((p->o->graphs & (1u << i)) == 0 || plot(picture)) && good;
    }
    return good;
}
