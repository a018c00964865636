"""The text of a body of any type: HTML, XML and feeds, plain text, PDF, and the Office formats.

    type                                        how
    text/html, application/xhtml+xml            `main_text`
    text/plain, Markdown and the like           as it is
    XML, feeds                                  the text between tags; markup that feeds escape is no text either
    application/pdf                             pypdfium2, in a process of its own (`pdf_child`): at most
                                                `Limits.pages` pages, `seconds` of time and `memory` bytes;
                                                text read before a limit counts
    docx, pptx, xlsx, odt, odp, ods             the text of their XML parts, which are a zip's members; nothing
                                                is parsed as XML, so there are no entities to expand; at most
                                                `Limits.unpacked` bytes are unpacked and `Limits.members` members
                                                listed
    anything else                               no text

Never raises. A body that is not of its declared type has no text.
"""

from __future__ import annotations

import html
import io
import re
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Final

import msgspec

from lycosa.content.blocks import decode, unescaped
from lycosa.content.main_text import MainText, clean, main_text

HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
PLAIN: Final = frozenset(
    {"text/plain", "text/markdown", "text/x-markdown", "text/csv", "text/x-rst", "text/troff"}
)
PDF: Final = "application/pdf"
_OPEN_XML = "application/vnd.openxmlformats-officedocument."
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."

