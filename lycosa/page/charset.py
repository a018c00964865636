"""Determining the encoding of a text.

The order is that of WHATWG HTML §13.2.3.2, with our fallback at the end:

1. a byte order mark;
2. the charset of the Content-Type header;
3. for HTML, a prescan of the first 1,024 bytes for a meta element that declares one, and for markup of
   either kind the encoding of an XML declaration;
4. for HTML, a meta element later in the first 64 KiB: a browser that meets one while parsing starts over
   with it ("changing the encoding while parsing"); we look ahead instead, and only if the bytes are not
   ASCII, where it cannot matter;
5. UTF-8 if the bytes are valid UTF-8;
6. for markup and text, a detector by character frequencies over the first 64 KiB;
7. windows-1252.

A declaration of UTF-16 inside text that was readable as ASCII is a lie and means UTF-8;
x-user-defined in a meta element means windows-1252 (both as in the standard).

The prescan is the standard's algorithm exactly, with regular expressions in place of its byte loops.
They are possessive throughout, so that no input makes them backtrack.
"""

from __future__ import annotations

import re

from lycosa.page.encodings import UTF_8, WINDOWS_1252, detected, encoding_of

PRESCAN = 1024
LOOKAHEAD = 64 << 10

_HINT = re.compile(rb"charset|<\?xml|<\0\?\0|\0<\0\?", re.IGNORECASE)

# One attribute as "get an attribute" reads it. After the name comes either a value, complete, or no
# equals sign at all: an unterminated quote therefore matches nothing, as the standard gives up there.
_ATTRIBUTE = (
    rb"[\t\n\f\r /]*+([^>\t\n\f\r /][^=\t\n\f\r />]*+)"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"""(?:"([^"]*+)"|'([^']*+)'|(?!["'])([^\t\n\f\r >]*+))|(?![\t\n\f\r ]*+=))"""
)
_ONE_ATTRIBUTE = re.compile(_ATTRIBUTE)
_TAG = re.compile(
    rb"</?[A-Za-z][^\t\n\f\r >]*+(?:" + re.sub(rb"\((?!\?)", b"(?:", _ATTRIBUTE) + rb")*+[\t\n\f\r /]*+>"
)
_META = re.compile(rb"<meta[\t\n\f\r /]", re.IGNORECASE)
_ATTRIBUTES_END = re.compile(rb"[\t\n\f\r /]*+>")
_CONTENT_CHARSET = re.compile(rb"charset[\t\n\f\r ]*+=[\t\n\f\r ]*+", re.IGNORECASE)
_CONTENT_VALUE = re.compile(rb"""(["'])(.*?)\1|(?!["'])([^\t\n\f\r ;]*+)""", re.DOTALL)
_XML_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding[\0-\x20]*+=[\0-\x20]*+(["'])([^"'>\0-\x20]*+)\1""")


def charset_of(body: bytes, declared: str | None, *, html: bool = False, xml: bool = False) -> str:
    """The name of the encoding of a text; `declared` is the charset label of its Content-Type."""
    if body[:3] == b"\xef\xbb\xbf":
        return UTF_8
    mark = body[:2]
    if mark == b"\xfe\xff":
        return "utf-16be"
    if mark == b"\xff\xfe":
        return "utf-16le"
    if declared:
        name = encoding_of(declared)
        if name is not None:
            return name
    found = None
    if html:
        found = prescan(body[:PRESCAN])
        if found is None and len(body) > PRESCAN and not body.isascii():
            found = prescan(body[:LOOKAHEAD])
    elif xml:
        found = xml_encoding(body[:PRESCAN]) or _wide(body)
    if found is not None:
        return found
    if is_utf8(body):
        return UTF_8
    return detected(body[:LOOKAHEAD]) or WINDOWS_1252


def is_utf8(body: bytes) -> bool:
    """Whether the bytes are valid UTF-8; a last character cut short is forgiven if it is not the only one."""
    if body.isascii():
        return True
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and not body[: error.start].isascii()
    return True


def prescan(head: bytes) -> str | None:
    """The encoding that a meta element or an XML declaration at the start of an HTML body names."""
    if _HINT.search(head) is None:
        return None
    wide = _wide(head)
    if wide is not None:
        return wide
    at = 0
    while True:
        at = head.find(b"<", at)
        if at < 0:
            break
        if head.startswith(b"<!--", at):
            # The dashes that open a comment may be those that close it: <!--> is one.
            end = head.find(b"-->", at + 2)
            if end < 0:
                break
            at = end + 3
            continue
        if _META.match(head, at):
            found, at = _meta(head, at + 5)
            if found is not None:
                return found
            if at < 0:
                break
            continue
        tag = _TAG.match(head, at)
        if tag is not None:
            at = tag.end()
        elif head[at + 1 : at + 2] in (b"!", b"/", b"?"):
            if head[at + 1 : at + 2] == b"/" and head[at + 2 : at + 3].isalpha():
                break  # an end tag that the bytes cut short
            end = head.find(b">", at + 1)
            if end < 0:
                break
            at = end + 1
        elif head[at + 1 : at + 2].isalpha():
            break  # a tag that the bytes cut short
        else:
            at += 1
    return xml_encoding(head)


def _wide(head: bytes) -> str | None:
    """An XML declaration in UTF-16 without a byte order mark."""
    if head[:6] == b"<\0?\0x\0":
        return "utf-16le"
    if head[:6] == b"\0<\0?\0x":
        return "utf-16be"
    return None


def _meta(head: bytes, at: int) -> tuple[str | None, int]:
    """The encoding that the meta element at `at` declares, and where it ends (-1: it does not)."""
    names: set[bytes] = set()
    pragma = False
    needs_pragma: bool | None = None
    charset: str | None = None
    while True:
        end = _ATTRIBUTES_END.match(head, at)
        if end is not None:
            at = end.end()
            break
        attribute = _ONE_ATTRIBUTE.match(head, at)
        if attribute is None or attribute.end() >= len(head):
            return None, -1
        at = attribute.end()
        name = attribute[1].lower()
        if name in names:
            continue
        names.add(name)
        value = attribute[2] or attribute[3] or attribute[4] or b""
        if name == b"http-equiv":
            pragma = value.lower() == b"content-type"
        elif name == b"content":
            if charset is None:
                charset = content_charset(value)
                if charset is not None:
                    needs_pragma = True
        elif name == b"charset":
            # An unknown label fails; a later content attribute does not replace it.
            charset = encoding_of(value.decode("latin-1")) or ""
            needs_pragma = False
    if needs_pragma is None or (needs_pragma and not pragma) or not charset:
        return None, at
    return _in_band(charset), at


def content_charset(content: bytes) -> str | None:
    """The encoding in a meta element's content, "text/html; charset=…" (HTML §2.4.4)."""
    found = _CONTENT_CHARSET.search(content)
    if found is None:
        return None
    value = _CONTENT_VALUE.match(content, found.end())
    if value is None:
        return None
    label = value[2] if value[1] else value[3]
    return encoding_of(label.decode("latin-1"))


def xml_encoding(head: bytes) -> str | None:
    """The encoding that an XML declaration at the very start names."""
    end = head.find(b">")
    found = _XML_ENCODING.match(head, 0, end) if end >= 0 else None
    if found is None:
        return None
    name = encoding_of(found[2].decode("latin-1"))
    return None if name is None else _in_band(name)


def _in_band(name: str) -> str:
    """The encoding that a declaration means if it could be read byte by byte from the text itself."""
    if name in ("utf-16le", "utf-16be"):
        return UTF_8
    if name == "x-user-defined":
        return WINDOWS_1252
    return name
