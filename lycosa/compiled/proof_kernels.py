"""A kernel that is in every image; it takes, allocates and raises some of everything that kernels do.

No kernel returns an array: for that, as for raising, Numba imports all of itself during the call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lycosa.compiled import njit


@njit(cache=True, nogil=True)
def weigh(rows: Any, text: Any, factor: Any, least: Any) -> Any:
    """The sum of the rows and of the text's bytes, weighted; ValueError if that is too little."""
    total = np.uint64(0)
    for row in rows:
        total += np.uint64(row["weight"])
    copy = np.zeros(len(text), np.uint8)
    for i in range(len(text)):
        copy[i] = text[i]
    for byte in copy:
        total += np.uint64(byte)
    if total < least:
        raise ValueError("too little")
    return np.float64(total) * factor, len(copy)


_ROWS = np.array([(1, 2.0), (5, 3.0)], [("weight", np.uint32), ("other", np.float64)])


def prove() -> None:
    """Call the kernel; AssertionError if its result is wrong."""
    assert weigh(_ROWS, b"ab", 0.5, np.uint64(3)) == (100.5, 2)


def prove_raising() -> None:
    """As `prove`, for its exception: Numba is imported during the call."""
    try:
        weigh(_ROWS, b"", 0.5, np.uint64(30))
    except ValueError as error:
        assert str(error) == "too little"
    else:
        raise AssertionError("nothing was raised")
