"""Search over the engine: agents with the index of a shard answer, searchers ask with a time limit.

    answering = await answer(engine.requests, reader, "replica-a")      on the side of the index
    search = remote(engine.requests, loop, range(16), seconds=0.5)      on the side of the searcher, in a thread

Scores and order are those of one index over all the shards that answer (`lycosa.index.broker`); one that does not
is named in the result ("shard 3 did not answer in 0.5 s"), and is asked again the next time.

    subject   := "search." shard
    question  := [replica, stamp, method, arguments]        MessagePack
    answer    := zlib([OK, value] | [STALE, null] | [FAILED, message])

A method is one of `lycosa.index.reader.Shard`'s. Queries are sent as their parts, and are built where they
are answered. Addresses and counts of terms hold for one commit of one index, so a question names both: `open` is
answered by every replica, and the first answer chooses the replica for the rest of the search; the others do not
answer. A replica that has a newer commit answers STALE, and the searcher begins anew.

So a replica of a hot shard is one more process that answers for it, over an index of its own (each follows the log
by itself; commits need not be the same). An index is a fold over the log: the new holder of a shard makes it from
the log (`lycosa.cluster.indexer`), and answers once it is there. Until then it answers with its progress, as text:

    subject   := "indexing." shard
    answer    := text                                       UTF-8

Two questions are exchanged by indexers: `ready` (does anybody else answer for the shard?) and `best` (what do you
have of these contents?) are answered by every replica except the asker's, and name no commit.

**Ranks** of pages come with the hits, from the replicas that have them. All are from one rank file, which the
indexer of shard 0 makes of all shards' logs, and the others fetch. So they are those of one index over all shards.

Answers are computed on the event loop: use a process of its own for them, not that of a crawl. Of a page's text
the first `MOST_TEXT` characters are sent.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np
import tantivy

from lycosa.ask.indexing import Best, best_of
from lycosa.engine.protocol import Answering, Requests, Unavailable, got
from lycosa.errors import LycosaError, StorageError
from lycosa.index.query import Dates, Filter
from lycosa.index.ranks import RankFile
from lycosa.index.reader import Clause, Hit, Hits, Occurrences, ShardReader, SilentError, StaleError, Totals
from lycosa.index.schema import Page
from lycosa.index.search import Search

OK, STALE, FAILED = 0, 1, 2
MOST_TEXT = 200_000
SECONDS = 0.5
_AT_ONCE = 64
_AMONG = ("ready", "best")
"""Questions that indexers ask each other."""
_COPIES = 1_000
"""Documents of one content that are examined."""
_RANKS = 1_000_000
"""Ranks that a searcher remembers."""


def subject(shard: int) -> str:
    return f"search.{shard}"


def progress(shard: int) -> str:
    """The subject on which the progress of a shard's index can be asked."""
    return f"indexing.{shard}"


class Ready(msgspec.Struct, frozen=True, array_like=True):
    """A process that answers for a shard."""

    name: str
    holds: bool
    """Whether it is the holder of the shard."""


# -- on the side of the index


