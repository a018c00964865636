"""`lycosa robots`: is a URL allowed by a robots.txt, and by which line?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from lycosa.ask.json_form import safe
from lycosa.cli.streams import printable
from lycosa.errors import ConfigError, StorageError
from lycosa.fetch.robots import RobotsRules
from lycosa.version import VERSION

HELP = "check URLs against a robots.txt and print the deciding line"
EPILOG = """\
examples:
  lycosa robots robots.txt https://example.org/a https://example.org/b
  curl -s https://example.org/robots.txt | lycosa robots - --agent MyBot https://example.org/a
  lycosa robots robots.txt --json < urls.txt
  lycosa robots < questions.jsonl

Without FILE, every line of the input is a JSON object with "robots" (the text of the file) or "robots_base64" (its
bytes), "agent" and "url", and is answered by one JSON line with "allowed", "rule", "line" and "group".

exit code: 0 all allowed, 1 some URL is not (with FILE), 2 some line of the input could not be read."""


class _Question(msgspec.Struct):
    url: str
    robots: str | None = None
    robots_base64: bytes | None = None
    agent: str = f"lycosa/{VERSION}"

    def __post_init__(self) -> None:
        if (self.robots is None) is (self.robots_base64 is None):
            raise ValueError("give the file either as `robots` or as `robots_base64`")

    @property
    def body(self) -> bytes:
        if self.robots_base64 is not None:
            return self.robots_base64
        return (self.robots or "").encode("utf-8", "replace")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="a robots.txt; - for standard input")
    parser.add_argument(
        "urls", nargs="*", default=[], metavar="URL", help="URLs (or paths); without any: one per input line"
    )
    parser.add_argument(
        "--agent",
        "-a",
        default=f"lycosa/{VERSION}",
        help="the agent's name or whole User-Agent (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON lines")


def run(args: argparse.Namespace) -> int:
    if args.file is None:
        return _answer_lines(sys.stdin.buffer)
    if args.file == "-" and not args.urls:
        raise ConfigError("the robots.txt comes from standard input: give the URLs as arguments")
    rules = RobotsRules.parse(_read(args.file))
    refused = False
    for url in args.urls or _lines(sys.stdin.buffer):
        url = url.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # arguments may be any bytes
        judged = rules.judge(args.agent, url)
        refused |= not judged.allowed
        if args.json:
            _say({"url": url, **judged._asdict()})
        else:
            word = "allowed" if judged.allowed else "disallowed"
            why = f"line {judged.line}: {judged.rule}" if judged.line else "no rule applies"
            _write(printable(f"{word:<10}  {url}  ({why})").encode("utf-8", "replace") + b"\n")
    return 1 if refused else 0


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except IsADirectoryError:
        raise ConfigError(f"{name} is a directory: give a robots.txt file") from None
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {name}: give a robots.txt file, or - for standard input"
        ) from None
    except OSError as error:
        raise StorageError(f"cannot read {name}: {error.strerror}") from error


def _lines(source: Iterable[bytes]) -> Iterator[str]:
    for line in source:
        if text := line.decode("utf-8", "replace").strip():
            yield text


def _answer_lines(source: Iterable[bytes]) -> int:
    decoder = msgspec.json.Decoder(_Question)
    # Questions about one site usually follow each other: a few parsed files are enough.
    parsed = lru_cache(maxsize=64)(RobotsRules.parse)
    code = 0
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            question = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            _say({"error": f"line {number}: {error}"})
            code = 2
            continue
        judged = parsed(question.body).judge(question.agent, question.url)
        _say({"allowed": judged.allowed, "rule": judged.rule, "line": judged.line, "group": judged.group})
    return code


def _say(answer: dict[str, Any]) -> None:
    _write(safe(msgspec.json.encode(answer)) + b"\n")


def _write(line: bytes) -> None:
    """Answer immediately: a caller that asks line by line waits for it."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
