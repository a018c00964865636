"""Rendering: an extra step of a visit, for pages that scripts build.

The page is fetched as any other. If a browser should render it (`lycosa.render.options`, or `render` in
the table of its site), the browser is given what was fetched, and the requests of its scripts are made within
the same visit (`errands`). The rendered document is taken for the page: its links, title, text and digest.
The fetched response is archived as usual, and with it the exchanges of the scripts and the rendered document.

If a browser crashes, hangs or cannot start, nothing is lost: the page then has the links of the response, and its
record says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from lycosa.archive.writer import Part
from lycosa.clock import Clock
from lycosa.crawl.errands import Cache, Errands, StoppedError, answer_headers
from lycosa.errors import LocalError
from lycosa.fetch.protocol import Response
from lycosa.meters import Meters
from lycosa.page.protocol import Page
from lycosa.records import FIRST_REQUISITE, LinkKind, Links, Rendered
from lycosa.render.browser import Browser
from lycosa.render.needs import has_scripts, text_length
from lycosa.render.options import RenderOptions, wanted
from lycosa.render.page import Answer, Shown

if TYPE_CHECKING:
    from lycosa.crawl.visit import Stay, Visitor

_HTML = frozenset(("text/html", "application/xhtml+xml"))


class Rendition(NamedTuple):
    """The result of rendering a page in a browser."""

    record: Rendered
    html: bytes
    """Empty: there is none."""
    base: str
    moves: tuple[str, ...]
    """URLs to which the page's scripts navigated or wanted to."""
    parts: list[Part]


class Rendering:
    """Renders pages."""

    def __init__(
        self,
        options: RenderOptions,
        *,
        clock: Clock,
        meters: Meters,
        user_agent: str = "",
        told: Callable[[str], None] | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._browser = Browser(options, user_agent, told)
        self._cache = Cache(options.cache, options.cache_seconds, clock)
        self._pages = meters.counter("render.pages")
        self._requests = meters.counter("render.requests")
        self._failures = meters.counter("render.failures")
        meters.gauge("render.browsers", lambda: self._browser.started)

    async def close(self) -> None:
        """End the browser."""
        await self._browser.close()

    def wants(self, when: str, response: Response, page: Page, links: Links) -> bool:
        """Whether a parsed page with these links is to be rendered."""
        if (
            when == "never"
            or not 200 <= response.status < 300
            or page.type not in _HTML
            or response.truncated
        ):
            return False
        if not response.url.startswith(("http://", "https://")):
            return False
        others = sum(
            kind & 0x7F < FIRST_REQUISITE and kind & 0x7F != LinkKind.CANONICAL for kind in links.kinds
        )
        return wanted(
            when,
            response.url,
            has_scripts(response.decoded),
            others,
            text_length(response.decoded) if when == "auto" else 0,
        )

    async def render(self, visitor: Visitor, turn: Stay, when: str, response: Response) -> Rendition:
        """Render the page, answering the requests of its scripts."""
        began = self._clock.monotonic()
        errands = Errands(visitor, turn, self._options, self._cache, self._clock)
        first = Answer(response.status, answer_headers(response), response.decoded)
        try:
            shown = await self._browser.show(response.url, first, errands.ask)
        except LocalError as error:
            if not self._browser.started:
                raise  # no browser has ever started: the operator must know
            shown = Shown(problem=f"browser: {error}"[:300])
        finally:
            await errands.close()
        if errands.stopped:
            raise StoppedError
        html = shown.html.encode("utf-8", "replace")
        self._pages.add()
        self._requests.add(errands.answered)
        self._failures.add(bool(shown.problem))
        record = Rendered(
            why=when[:100],
            problem=shown.problem,
            length=len(html),
            requests=errands.answered,
            refused=errands.refused,
            millis=round((self._clock.monotonic() - began) * 1000),
        )
        moves = (shown.url, *shown.moves) if shown.url not in ("", response.url) else shown.moves
        return Rendition(record, html, shown.base, moves, errands.parts)
