# SPDX-License-Identifier: Apache-2.0
"""Command lines of telpher-bench's scripts: errors in one line, and values that are judged before anything is measured."""
import argparse
import os
import re
import sys


class Parser(argparse.ArgumentParser):
    """Of `telpher-bench COMMAND`."""

    def __init__(self, command):
        super().__init__(add_help=False, allow_abbrev=False)
        self.command = command

    def error(self, message):
        sys.stderr.write(f"telpher-bench {self.command}: {message}\n`telpher-bench {self.command} --help` shows how it is used\n")
        sys.exit(2)


def place(path):
    """A file that can be written: known before minutes of measuring, not after them."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write {path}")
    return path


def count(text):
    """A number from 1 on."""
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"no number from 1 on: {text}")
    return int(text)


def duration(text):
    """More than no time."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"no time above 0: {text}")
    return value


def bounds(text):
    """The least and the most of [MIN:]MAX, in bytes, each also with K, M or G."""
    match = re.fullmatch(r"(?:(\d{1,13})([KMG]?):)?(\d{1,13})([KMG]?)", text.upper())
    if not match:
        raise argparse.ArgumentTypeError(f"no sizes [MIN:]MAX: {text}")
    least, most = (int(number or 1) << 10 * " KMG".index(unit or " ") for number, unit in ((match[1], match[2]), (match[3], match[4])))
    if least > most or most < 1:
        raise argparse.ArgumentTypeError(f"no sizes [MIN:]MAX: {text}")
    return least, most


def sizes(text):
    """The same, as it is written."""
    bounds(text)
    return text


def counts(text):
    """Numbers from 1 on with commas between them."""
    return [count(number) for number in text.split(",")]
