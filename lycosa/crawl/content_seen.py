"""Content seen: how a crawl acts on what `lycosa.content` learns from the pages it fetched.

    judged      before a fetch is logged: whether the page gave anything new, if that is needed (`gain`)
    learn       after it: what was learned from it is logged, too (`Learned`)
    holds       before a URL is fetched: whether what was learned speaks against it
    bring_back  a finding no longer holds: URLs that were skipped for it are deferred until now, each logged

Two kinds of findings are learned: patterns of URLs that keep giving nothing new (traps, `lycosa.content.yields`),
and rules about URLs that lead to the same page (`lycosa.content.variants`, `lycosa.content.joins`). All decisions
are made by folds over the log. Only the memories of earlier content (`lycosa.content.news`, `variants.Evidence`)
are not in the log: they are caches, and what they found is in the record of the fetch, or in the Learned.

A rule about two sites is logged in the shard of the site whose URLs it holds back. Whether the other site has a
page is asked of its shard; if that belongs to another agent, or is leaving, the answer is unknown, and nothing is
held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import compress
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from lycosa.clock import Clock, milliseconds
from lycosa.content.news import Memory, Said
from lycosa.content.variants import Evidence, Page, Verdict, parse
from lycosa.content.yields import ENDED, LED, NEW, NOT_JUDGED, ON_SITE, SILENT, Look, nothing_new
from lycosa.crawl.harvest import REDIRECTS, Crop
from lycosa.crawl.shard import Shard
from lycosa.log.log_pass import LogPass
from lycosa.log.reader import decoded
from lycosa.records import (
    Before,
    Deferred,
    Fetched,
    Learned,
    LinkKind,
    Links,
    Skipped,
    UrlHead,
    Waiting,
    Why,
    decode_head,
    has_tag,
    tag_of,
)
from lycosa.url.parts import host_of, site_of

_TEXT = frozenset(("text/html", "application/xhtml+xml", "text/plain"))
_LARGE = 1 << 18
"""Bytes of a page that is not examined: it would block the event loop."""
_IS_MEDIA = bytes(kind & 0x7F in (LinkKind.IMAGE, LinkKind.MEDIA, LinkKind.OBJECT) for kind in range(256))
"""By the byte of `Links.kinds`."""
_MOST_MEDIA = 50
_LINKS = 40
"""Unknown links of a page that are looked up."""
_HEADS = 20_000
_HEADS_BYTES = 16 << 20
_AT_ONCE = 200
_DETAIL = 2_000
_SKIPPED = tag_of(Skipped)


class ContentSeen:
    """Answers the questions that an agent's visits have about contents."""

    def __init__(self, clock: Clock, shard_of_host: Callable[[str], Shard | None]) -> None:
        self._clock = clock
        self._shard_of_host = shard_of_host
        self._evidence = Evidence(strict=True)
        self._verdicts: list[Verdict] = []
        self._memories: WeakKeyDictionary[Shard, Memory] = WeakKeyDictionary()

    # -- after a fetch

    def judged(self, shard: Shard, crop: Crop) -> Crop:
        """The crop of a fetch, with its gain if that is needed."""
        record = crop.record
        if record.before is not Before.NEVER:
            return crop
        if shard.joins.is_on:
            self._compare(shard, crop)
        if not shard.yields.is_on:
            return crop
        domain, is_first = shard.novelty_of(record.url)
        look = shard.yields.wants(record.url, shard.keyer.key(record.url), domain, is_first)
        if look is Look.NO:
            return crop
        if look is Look.YES or _leads_on(record, _unknown(shard, record)):
            gain = self._gain(shard, crop, domain, is_first)
        else:
            gain = ENDED if look is Look.OR_IT_ENDED and record.status < 300 else NOT_JUDGED
        return crop._replace(record=msgspec.structs.replace(record, gain=gain)) if gain else crop

    def _compare(self, shard: Shard, crop: Crop) -> None:
        """Compare a page with others that may be the same."""
        record, body = crop.record, crop.response.decoded
        if not 200 <= record.status < 300 or record.type not in _TEXT or len(body) >= _LARGE:
            return
        links, follow = record.links, shard.rules.follow

        def linked() -> tuple[list[str], list[str]]:
            urls = links.urls.decode("ascii").split("\n") if links.kinds else []
            followed = follow[np.frombuffer(links.kinds, np.uint8)].tolist()
            return list(compress(urls, followed)), _media(links)

        page = Page(record.url, body, record.charset, linked)
        self._verdicts += self._evidence.meet(page, shard.joins.of(record.url))

    def _gain(self, shard: Shard, crop: Crop, domain: str, is_first: bool) -> int:
        record = crop.record
        if record.status >= 400:
            # A broken link is worth knowing; an error page that leads to more of its kind is a trap.
            unknown = _unknown(shard, record)
            return nothing_new(record.url, unknown) if unknown else NOT_JUDGED
        if record.status in REDIRECTS and record.links.kinds:
            said = Said.by_digest(xxh3_64_intdigest(record.links.urls))
        elif record.status >= 300 or len(crop.response.decoded) >= _LARGE or record.type.endswith("xml"):
            return NOT_JUDGED
        elif record.type in _TEXT:
            said = Said.by_text(crop.response.decoded, record.charset, record.url, _media(record.links))
        else:
            said = Said.by_digest(record.digest)
        if not said.is_telling:
            return SILENT
        memory = self._memories.get(shard)
        if memory is None:
            memory = self._memories[shard] = Memory()
        on_site = memory.is_news(said, site_of(record.url))
        if is_first and not memory.is_news(said, domain):
            return ON_SITE if _leads_to_hosts(shard, record, domain) else NOT_JUDGED
        if on_site or is_first:
            return NEW
        unknown = _unknown(shard, record)
        if any(shard.yields.proves(url, record.url) for url in unknown):
            return LED
        return nothing_new(record.url, unknown)

    def learn(self, shard: Shard) -> None:
        """Log what was learned from the last fetches."""
        while self._verdicts:
            self._decide(self._verdicts.pop(), milliseconds(self._clock))
        while due := shard.yields.due():
            at = milliseconds(self._clock)
            for row in due:
                shard.append(Learned(at, "trap", row.pattern, row.holds, row.pages, row.why, row.examples))

    def _decide(self, verdict: Verdict, at: int) -> None:
        """Two pages were compared: decide whether a rule is now certain, or wrong."""
        rule, support = parse(verdict.rule), verdict.support
        shard = self._shard_of_host(host_of(rule.place if rule.place.endswith("/") else rule.place + "/"))
        if shard is None:
            return
        row = shard.joins.row(verdict.rule)
        if row is None and support.is_sure:
            why = f"{support.agreed} pages were the same as others of their form, and none was not"
        elif row is not None and row.holds and not verdict.agreed:
            why = f"two pages of one form are not the same; {row.held} URLs were skipped"
        else:
            return
        examples = list(support.examples)
        shard.append(Learned(at, "rule", verdict.rule, verdict.agreed, support.agreed, why, examples))

    # -- before a fetch

    def holds(self, shard: Shard, waiting: Waiting) -> tuple[Why, str] | None:
        """Why a URL is not fetched; None if it may be."""
        if waiting.before is not Before.NEVER or not waiting.depth:
            return None
        if shard.joins.is_active and (found := self._joined(shard, waiting.url)) is not None:
            rule, form = found
            if not shard.joins.tests(rule, self._evidence.knows(rule, form)):
                return Why.VARIANT, f"{rule} says that it is the page of {form}"[:_DETAIL]
        if shard.yields.is_active:
            pattern = shard.yields.holds(waiting.url, *shard.novelty_of(waiting.url))
            if pattern is not None and not shard.yields.tests(pattern, waiting.url):
                row = shard.yields.row(pattern)
                assert row is not None
                return Why.TRAP, f"{pattern} is quarantined: {row.why}"
        return None

    def _joined(self, shard: Shard, url: str) -> tuple[str, str] | None:
        """The rule, and the form, by which a URL leads to a page that was fetched."""

        def is_page(form: str) -> bool:
            owner = self._shard_of_host(host_of(form))
            return owner is not None and owner.has_page(form)

        return shard.joins.holds(url, is_page)

    # -- held URLs come back

    async def bring_back(self, shard: Shard) -> None:
        """Defer, until now, all URLs that were skipped for a finding that no longer holds."""
        stop, end, files = shard.returning, shard.log.committed, shard.log.reader.files
        reading, last = LogPass(files), dict[int, Skipped]()
        while reading.position < end:
            await asyncio.to_thread(_find, shard, reading, end, stop, last)
        at = milliseconds(self._clock)
        waiting = list(last.values())
        for start in range(0, len(waiting), _AT_ONCE):
            for record in waiting[start : start + _AT_ONCE]:
                if not self._is_held(shard, record):
                    shard.append_apart(
                        Deferred(
                            *(at, record.url, site_of(record.url), record.depth, 0, 0, record.why, at),
                            f"released: {record.detail}"[:300],
                        )
                    )
            await asyncio.sleep(0)
        if shard.returning == stop:
            shard.returned(stop)

    def _is_held(self, shard: Shard, record: Skipped) -> bool:
        """Whether a URL that was skipped would be skipped today."""
        if record.why is Why.VARIANT:
            return self._joined(shard, record.url) is not None
        return shard.yields.holds(record.url, *shard.novelty_of(record.url)) is not None


