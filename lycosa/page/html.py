"""Links of HTML and XHTML, with their texts, and the declarations in the head.

One parse by turbohtml (WHATWG tree construction, native), then one pass in document order over the elements
that can hold a link; no other element becomes a Python object.

    element                            attribute                kind
    a (SVG's too)                      href                     ANCHOR
    area                               href                     AREA
    frame, iframe                      src                      FRAME
    meta http-equiv=refresh            content                  REFRESH
    form; button, input                action; formaction       FORM
    blockquote, q, ins, del            cite                     RELATED
    img, input type=image              src, srcset              IMAGE
    SVG image, use, feImage            href                     IMAGE
    source                             src; srcset              MEDIA; IMAGE
    audio, video, track                src                      MEDIA
    video; body                        poster; background       IMAGE
    script                             src (SVG: href)          SCRIPT
    embed, object                      src; data                OBJECT
    style                              its text                 STYLE for imports, else IMAGE
    link rel=
      stylesheet                                                STYLE
      icon, apple-touch-icon, …                                 ICON
      manifest                                                  MANIFEST
      canonical                                                 CANONICAL
      sitemap                                                   SITEMAP
      alternate of a feed type                                  FEED
      alternate, amphtml                                        ALTERNATE
      preload, modulepreload                                    what its `as` says; else OBJECT
      dns-prefetch, preconnect, pingback                        none: they name no document
      anything else                                             RELATED

Choices that the standard leaves to us:

- Lazy images: where src is missing or a data: URL, data-src and data-srcset stand in for src and srcset.
- NOFOLLOW is set by the token `nofollow` of an element's own rel. `ugc` and `sponsored` say who wrote a link,
  not that it must not be followed, and set nothing.
- The text of an anchor is its text; without any, its title, or the alternative text of its first image.
- Content of noscript, of template and of noframes counts: all hold what some reader is shown. That of noframes is
  text to the parser; it is parsed by itself, and what is noframes in it is not.
- The robots column takes a meta element named `robots`, and any other whose content starts with a robots
  directive: that is how pages speak to one agent, and only the crawl knows its own name.
- XHTML is read by the HTML parser too, after its empty-element tags have been written out: in XHTML
  `<script src="…"/>` is complete, and HTML would take the rest of the page for a script.

Cost: turbohtml bounds the depth of its tree, so that the texts of nested anchors add up to a multiple of
the page at most; above 1 MiB even that is avoided, and only an anchor's own text nodes are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from turbohtml import Element, Namespace, Text
from turbohtml import parse as parse_html

from lycosa.page.collect import WHITE, Collected, fold
from lycosa.page.css import collect_sheet
from lycosa.page.encodings import decode
from lycosa.page.protocol import LIMITS, Limits, Page
from lycosa.page.relations import PRELOADS, RELATIONS
from lycosa.page.sniff import XHTML
from lycosa.records import NOFOLLOW, LinkKind

ANCHOR = int(LinkKind.ANCHOR)
AREA = int(LinkKind.AREA)
FRAME = int(LinkKind.FRAME)
REFRESH = int(LinkKind.REFRESH)
CANONICAL = int(LinkKind.CANONICAL)
ALTERNATE = int(LinkKind.ALTERNATE)
SITEMAP = int(LinkKind.SITEMAP)
FEED = int(LinkKind.FEED)
FORM = int(LinkKind.FORM)
RELATED = int(LinkKind.RELATED)
IMAGE = int(LinkKind.IMAGE)
SCRIPT = int(LinkKind.SCRIPT)
STYLE = int(LinkKind.STYLE)
MEDIA = int(LinkKind.MEDIA)
OBJECT = int(LinkKind.OBJECT)
ICON = int(LinkKind.ICON)
MANIFEST = int(LinkKind.MANIFEST)

_LARGE = 1 << 20
"""Characters from which on the text of an anchor is read from its own children only."""

_AS = {
    "script": SCRIPT,
    "worker": SCRIPT,
    "style": STYLE,
    "image": IMAGE,
    "audio": MEDIA,
    "video": MEDIA,
    "track": MEDIA,
    "document": FRAME,
}
_FEED_TYPES = re.compile(
    r"\s*(?:application/(?:rss|atom|rdf)\+xml|application/feed\+json|text/(?:rss|atom)?\+?xml\s*$)",
    re.IGNORECASE,
)
_REFRESH = re.compile(
    r"""[\t\n\f\r ]*(?:[0-9]++[0-9.]*+|\.[0-9.]*+)(?=[;,\t\n\f\r ])[\t\n\f\r ]*[;,]?[\t\n\f\r ]*"""
    r"""(?:url[\t\n\f\r ]*=[\t\n\f\r ]*)?(?:"([^"]*)"?|'([^']*)'?|(.*))""",
    re.IGNORECASE | re.DOTALL,
)
_DIRECTIVE = re.compile(
    r"[\s,]*(?:all|none|(?:no)?(?:index|follow|archive|snippet|imageindex|cache|odp|ydir|translate)"
    r"|indexifembedded)\s*+(?:,|;|$)|[\s,]*(?:max-(?:snippet|image-preview|video-preview)|unavailable_after)\s*+:",
    re.IGNORECASE,
)
_EMPTY_TAG = re.compile(
    r"""<((?:[a-z]+:)?(?:a|script|style|title|iframe|textarea|noscript|noframes|object|video|audio|div|p"""
    r"""|span|td|li|form|select|button))((?:[\t\n\f\r ](?:[^<>"'/]|/(?!>)|"[^"<]*+"|'[^'<]*+')*+)?)/>""",
    re.IGNORECASE,
)
_CANDIDATE = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")


