/* SPDX-License-Identifier: Apache-2.0 */
/* A number goes round the ranks, each adding its own: the first kernel of docs/guide/rma.md. */
#include <stdio.h>
#include <telpher/rma/device.h>
#include <telpher/rma/host.h>

TELPHER_RMA_KERNEL(ring)
{
    uint64_t *cells = (uint64_t *)telpher_rma_data(rma);
    uint32_t me = telpher_rma_rank(rma, TELPHER_RMA_WORLD);
    uint32_t n = telpher_rma_size(rma, TELPHER_RMA_WORLD);
    telpher_rma_win win;

    telpher_rma_win_create(rma, TELPHER_RMA_WORLD, &cells[me], sizeof(cells[me]), &win);
    if (me > 0) {
        telpher_rma_wait(rma, 0, 1); /* one notification of tag 0 */
    }
    telpher_rma_put_value_notify(rma, win, (me + 1) % n, 0, cells[me] + me, 0);
    if (me == 0) {
        telpher_rma_wait(rma, 0, 1);
    }
    telpher_rma_win_free(rma, win);
}

int
main(void)
{
    telpher_rma_params params = TELPHER_RMA_PARAMS_INIT;
    telpher_rma_job *job;
    telpher_error err;
    uint64_t cells[16] = {0};

    params.ranks = 16;
    params.whole = 1; /* in all processes together, if there are several */
    if (telpher_rma_create(&params, &job, &err) != TELPHER_OK ||
        telpher_rma_run(job, &ring, cells, &err) != TELPHER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (telpher_rma_job_process(job) == 0) {
        printf("%u\n", (unsigned)cells[0]); /* 120 */
    }
    telpher_rma_destroy(job);
    return 0;
}
