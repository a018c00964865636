"""Crawling from Python.

    crawl = lycosa.Crawl(["https://example.org/"], into="crawls/example",
                         fetch={"user_agent": "mybot/1.0 (+https://example.org/bot)"},
                         limits={"pages": 1000})
    async for page in crawl:
        print(page.url, page.status, page.title)
        if enough:
            await crawl.stop()

Options are those of `crawl.toml`, as keywords; tables are dictionaries. Pages come in the order in which they were
logged; the crawl waits for a consumer that is slow. Without a loop over pages: `await crawl.start()`, then
`await crawl.wait()`. The same call with the same directory goes on where the last one stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from lycosa.crawl.agent import Agent, End, build
from lycosa.crawl.config import Options, read_options
from lycosa.crawl.harvest import Crop
from lycosa.crawl.status import Reporter, Status
from lycosa.errors import ConfigError
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.records import Fetched, Link

_QUEUE = 100


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
        from lycosa.page.text import text_of

        return text_of(self.body, self.type, self.record.charset, self.url)

    def header(self, name: str) -> str | None:
        return self._crop.response.header(name)

    def __repr__(self) -> str:
        return f"<{self.status} {self.url}>"


class Crawl:
    """A crawl in a directory of its own."""

    def __init__(
        self, seeds: Iterable[str] | str = (), *, into: str | Path, shards: int = 16, **options: Any
    ) -> None:
        self._seeds = [seeds] if isinstance(seeds, str) else list(seeds)
        self._into = Path(into)
        self._shards = shards
        self._options: Options = read_options(options)
        self._queue: asyncio.Queue[FetchedPage | None] | None = None
        self._task: asyncio.Task[End] | None = None
        self._agent: Agent | None = None
        self._lock: DirectoryLock | None = None
        self._reporter: Reporter | None = None

    async def start(self, *, pages: bool = False, told: Callable[[str], None] | None = None) -> None:
        """Open the crawl and begin; with `pages`, somebody will iterate over it.

        Opening a crawl that was killed replays the end of its log; `told` hears of it.
        """
        if self._task is not None:
            raise ConfigError("this crawl has been started; make a new Crawl to go on with it")
        self._lock = DirectoryLock(self._into)
        try:
            self._queue = asyncio.Queue(_QUEUE) if pages else None
            self._agent = build(
                DiskFiles(self._into),
                self._options,
                self._seeds,
                shards=self._shards,
                on_crop=self._offer if pages else None,
                told=told,
            )
            self._reporter = Reporter(self._agent, self._into)
            self._task = asyncio.create_task(self._run(self._agent))
        except BaseException:
            self._lock.release()
            raise

    async def _run(self, agent: Agent) -> End:
        writer = asyncio.create_task(self._write_status())
        state = "failed"
        try:
            end = await agent.run()
            state = str(end)
            return end
        finally:
            assert self._lock is not None and self._reporter is not None
            writer.cancel()
            with suppress(OSError):
                self._reporter.write(self._reporter.status(state))
            self._lock.release()
            if self._queue is not None:
                await self._queue.put(None)

    async def _write_status(self) -> None:
        assert self._reporter is not None
        while True:
            with suppress(OSError):  # a full disk is told by the commit, which matters more
                self._reporter.write(self._reporter.status())
            await asyncio.sleep(1.0)

    async def _offer(self, crop: Crop) -> None:
        assert self._queue is not None
        await self._queue.put(FetchedPage(crop))

    async def wait(self) -> End:
        """Until the crawl ends; why it did."""
        if self._task is None:
            await self.start()
        assert self._task is not None
        return await self._task

    def pause(self) -> None:
        """Start no more visits; those under way finish."""
        self._opened().pause()

    def resume(self) -> None:
        self._opened().go_on()

    def stop_soon(self) -> bool:
        """Ask for a clean end without waiting for it; True if it was not asked before."""
        return self._opened().stop()

    def status(self) -> Status:
        """How the crawl goes, for people."""
        if self._reporter is None:
            raise ConfigError("the crawl has not been started")
        return self._reporter.status()

    async def stop(self) -> End:
        """End cleanly; the next crawl in this directory goes on from here."""
        self._opened().stop()
        assert self._task is not None
        while self._queue is not None and not self._task.done():
            # A visit may be waiting for room in the queue; what nobody reads any more is dropped.
            while not self._queue.empty():
                self._queue.get_nowait()
            await asyncio.wait((self._task,), timeout=0.05)
        if self._queue is not None:
            self._queue.put_nowait(None)
        return await self._task

    def stats(self) -> dict[str, float]:
        """Every meter of the crawl, by name."""
        return self._opened().meters.read()

    def _opened(self) -> Agent:
        if self._agent is None:
            raise ConfigError("the crawl has not been started")
        return self._agent

    async def __aiter__(self) -> AsyncIterator[FetchedPage]:
        if self._task is None:
            await self.start(pages=True)
        if self._queue is None:
            raise ConfigError("iterate over the crawl from the start, or start(pages=True)")
        while (page := await self._queue.get()) is not None:
            yield page
        assert self._task is not None
        await self._task

    async def __aenter__(self) -> Crawl:
        if self._task is None:
            await self.start(pages=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None and not self._task.done():
            await self.stop()
