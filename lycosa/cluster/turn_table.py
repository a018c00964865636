"""Turns of addresses and of hosts, as their owner keeps them. No I/O; the time is the owner's monotonic clock.

Hosts of different shards may share an address, and an address gets one connection at a time and a short wait
after it, also when two agents want it. So every address belongs to a shard, by hash, and the shard's holder keeps
its turns:

- a turn is granted for a time, the *expiry*: an asker that dies does not block the address for ever;
- the asker counts it from when it **asked**, the owner from when it **granted**, which is later: so the turn is
  over for the asker before it is over for the owner;
- an asker that ends a turn early tells the owner, and the address rests for its wait;
- an owner that hands over in good order leaves the turns that are out, with the seconds that each may still
  last, to the next one, who continues from there; a new owner who was left nothing grants none for one expiry.

A robots.txt may redirect to any host of the web, and a host, too, is asked by one connection at a time. Its shard's
frontier has its turn (`HostTable`): a turn not given back in time ends by itself, and the host then rests.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import xxhash

_SWEEP = 1_024
_LEFT = 2_000
_DAY = 86_400.0


Left = dict[str, tuple[str, float]]
"""By address: the asker that has its turn ("" nobody: it rests), and for how many seconds at most."""


class Granted(NamedTuple):
    """The address is the asker's for this many seconds from when it asked."""

    seconds: float


class Later(NamedTuple):
    """Not now; ask again in this many seconds."""

    seconds: float


def owner_of(address: str, shards: int) -> int:
    """The shard that keeps an address's turns."""
    return int(xxhash.xxh64_intdigest(address.encode()) % shards)


class TurnTable:
    """The turns of the addresses of one shard."""

    def __init__(self, since: float, *, expiry: float, wait: float, left: Left | None = None) -> None:
        """`since`: when we became the owner; `left`: the turns that the previous owner left, None if unknown."""
        self._opens = since + expiry if left is None else since
        self._expiry = expiry
        self._wait = wait
        # The asker that has it ("" nobody), and when it is free again.
        self._turns = {
            address: (who, since + min(max(seconds, 0.0), expiry))
            for address, (who, seconds) in (left or {}).items()
        }
        self._closed = False

    def ask(self, address: str, who: str, now: float) -> Granted | Later:
        """A turn at an address for `who` (a name of this turn alone: a repeated request is the same turn)."""
        if self._closed:
            return Later(self._wait)
        if now < self._opens:
            return Later(self._opens - now)
        holder, free = self._turns.get(address, ("", now))
        if now < free and holder != who:
            return Later(free - now)
        if len(self._turns) >= _SWEEP and address not in self._turns:
            self._sweep(now)
        self._turns[address] = (who, now + self._expiry)
        return Granted(self._expiry)

    def give_back(self, address: str, who: str, now: float, ready: float = 0.0) -> None:
        """The turn is over; the address rests for its wait. Ignored if the turn is another's by now."""
        holder, _ = self._turns.get(address, ("", 0.0))
        if holder == who:
            self._turns[address] = ("", now + self._wait)

    def close(self) -> None:
        """Grant no more: the shard is about to be handed over. Turns are still given back."""
        self._closed = True

    def out(self, now: float) -> int:
        """How many turns are out."""
        return sum(1 for who, until in self._turns.values() if who and until > now)

    def leave(self, now: float) -> Left | None:
        """The turns for the next owner; None if they are too many, or not known to us."""
        if now < self._opens:
            return None
        self._sweep(now)
        if len(self._turns) > _LEFT:
            return None
        return {address: (who, until - now) for address, (who, until) in self._turns.items()}

    def _sweep(self, now: float) -> None:
        self._turns = {address: turn for address, turn in self._turns.items() if turn[1] > now}

    def __len__(self) -> int:
        return len(self._turns)


class Owned(Protocol):
    """The hosts of a shard."""

    def claim(self, host: str, now: float) -> bool: ...
    def end(self, host: str, ready: float) -> None: ...


class HostTable:
    """The turns that other shards have at the hosts of one shard."""

    def __init__(self, hosts: Owned, *, expiry: float, wait: float) -> None:
        """`expiry`: seconds after which a turn that was not given back is over; `wait`: the host's rest after
        that."""
        self._hosts = hosts
        self._expiry = expiry
        self._wait = wait
        self._given: dict[str, tuple[str, float]] = {}  # the asker, and until when

    def ask(self, host: str, who: str, now: float) -> Granted | Later:
        granted = self._hosts.claim(host, now)
        if not granted:
            return Later(0.0)
        self._given[host] = (who, now + self._expiry)
        return Granted(self._expiry)

    def give_back(self, host: str, who: str, now: float, ready: float = 0.0) -> None:
        """The turn is over, and the host may be asked again in `ready` seconds."""
        if self._given.get(host, ("", 0.0))[0] == who:
            del self._given[host]
            self._hosts.end(host, now + min(max(ready, 0.0), _DAY))

    def end_late(self, now: float) -> None:
        """End turns that were not given back in time."""
        for host in [host for host, (_, until) in self._given.items() if until <= now]:
            del self._given[host]
            self._hosts.end(host, now + self._wait)
