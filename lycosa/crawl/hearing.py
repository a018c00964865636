"""Hearing: hints in a fetch about other pages, for a continuous crawl; `lycosa.refresh.hints` rates their worth.

Each Fetched is examined once, right after it was logged:

- About its own page it tells whether hints about it were right, and until when the answer is said to be valid.
- A sitemap that was fetched again names pages whose lastmod has changed, and is later than our fetch of them.
- Any other page that was fetched again names known pages of its host that it links now and did not link before;
  links to unknown pages make it a hub.

Pages about which a hint is worth something on their site are *called*: they are judged once more, and fetched as
soon as the value of the fetch suffices, whatever the calendar has. Their entry there is dropped when it comes up,
being older than the call. Calls are in memory; after a crash the calendar applies."""

from __future__ import annotations

import heapq
from itertools import islice

from lycosa.crawl.shard import Shard
from lycosa.pages.summary import Summary, is_failure
from lycosa.records import Before, Fetched
from lycosa.refresh.hints import Hints, Hubs, Kind, date_of
from lycosa.url.parts import host_of

_MOST = 500
"""Links of a fetch that are examined."""
_CALLS = 10_000
_AT_ONCE = 8
"""Calls that are processed in one turn: each may read a block of the log."""


class Hearing:
    """Collects the hints for one agent."""

    def __init__(self) -> None:
        self.hints = Hints()
        self.hubs = Hubs()
        self._calls: dict[int, list[tuple[int, int]]] = {}
        self._called: set[int] = set()

    def hear(
        self,
        shard: Shard,
        record: Fetched,
        key: int,
        found: Summary,
        *,
        expected: float,
        old: Fetched | None,
        held: float,
    ) -> list[int]:
        """Examine a fetch. `expected`: the probability that its page had changed; `old`: the previous fetch of it;
        `held`: seconds for which its answer is said to be valid.

        Returns the keys of the pages that should be judged again."""
        site, at = key >> 48, record.at / 1000
        self._called.discard(key)
        if is_failure(record.status):
            return []
        if record.before is Before.PAGE:
            self.hints.found(site, key, found.changes > 0 and found.changed == found.last, expected, at)
        else:
            self.hubs.note_new(site, record.status < 300 and not record.duplicate)
        if held:
            self.hints.lives(site, key, at + held)
        if old is None or record.status >= 300:
            self.hubs.brought(site, key, 0)
            return []
        dated = self._dated(shard, record, old) if record.type.endswith("xml") else []
        linked, new = self._linked(shard, record, old, key)
        sure = {
            Kind.LASTMOD: self.hints.trust(site, Kind.LASTMOD),
            Kind.LINKED: self.hints.trust(site, Kind.LINKED),
        }
        right = len(dated) * sure[Kind.LASTMOD] + len(linked) * sure[Kind.LINKED]
        self.hubs.brought(site, key, new, right)
        wanted: list[int] = []
        for kind, keys in ((Kind.LASTMOD, dated), (Kind.LINKED, linked)):
            for other in keys:
                self.hints.say(site, other, kind)
            wanted += keys if sure[kind] else []
        return [other for other in wanted if other not in self._called]

    @staticmethod
    def _dated(shard: Shard, record: Fetched, old: Fetched) -> list[int]:
        """Known pages for which a sitemap has a new date, later than our last fetch."""
        texts, keys = record.links.texts, list[int]()
        if not texts or texts == old.links.texts:
            return keys
        before = dict(zip(old.links.urls.split(b"\n"), old.links.texts.split(b"\n"), strict=False))
        rows = zip(record.links.urls.split(b"\n"), texts.split(b"\n"), strict=True)
        other = ((url.decode("ascii"), text) for url, text in rows if text and before.get(url) != text)
        host = host_of(record.url)
        for url, text in islice(other, 4 * _MOST):
            date = date_of(text.decode("utf-8", "replace"))
            if date is None or host_of(url) != host:
                continue
            found = shard.pages.find(key := shard.keyer.key(url))
            if found is not None and date > found.last:
                keys.append(key)
                if len(keys) == _MOST:
                    break
        return keys

    @staticmethod
    def _linked(shard: Shard, record: Fetched, old: Fetched, own: int) -> tuple[list[int], int]:
        """Known pages that a page links now and did not before; and how many linked pages are unknown."""
        if record.links.urls == old.links.urls:
            return [], 0
        before, host = set(old.links.urls.split(b"\n")), host_of(record.url)
        new = [url for url in record.links.urls.split(b"\n") if url and url not in before][:_MOST]
        keys = [shard.keyer.key(name) for url in new if host_of(name := url.decode("ascii")) == host]
        known = [key for key in keys if key != own and shard.pages.find(key) is not None]
        return known, len(keys) - len(known)

    # -- calls

    def call(self, shard: Shard, key: int, due: int) -> None:
        """Have a page judged at `due` (milliseconds), if not before."""
        if len(self._called) < _CALLS:
            self._called.add(key)
            heapq.heappush(self._calls.setdefault(shard.number, []), (due, key))

    def due(self, shard: Shard, now: int) -> list[int]:
        """The keys of pages whose call is due, a limited number of them."""
        keys: list[int] = []
        calls = self._calls.get(shard.number, [])
        while calls and calls[0][0] <= now and len(keys) < _AT_ONCE:
            keys.append(heapq.heappop(calls)[1])
            self._called.discard(keys[-1])
        return keys

    def next_due(self, shard: Shard) -> int | None:
        """When the next call is due, in milliseconds."""
        calls = self._calls.get(shard.number)
        return calls[0][0] if calls else None
