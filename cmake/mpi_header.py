# SPDX-License-Identifier: Apache-2.0
"""Reads the calls that a preprocessed mpi.h declares, for generators of functions in front of them."""
import re

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


def prototypes(header):
    """(name, [parameter as the header writes it]) of each function of MPI, in the header's order."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"^#.*$", "", file.read(), flags=re.M)
    text = ATTRIBUTE.sub(" ", text)
    text = re.sub(r"\s+", " ", text).replace(";", ";\n").replace("}", "}\n")
    return [(name, split(inner(raw))) for name, raw in PROTOTYPE.findall(text)]


def named(parameter, number):
    """The parameter with a name of ours, and that name."""
    found = re.match(r"^(.*?[\s*])(\w+)((?:\s*\[[^]]*\])*)$", parameter)
    name = f"a{number}"
    if found and found.group(2) not in ("int", "char", "void"):
        return f"{found.group(1)}{name}{found.group(3)}", name
    return f"{parameter} {name}", name
