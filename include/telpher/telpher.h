/* SPDX-License-Identifier: Apache-2.0 */
/* All of Telpher's public interface, save the headers of neighbours in interop/. */
#ifndef TELPHER_TELPHER_H
#define TELPHER_TELPHER_H

#include <telpher/error.h>
#include <telpher/server.h>
#include <telpher/status.h>
#include <telpher/version.h>

#endif