def _find(shard: Shard, reading: LogPass, end: int, stop: int, last: dict[int, Skipped]) -> None:
    """In a thread: collect skips for findings that are the last records of their URLs, as far as was read."""
    for position, row in reading.take(end, _HEADS, _HEADS_BYTES):
        head = decode_head(row)
        if not isinstance(head, UrlHead) or not head.url:
            continue
        key = shard.keyer.key(head.url)
        record = decoded(position, row) if position < stop and has_tag(row, _SKIPPED) else None
        if isinstance(record, Skipped) and record.why in (Why.TRAP, Why.VARIANT):
            last[key] = record
        elif last:
            last.pop(key, None)


def _unknown(shard: Shard, record: Fetched) -> list[str]:
    """Some of the followed links of a page whose URLs are unknown."""
    if not record.links.kinds:
        return []
    keys, _ = shard.keyer.scan(record.links.urls)
    followed = shard.rules.follow[np.frombuffer(record.links.kinds, np.uint8)]
    rows = np.flatnonzero(followed & ~shard.links.found.certain(keys))[:_LINKS].tolist()
    urls = record.links.urls.split(b"\n") if rows else []
    return [urls[row].decode("ascii") for row in rows]


def _leads_on(record: Fetched, unknown: list[str]) -> bool:
    """Whether a page links to unknown URLs of its own site."""
    own = site_of(record.url) + "/"
    return any(url.startswith(own) for url in unknown)


def _leads_to_hosts(shard: Shard, record: Fetched, domain: str) -> bool:
    """Whether a page links to unknown URLs of other hosts of its domain."""
    own, domain_of = host_of(record.url), shard.splitter.domains.domain
    hosts = {host_of(url) for url in _unknown(shard, record)} - {own}
    return any(domain_of(host) == domain for host in hosts)


def _media(links: Links) -> list[str]:
    """The URLs of some pictures and other media of a page."""
    shown = links.kinds.translate(_IS_MEDIA)
    if 1 not in shown:
        return []
    return list(compress(links.urls.decode("ascii").split("\n"), shown))[:_MOST_MEDIA]
