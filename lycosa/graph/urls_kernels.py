"""Front-coded keys, compiled; `lycosa.graph.urls` has the layout.

`check` trusts nothing; the others trust `check`.
"""

from __future__ import annotations

import numpy as np

from lycosa.compiled import njit


@njit(cache=True, nogil=True)
def _put(out, at, value):  # type: ignore[no-untyped-def]
    while value >= 128:
        out[at] = (value & 127) | 128
        at += 1
        value >>= 7
    out[at] = value
    return at + 1


@njit(cache=True, nogil=True)
def _get(data, at):  # type: ignore[no-untyped-def]
    """A varint that is known to be good, and the place behind it."""
    value = np.int64(data[at])
    at += 1
    if value < 128:
        return value, at
    value &= 127
    shift = 7
    while True:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


@njit(cache=True, nogil=True)
def _try(data, at, end):  # type: ignore[no-untyped-def]
    """A varint of unknown bytes; −1 if it is none of at most 28 bits."""
    value = np.int64(0)
    shift = 0
    while at < end and shift < 28:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return np.int64(-1), at


@njit(cache=True, nogil=True)
def encode(keys, starts, count, block, out, offsets):  # type: ignore[no-untyped-def]
    """Front-code keys 1 … of `keys` (key 0 is the one before them); the first of them has number `count`.

    Returns the bytes written (−1 if keys do not ascend) and how many blocks began; offsets[b] is where.
    """
    at = np.int64(0)
    begun = 0
    for i in range(1, len(starts) - 1):
        a, a_end = starts[i - 1], starts[i]
        b, b_end = starts[i], starts[i + 1]
        shared = np.int64(0)
        most = min(a_end - a, b_end - b)
        while shared < most and keys[a + shared] == keys[b + shared]:
            shared += 1
        if count > 0 and (
            shared == b_end - b or (shared < a_end - a and keys[a + shared] > keys[b + shared])
        ):
            return np.int64(-1), begun
        if count % block == 0:
            offsets[begun] = at
            begun += 1
            shared = np.int64(0)
        else:
            at = _put(out, at, shared)
        at = _put(out, at, b_end - b - shared)
        for j in range(b + shared, b_end):
            out[at] = keys[j]
            at += 1
        count += 1
    return at, begun


@njit(cache=True, nogil=True)
def whole_end(data, at, end):  # type: ignore[no-untyped-def]
    """The place behind a whole key at `at`, or −1 if it does not end before `end`."""
    size, at = _try(data, at, end)
    return at + size if size >= 0 and at + size < end else np.int64(-1)


