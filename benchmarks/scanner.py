"""The links of real pages by the crawl's scanner and by the tree parser: where do they differ, and why?

    python benchmarks/scanner.py DIR ...            a minute per 10,000 pages; DIR holds .html, .htm, .html.gz
    python benchmarks/scanner.py DIR ... --write    also writes docs/benchmarks/scanner.md

Both read each page as in a crawl: the scanner with its kernels and memo, the tree parser with Python. Compared
are the links of the record (URL, kind, nofollow, text), and title, base, canonical, robots, language. A difference
is counted under the first of these names that explains it; what none explains is printed with its page and ends the
program with an error.

    shadow      the link, or one with the same URL, is in a declarative shadow root, which the tree parser leaves
                out: it is explained if renaming the attribute `shadowrootmode` makes the difference vanish
    opened      the tree opens an anchor again that its markup did not close: its text is part of the scanner's
    order       the same URL occurs several times; kind and text are those of another occurrence in the tree
    ignored     the tree parser leaves out an element because of where it stands

The tree parser reads whole texts here, however large the page is; in a crawl it cuts those of pages above 1 MiB.
"""

from __future__ import annotations

import argparse
import gzip
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lycosa.crawl.harvest import pack_links
from lycosa.meters import Meters
from lycosa.page import html
from lycosa.page.charset import charset_of
from lycosa.page.html import HtmlParser
from lycosa.page.linking import Linker, undeferred
from lycosa.page.protocol import Limits, Page
from lycosa.page.scan import ScanParser
from lycosa.records import Link, Links
from lycosa.url.canonical import NO_RULES, canonicalise
from lycosa.url.hrefs import HrefMemo
from lycosa.url.key import Keyer
from lycosa.url.memo import LinkMemo

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "docs" / "benchmarks" / "scanner.md"
NAMES = ("shadow", "opened", "order", "ignored")
LIMITS = Limits(repeats=False)
_HEAD = ("title", "base", "canonical", "robots", "language", "cut")
_SHADOW = re.compile(rb"shadowrootmode", re.IGNORECASE)


def by_url(links: Links) -> dict[str, Link]:
    return {link.url: link for link in links}


class Reader:
    """Reads a page both ways."""

    def __init__(self) -> None:
        keyer = Keyer(7)
        self._memo = HrefMemo(1 << 16, NO_RULES, Meters())
        self._linker = Linker(LinkMemo(1 << 16, keyer), self._memo, keyer, NO_RULES, LIMITS, Meters())
        self._scanner = ScanParser(LIMITS, deferred=True)
        self._tree = HtmlParser(LIMITS)
        self._whole = HtmlParser(Limits())

    def scanned(self, body: bytes, url: str, charset: str) -> tuple[Page, dict[str, Link]]:
        page = self._scanner.parse(body, url, "text/html", charset)
        found = self._linker.links(page, _base(page, url))
        if found is None:
            return self._plain(undeferred(page, LIMITS), url)
        return page, by_url(found[0])

    def treed(self, body: bytes, url: str, charset: str) -> tuple[Page, dict[str, Link]]:
        return self._plain(self._tree.parse(body, url, "text/html", charset), url)

    def occurrences(self, body: bytes, url: str, charset: str) -> dict[str, list[tuple[int, str]]]:
        """Kind (with nofollow) and text of each occurrence of each URL in the tree."""
        page = self._whole.parse(body, url, "text/html", charset)
        found: dict[str, list[tuple[int, str]]] = {}
        for target, kind, text in zip(self._resolved(page, url), page.kinds, page.texts, strict=True):
            if target is not None:
                found.setdefault(target, []).append((kind, text))
        return found

    def _plain(self, page: Page, url: str) -> tuple[Page, dict[str, Link]]:
        return page, by_url(pack_links(self._resolved(page, url), page.kinds, page.texts))

    def _resolved(self, page: Page, url: str) -> list[str | None]:
        return self._memo.resolve(_base(page, url), page.hrefs)


