# SPDX-License-Identifier: Apache-2.0
"""What goes over the wire: parameters of entries, and buffers beside them."""
import pickle

from .._telpher import ffi, lib
from ..buffers import address_of, is_device
from ..core import KINDS, Memory
from ..errors import error
from .constants import IN_BUFFER, IS_ARGUMENT
from .runtime import charm

IN_BAND = 4096  # [bytes] smaller buffers are part of the pickle
KIND_NAMES = {number: name for name, number in KINDS.items()}


class _Taken:
    """Stands for a device buffer inside of a pickle."""

    def __init__(self, position):
        self.position = position


def _take(value, out):
    """Adds a device buffer, or telpher.Memory, to @out. @return what stands for it"""
    if not is_device(value) and not isinstance(value, Memory):
        return value
    if len(out) == lib.TELPHER_MSG_BUFFERS - 1:
        raise ValueError(f"at most {lib.TELPHER_MSG_BUFFERS - 1} device buffers in one call")
    pointer, size, keep = address_of(value)
    out.append((pointer, size, KINDS[getattr(value, "kind", "cuda")] | IS_ARGUMENT, (keep, value)))
    return _Taken(len(out) - 1)


_NEVER_TAKEN = frozenset((int, float, str, bytes, bytearray, bool, tuple, list, dict, type(None)))


def encode(args):
    """(bytes, [(pointer, length, kind, keep)]) of arguments; each row is a buffer."""
    out = []
    if not _NEVER_TAKEN.issuperset(map(type, args)):
        args = tuple([_take(value, out) for value in args])

    def take(buffer):
        view = buffer.raw()
        if view.nbytes < IN_BAND or len(out) == lib.TELPHER_MSG_BUFFERS - 1:
            return True
        pointer = ffi.from_buffer(view)
        out.append((pointer, view.nbytes, KINDS["host"], (pointer, buffer)))
        return False

    return pickle.dumps(args, 5, buffer_callback=take), out


class Landing:
    """Memory that post functions name for buffers, until the entry takes it."""

    def __init__(self):
        self._by_address = {}

    def make(self, size, kind):
        """New memory. @return its address"""
        kind &= ~IS_ARGUMENT
        if kind == KINDS["host"]:
            memory = bytearray(size)
            pointer = ffi.from_buffer(memory, require_writable=True)
        else:
            memory = charm.context.alloc(size, KIND_NAMES[kind])
            pointer = memory._telpher_pointer
        pointer = ffi.cast("void *", pointer)
        self._by_address[int(ffi.cast("uintptr_t", pointer))] = memory
        return pointer

    def take(self, buffer):
        return self._by_address.pop(int(ffi.cast("uintptr_t", buffer.data)))


def read_call(call, head):
    """(head, arguments) of an invocation, or raises."""
    data = memoryview(ffi.buffer(call.params, call.params_len))
    if call.status != 0:
        raise error(call.status, "a buffer did not arrive")
    start = 1 + (data[0] & ~IN_BUFFER)
    landed = [charm._landing.take(call.buffers[i]) for i in range(call.buffer_count)]
    payload = landed.pop() if data[0] & IN_BUFFER else data[start + head.size:]
    if not landed:
        return head.unpack_from(data, start), pickle.loads(payload)
    taken = sum(1 for kind in data[1:start] if kind & IS_ARGUMENT)
    args = pickle.loads(payload, buffers=landed[taken:])
    return (head.unpack_from(data, start),
            tuple(landed[a.position] if isinstance(a, _Taken) else a for a in args))
