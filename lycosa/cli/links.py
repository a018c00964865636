"""`lycosa links`: the links that a crawl would extract from one file; a filter.

Text output: a head of `name: value` lines (type, charset, title, base, canonical, robots, counts), a blank
line, then one link per line in columns: kind, `nofollow` or `-`, resolved URL, text. A link whose href has no
canonical form is shown as written, with `!` before its kind: the crawl would drop it.

HTML is read by the crawl's scanner, or with `--by tree` by the parser that the scanner is tested against.

With `--json`: one object per line, first the page (`"page"`), then every link.
"""

from __future__ import annotations

import argparse
import json
import mimetypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lycosa.ask.json_form import safe_text
from lycosa.cli.streams import printable
from lycosa.errors import ConfigError, StorageError
from lycosa.page.protocol import Page
from lycosa.page.registry import Parsers
from lycosa.records import NOFOLLOW, LinkKind
from lycosa.url.canonical import canonicalise

HELP = "print the links of a file as a crawl would extract them"
EPILOG = """\
examples:
  lycosa links page.html --base https://example.org/dir/
  curl -s https://example.org/ | lycosa links - --base https://example.org/ --json
  lycosa links sitemap.xml.gz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to read; - for standard input")
    parser.add_argument("--base", metavar="URL", help="URL of the file, against which links are resolved")
    parser.add_argument(
        "--type",
        metavar="TYPE",
        help="the Content-Type it came with, e.g. 'text/html; charset=utf-8'"
        " (default: by the name of the file, else by its bytes)",
    )
    parser.add_argument(
        "--by",
        choices=("scanner", "tree"),
        default="scanner",
        help="HTML parser: the crawl's scanner, or one that builds a tree (scanner)",
    )
    parser.add_argument("--json", action="store_true", help="JSON lines: the page, then its links")


def run(args: argparse.Namespace) -> int:
    base = None
    if args.base is not None:
        base = canonicalise(args.base)
        if base is None:
            raise ConfigError(f"--base {args.base!r} is not an absolute URL, such as https://example.org/")
    body = read_file(args.file)
    # The name may be wrong, and a name of compressed data says nothing about the content.
    type_, coding = (None, None) if args.file == "-" else mimetypes.guess_type(args.file)
    said = args.type if args.type is not None else (None if coding else type_)
    page = _parsers(args.by).read(body, said, args.base or args.file)
    against = (canonicalise(page.base, base) if page.base else None) or base
    rows = _rows(page, against)
    out = sys.stdout
    if args.json:
        out.write(_json({"page": _head(page, against)}) + "\n")
        for row in rows:
            out.write(_json(row) + "\n")
    else:
        for name, value in _head(page, against).items():
            if value not in ("", None, [], 0, False):
                out.write(f"{name}: {_shown(value)}\n")
        out.write("\n")
        for row in rows:
            kind = row["kind"] if row["url"] is not None else f"!{row['kind']}"
            mark = "nofollow" if row["nofollow"] else "-"
            target = row["url"] if row["url"] is not None else printable(row["href"])
            out.write(f"{kind:<10} {mark:<8} {target}  {printable(row['text'])}".rstrip() + "\n")
    return 0


def _parsers(by: str) -> Parsers:
    if by == "tree":
        return Parsers.load()
    from lycosa.page.scan import ScanParser

    return Parsers.load(html=ScanParser())


def read_file(name: str) -> bytes:
    """A file that a user named; - is standard input."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except (FileNotFoundError, IsADirectoryError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read {name!r} ({reason}); give a file, or - for standard input") from None
    except OSError as error:
        raise StorageError(f"cannot read {name!r}: {error.strerror or error}") from None


def _head(page: Page, against: str | None) -> dict[str, Any]:
    return {
        "type": page.type,
        "charset": page.charset,
        "title": page.title,
        "language": page.language,
        "base": (against or page.base) if page.base else "",
        "canonical": (canonicalise(page.canonical, against) if page.canonical else "") or page.canonical,
        "robots": [f"{name}: {content}" for name, content in page.robots],
        "links": len(page.hrefs),
        "dropped": page.dropped,
        "cut": page.cut,
    }


def _rows(page: Page, against: str | None) -> Iterator[dict[str, Any]]:
    for href, kind, text in zip(page.hrefs, page.kinds, page.texts, strict=True):
        yield {
            "kind": LinkKind(kind & 0x7F).name.lower(),
            "nofollow": bool(kind & NOFOLLOW),
            "url": canonicalise(href, against),
            "href": href,
            "text": text,
        }


def _shown(value: object) -> str:
    return "; ".join(printable(str(v)) for v in value) if isinstance(value, list) else printable(str(value))


def _json(row: dict[str, Any]) -> str:
    return safe_text(json.dumps(row, ensure_ascii=False))
