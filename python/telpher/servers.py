# SPDX-License-Identifier: Apache-2.0
"""Servers of OpenCL devices, and settings."""
import os
from dataclasses import dataclass
from typing import List, Optional, Tuple

from ._telpher import ffi, lib
from .errors import error

_TYPES = {1: "CPU", 2: "GPU", 4: "accelerator", 8: "custom"}


@dataclass(frozen=True)
class Device:
    """A device of a server. Sizes in bytes."""
    server: str
    index: int
    platform: str
    name: str
    vendor: str
    version: str
    driver_version: str
    type: str
    memory: int
    max_allocation: int
    compute_units: int
    clock_mhz: int
    available: bool
    svm: int


def _text(pointer):
    return ffi.string(pointer).decode(errors="replace") if pointer else ""


@ffi.def_extern()
def add_address(handle, address):
    ffi.from_handle(handle).append(_text(address))


@ffi.def_extern()
def add_device(handle, info):
    server, devices = ffi.from_handle(handle)
    devices.append(Device(server, info.index, _text(info.platform_name), _text(info.name), _text(info.vendor),
                          _text(info.version), _text(info.driver_version), _TYPES.get(info.type, "unknown"),
                          info.memory_bytes, info.max_allocation_bytes, info.compute_units, info.clock_mhz,
                          bool(info.available), info.svm))


@ffi.def_extern()
def add_setting(handle, info):
    ffi.from_handle(handle).append((_text(info.name), _text(info.value), _text(info.default_text),
                                    _text(info.help)))


def servers(text: Optional[str] = None) -> List[str]:
    """Addresses of servers, from @text or TELPHER_SERVERS: ["node1:7410", …]."""
    text = os.environ.get("TELPHER_SERVERS", "") if text is None else text
    if not text:
        return []
    found, err = [], ffi.new("telpher_error *")
    handle = ffi.new_handle(found)
    status = lib.telpher_servers_parse(text.encode(), lib.add_address, handle, err)
    if status != 0:
        raise error(status, ffi.string(err.text).decode(errors="replace"))
    return found


def _of_server(address, timeout):
    raw, err, found = ffi.new("telpher_server **"), ffi.new("telpher_error *"), []
    handle = ffi.new_handle((address, found))
    status = lib.telpher_server_connect(address.encode(), int(timeout * 1e9), raw, err)
    if status == 0:
        status = lib.telpher_server_devices(raw[0], lib.add_device, handle, err)
        lib.telpher_server_close(raw[0])
    if status != 0:
        raise error(status, ffi.string(err.text).decode(errors="replace"))
    return found


def devices(server: Optional[str] = None, timeout: float = 10) -> List[Device]:
    """Devices of a server, or of all of TELPHER_SERVERS. @timeout [s] @return list of Device"""
    addresses = servers() if server is None else [server]
    return [device for address in addresses for device in _of_server(address, timeout)]


def settings() -> List[Tuple[str, str, str, str]]:
    """(name, value or "", default, help) of every TELPHER_* setting."""
    found = []
    handle = ffi.new_handle(found)
    lib.telpher_config_describe(lib.add_setting, handle)
    return found
