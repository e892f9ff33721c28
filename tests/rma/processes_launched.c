/* SPDX-License-Identifier: Apache-2.0 */
/* rma_processes under `telpher launch`, or a launcher with PMIx. */
#include "processes.h"

int
main(int argc, char **argv)
{
    return processes_main(argc, argv, NULL);
}
