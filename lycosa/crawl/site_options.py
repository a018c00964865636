"""Settings of single sites: `[site."example.org"]` in crawl.toml, which win over those of the whole crawl.

A table's name is a host, or `*.example.org` for that host and all below it; of several that match, only the one
with the longest name applies: tables are not mixed. Options that a table omits are as for every site.

What a site itself asks for (Crawl-delay, Retry-After) is obeyed as usual.
"""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Literal, NamedTuple

import msgspec

from lycosa.errors import ConfigError
from lycosa.fetch import secrets
from lycosa.frontier import PolitenessOptions
from lycosa.render.options import check_when
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of

_MOST = 10_000
"""Hosts whose settings are remembered."""


class LoginOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to log in by a form; see `lycosa.crawl.sessions`."""

    page: str  # the URL of the page with the form
    form: str = ""  # a CSS selector; "": the only form with a password
    fields: dict[str, str] = {}  # name -> value, as it is
    secrets: dict[str, str] = {}  # name -> where the value is: env:LYCOSA_SECRET_..., file:NAME
    attempts: int = 3  # consecutive failures allowed


class SiteOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one site is crawled, where that differs."""

    hold: bool = False  # no visit of it begins
    first: bool = False  # visited whenever it is ready, before all others (in the table of a single host)
    wait: float | None = None  # seconds between two visits
    pages_per_visit: int | None = None
    pages: int | None = None  # of the site, over all runs
    depth: int | None = None  # links from a seed
    headers: tuple[str, ...] = ()  # "Name: value", sent to this site besides those for all
    render: str | None = None  # which of its pages a browser renders: never, auto, always, or a pattern
    cookies: Literal["none", "run", "kept"] = (
        "none"  # that each host sets: sent back to it, in later runs too
    )
    login: LoginOptions | None = None  # in the table of a single host; its cookies are kept for the run

    def __post_init__(self) -> None:
        for name, least in (("wait", 0), ("pages_per_visit", 1), ("pages", 1), ("depth", 0)):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= least):
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if self.render is not None:
            check_when(self.render)


class Setting(NamedTuple):
    """The settings that apply to a host."""

    hold: bool
    politeness: PolitenessOptions
    pages: int | None
    depth: int | None
    headers: tuple[tuple[str, str], ...]
    render: str | None = None  # None: as for every site
    cookies: str = "none"
    login: LoginOptions | None = None


class Settings:
    """Finds the settings that apply to a host."""

    def __init__(
        self, tables: dict[str, SiteOptions], politeness: PolitenessOptions, pages: int | None
    ) -> None:
        """`politeness` and `pages` apply to every site without settings of its own."""
        self._usual = Setting(False, politeness, pages, None, ())
        self._tables = {_checked(name): self._setting(name, table) for name, table in tables.items()}
        self._found: dict[str, Setting] = {}

    def of(self, host: str) -> Setting:
        """The settings that apply to a host."""
        if not self._tables:
            return self._usual
        found = self._found.get(host)
        if found is None:
            if len(self._found) >= _MOST:
                self._found.clear()
            found = self._found[host] = self._find(host)
        return found

    def _find(self, host: str) -> Setting:
        return self._tables.get(table_of(self._tables, host), self._usual)

    def _setting(self, name: str, table: SiteOptions) -> Setting:
        given = {key: getattr(table, key) for key in ("wait", "pages_per_visit")}
        changed = {key: value for key, value in given.items() if value is not None}
        headers = []
        for line in table.headers:
            key, mark, value = line.partition(":")
            if not mark or not key.strip() or any(c in line for c in "\r\n\0"):
                raise ConfigError(f"site {name}: the header {line!r} is not of the form 'Name: value'")
            headers.append((key.strip(), value.strip()))
        return Setting(
            table.hold,
            msgspec.structs.replace(self._usual.politeness, **changed),
            self._usual.pages if table.pages is None else table.pages,
            table.depth,
            tuple(headers),
            table.render,
            table.cookies,
            _checked_login(name, table.login),
        )


def table_of(tables: Container[str], host: str) -> str:
    """The name of the table that applies to a host; empty if there is none."""
    if host in tables:
        return host
    rest = host
    while rest:
        if f"*.{rest}" in tables:
            return f"*.{rest}"
        rest = rest.partition(".")[2]
    return ""


def _checked_login(name: str, login: LoginOptions | None) -> LoginOptions | None:
    """The login of a table; refused if it can never work."""
    if login is None:
        return None
    page = canonicalise(login.page)
    if page is None or host_of(page) != name:
        raise ConfigError(
            f"[site.{name!r}]: login.page is a URL of the host that the table is for, not {login.page!r}"
        )
    if not login.secrets:
        raise ConfigError(f"[site.{name!r}]: login.secrets says where the password is, by the field's name")
    if login.attempts < 1:
        raise ConfigError(f"[site.{name!r}]: login.attempts must be at least 1, not {login.attempts}")
    for field, place in login.secrets.items():
        secrets.checked(place, f"site {name}: login.secrets.{field}")
    return msgspec.structs.replace(login, page=page)


def _checked(name: str) -> str:
    """The name of a table; refused if it is not a host's."""
    host = name.removeprefix("*.")
    if not host or any(c in host for c in "/:*@? ") or host != host.lower():
        raise ConfigError(
            f"[site.{name!r}]: give a host in lower case, example.org or *.example.org, without http://"
        )
    return name
