# SPDX-License-Identifier: Apache-2.0
"""Classes of objects, arrays and groups."""
import functools
import inspect
import sys
from typing import Any, Callable, Iterable, Optional, Sequence, Union

from .._telpher import ffi, lib
from . import moves
from .conditions import add as add_condition
from .constants import ASYNC, CALL, CONDITIONAL, HIDDEN, MOBILE_CLASS, OBJECT_CLASS, PLAIN, SYNC, WAITS
from .proxy import Proxy, classes, creation, index_tuple
from .runtime import charm
from .waiting import Future, wait_for


def fill_table(cls, names):
    """The methods of a class, by number."""
    cls._telpher_methods = [(name, getattr(cls, name), how(getattr(cls, name))) for name in names]
    cls._telpher_init = cls.__init__, how(cls.__init__)
    cls._telpher_numbers = {name: number for number, name in enumerate(names)}
    classes[cls._telpher_name] = cls


class Chare:
    """Base of classes of objects. Every method may be called by proxies.

    thisIndex: of the element of an array a tuple, of a group a number. thisProxy: the array or group that it is in, or
    itself if it was made by Chare(Class).
    """

    _telpher_entry = CALL

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        names = sorted(name for name in dir(cls) if not name.startswith("__") and callable(getattr(cls, name))
                       and getattr(cls, name) is not getattr(Chare, name, None))
        cls._telpher_name = f"{cls.__module__}.{cls.__qualname__}"
        fill_table(cls, [*HIDDEN, "migrate", "ckDestroy", *names])
        cls._telpher_may_move = cls.migrated is not Chare.migrated

    def __new__(cls, *what: Any, onPE: int = -1, args: Iterable = ()):
        if cls is Chare:  # Chare(Class) makes one object, and gives its proxy
            return _create_one(what[0], onPE, args)
        if charm._making is None:
            raise TypeError(f"{cls.__name__}: objects are made by Array, Group or Chare({cls.__name__})")
        self = super().__new__(cls)
        self.thisProxy, self.thisIndex = charm._making
        self._telpher_reductions, self._telpher_conditions = {}, None
        self._telpher_channels, self._telpher_opened = {}, {}
        self._telpher_mobile, self._telpher_ns, self._telpher_suspended = False, 0, 0
        self._telpher_target = self._telpher_held = None
        self._telpher_stays = False
        return self

    def contribute(self, data: Any, reducer: Optional[str], callback: Callable, section: Optional[Proxy] = None) -> None:
        """Contributes to the next reduction of this array, or of @section. The result goes to @callback, a Future or
        a method of a proxy; reducer and callback are the same in all elements."""
        charm._reducers.contribute(self, data, reducer, callback, section)

    def reduce(self, callback: Callable, data: Any = None, reducer: Optional[str] = None,
               section: Optional[Proxy] = None) -> None:
        """contribute() with the arguments in Charm4py's other order."""
        self.contribute(data, reducer, callback, section)

    def allreduce(self, data: Any = None, reducer: Optional[str] = None, section: Optional[Proxy] = None) -> Future:
        """Like contribute(); all elements get the result. @return a future"""
        return charm._reducers.all(self, data, reducer, section)

    def wait(self, condition: str) -> None:
        """Waits in a @coro method until @condition holds: an expression of self and of names of the caller's module. It
        is evaluated after each method of the object."""
        holds = functools.partial(eval, compile(condition, f"<wait {condition!r}>", "eval"), sys._getframe(1).f_globals,
                                  {"self": self})
        if not holds():
            wait_for(lambda resume: add_condition(self, lambda: holds() and (resume() or True)))

    def migrate(self, toPe: int) -> None:
        """Moves this object to process @toPe when its methods have ended; attributes and the messages of its channels
        are pickled. Objects of Array(…, useAtSync=True) and of classes with a method migrated() may move."""
        moves.want(self, toPe)

    def migrated(self) -> None:
        """Called after a move; for classes to define."""

    def ckDestroy(self) -> None:
        """Ends this object, an element of an array without dims, when its methods have ended. Calls that it has not begun
        are dropped; later ones wait until its index is inserted again."""
        moves.want_end(self)

    def AtSync(self) -> None:
        """Waits for the other objects of the array, which was made with useAtSync=True. TELPHER_MDR_BALANCER then spreads
        them by their processor time, and resumeFromSync() runs in each. End the method after this call."""
        moves.want(self, SYNC)

    def setMigratable(self, migratable: bool) -> None:
        """Whether the balancer may move this object: AtSync(). migrate() moves it in any case."""
        self._telpher_stays = not migratable

    def resumeFromSync(self) -> None:
        """Called when the objects are spread; for classes to define."""

    def _telpher_result(self, collection, number, value):
        charm._reducers.all_done(self, collection, number, value)

    def _telpher_nothing(self):
        pass

    def _telpher_apply(self, function):
        return function(self)

    def __repr__(self):
        return f"{type(self).__name__}{list(index_tuple(self.thisIndex))}"


