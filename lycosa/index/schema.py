"""The fields of a page in the index.

    field      kind          what is in it
    kind       term          page | copy | marker
    id         u64, column   our own number of the document: the key of the page's URL
    key        term          the same as 16 hexadecimal digits: tantivy's Python package can only delete by text
    url        term          the whole URL
    site       terms         every suffix of the host, and host with each directory of the path (`site:`)
    host       term          the host
    type       terms         media type, and its common name (`type:pdf`)
    lang       term          language, two or three letters, or ""
    title, headings, body, anchors, address      text: terms of `words`, with positions
    n_title, n_headings, …                       u64 columns: the exact number of terms in each of the five
    date       i64, column   time of last modification if the site reports it, else of the fetch (ms)
    depth      u64, column
    digest     u64, column   of the content; equal for exact copies
    sketch     u64, column   simhash of the text; close for near copies
    zero       f64, column   0: see `reader`
    data       stored        the `Page` itself, MessagePack: what results and rewriting need

`body` has the whole text of a page, title included: it is the deciding field; the others add to it. A copy (the
same content at another URL) has no text and does not count; it is kept to be listed with its original, or to
replace it. The marker has one term, `MARK`, in each text field, and stores in `data` how far the log is indexed.
"""

from __future__ import annotations

from typing import Any

import msgspec
import tantivy

from lycosa.index.words import counted_terms

VERSION = 2
"""The version of this layout: an index with another version is rebuilt."""

TEXTS = ("title", "headings", "body", "anchors", "address")
"""The fields that are searched for words."""
MARK = "*"
"""No text has this term."""
MOST_TEXT = 500_000
"""Most characters of a text that are kept and indexed."""
SPACES = "spaces"

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_NAMES = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/plain": "text",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/csv": "csv",
    f"{_OFFICE}wordprocessingml.document": "docx",
    f"{_OFFICE}presentationml.presentation": "pptx",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
    f"{_OPEN}text": "odt",
    f"{_OPEN}presentation": "odp",
    f"{_OPEN}spreadsheet": "ods",
}


class Page(msgspec.Struct, frozen=True, array_like=True):
    """A page as stored in the index."""

    id: int
    url: str
    host: str
    title: str = ""
    headings: str = ""  # one per line
    text: str = ""
    anchors: tuple[str, ...] = ()
    language: str = ""
    type: str = ""
    at: int = 0
    modified: int = 0  # 0: not reported
    depth: int = 0
    digest: int = 0
    sketch: int = 0
    position: int = 0  # of its Fetched in the log of its shard
    copy: bool = False

    @property
    def date(self) -> int:
        return self.modified or self.at


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Page).decode


def decode_page(data: bytes) -> Page:
    """A page from the field `data`."""
    page: Page = _decode(data)
    return page


def build() -> Any:
    """The schema."""
    builder = tantivy.SchemaBuilder()
    for name in ("kind", "key", "url", "site", "host", "type", "lang"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in TEXTS:
        builder.add_text_field(name, tokenizer_name=SPACES, index_option="position")
        builder.add_unsigned_field(f"n_{name}", fast=True)
    builder.add_unsigned_field("digest", indexed=True, fast=True)
    for name in ("id", "sketch", "depth"):
        builder.add_unsigned_field(name, fast=True)
    builder.add_integer_field("date", fast=True, indexed=True)
    builder.add_float_field("zero", fast=True)
    builder.add_bytes_field("data", stored=True)
    return builder.build()


def key_of(identity: int) -> str:
    """An id as a term."""
    return f"{identity:016x}"


def register(index: Any) -> None:
    """Register the tokenizer that splits our terms at spaces."""
    index.register_tokenizer(SPACES, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


def sites_of(url: str, host: str) -> list[str]:
    """The values of `site:` that match a URL."""
    labels = host.split(".") if not host.startswith("[") and not host.replace(".", "").isdigit() else [host]
    names = [".".join(labels[start:]) for start in range(min(len(labels), 12))]
    start = url.find("/", url.find("://") + 3)
    path = url[start:].split("?", 1)[0] if start > 0 else "/"
    parts = path.split("/")[1:-1][:8]
    return names + [f"{host}/{'/'.join(parts[:end])}/" for end in range(1, len(parts) + 1)]


def types_of(media: str) -> list[str]:
    """The values of `type:` that match a media type."""
    return list(dict.fromkeys((media, type_name(media))))


def type_name(media: str) -> str:
    """The common name of a media type."""
    return _NAMES.get(media, media)


def address_terms(url: str) -> tuple[str, int]:
    """The words of a URL, without its scheme, and their number."""
    return counted_terms(url.partition("://")[2], "")


def texts_of(page: Page, language: str) -> dict[str, tuple[str, int]]:
    """The terms of each text field, and their number."""
    text = page.text
    if page.title and not text.startswith(page.title):
        text = f"{page.title}\n{text}"
    return {
        "title": counted_terms(page.title, language),
        "headings": counted_terms(page.headings, language),
        "body": counted_terms(text, language),
        "anchors": counted_terms("\n".join(page.anchors), language),
        "address": address_terms(page.url),
    }


def document(page: Page, default_language: str) -> Any:
    """The tantivy document of a page. A text of unknown language is stemmed as `default_language`."""
    made = tantivy.Document()
    made.add_text("kind", "copy" if page.copy else "page")
    made.add_unsigned("id", page.id)
    made.add_text("key", key_of(page.id))
    made.add_text("url", page.url)
    made.add_unsigned("digest", page.digest)
    made.add_bytes("data", _encode(page))
    if page.copy:
        return made
    for site in sites_of(page.url, page.host):
        made.add_text("site", site)
    made.add_text("host", page.host)
    for name in types_of(page.type):
        made.add_text("type", name)
    made.add_text("lang", page.language)
    for name, (terms, count) in texts_of(page, page.language or default_language).items():
        made.add_text(name, terms)
        made.add_unsigned(f"n_{name}", count)
    made.add_integer("date", page.date)
    made.add_unsigned("depth", page.depth)
    made.add_unsigned("sketch", page.sketch)
    made.add_float("zero", 0.0)
    return made


def marker(data: bytes) -> Any:
    """The document that says how far the log is indexed."""
    made = tantivy.Document()
    made.add_text("kind", "marker")
    for name in TEXTS:
        made.add_text(name, MARK)
    made.add_bytes("data", data)
    return made
