# SPDX-License-Identifier: Apache-2.0
"""Classes of objects, arrays and groups."""
import inspect
import pickle

from .._telpher import ffi, lib
from .constants import ASYNC, OBJECT_CLASS, PLAIN, WAITS
from .proxy import Proxy, classes
from .runtime import charm

class Chare:
    """Base of classes of objects. Every method may be called by proxies.

    thisIndex: of the element, a tuple. thisProxy: the array or group that it is in.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        names = sorted(name for name in dir(cls) if not name.startswith("__") and callable(getattr(cls, name))
                       and name not in Chare.__dict__)
        cls._telpher_name = f"{cls.__module__}.{cls.__qualname__}"
        cls._telpher_methods = [(name, getattr(cls, name), how(getattr(cls, name))) for name in names]
        cls._telpher_numbers = {name: number for number, name in enumerate(names)}
        classes[cls._telpher_name] = cls

    def __new__(cls, *what, onPE=-1, args=()):
        if cls is Chare:  # Chare(Class) makes one object, and gives its proxy
            return _create_one(what[0], onPE, args)
        if charm._making is None:
            raise TypeError(f"{cls.__name__}: objects are made by Array, Group or Chare({cls.__name__})")
        self = super().__new__(cls)
        self.thisProxy, self.thisIndex = charm._making
        self._telpher_reductions = 0
        self._telpher_channels, self._telpher_opened = {}, {}
        return self

    def contribute(self, data, reducer, callback):
        """Contributes to the next reduction of this array. The result goes to @callback, a Future or a method
        of a proxy; reducer and callback are the same in all elements."""
        charm._reducers.contribute(self, data, reducer, callback)

    def reduce(self, callback, data=None, reducer=None):
        """contribute() with the arguments in Charm4py's other order."""
        self.contribute(data, reducer, callback)

    def allreduce(self, data=None, reducer=None):
        """Like contribute(); all elements get the result. @return a future"""
        return charm._reducers.all(self, data, reducer)

    def _telpher_result(self, number, value):
        charm._reducers.all_done(self, number, value)

    def __repr__(self):
        return f"{type(self).__name__}{list(self.thisIndex)}"


def how(method):
    """How a method runs."""
    if inspect.iscoroutinefunction(method):
        return ASYNC
    return WAITS if getattr(method, "_telpher_waits", False) else PLAIN


def _create_one(cls, pe, args):
    """One object: the only one of an array with an element for each process."""
    pe = charm.myPe() if pe == -1 else pe
    return _create(cls, 1, [charm.numPes()], args, pe)[pe]


def _create(cls, dims, extent, args, only=None):
    array = ffi.new("telpher_mdr_array *")
    params = pickle.dumps((bytes(charm._manager_bytes()), cls._telpher_name, tuple(args), only), 5)
    if len(params) > charm._params_max:
        raise ValueError(f"{len(params)} bytes of arguments for a constructor; at most {charm._params_max}: "
                         "send the rest by a method")
    if dims == 0:
        status = lib.telpher_mdr_group_create(charm._raw, OBJECT_CLASS, params, len(params), array)
    else:
        status = lib.telpher_mdr_array_create(charm._raw, OBJECT_CLASS, dims, ffi.new("int32_t[]", extent), params,
                                              len(params), array)
    charm._check(status)
    return Proxy(array[0], cls, owner=array)


def Array(cls, dims, args=()):
    """Creates an array of @cls: dims=8, or dims=(4, 4) for two dimensions, up to three. @return Proxy"""
    extent = list(dims) if isinstance(dims, (tuple, list)) else [dims]
    if not 1 <= len(extent) <= 3 or any(e < 1 for e in extent):
        raise ValueError(f"dims={dims}: one to three positive numbers")
    return _create(cls, len(extent), extent, args)


def Group(cls, args=()):
    """Creates a group of @cls: one object in each process. @return Proxy"""
    return _create(cls, 0, None, args)
