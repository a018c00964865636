"""Pages as a Python program receives them from a crawl, and the queue between the two."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from lycosa.crawl.harvest import Crop
from lycosa.records import Fetched, Link

if TYPE_CHECKING:
    from turbohtml import Document


ROOM = 100


class FetchedPage:
    """A page as the crawl has just fetched it."""

    def __init__(self, crop: Crop) -> None:
        self.record: Fetched = crop.record
        self.url = crop.record.url
        self.status = crop.record.status
        self.depth = crop.record.depth
        self.type = crop.record.type
        self.title = crop.record.title
        self.body = crop.response.decoded
        """The body, decoded."""
        self.head = crop.response.head
        """Status line and headers as sent."""
        self._crop = crop

    @property
    def links(self) -> list[Link]:
        """Its links, canonical, each URL once."""
        return list(self.record.links)

    @property
    def text(self) -> str:
        """The main text (read when asked for)."""
        from lycosa.content.documents import text_of

        return text_of(self.body, self.type, self.record.charset)

    @property
    def tree(self) -> Document:
        """The page as a tree (built when asked for): `page.tree.select("h1 a")`; see `lycosa.page.tree`."""
        from lycosa.page.tree import tree_of

        return tree_of(self.body, self.record.charset)

    def header(self, name: str) -> str | None:
        return self._crop.response.header(name)

    def __repr__(self) -> str:
        return f"<{self.status} {self.url}>"


class Pages:
    """The queue between a crawl and its consumer: in order, bounded, no page lost when its visit is cut short."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._rows: deque[FetchedPage] = deque()
        self._filled = asyncio.Event()
        self._writers: deque[asyncio.Future[None]] = deque()  # one for each page beyond the capacity
        self._closed = False
        self._dropping = False
        self.over = False
        """Whether the last page has been read, or none will be read any more."""
        self.read = False
        """Whether reading has begun."""

    def __len__(self) -> int:
        return len(self._rows)

    async def put(self, page: FetchedPage) -> None:
        """Add a page at once; return when there is room for it."""
        if self._dropping:
            return
        self._rows.append(page)
        self._filled.set()
        if len(self._rows) > self._room:
            turn = asyncio.get_running_loop().create_future()
            self._writers.append(turn)
            await turn

    async def get(self) -> FetchedPage | None:
        """The next page; None after the last."""
        self.read = True
        while not self._rows:
            if self._closed:
                self.over = True
                return None
            self._filled.clear()
            await self._filled.wait()
        page = self._rows.popleft()
        self._let_in(1)
        return page

    def drop(self) -> None:
        """Discard pages: nobody reads any more."""
        self._dropping = self.over = True
        self._rows.clear()
        self._let_in(len(self._writers))

    def close(self) -> None:
        """No more pages come."""
        self._closed = True
        self._filled.set()

    def _let_in(self, count: int) -> None:
        while count and self._writers:
            turn = self._writers.popleft()
            if not turn.done():  # a visit that was cut short no longer waits
                turn.set_result(None)
                count -= 1
