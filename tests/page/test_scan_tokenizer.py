"""The scanner, held to the tokenizer tests of html5lib (https://github.com/html5lib/html5lib-tests, MIT license).

Each case is an input, the state in which it begins, and the tokens that must come of it. The scanner knows only the
names that matter to a crawl, so its kernel is run here as plain Python with the names of the case in its tables.
What a raw text state is for the tokenizer is an element before the input. Compared are start tags with their
attributes, and for the cases of character references the text.
"""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from lycosa.page import references, scan_kernels, scan_names
from lycosa.page.scan import Marks
from lycosa.page.scan_kernels import DEEP, HEAD

CASES = Path(__file__).parent / "data/html5lib-tokenizer.zip"
BEFORE = {
    "Data state": ("", ""),
    "RCDATA state": ("<textarea>", "textarea"),
    "RAWTEXT state": ("<xmp>", "xmp"),
    "Script data state": ("<script>", "script"),
    "PLAINTEXT state": ("<plaintext>", "plaintext"),
    "CDATA section state": ("<svg><![CDATA[", ""),
}
"""State -> what leads the scanner into it, and the element whose end tag leads out."""
LONGEST_NAME = 16
"""Bytes of a name that the scanner may know."""
Tag = tuple[str, dict[str, str]]


class Case(NamedTuple):
    text: str
    """With what leads to its state."""
    tokens: list[list[Any]]

    @property
    def tags(self) -> list[Tag]:
        """Those that the scanner's tables can hold, with the attributes that they can."""
        return [
            (token[1], {name: value for name, value in token[2].items() if known(name)})
            for token in self.tokens
            if token[0] == "StartTag" and known(token[1])
        ]


def known(name: str) -> bool:
    return name.isascii() and len(name) <= LONGEST_NAME


def unescaped(value: Any) -> Any:
    """Cases that JSON cannot hold have their characters escaped twice."""
    if isinstance(value, str):
        return re.sub(r"\\u([0-9A-Fa-f]{4})", lambda found: chr(int(found[1], 16)), value)
    if isinstance(value, list):
        return [unescaped(each) for each in value]
    if isinstance(value, dict):
        return {unescaped(name): unescaped(each) for name, each in value.items()}
    return value


def cases(name: str) -> Iterator[Case]:
    with zipfile.ZipFile(CASES) as kept:
        tests = json.loads(kept.read(f"tokenizer/{name}.test"))["tests"]
    for test in tests:
        text, tokens = test["input"], test["output"]
        if test.get("doubleEscaped"):
            text, tokens = unescaped(text), unescaped(tokens)
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            continue  # no bytes of any encoding decode to it
        for state in test.get("initialStates", ["Data state"]):
            before, element = BEFORE[state]
            given = (
                text.replace(test["lastStartTag"], element) if element and "lastStartTag" in test else text
            )
            yield Case(before + given, tokens)


@cache
def plain(tags: tuple[str, ...], attributes: tuple[str, ...]) -> tuple[Any, Any]:
    """The scanner's kernel as plain Python, with these names before its own; its tables and itself."""
    names: Any = ModuleType("names")
    kernel: Any = ModuleType("kernel")
    source = Path(scan_names.__file__).read_text("utf-8")
    begin, marker, end = source.partition("TAGS = {")
    exec(compile(begin, "names", "exec"), names.__dict__)
    own = {tag: "" for tag in names.ELEMENTS if tag not in tags}
    names.ATTRIBUTES = (*attributes, *({"alt"} - set(attributes)))
    names.ELEMENTS = {**dict.fromkeys(tags, ""), **own, "html": ""}
    exec(compile(marker + end, "names", "exec"), names.__dict__)
    names.REPORTED = len(tags)
    names.WANTED[: len(tags)] = (1 << len(attributes)) - 1
    source = Path(scan_kernels.__file__).read_text("utf-8")
    source = source.replace(
        "from lycosa.compiled import njit", "njit = lambda **_: lambda function: function"
    )
    imported = re.search(r"^from lycosa\.page\.scan_names import \((.*?)\)$", source, re.M | re.S)
    assert imported is not None
    for name in re.findall(r"\w+", imported[1]):
        kernel.__dict__[name] = getattr(names, name)
    exec(compile(source.replace(imported[0], ""), "kernel", "exec"), kernel.__dict__)
    return names, kernel


def scanned(case: Case) -> list[Tag]:
    """The start tags that the kernel reports."""
    tags = tuple(sorted({tag for tag, _ in case.tags}))
    attributes = tuple(sorted({name for _, held in case.tags for name in held}))
    names, kernel = plain(tags, attributes)
    body = case.text.encode()
    data, tape = np.frombuffer(body, np.uint8), np.empty(1024, np.int32)
    texts = np.empty(len(body) + 1, np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # hashes overflow, as they should
        end, text_end, full = kernel.scan(
            data, len(data), False, 1_000, tape, texts, np.empty(DEEP, np.int32)
        )
    assert not full
    marks = Marks(body, data, "utf-8", tape[:end], texts[:text_end], int(text_end), False)
    found = []
    for at in marks.places():
        words = tape[at : at + HEAD + 3 * int(tape[at + 6])].tolist()
        held = {
            names.ATTRIBUTES[words[n] & 0xFF]: marks.value(words[n], words[n + 1], words[n + 2])
            for n in range(HEAD, len(words), 3)
        }
        found.append((tags[words[0]], held))
    return found


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("contentModelFlags", 0),
        ("domjs", 1),
        ("entities", 9),
        ("escapeFlag", 0),
        ("pendingSpecChanges", 0),
        ("test1", 19),
        ("test2", 12),
        ("test3", 362),
        ("test4", 32),
        ("unicodeCharsProblematic", 0),
    ],
)
def test_start_tags_and_attributes(name: str, tags: int) -> None:
    reported = 0
    for case in cases(name):
        found = scanned(case)
        assert found == case.tags, case.text
        reported += len(found)
    assert reported == tags, "so many start tags are in the file"


@pytest.mark.parametrize(
    ("name", "count"), [("namedEntities", 4_210), ("numericEntities", 336), ("entities", 71)]
)
def test_character_references(name: str, count: int) -> None:
    read = 0
    for case in cases(name):
        if all(token[0] == "Character" for token in case.tokens):
            text = "".join(token[1] for token in case.tokens)
            assert references.in_text(case.text).replace("\0", "\ufffd") == text, case.text
            read += 1
    assert read == count
