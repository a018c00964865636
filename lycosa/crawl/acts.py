"""Acts: an operator's commands to a running crawl. Decisions only; `steering` brings them to the crawl.

    pause                   no more visits begin, those under way end with their page; persists across restarts
    go-on                   ends a pause stop                    the run ends cleanly; no effect if it has ended
    already seed URL ...            adds seeds set KEY=VALUE ...       changes options, of those in `LIVE`; a value
    is TOML, or else plain text. An option of one
                            site is site.HOST.NAME
    release PATTERN ...     releases patterns quarantined as traps: their URLs are fetched after all
    site HOST hold          no visit of the host begins
    site HOST block         none of its URLs is fetched: they are out of scope
    site HOST boost         it is visited whenever it is ready, before all others
    site HOST release       ends all of these
    site HOST budget N      at most N pages of each of its sites; 0: no such limit

An act changes the crawl's options; `stop` and `seed` do something else besides. `applied` makes the change, and
enters the act into `Options.steered`: so every act is in a Configured of every shard's log, whatever process runs
the crawl, with its author; and an act that arrives twice (the process was killed before it could answer) is
recognised.

What acts have set persists when the crawl is restarted by the same command. `resumed` decides: if a start gives an
option the same value as the start before the acts, it is the same command, and the acts' value stays; if it gives
another value, that is the operator's later decision.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from lycosa import options as reading
from lycosa.crawl.config import Options, canonical_seeds, check, with_seeds
from lycosa.crawl.site_options import LoginOptions, SiteOptions, table_of
from lycosa.crawl.steered import REMEMBERED, Did, Steered
from lycosa.errors import ConfigError
from lycosa.url.blocklist import canonical_host
from lycosa.url.rules import Rules
from lycosa.url.scope import Scope

WHATS = ("pause", "go-on", "stop", "seed", "set", "release", "site")
ORDERS = ("hold", "block", "boost", "release", "budget")
"""Orders about a site."""
LIVE = (
    "limits",
    "scope",
    "follow",
    "politeness",
    "retry",
    "visits",
    "horizon",
    "site",
    "traps.release",
)
"""Options, and tables of them, that can change while the crawl runs."""
_FIXED = ("politeness.address_wait",)
_SHOWN = 3
_LONGEST = 300


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One act, as requested."""

    id: str
    at: int  # milliseconds since the epoch
    who: str
    what: str
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The act as a person would write it."""
        shown = self.words[:_SHOWN]
        more = f" and {len(self.words) - _SHOWN:,} more" if len(self.words) > _SHOWN else ""
        return (" ".join((self.what, *shown)) + more)[:_LONGEST]


def applied(options: Options, act: Act) -> Options:
    """The options after an act; `ConfigError` if it is not applicable to them."""
    after = _changed(options, act)
    if act.what == "seed":  # in canonical form, so that `explain` finds who gave one
        act = msgspec.structs.replace(act, words=tuple(seeds_of(options, act)))
    did = Did(act.id, act.at, act.who, act.text)
    steered = msgspec.structs.replace(after.steered, did=(*after.steered.did, did)[-REMEMBERED:])
    return msgspec.structs.replace(after, steered=steered)


def seeds_of(options: Options, act: Act) -> list[str]:
    """The seeds of an act, canonical."""
    return canonical_seeds(act.words, Rules.named(options.rules)) if act.what == "seed" else []


def outside(scope: Scope, urls: Iterable[str]) -> list[tuple[str, str]]:
    """The seeds that a crawl's scope excludes, each with the rule that does."""
    return [(url, verdict.rule) for url in urls if not (verdict := scope.judge(url, 0)).inside]


def done(refused: Sequence[tuple[str, str]]) -> str:
    """The answer to an act that was carried out, naming those of its seeds that were refused."""
    return "; ".join(["done", *(f"{url} is out of scope: {rule}" for url, rule in refused[:_SHOWN])])


def _changed(options: Options, act: Act) -> Options:
    if act.what in ("pause", "go-on", "stop"):
        if act.words:
            raise ConfigError(f"{act.what} takes nothing more, not {' '.join(act.words)!r}")
        if act.what == "stop":
            return options
        steered = msgspec.structs.replace(options.steered, paused=act.what == "pause")
        return msgspec.structs.replace(options, steered=steered)
    if act.what == "seed":
        if not act.words:
            raise ConfigError("seed takes at least one URL")
        return with_seeds(options, options, seeds_of(options, act))
    if act.what == "set":
        if not act.words:
            raise ConfigError("set takes at least one KEY=VALUE, like limits.pages=1000")
        return _set(options, _with_sites(options, dict(_setting(text) for text in act.words)))
    if act.what == "release":
        if not act.words:
            raise ConfigError("release takes the patterns that are quarantined, as lycosa report writes them")
        return _set(options, {"traps.release": list(dict.fromkeys((*options.traps.release, *act.words)))})
    if act.what == "site":
        return _ordered(options, act.words)
    raise ConfigError(f"there is no act {act.what!r}: {', '.join(WHATS)}")


# -- options


