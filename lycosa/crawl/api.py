"""Crawling from Python.

    crawl = lycosa.Crawl(["https://example.org/"], into="crawls/example",
                         fetch={"user_agent": "mybot/1.0 (+https://example.org/bot)"},
                         limits={"pages": 1000})
    async for page in crawl:
        print(page.url, page.status, page.title)
        if enough:
            await crawl.stop()

Options are those of `crawl.toml`, as keywords; tables are dictionaries. Pages come in the order in which they were
logged, each once; the crawl waits for a slow consumer, so that at most `pages.ROOM` pages, and one per
visit, wait for it. `stop` drops those; nothing else does. Without a loop over pages: `await crawl.start()`, then
`await crawl.wait()`. The same call with the same directory continues where the last one stopped.

A loop over pages that started the crawl ends it cleanly when the loop is left, also by `break` or an exception: at
once with `async with crawl`, which waits for the end; otherwise when the interpreter drops the loop, and at the
latest before the event loop closes. A crawl that still runs when its event loop is shut down ends cleanly as well.

A program without an event loop of its own calls `run`, which returns at the end; it may also be called where a loop
is running, as in a notebook. A function of the program's is called with each page; if it fails at a
page, the failure is noted (`failed`, `failures`) and the crawl continues.

A directory with other content is refused: a crawl has many files, and must not scatter them in a home directory.
What the operator must change (a seed that is no URL, a cookie file that does not exist) is reported before
anything is written.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Unpack

from lycosa import options as options_of
from lycosa.clock import SystemClock
from lycosa.crawl import descriptors
from lycosa.crawl import manifest as manifests
from lycosa.crawl.acts import Act
from lycosa.crawl.agent import End, build
from lycosa.crawl.config import Options, canonical_seeds, read_options
from lycosa.crawl.harvest import Crop
from lycosa.crawl.keywords import CrawlKeywords, SplitterKeywords
from lycosa.crawl.pages import FetchedPage, Pages
from lycosa.crawl.ranking import make_order
from lycosa.crawl.sessions import demand_secrets
from lycosa.crawl.splitting import SplitterOptions
from lycosa.crawl.status import Status, StatusFiles, note_failure, reason_of
from lycosa.crawl.steady import SteadyTask
from lycosa.crawl.steering import LOOK, ActFiles, Answer
from lycosa.crawl.underway import Underway
from lycosa.crawl.warming import warm
from lycosa.crawl.watchdog import Watchdog
from lycosa.errors import ConfigError, LycosaError
from lycosa.fetch.guard import AddressGuard
from lycosa.fetch.registry import FetchContext, Fetchers
from lycosa.files import DirectoryLock, DiskFiles
from lycosa.frontier import Scorer, load_scorer
from lycosa.meters import Meters
from lycosa.url.rules import Rules

OnPage = Callable[[FetchedPage], Any]
_FAILURES = 100
"""Failures of the page function that are kept; all are counted."""
_BESIDES = frozenset(
    (
        "lock",
        manifests.SUFFIXES,
        manifests.SUFFIXES + ".part",
        manifests.NAME + ".part",
        "crawl.toml",
        "lost+found",
        ".DS_Store",
    )
)
"""Files that a directory may hold before a crawl begins in it: those that an interrupted start leaves, the crawl's
own options, and those that systems put into any directory or fresh volume."""


class Running(Protocol):
    """An open crawl: one agent in this process, or several in processes of their own."""

    async def run(self) -> End:
        """Crawl until the end."""
        ...

    def stop(self) -> bool:
        """End the run cleanly; False if already requested."""
        ...

    def pause(self) -> None: ...
    def go_on(self) -> None: ...
    async def act(self, act: Act) -> str | None:
        """Carry out an operator's act, durably; see `Agent.act`."""
        ...

    def read_meters(self) -> dict[str, float]: ...
    def status(self, state: str = "running") -> Status: ...
    @property
    def refused_seeds(self) -> list[tuple[str, str]]: ...
    @property
    def underway(self) -> Underway | None:
        """The pages that are being read in this process; None if other processes read."""
        ...


