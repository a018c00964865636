"""Whether a page needs its scripts: how much text it has without them. Decisions only, in one pass."""

from __future__ import annotations

from lycosa.render.options import LEAST_TEXT

_UNREAD = (b"script", b"style", b"noscript", b"template", b"title", b"svg")
"""Elements whose text nobody reads on a page as it was sent."""


def has_scripts(html: bytes) -> bool:
    """Whether a document has any script."""
    return b"<script" in html or b"<script" in html.lower()


def text_length(html: bytes, enough: int = LEAST_TEXT) -> int:
    """Characters (bytes that are not white space) outside of tags and unread elements; counted up to `enough`."""
    lowered = html.lower()
    count = at = 0
    while count < enough:
        start = lowered.find(b"<", at)
        count += sum(map(len, html[at : start if start >= 0 else len(html)][: 4 * enough].split()))
        if start < 0:
            break
        if lowered.startswith(b"<!--", start):
            end, step = lowered.find(b"-->", start + 4), 3
        else:
            name = next((name for name in _UNREAD if lowered.startswith(name, start + 1)), b"")
            end, step = lowered.find(b"</" + name if name else b">", start + 1), 0 if name else 1
        if end < 0:
            break
        at = end + step
    return min(count, enough)
