"""The options of a crawl: each room's own, and those of the crawl as a whole.

They come from a `crawl.toml`, from keywords in Python or from the command line, are read strictly (an
unknown name is an error that names the nearest known one), and are logged as a whole as `Configured`: so the log
tells under which options each event happened. What can never change in a crawl (its seed for hashing, its
number of shards) is not here but in the manifest.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lycosa import options
from lycosa.archive.writer import ArchiveOptions
from lycosa.content.options import DuplicateOptions, TrapOptions, VariantOptions
from lycosa.crawl.flag_names import meanings
from lycosa.crawl.site_options import Settings, SiteOptions
from lycosa.crawl.steered import Steered
from lycosa.errors import ConfigError
from lycosa.fetch.dns import DnsOptions, parse_override
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.protocol import FetchOptions
from lycosa.fetch.registry import known_schemes
from lycosa.fetch.robots import product_token
from lycosa.frontier import FrontierOptions, PolitenessOptions, RetryOptions
from lycosa.frontier.waits.politeness import OWN_SITE
from lycosa.records import FIRST_REQUISITE, LinkKind
from lycosa.refresh.options import RefreshOptions
from lycosa.render.options import RenderOptions
from lycosa.seen.stores import SeenOptions
from lycosa.url.canonical import canonicalise
from lycosa.url.domains import Domains
from lycosa.url.parts import host_of, site_of
from lycosa.url.rules import Rules
from lycosa.url.scope import Scope, ScopeOptions

_HOST = re.compile(r"(?:[^\s/:@?#\[\]]+|\[[0-9a-fA-F:.]+\])(?::\d+)?(?:[/?#]|$)")
"""Matches text that is a URL without its scheme: `example.org/x`, not `mailto:me@example.org`."""
_PROXIES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a crawl ends before the web does; 0 means never. What is left is kept for the next run."""

    pages: int = 0
    bytes: int = 0  # of bodies as sent
    seconds: float = 0.0  # of this run

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _demand(self, name, 0)


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which links of a page are followed."""

    requisites: bool = False  # images, scripts, styles: what a browser needs to show the page
    nofollow: bool = False  # also those that a page asks not to be followed
    sitemaps: bool = True  # those that robots files name
    redirects: int = 10  # consecutive redirects

    def __post_init__(self) -> None:
        _demand(self, "redirects", 0, 255)  # records store the number in a byte

    def follows(self, kind: LinkKind) -> bool:
        """Whether links of a kind are followed, unless the page forbids it."""
        if kind == LinkKind.SITEMAP:
            return self.sitemaps
        return kind != LinkKind.FORM and (kind < FIRST_REQUISITE or self.requisites)


class RobotsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How robots rules are obeyed."""

    agent: str = ""  # the product token that groups are matched with; "": that of the user agent
    obey: bool = True  # False only for sites of your own: robots.txt is not even asked for
    attempts: int = 3  # requests for an unavailable robots.txt before the site's URLs are given up
    first_retry: float = 60.0  # seconds; doubled after each further failure

    def __post_init__(self) -> None:
        _demand(self, "attempts", 1)
        _demand(self, "first_retry", 0)
        if self.agent and not self.agent.strip():
            raise ValueError("agent is the word that robots files call this crawler by, and not blank")


class SnapshotOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often the state is written, so that recovery replays only what came after."""

    records: int = 200_000
    seconds: float = 600.0
    archive_seconds: float = 30.0  # in a cluster: an agent's archive goes to shared storage this often ...
    archive_bytes: int = 64 << 20  # ... or when it has grown this much: the rest would be lost with its disk

    def __post_init__(self) -> None:
        _demand(self, "records", 1)
        _demand(self, "seconds", 0)
        _demand(self, "archive_seconds", 0)
        _demand(self, "archive_bytes", 1)


def _demand(given: msgspec.Struct, name: str, least: float, most: float = math.inf) -> None:
    """Refuse a number outside its range (or a non-number), with a message for the operator."""
    value = getattr(given, name)
    if not (math.isfinite(value) and least <= value <= most):
        upper = "" if most == math.inf else f" and at most {most}"
        raise ValueError(f"{name} must be at least {least}{upper}, not {value}")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options of a crawl."""

    visits: int = 256  # simultaneous visits
    commit_seconds: float = 0.9
    horizon: float = 86_400.0  # seconds; a run ends, and says so, when all that is left is due later
    public: bool = True  # False: a private web; no contact is demanded
    allow: tuple[str, ...] = ()  # networks that may be asked although they are not public
    only_networks: tuple[str, ...] = ()  # only addresses in these may be asked; none: no such limit
    rules: tuple[str, ...] = ()  # further URL rules, by name
    href_cache: int = 1 << 16
    near: tuple[str, ...] = ()  # the seeds that scope is relative to; kept by the program, not the operator
    near_files: tuple[str, ...] = ()  # files of more of them, in the crawl's directory; likewise
    scope: ScopeOptions = ScopeOptions()
    follow: FollowOptions = FollowOptions()
    fetch: FetchOptions = FetchOptions()
    dns: DnsOptions = DnsOptions()
    robots: RobotsOptions = RobotsOptions()
    seen: SeenOptions = SeenOptions()
    frontier: FrontierOptions = FrontierOptions()
    politeness: PolitenessOptions = PolitenessOptions()
    retry: RetryOptions = RetryOptions()
    archive: ArchiveOptions = ArchiveOptions()
    limits: Limits = Limits()
    snapshot: SnapshotOptions = SnapshotOptions()
    refresh: RefreshOptions = RefreshOptions()
    traps: TrapOptions = TrapOptions()
    variants: VariantOptions = VariantOptions()
    duplicates: DuplicateOptions = DuplicateOptions()
    render: RenderOptions = RenderOptions()
    site: dict[str, SiteOptions] = {}  # by host: the options that differ there
    steered: Steered = Steered()  # what acts have changed; kept by the program, not the operator

    def __post_init__(self) -> None:
        _demand(self, "visits", 1)
        _demand(self, "commit_seconds", 0.001)
        _demand(self, "horizon", 0)
        _demand(self, "href_cache", 0)


def read_options(given: dict[str, Any]) -> Options:
    """Options from a plain dictionary; raises `ConfigError` with one line."""
    read = options.read(Options, given, flags=meanings)
    if read.public:
        _demand_contact(read.fetch.user_agent)
    if not read.robots.agent:
        token = product_token(read.fetch.user_agent) or "lycosa"
        read = msgspec.structs.replace(read, robots=msgspec.structs.replace(read.robots, agent=token))
    check(read)
    return read


def renders(value: Options) -> bool:
    """Whether any page may be rendered."""
    return value.render.when != "never" or any(
        table.render not in (None, "never") for table in value.site.values()
    )


def check(value: Options) -> None:
    """Raise now any `ConfigError` that some room would raise later, when the crawl already has a directory."""
    AddressGuard(value.allow, value.only_networks)
    Rules.named(value.rules)
    # Any list of suffixes will do: rules are only parsed here, and no host is judged.
    Scope(value.scope, (), Domains(b"test"))
    for text in value.dns.resolve:
        parse_override(text)
    for proxy in value.fetch.proxy.split():
        _check_proxy(proxy)
    Settings(value.site, value.politeness, None)


def _check_proxy(proxy: str) -> None:
    """Refuse an invalid proxy: libcurl accepts any text, and then every fetch would fail."""
    scheme, colons, _ = proxy.partition("://")
    url = canonicalise(f"http://{proxy.partition('://')[2]}") if colons else None
    if scheme.lower() not in _PROXIES or url is None or not host_of(url):
        raise ConfigError(
            f"{proxy!r} is not a proxy: write it like http://host:3128 or socks5h://host:1080 "
            f"(known: {', '.join(_PROXIES)})"
        )


