"""The links of a scanned page as a record has them, without a Python object per link.

There are at most four kernel calls per page: `enter` looks up the hrefs that handlers gave, `choose` finds the
links on the tape and looks theirs up, `resolve` resolves those that the memo did not know, `pack` writes the
columns. Hrefs that are not plain (see `lycosa.url.resolve_kernels`) are parsed by the URL library, all of a page at
once. Hrefs that the memo cannot keep (a query alone, letters outside ASCII) go through the plain memo and are
packed behind the rest. The keys and host hashes of the URLs come from the memo, and are cached for the next scan
(`lycosa.url.key`).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from operator import not_
from typing import Any, NamedTuple

import msgspec
import numpy as np

from lycosa.meters import Meters
from lycosa.page import references
from lycosa.page.collect import Collected, fold
from lycosa.page.encodings import UTF_8
from lycosa.page.link_kernels import COLUMNS, READY, UNREADY, choose, enter, pack
from lycosa.page.protocol import Limits, Page
from lycosa.page.scan import TEXT_BYTES, Marks, Scanned, collect
from lycosa.records import NO_LINKS, Links
from lycosa.url.canonical import SCHEMES, WEB, Rules, canonicalise, schemes_from
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import Base, LinkMemo
from lycosa.url.memo_kernels import FULL


class Linker:
    """Links of pages, one page at a time."""

    def __init__(
        self,
        memo: LinkMemo,
        plain: HrefMemo,
        keyer: Keyer,
        rules: Rules,
        limits: Limits,
        meters: Meters,
        schemes: frozenset[str] = SCHEMES,
        most: int = 16 << 20,
    ) -> None:
        """`most`: bytes of URLs that one page may add."""
        self._most = most
        self._asked = meters.counter("url.hrefs")
        self._hits = meters.counter("url.href_hits")
        self._memo = memo
        self._plain = plain
        self._keyer = keyer
        self._rules = rules
        self._schemes = schemes
        self._joins = not rules.steps and schemes >= WEB
        self._limits = limits
        self._rows = np.empty((limits.links, COLUMNS), np.int32)
        self._special = np.empty(limits.links, np.int32)
        self._kept = np.empty(limits.links, np.int32)
        self._table = np.zeros((1 << (2 * limits.links).bit_length(), 2), np.int64)
        self._stamp = 0
        self._urls = np.empty(1 << 20, np.uint8)
        self._kinds = np.empty(limits.links, np.uint8)
        self._texts = np.empty(limits.links * 2, np.uint8)
        self._keys = np.empty(limits.links, np.uint64)
        self._hosts = np.empty(limits.links, np.uint64)

    def links(self, page: Page, base: str) -> tuple[Links, int] | None:
        """The links of a page that a scanner deferred, and how many were left out by limits.

        None: the memo cannot hold them, or cannot be used for such a base; use `undeferred` then.
        """
        if not base.startswith(("http://", "https://")):
            return None
        marks: Marks = page.marks
        memo, limits = self._memo, self._limits
        into: Collected | None = None
        hrefs, kinds_of, texts_of = page.hrefs, page.kinds, page.texts
        ready = list(map(_is_ready, hrefs))
        if False in ready:
            rest = list(map(not_, ready))
            into = self._rest(page)
            into.hrefs, into.kinds = list(compress(hrefs, rest)), list(compress(kinds_of, rest))
            into.texts = list(compress(texts_of, rest))
            hrefs, kinds_of = list(compress(hrefs, ready)), list(compress(kinds_of, ready))
            texts_of = list(compress(texts_of, ready))
        above = memo.of_base(base)
        text_end = marks.text_end
        texts = marks.text_data
        if hrefs:
            head = "\n".join(hrefs).encode("ascii")
            said = "\n".join(texts_of).encode("utf-8", "replace")
            kinds = bytes(kinds_of[: len(self._rows)])
            texts = np.empty(len(texts) + len(said), np.uint8)
            texts[:text_end] = marks.text_data[:text_end]
        table = (memo.slots, memo.hashes, memo.contexts, memo.places, memo.arena, memo.used)
        for _ in range(2):
            first = len(memo)
            self._stamp += 1
            early, end = 0, text_end
            if hrefs:
                early, end = enter(head, kinds, said, above.contexts, *table, texts, text_end, self._rows)
            if early != FULL:
                count, left, end, dropped, unready, full = choose(
                    marks.tape,
                    len(marks.tape),
                    marks.data,
                    bool(page.base),
                    limits.href,
                    above.contexts,
                    *table,
                    memo.stamps,
                    self._stamp,
                    texts,
                    end,
                    TEXT_BYTES * limits.text,
                    limits.text,
                    marks.charset == UTF_8,
                    self._rows,
                    early,
                    self._special,
                )
                if not full and (raw := self._answered(first, base, above)) is not None:
                    break
            memo.clear()  # nothing may stay pending
        else:
            return None
        self._asked.value += count
        self._hits.value += count - raw
        dropped += page.dropped
        if left:
            into = into or self._rest(page)
            collect(marks, self._special[:left].tolist(), into)
            dropped += into.dropped
        others = _NO_OTHERS
        if unready or into is not None:
            late = _Late(texts, end)
            if unready:
                self._finish(marks, early, count, late)
            if into is not None and into.hrefs:
                count, others = self._add(base, into, count, late)
            texts = late.texts()
        return self._packed(count, others, texts), dropped

    def _rest(self, page: Page) -> Collected:
        """Collects the links of a page that the kernels pass over."""
        into = Collected(self._limits, self._limits.links)
        into.base = page.base
        return into

    def _answered(self, first: int, base: str, above: Base) -> int | None:
        """Resolve the new entries of the memo; returns how many they were, None if there is no room."""
        memo = self._memo
        count = len(memo) - first
        if not count:
            return 0
        if int(memo.places[first : first + count, 1].sum()) + count * len(base) > self._most:
            return None  # below a long base, short hrefs would be long URLs
        if self._joins and not memo.resolve(first, above):
            return count
        entries, hrefs = memo.pending(first)
        try:
            return count if memo.answer(entries, [self._url(href, base) for href in hrefs]) else None
        except BaseException:
            memo.clear()
            raise

    def _url(self, raw: bytes, base: str) -> str | None:
        href = raw.decode("ascii")
        if "&" in href:
            href = references.in_value(href)
        if "\0" in href:
            href = href.replace("\0", "\ufffd")
        return canonicalise(href, base, self._rules, schemes_from(base, self._schemes))

    def _finish(self, marks: Marks, start: int, stop: int, late: _Late) -> None:
        """Finish the texts that a kernel cannot: with references, or with bytes above 0x7F."""
        rows, limit = self._rows, self._limits.text
        for row in (np.flatnonzero(rows[start:stop, 4] & UNREADY) + start).tolist():
            element = Scanned(marks, int(rows[row, 5]))
            if element.tag == "a":
                text = element.link_text(limit)
            else:
                text = fold(element.attr("title" if element.tag == "link" else "alt") or "", limit)
            rows[row, 2:5] = (*late.add(text), READY)

    def _add(self, base: str, into: Collected, count: int, late: _Late) -> tuple[int, _Others]:
        """Add rows behind `count` for links that the kernels passed over; returns where they end, and the URLs."""
        rows = self._rows
        urls = self._plain.resolve(base, into.hrefs)[: len(rows) - count]
        places = np.full((len(urls), 2), -1, np.int32)
        at = 0
        for number, url in enumerate(urls):
            rows[count + number] = (into.kinds[number], -1 - number, *late.add(into.texts[number]), READY, 0)
            if url is not None:
                places[number] = (at, len(url))
                at += len(url) + 1
        text = "\n".join([url for url in urls if url is not None]).encode("ascii")
        keys, hosts = np.zeros((2, len(urls)), np.uint64)
        there = places[:, 1] >= 0
        keys[there], hosts[there] = self._keyer.scan(text)
        # An array that could be written to, as one of nothing is: another type is another kernel to compile.
        return count + len(urls), _Others(np.frombuffer(bytearray(text), np.uint8), places, keys, hosts)

    def _packed(self, count: int, others: _Others, texts: Any) -> Links:
        """The columns of a record, from the first `count` rows."""
        if not count:
            return NO_LINKS
        self._stamp += 1
        while True:
            url_end, unique, texts_end = pack(
                self._rows,
                count,
                self._limits.text,
                self._memo.places,
                self._memo.keys,
                self._memo.hosts,
                self._memo.arena,
                *others,
                texts,
                self._table,
                self._stamp,
                self._urls,
                self._kinds,
                self._texts,
                self._keys,
                self._hosts,
                self._kept,
            )
            if url_end >= 0:
                break
            self._stamp += 1
            self._urls = np.empty(max(-url_end - 1, len(self._urls)), np.uint8)
            self._texts = np.empty(max(texts_end, len(self._texts)), np.uint8)
        if not unique:
            return NO_LINKS
        urls = self._urls[:url_end].tobytes()
        self._keyer.remember(urls, self._keys[:unique].copy(), self._hosts[:unique].copy())
        return Links(
            urls,
            self._kinds[:unique].tobytes(),
            self._texts[:texts_end].tobytes() if texts_end >= unique else b"",
        )


class _Others(NamedTuple):
    """URLs that are not in the memo: joined; place and length of each (-1: no URL); keys; host hashes."""

    text: Any
    places: Any
    keys: Any
    hosts: Any


_NO_OTHERS = _Others(
    np.empty(0, np.uint8), np.empty((0, 2), np.int32), np.empty(0, np.uint64), np.empty(0, np.uint64)
)


class _Late:
    """Texts that are added behind those of the kernels."""

    def __init__(self, texts: Any, end: int) -> None:
        self._texts = texts
        self._start = self._end = end
        self._added: list[bytes] = []

    def add(self, text: str) -> tuple[int, int]:
        """Where the text will lie."""
        start = self._end
        if text:
            encoded = text.encode("utf-8", "replace")
            self._added.append(encoded)
            self._end += len(encoded)
        return start, self._end

    def texts(self) -> Any:
        """All of them."""
        if not self._added:
            return self._texts
        return np.concatenate((self._texts[: self._start], np.frombuffer(b"".join(self._added), np.uint8)))


@lru_cache(1 << 12)  # the heads of a site's pages have the same links
def _is_ready(href: str) -> bool:
    """Whether an href that a handler gave is as it would stand in the page, and can be kept in the memo."""
    return (
        href.isascii()
        and href.isprintable()
        and href[0] not in "?#"
        and "&" not in href
        and (":" not in href or href.startswith(("http://", "https://")))
    )


def undeferred(page: Page, limits: Limits) -> Page:
    """The page with every link in its columns."""
    into = Collected(limits, limits.links)
    collect(page.marks, page.marks.places(), into)
    return msgspec.structs.replace(
        page, hrefs=into.hrefs, kinds=into.kinds, texts=into.texts, dropped=into.dropped, marks=None
    )
