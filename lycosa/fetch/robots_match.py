"""Matching a path against robots rules: one normal form for both sides, and a fast search for the longest match.

The form (RFC 9309 §2.2.2): escapes of unreserved characters are undone, octets that are neither
unreserved nor reserved (RFC 3986 §2) are escaped, escapes are upper case, and a "%" that starts no escape
stays. Reserved characters and their escapes stay different. "*" and "$" are special in patterns, so a path's
are escaped, and so is a "$" of a pattern that is not its last character.

The priority of a rule is the number of octets of its pattern in that form, specials included.

Finding. A pattern without "*" is a prefix, or with "$" a whole path: a dictionary holds them, and the path's
prefixes of the lengths that occur are looked up, longest first. A 500 KiB file has at most a thousand
different lengths. A pattern with "*" is filed under the prefix before its first "*"; the patterns of one prefix are
tried by falling priority, until one is too short to beat the best so far. Where many share one prefix (a
long list of "/*something"), each is filed under one of its trigrams, and only those whose trigram is in
the path are tried. A pattern is a sequence of segments; each is searched for leftmost, after the one before. The
leftmost place is always the best one, so there is no backtracking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_GRAMMED = 24
"""With this many patterns or more, those of one prefix are found by trigram."""

_PLAIN = r"A-Za-z0-9\-._~!#&'()+,/:;=?@\[\]"
_SAFE = re.compile(f"[{_PLAIN}]*")
_UNSAFE = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{_PLAIN}%]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_BEFORE_PATH = re.compile(r"(?://|[^/?;#]*://)?[^/?;#]*")
_ROBOTS = "/robots.txt"


class Judgement(NamedTuple):
    """What the rules say about a URL, and the line that said it (0 and "" if none did)."""

    allowed: bool
    line: int = 0
    rule: str = ""
    group: str = ""  # the user-agent line of the group that was used; "" if there is none


class Rule(NamedTuple):
    """An Allow or Disallow line."""

    line: int
    allow: bool
    pattern: bytes  # as written
    text: bytes  # the whole line, as written, without its comment


def path_of(url: str) -> str:
    """Path and query of a URL in the form above; "/" if it has neither."""
    found = _BEFORE_PATH.match(url)
    path = url[found.end() :] if found else url
    if "#" in path:
        path = path[: path.index("#")]
    if not path:
        return "/"
    if path[0] != "/":
        path = "/" + path
    if _SAFE.fullmatch(path):
        return path
    if not path.isascii():
        path = path.encode("utf-8", "surrogatepass").decode("latin-1")
    return _UNSAFE.sub(_escape, path)


def _escape(found: re.Match[str]) -> str:
    text = found.group()
    if len(text) == 1:
        return f"%{ord(text):02X}"
    char = chr(int(text[1:], 16))
    return char if char in _UNRESERVED else text.upper()


def pattern_of(written: bytes) -> str:
    """A rule's pattern in the form above: "*" and a last "$" are special, all else is literal."""
    text = written.decode("latin-1")
    if _SAFE.fullmatch(text):
        return text
    end = "$" if text.endswith("$") else ""
    if end:
        text = text[:-1]
    return "*".join(_UNSAFE.sub(_escape, part) for part in text.split("*")) + end


def _matches(segments: list[str], ends: bool, text: str) -> bool:
    """Whether the text is the segments with anything between them, the first at the start; with `ends`, the last at
    the end."""
    if not text.startswith(segments[0]):
        return False
    at = len(segments[0])
    last = len(segments) - 1
    for i in range(1, last + (not ends)):
        segment = segments[i]
        found = text.find(segment, at)
        if found < 0:
            return False
        at = found + len(segment)
    if not ends:
        return True
    if last == 0:
        return at == len(text)
    return len(text) - at >= len(segments[last]) and text.endswith(segments[last])


class _Wild(NamedTuple):
    """A pattern with "*"."""

    octets: int
    allow: bool
    order: int  # minus the line number: of equal rules, the first is named
    segments: list[str]
    ends: bool
    rule: Rule


