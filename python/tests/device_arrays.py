# SPDX-License-Identifier: Apache-2.0
"""The part of numba.cuda that charm4py_pingpong.py uses, on the CUDA driver that TELPHER_LIBCUDA names."""
import ctypes
import os

import numpy

_driver = None


def _call(name, *args):
    code = getattr(_driver, name)(*args)
    if code != 0:
        raise RuntimeError(f"{name}: {code}")


def _start():
    global _driver
    if _driver is None:
        _driver = ctypes.CDLL(os.environ.get("TELPHER_LIBCUDA", "libcuda.so.1"))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        _call("cuInit", 0)
        _call("cuDeviceGet", ctypes.byref(device), 0)
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        _call("cuCtxPushCurrent_v2", context)


class _Stream:
    def __init__(self):
        self.handle = ctypes.c_void_p()
        _call("cuStreamCreate", ctypes.byref(self.handle), 1)


class _DeviceArray:
    def __init__(self, size, dtype):
        self._dtype, self.nbytes = numpy.dtype(dtype), size * numpy.dtype(dtype).itemsize
        self._address, self._stream = ctypes.c_uint64(), _Stream()
        _call("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(self.nbytes))

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.nbytes // self._dtype.itemsize,), "typestr": self._dtype.str,
                "data": (self._address.value, False), "version": 3}

    def copy_to_device(self, host):
        _call("cuMemcpyHtoDAsync_v2", self._address, ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(self.nbytes),
              self._stream.handle)
        _call("cuStreamSynchronize", self._stream.handle)

    def copy_to_host(self, host):
        _call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(host.ctypes.data), self._address, ctypes.c_size_t(self.nbytes),
              self._stream.handle)
        _call("cuStreamSynchronize", self._stream.handle)


class StreamArray(_DeviceArray):
    """Names its stream in the interface; a copy may be under way on it."""

    def __init__(self, size):
        _start()
        super().__init__(size, "u1")

    @property
    def __cuda_array_interface__(self):
        return dict(super().__cuda_array_interface__, stream=self._stream.handle.value)

    def copy_from(self, host):
        self._host = host  # until the copy is over
        _call("cuMemcpyHtoDAsync_v2", self._address, ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(self.nbytes),
              self._stream.handle)

    def copy_to(self, host):
        self.copy_to_host(host)
        return host


class cuda:
    """The module's names."""

    @staticmethod
    def stream():
        _start()
        return _Stream()

    @staticmethod
    def device_array(size, dtype):
        _start()
        return _DeviceArray(size, dtype)
