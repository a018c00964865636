"""Patterns: the shapes of a URL, from fine to coarse, by which the yield of its pages is counted.

    http://a.test/shop/item-0.html?color,sid        fine: numbers are 0, ids are *, of the query the names
    http://a.test/shop/*.html?color,sid             folder: any name in the folder
    http://a.test/shop/**?*                         first: everything below the first folder, any query
    http://a.test/**?*                              site: everything of the site, with or without a query
    *.a.test                                        hosts: sites of the domain from which nothing was fetched yet

A shape that no other URL can have (no number, no id, no query) is not a pattern: it would be counted once.

A path is written with at most `SEGMENTS` segments; the rest is `**`. Names of months are numbers, and of several
numbers in a row two are written: /2026/november/19/ and /2026/11/ are /0/0/. Words joined by `+` or `,` are
`*+*`, a choice like that of a query. Parameters of a path (;jsessionid=1) count as those of the query, in which
`year`, `month`, `week` and `day` are a `date`: months and their days are one pattern. What traps look like is part
of a shape, so that it is counted apart from the ordinary pages around it:

    ~host       a segment is the name of a host ({host}): http://a.test/www.b.test/www.b.test/
    ~repeat     a segment that is no number occurs twice
    ~deep       more than `DEEP` segments
    ~amp        a name in the query begins with `amp;`, which was escaped once too often
    ~again      a name occurs twice in the query

`suspicion` says how much a shape looks like a trap by itself: then less evidence is needed, but always some.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from xxhash import xxh32_intdigest

SEGMENTS: Final = 5
DEEP: Final = 9
LENGTH: Final = 200

_DIGITS = re.compile(r"[0-9]+")
_MIXED = re.compile(r"(?=[^0-9]*[0-9])(?=[^a-zA-Z]*[a-zA-Z])[0-9a-zA-Z_()~=-]{12,}")
_MONTH = re.compile(
    r"(?<![a-zA-Z])(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-zA-Z])",
    re.I,
)
_DATES = frozenset(("year", "month", "week", "day", "date"))
_CHOICE = re.compile(r"[^+,.]+(?:[+,][^+,.]+)+")
_HOST = re.compile(
    r"(?:www\.(?:[a-z0-9-]+\.)+[a-z]{2,}|(?:[a-z0-9-]+\.)+(?:com|org|net|edu|gov|info|test))(?::[0-9]+)?"
)
_ENDINGS = frozenset(("com", "org", "net", "edu", "gov", "info", "test"))
_ODD = re.compile(r"[0-9*?+,;]")
_WITH_QUERY = re.compile("[?;]")
_MARKED = re.compile(r"[*?+,;]|^www[.]")
_ANY = "~~"
_DATED = re.compile(r"\b0-0\b|/0/0(?:/|\b)|\b0000-00\b")
_SESSION = re.compile(
    r"(?:^|[?,])(?:sid|s|phpsessid|jsessionid|session_?id|sess(?:ion)?|cfid|cftoken)(?:,|$)", re.I
)
_VISIT = re.compile(r"(?=[^0-9]*[0-9])(?=[^a-zA-Z]*[a-zA-Z])[0-9a-zA-Z_-]{6,}")


class Level(IntEnum):
    """How coarse a pattern is."""

    FINE = 0
    FOLDER = 1
    FIRST = 2
    SITE = 3
    HOSTS = 4


class Pattern(NamedTuple):
    """One shape of a URL."""

    level: Level
    text: str

    @property
    def suspicion(self) -> int:
        """0: an ordinary shape; 1: it has a query, a choice, a date or an id within; 2: it looks like a trap."""
        return _suspicion(self.text)


@lru_cache(maxsize=4096)
def _suspicion(text: str) -> int:
    if "~" in text:
        return 2
    query = text.partition("?")[2]
    if query:
        return 2 if _SESSION.search(query) else 1
    # Of a deep folder `/*/**` is any name and what is below it, and no id.
    return 1 if _DATED.search(text) or "/*/" in text.removesuffix("/*/**") or "*+*" in text else 0


@lru_cache(maxsize=1024)
def _segment(text: str) -> str:
    if "." in text and _HOST.fullmatch(text):
        return "{host}"
    if len(text) >= 12 and _MIXED.fullmatch(text.partition(".")[0]):
        return "*" + text[len(text.partition(".")[0]) :]
    if _CHOICE.fullmatch(text):
        return "*+*"
    return _DIGITS.sub("0", _MONTH.sub("0", text))


@lru_cache(maxsize=256)
def patterns_of(url: str) -> tuple[Pattern, ...]:
    """The patterns of a URL within its site, finest first, each once, without any that only this URL can have."""
    cut = url.rindex("/") + 1
    name = url[cut:]
    if _ODD.search(name) is None and not name.startswith("www.") and _MONTH.search(name) is None:
        dot = name.rfind(".")
        found = _below(url[:cut], name[dot:] if dot >= 0 else "")
        if found is not None and name not in found.words:
            return found.patterns
    elif _MARKED.search(name) is None:
        shape = _segment(name)
        found = _shaped(url[:cut], shape)
        if found is not None and found.words.isdisjoint((name, shape)):
            return found.patterns
    return patterns_plain(url)


class _Below(NamedTuple):
    """The pages of a folder whose names are not part of their patterns."""

    words: frozenset[str]
    """Its segments; a page of such a name repeats one."""
    patterns: tuple[Pattern, ...]


@lru_cache(maxsize=4096)
def _below(folder: str, ending: str) -> _Below | None:
    """What such pages have in common; None if their names are part of their patterns."""
    if (
        _WITH_QUERY.search(folder)
        or _ANY in folder
        or ending[1:] in _ENDINGS
        or len(folder) + len(ending) > LENGTH // 2
    ):
        return None
    patterns = patterns_plain(f"{folder}{_ANY}{ending}")
    if any(_ANY in pattern.text for pattern in patterns):
        return None
    return _Below(frozenset(folder.split("/")) - {""}, patterns)


@lru_cache(maxsize=4096)
def _shaped(folder: str, shape: str) -> _Below | None:
    """What pages of a folder whose names have one shape have in common; None if that is not all that counts."""
    if _WITH_QUERY.search(folder) or shape in ("{host}", "") or _segment(shape) != shape:
        return None
    if folder.count("/") - 2 > SEGMENTS:
        return None
    return _Below(frozenset(folder.split("/")) - {""}, patterns_plain(folder + shape))


def patterns_plain(url: str) -> tuple[Pattern, ...]:
    """The patterns of any URL, however odd."""
    start = url.find("/", url.find("://") + 3)
    site, rest = url[:start], url[start:]
    path, mark, query = rest.partition("?")
    segments = path.split("/")[1:]
    if ";" in path:
        extras = [part for each in segments for part in each.split(";")[1:]]
        segments = [each.partition(";")[0] for each in segments]
        mark, query = "?", "&".join([*extras, query])
    names, flags = _names(query) if mark else ("", "")
    worded = [each for each in segments if each and not each.isdigit()]
    if len(worded) != len(set(worded)):
        flags = "~repeat" + flags
    if len(segments) > DEEP:
        flags = "~deep" + flags
    shapes = _numbered([_segment(each) for each in segments[:SEGMENTS]])
    more = "/**" if len(segments) > SEGMENTS else ""
    is_host = "{host}" in shapes
    if is_host:
        more, shapes = "/**", [*shapes[: shapes.index("{host}")], "{host}"]
    if is_host or any("." in each and _HOST.fullmatch(each) for each in segments[SEGMENTS:]):
        flags = "~host" + flags
    fine = f"{site}/{'/'.join(shapes)}{more}{names}{flags}"
    last = shapes[-1]
    ending = last[last.rindex(".") :] if "." in last and not more else ""
    folder = f"{site}/{'/'.join([*shapes[:-1], '*'])}{ending}{more}{names}{flags}"
    asked = "?*" if mark else ""
    below = "/**" if len(segments) > 1 else ""
    first = f"{site}/{shapes[0]}{below}{asked}{flags}"
    whole = f"{site}/**{asked}{flags}"
    found = [Pattern(Level.FINE, _short(fine))] if fine != url or _ODD.search(rest) else []
    found.append(Pattern(Level.FOLDER, _short(folder)))
    if first != fine:
        found.append(Pattern(Level.FIRST, _short(first)))
    return (*found, Pattern(Level.SITE, whole))


def _numbered(shapes: list[str]) -> list[str]:
    """The same with at most two numbers in a row."""
    if shapes.count("0") < 3:
        return shapes
    return [each for at, each in enumerate(shapes) if shapes[max(at - 2, 0) : at + 1] != ["0"] * 3]


def _short(text: str) -> str:
    """A pattern of at most `LENGTH` characters: one that is longer ends with a hash of itself."""
    if len(text) <= LENGTH:
        return text
    return f"{text[: LENGTH - 12]}...{xxh32_intdigest(text.encode()):08x}"


def without_ids(url: str) -> str:
    """A URL without what looks like the id of a session or of a visit, in its query or as a part of its path."""
    start = url.find("/", url.find("://") + 3)
    path, mark, query = url[start:].partition("?")
    folders = ["*" if len(each) >= 12 and _MIXED.fullmatch(each) else each for each in path.split("/")]
    names = [each for each in query.split("&") if not _is_id(each)] if mark else []
    return url[:start] + "/".join(folders) + ("?" + "&".join(names) if names else "")


def _is_id(pair: str) -> bool:
    name, _, value = pair.partition("=")
    return bool(_SESSION.search(name) or _VISIT.fullmatch(value))


def is_pattern(text: str) -> bool:
    """Whether a text can be a pattern."""
    return " " not in text and ("://" in text[:12] or text.startswith("*."))


def hosts_of(domain: str) -> Pattern:
    """The pattern of the sites of a domain from which nothing was fetched yet."""
    return Pattern(Level.HOSTS, f"*.{domain}")


def _names(query: str) -> tuple[str, str]:
    """The names of a query, each once and in order, and what is odd about them."""
    names = [each.partition("=")[0] for each in query.split("&") if each]
    flags = ""
    bare = [each.removeprefix("amp;") for each in names]
    if bare != names:
        flags = "~amp"
        while (again := [each.removeprefix("amp;") for each in bare]) != bare:
            bare = again
    known = sorted({"date" if each in _DATES else _DIGITS.sub("0", each)[:40] for each in bare})
    if len(set(bare)) < len(bare):
        flags += "~again"
    return "?" + ",".join(known[:12]), flags
