"""Turns of addresses, as the owner of an address keeps them. No I/O; the time is the owner's monotonic clock.

Hosts of different shards may share an address, and an address gets one connection at a time and a short wait
after it, also when two agents want it. So every address belongs to a shard, by hash, and the shard's holder keeps
its turns:

- a turn is granted for a time, the *expiry*: an asker that dies does not block the address for ever;
- the asker counts it from when it **asked**, the owner from when it **granted**, which is later: so the turn is
  over for the asker before it is over for the owner;
- whoever gives a turn back early says so, and the address rests for its wait;
- a new owner knows nothing of turns granted before it, so it grants none for one expiry.
"""

from __future__ import annotations

from typing import NamedTuple

import xxhash

_SWEEP = 1_024


class Granted(NamedTuple):
    """The address is the asker's for so many seconds from when it asked."""

    seconds: float


class Later(NamedTuple):
    """Not now; ask again in so many seconds."""

    seconds: float


def owner_of(address: str, shards: int) -> int:
    """The shard that keeps an address's turns."""
    return int(xxhash.xxh64_intdigest(address.encode()) % shards)


class TurnTable:
    """The turns of the addresses of one shard."""

    def __init__(self, since: float, *, expiry: float, wait: float) -> None:
        """`since`: when we became the owner."""
        self._opens = since + expiry
        self._expiry = expiry
        self._wait = wait
        self._turns: dict[str, tuple[str, float]] = {}  # who has it ("" nobody), and when it is free again

    def ask(self, address: str, who: str, now: float) -> Granted | Later:
        """A turn at an address for `who` (one turn's own name: a repeated request is the same turn)."""
        if now < self._opens:
            return Later(self._opens - now)
        holder, free = self._turns.get(address, ("", now))
        if now < free and holder != who:
            return Later(free - now)
        if len(self._turns) >= _SWEEP and address not in self._turns:
            self._sweep(now)
        self._turns[address] = (who, now + self._expiry)
        return Granted(self._expiry)

    def give_back(self, address: str, who: str, now: float) -> None:
        """The turn is over; the address rests for its wait. Not if it is another's by now."""
        holder, _ = self._turns.get(address, ("", 0.0))
        if holder == who:
            self._turns[address] = ("", now + self._wait)

    def _sweep(self, now: float) -> None:
        self._turns = {address: turn for address, turn in self._turns.items() if turn[1] > now}

    def __len__(self) -> int:
        return len(self._turns)
