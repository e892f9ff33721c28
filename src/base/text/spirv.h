/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of SPIR-V as a forwarder must know: whether a module is one, and which
 * specialization constants it has. Nothing here trusts the module.
 */
#ifndef TELPHER_BASE_TEXT_SPIRV_H
#define TELPHER_BASE_TEXT_SPIRV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** True if it has the header of a module, of either byte order, and instructions that end
 *  where it does. */
bool tp_spirv_is_module(const void *module, size_t len);

/**
 * Looks a specialization constant up in a module that tp_spirv_is_module() found good.
 * One that has its number from a decoration group is not found: compilers make none.
 *
 * @return [bytes] of its value, 1 for a boolean; 0: there is none of that number
 */
size_t tp_spirv_constant_bytes(const void *module, size_t len, uint32_t spec_id);

#endif
