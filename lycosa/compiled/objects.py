"""A loader of object files without LLVM: for ELF on x86-64, as Numba's compiler makes them.

Numba compiles for a code model in which referenced symbols may be anywhere: each reference is an address of 64 bits
that is filled in when the code is loaded (R_X86_64_64), in code and in constants. Loading such a file means copying
its sections, filling in the addresses, and making the pages of code executable; no page is both writable and
executable. Undefined symbols are looked up among Numba's helpers and the interpreter's own symbols.

An object is self-contained: it has its own copies of the kernels that its kernel calls, and its own place for each
environment. Unwinding tables are left out: nothing is thrown through a kernel.

`Unfit` is raised if an object contains anything else; LLVM loads it then.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Mapping
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")
_IDENTITY = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELA, _EMPTY, _REL, _UNWINDING = 2, 4, 8, 9, 0x70000001
_WRITTEN, _IN_MEMORY = 1, 2
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
_ABSOLUTE_64 = 1
_ALL = (1 << 64) - 1


class Unfit(Exception):  # noqa: N818 - no error: another loader takes it
    """An object file that cannot be loaded here."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def loadable_here() -> bool:
    """Whether objects of this machine are of the kind that can be loaded here."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32


class Loaded:
    """An object that was loaded into memory; it is never removed."""

    def __init__(self, data: bytes, helpers: Mapping[str, int]) -> None:
        if len(data) < _HEADER.size:
            raise Unfit("too short")
        identity, kind, machine, *_, at, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
        if identity[:7] != _IDENTITY or (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
            raise Unfit("not an object file for this machine")
        self._data = data
        self._sections = [_Section(*_SECTION.unpack_from(data, at + size * n)) for n in range(count)]
        tables = [section for section in self._sections if section.kind == _SYMBOLS]
        if len(tables) != 1:
            raise Unfit("not one table of symbols")
        self._symbols: list[tuple[int, ...]] = list(_SYMBOL.iter_unpack(self._content(tables[0])))
        self._strings = self._content(self._sections[tables[0].link])
        self._places: dict[int, int] = {}
        self._commons: dict[int, int] = {}
        self._lay_out()
        self._fill(helpers)
        self._make_executable()
        self.symbols = {self._name(symbol[0]): self._at(n, {}) for n, symbol in self._defined()}

    def _content(self, section: _Section) -> bytes:
        return self._data[section.offset : section.offset + section.size]

    def _name(self, at: int) -> str:
        return self._strings[at : self._strings.index(b"\0", at)].decode()

    def _defined(self) -> list[tuple[int, tuple[int, ...]]]:
        """The symbols of the object that have a name and a place."""
        return [
            (n, symbol)
            for n, symbol in enumerate(self._symbols)
            if symbol[0] and (symbol[3] == _COMMON or symbol[3] in self._places)
        ]

    def _lay_out(self) -> None:
        """Assign a place to each section and common symbol: first read-only and code, then writable ones."""
        end = 0
        for written in (0, _WRITTEN):
            end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
            if written:
                self._executable = end
            for number, section in enumerate(self._sections):
                here = section.flags & _IN_MEMORY and section.kind != _UNWINDING
                if here and section.flags & _WRITTEN == written:
                    end = -(-end // max(section.alignment, 1)) * max(section.alignment, 1)
                    self._places[number] = end
                    end += section.size
        for number, (_, _, _, where, alignment, size) in enumerate(self._symbols):
            if where == _COMMON:
                end = -(-end // alignment) * alignment
                self._commons[number] = end
                end += size
        self._memory = mmap.mmap(-1, max(end, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for number, place in self._places.items():
            section = self._sections[number]
            if section.kind != _EMPTY:
                self._memory[place : place + section.size] = self._content(section)

    def _at(self, number: int, helpers: Mapping[str, int]) -> int:
        """The address of a symbol."""
        name, _, _, where, value, _ = self._symbols[number]
        if where == _COMMON:
            return self._base + self._commons[number]
        if where == _ABSOLUTE:
            return value
        if where != _UNDEFINED:
            if where not in self._places:
                raise Unfit(f"a symbol in section {where}")
            return self._base + self._places[where] + value
        wanted = self._name(name)
        if wanted in helpers:
            return helpers[wanted]
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, wanted))
        except ValueError:
            raise Unfit(f"no symbol {wanted}") from None

    def _fill(self, helpers: Mapping[str, int]) -> None:
        for section in self._sections:
            if section.kind not in (_RELA, _REL) or section.info not in self._places:
                continue
            if section.kind == _REL:
                raise Unfit("references without addends")
            start = self._places[section.info]
            for offset, info, addend in _RELOCATION.iter_unpack(self._content(section)):
                if info & 0xFFFFFFFF != _ABSOLUTE_64:
                    raise Unfit(f"a reference of kind {info & 0xFFFFFFFF}")
                address = (self._at(info >> 32, helpers) + addend) & _ALL
                _ADDRESS.pack_into(self._memory, start + offset, address)

    def _make_executable(self) -> None:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if self._executable and protect(self._base, self._executable, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unfit(f"no executable memory: error {ctypes.get_errno()}")
