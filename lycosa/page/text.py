"""The main text of a page, for the search index and for sketches.

Of HTML: what a reader sees, as turbohtml lays it out, without the elements that hold no text of the page
(script, style, template) or that are on every page of a site (nav, footer, aside, menus, forms). If the
library's content scoring then finds an article that makes up at least half of what is left, that article
alone; where it would throw more away than it keeps it is wrong more often than right (front pages, lists,
forums), and all is kept.

Of XML: the text between tags. Of plain text: itself. Of anything else: nothing.

Text comes out as lines: spaces folded, no blank lines, no control characters. It starts with the title,
unless the text does so itself. Costs several times what the links cost, so it belongs into folds over the
archive and not on the way of a fetch.
"""

from __future__ import annotations

import re

from turbohtml import PlainText
from turbohtml import parse as parse_html

from lycosa.page.encodings import decode
from lycosa.page.protocol import LIMITS, Limits
from lycosa.page.references import in_text
from lycosa.page.sniff import HTML, PLAIN, XHTML, is_xml
from lycosa.page.xml import plain, root_of

_NOT_TEXT = (
    "script,style,template,noscript,iframe,object,svg,math,canvas,nav,footer,aside,menu,dialog,"
    "select,button,textarea,input,[hidden],[role=navigation],[role=banner],[role=contentinfo],"
    "[role=search],[role=menu],[role=complementary],[aria-hidden=true]"
)
_LAYOUT = PlainText(layout="strict", bullet="", table_cell_separator=" ")
_XML_TAG = re.compile(r"<[^<>]*+>")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


def text_of(body: bytes, media: str, charset: str, url: str = "", limits: Limits = LIMITS) -> str:
    """The main text of a body of that media type and charset, both as in its `Page`; never raises."""
    if media in (HTML, XHTML):
        return _html_text(decode(body[: limits.body], charset))
    if is_xml(media):
        text = plain(decode(body[: limits.body], charset))
        root = root_of(text)
        if root is not None and root[2].lower() == "html":
            return _html_text(text)
        # Feeds hold escaped markup: what is a tag after unescaping is no text either.
        return _lines(_XML_TAG.sub("\n", in_text(_XML_TAG.sub("\n", text))))
    if media == PLAIN:
        return _lines(decode(body[: limits.body], charset))
    return ""


def _html_text(markup: str) -> str:
    document = parse_html(markup, positions=False)
    found = document.find("title")
    title = " ".join(found.text.split()) if found is not None else ""
    document.remove(_NOT_TEXT)
    seen = _lines(document.to_text(_LAYOUT))
    article = document.main_content()
    if article is not None:
        main = _lines(article.to_text(_LAYOUT))
        if 2 * len(main) >= len(seen):
            seen = main
    if title and not seen.startswith(title):
        return f"{title}\n{seen}" if seen else title
    return seen


def _lines(text: str) -> str:
    folded = (" ".join(line.split()) for line in _CONTROL.sub(" ", text).splitlines())
    return "\n".join(line for line in folded if line)
