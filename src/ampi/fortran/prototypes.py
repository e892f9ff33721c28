# SPDX-License-Identifier: Apache-2.0
"""Reads the prototypes of MPI calls in the headers of C, for generators of code."""
import re


def read(folder):
    text = ""
    for path in sorted(folder.glob("*.h")):
        text += re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    return text


def parse_argument(words):
    """Base type, name, and what stands after the name: '' or '[]'."""
    words = words.replace("const ", "").strip()
    match = re.fullmatch(r"(\w+(?:\s*\**)?)\s*(\w+)((?:\[\d*\])*)", words)
    if match is None:
        raise SystemExit(f"cannot read the argument: {words}")
    return re.sub(r"\s+", "", match[1]), match[2], match[3]


def parse_prototypes(text):
    """Result, name and parameters of each call."""
    for result, name, arguments in re.findall(r"^TELPHER_MPI_CALL\(([^,]+),\s*(\w+),\s*\((.*?)\)\);", text, re.S | re.M):
        yield result.strip(), name, " ".join(arguments.split())
