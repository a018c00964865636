"""The writer of one shard's index: adds pages, and records with each commit how far the log was read.

A commit of tantivy can carry a note, but its Python package does not expose it. So the place is stored in a
document, the *marker*: each commit deletes the old one and adds a new one, and tantivy makes a commit visible
as a whole by replacing one file (`meta.json`). A process that is killed at any instant leaves the index as of its
last commit, place and pages together; what was added later is lost, and is read from the log again.

Documents have ids chosen by us. `put` removes the previous document with the id in the same commit: a page is in
the index once. `find` also sees documents that are not committed yet.

Memory: tantivy's writer has `heap` bytes and one thread; `due` tells when to commit, by the number of documents and
the bytes of text since the last commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import tantivy

from lycosa.errors import LocalError, StorageError
from lycosa.files import make_directory
from lycosa.index.schema import VERSION, Page, build, decode_page, document, key_of, marker, register

COMMIT_DOCUMENTS = 20_000
COMMIT_BYTES = 64 << 20
"""A commit is due when either limit is reached."""
HEAP = 48 << 20


class Marker(msgspec.Struct, frozen=True):
    """How far a shard is indexed."""

    version: int
    crawl: str
    place: list[int]
    """[start, next, end] of the follower in the log of the shard."""
    language: str
    """The language as which texts of unknown language are stemmed."""
    anchors: int = 0
    """The number of the last run of anchor texts that the documents include."""


def opened(path: Path, *, make: bool = False) -> Any:
    """The tantivy index in a directory."""
    try:
        if make:
            make_directory(path)
            index = tantivy.Index(build(), str(path), reuse=True)
        else:
            index = tantivy.Index.open(str(path))
    except (ValueError, OSError) as error:
        raise StorageError(
            f"the index in {path} cannot be read ({error}): build it anew with --rebuild"
        ) from None
    register(index)
    return index


def markers_of(searcher: Any, schema: Any, most: int = 1) -> list[Marker]:
    """The markers of an index: one for each of its shards, or none if nothing was committed yet."""
    query = tantivy.Query.term_query(schema, "kind", "marker", "basic")
    hits = searcher.search(query, most + 1).hits
    if len(hits) > most:
        raise StorageError("the index has two places: build it anew with --rebuild")
    try:
        return [
            msgspec.json.decode(searcher.doc(address).get_first("data"), type=Marker) for _, address in hits
        ]
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"the place of the index is damaged ({error}): build it anew with --rebuild"
        ) from None


class ShardWriter:
    """Writes the index of one shard. One instance at a time: tantivy keeps a lock in the directory."""

    def __init__(self, path: Path, crawl: str, language: str = "en", heap: int = HEAP) -> None:
        self._path = path
        self._crawl = crawl
        self._index = opened(path, make=True)
        self._schema = self._index.schema
        self._heap = heap
        self._writer: Any = None
        self._pending: dict[int, Page | None] = {}
        self._held = 0
        self._refresh()
        found = next(iter(markers_of(self._searcher, self._schema)), None)
        if found is not None and found.version != VERSION:
            raise StorageError(f"the index in {path} has another layout: build it anew with --rebuild")
        if found is not None and found.crawl != crawl:
            raise StorageError(f"the index in {path} is of another crawl: build it anew with --rebuild")
        self.marker = found or Marker(VERSION, crawl, [0, 0, 0], language)

    def _refresh(self) -> None:
        self._index.reload()
        self._searcher = self._index.searcher()

    def _write(self) -> Any:
        if self._writer is None:
            self._clear()
            try:
                self._writer = self._index.writer(self._heap, 1)
            except ValueError as error:
                raise LocalError(
                    f"the index in {self._path} cannot be written ({error}): another `lycosa index` may be at work"
                ) from None
        return self._writer

    def _clear(self) -> None:
        """Remove lists of deletions that no commit refers to, left by a killed process.

        tantivy does not, and fails when the next process reaches the same number of operations, which names them.
        """
        meta = msgspec.json.decode((self._path / "meta.json").read_bytes())
        named = {
            f"{segment['segment_id'].replace('-', '')}.{segment['deletes']['opstamp']}.del"
            for segment in meta["segments"]
            if segment.get("deletes")
        }
        for path in self._path.glob("*.del"):
            if path.name not in named:
                path.unlink()

    @property
    def due(self) -> bool:
        """Whether a commit is due."""
        return len(self._pending) >= COMMIT_DOCUMENTS or self._held >= COMMIT_BYTES

    @property
    def dirty(self) -> bool:
        """Whether anything was put or removed since the last commit."""
        return bool(self._pending)

    def find(self, identity: int) -> Page | None:
        """The current document of an id."""
        if identity in self._pending:
            return self._pending[identity]  # without its text
        query = tantivy.Query.term_query(self._schema, "key", key_of(identity), "basic")
        hits = self._searcher.search(query, 1, count=False).hits
        return decode_page(self._searcher.doc(hits[0][1]).get_first("data")) if hits else None

    def with_digest(self, digest: int) -> list[Page]:
        """Committed documents with this content."""
        query = tantivy.Query.term_query(self._schema, "digest", digest, "basic")
        hits = self._searcher.search(query, 1000, count=False).hits
        return [decode_page(self._searcher.doc(address).get_first("data")) for _, address in hits]

    def put(self, page: Page, *, new: bool = False) -> None:
        """Add a page, replacing the document with its id. `new`: `find` has just found none.

        tantivy searches every segment for documents to delete, at each commit; for a new page this is skipped.
        """
        writer = self._write()
        if not new:
            writer.delete_documents_by_term("key", key_of(page.id))
        writer.add_document(document(page, self.marker.language))
        self._pending[page.id] = msgspec.structs.replace(page, text="")
        self._held += len(page.text) + 1000

    def remove(self, identity: int) -> None:
        """Remove the document of an id."""
        self._write().delete_documents_by_term("key", key_of(identity))
        self._pending[identity] = None

    def commit(self, place: list[int], anchors: int | None = None) -> None:
        """Make everything since the last commit durable, and with it the place."""
        runs = self.marker.anchors if anchors is None else anchors
        new = Marker(VERSION, self._crawl, place, self.marker.language, runs)
        writer = self._write()
        try:
            writer.delete_documents_by_term("kind", "marker")
            writer.add_document(marker(msgspec.json.encode(new)))
            writer.commit()
        except (ValueError, OSError) as error:
            raise StorageError(f"cannot write the index in {self._path}: {error}") from None
        self.marker = new
        self._pending.clear()
        self._held = 0
        self._refresh()

    def copies(self) -> Iterator[Page]:
        """The committed copies."""
        query = tantivy.Query.term_query(self._schema, "kind", "copy", "basic")
        offset = 0
        while hits := self._searcher.search(query, 1000, count=False, offset=offset).hits:
            for _, address in hits:
                yield decode_page(self._searcher.doc(address).get_first("data"))
            offset += len(hits)

    def close(self) -> None:
        """Wait for merges, and release the lock. What was not committed is lost."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            if self._pending:
                writer.rollback()
            writer.wait_merging_threads()
