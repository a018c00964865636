"""Scope: whether a crawl may fetch a URL.

A URL is judged by the rules below, in this order; **the first that refuses it decides**, and a URL that no rule
refuses is inside. The verdict has a description of the rule, for `explain`.

    1. depth      deeper than `max_depth` links from a seed
    2. length     longer than `max_url_length`
    3. scheme     not among `schemes`; by default those of the seeds, http and https counting as one. (So a
                  page on the web does not lead a crawl to `file:///etc/passwd`.)
    4. blocklist  the host, or a name above a `.host` entry, is on the `blocklist`
    5. exclude    `exclude_hosts`, `exclude_domains`
    6. where      neither near a seed as `mode` has it, nor of `include_hosts` or `include_domains`; a file
                  must, in every mode, lie below the directory of a seed that is a file too
    7. exclude    `exclude_paths`, `exclude_patterns`
    8. traps      the path has more than `max_path_depth` segments, or holds one segment more than
                  `max_repeats` times (ever-deeper paths: /a/b/a/b/a/b...)
    9. which      `include_paths` or `include_patterns` are given and none matches; seeds are exempt

So includes of hosts and domains *widen* where the crawl may go, and includes of paths and patterns *narrow*
which part of it is fetched. Excludes override both, for seeds too. `max_pages_per_site` is an option here but
enforced where pages are counted.

`mode`, relative to the seeds:

    host    a seed's host on any port, by http or https; `www.example.com` and `example.com` are one host
            here, as most sites send their visitors from one to the other
    site    a seed's scheme, host and port, exactly
    domain  a seed's registered domain, with all hosts below it
    any     everywhere

Hosts in options are compared exactly, in canonical spelling; domains cover every host below them (and may
be any name: `exclude_domains = ["cdn.example.com"]` covers `a.cdn.example.com`). Paths are prefixes of path
and query, and begin with a slash. Patterns are regular expressions searched in the whole URL (see
`lycosa.url.patterns`).

Rules that depend on the site alone (3 to 6) are decided once per site and cached, within a bound; paths are
examined only if there are rules for them.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from lycosa.errors import ConfigError
from lycosa.records import Why
from lycosa.url.blocklist import blocklist_entry, canonical_host
from lycosa.url.canonical import canonicalise
from lycosa.url.domains import Domains
from lycosa.url.parts import directory_of, host_of, path_of, site_of
from lycosa.url.patterns import compile_pattern

MEMO = 1 << 16
"""Sites whose verdict by rules 3 to 6 is cached."""
_MOST_DIRECTORIES = 1 << 12


class ScopeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of scope. The defaults: the whole of the seeds' hosts, without traps."""

    mode: Literal["host", "site", "domain", "any"] = "host"
    include_hosts: tuple[str, ...] = ()
    include_domains: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    include_patterns: tuple[str, ...] = ()
    exclude_hosts: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    exclude_paths: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    blocklist: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    max_depth: int | None = None
    max_pages_per_site: int | None = None
    max_url_length: int = 2083
    max_path_depth: int | None = 32
    max_repeats: int | None = 3


class Verdict(NamedTuple):
    """Whether a URL is inside, and the rule that decided."""

    inside: bool
    rule: str
    why: Why = Why.SCOPE
    """The reason in the `Skipped` record of a URL outside: `Why.SCOPE`, or `Why.BLOCKED` by the blocklist."""