def how(method):
    """How a method runs."""
    condition = CONDITIONAL if hasattr(method, "_telpher_when") else 0
    if inspect.iscoroutinefunction(method):
        return ASYNC | condition
    return (WAITS if getattr(method, "_telpher_waits", False) else PLAIN) | condition


class ArrayMap(Chare):
    """Base of classes whose groups say where the elements of arrays are made: Array(Class, 8, map=Group(MyMap))."""

    def procNum(self, index: tuple) -> int:
        """The process of an element; for classes to define. It does not wait."""
        raise NotImplementedError(f"{type(self).__name__} defines no procNum()")


def _create_one(cls, pe, args):
    """One object: the only one of an array with an element for each process."""
    pe = charm.myPe() if pe == -1 else pe
    if not 0 <= pe < charm.numPes():
        raise ValueError(f"onPE={pe}: there are {charm.numPes()} processes")
    return _create(cls, 1, [charm.numPes()], args, pe)[pe]


def _create_sparse(cls, array_map):
    array = ffi.new("telpher_mdr_array *")
    charm._check(lib.telpher_mdr_sparse_create(charm._raw, OBJECT_CLASS, 2, array))
    return Proxy(array[0], cls, owner=array, array_map=array_map)


def _create(cls, dims, extent, args, only=None, class_id=OBJECT_CLASS, array_map=None):
    array = ffi.new("telpher_mdr_array *")
    params = creation(cls, args, only, None, array_map)
    if dims == 0:
        status = lib.telpher_mdr_group_create(charm._raw, OBJECT_CLASS, params, len(params), array)
    else:
        status = lib.telpher_mdr_array_create(charm._raw, class_id, dims, ffi.new("int32_t[]", extent), params,
                                              len(params), array)
    charm._check(status)
    return Proxy(array[0], cls, owner=array)


def Array(cls: type, dims: Union[int, Sequence[int], None] = None, ndims: int = -1, args: Iterable = (),
          map: Optional[Proxy] = None, useAtSync: bool = False) -> Proxy:
    """Creates an array of @cls: dims=8, or dims=(4, 4) for two dimensions, up to three. @return Proxy

    Without dims it begins empty: proxy.ckInsert() adds elements, whose indexes are any numbers, texts or tuples; ndims is
    ignored. map: a group of an ArrayMap, which says where elements are made. useAtSync: its objects may move, and be spread
    by a balancer: AtSync().
    """
    if map is not None and not issubclass(map._cls, ArrayMap):
        raise TypeError(f"map={map!r}: Group(Class) of a class derived from ArrayMap")
    if dims is None:
        return _create_sparse(cls, map)
    extent = list(dims) if isinstance(dims, (tuple, list)) else [dims]
    if not 1 <= len(extent) <= 3 or any(e < 1 for e in extent):
        raise ValueError(f"dims={dims}: one to three positive numbers; for more dimensions insert elements, whose indexes "
                         "have any length, into an array without dims")
    may_move = useAtSync or cls._telpher_may_move or map is not None
    return _create(cls, len(extent), extent, args, class_id=MOBILE_CLASS if may_move else OBJECT_CLASS, array_map=map)


def Group(cls: type, args: Iterable = ()) -> Proxy:
    """Creates a group of @cls: one object in each process. @return Proxy"""
    return _create(cls, 0, None, args)
