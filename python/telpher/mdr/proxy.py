# SPDX-License-Identifier: Apache-2.0
"""Proxies: names of objects, whose methods send messages."""
import hashlib
import itertools
import operator
import pickle
from typing import Any, Iterable, Optional

from .._telpher import ffi, lib
from ..core import KINDS
from .constants import CALL_HEAD, IN_BUFFER, NO_FUTURE, NO_RESULT, WITH_INDEX
from .runtime import Keywords, charm
from .waiting import Future
from .wire import encode

SIZE_OF_PROXY = ffi.sizeof("telpher_mdr_array")


def index_tuple(index):
    return tuple(index) if isinstance(index, (tuple, list)) else (index,)


def index_of(index, dims):
    index = index_tuple(index)
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


def creation(cls, args, only, index=None, array_map=None):
    """The parameters of a constructor."""
    params = pickle.dumps((bytes(charm._manager_bytes()), cls._telpher_name, tuple(args), only, index, array_map), 5)
    if len(params) > charm._params_max:
        raise ValueError(f"{len(params)} bytes of arguments for a constructor; at most {charm._params_max}: "
                         "send the rest by a method")
    return params


class _Method:
    """A method of an element, or of all; calling it sends a message."""
    __slots__ = ("proxy", "name")

    def __init__(self, proxy, name):
        self.proxy, self.name = proxy, name

    def __call__(self, *args, ret: bool = False, awaitable: bool = False, **keywords) -> Optional[Future]:
        if keywords:
            args += Keywords(keywords),
        return self.proxy._call_number(self.proxy._cls._telpher_numbers[self.name], args, ret, awaitable)

    def __reduce__(self):
        return _Method, (self.proxy, self.name)


class Proxy:
    """Names a chare, an array or a group, in every process. `proxy[i]` names an element, `proxy[1:5]` a section.

    proxy.method(…) calls the method of the object, or of all, and returns at once. With ret=True it returns a Future for
    the result: of several objects a list in the order of their indexes. With awaitable=True the future gives None.
    """

    def __init__(self, raw, cls, index=None, owner=None, array_map=None):
        self._raw, self._cls, self._index, self._owner, self._at, self._map = raw, cls, index, owner, None, array_map

    def __getitem__(self, index):
        array = self._raw
        if is_sparse(array):
            return Proxy(array, self._cls, index_tuple(index), self._owner)
        index = index_of(index, array.dims or 1)
        extent = extent_of(array)
        if any(isinstance(at, slice) for at in index):
            from .section import slice_of
            return slice_of(self, index, extent)
        if not all(hasattr(at, "__index__") and 0 <= at < size for at, size in zip(index, extent)):
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
        return proxy_of, (bytes(ffi.buffer(ffi.addressof(self._raw))), self._cls._telpher_name, self._index, self._map)

    def __eq__(self, other):
        return type(other) is Proxy and (self._raw.id, self._index) == (other._raw.id, other._index)

    def __hash__(self):
        return hash((self._raw.id, self._index))

    def __repr__(self):
        return f"<proxy of {self._cls.__name__}{'' if self._index is None else list(self._index)}>"

    def __len__(self):
        count = 1 if self._index is not None else self._count()
        if count is None:
            raise TypeError(f"{self!r} has elements that were not counted: call ckDoneInserting() after the insertions")
        return count

    def _count(self):
        """The number of objects that make a reduction together. None: of a sparse array, before ckDoneInserting()"""
        if self._index is not None:
            return 1
        if is_sparse(self._raw):
            members = charm._members.get(self._raw.id)
            return None if members is None else len(members)
        return element_count(self._raw)

    def ckInsert(self, index: Any, args: Iterable = (), onPE: int = -1) -> None:
        """Inserts an element into an array without dims. @index is a number, a text, or a tuple of them. onPE: process
        to be in; -1: the index gives it, or the array's map."""
        index = index_tuple(index)
        if self._index is not None or not is_sparse(self._raw):
            raise TypeError(f"{self!r}: elements are inserted into arrays without dims: Array(Class)")
        if not -1 <= onPE < charm.numPes():
            raise ValueError(f"onPE={onPE}: there are {charm.numPes()} processes")
        if onPE == -1 and self._map is not None:
            if self._map._raw.id not in charm._maps:  # its group is being created
                charm.thisProxy[charm.myPe()].insert(self, index, args)
                return
            onPE = self._map._process_of(index)
        params = creation(self._cls, args, None, index, self._map)
        call = ffi.new("telpher_mdr_call *")
        call.mdr = charm._raw
        charm._sent(lib.telpher_mdr_insert, call, ffi.addressof(self._raw), index_at(index, self._raw),
                    lib.TELPHER_MDR_ANY_PROCESS if onPE == -1 else onPE, params, len(params))

    def ckDoneInserting(self) -> None:
        """Waits in a @coro method until nothing is under way, then counts the elements: reductions of the array end, and
        calls with ret=True may be made."""
        charm.waitQD()
        found = charm.thisProxy.members_here(self._raw.id, ret=True).get()
        charm.thisProxy.members_set(self._raw.id, [index for here in found for index in here], awaitable=True).get()

    def _process_of(self, index):
        """Where the element of an array is made whose map this is."""
        local = charm._maps.get(self._raw.id)
        if local is None:
            raise RuntimeError(f"{self!r} is not in process {charm.myPe()} yet: call charm.awaitCreation(map) before arrays "
                               "use it")
        pe = local.procNum(index)
        if not 0 <= pe < charm.numPes():
            raise ValueError(f"{self!r}: procNum({index}) gave {pe}: there are {charm.numPes()} processes")
        return pe

    @property
    def _number(self):
        """Names the objects that make a reduction together."""
        return self._raw.id

    def _place(self):
        """Where send() sends to."""
        if self._at is None:
            self._at = place(self._raw, self._index)
        return self._at

    def _call_number(self, number, args, ret=False, awaitable=False):
        """Calls a method by its number. @return a Future or None"""
        future, remote = None, NO_FUTURE
        if ret or awaitable:
            future = Future(1) if self._index is not None else Results(len(self), ret)
            remote = future._remote()
            if self._index is None:
                remote = remote[0], remote[1] | (WITH_INDEX if ret else NO_RESULT)
        self._send(self._cls._telpher_entry, CALL_HEAD.pack(number, *remote), args)
        return future

    def _send(self, entry, head, args):
        if self._index is not None:
            send(self._place(), entry, head, args)
        else:
            send_all(self, entry, head, args)

    def _broadcast(self, entry, params):
        return lib.telpher_mdr_broadcast, charm._raw, ffi.addressof(self._raw), entry, params, len(params)

    def _members(self):
        """The indexes of all elements, as tuples."""
        if is_sparse(self._raw):
            len(self)  # raises if they were not counted
            return charm._members[self._raw.id]
        return itertools.product(*map(range, extent_of(self._raw)))


