/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of libtelpher: servers and their devices, and jobs of ranks with channels, messages,
 * windows and memory. Not included are telpher/interop/, one header for each other library
 * (MPI, OpenCL, CUDA), and the interfaces of the other libraries: telpher/offload.h and
 * telpher/kernel.h of libtelpher-offload, telpher/rma/ of libtelpher-rma.
 */
#ifndef TELPHER_TELPHER_H
#define TELPHER_TELPHER_H

#include <telpher/channel.h>
#include <telpher/context.h>
#include <telpher/error.h>
#include <telpher/key.h>
#include <telpher/mem.h>
#include <telpher/msg.h>
#include <telpher/root.h>
#include <telpher/server.h>
#include <telpher/status.h>
#include <telpher/two_sided.h>
#include <telpher/types.h>
#include <telpher/version.h>
#include <telpher/win.h>

#endif
