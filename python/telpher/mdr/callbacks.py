# SPDX-License-Identifier: Apache-2.0
"""What C calls. Entries decode what has arrived; methods run between turns of the scheduler."""
import pickle
import struct
import sys

from .._telpher import ffi, lib
from .chare import how
from .constants import (ASYNC, CALL_HEAD, CHANNEL_HEAD, FUTURE_HEAD, IN_BUFFER, MANAGER_CLASS, NO_FUTURE, REDUCE_HEAD,
                        RESULT, WAITS)
from .proxy import SIZE_OF_PROXY, Proxy, class_of
from .runtime import charm, trace
from .waiting import Ends
from .wire import read_call

_kept = []  # tables that the library keeps pointers to


def mdr_classes():
    any_length, waits = lib.TELPHER_MDR_ANY_LENGTH, 1
    yield "python object", 8, [("call", lib.mdr_invoke, lib.mdr_post, any_length, 0),
                               ("channel", lib.mdr_channel, lib.mdr_post, any_length, 0)]
    yield "python manager", 0, [("start", lib.mdr_start, ffi.NULL, any_length, 0),
                                ("quiet", lib.mdr_future, ffi.NULL, any_length, 0),
                                ("future", lib.mdr_future, lib.mdr_post, any_length, 0),
                                ("reduce", lib.mdr_reduce, lib.mdr_post, any_length, 0),
                                ("wait until quiet", ffi.addressof(lib, "mdr_quiet"), ffi.NULL, any_length, waits)]


def register(name, size, entries):
    table = ffi.new("telpher_mdr_entry[]", len(entries))
    texts = [ffi.new("char[]", text.encode()) for text in [name] + [entry[0] for entry in entries]]
    for row, text, (_name, run, post, length, flags) in zip(table, texts[1:], entries):
        row.name, row.run, row.post, row.params_len, row.flags = text, run, post, length, flags
    definition = ffi.new("telpher_mdr_class *")
    definition.struct_size, definition.entry_count = ffi.sizeof("telpher_mdr_class"), len(entries)
    definition.name, definition.object_size, definition.entries = texts[0], size, table
    definition.create = lib.mdr_create
    definition.destroy = lib.mdr_destroy
    _kept.append((table, texts, definition))
    number = ffi.new("uint32_t *")
    charm._check(lib.telpher_mdr_class_register(charm._raw, definition, number))
    return number[0]


def _guarded(name):
    """A function that C calls; an exception ends the job."""
    def decorate(function):
        def run(call):
            try:
                function(call)
            except BaseException as wrong:
                charm._fail(wrong, trace(wrong))
        ffi.def_extern(name=name)(run)
        return function
    return decorate


def _key(call):
    return call.array.id, call.index.at[0], call.index.at[1], call.index.at[2]


@_guarded("mdr_create")
def _on_create(call):
    if call.array.class_id == MANAGER_CLASS:
        charm._manager = _copy_of(call.array)
        return
    manager, name, args, only = pickle.loads(ffi.buffer(call.params, call.params_len))
    if charm._manager is None:
        array = ffi.new("telpher_mdr_array *")
        ffi.memmove(array, manager, SIZE_OF_PROXY)
        charm._manager = _copy_of(array[0])
    if only is not None and only != call.index.at[0]:
        return
    cls = class_of(name)
    copy = ffi.new("telpher_mdr_array *", call.array)
    index = tuple(call.index.at[i] for i in range(max(1, call.array.dims)))
    charm._making = Proxy(copy[0], cls, owner=copy), index
    try:
        chare = cls.__new__(cls)
    finally:
        charm._making = None
    charm._objects[_key(call)] = chare
    init = cls.__init__
    charm._ready(charm._execute, chare, "__init__", init, how(init), (chare, *args), NO_FUTURE)


_copies = {}


def _copy_of(array):
    copy = ffi.new("telpher_mdr_array *", array)
    _copies["manager"] = copy
    return copy[0]


@_guarded("mdr_destroy")
def _on_destroy(call):
    charm._objects.pop(_key(call), None)


@_guarded("mdr_post")
def _on_post(call):
    data = ffi.buffer(call.params, call.params_len)
    kinds = data[1:1 + (data[0][0] & ~IN_BUFFER)] + b"\0"
    for i in range(call.buffer_count):
        call.buffers[i].data = charm._landing.make(call.buffers[i].len, kinds[i])


@_guarded("mdr_invoke")
def _on_invoke(call):
    (method, home, number), args = read_call(call, CALL_HEAD)
    chare = charm._objects[_key(call)]
    if method == RESULT:
        chare._telpher_result(*args)
        return
    name, function, how = type(chare)._telpher_methods[method]
    charm._ready(charm._execute, chare, name, function, how, (chare, *args), (home, number))


@_guarded("mdr_channel")
def _on_channel(call):
    (array, x, y, z, number, sequence), values = read_call(call, CHANNEL_HEAD)
    chare = charm._objects[_key(call)]
    chare._telpher_channels.setdefault((array, (x, y, z)), Ends()).get(number).put(sequence, values)


@_guarded("mdr_future")
def _on_future(call):
    if call.params_len == 8:  # quiescence
        number, failed, value = *struct.unpack("<Q", ffi.buffer(call.params, 8)), 0, None
    else:
        (number, failed), (value,) = read_call(call, FUTURE_HEAD)
    future = charm._futures.get(number)
    if future is not None:
        future._arrived(value, failed)


@_guarded("mdr_reduce")
def _on_reduce(call):
    (array, number, count), rest = read_call(call, REDUCE_HEAD)
    charm._ready(charm._reducers.receive, array, number, count, *rest)


@_guarded("mdr_start")
def _on_start(call):
    main = how(charm._main)
    charm._ready(charm._execute, None, "main", charm._main, main if main == ASYNC else WAITS, (sys.argv,), NO_FUTURE)


@ffi.def_extern()
def mdr_sent(user, status, length):
    charm._sending.pop(int(ffi.cast("uintptr_t", user)), None)
