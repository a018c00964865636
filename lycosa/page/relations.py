"""The kinds of `link` elements by their rel; see `lycosa.page.html`."""

from __future__ import annotations

from lycosa.records import LinkKind

RELATIONS: dict[str, int | None] = {
    "stylesheet": LinkKind.STYLE,
    "icon": LinkKind.ICON,
    "apple-touch-icon": LinkKind.ICON,
    "apple-touch-icon-precomposed": LinkKind.ICON,
    "mask-icon": LinkKind.ICON,
    "fluid-icon": LinkKind.ICON,
    "manifest": LinkKind.MANIFEST,
    "canonical": LinkKind.CANONICAL,
    "sitemap": LinkKind.SITEMAP,
    "alternate": LinkKind.ALTERNATE,
    "amphtml": LinkKind.ALTERNATE,
    "dns-prefetch": None,
    "preconnect": None,
    "pingback": None,
}
"""The first of them that a rel names decides; None: it names no document."""
PRELOADS = frozenset(("preload", "modulepreload"))
"""Other rels whose kind is given by the attribute `as`."""
