/* SPDX-License-Identifier: Apache-2.0 */
/* Intercommunicators, for the calls that take communicators of both kinds. */
#ifndef TELPHER_AMPI_INTERCOMM_H
#define TELPHER_AMPI_INTERCOMM_H

#include "ampi/collective.h"

/* Collective in both groups. Return an error class that has not been reported. */
int tp_ampi_intercomm_dup(struct tp_ampi_comm *inter, struct tp_ampi_comm **ret);
/** @param group  part of the own group; ranks that are not in it get MPI_COMM_NULL */
int tp_ampi_intercomm_create_of(struct tp_ampi_comm *inter,
                                const struct tp_ampi_group *group, MPI_Comm *ret);
int tp_ampi_intercomm_split(struct tp_ampi_comm *inter, int color, int key,
                            MPI_Comm *ret);
/** A collective call between both groups, instead of call->run. */
int tp_ampi_run_between(const struct tp_ampi_call *call);

#endif
