/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: telpher launch -k -n PROCESSES -- rma_lost HOW
 *
 * The last process is killed while the others wait for it: for a notification, in a barrier,
 * for what they get, or for room. All their waits end, and the report says who is lost and
 * who waited. Or it is stopped, and takes nothing: then they wait for room until the
 * deadline. Or it stays so, with data on both ways: then they leave it behind, and nothing
 * looks at their memory any more.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <telpher/context.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 2, WORLD = TELPHER_RMA_WORLD };

enum how { NOTIFICATION, BARRIER, GET, FLOOD, STOPPED, FROZEN };
enum { BIG = 4 << 20, STOPPED_S = 2, FROZEN_S = 50 };

static int how;
static telpher_status statuses[64];
static uint64_t cells[64];
static uint8_t *big;
static uint64_t frozen; /* the process, for the first one */

static telpher_status
flood(telpher_rma *rma, telpher_rma_win win, uint32_t to)
{
    telpher_status status;

    do {
        status = how == FROZEN ? telpher_rma_put(rma, win, to, 8, big, BIG - 8)
                               : telpher_rma_put_value_notify(rma, win, to, 0, 1, 1);
    } while (status == TELPHER_OK);
    return status;
}

/* Stops, and is killed by a child later. */
static void
stop(unsigned seconds)
{
    pid_t self = getpid();

    if (fork() == 0) {
        fclose(stdout); /* who reads it waits for all that have it */
        fclose(stderr);
        for (; seconds > 0 && getppid() == self; seconds--) {
            sleep(1);
        }
        if (getppid() == self) {
            kill(self, SIGKILL);
        }
        _exit(0);
    }
    kill(self, SIGSTOP);
}

TELPHER_RMA_KERNEL(kernel_dies)
{
    uint32_t me = telpher_rma_rank(rma, WORLD), last = telpher_rma_size(rma, WORLD) - 1;
    telpher_rma_win win;

    telpher_rma_win_create(rma, WORLD, big, BIG, &win);
    if (me == last) {
        uint64_t begin = telpher_rma_now(rma);

        while (telpher_rma_now(rma) - begin < 50000000) {
        }
        if (how == FROZEN) { /* and the first process shall end it */
            telpher_rma_put_value_notify(rma, win, 0, 0, (uint64_t)getpid(), 1);
            telpher_rma_flush(rma, win);
        }
        for (int i = 0; how == FROZEN && i < 8; i++) {
            telpher_rma_put(rma, win, 0, 8, big, BIG - 8);
        }
        if (how >= STOPPED) {
            stop(how == STOPPED ? STOPPED_S : FROZEN_S);
        }
        kill(getpid(), SIGKILL);
    } else if (me / RANKS == last / RANKS) {
        telpher_rma_wait(rma, 9, 1);
    } else if (how == NOTIFICATION) {
        statuses[me] = telpher_rma_wait_from(rma, WORLD, last, 3, 1);
    } else if (how == BARRIER) {
        statuses[me] = telpher_rma_barrier(rma, WORLD);
    } else if (how == GET) {
        do {
            statuses[me] = telpher_rma_get(rma, win, last, 0, &cells[me], 8);
        } while (statuses[me] == TELPHER_OK);
    } else {
        statuses[me] = flood(rma, win, last);
    }
}

/* The launch after it must fail at once. */
TELPHER_RMA_KERNEL(kernel_after) { (void)rma; }

static int
is_told(telpher_rma_job *job, telpher_status status)
{
    char words[64];

    if (how >= STOPPED) {
        return status == TELPHER_ERR_TIMEOUT &&
               strstr(telpher_rma_report(job), "for room: 512 commands") != NULL;
    }
    snprintf(words, sizeof(words), "process %u with ranks",
             telpher_rma_job_processes(job) - 1);
    return status == TELPHER_ERR_PEER_LOST &&
           strstr(telpher_rma_report(job), words) != NULL &&
           strstr(telpher_rma_report(job), "is lost") != NULL &&
           (how != NOTIFICATION ||
            strstr(telpher_rma_report(job), "waits for tag 3: 0 of 1 from "
                                            "rank") != NULL);
}

/* Of this process, behind the launch that fails. */
static int
is_right(telpher_rma_job *job)
{
    uint32_t first = telpher_rma_job_process(job) * RANKS;
    telpher_status status = telpher_rma_run(job, &kernel_dies, NULL, NULL);
    int good = is_told(job, status);

    for (uint32_t r = first; r < first + RANKS; r++) {
        good = good && (statuses[r] == TELPHER_ERR_PEER_LOST ||
                        (how >= GET && statuses[r] == TELPHER_ERR_CANCELED) ||
                        (how >= STOPPED && statuses[r] != TELPHER_OK));
    }
    if (!good) {
        fprintf(stderr, "process %u: %s, %s\n%s", first / RANKS,
                telpher_status_text(status), telpher_status_text(statuses[first]),
                telpher_rma_report(job));
    }
    memcpy(&frozen, big, sizeof(frozen));
    munmap(big, BIG); /* it is ours again */
    return good &&
           telpher_rma_run(job, &kernel_after, NULL, NULL) == TELPHER_ERR_PEER_LOST;
}

int
main(int argc, char **argv)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    time_t begin = time(NULL);
    uint32_t process;
    int good;

    how = argc > 1 ? atoi(argv[1]) : 0;
    big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    params.ranks = RANKS;
    params.timeout_ns = how >= STOPPED ? 500000000 : 30000000000u;
    if (big == MAP_FAILED ||
        telpher_context_create(NULL, &params.context, NULL) != TELPHER_OK ||
        telpher_rma_create(&params, &job, NULL) != TELPHER_OK) {
        return 1;
    }
    process = telpher_rma_job_process(job);
    good = is_right(job);
    telpher_rma_destroy(job);
    telpher_context_destroy(params.context); /* does not wait for who was left behind */
    good = good && time(NULL) - begin < FROZEN_S - 10;
    printf("process %u: %s\n", process, good ? "knows" : "knows nothing");
    if (how == FROZEN && frozen != 0) {
        kill((pid_t)frozen, SIGKILL);
    }
    return !good;
}
