"""The near duplicates of a crawl: a follower of its log that keeps clusters, in DIR/clusters.

    with Clustering(crawl) as clustering:
        clustering.round()                      everything committed that was not looked at yet

Readers use `lycosa.ask.clusters`.

It is a follower, and not part of the crawl itself: main text and sketch of a page of 22 KB take some 250 µs, half
of what a page otherwise costs a crawl, and nothing in a crawl waits for the answer. What a crawl must know at once
(the same bytes elsewhere) it knows by digests. A follower also sees all shards, so clusters span sites.

**What happens with a fetch.** A page that was fetched successfully (2xx), is HTML or plain text and has at least
`clusters.FEW` words is in the index, with the content of its last such fetch; the sketch of its earlier content is
removed. An answer that says that there is no page (4xx, 3xx) takes it out; one that says nothing about the page
(304, 5xx, 408, 425, 429) changes nothing. A fetch that is taken back (`Lost`) takes its version out, and the
version before it is restored if there is one.

**Rules.** From pages with the same content it also learns which parameters and path parts do not matter and which
sites mirror others (`lycosa.content.variants`), and proposes rules. Their counts are kept from round to round; new
pages are compared only with pages of the same round.

**Files.** DIR/clusters/index is the index of sketches (`lycosa.content.alike`), `members-N` the table of clusters.
The note in the index's manifest has the crawl, the table's name, proposed rules and the place in the log: one file,
replaced atomically, says which files belong together, and after a kill the next round goes on from there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

import msgspec

from lycosa.ask.clusters import DIRECTORY, INDEX, POSITIONS, Note, Proposal, read_note, record_at
from lycosa.ask.export import body_of
from lycosa.ask.follower import Follower, Stretch
from lycosa.ask.reading import CrawlReader
from lycosa.content.alike import AlikeIndex
from lycosa.content.clusters import FEW, Clusters, Members
from lycosa.content.documents import HTML, PLAIN, text_of
from lycosa.content.sketches import Sketch, sketch
from lycosa.content.variants import Evidence, Page, Support
from lycosa.errors import StorageError
from lycosa.files import DirectoryLock, DiskFiles, write_whole
from lycosa.pages.summary import is_failure
from lycosa.records import FIRST_REQUISITE, Before, Fetched, LinkKind, Lost

_SAVED = 20_000
"""Pages between two saves."""
_PAGES = 20_000
"""Pages that a round remembers in order to find rules about URLs."""
_RULES = 500
_LARGE = 1 << 18
_FOLLOWED = frozenset(kind for kind in LinkKind if kind < FIRST_REQUISITE)
_MEDIA = frozenset((LinkKind.IMAGE, LinkKind.MEDIA, LinkKind.OBJECT))
Told = Callable[[str, int], None]


class Round(msgspec.Struct):
    """What a round did."""

    records: int = 0
    pages: int = 0
    """Pages that were new or had changed."""
    removed: int = 0


class Clustering:
    """Keeps the clusters of a crawl. One at a time: it holds a lock in DIR/clusters."""

    def __init__(
        self,
        crawl: CrawlReader,
        *,
        memory: int = 32 << 20,
        rebuild: bool = False,
        told: Told = lambda *_: None,
    ) -> None:
        self._crawl = crawl
        self._told = told
        root = crawl.directory / DIRECTORY
        self._lock = DirectoryLock(root)
        try:
            if rebuild:
                shutil.rmtree(root / INDEX, ignore_errors=True)
            self._files = DiskFiles(root)
            self._index = AlikeIndex(self._files.within(INDEX), memory)
            note = read_note(crawl, self._index.note)
            self._note = note or Note(crawl.crawl, "", 0, [])
            members = Members(self._files.read(note.members) if note else b"")
            for name in self._files.list(""):
                if name.startswith("members-") and name != self._note.members:
                    self._files.remove(name)
        except BaseException:
            self._lock.release()
            raise
        self._clusters = Clusters(self._index, members, self._sketch_at)
        self._evidence = Evidence(_PAGES)
        for row in self._note.rules:
            self._evidence.rules[row.rule] = Support(row.agreed, row.disagreed, row.examples)
        self.done = Round()

    def __enter__(self) -> Clustering:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def round(self) -> Round:
        """Process what is new; returns what was done. What is interrupted is done again next time."""
        self.done = done = Round()
        follower = Follower(self._crawl, self._note.places, settled=True)
        saved = 0
        for shard, position, record in follower.read():
            if isinstance(record, Fetched):
                self._fetched(shard, position, record)
            elif isinstance(record, Lost):
                self._lost(shard, record)
            done.records += 1
            if not done.records & 0x3F:
                self._told("looking for near duplicates", done.records)
            if done.pages - saved >= _SAVED:
                self._save(follower)
                saved = done.pages
        if follower.places != self._note.places:
            self._save(follower)
        return done

    def _save(self, follower: Follower) -> None:
        old, number = self._note.members, self._note.number + 1
        name = f"members-{number:06d}"
        write_whole(self._files, name, self._clusters.members.encode())
        rules = [
            Proposal(
                rule=text,
                agreed=row.agreed,
                disagreed=row.disagreed,
                confidence=round(row.confidence, 3),
                examples=row.examples,
            )
            for text, row in self._evidence.compared()[:_RULES]
        ]
        self._note = Note(self._crawl.crawl, name, number, follower.places, rules)
        self._index.save(msgspec.to_builtins(self._note))
        if old:
            self._files.remove(old)

    # -- records

    def _fetched(self, shard: int, position: int, record: Fetched) -> None:
        if record.status == 304 or is_failure(record.status):
            return
        key = self._crawl.keyer.key(record.url)
        body = self._body(record)
        found = _sketched(body, record)
        if found is None:
            self.done.removed += self._clusters.remove(key)
        else:
            self.done.pages += self._clusters.put(key, found, shard << POSITIONS | position)
            if record.before is not Before.PAGE and record.type in HTML:
                page = Page(record.url, body[:_LARGE], record.charset, partial(_linked, record))
                self._evidence.meet(page.read())

    def _lost(self, shard: int, record: Lost) -> None:
        key = self._crawl.keyer.key(record.url)
        if self._clusters.place_of(key) != shard << POSITIONS | record.position:
            return
        self.done.removed += self._clusters.remove(key)
        if record.remains:
            for position, other in Stretch(self._crawl.logs[shard]).find(record.url.encode()):
                if isinstance(other, Fetched) and other.url == record.url:
                    self._fetched(shard, position, other)

    def _body(self, record: Fetched) -> bytes:
        """The body of a page that may be clustered; else empty."""
        if not 200 <= record.status < 300 or not (record.type in HTML or record.type in PLAIN):
            return b""
        try:
            return body_of(self._crawl, record) or b""
        except StorageError:
            return b""  # the archive has lost it

    def _sketch_at(self, place: int) -> Sketch | None:
        record = record_at(self._crawl, place)
        return None if record is None else _sketched(self._body(record), record)


def _sketched(body: bytes, record: Fetched) -> Sketch | None:
    """The sketch of a page that has enough text; else None."""
    text = text_of(body, record.type, record.charset) if body else ""
    return sketch(text) if len(text.split()) >= FEW else None


def _linked(record: Fetched) -> tuple[list[str], list[str]]:
    """The links of a page that a crawl would follow, and its pictures."""
    links = [link.url for link in record.links if link.kind in _FOLLOWED]
    return links, [link.url for link in record.links if link.kind in _MEDIA][:50]
