# SPDX-License-Identifier: Apache-2.0
"""Proxies: names of objects, whose methods send messages."""
import itertools

from .._telpher import ffi, lib
from ..core import KINDS
from .constants import CALL, CALL_HEAD, IN_BUFFER, NO_FUTURE
from .runtime import charm
from .waiting import Future
from .wire import encode

SIZE_OF_PROXY = ffi.sizeof("telpher_mdr_array")


def index_of(index, dims):
    index = index if isinstance(index, tuple) else (index,)
    if len(index) != dims:
        raise IndexError(f"index {index}: the array has {dims} dimensions")
    return index


classes = {}


def class_of(name):
    try:
        return classes[name]
    except KeyError:
        raise LookupError(f"class {name} is not defined in this process: all processes define the same classes "
                          "before charm.start()") from None


class _Method:
    """A method of an element, or of all; calling it sends a message."""
    __slots__ = ("proxy", "name")

    def __init__(self, proxy, name):
        self.proxy, self.name = proxy, name

    def __call__(self, *args, ret=False, awaitable=False):
        return self.proxy._call(self.name, args, ret or awaitable)

    def __reduce__(self):
        return _Method, (self.proxy, self.name)


class Proxy:
    """Names a chare, an array or a group, in every process. `proxy[i]` names an element."""

    def __init__(self, raw, cls, index=None, owner=None):
        self._raw, self._cls, self._index, self._owner, self._at = raw, cls, index, owner, None

    def __getitem__(self, index):
        array = self._raw
        index = index_of(index, array.dims or 1)
        extent = [array.extent[i] for i in range(len(index))] if array.dims else [charm.numPes()]
        if not all(0 <= at < size for at, size in zip(index, extent)):
            raise IndexError(f"index {index}: the extent is {tuple(extent)}")
        return Proxy(array, self._cls, index)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._cls._telpher_numbers:
            raise AttributeError(f"{self._cls.__name__} has no method {name!r}")
        method = _Method(self, name)
        self.__dict__[name] = method
        return method

    def __reduce__(self):
        return proxy_of, (bytes(ffi.buffer(ffi.addressof(self._raw))), self._cls._telpher_name, self._index)

    def __eq__(self, other):
        return isinstance(other, Proxy) and (self._raw.id, self._index) == (other._raw.id, other._index)

    def __hash__(self):
        return hash((self._raw.id, self._index))

    def __repr__(self):
        return f"<proxy of {self._cls.__name__}{'' if self._index is None else list(self._index)}>"

    def __len__(self):
        return element_count(self._raw)

    def _place(self):
        """Where send() sends to."""
        if self._at is None:
            self._at = place(self._raw, self._index)
        return self._at

    def _call(self, name, args, wants_result):
        number = self._cls._telpher_numbers[name]
        future = None
        if wants_result:
            future = Future(1 if self._index is not None else len(self))
        head = CALL_HEAD.pack(number, *(future._remote() if future else NO_FUTURE))
        if self._index is not None:
            send(self._place(), CALL, head, args)
        else:
            send_all(self._raw, CALL, head, args)
        return future


def proxy_of(raw, name, index):
    array = ffi.new("telpher_mdr_array *")
    ffi.memmove(array, raw, SIZE_OF_PROXY)
    return Proxy(array[0], class_of(name), index, owner=array)


def element_count(array):
    if array.dims == 0:
        return charm.numPes()
    count = 1
    for i in range(array.dims):
        count *= array.extent[i]
    return count


def index_at(index):
    at = ffi.new("telpher_mdr_index *")
    for i, value in enumerate(index):
        at.at[i] = value
    return at[0]


def place(array, index):
    """Names an element for send()."""
    to = ffi.new("mdr_where *")
    to.mdr, to.array, to.index = charm._raw, array, index_at(index)
    return to


def indexes(array):
    extent = [array.extent[i] for i in range(array.dims)] if array.dims else [charm.numPes()]
    return itertools.product(*(range(e) for e in extent))


def send(to, entry, head, args):
    """Sends an invocation to one element; @to: its place()."""
    send_rows(to, entry, head, *encode(args))


def send_rows(to, entry, head, data, buffers):
    """Sends an invocation with what encode() gave."""
    if not buffers and len(head) + len(data) <= charm._params_max:
        params = b"\0" + head + data
        charm._sent(lib.mdr_send, to, entry, params, len(params))
        return
    count = len(buffers)
    kinds = bytes(kind for _, _, kind, _ in buffers)
    if len(head) + len(data) > charm._params_max:
        pointer = ffi.from_buffer(data)
        buffers.append((pointer, len(data), KINDS["host"], pointer))
        params = bytes([count | IN_BUFFER]) + kinds + head
    else:
        params = bytes([count]) + kinds + head + data
    raw = ffi.new("telpher_msg_buffer[]", len(buffers))
    for i, (pointer, size, _kind, _keep) in enumerate(buffers):
        raw[i].data, raw[i].len = ffi.cast("void *", pointer), size
    xfer = charm._keep(buffers)
    try:
        charm._sent(lib.telpher_mdr_invoke, to.mdr, ffi.addressof(to, "array"), to.index, entry, params, len(params), raw,
                    len(buffers), xfer)
    except BaseException:
        charm._sending.pop(int(ffi.cast("uintptr_t", xfer.user)), None)
        raise


def send_all(array, entry, head, args):
    """Sends an invocation to all elements: along the tree if it is small."""
    data, buffers = encode(args)
    if not buffers and len(head) + len(data) <= charm._params_max:
        params = b"\0" + head + data
        charm._sent(lib.telpher_mdr_broadcast, charm._raw, ffi.addressof(array), entry, params, len(params))
        return
    for index in indexes(array):
        send(place(array, index), entry, head, args)
