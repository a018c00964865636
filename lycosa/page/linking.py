"""The links of a scanned page as a record has them, without a Python object per link.

Three kernel calls a page: `choose` finds the links on the tape and looks their hrefs up in the memo, `fill`
answers those that it did not know (all of a page at once, after the URL library has parsed them), `pack`
writes the columns. What one attribute does not settle (see `link_kernels`) goes through the handlers and the
plain memo, and is packed with the rest, behind it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from lycosa.meters import Meters
from lycosa.page import references
from lycosa.page.collect import Collected, fold
from lycosa.page.link_kernels import COLUMNS, READY, UNREADY, choose, pack
from lycosa.page.protocol import Limits, Page
from lycosa.page.scan import TEXT_BYTES, Marks, Scanned, collect
from lycosa.records import NO_LINKS, Links
from lycosa.url.canonical import SCHEMES, WEB, Rules, canonicalise, schemes_from
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import Base, LinkMemo


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

    def links(self, page: Page, base: str) -> tuple[Links, int] | None:
        """The links of a page that a scanner deferred, and how many limits left out.

        None: the memo cannot hold them, or does not serve such a base; `undeferred` then gives the page whole.
        """
        if not base.startswith(("http://", "https://")):
            return None
        marks: Marks = page.marks
        memo, limits = self._memo, self._limits
        into = Collected(limits, limits.links)
        into.hrefs, into.kinds, into.texts = list(page.hrefs), list(page.kinds), list(page.texts)
        into.base, into.dropped = page.base, page.dropped
        above = memo.of_base(base)
        texts = np.empty(len(marks.text_data) + len(marks.body) + 8, np.uint8)
        texts[: len(marks.text_data)] = marks.text_data
        heads = min(len(page.hrefs), len(self._rows))  # mostly of the head, hence before all others
        for _ in range(2):
            first = len(memo)
            self._stamp += 1
            count, left, text_end, dropped, full = choose(
                marks.tape,
                len(marks.tape),
                marks.data,
                bool(into.base),
                limits.href,
                above.contexts,
                memo.slots,
                memo.hashes,
                memo.contexts,
                memo.places,
                memo.arena,
                memo.used,
                memo.stamps,
                self._stamp,
                texts,
                len(marks.text_data),
                TEXT_BYTES * limits.text,
                self._rows,
                heads,
                self._special,
            )
            if not full and (raw := self._answered(first, base, above)) is not None:
                break
            memo.clear()  # nothing may stay pending
        else:
            return None
        self._asked.value += count - heads
        self._hits.value += count - heads - raw
        into.dropped += dropped
        if left:
            collect(marks, self._special[:left].tolist(), into)
        return self._packed(marks, base, into, heads, count, texts, text_end), into.dropped

    def _answered(self, first: int, base: str, above: Base) -> int | None:
        """Say what the hrefs that the memo has met now stand for; how many they were, None if there is no room."""
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

    def _packed(
        self, marks: Marks, base: str, into: Collected, heads: int, count: int, texts: Any, text_end: int
    ) -> Links:
        """The columns, of the others that come first, the rows up to `count`, and the others that come last."""
        rows, limit = self._rows, self._limits.text
        late: list[bytes] = []
        late_end = text_end
        for row in (np.flatnonzero(rows[heads:count, 4] & UNREADY) + heads).tolist():
            element = Scanned(marks, int(rows[row, 5]))
            text = element.link_text(limit) if element.tag == "a" else fold(element.attr("alt") or "", limit)
            encoded = text.encode("utf-8", "replace")
            rows[row, 2:5] = (late_end, late_end + len(encoded), READY)
            late.append(encoded)
            late_end += len(encoded)
        urls = self._plain.resolve(base, into.hrefs) if into.hrefs else []
        chosen = [number for number, url in enumerate(urls) if url is not None]
        other_text = "\n".join([urls[number] for number in chosen]).encode("ascii")  # type: ignore[misc]
        other_keys = np.zeros(len(urls), np.uint64)
        other_keys[chosen] = self._keyer.scan(other_text)[0]
        other_places = np.full((len(urls), 2), -1, np.int32)
        at = 0
        for number, url in enumerate(urls):
            row = number if number < heads else count + number - heads
            if row >= len(rows):
                break
            encoded = into.texts[number].encode("utf-8", "replace")
            rows[row] = (into.kinds[number], -1 - number, late_end, late_end + len(encoded), READY, 0)
            late.append(encoded)
            late_end += len(encoded)
            if url is not None:
                other_places[number] = (at, len(url))
                at += len(url) + 1
        count = min(count + len(urls) - heads, len(rows))
        if not count:
            return NO_LINKS
        if late:
            added = np.frombuffer(b"".join(late), np.uint8)
            if late_end > len(texts):
                texts = np.concatenate((texts[:text_end], added))
            else:
                texts[text_end:late_end] = added
        self._stamp += 1
        while True:
            url_end, unique, texts_end = pack(
                rows,
                count,
                limit,
                self._memo.places,
                self._memo.keys,
                self._memo.arena,
                np.frombuffer(other_text, np.uint8),
                other_places,
                other_keys,
                texts,
                self._table,
                self._stamp,
                self._urls,
                self._kinds,
                self._texts,
                self._kept,
            )
            if url_end >= 0:
                break
            self._stamp += 1
            self._urls = np.empty(max(-url_end - 1, len(self._urls)), np.uint8)
            self._texts = np.empty(max(texts_end, len(self._texts)), np.uint8)
        if not unique:
            return NO_LINKS
        return Links(
            self._urls[:url_end].tobytes(),
            self._kinds[:unique].tobytes(),
            self._texts[:texts_end].tobytes() if texts_end >= unique else b"",
        )


def undeferred(page: Page, limits: Limits) -> Page:
    """The page with every link in its columns."""
    into = Collected(limits, limits.links)
    collect(page.marks, page.marks.places(), into)
    return msgspec.structs.replace(
        page, hrefs=into.hrefs, kinds=into.kinds, texts=into.texts, dropped=into.dropped, marks=None
    )
