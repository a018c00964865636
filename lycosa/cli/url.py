"""`lycosa url`: reads URLs, writes their canonical form, site and key; a filter.

One line of output per line of input, in three columns separated by tabs:

    canonical form    site    key (16 hexadecimal digits)

A line that is not a URL that a crawl could fetch gives `-` in all three, and the exit code is then 1. With `--json`
every line is an object, `{"input", "url", "site", "key"}`, with null in the last three for such a line;
the key is a string, since JSON's numbers do not hold 64 bits.

Bytes that are not UTF-8 are each read as U+FFFD, as in a browser; lines longer than `MAX_LINE` are not
URLs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import BinaryIO

from lycosa.errors import ConfigError
from lycosa.url.canonical import Rules, canonicalise
from lycosa.url.key import Keyer
from lycosa.url.parts import site_of
from lycosa.url.rules import TABLE

HELP = "print the canonical form, site and key of URLs"
EPILOG = f"""\
One line out for every line in: canonical form, site and key, between tabs;
"-" three times, and exit code 1 at the end, for what is no URL.

rules: {", ".join(TABLE)}

examples:
  lycosa url http://EXAMPLE.com:80/a/../b
  lycosa url --base http://example.com/dir/ < hrefs.txt
  lycosa url --rules tracking,sorted --json < urls.txt
"""

MAX_LINE = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "urls", nargs="*", default=[], metavar="URL", help="URLs; without any: lines of stdin"
    )
    parser.add_argument("--base", metavar="URL", help="resolve against this URL")
    parser.add_argument("--rules", metavar="NAMES", default="", help="further rules, by commas (see below)")
    parser.add_argument("--seed", metavar="N", default="0", help="the seed of the keys (0)")
    parser.add_argument("--json", action="store_true", help="JSON lines")


def run(args: argparse.Namespace) -> int:
    rules = Rules.named(name.strip() for name in args.rules.split(",") if name.strip())
    try:
        keyer = Keyer(int(args.seed, 0))
    except ValueError:
        raise ConfigError(f"--seed {args.seed}: give a whole number") from None
    if args.base is not None and canonicalise(args.base) is None:
        raise ConfigError(f"--base {args.base}: not a URL; give one with scheme and host")
    out = sys.stdout
    all_good = True
    for text in args.urls or _lines(sys.stdin.buffer):
        url = canonicalise(text, args.base, rules)
        site, key = (None, None) if url is None else (site_of(url), f"{keyer.key(url):016x}")
        all_good &= url is not None
        if args.json:
            out.write(json.dumps({"input": text, "url": url, "site": site, "key": key}) + "\n")
        else:
            out.write(f"{url or '-'}\t{site or '-'}\t{key or '-'}\n")
    out.flush()  # here, where a closed pipe is still handled
    return 0 if all_good else 1


def _lines(source: BinaryIO) -> Iterator[str]:
    """Lines without their ends; lines that are too long are cut to a length that is still too long for a URL."""
    while line := source.readline(MAX_LINE):
        rest = line
        while not rest.endswith(b"\n") and (rest := source.readline(MAX_LINE)):
            pass
        yield line.rstrip(b"\r\n").decode("utf-8", "replace")
