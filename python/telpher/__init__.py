# SPDX-License-Identifier: Apache-2.0
"""Telpher: ranks, device memory, windows, channels, servers of OpenCL devices, and message-driven objects.

    import telpher
    with telpher.Context() as job:        # started by `telpher launch -n 2 -- python3 program.py`
        channel = job.channel(1 - job.rank)
        ...

telpher.mdr has objects with methods as messages. `python3 -m telpher.doctor` says what works here.
"""
from ._telpher import ffi as _ffi
from ._telpher import lib as _lib
from .core import ANY, Channel, Context, Memory, Request, Window
from .errors import Error, PeerLost, TimedOut
from .servers import Device, devices, servers, settings

__version__ = _ffi.string(_lib.telpher_version()).decode()
__all__ = ["ANY", "Channel", "Context", "Device", "Error", "Memory", "PeerLost", "Request", "TimedOut", "Window",
           "devices", "servers", "settings"]