class Answers:
    """Answers for one shard."""

    def __init__(
        self,
        reader: ShardReader,
        replica: str,
        ranks: RankFile | None = None,
        holds: Callable[[], bool] = lambda: False,
    ) -> None:
        self._reader = reader
        self._replica = replica
        self._ranks = ranks
        self._holds = holds
        self._methods: dict[str, Callable[..., Any]] = {
            "dfs": reader.dfs,
            "counted": reader.counted,
            "near": reader.near,
            "top": self._top,
            "newest": self._newest,
            "occurrences": self._occurrences,
            "pages": self._pages,
            "copies": reader.copies,
            "column": self._column,
            "with_term": self._with_term,
        }

    def __call__(self, data: bytes) -> bytes | None:
        """The answer to a question; None, which is no answer, if it is meant for another replica."""
        replica, stamp, method, arguments = msgspec.msgpack.decode(data)
        if method != "open" and (replica == self._replica) is (method in _AMONG):
            return None
        try:
            if method == "open":
                found: list[Any] = [OK, self._open()]
            elif method in _AMONG:
                found = [OK, self._ready() if method == "ready" else self._best(*arguments)]
            elif stamp != self._stamp():
                found = [STALE, None]
            else:
                found = [OK, self._methods[method](*arguments)]
        except (LycosaError, OSError, ValueError, TypeError, KeyError) as error:
            found = [FAILED, str(error)]
        return zlib.compress(msgspec.msgpack.encode(found), 1)

    def _stamp(self) -> str:
        return f"{self._reader.stamp} {self._ranks.made if self._ranks is not None else 0}"

    def _open(self) -> Any:
        self._reader.reload()
        made = 0
        if self._ranks is not None:
            self._ranks.reload()
            made = self._ranks.made
        return self._replica, self._stamp(), self._reader.totals, self._reader.averages, made

    def _ready(self) -> Ready:
        return Ready(self._replica, self._holds())

    def _best(self, digests: list[int]) -> dict[int, Best]:
        self._reader.reload()
        found = {digest: best_of(self._reader.with_term("digest", digest, _COPIES)) for digest in digests}
        return {digest: best for digest, best in found.items() if best is not None}

    def _top(self, query: Any, most: int) -> Any:
        return self._plain(self._reader.top(self._made(query), most))

    def _newest(self, query: Any, most: int) -> Any:
        return self._plain(self._reader.newest(self._made(query), most))

    def _plain(self, found: Hits) -> Any:
        hits = found.rows
        ids = [hit.id for hit in hits]
        ranks = self._ranks(ids) if self._ranks is not None else [0.0] * len(ids)
        rows = [
            (hit.score, (hit.address.segment_ord, hit.address.doc), hit.id, rank)
            for hit, rank in zip(hits, ranks, strict=True)
        ]
        return rows, found.total

    def _occurrences(self, clauses: list[Any], hits: list[Any]) -> Any:
        made = [Hit(score, _address(at), identity) for score, at, identity in hits]
        found = self._reader.occurrences([_clause(*parts) for parts in clauses], made)
        return [(tf.tolist(), length.tolist()) for tf, length in found]

    def _pages(self, addresses: list[Any]) -> list[Page]:
        return [_short(self._reader.page(_address(at))) for at in addresses]

    def _column(self, name: str, addresses: list[Any]) -> list[int]:
        return self._reader.column(name, [_address(at) for at in addresses])

    def _with_term(self, field: str, value: str | int, most: int) -> list[Page]:
        return [_short(page) for page in self._reader.with_term(field, value, most)]

    def _made(self, query: Any) -> Any:
        kind, *parts = query
        reader = self._reader
        if kind == "boolean":
            return reader.boolean([(occur, self._made(part)) for occur, part in parts[0]])
        if kind == "clause":
            made = reader.clause(_clause(*parts[0]), parts[1])
            return tantivy.Query.empty_query() if made is None else made
        if kind == "matching":
            return reader.matching(_clause(*parts[0]))
        if kind == "everything":
            return reader.everything()
        return reader.filter(Dates(*parts) if kind == "dates" else Filter(*parts))


def _clause(field: str, terms: Any, boost: float, slop: int, alike: Any) -> Clause:
    return Clause(field, tuple(terms), boost, slop, tuple(map(tuple, alike)))


def _address(at: Sequence[int]) -> Any:
    return tantivy.DocAddress(*at)


def _short(page: Page) -> Page:
    return msgspec.structs.replace(page, text=page.text[:MOST_TEXT])


async def answer(
    requests: Requests,
    reader: ShardReader,
    replica: str,
    ranks: RankFile | None = None,
    holds: Callable[[], bool] = lambda: False,
) -> Answering:
    """Answer for the shard of a reader. `replica`: a name that is unique among the indexes of the shard."""
    return got(await requests.answer(subject(reader.shard), Answers(reader, replica, ranks, holds)))


async def ask_ready(requests: Requests, shard: int, me: str, seconds: float = SECONDS) -> Ready | None:
    """Another process that answers for a shard, if there is one."""
    data = msgspec.msgpack.encode((me, "", "ready", ()))
    found = await requests.ask(subject(shard), data, seconds)
    if isinstance(found, Unavailable):
        return None
    outcome, value = msgspec.msgpack.decode(zlib.decompress(found))
    return msgspec.convert(value, Ready) if outcome == OK else None


async def ask_best(
    requests: Requests, shard: int, me: str, digests: Sequence[int], seconds: float
) -> dict[int, Best] | None:
    """What a shard elsewhere has of some contents; None if nobody answers for it."""
    data = msgspec.msgpack.encode((me, "", "best", (digests,)))
    found = await requests.ask(subject(shard), data, seconds)
    if isinstance(found, Unavailable):
        return None
    outcome, value = msgspec.msgpack.decode(zlib.decompress(found))
    return msgspec.convert(value, dict[int, Best]) if outcome == OK else None


# -- on the side of the searcher


class RemoteRanks:
    """The ranks of the pages that remote shards have named; implements `lycosa.index.ranks.StaticRanks`."""

    def __init__(self) -> None:
        self._made: dict[int, int] = {}
        self._ranks: dict[int, float] = {}

    @property
    def made(self) -> int:
        """The time of the oldest ranks that any shard has."""
        return min(self._made.values(), default=0)

    def opened(self, shard: int, made: int) -> None:
        """A shard was opened whose ranks were made at `made`."""
        if self._made.get(shard) != made or len(self._ranks) > _RANKS:
            self._ranks.clear()
        self._made[shard] = made

    def closed(self, shard: int) -> None:
        self._made.pop(shard, None)

    def note(self, identity: int, rank: float) -> None:
        self._ranks[identity] = rank

    def reload(self) -> bool:
        return False

    def __call__(self, ids: Sequence[int]) -> list[float]:
        return [self._ranks.get(identity, 0.0) for identity in ids]


