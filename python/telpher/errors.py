# SPDX-License-Identifier: Apache-2.0
"""Statuses of libtelpher as exceptions."""
from ._telpher import ffi, lib


class Error(Exception):
    """A call of libtelpher failed. `status` is the number, `name` its name: "TELPHER_ERR_PEER_LOST"."""

    def __init__(self, status: int, text: str = ""):
        self.status = status
        self.name = ffi.string(lib.telpher_status_name(status)).decode()
        super().__init__(f"{self.name}: {text}" if text else self.name)


class TimedOut(Error, TimeoutError):
    """The time limit of a call passed."""


class PeerLost(Error, ConnectionError):
    """The other process died or was declared dead."""


_CLASSES = {lib.TELPHER_ERR_TIMEOUT: TimedOut, lib.TELPHER_ERR_PEER_LOST: PeerLost}


def error(status, text=""):
    """The exception for a status."""
    return _CLASSES.get(status, Error)(status, text)


def check(status, context=ffi.NULL):
    """Raises if @status is an error; the text is that of the context's last call."""
    if status < 0:
        raise error(status, ffi.string(lib.telpher_last_error(context)).decode(errors="replace"))
    return status
