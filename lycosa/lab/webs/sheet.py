"""A sheet: everything odd about one host, as a table from path to answer and what to expect of it.

Ordinary pages are computed; oddities are few and each is special, so a host's sections list them in
one `Sheet`. A section is a function that takes a sheet and adds to it. `Place` is what it may
know about its surroundings.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.lab.webs.answers import Answer, Expected, Maker, Only, Request, html, leaf
from lycosa.lab.webs.options import WebOptions
from lycosa.lab.webs.plan import Host


class Place:
    """A host, as its sections see it."""

    def __init__(self, options: WebOptions, host: Host, origin: str, root: str) -> None:
        self.options = options
        self.host = host
        self.origin = origin
        """The URL of the host's site without a final slash."""
        self.root = root
        """The same of the root host."""


class Sheet:
    """The table of one host's oddities."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.makers: dict[str, Maker] = {}
        self.folders: list[tuple[str, Maker]] = []
        """For paths that cannot be listed: the maker for all paths with a prefix. Consulted after `makers`."""
        self.counted: set[str] = set()
        """Paths whose answer depends on how often they were asked for."""
        self.entries: list[str] = []
        """Hrefs for the home page, as they are to be written in the HTML."""
        self.expected: list[Expected] = []

    def put(
        self,
        path: str,
        answer: Answer | Maker | str,
        *,
        entry: bool = False,
        only: Only = Only.ALL,
        statuses: tuple[int, ...] | None = None,
        location: str = "",
        hops: int = 0,
        fails: int = 0,
        truncated: bool = False,
    ) -> None:
        """Add a path. `entry`: the home page links to it. A string is the body of an HTML page."""
        if isinstance(answer, str):
            answer = html(answer)
        if isinstance(answer, Answer):
            fixed = answer
            self.makers[path] = lambda request: fixed
            statuses = (answer.status,) if statuses is None else statuses
        else:
            self.makers[path] = answer
        if entry:
            self.entries.append(path.replace("&", "&amp;"))
        self.expected.append(
            Expected(
                url=self.place.origin + path,
                only=only,
                statuses=(200,) if statuses is None else statuses,
                location=location,
                hops=hops,
                fails=fails,
                truncated=truncated,
            )
        )

    def child(self, path: str, only: Only = Only.ALL, hops: int = 0, fails: int = 0) -> str:
        """A plain page that something else links to; returns its path."""
        title = path.strip("/").replace("/", " ").replace(".html", "").replace("&", " ")
        self.put(path, leaf(title), only=only, hops=hops, fails=fails)
        return path

    def unserved(self, url: str, only: Only) -> None:
        """A URL that is not served here, and how to judge requests for it."""
        self.expected.append(Expected(url=url, only=only, statuses=(404, 0)))

    def failing_first(
        self, path: str, times: int, failure: Answer | Callable[[Request], Answer], then: Answer
    ) -> Maker:
        """A maker that fails `times` times, by the count of earlier requests, and then answers."""
        self.counted.add(path)

        def make(request: Request) -> Answer:
            if request.attempt >= times:
                return then
            return failure if isinstance(failure, Answer) else failure(request)

        return make