def candidates(srcset: str) -> Iterator[str]:
    """The URLs of a srcset attribute (HTML §4.8.4.2.1; its widths and densities are skipped)."""
    at = 0
    while True:
        found = _CANDIDATE.match(srcset, at)
        if found is None:
            return
        url = found[1]
        at = found.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            comma = srcset.find(",", at)
            at = len(srcset) if comma < 0 else comma + 1
        if url:
            yield url


def refresh_target(content: str) -> str:
    """The URL of a meta refresh; empty if it only reloads (HTML §4.2.5.3)."""
    found = _REFRESH.match(content)
    if found is None:
        return ""
    return (found[1] or found[2] or found[3] or "").strip(WHITE)


def _nofollow(element: Element) -> int:
    rel = element.attr("rel")
    return NOFOLLOW if rel is not None and "nofollow" in rel.lower().split() else 0


def _anchor_text(element: Element, limits: Limits, large: bool) -> str:
    if large:
        # Children are read once each over the whole page, descendants once per anchor around them.
        return fold(_own_text(element), limits.text)
    text = fold(element.text, limits.text)
    if text:
        return text
    text = fold(element.attr("title") or "", limits.text)
    if text:
        return text
    image = element.find("img")
    return fold(image.attr("alt") or "", limits.text) if image is not None else ""


def _area(element: Element, into: Collected) -> None:
    alt = element.attr("alt")
    href = element.attr("href")
    into.add(
        "#" if href is not None and not href.strip(WHITE) and into.base else href,
        AREA | _nofollow(element),
        fold(alt, into.limits.text) if alt else "",
    )


def link_of(element: Element) -> tuple[str, int, str] | None:
    """The link of a `link` element: href, kind, text."""
    href = element.attr("href")
    if not href:
        return None
    relations = (element.attr("rel") or "").lower().split()
    kind: int | None = RELATED
    for name, its in RELATIONS.items():
        if name in relations:
            kind = its
            break
    else:
        if not PRELOADS.isdisjoint(relations):
            default = "script" if "modulepreload" in relations else ""
            kind = _AS.get((element.attr("as") or default).strip().lower(), OBJECT)
    if kind is None:
        return None
    text = ""
    if kind in (ALTERNATE, RELATED):
        if kind == ALTERNATE and _FEED_TYPES.match(element.attr("type") or ""):
            kind = FEED
        text = element.attr("title") or ""
    return href, kind | NOFOLLOW if "nofollow" in relations else kind, text


