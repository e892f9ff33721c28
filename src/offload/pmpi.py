#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: pmpi.py PREPROCESSED-MPI-HEADER MAP-IN C-OUT MAP-OUT

Writes, for each MPI function that takes a communicator, a function of its name that puts the
process's own world in the place of MPI_COMM_WORLD and calls the PMPI function; and the
version script with their names. pmpi.c has those that need more."""
import re
import sys

# written by hand in pmpi.c
OWN = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Comm_get_parent", "MPI_Comm_spawn",
       "MPI_Comm_get_attr", "MPI_Attr_get", "MPI_Comm_free", "MPI_Comm_disconnect",
       "MPI_Comm_set_errhandler"}
# they end the whole job, or do not look at the communicator
LEFT = {"MPI_Abort", "MPI_Pcontrol"}
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)")
PROTOTYPE = re.compile(r"^\s*(?:extern\s+)?int\s+(MPI_[A-Z]\w*)\s*\(([^;{]*)\)[^;{]*;", re.M)


def split(text):
    """Parameters of a list, at its outermost commas."""
    depth, start, parts = 0, 0, []
    for at, letter in enumerate(text):
        depth += letter in "(["
        depth -= letter in ")]"
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return parts + [text[start:].strip()]


def inner(text):
    """A parameter list without what attributes put behind it."""
    depth = 0
    for at, letter in enumerate(text):
        depth += letter == "("
        depth -= letter == ")"
        if depth < 0:
            return text[:at]
    return text


def name_of(parameter, number):
    """The parameter with a name of ours, and that name."""
    found = re.match(r"^(.*?[\s*])(\w+)((?:\s*\[[^]]*\])*)$", parameter)
    name = f"a{number}"
    if found and found.group(2) not in ("int", "char", "void"):
        return f"{found.group(1)}{name}{found.group(3)}", name
    return f"{parameter} {name}", name


def wrapper(name, parameters):
    declared, passed = [], []
    for number, parameter in enumerate(parameters):
        with_name, own = name_of(parameter, number)
        declared.append(with_name)
        passed.append(f"tp_offload_comm({own})" if re.match(r"^(const\s+)?MPI_Comm\s+\w+$", with_name) else own)
    made = [f"a{n}" for n, p in enumerate(parameters) if re.match(r"^MPI_Comm\s*\*", p)]
    call = f"P{name}({', '.join(passed)})"
    if made:
        call = f"tp_offload_comm_made({call}, {made[0]})"
    return f"int {name}({', '.join(declared)})\n{{\n    return {call};\n}}\n"


def main(header, map_in, c_out, map_out):
    text = re.sub(r"^#.*$", "", open(header, encoding="utf-8").read(), flags=re.M)
    text = ATTRIBUTE.sub(" ", text)
    text = re.sub(r"\s+", " ", text).replace(";", ";\n").replace("}", "}\n")
    names, bodies = set(OWN & set(re.findall(r"\bint\s+(MPI_\w+)\s*\(", text))), []
    for name, raw in PROTOTYPE.findall(text):
        parameters = split(inner(raw))
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
