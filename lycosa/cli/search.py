"""`lycosa search`: query the index of a crawl. Exit code 1: nothing was found."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lycosa.cli.amounts import counted
from lycosa.cli.streams import announced, printable
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.index.search import Answer, Result

HELP = "search the pages of an indexed crawl"
EPILOG = """\
examples:
  lycosa search crawls/example wolf spider -tarantula
  lycosa search crawls/example '"wolf spider" site:example.org/animals/'
  lycosa search crawls/example 'lycos* OR spyder~' --count 20 --json
  lycosa search crawls/example --like https://example.org/spiders.html

a query: words; "a phrase"; +must -not; a AND b, a OR b, (groups); begin*; nearly~; site: intitle: inurl:
inanchor: inheading: type: lang: before:2024-05-01 after:2024. Make the index with `lycosa index DIR`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="the crawl's directory")
    add("words", nargs="*", default=[], metavar="QUERY", help="what to search for")
    parser.set_defaults(minus_words=True)
    add("--count", type=int, default=10, metavar="N", help="number of results (10)")
    add("--skip", type=int, default=0, metavar="N", help="number of results to skip")
    add("--per-host", type=int, default=0, metavar="N", help="maximum number of results per host (no limit)")
    add("--no-fold", action="store_true", help="show copies of a page as separate results")
    add("--expand", action="store_true", help="add words of the best results to the query")
    add("--rank-weight", type=float, default=0.2, metavar="W", help="weight of the pages' rank (0.2)")
    add("--like", metavar="URL", help="find pages similar to this one, instead of a query")
    add("--json", action="store_true", help="JSON lines: the answer, then its results")


def run(args: argparse.Namespace) -> int:
    from lycosa.ask.reading import CrawlReader
    from lycosa.ask.searching import like, opened
    from lycosa.index.search import Asked

    if args.count < 1 or args.skip < 0 or args.per_host < 0 or args.rank_weight < 0:
        raise ConfigError("--count takes 1 or more; --skip, --per-host and --rank-weight 0 or more")
    text = " ".join(args.words)
    if bool(text.strip()) == bool(args.like):
        raise ConfigError("usage: lycosa search DIR QUERY, or lycosa search DIR --like URL")
    crawl = CrawlReader(args.directory)
    asked = Asked(
        count=args.count,
        skip=args.skip,
        per_host=args.per_host,
        fold=not args.no_fold,
        expand=args.expand,
        rank_weight=args.rank_weight,
    )
    with announced("search", "searching"):
        search = opened(crawl)
        answer = like(search, args.like, asked) if args.like else search.search(text, asked)
    show(answer, args.skip, as_json=args.json)
    return 0 if answer.results else 1


def show(answer: Answer, skipped: int, *, as_json: bool) -> None:
    """Print an answer."""
    if as_json:
        _print_json(answer)
    else:
        _print(answer, skipped)


def _print_json(answer: Answer) -> None:
    import msgspec

    from lycosa.ask.json_form import safe
    from lycosa.ask.searching import answer_plain, result_plain

    for row in (answer_plain(answer), *map(result_plain, answer.results)):
        print(safe(msgspec.json.encode(row)).decode())


def _print(answer: Answer, skipped: int) -> None:
    bold = sys.stdout.isatty()
    for note in answer.notes:
        print(f"lycosa search: {printable(note)}", file=sys.stderr)
    if answer.missing:
        shards = ", ".join(map(str, answer.missing))
        print(
            f"lycosa search: pages of shard {shards} are missing: no index of it was there to ask (lycosa index)",
            file=sys.stderr,
        )
    for number, result in enumerate(answer.results, skipped + 1):
        for line in _lines(number, result, bold):
            print(line)
        print()
    if answer.suggestion:
        print(f"Did you mean: {printable(answer.suggestion)}")
    found = counted(answer.total, "page") + (" matches" if answer.total == 1 else " match")
    print(f"{found} of {answer.pages:,} ({answer.milliseconds:.0f} ms)")


def _lines(number: int, result: Result, bold: bool) -> list[str]:
    import datetime

    from lycosa.index.schema import type_name

    title = printable(" ".join(result.title.split()) or result.url)
    day = datetime.datetime.fromtimestamp(result.date / 1000, datetime.UTC).strftime("%Y-%m-%d")
    facts = [
        day,
        result.language,
        "" if (name := type_name(result.type)) == "html" else name,
        f"score {result.score:.2f}" if result.score else "",
    ]
    lines = [
        f"{number:>2}. {_strong(title, bold)}",
        f"    {_short(printable(result.url))}",
        f"    {_marked(result, bold)}",
        f"    {_dim(' · '.join(filter(None, facts)), bold)}",
    ]
    if result.others:
        more = f" and {len(result.others) - 2} more" if len(result.others) > 2 else ""
        lines.append(
            f"    {_dim('also at ' + ', '.join(_short(printable(url)) for url in result.others[:2]) + more, bold)}"
        )
    if result.alike > len(result.others):
        lines.append(f"    {_dim(f'{result.alike:,} like it (lycosa duplicates)', bold)}")
    return [line for line in lines if line.strip()]


def _short(url: str) -> str:
    """A URL shortened to a line or two; JSON has all of it."""
    return url if len(url) <= 150 else f"{url[:110]}…{url[-39:]}"


def _strong(text: str, bold: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if bold else text


def _dim(text: str, bold: bool) -> str:
    return f"\x1b[2m{text}\x1b[0m" if bold else text


def _marked(result: Result, bold: bool) -> str:
    parts = []
    at = 0
    for start, end in result.snippet.marks:
        parts.append(printable(result.snippet.text[at:start]))
        parts.append(_strong(printable(result.snippet.text[start:end]), bold))
        at = end
    return "".join([*parts, printable(result.snippet.text[at:])])