def _base(page: Page, url: str) -> str:
    return (canonicalise(page.base, url) or url) if page.base else url


def name_of(mine: Link | None, theirs: Link | None, found: list[tuple[int, str]], shadow: bool) -> str | None:
    """The name of a difference between two links with one URL; None: it has no name.

    `found`: the occurrences of the URL in the tree; `shadow`: without shadow roots there is no difference.
    """
    if mine is None:
        return None  # nothing explains a link that is lost
    if shadow:
        return "shadow"
    if theirs is None:
        return "ignored"
    code = int(mine.kind) | (0x80 if mine.nofollow else 0)
    if code in (kind for kind, _ in found) and mine.text in (text for _, text in found):
        return "order"
    if mine.kind == theirs.kind and mine.text.startswith(theirs.text):
        return "opened"
    return None


def files(places: list[Path]) -> Iterator[tuple[str, Path]]:
    """The pages of each place, with its name."""
    for place in places:
        for path in sorted(place.rglob("*")):
            if path.name.endswith((".html", ".htm", ".html.gz")) and path.is_file():
                yield place.name, path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", metavar="DIR", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/scanner.md")
    args = parser.parse_args()
    html._LARGE = sys.maxsize  # as large as any page
    reader = Reader()
    counts: dict[str, Counter[str]] = {}
    unnamed = 0
    began = time.process_time()
    for origin, path in files(args.places):
        body = path.read_bytes()
        if path.suffix == ".gz":
            body = gzip.decompress(body)
        count = counts.setdefault(origin, Counter())
        url = f"http://h.test/d/{count['pages']}.html"
        charset = charset_of(body, None, html=True)
        page, mine = reader.scanned(body, url, charset)
        tree, theirs = reader.treed(body, url, charset)
        count["pages"] += 1
        count["bytes"] += len(body)
        count["links"] += len(theirs)
        for field in _HEAD:
            if getattr(page, field) != getattr(tree, field):
                unnamed += 1
                print(f"{path}: {field}: {getattr(page, field)!r}, {getattr(tree, field)!r}")
        if mine == theirs:
            continue
        count["pages that differ"] += 1
        found = reader.occurrences(body, url, charset)
        open_body = _SHADOW.sub(b"shadowrootless", body)
        lit = reader.treed(open_body, url, charset)[1] if open_body != body else theirs
        for target in dict.fromkeys([*theirs, *mine]):
            one, other = mine.get(target), theirs.get(target)
            if one == other:
                continue
            shadow = open_body != body and one == lit.get(target)
            name = name_of(one, other, found.get(target, []), shadow)
            if name is None:
                unnamed += 1
                print(f"{path}: {target}: {one and one[1:]}, {other and other[1:]}, {found.get(target)}")
            else:
                count[name] += 1
    rows = [*counts.items(), ("all", sum(counts.values(), Counter()))]
    columns = ("pages", "MB", "links", "pages that differ", *NAMES)
    lines = ["| from | " + " | ".join(columns) + " |", "|---" + "|---:" * len(columns) + "|"]
    for origin, count in rows:
        count["MB"] = round(count["bytes"] / 1e6)
        lines.append(f"| {origin} | " + " | ".join(f"{count[name]:,}" for name in columns) + " |")
    print("\n".join(lines))
    print(f"{unnamed} differences without a name; {time.process_time() - began:.0f} s of CPU")
    if unnamed:
        raise SystemExit(1)
    if args.write:
        RESULTS.write_text(_report(lines), encoding="utf-8")
        print(f"written: {RESULTS.relative_to(PROJECT)}")


def _report(lines: list[str]) -> str:
    said = (__doc__ or "").partition("\n\n")[2].partition("Both read")[2]
    about = "Both read" + said
    return "\n".join(
        [
            "# The scanner's links and the tree's",
            "",
            "Written by `benchmarks/scanner.py --write`; [how to run it](../../benchmarks/README.md).",
            "",
            f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}",
            "",
            about.rstrip(),
            "",
            "The counts of differences are of links.",
            "",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