def canonical_seeds(seeds: Sequence[str], rules: Rules) -> list[str]:
    """Seeds in canonical form, without duplicates; a `ConfigError` names one that is no URL."""
    found: dict[str, None] = {}
    schemes = known_schemes()
    for seed in seeds:
        url = canonical_seed(seed, rules, schemes)
        if url is None:
            raise ConfigError(
                f"{seed!r} is not a URL that can be crawled; write it like https://example.org/"
            )
        found[url] = None
    return list(found)


def canonical_seed(seed: str, rules: Rules, schemes: frozenset[str]) -> str | None:
    """A seed in canonical form; None if it is no URL."""
    url = canonicalise(seed, None, rules, schemes)
    if url is None and _HOST.match(seed):
        return canonicalise(f"http://{seed}", None, rules)  # people also type hosts
    return url


def for_own_site(given: dict[str, Any], seeds: Sequence[str], *, anew: bool = True) -> None:
    """Remove the waits from the options for a site of the operator's own, unless the options set them.

    Only if nothing else can be asked: the scope is not `any`, and all seeds, including those of earlier runs, are
    of one domain. `anew`: False if the options are those of the run before, which set everything and are
    overridden.
    """
    scope = given.get("scope", {})
    if isinstance(scope, dict) and scope.get("mode") == "any":
        raise ConfigError("--own-site is for one site: choose --scope host, site or domain, not any")
    domains = Domains(Domains.bundled_list())
    found = sorted({domains.domain(host_of(url)) for url in canonical_seeds(seeds, Rules.named(()))})
    if len(found) > 1:
        raise ConfigError(
            f"--own-site is for one site, and the seeds are of {len(found)} domains ({', '.join(found[:3])}"
            f"{', ...' if found[3:] else ''}): crawl each by itself, or set politeness.wait and the like"
        )
    politeness = given.setdefault("politeness", {})
    if isinstance(politeness, dict):
        given["politeness"] = {**OWN_SITE, **politeness} if anew else {**politeness, **OWN_SITE}


def with_seeds(value: Options, before: Options | None, seeds: Sequence[str]) -> Options:
    """The options with the seeds that their scope needs to know (`near_part`): these and those of earlier runs."""
    near, part = list(before.near if before else ()), near_part(value.scope)
    parts = {part(url) for url in near}
    for url in seeds:
        if part(url) not in parts:
            parts.add(part(url))
            near.append(url)
    files = dict.fromkeys((*value.near_files, *(before.near_files if before else ())))
    return msgspec.structs.replace(value, near=tuple(near), near_files=tuple(files))


def near_part(scope: ScopeOptions) -> Callable[[str], str]:
    """The part of a seed that a scope needs to know, with one seed for each value of it.

    Scopes by host, site or domain need one seed per site; only include rules, from which seeds are exempt,
    need them all. An unrestricted crawl from a million seeds needs only one per scheme.
    """
    if scope.include_paths or scope.include_patterns:
        return str
    return site_of if scope.mode != "any" else lambda url: url.partition(":")[0]


def _demand_contact(user_agent: str) -> None:
    if "@" not in user_agent and "://" not in user_agent:
        why = "a public crawl must say who runs it, so that site owners can reach you: "
        like = "'mybot/1.0 (+https://example.org/bot; bot@example.org)'"
        raise ConfigError(
            f"{why}fetch={{'user_agent': {like}}} (or public=False for a web of your own)",
            flags=f"{why}--user-agent {like} (or --private for a web of your own)",
        )


def read_toml(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Options and seeds of a crawl.toml, still as plain values."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    seeds = given.pop("seeds", [])
    if not isinstance(seeds, list) or not all(isinstance(seed, str) for seed in seeds):
        raise ConfigError(f"{path}: seeds is a list of URLs")
    return given, seeds


def encode_options(value: Options) -> bytes:
    """Options encoded for the log."""
    return msgspec.json.encode(value)


def decode_options(data: bytes) -> Options:
    """Options decoded from the log; names that this version does not know are ignored."""
    return _decode_options(data)


# Made at import: msgspec crashes if two threads are the first to decode a struct, as when shards recover.
_decode_options = msgspec.json.Decoder(Options).decode
