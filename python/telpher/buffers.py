# SPDX-License-Identifier: Apache-2.0
"""Addresses of what Python programs keep data in.

Taken without a copy: anything with `__cuda_array_interface__` (CuPy, Numba, PyTorch), anything with the
buffer protocol (bytes, bytearray, array, memoryview, NumPy), DLPack tensors, shared virtual memory of PyOpenCL (its
SVM, SVMPointer and SVMAllocation; coarse-grained memory must be mapped meanwhile), and telpher.Memory.
"""
import ctypes
import functools
from typing import Any

from ._telpher import ffi, lib

Buffer = Any  # what address_of() takes

_LEGACY, _NO_CONTEXT = 1, 201  # CU_STREAM_LEGACY, the default stream; CUDA_ERROR_INVALID_CONTEXT
_CPU, _CUDA, _CUDA_HOST = 1, 2, 3  # DLDeviceType


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Tensor(ctypes.Structure):  # DLTensor of dlpack.h
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


def _is_contiguous(shape, strides):
    """Whether elements lie in C order without gaps; strides in the unit of one element."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent not in (0, 1) and stride != expected:
            return False
        expected *= extent
    return True


def _need_contiguous(ok, what):
    if not ok:
        raise ValueError(f"{what} has gaps between its elements; make a contiguous copy of it")


def _product(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def item_size(typestr):
    """Bytes of an element, of a type as '<f4'."""
    return int(typestr[2:])


@functools.lru_cache(None)
def cuda_driver():
    """CUDA's driver, which the maker of a device array has loaded."""
    name = lib.telpher_config_get(b"TELPHER_LIBCUDA")
    driver = ctypes.CDLL(ffi.string(name).decode() if name else "libcuda.so.1")
    driver.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    return driver


def _wait_for(stream):
    """Waits for what a program has put on a stream: the array's content is there, and nothing overwrites what is received.
    The CUDA Array Interface, version 3, and DLPack make this the consumer's duty."""
    status = cuda_driver().cuStreamSynchronize(stream)
    if status not in (0, _NO_CONTEXT):  # without a context this thread has put nothing on a stream
        raise RuntimeError(f"cuStreamSynchronize of stream {stream} failed: CUDA error {status}; the program's kernels may "
                           "have failed before: synchronize the device to see where")


def _of_cuda(obj, writable):
    face = obj.__cuda_array_interface__
    size = item_size(face["typestr"])
    strides = face.get("strides")
    if strides is not None:
        _need_contiguous(_is_contiguous(face["shape"], [s // size for s in strides]), "the device array")
    address, read_only = face["data"]
    if writable and read_only:
        raise ValueError("the device array is read-only")
    stream = face.get("stream", _LEGACY)  # None: nothing to wait for. PyTorch, for example, names none.
    if stream is not None:
        _wait_for(stream)
    return address, size * _product(face["shape"])


def _of_dlpack(obj):
    capsule = obj.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(get(capsule, b"dltensor"))
    if tensor.device.type not in (_CPU, _CUDA, _CUDA_HOST):
        raise TypeError(f"DLPack device type {tensor.device.type} is not supported; CPU and CUDA are")
    if tensor.device.type == _CUDA:
        _wait_for(_LEGACY)  # __dlpack__() without a stream means this one
    shape = tensor.shape[:tensor.ndim]
    if tensor.strides:
        _need_contiguous(_is_contiguous(shape, tensor.strides[:tensor.ndim]), "the tensor")
    address = (tensor.data or 0) + tensor.byte_offset
    return address, _product(shape) * ((tensor.bits * tensor.lanes + 7) // 8), capsule


def is_device(obj):
    """Whether the data is in device memory, which the CPU may not read."""
    return (getattr(obj, "_telpher_device", False) or hasattr(obj, "__cuda_array_interface__") or
            hasattr(type(obj), "__dlpack_device__") and obj.__dlpack_device__()[0] == _CUDA)


_BUILTINS = (bytes, bytearray, memoryview)


def _is_plain(kind):
    """Whether objects of a type have a buffer only: no attribute of theirs needs a look."""
    return kind in _BUILTINS or (kind.__module__, kind.__name__) == ("numpy", "ndarray")


class OfTypes(dict):
    """What a function says of types; it is called once for each."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def __missing__(self, kind):
        return self.setdefault(kind, self._function(kind))


PLAIN, _BYTES = OfTypes(_is_plain), ffi.typeof("char[]")


def address_of(obj, writable=False):
    """(pointer, bytes, what keeps the memory alive) of an object's data; no copy is made."""
    if PLAIN[type(obj)]:
        if type(obj) not in _BUILTINS and obj.dtype.hasobject:
            raise TypeError("an array of Python objects has pointers for data: give it another dtype, or send it as an "
                            "object through a channel of objects")
        try:
            view = ffi.from_buffer(_BYTES, obj, writable)
            return view, len(view), view
        except (TypeError, ValueError, BufferError):
            pass  # the text below
    pointer = getattr(obj, "_telpher_pointer", None)
    if pointer is not None:
        return pointer, obj.nbytes, obj
    if hasattr(obj, "__cuda_array_interface__"):
        address, size = _of_cuda(obj, writable)
        return ffi.cast("void *", address), size, obj
    if hasattr(obj, "svm_ptr"):
        return ffi.cast("void *", obj.svm_ptr), obj.size, obj
    try:
        view = ffi.from_buffer(obj, require_writable=writable)
    except (TypeError, ValueError, BufferError) as wrong:
        if not hasattr(obj, "__dlpack__"):
            raise TypeError(f"{type(obj).__name__}: no contiguous{' writable' if writable else ''} buffer: "
                            f"{wrong}") from None
        address, size, keep = _of_dlpack(obj)
        return ffi.cast("void *", address), size, (obj, keep)
    return view, len(view), view


# ---- memory as a tensor for others ----

class _Managed(ctypes.Structure):  # DLManagedTensor
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]
_lent = {}  # address of a _Managed: what must live as long


@_Deleter
def _give_back(managed):
    _lent.pop(ctypes.addressof(managed.contents), None)


def to_dlpack(address, nbytes, device, owner):
    """A DLPack capsule of bytes at an address. @device: (type, number). @owner lives as long as the tensor."""
    shape = (ctypes.c_int64 * 1)(nbytes)
    managed = _Managed(_Tensor(address, _Device(*device), 1, 1, 8, 1, shape, None, 0), None, _give_back)
    _lent[ctypes.addressof(managed)] = (managed, shape, owner)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(managed), b"dltensor", None)