class Results(Future):
    """The results of the elements of a collection, in the order of their indexes."""

    def __init__(self, count, ret):
        super().__init__(count)
        self._ret = ret

    def _value(self):
        return [result for _, result in sorted(self._values, key=_order)] if self._ret else None


def _order(row):
    """Indexes of one kind come in their order, also where an array has several kinds."""
    return [(type(part).__name__, part) for part in index_tuple(row[0])]


def proxy_of(raw, name, index, array_map):
    array = ffi.new("telpher_mdr_array *")
    ffi.memmove(array, raw, SIZE_OF_PROXY)
    return Proxy(array[0], class_of(name), index, owner=array, array_map=array_map)


def extent_of(array):
    return [array.extent[i] for i in range(array.dims)] if array.dims else [charm.numPes()]


def element_count(array):
    count = 1
    for extent in extent_of(array):
        count *= extent
    return count


def is_sparse(array):
    return array.dims != 0 and array.extent[0] == 0


def index_at(index, array):
    """What the library knows an element by: its index, or of a sparse array the digest of that."""
    at = ffi.new("telpher_mdr_index *")
    if is_sparse(array):
        plain = tuple(operator.index(part) if hasattr(part, "__index__") else part for part in index)
        ffi.memmove(at, hashlib.blake2b(repr(plain).encode(), digest_size=8).digest(), 8)
        return at[0]
    for i, value in enumerate(index):
        at.at[i] = value
    return at[0]


def place(array, index):
    """Names an element for send()."""
    to = ffi.new("mdr_where *")
    to.mdr, to.array, to.index = charm._raw, array, index_at(index, array)
    return to


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


def send_all(proxy, entry, head, args):
    """Sends an invocation to all elements of an array, a group or a section: along the tree if it is small."""
    data, buffers = encode(args)
    if not buffers and len(head) + len(data) <= charm._params_max:
        charm._sent(*proxy._broadcast(entry, b"\0" + head + data))
        return
    for index in proxy._members():
        send(place(proxy._raw, index), entry, head, args)
