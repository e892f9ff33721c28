/* SPDX-License-Identifier: Apache-2.0 */
/* The main of libtelpher-worker. */
#include <telpher/offload.h>

int
main(int argc, char **argv)
{
    return telpher_worker_main(argc, argv);
}