class RemoteShard:
    """A shard whose index is remote. Called in threads beside the loop."""

    def __init__(
        self,
        requests: Requests,
        loop: asyncio.AbstractEventLoop,
        shard: int,
        seconds: float = SECONDS,
        ranks: RemoteRanks | None = None,
    ) -> None:
        self._ranks = ranks if ranks is not None else RemoteRanks()
        self._requests = requests
        self._loop = loop
        self._seconds = seconds
        self.shard = shard
        self.stamp: object = None
        self.totals = Totals(0, {}, {})
        self.averages: dict[str, float] = {}
        self._replica = self._commit = ""

    def _ask(self, method: str, *arguments: Any) -> Any:
        data = msgspec.msgpack.encode((self._replica, self._commit, method, arguments))
        asking = self._requests.ask(subject(self.shard), data, self._seconds)
        answer = asyncio.run_coroutine_threadsafe(asking, self._loop).result()
        if isinstance(answer, Unavailable):
            self._ranks.closed(self.shard)
            raise SilentError(self.shard, self._seconds, self._why() if method == "open" else "")
        outcome, value = msgspec.msgpack.decode(zlib.decompress(answer))
        if outcome == STALE:
            raise StaleError(f"shard {self.shard} has a newer commit")
        if outcome == FAILED:
            raise StorageError(f"shard {self.shard}: {value}")
        return value

    def _why(self) -> str:
        """What the indexer of the shard says about its progress."""
        asking = self._requests.ask(progress(self.shard), b"", self._seconds)
        said = asyncio.run_coroutine_threadsafe(asking, self._loop).result()
        return "" if isinstance(said, Unavailable) else said.decode("utf-8", "replace")

    def reload(self) -> bool:
        replica, commit, totals, averages, made = self._ask("open")
        self._ranks.opened(self.shard, made)
        if (replica, commit) == self.stamp:
            return False
        self._replica, self._commit = replica, commit
        self.stamp = replica, commit
        self.totals, self.averages = msgspec.convert(totals, Totals), averages
        return True

    def df(self, field: str, term: str) -> int:
        return self.dfs([(field, term)])[0]

    def dfs(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        found: list[int] = self._ask("dfs", pairs)
        return found

    def vocabulary(self, field: str, prefix: str, most: int) -> list[str]:
        return [term for term, _ in self.counted(field, prefix, most)]

    def near(self, field: str, word: str, distance: int) -> list[str]:
        found: list[str] = self._ask("near", field, word, distance)
        return found

    def counted(self, field: str, prefix: str, most: int) -> list[tuple[str, int]]:
        return [(term, count) for term, count in self._ask("counted", field, prefix, most)]

    def clause(self, clause: Clause, weight: float) -> Any:
        return "clause", clause, weight

    def matching(self, clause: Clause) -> Any:
        return "matching", clause

    def filter(self, node: Filter | Dates) -> Any:
        if isinstance(node, Dates):
            return "dates", node.start, node.end
        return "filter", node.name, node.value

    def everything(self) -> Any:
        return ("everything",)

    def boolean(self, parts: Sequence[tuple[str, Any]]) -> Any:
        return "boolean", parts

    def top(self, query: Any, most: int) -> Hits:
        return self._hits(*self._ask("top", query, most))

    def newest(self, query: Any, most: int) -> Hits:
        return self._hits(*self._ask("newest", query, most))

    def _hits(self, rows: Any, total: int) -> Hits:
        for _, _, identity, rank in rows:
            self._ranks.note(identity, rank)
        return Hits([Hit(score, tuple(at), identity) for score, at, identity, _ in rows], total)

    def occurrences(self, clauses: Sequence[Clause], hits: Sequence[Hit]) -> list[Occurrences]:
        found = self._ask("occurrences", clauses, hits)
        return [Occurrences(np.array(tf, np.float64), np.array(length, np.float64)) for tf, length in found]

    def pages(self, addresses: Sequence[Any]) -> list[Page]:
        return msgspec.convert(self._ask("pages", addresses), list[Page])

    def copies(self, digests: Sequence[int]) -> list[Page]:
        return msgspec.convert(self._ask("copies", digests), list[Page])

    def column(self, name: str, addresses: list[Any]) -> list[int]:
        found: list[int] = self._ask("column", name, addresses)
        return found

    def with_term(self, field: str, value: str | int, most: int = 100) -> list[Page]:
        return msgspec.convert(self._ask("with_term", field, value, most), list[Page])


def remote(
    requests: Requests,
    loop: asyncio.AbstractEventLoop,
    shards: Sequence[int],
    *,
    seconds: float = SECONDS,
    language: str = "en",
) -> Search:
    """A search over remote shards."""
    pool = ThreadPoolExecutor(min(len(shards), _AT_ONCE) or 1, "lycosa-search")
    ranks = RemoteRanks()
    readers = [RemoteShard(requests, loop, shard, seconds, ranks) for shard in shards]
    return Search(readers, ranks=ranks, language=language, each=pool.map)
