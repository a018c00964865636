"""The query language: parses text to a tree. Accepts any input and never raises; ignored parts are in `notes`.

    query   := part*                          any of the parts may match; more and rarer ones rank higher
    part    := chain ( 'OR' chain )*          the same as chains side by side
    chain   := item ( 'AND' item )*           all of them must match
    item    := ['+' | '-' | 'NOT'] atom       + must match, - and NOT must not
    atom    := word | word'*' | word'~'[1|2]  a word, words with a prefix, words of similar spelling
             | '"' words '"' ['~' slop]       these words in a row; each up to `slop` words from the next
             | '(' query ')'
             | name ':' atom                   a group in parentheses applies the name to each of its atoms

    site:example.org  site:example.org/docs/   that host and its subdomains; that part of it
    intitle: inurl: inanchor: inheading:       a word or phrase in that place (required)
    type:pdf type:text/html lang:de            (required; filetype: is the same as type:)
    before:2024 after:2024-05-01               by the date of modification, or else of the fetch (required)

Of filters joined by OR (site:a.org OR site:b.org) one is required. AND, OR and NOT must be in capitals. At
most `MOST_WORDS` words of `MOST_LETTERS` characters each, groups nested `MOST_DEPTH` deep.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence

import msgspec

MOST_CHARACTERS = 20_000
MOST_WORDS = 500
MOST_LETTERS = 1_000
MOST_DEPTH = 20

PLACES = {"intitle": "title", "inurl": "address", "inanchor": "anchors", "inheading": "headings"}
FILTERS = ("site", "type", "lang", "before", "after")
_SAME = {"filetype": "type"}

_TOKEN = re.compile(
    r"""(?P<sign>[+-](?=[^\s)+-]))?(?P<name>(?:site|type|filetype|lang|before|after|intitle|inurl|inanchor|inheading):)?"""
    r"""(?:"(?P<phrase>[^"]*)"?(?:~(?P<slop>[0-9]{1,2}))?|(?P<open>\()|(?P<close>\))|(?P<word>[^\s()"]+))""",
    re.IGNORECASE,
)
_FUZZY = re.compile(r"~([12])?$")
_DAY = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")


class Word(msgspec.Struct, frozen=True):
    """A word; any word with this prefix (`prefix`); any word within `distance` letters of it."""

    text: str
    place: str = ""
    prefix: bool = False
    distance: int = 0


class Phrase(msgspec.Struct, frozen=True):
    """Consecutive words."""

    text: str
    place: str = ""
    slop: int = 0


class Filter(msgspec.Struct, frozen=True):
    """A required property of a page, apart from its words."""

    name: str
    value: str


class Dates(msgspec.Struct, frozen=True):
    """Pages of an interval of time, in milliseconds: `start` included, `end` not; 0 leaves a side open."""

    start: int = 0
    end: int = 0


class Group(msgspec.Struct, frozen=True):
    """All of `must`, none of `never`, and at least one of `should` unless a word must match."""

    must: tuple[Node, ...] = ()
    should: tuple[Node, ...] = ()
    never: tuple[Node, ...] = ()


Node = Word | Phrase | Filter | Dates | Group


class Query(msgspec.Struct, frozen=True):
    """A parsed query."""

    text: str
    tree: Group
    notes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    """The values of `lang:`."""

    @property
    def words(self) -> list[str]:
        """The plain words, in order: those highlighted for the reader, and checked for spelling."""
        return list(_words(self.tree))


def _words(node: Node) -> Sequence[str]:
    if isinstance(node, Phrase) or (isinstance(node, Word) and not node.prefix and not node.distance):
        return [node.text]
    if isinstance(node, Group):
        return [word for part in (*node.must, *node.should) for word in _words(part)]
    return []


def is_filter(node: Node) -> bool:
    """Whether a node only filters pages, without words."""
    if isinstance(node, Group):
        return all(map(is_filter, (*node.must, *node.should, *node.never)))
    return isinstance(node, Filter | Dates)


def filters_of(node: Node) -> list[Filter]:
    """The filters in a node."""
    if isinstance(node, Group):
        return [found for part in (*node.must, *node.should) for found in filters_of(part)]
    return [node] if isinstance(node, Filter) else []


def _is_name(text: str) -> bool:
    name = text.lower()
    return name.endswith(":") and (name[:-1] in FILTERS or name[:-1] in PLACES or name[:-1] in _SAME)


class _Reader:
    def __init__(self, text: str) -> None:
        self.notes: list[str] = []
        self.languages: list[str] = []
        if len(text) > MOST_CHARACTERS:
            text = text[:MOST_CHARACTERS]
            self.notes.append(f"only the first {MOST_CHARACTERS:,} characters were read")
        self._tokens = list(_TOKEN.finditer(text.replace("“", '"').replace("”", '"').replace("\x00", " ")))
        self._at = 0
        self._words = 0

    def group(self, depth: int = 0, name: str = "") -> Group:
        """Parse up to the closing parenthesis, or the end. `name`: the name before the opening one."""
        must: list[Node] = []
        should: list[Node] = []
        never: list[Node] = []
        chain: list[Node] = []
        joined = negative = either = False
        filtered = False
        """Whether the previous part was a filter that is required."""

        def end_chain() -> None:
            if len(chain) > 1:
                should.append(Group(must=tuple(chain)))
            elif chain:
                should.append(chain[0])
            chain.clear()

        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token["close"]:
                if depth:
                    end_chain()
                    return Group(tuple(must), tuple(should), tuple(never))
                self.note("a parenthesis is closed that was not opened")
                continue
            word = token["word"]
            if word in ("AND", "OR", "NOT") and not token["name"] and not token["sign"]:
                joined = word == "AND" and bool(chain) if word != "NOT" else joined
                negative = word == "NOT"
                either = word == "OR" and filtered
                continue
            node = self._atom(token, depth, name)
            if node is None:
                joined = negative = either = filtered = False
                continue
            before, filtered = filtered, is_filter(node)
            if negative or token["sign"] == "-":
                never.append(node)
                filtered = False
            elif filtered and name in FILTERS:
                should.append(node)
            elif filtered and either and before:
                must[-1] = Group(should=(must[-1], node))
            elif joined and not filtered:
                chain.append(node)
            elif token["sign"] == "+" or filtered or token["name"]:
                must.append(node)
            else:
                end_chain()
                chain.append(node)
            joined = negative = either = False
        end_chain()
        if depth:
            self.note("a parenthesis is not closed")
        return Group(tuple(must), tuple(should), tuple(never))

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _atom(self, token: re.Match[str], depth: int, around: str) -> Node | None:
        """`around`: the name of the group that it is in."""
        name = (token["name"] or "").lower().removesuffix(":")
        name = _SAME.get(name, name) or around
        if token["open"]:
            if depth >= MOST_DEPTH:
                return None
            inside = self.group(depth + 1, name)
            return inside if inside.must or inside.should or inside.never else None
        phrase = token["phrase"]
        value = token["word"] if phrase is None else phrase
        if phrase is not None and token.group().count('"') < 2:
            self.note("a quotation mark is not closed")
        if phrase is None and not token["name"] and _is_name(value):
            self.note(f"{value} has no value: write it without a space, like {value}word")
            return None
        if name in FILTERS:
            return self.filter(name, value.strip())
        if phrase is None and len(value) > MOST_LETTERS:
            self.note(f"words of more than {MOST_LETTERS:,} characters are left out")
            return None
        self._words += len(value.split())
        if self._words > MOST_WORDS:
            if self._words - len(value.split()) <= MOST_WORDS:
                self.notes.append(f"only the first {MOST_WORDS} words were read")
            return None
        place = PLACES.get(name, "")
        if phrase is not None:
            return Phrase(phrase, place, int(token["slop"] or 0)) if phrase.strip() else None
        if (fuzzy := _FUZZY.search(value)) is not None and len(value) > fuzzy.end() - fuzzy.start():
            return Word(value[: fuzzy.start()], place, distance=int(fuzzy[1] or 1))
        if value.endswith("*") and value.strip("*"):
            return Word(value.rstrip("*"), place, prefix=True)
        return Word(value, place)

    def filter(self, name: str, value: str) -> Node | None:
        """The filter of this name; None if the value has no meaning, which is noted."""
        if not value:
            self.notes.append(f"{name}: has no value")
            return None
        if name in ("before", "after"):
            day = day_of(value)
            if day is None:
                self.notes.append(f"{name}:{value} is no date: write it like 2024, 2024-05 or 2024-05-01")
                return None
            return Dates(end=day) if name == "before" else Dates(start=day)
        value = value.lower()
        if name == "lang":
            self.languages.append(value)
        if name == "site":
            value = value.removeprefix("https://").removeprefix("http://").lstrip(".")
            host, slash, path = value.partition("/")
            value = f"{host}/{path.strip('/')}/" if slash and path.strip("/") else host
        return Filter(name, value)


def day_of(text: str) -> int | None:
    """The beginning of a day, month or year, UTC, in milliseconds; None if the text is not a date."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    try:
        day = datetime.datetime(int(found[1]), int(found[2] or 1), int(found[3] or 1), tzinfo=datetime.UTC)
    except ValueError:
        return None
    return round(day.timestamp() * 1000)


def parse(text: str, filters: Iterable[tuple[str, str]] = ()) -> Query:
    """The tree of a query; never raises. `filters`: names of `FILTERS` and values, required in addition."""
    text = text.encode("utf-8", "replace").decode()  # replaces the surrogates of undecodable input
    reader = _Reader(text)
    tree = reader.group()
    more = [node for name, value in filters if (node := reader.filter(name, value.strip())) is not None]
    if more:
        tree = msgspec.structs.replace(tree, must=(*tree.must, *more))
    return Query(text, tree, tuple(reader.notes), tuple(reader.languages))