class Crawl:
    """A crawl in a directory of its own."""

    def __init__(
        self,
        seeds: Iterable[str] | str = (),
        *,
        into: str | Path,
        shards: int | None = None,
        splitter: SplitterOptions | SplitterKeywords | None = None,
        **options: Unpack[CrawlKeywords],
    ) -> None:
        if splitter is not None and not isinstance(splitter, SplitterOptions):
            splitter = options_of.read(SplitterOptions, {**splitter}, "splitter")
        self._splitter = splitter
        self._seeds = [seeds] if isinstance(seeds, str) else list(seeds)
        self._into = Path(into)
        self._shards = shards
        self._options: Options = read_options({**options})
        self._pages: Pages | None = None
        self._task: asyncio.Task[End] | None = None
        self._agent: Running | None = None
        self._lock: DirectoryLock | None = None
        self._statuses = StatusFiles(self._into)
        self._state = "running"
        self._watchdog: Watchdog | None = None
        self._scorer: Scorer | None = None
        self.failed = 0
        """For how many pages the function of `run` failed."""
        self.failures: list[tuple[str, Exception]] = []
        """The URLs and errors of the first failures."""

    def run(self, on_page: OnPage | None = None) -> End:
        """Crawl to the end and return the reason; for programs that are not asynchronous, and for notebooks.

        `on_page` is called with each page once, in order, one at a time and in a thread of its own; it may be a
        coroutine function. If it raises, that is counted and the crawl continues. If an event loop runs in this
        thread, the crawl gets one of its own in another thread, and this one waits for it.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_with(on_page))
        return _in_a_thread(self._run_with(on_page))

    async def _run_with(self, on_page: OnPage | None) -> End:
        if on_page is None:
            return await self.wait()
        async for page in self:
            try:
                if inspect.iscoroutinefunction(on_page):
                    await on_page(page)
                else:
                    await asyncio.to_thread(on_page, page)
            except Exception as error:
                if not self.failed:
                    logging.getLogger("lycosa").exception("the function on pages failed at %s", page.url)
                self.failed += 1
                if len(self.failures) < _FAILURES:
                    self.failures.append((page.url, error))
        assert self._task is not None
        return self._task.result()

    async def start(self, *, pages: bool = False, told: Callable[[str], None] | None = None) -> None:
        """Open the crawl and begin; with `pages`, the caller will iterate over it.

        Opening a crawl that was killed replays the end of its log; `told` is called with messages about it.
        """
        if self._task is not None:
            raise ConfigError("this crawl has been started; make a new Crawl to go on with it")
        descriptors.raise_limit()
        demand_room(self._into)
        await self._check()
        try:
            self._lock = await DirectoryLock.waited(self._into)
            await asyncio.to_thread(warm, self._options)  # it may take a while: errors were reported before
            self._pages = Pages() if pages else None
            self._agent = await self._open(self._lock, told)
            self._task = SteadyTask(self._run(self._agent), self._end)
        except BaseException as error:
            note_failure(self._into, error)
            if self._lock is not None:
                self._lock.release()
            raise

    def _end(self) -> None:
        """Request a clean end; pages are no longer read."""
        assert self._agent is not None
        self._agent.stop()
        if self._pages is not None:
            self._pages.drop()  # a visit may be waiting for room

    async def _open(self, lock: DirectoryLock, told: Callable[[str], None] | None) -> Running:
        """Open the crawl, whose directory is locked by this process."""
        return build(
            DiskFiles(self._into),
            self._options,
            self._seeds,
            shards=self._shards,
            splitter=self._splitter,
            on_crop=None if self._pages is None else self._offer,
            told=told,
            scorer=self._scorer,
        )

    async def _check(self) -> None:
        """Find the operator's mistakes now, before the crawl has a directory."""
        manifests.demand_shards(self._shards, self._splitter)
        if self._options.frontier.scorer:
            self._scorer = load_scorer(self._options.frontier.scorer)
        make_order(self._options.frontier, 0, self._scorer)
        demand_secrets(self._options.site)
        seeds = canonical_seeds(self._seeds, Rules.named(self._options.rules))
        guard = AddressGuard(self._options.allow, self._options.only_networks)
        fetchers = Fetchers(FetchContext(self._options.fetch, SystemClock(), Meters(), guard))
        try:
            for scheme in dict.fromkeys(seed.partition(":")[0] for seed in seeds or ["http:"]):
                fetchers.for_scheme(scheme)
        except LycosaError:
            raise
        except Exception as error:  # libcurl's, and those of fetchers from other packages
            raise ConfigError(f"the options of fetch cannot be used: {error}") from error
        finally:
            await fetchers.close()

    def watch(self) -> None:
        """Start a `Watchdog` over this process, which must belong to a command and have its signal handlers set."""
        if self._agent is not None and self._agent.underway is not None:
            self._watchdog = Watchdog(self._agent.underway)
            self._watchdog.start(interrupts=True)

    async def _run(self, agent: Running) -> End:
        writer = asyncio.create_task(self._write_status(agent))
        files, began = ActFiles(self._into), time.time()
        files.sweep(began)
        await self._take_acts(agent, files, began)  # the waiting ones: the run may have nothing else to do
        acting = asyncio.create_task(self._keep_acting(agent, files, began))
        reason = ""
        try:
            end = await agent.run()
            self._state = str(end)
            return end
        except BaseException as error:
            self._state, reason = "failed", reason_of(error)
            raise
        finally:
            assert self._lock is not None
            writer.cancel()
            acting.cancel()
            await asyncio.wait((acting,))
            if self._watchdog is not None:
                self._watchdog.stop()
            last = agent.status(self._state)
            last.reason = reason
            with suppress(OSError):
                self._statuses.write(last)
            self._lock.release()
            if self._pages is not None:
                self._pages.close()

    async def _write_status(self, agent: Running) -> None:
        while True:
            with suppress(OSError):  # a full disk is reported by the commit, which matters more
                self._statuses.write(agent.status())
            await asyncio.sleep(1.0)

    async def _keep_acting(self, agent: Running, files: ActFiles, began: float) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self._take_acts(agent, files, began)

    async def _take_acts(self, agent: Running, files: ActFiles, began: float) -> None:
        """Carry out the acts that operators left in the directory; see `steering`."""
        for act in files.waiting():
            answer = await self._done(agent, act, began)
            if answer is None:
                break
            with suppress(LycosaError, OSError):  # else the act is found again, and recognised
                self._statuses.write(agent.status())  # a reader of the answer looks at it at once
                files.answer(act, answer)

    async def _done(self, agent: Running, act: Act | str, began: float) -> Answer | None:
        """Carry out an act; None if it is for the next run."""
        if isinstance(act, str):
            return Answer(False, f"{act} is no act that this version of lycosa knows")
        if act.what == "stop" and act.at < began * 1000:
            return Answer(True, "the run that was to stop had ended")
        try:
            said = await agent.act(act)
        except ConfigError as error:
            return Answer(False, str(error))
        except Exception:  # of the disk, or of an engine that is closing: the run will report it
            return None
        return None if said is None else Answer(True, said)

    async def _offer(self, crop: Crop) -> None:
        assert self._pages is not None
        await self._pages.put(FetchedPage(crop))

    async def wait(self) -> End:
        """Wait for the end of the crawl; returns the reason. If no loop over pages has begun, pages are dropped."""
        if self._task is None:
            await self.start()
        assert self._task is not None
        if self._pages is not None and not self._pages.read:
            self._pages.drop()
        return await asyncio.shield(self._task)

    def pause(self) -> None:
        """Start no more visits; those under way finish."""
        self._opened().pause()

    def resume(self) -> None:
        self._opened().go_on()

    def stop_soon(self) -> bool:
        """Request a clean end without waiting for it; False if already requested."""
        return self._opened().stop()

    def status(self) -> Status:
        """The present state of the crawl, for people."""
        return self._opened().status(self._state)

    async def stop(self) -> End:
        """End cleanly; the next crawl in this directory continues from here. A loop over pages ends, too."""
        self._opened()
        self._end()
        assert self._task is not None
        return await asyncio.shield(self._task)

    @property
    def options(self) -> Options:
        """The options of the crawl."""
        return self._options

    @property
    def refused_seeds(self) -> list[tuple[str, str]]:
        """Seeds that the scope excludes, each with the rule that does."""
        return self._opened().refused_seeds

    def stats(self) -> dict[str, float]:
        """Every meter of the crawl, by name."""
        return self._opened().read_meters()

    def _opened(self) -> Running:
        if self._agent is None:
            raise ConfigError("the crawl has not been started")
        return self._agent

    async def __aiter__(self) -> AsyncGenerator[FetchedPage, None]:
        began = self._task is None
        if began:
            await self.start(pages=True)
        if self._pages is None:
            raise ConfigError("iterate over the crawl from the start, or start(pages=True)")
        if self._pages.over:
            raise ConfigError(
                f"the pages of this crawl have been read: lycosa.open({str(self._into)!r}) reads them again, "
                "and a new Crawl into the directory goes on with what is left"
            )
        assert self._task is not None
        try:
            while (page := await self._pages.get()) is not None:
                yield page
        except BaseException:  # the loop was left: its generator is closed
            if began and not self._task.done():
                await self.stop()
            raise
        await asyncio.shield(self._task)

    async def __aenter__(self) -> Crawl:
        if self._task is None:
            await self.start(pages=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        if not self._task.done():
            await self.stop()
        elif error is None:
            self._task.result()  # a failure that no loop over pages has received
        elif not self._task.cancelled():
            self._task.exception()  # marked as retrieved: the exception of the body propagates


def demand_room(into: Path) -> None:
    """Refuse a directory with other content: a crawl has a directory of its own."""
    try:
        names = {path.name for path in into.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot crawl into {into}: {error.strerror}") from None
    found = manifests.load(DiskFiles(into)) if manifests.NAME in names else None
    if found is not None and found.cluster:
        raise ConfigError(
            f"{into} is a copy of a cluster's crawl and cannot be continued here: start that crawl again"
            f" (lycosa cluster start), or choose a new directory"
        )
    others = sorted(names - _BESIDES)
    if manifests.NAME not in names and others:
        raise ConfigError(
            f"{into} holds something else ({', '.join(others[:3])}{', ...' if others[3:] else ''}) "
            f"and no crawl: choose a new or empty directory"
        )


def _in_a_thread(work: Coroutine[Any, Any, End]) -> End:
    """Run it in an event loop and a thread of its own; Ctrl-C ends it cleanly."""
    ends: list[End] = []
    errors: list[BaseException] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[End]]] = []

    async def run() -> End:
        task = asyncio.ensure_future(work)
        loops.append((asyncio.get_running_loop(), task))
        return await task

    def main() -> None:
        try:
            ends.append(asyncio.run(run()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=main, name="lycosa-crawl")
    thread.start()
    try:
        thread.join()
    except BaseException:
        for loop, task in loops:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    if errors:
        raise errors[0]
    return ends[0]
