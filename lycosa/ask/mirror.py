"""Bodies as files, in directories by host and path, as `wget --mirror` leaves them.

    https://example.org/            example.org/index.html
    https://example.org/a/b.html    example.org/a/b.html
    http://example.org:8080/a?x=1   example.org:8080/a?x=1

Each page is written as it is now (`lycosa.ask.versions`), if it was answered with 2xx and has a body, byte for byte
as decoded; links in it are not changed. Where a name is already a file but is needed as a directory, the directory
gets `.d` appended; a file whose name is already a directory gets `.page`. Names longer than a file system takes are
cut, and end in a digest; so are whole paths, which then lose all directories but the first. A file that would
overwrite a page of the same export (`/` and `/index.html`, or names that differ only in the case of their letters,
which some file systems take as one name) gets `.page` appended. `index.jsonl` has {"url", "file", "type", "at"}
of each page, and is the authority on which file is which page.

Every name stays below the directory, whatever the URL contains. Existing files are overwritten.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from lycosa.ask.json_form import iso, safe
from lycosa.ask.reading import CrawlReader
from lycosa.ask.saved import SavedCrawl
from lycosa.files import make_directory, said
from lycosa.url.parts import path_of, site_of

INDEX = "index.jsonl"
_LONGEST = 200
_LONGEST_PATH = 1500
_ABOVE = frozenset(("", ".", ".."))


def names_of(url: str) -> list[str]:
    """Where the file of a URL goes: directories, then its own name."""
    path, mark, query = path_of(url).partition("?")
    segments = path.split("/")[1:]
    last = (segments.pop() or "index.html") + (mark + query.replace("/", "%2F"))
    place = site_of(url).partition("://")[2] or "local"
    if len(path) + len(last) > _LONGEST_PATH:
        return [_name(place), _name("/".join((*segments, last)))]
    return [_name(each) for each in (place, *segments, last)]


def _name(text: str) -> str:
    """A valid name in a file system."""
    text = text.replace("/", "%2F").replace("\0", "%00")
    if text in _ABOVE:
        text = f"_{text}"
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return text


def write_files(crawl: CrawlReader, to: Path, told: Callable[[str, int], None]) -> int:
    """Write the bodies of a crawl's pages; how many."""
    count = 0
    written: set[bytes] = set()
    with said("write", to):
        make_directory(to)
        with (to / INDEX).open("wb") as index:
            for page in SavedCrawl(crawl.directory).pages(status=range(200, 300)):
                if page.body is None:
                    continue
                place = _place(to, names_of(page.url), written)
                place.write_bytes(page.body)
                row = {
                    "url": page.url,
                    "file": place.relative_to(to).as_posix(),
                    "type": page.type,
                    "at": iso(page.at),
                }
                index.write(safe(msgspec.json.encode(row)) + b"\n")
                count += 1
                if not count & 0xFF:
                    told("writing files", count)
    return count


def _place(to: Path, names: list[str], written: set[bytes]) -> Path:
    """A path for a file, with its directories made; `written`: digests of the paths written before it."""
    at = to
    for name in names[:-1]:
        at = at / name
        while at.is_file():
            at = at.with_name(at.name + ".d")
        if not at.is_dir():
            at.mkdir()
    at = at / names[-1]
    while at.is_dir() or _digest(at) in written:
        at = at.with_name(at.name + ".page")
    written.add(_digest(at))
    return at


def _digest(path: Path) -> bytes:
    """Digest of a path, ignoring the case of letters, since some file systems do."""
    return hashlib.blake2b(os.fsencode(str(path).casefold()), digest_size=12).digest()