class _Shelf:
    """The patterns with "*" that share the prefix before it."""

    __slots__ = ("grams", "top", "wilds")

    def __init__(self, wilds: list[_Wild]) -> None:
        wilds.sort(key=lambda w: (w.octets, w.allow, w.order), reverse=True)
        self.top = wilds[0].octets
        self.wilds = wilds  # those tried for every path
        self.grams: dict[str, list[_Wild]] = {}
        if len(wilds) < _GRAMMED:
            return
        self.wilds = []
        for wild in wilds:
            longest = max(wild.segments[1:], key=len)
            if len(longest) < 3:
                self.wilds.append(wild)
                continue
            # The one of its trigrams that the fewest others use already.
            own = [longest[i : i + 3] for i in range(min(len(longest) - 2, 64))]
            best = min(own, key=lambda gram: len(self.grams.get(gram, ())))
            self.grams.setdefault(best, []).append(wild)

    def candidates(self, held: set[str]) -> Iterable[_Wild]:
        """All patterns that may match a path of these trigrams, by falling priority."""
        if not self.grams:
            return self.wilds
        some = [wild for gram in self.grams.keys() & held for wild in self.grams[gram]]
        some += self.wilds
        some.sort(key=lambda w: (w.octets, w.allow, w.order), reverse=True)
        return some


class RuleSet:
    """All rules that hold for one agent."""

    __slots__ = ("_last", "_lengths", "_literals", "_none", "_shelf_lengths", "_shelves", "_wholes", "group")

    def __init__(self, rules: list[Rule], group: str) -> None:
        self.group = group
        self._none = Judgement(True, group=group)
        self._last: tuple[Rule | None, Judgement] = (None, self._none)
        self._literals: dict[str, Rule] = {}
        self._wholes: dict[str, Rule] = {}
        shelves: dict[str, dict[tuple[str, bool], _Wild]] = {}
        for rule in rules:
            self._add(rule, pattern_of(rule.pattern), shelves)
        self._lengths = sorted({len(literal) for literal in self._literals}, reverse=True)
        self._shelves = {prefix: _Shelf(list(wilds.values())) for prefix, wilds in shelves.items()}
        self._shelf_lengths = sorted({len(prefix) for prefix in shelves})

    def _add(self, rule: Rule, pattern: str, shelves: dict[str, dict[tuple[str, bool], _Wild]]) -> None:
        if pattern[0] not in "/*":
            return  # no path starts like this
        ends = pattern[-1] == "$"
        body = pattern[:-1] if ends else pattern
        if "*" in body:
            segments = body.split("*")
            wild = _Wild(len(pattern), rule.allow, -rule.line, segments, ends, rule)
            shelves.setdefault(segments[0], {}).setdefault((pattern, rule.allow), wild)
        else:
            table = self._wholes if ends else self._literals
            if (known := table.get(body)) is None or (rule.allow and not known.allow):
                table[body] = rule
        if rule.allow and not ends:
            slash = pattern.rfind("/")
            if pattern.startswith("/index.htm", slash):
                self._add(rule, pattern[: slash + 1] + "$", shelves)

    def judge(self, path: str) -> Judgement:
        """Decide about a path in the form of `path_of`."""
        if path == _ROBOTS:
            return self._none
        size = len(path)
        best = -1
        rule = self._wholes.get(path)
        if rule is not None:
            best = size + 1
        else:
            literals = self._literals
            for length in self._lengths:
                if length <= size and (rule := literals.get(path[:length])) is not None:
                    best = length
                    break
        held: set[str] = set()
        for length in self._shelf_lengths:
            if length > size:
                break
            shelf = self._shelves.get(path[:length])
            if shelf is None or shelf.top < best:
                continue
            if shelf.grams and not held:  # once for all shelves: a path may be long, and they may be many
                held = {path[i : i + 3] for i in range(size - 2)}
            for wild in shelf.candidates(held):
                if wild.octets < best or (
                    wild.octets == best and rule is not None and (rule.allow or not wild.allow)
                ):
                    break
                if _matches(wild.segments, wild.ends, path):
                    best, rule = wild.octets, wild.rule
                    break
        return self._none if rule is None else self._judgement(rule)

    def _judgement(self, rule: Rule) -> Judgement:
        """What a rule says: nearly always the same one decides as the last time."""
        last, said = self._last
        if last is not rule:
            text = rule.text.decode("utf-8", "replace").strip()
            said = Judgement(rule.allow, rule.line, text, self.group)
            self._last = (rule, said)
        return said
