"""Named rules that go beyond the canonical form; they are off by default.

WHATWG's canonical form never joins two URLs that a server could tell apart. These rules do: each of them
is a guess about servers, right for most and wrong for some, so the operator names those that the crawl may
use. They apply to http and https URLs alone, in the order of this table whatever the order of the names:

    escapes    %7e -> ~, %c3 -> %C3: RFC 3986 §6.2.2 (unreserved characters bare, hex digits upper case)
    www        www.example.com -> example.com, if a dot is left in the name
    dot        example.com. -> example.com: the root's dot of a fully qualified name
    sessions   drops session ids: ;jsessionid=... and /(S(...))/ in the path; PHPSESSID, JSESSIONID,
               ASPSESSIONID..., CFID, CFTOKEN, osCsid, zenid and, if their value looks like one (16 or more
               letters and digits), sid, s, session, sessionid, session_id in the query
    tracking   drops query parameters that only tell where the visitor came from: utm_..., gclid, fbclid ...
    sorted     sorts the query's parameters (by their bytes; equal names keep their order)
    index      /a/index.html -> /a/ where there is no query; also .htm, .php, .aspx, default.asp ...
    slash      /a/ -> /a where there is no query; the root stays /

A query that loses its last parameter loses its question mark too. Rules map canonical URLs to URLs; the
caller parses the result again and repeats until nothing changes (see `lycosa.url.canonical`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lycosa.errors import ConfigError

Step = Callable[[str], str]

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

_TRACKING = frozenset(
    {
        "gclid",
        "gclsrc",
        "dclid",
        "gbraid",
        "wbraid",
        "gad_source",
        "gad_campaignid",
        "srsltid",
        "fbclid",
        "msclkid",
        "yclid",
        "ymclid",
        "twclid",
        "ttclid",
        "igshid",
        "igsh",
        "li_fat_id",
        "mc_cid",
        "mc_eid",
        "mkt_tok",
        "_ga",
        "_gl",
        "_hsenc",
        "_hsmi",
        "__hstc",
        "__hssc",
        "__hsfp",
        "hsctatracking",
        "oly_enc_id",
        "oly_anon_id",
        "vero_id",
        "vero_conv",
        "wickedid",
        "wt_mc",
        "wt_zmc",
        "epik",
        "s_kwcid",
        "ef_id",
        "sc_campaign",
        "sc_channel",
        "sc_content",
        "sc_medium",
        "sc_outcome",
        "sc_geo",
        "sc_country",
        "_openstat",
        "rb_clickid",
    }
)
_TRACKING_PREFIXES = ("utm_", "pk_", "mtm_", "piwik_", "matomo_", "stm_", "hsa_")

_SESSION = frozenset(
    {
        "phpsessid",
        "jsessionid",
        "cfid",
        "cftoken",
        "oscsid",
        "zenid",
        "osclsid",
        "sessid",
        "asp.net_sessionid",
    }
)
_SESSION_IF_LONG = frozenset({"sid", "s", "session", "sessionid", "session_id"})
_LONG_ID = re.compile(r"[0-9A-Za-z_,-]{16,}\Z")
_PATH_SESSION = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/;?]*", re.IGNORECASE)
_ASP_SESSION = re.compile(r"/\((?:[A-Za-z]\([0-9A-Za-z]{20,32}\))+\)(?=/)|/\([0-9A-Za-z]{24}\)(?=/)")

_INDEX = re.compile(r"/(?:index|default)\.(?:html?|shtml|xhtml|php[345]?|aspx?|jsp|cfm|cgi)\Z", re.IGNORECASE)


def _cut(url: str) -> tuple[str, str, str | None]:
    """(scheme and authority, path, query or None) of a canonical http URL."""
    start = url.index("/", 8)
    mark = url.find("?", start)
    if mark < 0:
        return url[:start], url[start:], None
    return url[:start], url[start:mark], url[mark + 1 :]


def _keep(url: str, drop: Callable[[str, str], bool]) -> str:
    """The URL without the query parameters for which `drop(name in lower case, value)` is true."""
    site, path, query = _cut(url)
    if query is None:
        return url
    old = query.split("&")
    new = []
    for field in old:
        name, _, value = field.partition("=")
        if not drop(name.lower(), value):
            new.append(field)
    if len(new) == len(old):
        return url
    return f"{site}{path}?{'&'.join(new)}" if new else site + path


def _escapes(url: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = int(found[1], 16)
        return chr(code) if code in _UNRESERVED else found[0].upper()

    start = url.index("/", 8)
    return url[:start] + _ESCAPE.sub(one, url[start:])


def _www(url: str) -> str:
    start = url.index("://") + 3
    if not url.startswith("www.", start):
        return url
    end = url.index("/", start)
    return url[:start] + url[start + 4 :] if "." in url[start + 4 : end].rstrip(".") else url


def _dot(url: str) -> str:
    start = url.index("://") + 3
    end = url.index("/", start)
    name, colon, port = url[start:end].partition(":")
    if not name.endswith(".") or not name.rstrip("."):
        return url
    return f"{url[:start]}{name.rstrip('.')}{colon}{port}{url[end:]}"


def _sessions(url: str) -> str:
    site, path, query = _cut(url)
    path = _ASP_SESSION.sub("", _PATH_SESSION.sub("", path))
    url = site + path if query is None else f"{site}{path}?{query}"
    return _keep(
        url,
        lambda name, value: (
            name in _SESSION
            or name.startswith("aspsessionid")
            or (name in _SESSION_IF_LONG and _LONG_ID.match(value) is not None)
        ),
    )


def _tracking(url: str) -> str:
    return _keep(url, lambda name, _: name in _TRACKING or name.startswith(_TRACKING_PREFIXES))


def _sorted(url: str) -> str:
    site, path, query = _cut(url)
    if query is None or "&" not in query:
        return url
    return f"{site}{path}?{'&'.join(sorted(query.split('&'), key=_name))}"


def _name(field: str) -> str:
    return field.partition("=")[0]


def _index(url: str) -> str:
    site, path, query = _cut(url)
    return url if query is not None else site + _INDEX.sub("/", path)


def _slash(url: str) -> str:
    site, path, query = _cut(url)
    return url if query is not None else site + (path.rstrip("/") or "/")


TABLE: dict[str, Step] = {
    "escapes": _escapes,
    "www": _www,
    "dot": _dot,
    "sessions": _sessions,
    "tracking": _tracking,
    "sorted": _sorted,
    "index": _index,
    "slash": _slash,
}


class Rules(NamedTuple):
    """A choice of rules; equal choices are equal values."""

    names: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()

    @staticmethod
    def named(names: Iterable[str]) -> Rules:
        """The rules of those names, in the table's order; an unknown name is a `ConfigError`."""
        asked = set()
        for name in names:
            if name not in TABLE:
                near = difflib.get_close_matches(name, TABLE, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(TABLE)
                raise ConfigError(f"unknown URL rule {name!r}; {hint}")
            asked.add(name)
        chosen = tuple(name for name in TABLE if name in asked)
        return Rules(chosen, tuple(TABLE[name] for name in chosen))


NO_RULES = Rules()