class Scope:
    """Judges canonical URLs. `seeds` are canonical too."""

    def __init__(self, options: ScopeOptions, seeds: Iterable[str], domains: Domains) -> None:
        self.options = options
        self._domains = domains
        for name in ("max_depth", "max_pages_per_site", "max_path_depth", "max_repeats"):
            limit = getattr(options, name)
            if limit is not None and limit < (0 if name == "max_depth" else 1):
                raise ConfigError(f"scope.{name} is {limit}; leave it out for no limit")
        if options.max_url_length < 1:
            raise ConfigError(f"scope.max_url_length is {options.max_url_length}; it must be above 0")
        self._max_depth = 1 << 62 if options.max_depth is None else options.max_depth
        self._max_length = options.max_url_length

        exempts = bool(options.include_paths or options.include_patterns)
        seed_schemes, roots, near, exempt = set[str](), list[str](), array("Q"), array("Q")
        for seed in seeds:
            seed_schemes.add(seed.partition(":")[0])
            if seed.startswith("file:"):
                roots.append(directory_of(seed))
            if options.mode != "any":
                near.append(_hash(self._nearness(seed)))
            if exempts:
                exempt.append(_hash(seed))
        seed_schemes = seed_schemes or {"http"}
        if seed_schemes & {"http", "https"}:
            seed_schemes |= {"http", "https"}
        self._schemes = frozenset(s.lower().removesuffix(":") for s in options.schemes) or seed_schemes
        self._near, self._exempt = _Names(near), _Names(exempt)
        self._include_hosts = _hosts(options.include_hosts, "include_hosts")
        self._include_domains = _hosts(options.include_domains, "include_domains")
        self._exclude_hosts = _hosts(options.exclude_hosts, "exclude_hosts")
        self._exclude_domains = _hosts(options.exclude_domains, "exclude_domains")
        self._blocked, self._blocked_below = _blocklist(options.blocklist)

        self._exclude_paths = _paths(options.exclude_paths, "exclude_paths")
        self._include_paths = _paths(options.include_paths, "include_paths")
        self._exclude_patterns = _patterns(options.exclude_patterns, "exclude_patterns")
        self._include_patterns = _patterns(options.include_patterns, "include_patterns")
        self._roots = tuple(sorted(set(roots)))
        self._path_rules = bool(
            self._exclude_paths
            or self._include_paths
            or self._exclude_patterns
            or self._include_patterns
            or "file" in self._schemes
        )
        # A URL with fewer slashes than this ("http://host/" has three) cannot trip a trap.
        limits = [limit for limit in (options.max_path_depth, options.max_repeats) if limit is not None]
        self._harmless = min(limits, default=1 << 30) + 2
        self._shallow = 3 + (1 << 30 if options.max_path_depth is None else options.max_path_depth)
        self._repeats = 1 << 30 if options.max_repeats is None else options.max_repeats
        self._directories: set[str] = set()
        """Directories (URLs up to the last slash) whose URLs are all inside, unless too long or too deep."""
        self._outside: set[str] = set()
        """Sites outside: a page of the open web links to many, again and again."""
        self._site = lru_cache(maxsize=MEMO)(self._judge_site)

    def inside(self, url: str, depth: int) -> bool:
        """`judge(url, depth).inside`, without the words."""
        if depth > self._max_depth or len(url) > self._max_length:
            return False
        site = url[: url.find("/", url.find("://") + 3) + 1]
        return self._site(site[:-1]).inside and (
            (not self._path_rules and url.count("/") <= self._harmless) or self._path_inside(url)
        )

    def too_deep(self, depth: int) -> bool:
        """Whether no URL at this depth is inside."""
        return depth > self._max_depth

    def all_inside(self, urls: Sequence[str], depth: int) -> list[bool]:
        """`inside` for each link of a page; fast, since a page's links are mostly in a few directories."""
        if depth > self._max_depth:
            return [False] * len(urls)
        if max(map(len, urls), default=0) > self._max_length:
            return [self.inside(url, depth) for url in urls]
        harmless, outside = self._directories, self._outside
        return [
            # The first slash that can end a site is the one of "http://a/".
            url[: url.rfind("/")] in harmless
            or (url[: url.find("/", 8)] not in outside and self._inside(url))
            for url in urls
        ]

    def _inside(self, url: str) -> bool:
        """`inside` for a URL that is not too long; notes its site if that is outside, and its directory if all URLs
        in it are inside."""
        site = url[: url.find("/", url.find("://") + 3)]
        if not self._site(site).inside:
            if len(self._outside) >= _MOST_DIRECTORIES:
                self._outside.clear()
            self._outside.add(site)
            return False
        inside = self.inside(url, 0)
        directory, slash, _ = url.rpartition("/")
        if inside and slash and not self._path_rules and directory.count("/") > 1:
            # Whatever the last segment is: at worst it is one more, and one that was there before.
            segments = directory.split("/")
            if len(segments) < self._shallow and len(segments) - len(set(segments)) + 1 < self._repeats:
                if len(self._directories) >= _MOST_DIRECTORIES:
                    self._directories.clear()
                self._directories.add(directory)
        return inside

    def _path_inside(self, url: str) -> bool:
        if not self._path_rules:
            # Segments all different: no trap but depth. Host and query among them only make repeats likelier.
            segments = url.split("/")
            if len(segments) <= self._shallow and len(segments) - len(set(segments)) < self._repeats:
                return True
        verdict = self._judge_path(url)
        return verdict is None or verdict.inside

    def judge(self, url: str, depth: int) -> Verdict:
        """Is the URL, `depth` links from a seed, inside; and by which rule?"""
        if depth > self._max_depth:
            return Verdict(False, f"depth {depth} is more than max_depth {self._max_depth}")
        if len(url) > self._max_length:
            return Verdict(False, f"{len(url)} characters are more than max_url_length {self._max_length}")
        where = self._site(site_of(url))
        if not where.inside:
            return where
        return self._judge_path(url) or where

    def _nearness(self, url: str) -> str:
        """What a URL must share with a seed."""
        mode = self.options.mode
        if mode == "site":
            return site_of(url)
        host = host_of(url)
        return self._domains.domain(host) if mode == "domain" else host.removeprefix("www.")

    def _judge_site(self, site: str) -> Verdict:
        """Rules 3 to 6."""
        scheme = site.partition(":")[0]
        if scheme not in self._schemes:
            return Verdict(False, f"scheme {scheme} is not among {', '.join(sorted(self._schemes))}")
        host = host_of(site + "/")
        if (excluded := self.excludes(host)) is not None:
            return excluded
        mode = self.options.mode
        if mode == "any":
            return Verdict(True, "mode any")
        near = self._nearness(site + "/")
        if near in self._near:
            return Verdict(True, f"mode {mode}: {near} is a seed's")
        if host in self._include_hosts:
            return Verdict(True, f"host {host} is in include_hosts")
        if (above := _above(host, self._include_domains)) is not None:
            return Verdict(True, f"host {host} is below {above} in include_domains")
        return Verdict(False, f"mode {mode}: {near} is no seed's")

    def excludes(self, host: str) -> Verdict | None:
        """Rules 4 and 5: the verdict if nothing may be requested from the host, robots.txt included; else None."""
        if host in self._blocked:
            return Verdict(False, f"host {host} is on the blocklist", Why.BLOCKED)
        if (above := _above(host, self._blocked_below)) is not None:
            return Verdict(False, f"host {host} is on the blocklist by .{above}", Why.BLOCKED)
        if host in self._exclude_hosts:
            return Verdict(False, f"host {host} is in exclude_hosts")
        if (above := _above(host, self._exclude_domains)) is not None:
            return Verdict(False, f"host {host} is below {above} in exclude_domains")
        return None

    def _judge_path(self, url: str) -> Verdict | None:
        """Rule 6 for files, and rules 7 to 9; None if none of them decides."""
        if url.startswith("file:") and not url.startswith(self._roots):
            return Verdict(False, "not below the directory of a file seed")
        path = path_of(url)
        for prefix in self._exclude_paths:
            if path.startswith(prefix):
                return Verdict(False, f"path begins with {prefix} of exclude_paths")
        for pattern in self._exclude_patterns:
            if pattern.search(url):
                return Verdict(False, f"matches {pattern.pattern!r} of exclude_patterns")
        trap = self._trap(path)
        if trap is not None:
            return Verdict(False, trap)
        if not self._include_paths and not self._include_patterns:
            return None
        for prefix in self._include_paths:
            if path.startswith(prefix):
                return Verdict(True, f"path begins with {prefix} of include_paths")
        for pattern in self._include_patterns:
            if pattern.search(url):
                return Verdict(True, f"matches {pattern.pattern!r} of include_patterns")
        if url in self._exempt:
            return Verdict(True, "a seed")
        return Verdict(False, "matches none of include_paths and include_patterns")

    def _trap(self, path: str) -> str | None:
        segments = [segment for segment in path.partition("?")[0].split("/") if segment]
        most, repeats = self.options.max_path_depth, self.options.max_repeats
        if most is not None and len(segments) > most:
            return f"{len(segments)} path segments are more than max_path_depth {most}"
        if repeats is not None and len(segments) - len(set(segments)) >= repeats:
            segment, count = Counter(segments).most_common(1)[0]
            if count > repeats:
                return f"path segment {segment!r} {count} times is more than max_repeats {repeats}"
        return None


