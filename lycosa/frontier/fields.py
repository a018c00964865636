"""Named fields: numbers that kernels and Python share, in one array of int64.

A kernel is passed the array: passing an array of records takes Numba nearly twice as long, and a record 14 times
(`docs/decisions.md`). A subclass of `Fields` names the fields by annotating them in their order. Python reads and
writes them as attributes. A kernel views the array as a record (`field_kernels.start`), which costs nothing once
compiled; a kernel that uses an unknown name does not compile.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


class Fields:
    """Python's view of an array of numbers; see the module's docstring."""

    NAMES: ClassVar[list[str]]

    def __init_subclass__(cls) -> None:
        cls.NAMES = [name for name, kind in cls.__annotations__.items() if kind == "int"]
        for at, name in enumerate(cls.NAMES):
            setattr(cls, name, _field(at))

    def __init__(self, words: NDArray[np.int64]) -> None:
        self._words = words.data


def _field(at: int) -> Any:
    def get(fields: Fields) -> int:
        number: int = fields._words[at]
        return number

    def put(fields: Fields, number: int) -> None:
        fields._words[at] = number

    return property(get, put)
