/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of memory; in a file of its own, so that they can be listed without it. */
#include "core/comm/mem/mem.h"

#include "base/compiler.h"

#define FIELD(member) .offset = offsetof(struct tp_mems_settings, member)

const struct tp_config_entry tp_mems_entries[] = {
    {.name = "CHUNK",
     .default_text = "0",
     .help =
         "size of the chunks that device memory is staged through; 0 = measured when a "
         "device is first used",
     .parser = &tp_config_size,
     FIELD(chunk),
     .max = 1 << 30},
    {.name = "CHUNKS",
     .default_text = "0",
     .help = "staging chunks of each device; 0 = measured",
     .parser = &tp_config_u64,
     FIELD(chunks),
     .max = 1024},
    {.name = "MAPPING",
     .default_text = "",
     .help =
         "device of each rank of a machine, 2:0:3 for example, from the front again "
         "when there are more ranks; empty = by turns",
     .parser = &tp_config_string,
     FIELD(mapping)},
    {.name = "SIM",
     .default_text = "",
     .help = "speed of simulated memory, for tests: latency=5us,bandwidth=1G, fail=3, "
             "the copy that fails, and net=yes, transports may reach it",
     .parser = &tp_config_string,
     FIELD(sim)},
    {.name = "DOMAINS",
     .default_text = "",
     .help = "kinds of device memory to look for (opencl, cuda, sim); empty = all",
     .parser = &tp_config_words,
     FIELD(domains)},
};
const size_t tp_mems_entry_count = TP_ARRAY_LEN(tp_mems_entries);
