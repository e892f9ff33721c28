# SPDX-License-Identifier: Apache-2.0
"""The command `telpher` of the wheel."""
import os
import shutil
import sys
from pathlib import Path

_BUNDLED = Path(__file__).parent / "bin" / "telpher"


def find():
    """Path of the command: the wheel's, or else one of PATH; None."""
    return str(_BUNDLED) if _BUNDLED.exists() else shutil.which("telpher")


def main():
    path = find()
    if path is None:
        sys.exit("telpher: this build of the package has no command; install Telpher")
    os.execv(path, ["telpher", *sys.argv[1:]])
