#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: pmpi.py PREPROCESSED-MPI-HEADER MAP-IN C-OUT MAP-OUT

Writes, for each MPI function that takes a communicator, a function of its name that puts the
process's own world in the place of MPI_COMM_WORLD and calls the PMPI function; and the
version script with their names. pmpi.c has those that need more."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../cmake"))
from mpi_header import named, prototypes

# written by hand in pmpi.c
OWN = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Comm_get_parent", "MPI_Comm_spawn",
       "MPI_Comm_get_attr", "MPI_Attr_get", "MPI_Comm_free", "MPI_Comm_disconnect",
       "MPI_Comm_set_errhandler"}
# they end the whole job, or do not look at the communicator
LEFT = {"MPI_Abort", "MPI_Pcontrol"}


def wrapper(name, parameters):
    declared, passed = [], []
    for number, parameter in enumerate(parameters):
        with_name, own = named(parameter, number)
        declared.append(with_name)
        passed.append(f"tp_offload_comm({own})" if re.match(r"^(const\s+)?MPI_Comm\s+\w+$", with_name) else own)
    made = [f"a{n}" for n, p in enumerate(parameters) if re.match(r"^MPI_Comm\s*\*", p)]
    call = f"P{name}({', '.join(passed)})"
    if made:
        call = f"tp_offload_comm_made({call}, {made[0]})"
    return f"int {name}({', '.join(declared)})\n{{\n    return {call};\n}}\n"


def main(header, map_in, c_out, map_out):
    names, bodies = set(), []
    for name, parameters in prototypes(header):
        if name in OWN:
            names.add(name)
        takes = any(re.match(r"^MPI_Comm(\s+\w+)?$", p) for p in parameters)
        if name in OWN | LEFT | names or not takes or "..." in parameters:
            continue
        names.add(name)
        bodies.append(wrapper(name, parameters))
    if len(names) < 100:
        sys.exit(f"{header}: only {len(names)} functions take a communicator")
    with open(c_out, "w", encoding="utf-8") as out:
        out.write('/* Written by pmpi.py. */\n#include "offload/pmpi.h"\n\n'
                  '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"\n\n' + "\n".join(bodies))
    with open(map_in, encoding="utf-8") as old, open(map_out, "w", encoding="utf-8") as out:
        out.write(old.read().replace("@PMPI@", "\n".join(f"    {n};" for n in sorted(names))))


main(*sys.argv[1:])
