#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the calls with large counts: each converts its arguments for the call of the same name with counts of type int.

usage: generate.py FOLDER-OF-HEADERS RESULT.c
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fortran"))
from prototypes import parse_argument, parse_prototypes, read  # noqa: E402

# large.c, type_calls.c, op.c, pack.c
BY_HAND = {"Get_count_c", "Type_get_envelope_c", "Type_get_contents_c", "Op_create_c", "Pack_size_c"}
# Results that are large already.
RENAMED = {"Type_size": "Type_size_x", "Type_get_extent": "Type_get_extent_x", "Type_get_true_extent": "Type_get_true_extent_x",
           "Get_elements": "Get_elements_x", "Status_set_elements": "Status_set_elements_x"}


def ranks(name, argument, names):
    """Length of an array, in C."""
    if "comm" not in names:
        return "dims" if "dims" in names else "c_count"
    which = "PEERS"
    if "eighbor" in name:
        which = "DESTINATIONS" if argument.startswith("out") else "SOURCES"
    elif "catterv" in name or "atherv" in name and "llgatherv" not in name:
        which = "ROOT"
    elif "educe_scatter" in name:
        which = "OWN"
    length = f"tp_ampi_large_ranks(comm, TP_AMPI_LARGE_{which}, {'root' if which == 'ROOT' else '0'})"
    return f"out == MPI_IN_PLACE ? 0 : {length}" if argument.startswith("out_") and which == "PEERS" else length


def may_count_elements(name, arguments, i):
    """May a count with its type become another type? Operations and packed bytes know only the program's."""
    names = [argument for _, argument, _ in arguments]
    buffer = {"comm", "win", "message"} & set(names) and not re.match("Unpack|Pack", name)
    reduces = "op" in names and "win" not in names
    return i + 1 < len(arguments) and arguments[i + 1][0] == "MPI_Datatype" and not reduces and (buffer or name == "Type_contiguous_c")


def convert(name, arguments, i, small):
    """Code before the call, the argument, code after it."""
    kind, argument, array = arguments[i]
    base, names = small[i][0], [each for _, each, _ in arguments]
    if base.rstrip("*") != "int" or kind == base:
        return "", argument, ""  # MPI_Aint and MPI_Count have one length
    if array:
        return f"int *c_{argument} = tp_ampi_large_array(&call, {argument}, {ranks(name, argument, names)});", f"c_{argument}", ""
    if kind.endswith("*"):
        first = f"tp_ampi_large_int(&call, *{argument})" if argument == "position" else "0"
        return f"int c_{argument} = {first};", f"&c_{argument}", f"*{argument} = c_{argument};"
    if may_count_elements(name, arguments, i):
        return f"int c_{argument} = tp_ampi_large_elements(&call, {argument}, &{arguments[i + 1][1]});", f"c_{argument}", ""
    return f"int c_{argument} = tp_ampi_large_int(&call, {argument});", f"c_{argument}", ""


def write_call(name, text, small):
    arguments = [parse_argument(word) for word in text.split(", ")]
    if [argument[1:] for argument in arguments] != [argument[1:] for argument in small]:
        raise SystemExit(f"MPI_{name} has other arguments than the call with counts of type int")
    target = RENAMED.get(name[:-2], name[:-2])
    pieces = [convert(name, arguments, i, arguments if name[:-2] in RENAMED else small) for i in range(len(arguments))]
    code = f"int\nPMPI_{name}({text})\n{{\n    struct tp_ampi_large call = {{0}};\n"
    code += "".join(f"    {before}\n" for before, _, _ in pieces if before)
    code += f"    if (call.error == MPI_SUCCESS) {{\n        call.error = PMPI_{target}({', '.join(word for _, word, _ in pieces)});\n    }}\n"
    code += "".join(f"    {after}\n" for _, _, after in pieces if after)
    return code + f"    return tp_ampi_large_end(&call);\n}}\nTP_MPI_NAME({name});\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    calls = {name: arguments for _, name, arguments in parse_prototypes(read(pathlib.Path(sys.argv[1])))}
    code = "/* generated from the headers of C by src/ampi/large/generate.py */\n#include \"ampi/large/large.h\"\n"
    for name, arguments in calls.items():
        if name.endswith("_c") and name not in BY_HAND:
            small = [parse_argument(word) for word in calls[name[:-2]].split(", ")]
            code += "\n" + write_call(name, arguments, small)
    pathlib.Path(sys.argv[2]).write_text(code)


main()
