"""The registered domain of a host: the unit of budgets and of sharding.

By the algorithm of the public suffix list (publicsuffix.org): the longest rule that matches a name is its
public suffix, and the registered domain is one label more. Both sections of the list count, so that
`alice.github.io` and `bob.github.io` are different domains, as they are different people's. Under a top
label that the list does not know, the list's own default rule `*` holds: `a.b.test` is of `b.test`.

A host without a registered domain is its own: addresses, single labels (`localhost`), public suffixes
themselves (`co.uk`), names that no list can cut (`a..b`).

The list changes from week to week, and a host whose domain changes would change its shard: hence a crawl keeps the
copy it began with, and a `Domains` is made from the bytes of one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import publicsuffixlist

from lycosa.errors import ConfigError
from lycosa.url.parts import is_address

MEMO = 1 << 16
"""Hosts whose domain is remembered: about 15 MB at most, against 4 µs for asking the list."""


@lru_cache(maxsize=2)
def _parsed(text: str) -> publicsuffixlist.PublicSuffixList:
    """The rules of a list, cached: a command needs those of the same copy several times, at 30 ms each.

    (The library would encode every rule, in 0.1 s: only those that are not in ASCII need it.)
    """
    lines = text.splitlines()
    lines += [_encoded(line) for line in lines if not line.isascii() and not line.startswith("//")]
    return publicsuffixlist.PublicSuffixList(source=lines, accept_encoded_idn=False)


def _encoded(line: str) -> str:
    """A rule as it is spelled in canonical hosts."""
    rule = line.lower().split(" ")[0].rstrip()
    name = rule.lstrip("!")
    return rule[: len(rule) - len(name)] + name.encode("idna").decode("ascii")


class Domains:
    """Registered domains by one copy of the public suffix list."""

    def __init__(self, psl: bytes) -> None:
        try:
            text = psl.decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        if not any(line and not line.startswith("//") for line in map(str.strip, text.splitlines())):
            raise ConfigError(
                "the public suffix list has no rules: restore the crawl's copy, or begin a new crawl"
            )
        self._list = _parsed(text)
        self._remembered = lru_cache(maxsize=MEMO)(self._ask)

    def domain(self, host: str) -> str:
        """The registered domain of a canonical URL's host; never empty unless the host is."""
        return self._remembered(host)

    def _ask(self, host: str) -> str:
        if is_address(host):
            return host
        name = host.rstrip(".")
        return self._list.privatesuffix(name) or name or host

    @staticmethod
    def bundled_list() -> bytes:
        """The list as shipped with the `publicsuffixlist` package."""
        return Path(publicsuffixlist.PSLFILE).read_bytes()
