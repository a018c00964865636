"""Refetching: finished URLs that are to be fetched once more: `--refetch failed|URL|PATTERN`.

    failed      URLs whose last record was a failure: given up (failed, dns, robots-unreachable, login, poison), or
                answered with 5xx, 408, 425 or 429
    a URL       that page, whatever its last record is
    PATTERN     a regular expression, searched in the URLs of what was fetched or given up

Each gets a Deferred that is due at once, in the log of its shard, and so is pending at the next start: for one more
fetch, with all attempts, under the rules and the scope of that run. URLs that are pending or deferred are left
alone, but for pages that a continuous crawl is to fetch again some day: those are due now. The page counts once,
whatever the answer is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lycosa.clock import Clock, milliseconds
from lycosa.crawl import manifest as manifests
from lycosa.errors import ConfigError
from lycosa.files import Files
from lycosa.log.log import Log
from lycosa.pages.summary import is_failure
from lycosa.records import Before, Deferred, Fetched, Lost, Record, Skipped, Why
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import site_of
from lycosa.url.rules import Rules

FAILED = "failed"
_GIVEN_UP = frozenset((Why.FAILED, Why.DNS, Why.ROBOTS_UNREACHABLE, Why.LOGIN, Why.POISON))


class _Last(NamedTuple):
    """The last record of a wanted URL in the log."""

    depth: int
    hops: int
    before: Before


class Wish:
    """Selects the URLs to be fetched once more."""

    def __init__(self, texts: Sequence[str], rules: Rules) -> None:
        self._failed = FAILED in texts
        self._urls: set[str] = set()
        self._patterns: list[re.Pattern[str]] = []
        for text in texts:
            if not text:  # as a pattern it would match all URLs; a shell's empty variable is no wish for that
                raise ConfigError("--refetch: give failed, a URL or a pattern (. matches every URL)")
            if text.startswith(("http://", "https://")):
                url = canonicalise(text, rules=rules)
                if url is None:
                    raise ConfigError(f"--refetch {text}: that is not a URL")
                self._urls.add(url)
            elif text != FAILED:
                try:
                    self._patterns.append(re.compile(text))
                except re.error as error:
                    raise ConfigError(
                        f"--refetch {text}: that is not a regular expression: {error}"
                    ) from None

    def has(self, url: str, failed: bool) -> bool:
        """Whether a URL is wanted; `failed`: its last record was a failure."""
        return (
            (self._failed and failed)
            or url in self._urls
            or any(pattern.search(url) for pattern in self._patterns)
        )


def refetch(
    files: Files, wish: Wish, clock: Clock, told: Callable[[str, int], None] = lambda *_: None
) -> int:
    """Defer URLs of a crawl that is not running until now; returns how many. The caller holds its lock."""
    manifest = manifests.load(files)
    if manifest is None:
        return 0
    count = 0
    for number in range(manifest.shards):
        log = Log(files.within(f"{manifests.shard_directory(number)}/log"))
        wanted: dict[str, _Last] = {}
        pages: set[str] = set()
        for position, record in log.reader.scan():
            _note(record, wish, wanted, pages)
            if not position & 0xFFF:
                told("reading the log", position)
        now = milliseconds(clock)
        for url, last in wanted.items():
            due = Deferred(
                *(now, url, site_of(url), last.depth, last.hops, 0, Why.RETRY, now, "asked for once more"),
                before=last.before,
            )
            log.append(due)
        count += len(wanted)
        log.commit()
        log.close()
    return count


def _note(record: Record, wish: Wish, wanted: dict[str, _Last], pages: set[str]) -> None:
    """`wanted`: URLs as their last record has them; `pages`: those of them that were fetched."""
    if isinstance(record, Fetched):
        if wish.has(record.url, is_failure(record.status)):
            wanted[record.url] = _Last(record.depth, record.hops, Before.PAGE)
            pages.add(record.url)
        else:
            wanted.pop(record.url, None)
    elif isinstance(record, Skipped):
        if wish.has(record.url, record.why in _GIVEN_UP):
            before = Before.PAGE if record.url in pages else Before.NEVER
            wanted[record.url] = _Last(record.depth, 0, before)
        else:
            wanted.pop(record.url, None)
    elif isinstance(record, Lost) or (isinstance(record, Deferred) and record.why is not Why.REFRESH):
        wanted.pop(record.url, None)  # it is pending, or will be
