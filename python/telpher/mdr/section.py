# SPDX-License-Identifier: Apache-2.0
"""Sections: some elements of an array or a group, with broadcasts and reductions of their own."""
import itertools

from .._telpher import ffi, lib
from .constants import APPLY, OF_SECTION
from .proxy import SIZE_OF_PROXY, Proxy, class_of, index_at, index_tuple
from .runtime import charm


class Section(Proxy):
    """Names some elements of a collection, in every process: a call is one of all of them."""

    def __init__(self, raw, cls, members, section, owner=None):
        super().__init__(raw, cls, owner=owner)
        self._indexes, self._section = members, section

    def __getitem__(self, index):
        whole = Proxy(self._raw, self._cls, owner=self._owner)
        if any(isinstance(at, slice) for at in index_tuple(index)):
            raise TypeError("a section cannot be sliced: slice the array, or use charm.split()")
        if index_tuple(index) not in self._indexes:
            raise IndexError(f"index {index_tuple(index)} is not in the section")
        return whole[index]

    def __reduce__(self):
        return section_of, (bytes(ffi.buffer(ffi.addressof(self._raw))), self._cls._telpher_name, self._indexes,
                            self._section)

    def __eq__(self, other):
        return isinstance(other, Section) and (self._raw.id, self._section) == (other._raw.id, other._section)

    def __hash__(self):
        return hash((self._raw.id, self._section))

    def __repr__(self):
        return f"<section of {self._cls.__name__}, {len(self)} elements>"

    def _count(self):
        return len(self._indexes)

    @property
    def _number(self):
        return OF_SECTION | self._section

    def _members(self):
        return self._indexes

    def _broadcast(self, entry, params):
        raw = ffi.new("telpher_mdr_section *")
        raw.array, raw.number = self._raw, self._section
        return lib.telpher_mdr_section_broadcast, charm._raw, raw, entry, params, len(params)


def section_of(raw, name, members, number):
    array = ffi.new("telpher_mdr_array *")
    ffi.memmove(array, raw, SIZE_OF_PROXY)
    return Section(array[0], class_of(name), members, number, owner=array)


def create(proxy, members):
    """A section of @members, tuples; at least one."""
    members = list(dict.fromkeys(members))
    raw, out = ffi.new("telpher_mdr_index[]", len(members)), ffi.new("telpher_mdr_section *")
    for i, index in enumerate(members):
        proxy[index]  # raises if there is none
        raw[i] = index_at(index, proxy._raw)
    charm._check(lib.telpher_mdr_section_create(charm._raw, ffi.addressof(proxy._raw), raw, len(members), out))
    return Section(proxy._raw, proxy._cls, members, out.number, owner=proxy._owner)


def slice_of(proxy, index, extent):
    ranges = [range(*at.indices(size)) if isinstance(at, slice) else (at,) for at, size in zip(index, extent)]
    members = list(itertools.product(*ranges))
    if not members:
        raise IndexError(f"no element is in {index}: the extent is {tuple(extent)}")
    return create(proxy, members)


def split(proxy, count, function, elems):
    """charm.split()"""
    if (function is None) == (elems is None):
        raise ValueError("charm.split() needs section_func or elems, and not both")
    if elems is not None and count == 1 and len(elems) > 0 and index_tuple(elems[0]) in proxy._members():
        elems = [elems]  # one section may be named by its members alone
    if elems is None:
        elems = [[] for _ in range(count)]
        for index, numbers in zip(sorted(proxy._members()), proxy._call_number(APPLY, (function,), ret=True).get()):
            for number in numbers if isinstance(numbers, (list, tuple, set)) else (numbers,):
                if number >= 0:
                    elems[number].append(index)
    if len(elems) != count:
        raise ValueError(f"elems names {len(elems)} sections, not {count}")
    empty = [number for number, members in enumerate(elems) if not members]
    if empty:
        raise ValueError(f"section {empty[0]} has no members")
    return [create(proxy, map(index_tuple, members)) for members in elems]
