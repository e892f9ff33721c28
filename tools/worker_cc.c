/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telpher-worker-cc: an MPI's compiler for workers. It links what it is given with the main of a
 * worker, and makes the plain functions in it callable as kernels, by their names and with
 * the types that their debug information says.
 */
#include "worker_cc.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATH_SIZE = 4096, EXTRA = 16 };

struct job {
    const char *mpi, *compiler;
    char lib[PATH_SIZE]; /* folder of our libraries */
    char include[PATH_SIZE];
    char **args; /* of the compiler, without those that are ours */
    int count;
    bool links, verbose;
    const char *output;
};

static int
usage(FILE *out)
{
    fputs("usage: telpher-worker-cc [OPTION]... COMPILER-ARGUMENT...\n"
          "Compiles and links a worker: plain functions of it are kernels.\n"
          "  --mpi NAME      openmpi or mpich (" WORKER_CC_MPI ")\n"
          "  --verbose       say which functions became kernels, and why others not\n"
          "  --help\n"
          "TELPHER_MPICC is the compiler, if not mpicc.NAME.\n",
          out);
    return out == stdout ? 0 : 2;
}

/* Runs a command to its end. @return its exit status, 127 if there is none */
static int
run(char **argv)
{
    pid_t pid;
    int status, rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

    if (rc != 0) {
        fprintf(stderr, "telpher-worker-cc: %s: %s\n", argv[0], strerror(rc));
        return 127;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return 127;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Everything of ours is found from where this program lies. */
static bool
find_folders(struct job *job)
{
    char self[PATH_SIZE - 64], *slash;
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (len < 0) {
        return false;
    }
    self[len] = '\0';
    slash = strrchr(self, '/');
    *slash = '\0';
    snprintf(job->include, sizeof(job->include), "%s/../include", self);
    snprintf(job->lib, sizeof(job->lib), "%s/../%s", self, WORKER_CC_LIBDIR);
    if (access(job->lib, R_OK) != 0) {
        snprintf(job->lib, sizeof(job->lib), "%s/../lib", self);
    }
    return true;
}

/* The compiler on what we were given, with @p object, if any, and what a worker needs. */
static int
compile(const struct job *job, const char *object)
{
    char **argv = calloc((size_t)job->count + EXTRA, sizeof(*argv));
    char folder[PATH_SIZE + 2], path[PATH_SIZE + 16], worker[64], offload[64],
        include[PATH_SIZE + 2];
    int n = 0, rc;

    if (argv == NULL) {
        return 127;
    }
    snprintf(folder, sizeof(folder), "-L%s", job->lib);
    snprintf(path, sizeof(path), "-Wl,-rpath,%s", job->lib);
    snprintf(worker, sizeof(worker), "-ltelpher-worker-%s", job->mpi);
    snprintf(offload, sizeof(offload), "-ltelpher-offload-%s", job->mpi);
    snprintf(include, sizeof(include), "-I%s", job->include);
    argv[n++] = (char *)job->compiler;
    argv[n++] = "-g";
    argv[n++] = include;
    memcpy(argv + n, job->args, (size_t)job->count * sizeof(*argv));
    n += job->count;
    if (job->links) {
        if (object != NULL) {
            argv[n++] = (char *)object;
        }
        argv[n++] = folder;
        argv[n++] = path;
        argv[n++] = "-Wl,--no-as-needed";
        argv[n++] = worker;
        argv[n++] = offload;
    }
    rc = run(argv);
    free(argv);
    return rc;
}

/* Links, looks what is in it, and links again with the table. */
static int
link_twice(const struct job *job)
{
    char folder[] = "/tmp/telpher-worker-XXXXXX", source[64], object[64];
    char *argv[] = {
        (char *)job->compiler, "-w", "-O1", "-fPIC", "-c", source, "-o", object, NULL};
    FILE *out;
    int rc = compile(job, NULL), count;

    if (rc != 0) {
        return rc;
    }
    if (mkdtemp(folder) == NULL) {
        perror("telpher-worker-cc: a folder for the table");
        return 127;
    }
    snprintf(source, sizeof(source), "%s/kernels.c", folder);
    snprintf(object, sizeof(object), "%s/kernels.o", folder);
    out = fopen(source, "w");
    count = out != NULL ? worker_derive(job->output, out, job->verbose) : -1;
    if (out == NULL || fclose(out) != 0 || count < 0) {
        rc = 1;
    } else if (count > 0) {
        rc = run(argv);
        rc = rc == 0 ? compile(job, object) : rc;
    }
    unlink(source);
    unlink(object);
    rmdir(folder);
    return rc;
}

static bool
is_one_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(word, *list) == 0) {
            return true;
        }
    }
    return false;
}

/* Keeps the compiler's arguments. @return whether ours make sense */
static bool
read_arguments(struct job *job, int argc, char **argv)
{
    static const char *const no_link[] = {"-c",  "-S",      "-E", "-M",
                                          "-MM", "-shared", NULL};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mpi") == 0 && i + 1 < argc) {
            job->mpi = argv[++i];
            continue;
        }
        if (strcmp(argv[i], "--verbose") == 0) {
            job->verbose = true;
            continue;
        }
        if (is_one_of(argv[i], no_link)) {
            job->links = false;
        }
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) {
            job->output = argv[i + 1];
        }
        job->args[job->count++] = argv[i];
    }
    return job->count > 0 && strlen(job->mpi) < 32;
}

int
main(int argc, char **argv)
{
    char compiler[64];
    struct job job = {.mpi = WORKER_CC_MPI, .links = true, .output = "a.out"};
    int rc;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        return usage(stdout);
    }
    job.args = calloc((size_t)argc + 1, sizeof(*job.args));
    if (job.args == NULL || !read_arguments(&job, argc, argv) || !find_folders(&job)) {
        free(job.args);
        return usage(stderr);
    }
    snprintf(compiler, sizeof(compiler), "mpicc.%s", job.mpi);
    job.compiler = getenv("TELPHER_MPICC") != NULL ? getenv("TELPHER_MPICC") : compiler;
    rc = job.links ? link_twice(&job) : compile(&job, NULL);
    free(job.args);
    return rc;
}
