"""`lycosa text`: the main text of a file, or of a page of a crawl, as in the index and the export.

Text output: the text, a block per line. With `--json` one object: type, title, language, and the blocks with their
level (1 to 6: a heading; 0: not one). Language is a code, empty if unknown.
"""

from __future__ import annotations

import argparse
import json
import mimetypes
import sys
from pathlib import Path

from lycosa.ask.json_form import safe_text
from lycosa.cli.links import read_file
from lycosa.content import documents
from lycosa.content.language import language
from lycosa.errors import ConfigError
from lycosa.page.charset import charset_of
from lycosa.page.sniff import declared, is_xml, sniff

HELP = "print the main text of a file or of a page of a crawl"
EPILOG = """\
examples:
  lycosa text page.html
  lycosa text report.pdf --json
  curl -s https://example.org/ | lycosa text -
  lycosa text crawls/example https://example.org/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="FILE|DIR", help="a file (- for standard input), or a crawl's directory"
    )
    parser.add_argument("url", metavar="URL", nargs="?", help="the page, if it is a crawl's directory")
    parser.add_argument(
        "--type",
        metavar="TYPE",
        help="the Content-Type of the file (default: by its name, else by its bytes)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object: type, title, language, blocks")


def run(args: argparse.Namespace) -> int:
    if args.source != "-" and Path(args.source).is_dir():
        body, media, charset = _archived(args.source, args.url)
    elif args.url is not None:
        raise ConfigError(
            f"{args.source!r} is not the directory of a crawl, so there is no page {args.url!r} in it"
        )
    else:
        body = read_file(args.source)
        said = declared(args.type or (None if args.source == "-" else mimetypes.guess_type(args.source)[0]))
        media = said.type if documents.is_office(said.type) else sniff(body, said.type)
        charset = charset_of(body, said.charset, html=media in documents.HTML, xml=is_xml(media))
    found = documents.read(body, media, charset)
    if args.json:
        row = {
            "type": media,
            "title": safe_text(found.title),
            "language": language(found.text, found.language),
            "blocks": [{"level": each.level, "text": safe_text(each.text)} for each in found.blocks],
        }
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    elif found.blocks:
        sys.stdout.write(safe_text(found.text) + "\n")
    return 0 if found.blocks else 1


def _archived(directory: str, url: str | None) -> tuple[bytes, str, str]:
    from lycosa.ask.saved import SavedCrawl

    crawl = SavedCrawl(directory)
    if url is None:
        raise ConfigError(
            f"{directory!r} is a crawl's directory: name the page, as in lycosa text {directory} URL"
        )
    page = crawl.page(url)
    if page is None:
        raise ConfigError(
            f"{url!r} is no page of the crawl {directory!r}; lycosa explain {directory} URL says why"
        )
    if page.body is None:
        raise ConfigError(f"the archive of {directory!r} does not have {url!r}")
    return page.body, page.type, page.record.charset
