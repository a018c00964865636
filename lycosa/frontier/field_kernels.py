"""For kernels: access to the named fields of `fields.py`, and to arrays by their addresses."""

from __future__ import annotations

from typing import Any

from lycosa.compiled import Later, intrinsic

types: Any = Later("numba", "types")
cgutils: Any = Later("numba.core.cgutils")
arrayobj: Any = Later("numba.np.arrayobj")


def _as_pointer(typing_context: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


def _start_of(typing_context: Any, array: Any) -> Any:
    """Where an array's elements start."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        make = arrayobj.make_array(signature.args[0])
        data = make(context, builder, arguments[0]).data
        return builder.bitcast(data, cgutils.voidptr_t)

    return types.voidptr(array), generate


pointer: Any = intrinsic(_as_pointer)
start: Any = intrinsic(_start_of)
"""`carray(start(c), (1,), SOME_FIELDS)[0]` is the record of the fields in `c`: not to be returned, that copies."""
