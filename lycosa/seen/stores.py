"""The stores by name, for those who let their user choose one.

    auto       `memory` up to its share of the memory, then `veuniq`; the default
    memory     a table in RAM, under 8 bytes per URL
    veuniq     many sorted files, one merged at a time
    drum       sorted files by range, all merged with their buckets in one pass
    mercator   one sorted file and one buffer

Each module is imported only when its store is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.files import Files
    from lycosa.seen.protocol import Merging

NAMES = ("auto", "memory", "veuniq", "drum", "mercator")
_LEAST = 1 << 20


class SeenOptions(msgspec.Struct, frozen=True):
    """How a crawl remembers its URLs."""

    store: str = "auto"
    memory: int = 512 << 20
    """Bytes of RAM that all stores of an agent share. `memory` alone is not held to it: it has no choice."""
    cache: int = 1 << 16
    """Entries of the URL cache, a power of two; 0 for none."""


def open_store(name: str, files: Files, memory: int) -> Merging:
    """A fresh store on `files`, using at most `memory` bytes of RAM (a MiB at least)."""
    memory = max(memory, _LEAST)
    if name == "auto":
        from lycosa.seen.auto import AutoSeen

        return AutoSeen(files, memory=memory)
    if name == "memory":
        from lycosa.seen.memory import MemorySeen

        return MemorySeen(files)
    if name == "veuniq":
        from lycosa.seen.veuniq import VeuniqSeen

        return VeuniqSeen(files, memory=memory)
    if name == "drum":
        from lycosa.seen.drum import DrumSeen

        return DrumSeen(files, memory=memory)
    if name == "mercator":
        from lycosa.seen.mercator import MercatorSeen

        return MercatorSeen(files, memory=memory)
    raise ConfigError(f"there is no store {name!r}; choose one of {', '.join(NAMES)}")
