"""The shards of one agent, by number, and the options that all of them crawl under.

A shard is here from `add` to `remove`, or until it is lost. While *leaving*, no visit of it begins and no thread
begins to read its files, while those under way end. A *lost* shard is another agent's by now: nothing of it is
written any more, and it is kept only until everything that was under way with it has ended (`settle`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from lycosa.clock import Clock, milliseconds
from lycosa.crawl.config import Options, decode_options, encode_options
from lycosa.crawl.shard import Shard
from lycosa.crawl.splitting import Splitter
from lycosa.crawl.steered import Steered
from lycosa.records import Configured
from lycosa.url.parts import host_of


class ShardSet(Sequence[Shard]):
    """The shards of one agent; see the module."""

    def __init__(self, options: Options, splitter: Splitter, clock: Clock) -> None:
        self.options = options
        self.splitter = splitter
        self._clock = clock
        self._here: list[Shard] = []
        self._leaving: set[int] = set()
        self._lost: set[Shard] = set()

    @overload
    def __getitem__(self, row: int) -> Shard: ...
    @overload
    def __getitem__(self, row: slice) -> list[Shard]: ...
    def __getitem__(self, row: int | slice) -> Shard | list[Shard]:
        return self._here[row]

    def __len__(self) -> int:
        return len(self._here)

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._here)

    def find(self, number: int) -> Shard | None:
        """The shard of a number, if it is here."""
        if len(self._here) > number and self._here[number].number == number:
            return self._here[number]  # the agent has all shards, or the first few
        return next((shard for shard in self._here if shard.number == number), None)

    def of_host(self, host: str) -> Shard | None:
        """The shard of a host, if it is here."""
        return self.find(self.splitter.shard_of(host))

    def staying(self, host: str) -> Shard | None:
        """The shard of a host, if it is here and is not about to leave."""
        shard = self.of_host(host)
        return None if shard is None or self.is_leaving(shard.number) else shard

    def of_url(self, url: str) -> Shard | None:
        return self.of_host(host_of(url))

    # -- adding and removing shards

    def add(self, shard: Shard) -> None:
        """Add a recovered shard."""
        self._here.append(shard)
        self._here.sort(key=lambda each: each.number)

    def remove(self, shard: Shard) -> None:
        """Remove a shard: nothing is delivered to it any more; it is to be saved once more, alone."""
        if shard in self._here:
            self._here.remove(shard)

    def leave(self, number: int) -> None:
        """Start nothing with the shard any more, until it `stays` or has left."""
        self._leaving.add(number)

    def stay(self, number: int) -> None:
        self._leaving.discard(number)

    def is_leaving(self, number: int) -> bool:
        return number in self._leaving

    def lose(self, shard: Shard) -> None:
        """The shard is another agent's: nothing of it is written any more."""
        self._lost.add(shard)
        self.remove(shard)

    def is_lost(self, shard: Shard) -> bool:
        return shard in self._lost

    def settle(self, shard: Shard) -> None:
        """Nothing under way uses a lost shard any more."""
        self._lost.discard(shard)

    # -- options

    def configure(self, shard: Shard) -> None:
        """Log the present options in the shard, if they differ."""
        encoded = encode_options(self.options)
        if shard.options != encoded:
            before = decode_options(shard.options).steered if shard.options else Steered()
            acts = [
                (did.id, did.at, did.who, did.text)
                for did in self.options.steered.did
                if not before.has(did.id)
            ]
            shard.append(Configured(milliseconds(self._clock), encoded, acts))

    def reconfigure(self, options: Options) -> None:
        """Set changed options, and log them, with their author, in every shard."""
        self.options = options
        for shard in self._here:
            self.configure(shard)
