"""Small indexes for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lycosa.index.reader import ShardReader
from lycosa.index.schema import Page
from lycosa.index.writer import ShardWriter


def page(number: int, text: str, title: str = "", *, host: str = "a.test", **fields: object) -> Page:
    known: dict[str, object] = {"at": 1_700_000_000_000 + number, "type": "text/html", "language": "en"}
    return Page(number, f"http://{host}/{number}", host, title, text=text, **{**known, **fields})  # type: ignore[arg-type]


def write(path: Path, pages: Iterable[Page], place: Sequence[int] = (0, 0, 0)) -> None:
    writer = ShardWriter(path, "made")
    for each in pages:
        writer.put(each)
    writer.commit(list(place))
    writer.close()


def shards(path: Path, pages: Sequence[Page], count: int = 1) -> list[ShardReader]:
    """Pages over so many shards, by their numbers."""
    for shard in range(count):
        write(path / str(shard), [each for each in pages if each.id % count == shard])
    return [ShardReader(path / str(shard)) for shard in range(count)]