# Which members hold text, and the tags after which a line ends.
_WORD = (r"word/(?:document|footnotes|endnotes)\.xml", r"</w:p>|<w:br\b[^<>]*+>|</w:tr>")
_SLIDES = (r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml", r"</a:p>|<a:br\b[^<>]*+>")
_SHEETS = (r"xl/(?:sharedStrings|worksheets/sheet\d+)\.xml", r"</si>|</is>|</row>")
_TEXT = (r"content\.xml", r"</text:(?:p|h)>|<text:line-break\b[^<>]*+>")
_OFFICE = {
    f"{_OPEN_XML}wordprocessingml.document": _WORD,
    f"{_OPEN_XML}presentationml.presentation": _SLIDES,
    f"{_OPEN_XML}spreadsheetml.sheet": _SHEETS,
    f"{_OPEN_DOCUMENT}text": _TEXT,
    f"{_OPEN_DOCUMENT}presentation": _TEXT,
    f"{_OPEN_DOCUMENT}spreadsheet": _TEXT,
}
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods of Office files; with others `zipfile` would unpack without a limit."""
_CHILD = Path(__file__).with_name("pdf_child.py")
_TITLE = re.compile(r"<dc:title\b[^<>]*+>([^<]*+)</dc:title>")
_NUMBER_CELL = re.compile(r"<v>[^<]*+</v>|<f\b[^<>]*+>[^<]*+</f>")
_TAB = re.compile(r"<(?:w:tab|text:tab|text:s)\b[^<>]*+>|</table:table-cell>|</w:tc>")
_TAG = re.compile(r"<[^<>]*+>")
_DIGITS = re.compile(r"\d+")


class Limits(msgspec.Struct, frozen=True):
    """How much of a document is read."""

    body: int = 64 << 20
    """Bytes of a body; a PDF or Office file that is larger has no text, of others the beginning is read."""

    text: int = 8 << 20
    """Bytes of text."""

    pages: int = 500
    """Pages of a PDF."""

    seconds: int = 20
    """For a PDF."""

    memory: int = 2 << 30
    """Bytes of address space of the process that reads a PDF."""

    unpacked: int = 64 << 20
    """Bytes unpacked of an Office file."""

    members: int = 10_000
    """Members of an Office file; one with more has no text."""


LIMITS: Final = Limits()


def is_office(media: str) -> bool:
    """Whether that is a type of Office files whose text is read (by their bytes they are just zip files)."""
    return media in _OFFICE


def is_xml(media: str) -> bool:
    return media.endswith("+xml") or media in ("text/xml", "application/xml")


def read(body: bytes, media: str, charset: str = "utf-8", limits: Limits = LIMITS) -> MainText:
    """Title, text and language of a body of that media type and charset; without blocks if it has no text."""
    if media in HTML:
        return main_text(body, charset)
    if media in PLAIN:
        return _plain("", decode(body[: limits.text], charset))
    if media == PDF:
        return _pdf(body, limits)
    if media in _OFFICE:
        return _office(body, media, limits)
    if is_xml(media):
        return _xml(decode(body[: limits.text], charset))
    return MainText("", [])


def text_of(body: bytes, media: str, charset: str = "utf-8", limits: Limits = LIMITS) -> str:
    """The main text of a body; empty if it has none."""
    return read(body, media, charset, limits).text


def _plain(title: str, text: str) -> MainText:
    """A plain text, whose paragraphs are its blocks."""
    parts = (clean(part) for part in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").replace("\r", "\n")))
    return MainText(clean(title), [part for part in parts if part])


def _xml(text: str) -> MainText:
    if re.search(r"<html[\s>]", text[:4096], re.IGNORECASE):
        return main_text(text)
    text = _escaped(text)
    # Feeds hold escaped markup: what is a tag after unescaping is no text either.
    return _plain("", _TAG.sub("\n", unescaped(_TAG.sub("\n", text))).replace("\n\n", "\n"))


def _escaped(text: str) -> str:
    """CDATA sections written as escaped text."""
    parts, at = [], 0
    while (start := text.find("<![CDATA[", at)) >= 0 and (end := text.find("]]>", start)) >= 0:
        parts += [text[at:start], html.escape(text[start + 9 : end])]
        at = end + 3
    return "".join([*parts, text[at:]])


def _pdf(body: bytes, limits: Limits) -> MainText:
    if len(body) > limits.body or b"%PDF-" not in body[:1024]:
        return MainText("", [])
    command = [sys.executable, "-P", str(_CHILD)]
    numbers = (limits.pages, limits.text, limits.seconds, limits.memory)
    try:
        done = subprocess.run(
            [*command, *map(str, numbers)],
            input=body, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limits.seconds, check=False,
        )  # fmt: skip
        answer = done.stdout
    except subprocess.TimeoutExpired as late:
        answer = late.stdout or b""
    except OSError:
        answer = b""
    title, _, text = answer.decode("utf-8", "replace").partition("\n")
    return _plain(title, text)


def _office(body: bytes, media: str, limits: Limits) -> MainText:
    members, ends = _OFFICE[media]
    if len(body) > limits.body or body.count(b"PK\x01\x02") > limits.members:
        return MainText("", [])
    left = limits.unpacked
    wanted, line = re.compile(members), re.compile(ends)
    parts: list[str] = []
    title = ""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as packed:
            names = sorted(filter(wanted.fullmatch, packed.namelist()), key=_order)
            for name in ("docProps/core.xml", "meta.xml", *dict.fromkeys(names)):
                try:
                    if packed.getinfo(name).compress_type not in _PACKINGS:
                        continue
                    with packed.open(name) as member:
                        data = member.read(left)
                except KeyError:
                    continue
                left -= len(data)
                text = data.decode("utf-8", "replace")
                if name in ("docProps/core.xml", "meta.xml"):
                    found = _TITLE.search(text)
                    title = title or (unescaped(found[1]) if found else "")
                    continue
                if "worksheets" in name:
                    text = _NUMBER_CELL.sub("", text)  # numbers, and numbers of shared strings
                text = unescaped(_TAG.sub("", _TAB.sub(" ", line.sub("\n\n", text))))
                parts.append(text[: limits.text])
                if left <= 0:
                    break
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError):
        pass  # the text read before that counts
    return _plain(title, "\n\n".join(parts)[: limits.text])


def _order(name: str) -> list[int | str]:
    """Slide 2 comes before slide 10."""
    return [re.sub(r"\d+", "", name), *map(int, _DIGITS.findall(name)[:2])]
