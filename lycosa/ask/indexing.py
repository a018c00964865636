"""The search index of a crawl: a follower of its log that keeps one index per shard, in DIR/index.

    with Indexing(crawl) as indexing:
        indexing.round()            everything committed that is not indexed yet

**What happens with a fetch.** A page that was fetched successfully (2xx), may be indexed (no `noindex`) and has
text is in the index once, with the content of its last such fetch. An answer that says that the page is gone (4xx,
3xx), or `noindex`, takes it out; one that says nothing about the page (304, 5xx, 408, 425, 429) changes nothing,
and neither does a fetch of the same content. A fetch that is taken back (`Lost`) takes its version out, and the
version before it is restored if there is one.

**Copies.** A page whose content was fetched before at another URL becomes a *copy*: a document without text that
names its original. When no shard has the original any more, the copy becomes a page. This is checked at the end of
a round, and for all copies in the first round of a process, so a kill in between loses nothing.

**Anchors.** The link texts that point to a page are gathered first, from all shards' logs
(`lycosa.index.anchors`). Pages are then indexed with them; pages indexed earlier that have new texts are rewritten.

**Ranks.** PageRank of the pages, in a file beside the shards, recomputed now and then: `lycosa.ask.ranking`.

**Some of the shards.** In a cluster a process keeps the indexes of some shards (`keep`), and has the logs of all,
for the anchors. It then asks the process that has the other shards about contents (`elsewhere`); while one of
those does not answer, no copy becomes a page, and it is checked again in the next round.

**The place.** Each shard's index holds its own place in the shard's log, committed with the pages
(`lycosa.index.writer`). After a kill the next round goes on from there, and what comes twice replaces itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path

import msgspec
import numpy as np

from lycosa.ask import ranking
from lycosa.ask.export import body_of
from lycosa.ask.follower import Follower, Place, Stretch
from lycosa.ask.indexed_text import is_indexed, read_text
from lycosa.ask.reading import CrawlReader
from lycosa.content.sketches import sketch
from lycosa.errors import StorageError
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.index.anchors import Anchors
from lycosa.index.ranks import NAME
from lycosa.index.schema import MOST_TEXT, Page
from lycosa.index.writer import ShardWriter
from lycosa.pages.summary import is_failure
from lycosa.records import Before, Duplicates, Fetched, LinkKind, Lost
from lycosa.refresh.hints import date_of
from lycosa.url.parts import host_of

DIRECTORY = "index"
ANCHORS = "anchors"
"""The directory of the anchor texts, in the index."""
_AT_ONCE = 1_000
"""Contents that other processes are asked about at a time."""
Told = Callable[[str, int], None]
Best = tuple[bool, int, int]
"""The best document of a content: whether it is a copy; if so, when it was fetched, and its id. The least wins."""
Elsewhere = Callable[[Sequence[int]], "dict[int, Best] | None"]
"""The best documents that other shards have of some contents; None if that cannot be known now."""


def shard_path(directory: Path, shard: int) -> Path:
    """Where the index of a shard is."""
    return directory / DIRECTORY / f"shard-{shard:02d}"


def best_of(pages: Iterable[Page]) -> Best | None:
    """The best document of one content."""
    return min(((True, page.at, page.id) if page.copy else (False, 0, 0) for page in pages), default=None)


class Round(msgspec.Struct):
    """What a round did."""

    records: int = 0
    pages: int = 0
    """Pages put into the index, new or replacing an older version."""
    bodiless: int = 0
    """Those of them whose body the archive does not have: found by title and address alone."""
    copies: int = 0
    removed: int = 0
    renamed: int = 0
    """Pages that were rewritten because they have new link texts."""


class Indexing:
    """Keeps the index of a crawl. One instance at a time: it holds a lock in DIR/index."""

    def __init__(
        self,
        crawl: CrawlReader,
        *,
        language: str = "en",
        rebuild: bool = False,
        told: Told = lambda *_: None,
        shards: Collection[int] | None = None,
        elsewhere: Elsewhere = lambda _: {},
    ) -> None:
        """`shards`: those to index; all by default."""
        self._crawl = crawl
        self._told = told
        self._language = language
        self._elsewhere = elsewhere
        self._suspects: set[int] | None = None  # None: every copy is looked at
        root = crawl.directory / DIRECTORY
        self._lock = DirectoryLock(root)
        try:
            if rebuild:
                for old in (*root.glob("shard-*"), root / ANCHORS, root / ranking.GRAPH):
                    shutil.rmtree(old, ignore_errors=True)
                (root / NAME).unlink(missing_ok=True)
            self._anchors = Anchors(DiskFiles(root / ANCHORS), crawl.crawl)
            self._writers: dict[int, ShardWriter] = {}
            self.keep(range(crawl.manifest.shards) if shards is None else shards)
        except BaseException:
            self._lock.release()
            raise
        self.done = Round()

    def keep(self, shards: Collection[int]) -> None:
        """Keep the indexes of these shards from now on; the indexes of others are left as they are."""
        for shard in [each for each in self._writers if each not in shards]:
            self._writers.pop(shard).close()
        for shard in sorted(shards):
            if shard not in self._writers:
                path = shard_path(self._crawl.directory, shard)
                self._writers[shard] = ShardWriter(path, self._crawl.crawl, self._language)
                self._suspects = None

    def keeps(self, shard: int) -> bool:
        return shard in self._writers

    def position(self, shard: int) -> int:
        """The position before which everything is in the index of a shard; 0 if it is not kept."""
        return self._writers[shard].marker.place[1] if shard in self._writers else 0

    def doubt_copies(self) -> None:
        """Check every copy in the next round: an original may have gone from a shard elsewhere."""
        self._suspects = None

    def __enter__(self) -> Indexing:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for writer in self._writers.values():
                writer.close()
        finally:
            self._lock.release()

    def round(self) -> Round:
        """Index what is new; returns what was done. What an exception interrupts is done again next time."""
        self.done = done = Round()
        self._gather()
        suspects: set[int] = set()
        places = [
            Place(*self._writers[shard].marker.place) if shard in self._writers else Place()
            for shard in range(self._crawl.manifest.shards)
        ]
        new = {shard for shard, place in enumerate(places) if place == Place()}
        follower = Follower(self._crawl, places, settled=True)
        last: int | None = None
        for shard, position, record in follower.read(shards=sorted(self._writers)):
            if last is not None and shard != last:
                self._commit(last, follower)
            last = shard
            writer = self._writers[shard]
            if isinstance(record, Fetched):
                self._fetched(writer, position, record, suspects)
            elif isinstance(record, Lost):
                self._lost(writer, shard, record, suspects)
            elif isinstance(record, Duplicates):
                self._late(writer, shard, record, suspects)
            done.records += 1
            if not done.records & 0x3F:
                self._told("indexing", done.records)
            if writer.due:
                self._commit(shard, follower)
        for shard in self._writers:
            self._commit(shard, follower)
        self._rename(new)
        self._promote(suspects)
        return done

    def rank(self, at: int, grown: float = 0.0) -> int:
        """Recompute the ranks if the log has grown by that share since the last time; of how many pages, or 0."""
        files = DiskFiles(self._crawl.directory / DIRECTORY)
        return ranking.refresh(self._crawl, files, at, grown, self._told)

    def _commit(self, shard: int, follower: Follower) -> None:
        writer = self._writers[shard]
        place = follower.places[shard]
        (now,) = _lists([place])
        if writer.dirty or now != writer.marker.place:
            writer.commit(now)

    # -- anchors

    def _gather(self) -> None:
        """Read the link texts of pages, up to the end of the logs."""
        anchors = self._anchors
        follower = Follower(self._crawl, [Place(*place) for place in anchors.manifest.places], settled=True)
        for count, (_, _, record) in enumerate(follower.read(), 1):
            if not count & 0xFF:
                self._told("reading links", count)
            if isinstance(record, Fetched) and record.links.kinds and 200 <= record.status < 300:
                self._named(record)
            if anchors.due:
                anchors.save(_lists(follower.places))
        anchors.save(_lists(follower.places))

    def _named(self, record: Fetched) -> None:
        """Note the texts of a page's links."""
        links, keyer = record.links, self._crawl.keyer
        keys, hosts = keyer.scan(links.urls)
        kinds = np.frombuffer(links.kinds, np.uint8)
        naming = (kinds == LinkKind.ANCHOR) | (kinds == LinkKind.AREA)
        wanted = np.flatnonzero(naming & (keys != keyer.key(record.url)))
        if not len(wanted):
            return
        texts = [""] * len(wanted)
        if links.texts:
            every = links.texts.decode("utf-8", "replace").split("\n")
            texts = every if len(wanted) == len(every) else [every[at] for at in wanted.tolist()]
            if record.type.endswith("xml"):  # a sitemap has dates instead of link texts
                texts = ["" if date_of(text) is not None else text for text in texts]
        urls: list[bytes] = []

        def shard_of(number: int) -> int:
            at = wanted[number]
            if not urls:
                urls.extend(links.urls.split(b"\n"))
            return self._crawl.splitter.shard_of_url(int(hosts[at]), urls[at].decode("ascii"))

        self._anchors.add(keys[wanted].tolist(), texts, shard_of, record.before is not Before.PAGE)

    def _rename(self, new: Collection[int]) -> None:
        """Rewrite the pages that have new link texts; in new shards all pages already have theirs."""
        anchors = self._anchors
        for shard, writer in self._writers.items():
            if writer.marker.anchors >= anchors.last:
                continue
            changed = () if shard in new else anchors.changed(shard, writer.marker.anchors)
            for count, identity in enumerate(changed, 1):
                if not count & 0xFF:
                    self._told("anchor texts", count)
                page = writer.find(identity)
                if page is None or page.copy:
                    continue
                texts = anchors.texts(identity)
                if set(texts) != set(page.anchors):
                    writer.put(msgspec.structs.replace(page, anchors=texts))
                    self.done.renamed += 1
                if writer.due:
                    writer.commit(writer.marker.place)
            writer.commit(writer.marker.place, anchors.last)

    # -- records

    def _fetched(self, writer: ShardWriter, position: int, record: Fetched, suspects: set[int]) -> None:
        if record.status == 304 or is_failure(record.status):
            return
        identity = self._crawl.keyer.key(record.url)
        before = writer.find(identity)
        if not 200 <= record.status < 300 or record.noindex or not is_indexed(record.type):
            if before is not None:
                writer.remove(identity)
                suspects.add(before.digest)
                self.done.removed += 1
            return
        if before is not None and before.digest == record.digest and record.digest:
            return
        if before is not None:
            suspects.add(before.digest)
        copy = record.duplicate and bool(record.digest)
        writer.put(self._page(identity, position, record, copy=copy), new=before is None)
        if copy:
            suspects.add(record.digest)
            self.done.copies += 1
        else:
            self.done.pages += 1

    def _page(self, identity: int, position: int, record: Fetched, *, copy: bool) -> Page:
        known = Page(
            identity,
            record.url,
            host_of(record.url),
            at=record.at,
            modified=_time(record.modified),
            depth=record.depth,
            digest=record.digest,
            position=position,
            type=record.type,
            copy=copy,
        )
        if copy:
            return known
        try:
            body = body_of(self._crawl, record)
        except StorageError:
            body = None  # a page whose body the archive has lost is found by its title and address
        self.done.bodiless += body is None
        read = read_text(body or b"", record)
        text = read.text[:MOST_TEXT]
        return msgspec.structs.replace(
            known,
            title=read.title,
            headings=read.headings,
            text=text,
            language=read.language,
            anchors=self._anchors.texts(identity),
            sketch=sketch(text).simhash,
        )

    def _lost(self, writer: ShardWriter, shard: int, record: Lost, suspects: set[int]) -> None:
        identity = self._crawl.keyer.key(record.url)
        before = writer.find(identity)
        if before is None or before.position != record.position:
            return
        writer.remove(identity)
        suspects.add(before.digest)
        self.done.removed += 1
        if record.remains:
            found = Stretch(self._crawl.logs[shard]).find(record.url.encode())
            for position, other in found:
                if isinstance(other, Fetched) and other.url == record.url:
                    self._fetched(writer, position, other, suspects)

    def _late(self, writer: ShardWriter, shard: int, record: Duplicates, suspects: set[int]) -> None:
        for position in record.positions:
            fetched = self._record(shard, position)
            if fetched is None:
                continue
            before = writer.find(self._crawl.keyer.key(fetched.url))
            if before is not None and before.position == position and not before.copy and before.digest:
                writer.put(self._page(before.id, position, fetched, copy=True))
                suspects.add(before.digest)
                self.done.copies += 1

    def _record(self, shard: int, position: int) -> Fetched | None:
        for _, record in self._crawl.logs[shard].scan(position, position + 1):
            return record if isinstance(record, Fetched) else None
        return None

    # -- copies whose original is gone

    def _promote(self, suspects: set[int]) -> None:
        if self._suspects is None:
            wanted = {copy.digest for writer in self._writers.values() for copy in writer.copies()}
        else:
            wanted = suspects | self._suspects
        self._suspects = set()
        digests = sorted(wanted - {0})
        changed: set[int] = set()
        for first in range(0, len(digests), _AT_ONCE):
            self._told("looking at copies", first)
            some = digests[first : first + _AT_ONCE]
            others = self._elsewhere(some)
            if others is None:
                self._suspects.update(some)
                continue
            for digest in some:
                self._choose(digest, others.get(digest), changed)
        for shard in changed:
            self._writers[shard].commit(self._writers[shard].marker.place)

    def _choose(self, digest: int, other: Best | None, changed: set[int]) -> None:
        """Turn the first copy of a content that has only copies into a page, if that copy is ours."""
        documents = [
            (shard, page) for shard, writer in self._writers.items() for page in writer.with_digest(digest)
        ]
        best = best_of(page for _, page in documents)
        if best is None or not best[0] or (other is not None and other < best):
            return
        shard, page = next(row for row in documents if (row[1].at, row[1].id) == best[1:])
        record = self._record(shard, page.position)
        if record is not None:
            self._writers[shard].put(self._page(page.id, page.position, record, copy=False))
            self.done.pages += 1
            changed.add(shard)


def _lists(places: Sequence[Place]) -> list[list[int]]:
    return [[place.start, place.next, place.end] for place in places]


def _time(text: str) -> int:
    """Last-Modified in milliseconds; 0 if there is none."""
    if not text:
        return 0
    try:
        return max(0, round(parsedate_to_datetime(text).timestamp() * 1000))
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return 0


def indexed(directory: Path, shards: int) -> Iterator[int]:
    """The shards that have an index."""
    for shard in range(shards):
        if (shard_path(directory, shard) / "meta.json").exists():
            yield shard