@njit(cache=True, nogil=True)
def check(data, offsets, count, block, most, before):  # type: ignore[no-untyped-def]
    """Are these `count` keys, ascending from `before`, in blocks at these offsets? The longest length, or −1.

    `before` is empty at the beginning of a table.
    """
    end = len(data)
    previous = np.empty(max(256, len(before)), dtype=np.uint8)
    length = np.int64(len(before))
    previous[:length] = before
    longest = np.int64(0)
    at = np.int64(0)
    for i in range(count):
        shared = np.int64(0)
        if i % block == 0:
            if offsets[i // block] != at:
                return np.int64(-1)
        else:
            shared, at = _try(data, at, end)
        size, at = _try(data, at, end)
        if shared < 0 or shared > length or size < 0 or at + size > end or shared + size > most:
            return np.int64(-1)
        if shared + size > len(previous):
            larger = np.empty(2 * (shared + size), dtype=np.uint8)
            larger[:length] = previous[:length]
            previous = larger
        if i > 0 or len(before) > 0:
            # Ascending: the first byte that differs is larger, or there is more where the one before ended.
            same = np.int64(0)
            while same < size and shared + same < length and previous[shared + same] == data[at + same]:
                same += 1
            if same == size or (shared + same < length and previous[shared + same] > data[at + same]):
                return np.int64(-1)
            if same > 0 and i % block != 0:
                return np.int64(-1)  # more is shared than is said, which a search relies on
        for j in range(size):
            previous[shared + j] = data[at + j]
        length = shared + size
        longest = max(longest, length)
        at += size
    return longest if at == end else np.int64(-1)


@njit(cache=True, nogil=True)
def search(data, offsets, packed, count, block, keys, starts, out):  # type: ignore[no-untyped-def]
    """The number of each key, or −1; −2−b if it can only be in block b, which is compressed."""
    blocks = len(offsets)
    for q in range(len(starts) - 1):
        k = starts[q]
        k_end = starts[q + 1]
        out[q] = -1
        # The last block whose first key is not above this one. What both ends of the search range share with
        # the key, everything between them shares too.
        low = 0
        high = blocks
        low_shared = np.int64(0)
        high_shared = np.int64(0)
        exact = False
        while low < high:
            middle = (low + high) >> 1
            size, at = _get(data, offsets[middle])
            shared = min(low_shared, high_shared)
            most = min(size, k_end - k)
            while shared < most and data[at + shared] == keys[k + shared]:
                shared += 1
            if shared == size and shared == k_end - k:
                out[q] = middle * block
                exact = True
                break
            if shared == size or (shared < k_end - k and data[at + shared] < keys[k + shared]):
                low = middle + 1
                low_shared = shared
            else:
                high = middle
                high_shared = shared
        if exact or low == 0:
            continue
        if packed[low - 1]:
            out[q] = -2 - (low - 1)
            continue
        number = (low - 1) * block
        size, at = _get(data, offsets[low - 1])
        at += size
        matched = low_shared  # bytes that the key shares with the entry before; that entry is below it
        for i in range(1, min(block, count - number)):
            shared, at = _get(data, at)
            size, at = _get(data, at)
            if shared < matched:
                break  # above the key
            if shared == matched:
                j = np.int64(0)
                most = min(size, k_end - k - matched)
                while j < most and data[at + j] == keys[k + matched + j]:
                    j += 1
                if matched + j == k_end - k:
                    if j == size:
                        out[q] = number + i
                    break
                if j < size and data[at + j] > keys[k + matched + j]:
                    break
                matched += j
            at += size


@njit(cache=True, nogil=True)
def decode(data, offsets, block, wanted, done, filled, room, out, starts):  # type: ignore[no-untyped-def]
    """The keys of the wanted numbers from index `done` on, side by side in `out` from `filled` on.

    Stops when `out` is full; returns how many are done and the bytes filled. A run of consecutive numbers is
    read in one go.
    """
    at = np.int64(0)
    next_number = np.int64(-1)  # the number whose entry is at `at`, if `room` holds the key before it
    length = np.int64(0)
    while done < len(wanted):
        number = wanted[done]
        if next_number < 0 or number < next_number or number // block != next_number // block:
            next_number = number // block * block
            at = offsets[number // block]
        while next_number <= number:
            shared = np.int64(0)
            if next_number % block != 0:
                shared, at = _get(data, at)
            size, at = _get(data, at)
            for j in range(size):
                room[shared + j] = data[at + j]
            at += size
            length = shared + size
            next_number += 1
        if filled + length > len(out):
            return done, filled
        for j in range(length):
            out[filled + j] = room[j]
        filled += length
        done += 1
        starts[done] = filled
    return done, filled


@njit(cache=True, nogil=True)
def hosts(data, count, block, room, out):  # type: ignore[no-untyped-def]
    """The numbers at which a new host begins, as far as `out` holds them; returns how many there are.

    A key's host ends at its space; all keys that begin with "!" count as of one host.
    """
    found = 0
    at = np.int64(0)
    host_end = np.int64(-1)  # bytes of the host, space included, of the key before; 1 for "!"
    length = np.int64(0)
    for i in range(count):
        shared = np.int64(0)
        if i % block != 0:
            shared, at = _get(data, at)
        size, at = _get(data, at)
        if i % block == 0:
            # A block's first key is whole: compare it with the one before.
            while shared < size and shared < length and room[shared] == data[at + shared]:
                shared += 1
            for j in range(shared, size):
                room[j] = data[at + j]
            length = size
        else:
            for j in range(size):
                room[shared + j] = data[at + j]
            length = shared + size
        at += size
        if host_end < 0 or shared < host_end:
            if found < len(out):
                out[found] = i
            found += 1
            host_end = np.int64(1)
            if length > 0 and room[0] != 33:
                host_end = np.int64(0)
                while host_end < length and room[host_end] != 32:
                    host_end += 1
                host_end += 1
    return found