def add_link(said: tuple[str, int, str] | None, into: Collected) -> None:
    """Add the link of a `link` element."""
    if said is None:
        return
    href, kind, text = said
    if kind & ~NOFOLLOW == CANONICAL and not into.canonical and len(href) <= into.limits.href:
        into.canonical = href.strip(WHITE)
    into.add(href, kind, fold(text, into.limits.text) if text else "")


def _link(element: Element, into: Collected) -> None:
    add_link(link_of(element), into)


def _base(element: Element, into: Collected) -> None:
    href = element.attr("href")
    if href is not None and not into.base and len(href) <= into.limits.href:
        into.base = href.strip(WHITE)


def meta_of(element: Element) -> tuple[str | None, str] | None:
    """The content of a meta element: (name, directives for robots), or (None, target of a refresh)."""
    content = element.attr("content")
    if not content:
        return None
    name = element.attr("name")
    if name is not None:
        name = name.strip(WHITE).lower()
        return (name[:100], content[:1000]) if name == "robots" or _DIRECTIVE.match(content) else None
    pragma = element.attr("http-equiv")
    if pragma is not None and pragma.strip(WHITE).lower() == "refresh":
        return None, refresh_target(content)
    return None


def add_meta(said: tuple[str | None, str] | None, into: Collected) -> None:
    """Add the content of a meta element."""
    if said is None:
        return
    name, content = said
    if name is None:
        into.add(content, REFRESH)
    elif len(into.robots) < 100:
        into.robots.append((name, content))


def _meta(element: Element, into: Collected) -> None:
    add_meta(meta_of(element), into)


def _title(element: Element, into: Collected) -> None:
    if not into.title and element.namespace is Namespace.HTML:
        into.title = fold(element.text, into.limits.title)


def _frame(element: Element, into: Collected) -> None:
    into.add(element.attr("src") or element.attr("data-src"), FRAME)


def _image(element: Element, into: Collected) -> None:
    src = element.attr("src")
    lazy = src is None or src[:5].lower() == "data:"
    alt = element.attr("alt")
    text = fold(alt, into.limits.text) if alt else ""
    if not lazy:
        into.add(src, IMAGE, text)
    else:
        into.add(element.attr("data-src"), IMAGE, text)
    srcset = element.attr("srcset") or (element.attr("data-srcset") if lazy else None)
    if srcset:
        for url in candidates(srcset):
            into.add(url, IMAGE, text)


def _source(element: Element, into: Collected) -> None:
    into.add(element.attr("src"), MEDIA)
    srcset = element.attr("srcset") or element.attr("data-srcset")
    if srcset:
        for url in candidates(srcset):
            into.add(url, IMAGE)


def _media(element: Element, into: Collected) -> None:
    into.add(element.attr("src"), MEDIA)
    into.add(element.attr("poster"), IMAGE)


def _script(element: Element, into: Collected) -> None:
    into.add(element.attr("src"), SCRIPT)
    if element.namespace is Namespace.SVG:
        into.add(_foreign(element), SCRIPT)


def _foreign(element: Element) -> str | None:
    """The href of an SVG element, which may be XLink's."""
    href = element.attr("href")
    return element.attr("xlink:href") if href is None else href


def _svg_image(element: Element, into: Collected) -> None:
    into.add(_foreign(element), IMAGE)


def _input(element: Element, into: Collected) -> None:
    into.add(element.attr("formaction"), FORM)
    src = element.attr("src")
    if src and (element.attr("type") or "").strip(WHITE).lower() == "image":
        into.add(src, IMAGE)


def _own_text(element: Element) -> str:
    """The text of an element without that of its child elements: over a page, every text is read once."""
    return " ".join(child.data for child in element.children if type(child) is Text)


