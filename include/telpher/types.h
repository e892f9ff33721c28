/* SPDX-License-Identifier: Apache-2.0 */
/* Names that several headers share. Handles are opaque. */
#ifndef TELPHER_TYPES_H
#define TELPHER_TYPES_H

/** A process in a job of ranks: what all else is made from. context.h */
typedef struct telpher_context telpher_context;
/** Something under way that has a result. context.h */
typedef struct telpher_request telpher_request;

#endif
