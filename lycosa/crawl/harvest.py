"""Harvest: what an answer means for the crawl. A response in, its archive bytes and its record out.

The order matters: the exchange is stored in the archive first, because the record names its place there; the
record is durable only after those bytes are (the agent's commit sees to that).

Links are resolved through the memo, deduplicated within the page (a URL that is both an image and an anchor
is an anchor; one that is anywhere followed is followed), and packed. A redirect has one link, its target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lycosa.archive.writer import Archive
from lycosa.fetch.protocol import Response
from lycosa.fetch.robots_directives import NONE, Directives, directives, merge, meta_directives
from lycosa.page.fingerprint import digest
from lycosa.page.protocol import Page
from lycosa.page.registry import Parsers
from lycosa.records import (
    FIRST_REQUISITE,
    NO_LINKS,
    NOFOLLOW,
    Fetched,
    LinkKind,
    Links,
    Stored,
    Waiting,
)
from lycosa.url.canonical import NO_RULES, SCHEMES, canonicalise, schemes_from
from lycosa.url.hrefs import HrefMemo

_LARGE = 1 << 18
"""Bodies up to this size are read in a few milliseconds."""
REDIRECTS = frozenset((301, 302, 303, 307, 308))


class Crop(NamedTuple):
    """What one answer gave."""

    record: Fetched
    page: Page | None
    response: Response


class Harvester:
    """Turns responses into records."""

    def __init__(
        self,
        *,
        archive: Archive | None,
        parsers: Parsers,
        memo: HrefMemo,
        seen_content: Callable[[int], bool],
        agent: str,
        schemes: frozenset[str] = SCHEMES,
    ) -> None:
        self._archive = archive
        self._parsers = parsers
        self._memo = memo
        self._seen_content = seen_content
        self._agent = agent
        self._schemes = schemes

    def store(self, response: Response, at: int) -> Stored | None:
        """Put an exchange into the archive."""
        if self._archive is None:
            return None
        began = at - response.timing.total
        if response.url.startswith("file:"):
            return self._archive.store_resource(
                url=response.url,
                at=began,
                media_type=response.header("content-type") or "application/octet-stream",
                body=response.body,
                truncated=response.truncated,
            )
        return self._archive.store(
            request_head=response.request_head,
            head=response.head,
            body=response.body,
            url=response.url,
            at=began,
            address=response.address,
            truncated=response.truncated,
        )

    async def harvest(self, waiting: Waiting, response: Response, at: int) -> Crop:
        """Store, read and record an answer. A large body is read in a thread: it must not hold the loop."""
        page: Page | None = None
        links, said = NO_LINKS, NONE
        if response.status in REDIRECTS and response.location is not None:
            links = self._redirect(waiting.url, response.location)
        elif response.decoded:
            read, declared = self._parsers.read, response.header("content-type")
            if len(response.decoded) < _LARGE:
                page = read(response.decoded, declared, waiting.url)
            else:
                page = await asyncio.to_thread(read, response.decoded, declared, waiting.url)
            said = self._directives(response, page)
            links = self._links(page, waiting.url, said.nofollow)
        found = digest(response.decoded)
        record = Fetched(
            at=at,
            url=waiting.url,
            depth=waiting.depth,
            hops=waiting.hops,
            attempt=waiting.attempt,
            status=response.status,
            type=page.type if page else _plain_type(response.header("content-type")),
            charset=page.charset if page else "",
            size=len(response.body),
            length=len(response.decoded),
            digest=found,
            timing=response.timing,
            address=response.address,
            links=links,
            stored=self.store(response, at),
            title=page.title if page else "",
            etag=(response.header("etag") or "")[:200],
            modified=(response.header("last-modified") or "")[:60],
            truncated=response.truncated,
            noindex=said.noindex,
            duplicate=bool(found) and self._seen_content(found),
        )
        return Crop(record, page, response)

    def _directives(self, response: Response, page: Page) -> Directives:
        tags = response.headers("x-robots-tag")
        if not tags and not page.robots:
            return NONE
        return merge(directives(tags, self._agent), meta_directives(page.robots, self._agent))

    def _redirect(self, url: str, location: str) -> Links:
        target = canonicalise(location, url, NO_RULES, schemes_from(url, self._schemes))
        return NO_LINKS if target is None else Links(target.encode("ascii"), bytes([LinkKind.REDIRECT]), b"")

    def _links(self, page: Page, url: str, nofollow: bool) -> Links:
        if not page.hrefs:
            return NO_LINKS
        base = url
        if page.base:
            base = canonicalise(page.base, url, NO_RULES, schemes_from(url, self._schemes)) or url
        resolved = self._memo.resolve(base, page.hrefs)
        return pack_links(resolved, page.kinds, page.texts, NOFOLLOW if nofollow else 0)


def pack_links(
    urls: Sequence[str | None], kinds: Sequence[int], texts: Sequence[str], flags: int = 0
) -> Links:
    """Columns of links as a record has them; each URL once, under the kind that is most worth following."""
    rows: dict[str, int] = {}
    kept_kinds = bytearray()
    kept_texts: list[str] = []
    for url, kind, text in zip(urls, kinds, texts, strict=True):
        if url is None:
            continue
        row = rows.get(url)
        if row is None:
            rows[url] = len(kept_kinds)
            kept_kinds.append(kind | flags)
            kept_texts.append(text)
            continue
        if kind | flags != kept_kinds[row] and _worth(kind | flags) < _worth(kept_kinds[row]):
            kept_kinds[row] = kind | flags
            kept_texts[row] = text or kept_texts[row]
        elif text and not kept_texts[row]:
            kept_texts[row] = text
    if not rows:
        return NO_LINKS
    joined = "\n".join(kept_texts)
    return Links(
        "\n".join(rows).encode("ascii"),
        bytes(kept_kinds),
        joined.encode("utf-8", "replace") if len(joined) >= len(kept_texts) else b"",
    )


def _worth(kind: int) -> int:
    """Smaller is better followed: plain, then nofollow, then requisites."""
    if kind & 0x7F >= FIRST_REQUISITE:
        return 2
    return 1 if kind & NOFOLLOW else 0


def _plain_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()[:100]
