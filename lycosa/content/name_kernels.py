"""The names that indicate the purpose of a block: elements, and words of class, id and role.

Every element of a page has a set of *marks*, a 64-bit mask: one mark for its name (`nav`, `article`, `li`, ...),
and one for each group of words that its `class`, `id` or `role` holds. `side-bar`, `leftSidebar` and
`widget-area` all are marks of the group `side`. Words are runs of letters, cut where a capital follows a small
letter, in lower case.

Names and words are identified by their 64-bit FNV-1a hash. Another word with the same hash would set a wrong mark,
which is harmless: many real words mislead as well.

There is no kernel here, but tables that are compiled into kernels; the module is named as kernels are so that they
are compiled anew after an edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lycosa.content.fnv import fnv

INLINE = (
    "a abbr acronym b bdi bdo big blink cite code data del dfn em font i ins kbd label mark nobr q rp rt ruby s "
    "samp "
    "small span strike strong sub sup time tt u var wbr img picture source track map area slot"
)
"""Elements that do not end a block."""

VOID = "base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr area"
"""Elements without content."""

RAW = "script style textarea title xmp iframe noembed noframes"
"""Elements whose content is text up to their end tag, and no text of the page."""

LEFT_OUT = "svg math template select datalist canvas audio video object applet"
"""Elements that are left out with all that is in them, if they have an end tag. `noscript` is not one of them:
there are forums whose threads are nowhere else."""

MARKED = (
    "nav footer header aside main article section form table td th ul ol li dl dd pre blockquote figure figcaption "
    "button details h1 h2 h3 p fieldset noscript"
)
"""Elements whose name is a mark of its own, in the order of the bits; h4 to h6 are h3."""

OTHER = (
    "html head body div tr thead tbody tfoot caption dt h4 h5 h6 hr br center address summary legend option "
    "optgroup dialog menu hgroup search"
)

GROUPS: dict[str, str] = {
    "navigation": "nav navbar navigation menu submenu menus megamenu menubar dropdown topnav subnav mainnav "
    "hamburger "
    "breadcrumb breadcrumbs crumb crumbs sitemap offcanvas drawer tablist",
    "foot": "footer foot contentinfo colophon copyright legal bottom prefooter subfooter disclaimer",
    "head": "header head banner masthead topbar top logo branding brand toolbar",
    "side": "sidebar side aside complementary rail widget widgets secondary tertiary rightcol leftcol right left",
    "share": "share sharing shares social socials addthis sharedaddy facebook twitter pinterest whatsapp linkedin "
    "instagram follow icons icon",
    "related": "related recommend recommended recommendation recommendations similar more popular trending "
    "latest recent "
    "suggested suggestions upsell crosssell viewed readmore further youmay next prev previous also teaser teasers",
    "advert": "ad ads adv advert advertisement advertising adsbygoogle sponsor sponsored sponsors promo promotion "
    "promoted promos outbrain taboola dfp gpt affiliate partner partners offer offers",
    "overlay": "modal popup pop overlay lightbox cookie cookies consent gdpr onetrust notice alert dialog tooltip "
    "toast interstitial flyout alertdialog banner",
    "comments": "comment comments commentlist disqus respond reply replies discussion responses",
    "author": "author byline bio avatar authors writer profile contributor vcard by",
    "dated": "date time timestamp published updated meta postmeta info posted metadata datetime details",
    "content": "content contents article post entry body text main story page copy prose richtext rte wysiwyg "
    "articlebody blog single hentry markdown maincontent rich editorial",
    "section": "section sections container row wrapper wrap inner block module component col column columns",
    "product": "product products pdp sku woocommerce item price prices shop store pricing specs spec specification "
    "specifications variant variants swatch",
    "review": "review reviews rating ratings stars star testimonial testimonials score",
    "description": "description desc summary excerpt abstract intro lead lede dek subtitle overview details "
    "subhead deck",
    "thread": "forum thread topic message messages question answer answers posts bbp discourse phpbb cooked "
    "threads "
    "qa post reply userpost msg",
    "cards": "card cards grid list lists listing listings tile tiles feed archive results result items loop "
    "collection "
    "category catalog directory",
    "labels": "tag tags category categories label labels badge keyword keywords chip chips pill taxonomy",
    "filters": "filter filters facet facets refine sort sorting search searchbox searchform autocomplete toggle",
    "account": "login signin signup register account user cart basket checkout wishlist member password "
    "username auth",
    "pages": "pagination pager paging page-numbers paginate pagenav prevnext",
    "caption": "caption figure image img media gallery photo video slider slide carousel swiper slick thumbnail "
    "thumb "
    "credit picture player",
    "heading": "title heading headline h h1 h2 header hed subheading name",
    "contents": "toc tableofcontents outline anchor anchors jump toctree",
    "letter": "newsletter subscribe subscription email mailing mailchimp optin form forms field input subscriber",
    "unseen": "hidden hide sr only screen reader skip visually visuallyhidden invisible none offscreen print",
    "code": "code highlight syntax pre codehilite sourcecode docs doc documentation api reference",
    "service": "hero feature features benefits faq faqs accordion cta steps stats jumbotron panel tab tabs "
    "tabpanel",
    "button": "button btn link links more action actions tools control controls cta",
    "contact": "contact address phone location locations map hours store dealer",
}
"""Groups of words, in the order of the bits after those of `MARKED`."""

UNSEEN = "unseen"


def _table(entries: Iterable[tuple[str, int]], bits: int) -> tuple[Any, Any]:
    """Open addressing: hashes (0: free), and for each the bits or the number that belongs to it."""
    size = 1 << bits
    keys, values = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    for word, value in entries:
        key = fnv(word.encode())
        at = key & (size - 1)
        while keys[at] and keys[at] != key:
            at = (at + 1) % size
        keys[at] = key
        values[at] |= value
    return keys, values


TAGS = {
    name: number
    for number, name in enumerate(
        dict.fromkeys(f"? {MARKED} {OTHER} {RAW} {LEFT_OUT} {INLINE} {VOID}".split())
    )
}
"""Ids of elements; 0 for those that are not known."""
MARKS = [*MARKED.split(), *GROUPS]
assert len(MARKS) <= 63, len(MARKS)

TAG_BITS, WORD_BITS = 9, 12
TAG_KEYS, TAG_IDS = _table(TAGS.items(), TAG_BITS)
WORD_KEYS, WORD_MARKS = _table(
    (
        (word, 1 << MARKS.index(group))
        for group, words in GROUPS.items()
        for word in dict.fromkeys(words.replace("-", " ").split())
    ),
    WORD_BITS,
)

IS_INLINE, IS_VOID, IS_RAW, IS_LEFT_OUT = (np.zeros(len(TAGS), np.bool_) for _ in range(4))
for _names, _flags in ((INLINE, IS_INLINE), (VOID, IS_VOID), (RAW, IS_RAW), (LEFT_OUT, IS_LEFT_OUT)):
    for _name in _names.split():
        _flags[TAGS[_name]] = True
TAG_MARKS = np.zeros(len(TAGS), np.int64)
for _name in MARKED.split():
    TAG_MARKS[TAGS[_name]] = 1 << MARKS.index(_name)
for _name in ("h4", "h5", "h6"):
    TAG_MARKS[TAGS[_name]] = 1 << MARKS.index("h3")
