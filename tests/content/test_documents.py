"""The text of documents: PDF, Office formats, XML, plain text; and of hostile ones."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.content import documents
from lycosa.content.documents import LIMITS, Limits, read, text_of

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
SLIDES = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ODT = "application/vnd.oasis.opendocument.text"


def pdf(*pages: str, title: str = "A report") -> bytes:
    """A small PDF with a page for each text."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) >>")
    out, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table
    return out + b"trailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        len(objects),
        start,
    )


def packed(**members: str | bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name.replace("__", "/") + ".xml", text)
    return out.getvalue()


def test_pdf() -> None:
    found = read(pdf("Tomatoes want sun.", "Water them."), "application/pdf")
    assert found.title == "A report"
    assert found.text.split("\n") == ["Tomatoes want sun.", "Water them."]
    assert text_of(pdf("one", "two", "three"), "application/pdf", limits=Limits(pages=2)).split() == [
        "one",
        "two",
    ]


def test_a_damaged_pdf_has_the_text_that_can_be_read_or_none() -> None:
    whole = pdf("Tomatoes want sun.")
    assert text_of(b"%PDF-1.7\ngarbage", "application/pdf") == ""
    assert text_of(b"no pdf", "application/pdf") == ""
    assert text_of(whole[: len(whole) // 2], "application/pdf") in ("", "Tomatoes want sun.")


def test_a_pdf_that_ends_its_reader_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crashing = tmp_path / "child.py"
    crashing.write_text("import os\nos.write(1, b'Title\\nthe first page\\n')\nos.abort()")
    monkeypatch.setattr(documents, "_CHILD", crashing)
    found = read(pdf("x"), "application/pdf")
    assert (found.title, found.text) == ("Title", "the first page"), "what was read before counts"


def test_a_pdf_that_takes_too_long_or_is_too_large_has_no_text() -> None:
    assert text_of(pdf("x"), "application/pdf", limits=Limits(seconds=0)) == ""
    assert text_of(pdf("x"), "application/pdf", limits=Limits(body=10)) == ""


def test_word() -> None:
    body = packed(
        word__document="<w:document><w:body><w:p><w:r><w:t>Growing</w:t></w:r><w:r>"
        "<w:t xml:space='preserve'> tomatoes</w:t></w:r></w:p><w:p><w:t>Sun &amp; water</w:t><w:tab/>"
        "<w:t>daily</w:t></w:p></w:body></w:document>",
        docProps__core="<cp:coreProperties><dc:title>A &lt;guide&gt;</dc:title></cp:coreProperties>",
        word__styles="<w:t>not this</w:t>",
    )
    found = read(body, WORD)
    assert found.title == "A <guide>"
    assert found.text == "Growing tomatoes\nSun & water daily"


def test_slides_come_in_their_order() -> None:
    body = packed(**{f"ppt__slides__slide{n}": f"<a:p><a:t>slide {n}</a:t></a:p>" for n in (10, 2, 1)})
    assert text_of(body, SLIDES) == "slide 1\nslide 2\nslide 10"


def test_sheets_have_their_words_and_not_their_numbers() -> None:
    body = packed(
        xl__sharedStrings="<sst><si><t>Name</t></si><si><t>Price</t></si></sst>",
        xl__worksheets__sheet1="<row><c><v>0</v></c><c><f>A1*2</f><v>17</v></c><c><is><t>inline</t></is></c></row>",
    )
    assert text_of(body, SHEET) == "Name\nPrice\ninline"


def test_open_document() -> None:
    body = packed(
        content="<office:text><text:h>Head</text:h><text:p>One<text:tab/>two</text:p></office:text>",
        meta="<dc:title>T</dc:title>",
    )
    found = read(body, ODT)
    assert (found.title, found.text) == ("T", "Head\nOne two")


def test_a_zip_bomb_is_unpacked_up_to_its_limit() -> None:
    body = packed(word__document="<w:t>" + "a" * (20 << 20) + "</w:t>")
    assert len(body) < 100_000
    assert len(text_of(body, WORD, limits=Limits(unpacked=1 << 20))) <= 1 << 20
    many = packed(**{f"word__a{n}": "" for n in range(50)}, word__document="<w:t>x</w:t>")
    assert text_of(many, WORD) == "x"
    assert text_of(many, WORD, limits=Limits(members=40)) == ""


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_no_office_program_packs_by_is_not_unpacked(packing: int) -> None:
    """400 MB of it take 500 bytes, and `zipfile` unpacks them at once; damaged, it raises what it does not say."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as file:
        file.writestr("word/document.xml", "<w:t>" + "a" * 5000 + "</w:t>")
    body = bytearray(out.getvalue())
    assert text_of(bytes(body), WORD) == ""
    body[60:80] = bytes(byte ^ 0x55 for byte in body[60:80])
    assert text_of(bytes(body), WORD) == ""


@pytest.mark.parametrize("zeros", [0, 5000])
def test_a_character_reference_of_any_length_is_text(zeros: int) -> None:
    """`html.unescape` raises at 4,300 digits."""
    for digits, shown in (("65", "A"), ("9" * 5000, "\ufffd")):
        text = f"<p>one &#{'0' * zeros}{digits}; two</p>"
        for media in ("text/html", "text/xml"):
            assert text_of(text.encode(), media) == f"one {shown} two"
        assert text_of(packed(word__document=text), WORD) == f"one {shown} two"


def test_xml_and_plain_text() -> None:
    feed = b"<rss><title>T</title><d>&lt;p&gt;one&lt;/p&gt;</d><d><![CDATA[<b>two</b>]]></d></rss>"
    assert text_of(feed, "application/rss+xml").split() == ["T", "one", "two"]
    assert text_of(b" a \n\n b\x01c", "text/plain") == "a\nb c"
    assert text_of(b"caf\xe9", "text/plain", "windows-1252") == "café"
    assert text_of(b"\xef\xbb\xbfx", "text/plain") == "x"
    assert text_of(b"\x89PNG", "image/png") == ""


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=300), st.sampled_from([WORD, SHEET, ODT, "text/html", "text/xml", "text/plain", "a/b"])
)
def test_any_bytes_have_some_text(body: bytes, media: str) -> None:
    text = read(body, media, "utf-8", LIMITS).text
    assert text == "\n".join(line for line in text.split("\n") if line)
    read(packed(word__document=body, content=body), media)


@pytest.mark.parametrize("body", ["<" * 300_000, "<![CDATA[" * 50_000, "&lt;" * 100_000, "<a " * 100_000])
def test_hostile_xml_is_read_once(body: str) -> None:
    text_of(body.encode(), "text/xml")
    text_of(packed(word__document=body), WORD)


def flood(size: int) -> bytes:
    """A PDF of a page whose content unpacks to so many bytes."""
    packed = zlib.compress(b"BT /F1 12 Tf 72 720 Td (Tomatoes) Tj ET\n%" + b" " * size, 9)
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(packed), packed),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made = b"%PDF-1.4\n"
    for number, part in enumerate(parts, 1):
        made += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    return made + b"trailer << /Size 6 /Root 1 0 R >>\n%%EOF"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.parametrize("seconds", [0, 10], ids=["alone", "with a limit of time that is lower already"])
def test_the_limit_of_memory_acts(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    if seconds:
        run = subprocess.run

        def limited(command: list[str], **more: object) -> object:
            code = (
                f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))"
            )
            return run([command[0], "-c", f"{code}; os.execv(sys.argv[1], sys.argv[1:])", *command], **more)  # type: ignore[call-overload]

        monkeypatch.setattr(subprocess, "run", limited)
    body, small = flood(96 << 20), Limits(memory=64 << 20)
    assert text_of(body, "application/pdf") == "Tomatoes"
    assert text_of(body, "application/pdf", limits=small) == ""
    assert text_of(pdf("Tomatoes want sun."), "application/pdf", limits=small) == "Tomatoes want sun."
