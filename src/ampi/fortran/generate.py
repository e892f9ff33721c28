#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Fortran interface of adaptive MPI: calls.c, mpif.h, mpi.f90 and mpi_f08.f90. The headers of C are the table.

usage: generate.py FOLDER-OF-HEADERS FOLDER-FOR-RESULTS
"""
import pathlib
import re
import sys

from prototypes import parse_argument, parse_prototypes, read

# support.c has these, whose arguments Fortran passes in another way.
BY_HAND = {
    "Comm_spawn", "Comm_spawn_multiple",
    "Init", "Init_thread", "Pcontrol", "Wtime", "Wtick", "Aint_add", "Aint_diff",
    "Grequest_start", "Info_get", "Info_get_string", "Waitany", "Testany", "Waitsome", "Testsome",
    "Comm_create_keyval", "Type_create_keyval", "Win_create_keyval", "Keyval_create",
    "Comm_set_attr", "Type_set_attr", "Win_set_attr", "Attr_put",
    "Comm_get_attr", "Type_get_attr", "Win_get_attr", "Attr_get",
    "Info_create_env", "Status_c2f", "Status_f2c", "Status_c2f08", "Status_f082c", "Status_f082f", "Status_f2f08",
    "Address", "Type_extent", "Type_lb", "Type_ub", "Type_hvector", "Type_hindexed", "Type_struct",
}
LONG = {"MPI_Aint", "MPI_Count", "MPI_Offset"}
HANDLES = ["Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Session", "Win"]

# Calls of support.c as mpi_f08 declares them.
COPY, DELETE = ("MPI_copy_function*", "copy_fn", ""), ("MPI_delete_function*", "delete_fn", "")


def by_hand():
    status, key = ("MPI_Status*", "status", ""), ("int", "keyval", "")
    requests = ("MPI_Request", "requests", "[]")
    some = [("int", "incount", ""), requests, ("int*", "outcount", ""), ("int", "indices", "[]"), ("MPI_Status", "statuses", "[]")]
    text = [("MPI_Info", "info", ""), ("char*", "key", ""), ("int", "valuelen", ""), ("char*", "value", ""), ("int*", "flag", "")]
    yield "Init", []
    yield "Init_thread", [("int", "required", ""), ("int*", "provided", "")]
    yield "Info_create_env", [("MPI_Info", "info", "")]
    yield "Grequest_start", [("MPI_query_function*", "query_fn", ""), ("MPI_free_function*", "free_fn", ""),
                             ("MPI_cancel_function*", "cancel_fn", ""), ("MPI_Aint", "extra_state", ""), ("MPI_Request", "request", "")]
    rest = [("int", "root", ""), ("MPI_Comm", "comm", ""), ("MPI_Comm", "intercomm", ""), ("int", "array_of_errcodes", "[]")]
    yield "Comm_spawn", [("char*", "command", ""), ("char*", "argv", "[]"), ("int", "maxprocs", ""), ("MPI_Info", "info", "")] + rest
    yield "Comm_spawn_multiple", [("int", "count", ""), ("char*", "array_of_commands", "[]"), ("char*", "array_of_argv", "[][]"),
                                  ("int", "array_of_maxprocs", "[]"), ("MPI_Info", "array_of_info", "[]")] + rest
    yield "Info_get", text
    yield "Info_get_string", [text[0], text[1], ("int", "buflen", ""), text[3], text[4]]
    yield "Waitany", [("int", "count", ""), requests, ("int", "index", ""), status]
    yield "Testany", [("int", "count", ""), requests, ("int", "index", ""), ("int*", "flag", ""), status]
    yield "Waitsome", some
    yield "Testsome", some
    yield "Status_f082f", [("MPI_Status", "f08_status", ""), ("int", "f_status", "[]")]
    yield "Status_f2f08", [("int", "f_status", "[]"), ("MPI_Status", "f08_status", "")]
    for kind, handle in (("Comm", "comm"), ("Datatype", "type"), ("Win", "win")):
        name, value = "Type" if kind == "Datatype" else kind, ("MPI_Aint", "attribute_val", "")
        at = ("MPI_" + kind, handle if kind != "Datatype" else "datatype", "")
        yield name + "_create_keyval", [COPY, DELETE, key, ("MPI_Aint", "extra_state", "")]
        yield name + "_set_attr", [at, key, value]
        yield name + "_get_attr", [at, key, value, ("int*", "flag", "")]


def parse_calls(text):
    for result, name, arguments in parse_prototypes(text):
        if result != "int" or name in BY_HAND or name.startswith("T_") or name.endswith("_c"):
            continue  # calls with large counts are of C alone
        yield name, [] if arguments == "void" else [parse_argument(a) for a in arguments.split(", ")]


# ---- calls.c ----


def convert(kind, name, array):
    """The parameter of the Fortran symbol, code before the call, the argument of C, code after it."""
    if kind == "char*":
        out = f"char c_{name}[TP_FORTRAN_TEXT] = \"\";"
        return f"char *{name}", out, f"c_{name}", f"tp_fortran_pad(c_{name}, {name}, {name}_length);"
    if kind == "void*":
        return f"void *{name}", "", f"tp_fortran_buffer({name})", ""
    if kind == "MPI_Status*" or kind == "MPI_Status":
        return f"MPI_Status *{name}", "", f"tp_fortran_status({name})", ""
    if kind.endswith("function*") or kind.endswith("_fn*"):
        return f"{kind} {name}", "", name, ""
    if array == "[][3]":
        return f"int {name}[][3]", "", name, ""
    if array and "weights" in name:
        return f"int *{name}", "", f"tp_fortran_weights({name})", ""
    if array:
        return f"{kind} *{name}", "", name, ""
    if kind.endswith("*"):
        return f"{kind} {name}", "", name, ""
    return f"{kind} *{name}", "", f"*{name}", ""


def write_call(name, arguments, text):
    parameters, befores, actual, afters, lengths = [], [], [], [], []
    for kind, argument, array in arguments:
        reads = kind == "char*" and re.search(rf"{name},[^;]*const char \*{argument}\b", text, re.S)
        parameter, before, value, after = convert(kind, argument, array)
        if kind == "char*":
            lengths.append(f"size_t {argument}_length")
        if reads:
            before = f"char *c_{argument} = tp_fortran_text({argument}, {argument}_length);"
            after = f"tp_free(c_{argument});"
        parameters.append(parameter)
        befores += [before] if before else []
        actual.append(value)
        afters += [after] if after else []
    body = "".join(f"    {line}\n" for line in befores)
    body += f"    *tp_fortran_error(ierror) = PMPI_{name}({', '.join(actual)});\n"
    body += "".join(f"    {line}\n" for line in afters)
    return f"FORTRAN({name.lower()}, ({', '.join(parameters + ['int *ierror'] + lengths)}))\n{{\n{body}}}\n"


# ---- constants ----


def parse_constants(text):
    """All integers that the headers name."""
    found = {}
    for name, value in re.findall(r"^#define (MPI_\w+) (?:\(\((?:MPI_\w+|int)\)(0x[0-9a-f]+)\)|.*)$", text, re.M):
        if value:
            found[name] = int(value, 16)
    for name, value in re.findall(r"^#define (MPI_\w+) \(?(-?\d+|0x[0-9a-f]+)\)?\s*$", text, re.M):
        found[name] = int(value, 0)
    for body in re.findall(r"^enum \w+ \{(.*?)\};", text, re.S | re.M):
        at = 0
        for entry in re.findall(r"(MPI_\w+)(?:\s*=\s*(\d+))?", body):
            at = int(entry[1]) if entry[1] else at
            found[entry[0]] = at
            at += 1
    for name, other in re.findall(r"^#define (MPI_\w+) (MPI_\w+)$", text, re.M):
        if other in found:
            found[name] = found[other]
    for name in found:
        if re.match(r"MPI_MAX_.*(NAME|STRING|KEY|VAL)$", name):
            found[name] -= 1  # Fortran's texts have no end mark
    for name in [name for name in found if name.startswith(("MPI_F_", "MPI_T_"))]:
        del found[name]  # of C alone
    found.update(MPI_SOURCE=1, MPI_TAG=2, MPI_ERROR=3, MPI_ADDRESS_KIND=8, MPI_OFFSET_KIND=8, MPI_COUNT_KIND=8,
                 MPI_INTEGER_KIND=4)
    for name in ("MPI_REAL2", "MPI_REAL16", "MPI_COMPLEX4", "MPI_COMPLEX32", "MPI_INTEGER16"):
        found.setdefault(name, found["MPI_DATATYPE_NULL"])  # types that there are not
    return found


PLACES = """\
      common /telpher_mpi_places/ MPI_BOTTOM, MPI_IN_PLACE
      common /telpher_mpi_places/ MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY
      common /telpher_mpi_places/ MPI_STATUS_IGNORE
      common /telpher_mpi_places/ MPI_STATUSES_IGNORE
      common /telpher_mpi_places/ MPI_ERRCODES_IGNORE
      common /telpher_mpi_places/ MPI_ARGV_NULL, MPI_ARGVS_NULL
      save /telpher_mpi_places/
      external MPI_COMM_DUP_FN, MPI_COMM_NULL_COPY_FN
      external MPI_COMM_NULL_DELETE_FN
      external MPI_TYPE_DUP_FN, MPI_TYPE_NULL_COPY_FN
      external MPI_TYPE_NULL_DELETE_FN
      external MPI_WIN_DUP_FN, MPI_WIN_NULL_COPY_FN
      external MPI_WIN_NULL_DELETE_FN
      external MPI_DUP_FN, MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN
      double precision MPI_WTIME, MPI_WTICK, PMPI_WTIME, PMPI_WTICK
      external MPI_WTIME, MPI_WTICK, PMPI_WTIME, PMPI_WTICK
      integer*8 MPI_AINT_ADD, MPI_AINT_DIFF
      external MPI_AINT_ADD, MPI_AINT_DIFF