def _hash(name: str) -> int:
    return xxh3_64_intdigest(name.encode())


_FEW = 10_000
"""Hashes that Python sorts itself."""


class _Names:
    """A set of names as sorted hashes, 8 bytes each: the seeds may be the sites of a list of millions."""

    def __init__(self, hashes: array[int]) -> None:
        """`hashes` belongs to the set from now on."""
        if len(hashes) > _FEW:
            import numpy as np  # an import too long for a command that only asks what the scope of a crawl is

            np.frombuffer(hashes, np.uint64).sort()
            self._hashes = hashes
        else:
            self._hashes = array("Q", sorted(hashes))

    def __contains__(self, name: str) -> bool:
        one = _hash(name)
        at = bisect_left(self._hashes, one)
        return at < len(self._hashes) and self._hashes[at] == one


def _above(host: str, names: frozenset[str]) -> str | None:
    """The name among `names` that is the host or above it."""
    if not names:
        return None
    while True:
        if host in names:
            return host
        dot = host.find(".")
        if dot < 0:
            return None
        host = host[dot + 1 :]


def _hosts(given: tuple[str, ...], option: str) -> frozenset[str]:
    hosts = set()
    for text in given:
        host = canonical_host(text)
        if host is None:
            raise ConfigError(f"scope.{option}: {text!r} is not a host; give the name alone, without http://")
        hosts.add(host)
    return frozenset(hosts)


def _blocklist(given: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Exact hosts, and names whose whole tree is blocked."""
    exact, below = set(), set()
    for text in given:
        entry = blocklist_entry(text)
        if entry is None:
            raise ConfigError(f"scope.blocklist: {text!r} is not a host")
        if entry.startswith("."):
            below.add(entry[1:])
        else:
            exact.add(entry)
    return frozenset(exact), frozenset(below)


def _paths(given: tuple[str, ...], option: str) -> tuple[str, ...]:
    paths = []
    for text in given:
        url = canonicalise("http://host" + text) if text.startswith("/") else None
        if url is None:
            raise ConfigError(f"scope.{option}: {text!r} is not a path; begin it with a slash")
        paths.append(path_of(url))
    return tuple(paths)


def _patterns(given: tuple[str, ...], option: str) -> tuple[re.Pattern[str], ...]:
    return tuple(compile_pattern(pattern, f"scope.{option}") for pattern in given)