def _style(element: Element, into: Collected) -> None:
    collect_sheet(_own_text(element), into)  # SVG's may hold elements, and other styles


def _attribute(name: str, kind: int) -> Callable[[Element, Collected], None]:
    """A handler for elements with one link in one attribute."""

    def handle(element: Element, into: Collected) -> None:
        into.add(element.attr(name), kind)

    return handle


def _form(element: Element, into: Collected) -> None:
    into.add(element.attr("action"), FORM | _nofollow(element))


HANDLERS: dict[str, Callable[[Element, Collected], None]] = {
    "area": _area,
    "link": _link,
    "base": _base,
    "meta": _meta,
    "title": _title,
    "frame": _frame,
    "iframe": _frame,
    "img": _image,
    "image": _svg_image,
    "use": _svg_image,
    "feImage": _svg_image,
    "source": _source,
    "audio": _media,
    "video": _media,
    "track": _attribute("src", MEDIA),
    "script": _script,
    "style": _style,
    "embed": _attribute("src", OBJECT),
    "object": _attribute("data", OBJECT),
    "form": _form,
    "input": _input,
    "button": _attribute("formaction", FORM),
    "blockquote": _attribute("cite", RELATED),
    "q": _attribute("cite", RELATED),
    "ins": _attribute("cite", RELATED),
    "del": _attribute("cite", RELATED),
    "body": _attribute("background", IMAGE),
}
_TAGS = ("a", *HANDLERS)
_ALL_TAGS = ("noframes", *_TAGS)


class HtmlParser:
    """Reads text/html and application/xhtml+xml."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits

    def parse(self, body: bytes, url: str, media: str, charset: str) -> Page:
        """What the page says."""
        limits = self._limits
        cut = len(body) > limits.body
        text = decode(body[: limits.body] if cut else body, charset)
        if media == XHTML:
            text = _EMPTY_TAG.sub(r"<\1\2></\1>", text)
        document = parse_html(text, positions=False)
        into = Collected(limits, limits.links)
        once: dict[str, int] | None = None if limits.repeats else {}  # target of an anchor -> its row
        large = len(text) > _LARGE
        frameless = self._collect(document.iter_elements(_ALL_TAGS), into, once, large)
        if frameless:
            inner = parse_html("".join(frameless), positions=False)
            self._collect(inner.iter_elements(_TAGS), into, once, large)
        root = document.root
        language = root.attr("lang") if root is not None else None
        return into.page(media, charset, language.strip(WHITE)[:35] if language else "", cut)

    def _collect(
        self, elements: Iterable[Element], into: Collected, once: dict[str, int] | None, large: bool
    ) -> list[str]:
        """Add the links of elements; the contents of noframes among them."""
        limits = self._limits
        hrefs, kinds, texts = into.hrefs, into.kinds, into.texts
        wants = into.wants
        frameless: list[str] = []
        for element in elements:
            tag = element.tag
            if tag != "a":
                if tag == "noframes":
                    frameless.append(_own_text(element))
                else:
                    HANDLERS[tag](element, into)
                continue
            # Nine of ten links are anchors: their handler is inlined here.
            href = element.attr("href")
            if href is None:
                href = element.attr("xlink:href")
                if href is None:
                    continue
            href = href.strip(WHITE)
            if not href and into.base:
                href = "#"  # the base itself
            if once is not None:
                mark = href.find("#")
                if mark > 0 and href[mark - 1] > " ":  # a space before the fragment is part of the URL
                    href = href[:mark]
                row = once.get(href)
                if row is not None and texts[row] and not kinds[row] & NOFOLLOW:
                    continue
            if not wants(href):
                continue
            if once is not None:
                once[href] = len(hrefs)
            rel = element.attr("rel")
            hrefs.append(href)
            kinds.append(NOFOLLOW if rel is not None and "nofollow" in rel.lower().split() else ANCHOR)
            texts.append(_anchor_text(element, limits, large))
        return frameless
