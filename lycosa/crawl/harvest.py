"""Harvest: from an answer to its record. A response in, its archive bytes and its record out.

The page is parsed, then the exchange is stored in the archive, then the record is made, because it names the place
there; the record becomes durable only after those bytes (the agent's commit ensures that).

Links of HTML are packed by kernels (`lycosa.page.linking`); the remaining ones, and the links of other types, are
resolved through the memo here. Either way links are deduplicated within the page (a URL that is both an image and
an anchor is an anchor; one that is followed anywhere is followed), and packed. A redirect has one link, its
target. A record holds at most `MOST_BYTES` of URLs: below a base of 8 KB, each of 50,000 short hrefs would be a URL
of 8 KB.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from lycosa.archive.warc import digest as payload_digest
from lycosa.archive.writer import HTML as RENDERED
from lycosa.archive.writer import Archive
from lycosa.content.change import content_digest
from lycosa.crawl.underway import Underway
from lycosa.fetch.protocol import Response
from lycosa.fetch.robots_directives import NONE, Directives, directives, merge, meta_directives
from lycosa.page.fingerprint import digest
from lycosa.page.linking import Linker, undeferred
from lycosa.page.protocol import Page
from lycosa.page.registry import Parsers
from lycosa.pages.summary import Summary
from lycosa.records import (
    FIRST_REQUISITE,
    NO_LINKS,
    NOFOLLOW,
    Fetched,
    Link,
    LinkKind,
    Links,
    Rendered,
    Stored,
    Waiting,
)
from lycosa.url.canonical import MAX_URL, NO_RULES, SCHEMES, canonicalise, schemes_from
from lycosa.url.hrefs import HrefMemo

if TYPE_CHECKING:
    from lycosa.crawl.rendering import Rendition

Render = Callable[[Page, Links], Awaitable["Rendition | None"]]
"""Renders a page that was parsed, if it should be rendered."""
Alike = Callable[[Page, bytes], Awaitable[str]]
"""The URL of an earlier page that a parsed page nearly equals, so that its links are not followed; or ""."""

_LARGE = 1 << 18
"""Bodies up to this size are parsed in a few milliseconds."""
_READERS = 2
"""Threads that parse large bodies: parsing holds the interpreter lock, and a page of 8 MB may take 300 MB."""
MOST_BYTES = 16 << 20
"""Maximum bytes of URLs in one record; a sitemap of 50,000 has 4 MB."""
_SLICE = MOST_BYTES // MAX_URL
"""This many links fit whatever their length, so that those of nearly every page need not be measured."""
_SAYING = frozenset(("text/html", "application/xhtml+xml", "text/plain"))
_DATE = re.compile(rb"\d{4}-\d\d")
REDIRECTS = frozenset((301, 302, 303, 307, 308))


class Earlier(NamedTuple):
    """What a continuous crawl knows of a page that it fetches."""

    position: int
    record: Fetched | None
    """The last fetch with a content, if there is one in the log."""
    weight: int
    """The present importance of the page."""
    summary: Summary | None = None
    """A summary of its fetches."""


class _Verdict(NamedTuple):
    """What a continuous crawl finds about an answer; see the fields of `Fetched`."""

    digest: int
    content: int = 0
    weight: int = 0
    previous: int = 0
    same: Fetched | None = None  # an earlier fetch with the same body
    body: Stored | None = None


class Crop(NamedTuple):
    """The result of one answer."""

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
        linker: Linker,
        seen_content: Callable[[int], bool],
        agent: str,
        schemes: frozenset[str] = SCHEMES,
        underway: Underway | None = None,
    ) -> None:
        """`underway` is told which page is being parsed."""
        self._archive = archive
        self._parsers = parsers
        self._memo = memo
        self._linker = linker
        self._seen_content = seen_content
        self._agent = agent
        self._schemes = schemes
        self._underway = underway or Underway(None)
        # Threads of its own: even if readers are stuck, commits and merges find free ones.
        self._readers = ThreadPoolExecutor(_READERS, "reader")

    def close(self) -> None:
        """No more pages are parsed; this does not wait for readers at work."""
        self._readers.shutdown(wait=False, cancel_futures=True)

    def store(self, response: Response, at: int, same: Fetched | None = None) -> Stored | None:
        """Put an exchange into the archive; without its body, if that is the body of the fetch `same`."""
        if self._archive is None:
            return None
        began = at - response.timing.total
        if same is not None:
            return self._archive.store_revisit(
                request_head=response.request_head,
                head=response.head,
                url=response.url,
                at=began,
                payload=payload_digest(response.body) if response.body else "",
                unmodified=response.status == 304,
                earlier_at=same.at - same.timing.total,
                address=response.address,
            )
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

    def _store(
        self, response: Response, at: int, same: Fetched | None, rendition: Rendition | None
    ) -> tuple[Stored | None, Rendered | None]:
        """Put an exchange and its rendition by a browser into the archive; returns what records say of both."""
        if rendition is None:
            return self.store(response, at, same), None
        if self._archive is None:
            return None, rendition.record
        place, stored = self._archive.store_rendered(
            rendition.parts,
            rendition.html,
            request_head=response.request_head,
            head=response.head,
            body=response.body,
            url=response.url,
            at=at - response.timing.total,
            address=response.address,
            truncated=response.truncated,
        )
        return stored, msgspec.structs.replace(rendition.record, stored=place)

    async def harvest(
        self,
        waiting: Waiting,
        response: Response,
        at: int,
        earlier: Earlier | None = None,
        render: Render | None = None,
        alike: Alike | None = None,
    ) -> Crop:
        """Parse, store and record an answer. A large body is parsed in a thread: it must not block the loop.

        `earlier`: the crawl is continuous, and needs to know whether the page has changed. `render`: if a browser
        renders the page, the result is taken for the page. `alike`: if the page is like another one, its links are
        not followed.
        """
        page: Page | None = None
        rendition: Rendition | None = None
        like = ""
        links, said, dropped, length = NO_LINKS, NONE, 0, len(response.decoded)
        if response.status in REDIRECTS and response.location is not None:
            links = self._redirect(waiting.url, response.location)
        elif response.decoded:
            page, said, links, dropped = await self._understand(waiting, response, at)
            rendition = await render(page, links) if render is not None else None
            if rendition is not None:
                if rendition.html:
                    response = msgspec.structs.replace(response, decoded=rendition.html)
                    page, said, links, dropped = await self._understand(waiting, response, at, rendition)
                links = self._moved(links, waiting.url, rendition.moves, said.nofollow)
        if alike is not None and page is not None and response.status < 300:
            like = await alike(page, response.decoded)
            links = _unfollowed(links) if like else links
        found = digest(response.decoded)
        judged = _Verdict(found)
        if earlier is not None:
            judged = await self._judge(response, earlier, page, links, found)
            if rendition is not None:
                judged = judged._replace(same=None, body=None)  # only the rendered documents are alike
            found = judged.digest
        stored, rendered = self._store(response, at, judged.same, rendition)
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
            length=length,
            digest=found,
            timing=response.timing,
            address=response.address,
            links=links,
            stored=stored,
            title=page.title if page else "",
            etag=(response.header("etag") or "")[:200],
            modified=(response.header("last-modified") or "")[:60],
            truncated=response.truncated,
            noindex=said.noindex,
            duplicate=bool(found) and self._seen_content(found),
            dropped=dropped,
            before=waiting.before,
            content=judged.content,
            weight=judged.weight,
            previous=judged.previous,
            body=judged.body,
            rendered=rendered,
            like=like,
        )
        return Crop(record, page, response)

    async def _understand(
        self, waiting: Waiting, response: Response, at: int, rendition: Rendition | None = None
    ) -> tuple[Page, Directives, Links, int]:
        """The parsed page, its directives for robots, its links, and how many links a limit excluded."""
        media = response.header("content-type") if rendition is None else RENDERED
        page: Page | None = None
        if len(response.decoded) >= _LARGE:
            loop = asyncio.get_running_loop()
            page = await loop.run_in_executor(self._readers, self._read_apart, waiting, response, at, media)
        slot = self._underway.begin(waiting, at)
        try:
            if page is None:
                page = self._read(waiting, response, media)
            said = self._directives(response, page)
            base = rendition.base if rendition is not None else ""
            return page, said, *self._links(page, waiting.url, said.nofollow, base)
        finally:
            self._underway.end(slot)

    def _moved(self, links: Links, url: str, moves: Sequence[str], nofollow: bool) -> Links:
        """The links together with those that scripts navigated to by themselves."""
        if not moves:
            return links
        known = {link.url: link for link in links}
        for move in moves:
            target = canonicalise(move, url, NO_RULES, schemes_from(url, self._schemes))
            if target is not None and target != url:
                known.setdefault(target, Link(target, LinkKind.REFRESH, nofollow, ""))
        return Links.pack(known.values())

    async def _judge(
        self, response: Response, earlier: Earlier, page: Page | None, links: Links, found: int
    ) -> _Verdict:
        """What a continuous crawl finds in addition about an answer whose body has the digest `found`."""
        old, place = earlier.record, earlier.position
        if response.status == 304 and old is not None:
            # The body is unchanged, whatever the headers say. Its digest for comparison stays, too.
            weight = earlier.weight if old.weight else 0
            return _Verdict(old.digest, old.content, weight, place, old, old.body or old.stored)
        if len(response.decoded) >= _LARGE:
            loop = asyncio.get_running_loop()
            content = await loop.run_in_executor(self._readers, content_of, page, response.decoded, links)
        else:
            content = content_of(page, response.decoded, links)
        if old is None:
            return _Verdict(found, content, earlier.weight)
        same = (old.digest, old.size, old.status) == (found, len(response.body), response.status)
        if not (found and same and old.stored) or response.truncated or response.url.startswith("file:"):
            return _Verdict(found, content, earlier.weight, place)
        return _Verdict(found, content, earlier.weight, place, old, old.body or old.stored)

    def _read(self, waiting: Waiting, response: Response, media: str | None) -> Page:
        return self._parsers.read(response.decoded, media, waiting.url)

    def _read_apart(self, waiting: Waiting, response: Response, at: int, media: str | None) -> Page:
        """As `_read`, in a thread, which goes on even if the caller no longer waits; so its mark stays, too."""
        slot = self._underway.begin(waiting, at)
        try:
            return self._read(waiting, response, media)
        finally:
            self._underway.end(slot)

    def _directives(self, response: Response, page: Page) -> Directives:
        tags = response.headers("x-robots-tag")
        if not tags and not page.robots:
            return NONE
        return merge(directives(tags, self._agent), meta_directives(page.robots, self._agent))

    def _redirect(self, url: str, location: str) -> Links:
        target = canonicalise(location, url, NO_RULES, schemes_from(url, self._schemes))
        return NO_LINKS if target is None else Links(target.encode("ascii"), bytes([LinkKind.REDIRECT]), b"")

    def _links(self, page: Page, url: str, nofollow: bool, based: str = "") -> tuple[Links, int]:
        """The links of a page, and how many a limit excluded. `based`: the base URL according to a browser."""
        base = url
        if based:
            base = canonicalise(based, url, NO_RULES, schemes_from(url, self._schemes)) or url
        elif page.base:
            base = canonicalise(page.base, url, NO_RULES, schemes_from(url, self._schemes)) or url
        if page.marks is not None:
            found = self._linker.links(page, base)
            if found is not None and len(found[0].urls) <= MOST_BYTES:
                return (_unfollowed(found[0]) if nofollow else found[0]), found[1]
            page = undeferred(page, self._parsers.limits)
        hrefs, kinds, texts, dropped = page.hrefs, page.kinds, page.texts, page.dropped
        if not hrefs:
            return NO_LINKS, dropped
        if len(hrefs) <= _SLICE:
            resolved = self._memo.resolve(base, hrefs)
        else:
            resolved = self._as_many_as_fit(base, hrefs)
            dropped += len(hrefs) - len(resolved)
            kinds, texts = kinds[: len(resolved)], texts[: len(resolved)]
        return pack_links(resolved, kinds, texts, NOFOLLOW if nofollow else 0), dropped

    def _as_many_as_fit(self, base: str, hrefs: list[str]) -> list[str | None]:
        """The URLs of the first hrefs, as many as fit into a record."""
        resolved: list[str | None] = []
        known: set[str] = set()
        size = 0
        for start in range(0, len(hrefs), _SLICE):
            part = self._memo.resolve(base, hrefs[start : start + _SLICE])
            new = {each for each in part if each is not None} - known
            size += sum(map(len, new)) + len(new)
            if size > MOST_BYTES + _SLICE:  # the first slice always fits
                break
            known |= new
            resolved += part
        return resolved


_ALL_NOFOLLOW = bytes(kind | NOFOLLOW for kind in range(256))


def _unfollowed(links: Links) -> Links:
    """The links of a page that forbids following any of them."""
    return Links(links.urls, links.kinds.translate(_ALL_NOFOLLOW), links.texts)


def pack_links(
    urls: Sequence[str | None], kinds: Sequence[int], texts: Sequence[str], flags: int = 0
) -> Links:
    """Columns of links as in a record; each URL once, under the kind that is most worth following."""
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


def content_of(page: Page | None, body: bytes, links: Links) -> int:
    """A digest of a page's content, independent of markup; 0 if only the bytes can be compared.

    The content of a feed or a sitemap is which URLs it has, and when they changed.
    """
    if page is None:
        return 0
    if page.type in _SAYING:
        return content_digest(body, page.charset)
    return digest(links.urls + _dates(links)) if page.type.endswith("xml") else 0


def _dates(links: Links) -> bytes:
    """The dates of change in a sitemap, unless all are equal, which is what tools write there."""
    known = set(links.texts.split(b"\n")) - {b""}
    return links.texts if len(known) > 1 and all(map(_DATE.match, known)) else b""


def _worth(kind: int) -> int:
    """Rank of a kind; smaller is better followed: plain, then nofollow, then requisites and forms."""
    if kind & 0x7F >= FIRST_REQUISITE or kind & 0x7F == LinkKind.FORM:
        return 2
    return 1 if kind & NOFOLLOW else 0


def _plain_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()[:100]
