#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: refuse.py PREPROCESSED-MPI-HEADER C-OUT TEST-OUT

Writes a function for each MPI call that waits for the other processes of a communicator, and is not carried:
all meet first, while messages under way go on.

Writes a function for each MPI call with a buffer that libtelpher-mpi-device does not carry: it
refuses device memory by name, where MPI would crash. The test calls each, once for each of its
buffers."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../cmake"))
from mpi_header import named, prototypes

# Calls that the files of this folder define. A call that is listed and not defined goes to MPI.
COLLECTIVE = ("Bcast|Reduce|Allreduce|Scan|Exscan|Reduce_scatter|Reduce_scatter_block|Gatherv?|Scatterv?|"
              "Allgatherv?|Alltoall[vw]?|Neighbor_allgatherv?|Neighbor_alltoall[vw]?")
CARRIED = re.compile(rf"MPI_({COLLECTIVE}|({COLLECTIVE})_init|I({COLLECTIVE.lower()})|"
                     "I?[bsr]?send|[BSR]send|Send|[BSR]?[Ss]end_init|I?m?recv|M?[Rr]ecv|Recv_init|"
                     "Sendrecv|Sendrecv_replace|Reduce_local|Pack|Unpack|Pack_external|Unpack_external)")
# Buffers by the names of the standard, and calls whose parameter of that name MPI only compares.
BUFFER = re.compile(r"void\s*\*\s*(buf|buffer|sendbuf|recvbuf|inbuf|outbuf|inoutbuf|base|"
                    r"(?:origin|result|compare)_addr)\b|void\s+(inoutbuf|buf)\[\]")
ALLOWED = re.compile(r"MPI_(T_\w+|Free_mem|Win_detach|Buffer_detach(_c)?|Register_datarep\w*)")
# Calls in which all processes of the communicator wait for each other.
MEETING = re.compile(r"MPI_(Comm_(dup|dup_with_info|split|split_type|create)|Cart_(create|sub)|Graph_create|Dist_graph_create\w*|"
                     r"Intercomm_merge|Win_(create|create_dynamic|allocate|allocate_shared)|File_open)")
# Where an error goes: the handle among the parameters, and a call for it.
HANDLES = (("MPI_Win", "win"), ("MPI_File", "file"), ("MPI_Comm", "comm"))


def handler(parameters):
    for kind, function in HANDLES:
        for number, parameter in enumerate(parameters):
            if re.match(rf"{kind}\s+\w+$", parameter):
                return f"tp_mpidev_refuse_{function}(\"%s\", a{number})"
    return "tp_mpidev_refuse(\"%s\")"


def refusal(name, parameters, buffers):
    declared, passed = zip(*(named(p, n) for n, p in enumerate(parameters)))
    tests = " || ".join(f"tp_mpidev_is_device(a{n})" for n in buffers)
    return (f"int {name}({', '.join(declared)})\n{{\n{meet(name, parameters)}    return {tests}\n               ? {handler(parameters) % name}\n"
            f"               : P{name}({', '.join(passed)});\n}}\n")


def meet(name, parameters):
    comm = next((n for n, p in enumerate(parameters) if re.match(r"MPI_Comm\s+\w+$", p)), None)
    return f"    tp_mpidev_meet(a{comm});\n" if MEETING.fullmatch(name) else ""


def meeting(name, parameters):
    declared, passed = zip(*(named(p, n) for n, p in enumerate(parameters)))
    return f"int {name}({', '.join(declared)})\n{{\n{meet(name, parameters)}    return P{name}({', '.join(passed)});\n}}\n"


def argument(parameter):
    for kind, variable in (("MPI_Win", "refused_win"), ("MPI_File", "refused_file"), ("MPI_Comm", "MPI_COMM_WORLD")):
        if re.match(rf"{kind}\s+\w+$", parameter):
            return variable
    if "*" in parameter or "[" in parameter:
        return "NULL"
    scalar = re.match(r"(const\s+)?(int|MPI_Aint|MPI_Count|MPI_Offset)\s", parameter)
    return "0" if scalar else {"MPI_Datatype": "MPI_INT", "MPI_Op": "MPI_SUM", "MPI_Info": "MPI_INFO_NULL"}[
        parameter.split()[0]]


def trials(name, parameters, buffers):
    for device in buffers:
        passed = ["refused" if n == device else argument(p) for n, p in enumerate(parameters)]
        yield f"    REFUSED({name}, ({', '.join(passed)}))\n"


def main(header, c_out, test_out):
    bodies, tests = [], []
    for name, parameters in prototypes(header):
        buffers = [n for n, p in enumerate(parameters) if BUFFER.search(p)]
        if not buffers and MEETING.fullmatch(name):
            bodies.append(meeting(name, parameters))
        if not buffers or CARRIED.fullmatch(name) or ALLOWED.fullmatch(name):
            continue
        bodies.append(refusal(name, parameters, buffers))
        tests += trials(name, parameters, buffers)
    if len(bodies) < 40:
        sys.exit(f"{header}: only {len(bodies)} calls of buffers to refuse")
    head = "/* Written by refuse.py. */\n"
    with open(c_out, "w", encoding="utf-8") as out:
        out.write(head + '#include "mpidev/mpidev_int.h"\n\n' + "\n".join(bodies))
    with open(test_out, "w", encoding="utf-8") as out:
        out.write(head + "".join(tests))


main(*sys.argv[1:])
