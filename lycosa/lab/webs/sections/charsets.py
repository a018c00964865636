"""Charsets: documents in many encodings, declared in every way (the encoding standard defines which
declaration holds).

Everything is below /letters/. Each document links to a page whose address is spelled in the document's
own letters, not escaped, and that nothing else links to: a crawler that fetches it has decoded the document
correctly, because the address is the UTF-8 of those letters.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from lycosa.lab.webs.answers import Answer, leaf
from lycosa.lab.webs.sheet import Sheet


class Letter(NamedTuple):
    """One document: its encoding, and the charsets that the header and the document declare."""

    name: str
    codec: str
    word: str
    header: str = ""
    head: str = ""
    mark: bytes = b""


LETTERS = (
    Letter("cyrillic", "cp1251", "страница", "windows-1251"),
    Letter("koi8", "koi8-r", "паук", "koi8-r"),
    Letter("japanese", "shift_jis", "クモの巣", "Shift_JIS"),
    Letter("euc", "euc_jp", "狼蜘蛛", "euc-jp"),
    Letter("chinese", "gb18030", "蜘蛛网页", "gb18030"),
    Letter("big5", "big5", "網頁", "big5"),
    Letter("korean", "euc_kr", "거미줄", "euc-kr"),
    Letter("polish", "iso8859_2", "pająk-żółty", "iso-8859-2"),
    # "latin1" on the web means windows-1252.
    Letter("latin1", "cp1252", "œuvre-€", "latin1"),
    Letter("meta", "cp1251", "паутина", "", '<meta charset="windows-1251">'),
    Letter(
        "http-equiv",
        "cp1253",
        "ιστός",
        "",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1253">',
    ),
    # The header wins over the document.
    Letter("contrary", "koi8-r", "волк", "koi8-r", '<meta charset="utf-8">'),
    # A byte order mark wins over everything.
    Letter("mark", "utf-8", "araignée", "windows-1252", "", b"\xef\xbb\xbf"),
    Letter("utf16le", "utf-16-le", "ragnatela-π", "", "", b"\xff\xfe"),
    Letter("utf16be", "utf-16-be", "pavučina", "utf-8", "", b"\xfe\xff"),
    # If the declaration could be read the document cannot be UTF-16: UTF-8 is meant.
    Letter("meta-utf16", "utf-8", "Spinnwäbe", "", '<meta charset="utf-16">'),
    Letter("hebrew", "cp1255", "עכביש", "windows-1255"),
    Letter("thai", "cp874", "แมงมุม", "tis-620"),
)


def write(sheet: Sheet) -> None:
    """Add the section."""
    for letter in LETTERS:
        behind = sheet.child(f"/letters/{letter.name}/{quote(letter.word)}.html")
        raw = f"/letters/{letter.name}/{letter.word}.html"
        text = leaf(letter.word, raw, head=letter.head)
        type_ = "text/html" + (f"; charset={letter.header}" if letter.header else "")
        body = letter.mark + text.encode(letter.codec)
        answer = Answer(200, (("Content-Type", type_),), body, lasting=True)
        sheet.put(f"/letters/{letter.name}.html", answer, entry=True)
        assert quote(raw) == behind
    # Declared as UTF-8 but is not: invalid bytes become U+FFFD, and the plain links are still valid.
    plain = sheet.child("/letters/behind-wrong.html")
    wrong = leaf("неверно", plain).encode("cp1251")
    typed = ("Content-Type", "text/html; charset=utf-8")
    sheet.put("/letters/wrong.html", Answer(200, (typed,), wrong, lasting=True), entry=True)