def _setting(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not found:
        raise ConfigError(f"set takes KEY=VALUE, not {text!r}")
    try:
        return name.strip(), tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value


def _with_sites(options: Options, given: dict[str, Any]) -> dict[str, Any]:
    """Merge values of single sites into the table of sites; other values of these sites stay."""
    named = [name for name in given if name.startswith("site.")]
    if not named:
        return given
    sites: dict[str, Any] = msgspec.to_builtins(options.site)
    for name in named:
        host, _, option = name.removeprefix("site.").rpartition(".")
        host = host.strip("\"'")
        host = canonical_host(host) or host  # an invalid host is refused together with the other options
        usual = options.site.get(table_of(options.site.keys() - {host}, host), SiteOptions())
        sites.setdefault(host, msgspec.to_builtins(usual))[option] = given[name]
    return {**{name: value for name, value in given.items() if name not in named}, "site": sites}


def _set(options: Options, given: dict[str, Any]) -> Options:
    """Options with other values, validated as if they had been there from the start."""
    document: dict[str, Any] = msgspec.to_builtins(options)
    before = {}
    for name, value in given.items():
        place, last = _place(document, name)
        before[name] = _json(place.get(last))
        place[last] = value
    after = reading.read(Options, document)
    for name in given:
        if not any(name == live or name.startswith(f"{live}.") for live in LIVE) or name in _FIXED:
            raise ConfigError(
                f"{name} cannot be changed while a crawl runs: stop it, and start it with --set {name}=..."
            )
        if name in LIVE and isinstance(getattr(Options(), name, None), msgspec.Struct):
            raise ConfigError(f"{name} is a table of options: set one of them, like {name}.NAME=VALUE")
    check(after)
    if _logins(after) != _logins(options):
        raise ConfigError(
            "a login cannot be changed while a crawl runs: stop it, and start it with another --config"
        )
    document = msgspec.to_builtins(after)
    values = dict(options.steered.values)
    for name in given:
        place, last = _place(document, name)
        values[name] = (values[name][0] if name in values else before[name], _json(place.get(last)))
    return msgspec.structs.replace(after, steered=msgspec.structs.replace(after.steered, values=values))


def _logins(options: Options) -> dict[str, LoginOptions]:
    """By URL, the logins to which the crawl sends secrets: a person who may steer it need not know these."""
    return {host: table.login for host, table in options.site.items() if table.login is not None}


def _place(document: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """The table that an option is in, and its name there."""
    table, dot, last = name.partition(".")
    if not dot:
        return document, table
    place = document.setdefault(table, {})
    if not isinstance(place, dict):
        raise ConfigError(f"unknown option {name!r}; {table} is no table")
    return place, last


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


# -- sites


def _ordered(options: Options, words: Sequence[str]) -> Options:
    """Apply one order about one host."""
    host = canonical_host(words[0]) if words else None
    order = words[1] if len(words) > 1 else ""
    if host is None or order not in ORDERS or len(words) != (3 if order == "budget" else 2):
        raise ConfigError(
            f"site takes HOST {'|'.join(ORDERS[:-1])}, or HOST budget N; not {' '.join(words)!r}"
        )
    usual = options.site.get(table_of(options.site.keys() - {host}, host), SiteOptions())
    before = said = options.site.get(host, usual)
    blocked = host in options.scope.exclude_hosts
    if order == "hold":
        said = msgspec.structs.replace(said, hold=True)
    elif order == "block":
        blocked = True
    elif order == "boost":
        said = msgspec.structs.replace(said, first=True)
    elif order == "release":
        said, blocked = msgspec.structs.replace(said, hold=False, first=False), False
    else:
        if not (words[2].isascii() and words[2].isdigit()):
            raise ConfigError(f"a budget is a number of pages, not {words[2]!r}")
        said = msgspec.structs.replace(said, pages=int(words[2]) or None)
    sites = {**msgspec.to_builtins(options.site), host: msgspec.to_builtins(said)}
    if said == usual:
        del sites[host]
    given: dict[str, Any] = {"site": sites} if said != before else {}
    if blocked != (host in options.scope.exclude_hosts):
        others = [each for each in options.scope.exclude_hosts if each != host]
        given["scope.exclude_hosts"] = [*others, host] if blocked else others
    return _set(options, given)


# -- the next start


def resumed(given: Options, before: Options | None) -> Options:
    """The options of a start, combined with what acts of earlier runs set; see the module."""
    if before is None or before.steered == Steered():
        return given
    document: dict[str, Any] = msgspec.to_builtins(given)
    values = {}
    for name, (first, now) in before.steered.values.items():
        place, last = _place(document, name)
        if _json(place.get(last)) in (first, now):
            values[name] = first, now
            place[last] = msgspec.json.decode(now)
    document["steered"] = msgspec.to_builtins(msgspec.structs.replace(before.steered, values=values))
    try:
        return msgspec.convert(document, Options)
    except msgspec.ValidationError:  # from a version with other options: use those of this start
        return msgspec.structs.replace(given, steered=before.steered)


def latest(found: Sequence[Options]) -> Options | None:
    """Of the options in the logs of a crawl's shards, those with the latest act; else the first.

    They differ if a kill came between the commits of two shards.
    """
    return max(found, key=lambda each: each.steered.did[-1].at if each.steered.did else 0, default=None)