"""

# Logicals, and the places that stand for no buffer, in all three forms.
COMMON = """\
      logical MPI_SUBARRAYS_SUPPORTED, MPI_ASYNC_PROTECTS_NONBLOCKING
      parameter (MPI_SUBARRAYS_SUPPORTED=.false.)
      parameter (MPI_ASYNC_PROTECTS_NONBLOCKING=.false.)
      integer MPI_BOTTOM(1), MPI_IN_PLACE(1)
      integer MPI_ERRCODES_IGNORE(1)
      integer MPI_UNWEIGHTED(1), MPI_WEIGHTS_EMPTY(1)
      character*1 MPI_ARGV_NULL(1), MPI_ARGVS_NULL(1,1)
"""


def write_constants(constants):
    lines = []
    for name, value in constants.items():
        lines += [f"      integer {name}", f"      parameter ({name}={value})"]
    lines += ["      integer MPI_STATUS_IGNORE(MPI_STATUS_SIZE)", "      integer MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)"]
    return "\n".join(lines) + "\n" + COMMON + PLACES


# ---- mpi.f90 ----


def declare(kind, name, array, f08=False):
    base = kind.rstrip("*")
    if kind == "void*":
        return [f"!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}", f"type(*) :: {name}(*)"]
    if kind == "char*":
        return [f"character(len=*) :: {name}" + {"[]": "(*)", "[][]": "(count,*)"}.get(array, "")]
    if kind.endswith("function*") or kind.endswith("_fn*"):
        return [f"external :: {name}"]
    if base == "MPI_Status":
        size = "" if kind.endswith("*") else ",*"
        return [f"type(MPI_Status) :: {name}" + ("(*)" if array else "")] if f08 else [f"integer :: {name}(6{size})"]
    number = "integer(8)" if base in LONG else "integer"
    if f08 and base.startswith("MPI_") and base[4:] in HANDLES:
        number = f"type({base})"
    if kind in ("int", "int*") and (name in ("flag", "reorder", "commutes", "weighted") or
                                    name in ("periods", "remain")):
        number = "logical"
    shape = "(3,*)" if array == "[][3]" else "(*)" if array else ""
    return [f"{number} :: {name}{shape}"]


def write_interface(name, arguments, f08=False):
    names = [argument for _, argument, _ in arguments] + ["ierror"]
    lines = [f"subroutine MPI_{name}({', '.join(names)})"]
    lines += ["  import"] if f08 else []
    for argument in arguments:
        lines += ["  " + line if not line.startswith("!") else line for line in declare(*argument, f08)]
    lines += ["  integer, optional, intent(out) :: ierror" if f08 else "  integer :: ierror", "end subroutine"]
    return "".join(("  " if not line.startswith("!") else "") + wrap(line) + "\n" for line in lines)


def wrap(line):
    """Free form has 132 columns."""
    return line if len(line) < 120 else re.sub(r"(.{60,100},) ", r"\1 &\n    ", line, count=1)


# ---- sizes: mpi_sizeof has a specific name for each kind, whose function takes a descriptor ----

KINDS = [(f"integer({k})", f"i{k}", k) for k in (1, 2, 4, 8)] + [(f"logical({k})", f"l{k}", k) for k in (1, 2, 4, 8)]
KINDS += [("real(4)", "r4", 4), ("real(8)", "r8", 8), ("real(10)", "r10", 16), ("real(16)", "r16", 16)]
KINDS += [("complex(4)", "c4", 8), ("complex(8)", "c8", 16), ("complex(10)", "c10", 32), ("complex(16)", "c16", 32)]
KINDS += [("character(len=*)", "text", 1)]


def write_sizes():
    text = "interface MPI_Sizeof\n"
    for kind, name, _ in KINDS:
        text += f"  subroutine mpi_sizeof_{name}(x, size, ierror)\n    {kind}, dimension(..) :: x\n    integer :: size\n"
        text += f"    integer, optional :: ierror\n  end subroutine\n"
    return text + "end interface\n"


def write_size_calls():
    calls = "".join(f"FORTRAN_SIZE({name}, {size})\n" for _, name, size in KINDS)
    return calls + "".join(f"FORTRAN_EQUAL({handle.lower()})\n" for handle in HANDLES)


# ---- the modules ----

NAMES = {"type": "datatype", "out": "sendbuf", "out_count": "sendcount", "out_counts": "sendcounts", "out_type": "sendtype",
         "out_types": "sendtypes", "out_displs": "sdispls", "in": "recvbuf", "in_count": "recvcount", "in_counts": "recvcounts",
         "in_type": "recvtype", "in_types": "recvtypes", "in_displs": "rdispls"}


def rename(call):
    """Names of arguments as the standard has them in Fortran."""
    return call[0], [(kind, NAMES.get(name, name), array) for kind, name, array in call[1]]


def write_types():
    text = "".join(f"type, bind(C) :: MPI_{handle}\n  integer :: MPI_VAL\nend type\n" for handle in HANDLES)
    return text + "type, bind(C) :: MPI_Status\n  integer :: MPI_SOURCE, MPI_TAG, MPI_ERROR, telpher_rest(3)\nend type\n"


def write_module(calls, constants):
    text = "module mpi\n  implicit none\n  public\n" + write_types() + write_constants(constants) + write_sizes() + "interface\n"
    return text + "".join(write_interface(*rename(call)) for call in calls) + "end interface\nend module mpi\n"


def parse_kinds(text):
    """The kind of handle that a constant is."""
    found = dict(re.findall(r"^#define (MPI_\w+) \(\(MPI_(\w+)\)0x[0-9a-f]+\)", text, re.M))
    for name, other in re.findall(r"^#define (MPI_\w+) (MPI_\w+)$", text, re.M):
        if other in found:
            found[name] = found[other]
    return found


def write_equal(operator, prefix):
    text = f"interface operator({operator})\n"
    for handle in HANDLES:
        text += f"  function mpi_f08_{prefix}_{handle.lower()}(a, b)\n    import\n    type(MPI_{handle}), intent(in) :: a, b\n"
        text += f"    logical :: mpi_f08_{prefix}_{handle.lower()}\n  end function\n"
    return text + "end interface\n"


def write_f08(calls, constants, kinds):
    text = "module mpi_f08\n  implicit none\n  public\n" + write_types()
    for name, value in constants.items():
        kind = kinds.get(name, "Datatype" if re.match(r"MPI_(REAL|COMPLEX|INTEGER)\d+$", name) else None)
        text += f"  type(MPI_{kind}), parameter :: {name} = MPI_{kind}({value})\n" if kind in HANDLES else \
            f"  integer, parameter :: {name} = {value}\n"
    text += "  type(MPI_Status) :: MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE(1)\n" + COMMON + PLACES
    text += write_equal("==", "eq") + write_equal("/=", "ne") + write_sizes() + "interface\n"
    calls += list(by_hand())
    return text + "".join(write_interface(*rename(call), True) for call in calls) + "end interface\nend module mpi_f08\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    text = read(pathlib.Path(sys.argv[1]))
    results = pathlib.Path(sys.argv[2])
    calls = list(parse_calls(text))
    constants = parse_constants(text)
    head = "generated from the headers of C by src/ampi/fortran/generate.py"
    results.mkdir(parents=True, exist_ok=True)
    (results / "calls.c").write_text(f"/* {head} */\n#include \"ampi/fortran/fortran.h\"\n\n" +
                                     "\n".join(write_call(*call, text) for call in calls) + "\n" + write_size_calls())
    (results / "mpif.h").write_text(f"! {head}\n" + write_constants(constants))
    hand = {name: arguments for name, arguments in by_hand()}
    early = [(name, hand[name]) for name in ("Init", "Init_thread", "Info_get", "Comm_spawn", "Comm_spawn_multiple")]
    (results / "mpi.f90").write_text(f"! {head}\n" + write_module(calls + early, constants))
    (results / "mpi_f08.f90").write_text(f"! {head}\n" + write_f08(calls, constants, parse_kinds(text)))


main()
