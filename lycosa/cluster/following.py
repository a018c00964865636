"""A local directory that follows a cluster's crawl, for programs that show it (`lycosa serve`).

    following = Following(engine, storage, into, open_storage)
    await following.begin()             all that is committed now is in `into`, as a crawl's directory
    await following.run()               keeps it current until cancelled

To readers of the directory this process looks like the one that crawls: it holds the lock, writes status.json every
second, and forwards the acts that are left in control/ (`crawl.steering`) to the cluster. Its status of the
crawl comes from the crawl's keys, as in `lycosa cluster status`, and from the agents' meters, which it asks for.
The logs are copies that only grow (`log_copy`). Bodies are not copied: `archive` reads them on shared storage.

If the servers are away for a while, it waits for them: the directory stays as it is, and is completed later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lycosa.clock import Clock, SystemClock, milliseconds
from lycosa.cluster.control import About, Control, State, Wanted, options_of
from lycosa.cluster.log_copy import LogCopy
from lycosa.cluster.metering import Metered, ask_meters, merged_ahead, merged_meters
from lycosa.cluster.names import log_of
from lycosa.cluster.operating import Operator, manifest_of
from lycosa.cluster.storage import ArchiveFiles, ShardStorage, Storage
from lycosa.crawl import manifest as manifests
from lycosa.crawl.acts import done
from lycosa.crawl.status import AgentLine, ShardLine, Status, StatusFiles, added, errors_of
from lycosa.crawl.steering import LOOK, ActFiles, Answer
from lycosa.engine.protocol import Engine, Unavailable
from lycosa.errors import ConfigError, LocalError, StorageError
from lycosa.files import DirectoryLock, DiskFiles, write_whole

_COPY = 2.0
"""Seconds between two looks at the logs."""
_TELL = 1.0
_SHARE = 9.0
"""After each step, pause this many times its duration, so that followers do not keep a large cluster busy."""


class Following:
    """Keeps a directory current; see the module."""

    def __init__(
        self,
        engine: Engine,
        operator: Operator,
        about: About,
        storage: Storage,
        into: Path,
        told: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> None:
        """`into`: made if needed; `ConfigError` if it is another crawl's, or another process keeps it already."""
        self._engine = engine
        self._clock = clock or SystemClock()
        self._operator = operator
        self._about = about
        self._told = told
        self._away = ""
        self._errors: dict[str, dict[str, int]] = {}
        """Failed attempts by kind of each agent, those that have ended included."""
        self._control = Control(engine, self._clock)
        self._lock = DirectoryLock(into)
        try:
            files = DiskFiles(into)
            there = manifests.load(files)
            if there is not None and there.crawl != about.crawl:
                raise ConfigError(f"{into} holds another crawl: choose another directory")
            if there is None:
                write_whole(files, manifests.SUFFIXES, storage.get(f"{engine.crawl}/public_suffix.dat"))
                write_whole(
                    files, manifests.NAME, msgspec.json.format(msgspec.json.encode(manifest_of(about)))
                )
        except BaseException:
            self._lock.release()
            raise
        self.archive = ArchiveFiles(into / "archive", storage, engine.crawl)
        self._acts = ActFiles(into)
        self._status = StatusFiles(into)
        self._telling = asyncio.Lock()
        self._copies = [
            LogCopy(
                engine.stream(log_of(number)),
                ShardStorage(storage, engine.crawl, number),
                files.within(f"{manifests.shard_directory(number)}/log"),
                self._clock,
            )
            for number in range(about.shards)
        ]

    async def begin(self) -> None:
        """Copy everything that is committed now."""
        records = sum([await copy.step() for copy in self._copies])
        self._told(f"copied {records:,} records of {len(self._copies)} shards")
        await self._tell()

    async def run(self) -> None:
        """Keep the directory current until cancelled."""
        try:
            await asyncio.gather(
                self._again(_COPY, self._copy), self._again(_TELL, self._tell), self._again(LOOK, self._act)
            )
        finally:
            await self.close()

    async def close(self) -> None:
        for copy in self._copies:
            with contextlib.suppress(Unavailable):
                await copy.close()
        self._lock.release()

    async def _again(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                await step()
                self._away = ""
            except (LocalError, StorageError) as away:
                if not self._away:
                    self._told(f"note: {away}; trying again ...")
                self._away = str(away)
            took = self._clock.monotonic() - began
            await self._clock.sleep(max(seconds, _SHARE * took))

    async def _copy(self) -> None:
        for copy in self._copies:
            await copy.step()

    async def _tell(self) -> None:
        async with self._telling:  # a status asked for before the act must not be written after it
            found, state = await self._operator.status(), await self._control.state()
            said = await ask_meters(self._engine, [row["id"] for row in found["agents"]])
            await asyncio.to_thread(self._status.write, self._status_of(found, state, said))

    async def _act(self) -> None:
        for act in await asyncio.to_thread(lambda: list(self._acts.waiting())):
            if isinstance(act, str):
                answer = Answer(ok=False, text=f"{act} is no act")
            else:
                try:
                    answer = Answer(ok=True, text=done(await self._operator.act(act)))
                except ConfigError as error:
                    answer = Answer(ok=False, text=str(error))
            await self._tell()  # the caller reads the status at once
            await asyncio.to_thread(self._acts.answer, act, answer)

    def _status_of(self, found: dict[str, Any], state: State, said: Sequence[Metered | None]) -> Status:
        now = self._clock.wall()
        told = [each for each in said if each is not None]
        meters = merged_meters(told)
        for row, metered in zip(found["agents"], said, strict=True):
            if metered is not None:
                self._errors[row["id"]] = errors_of(metered.meters)
        agents = [
            AgentLine(
                agent=row["id"],
                pid=row["about"]["pid"],
                rss=row["about"]["rss"],
                visits=row["about"]["visits"],
                cpu=metered.cpu if metered is not None else 0.0,
            )
            for row, metered in zip(found["agents"], said, strict=True)
        ]
        goes = not state.finished and state.wanted is not Wanted.STOPPED
        return Status(
            at=now,
            pid=os.getpid(),
            state="running" if goes or found["shards_held"] else found["state"],
            elapsed=max(milliseconds(self._clock) - state.since, 0) / 1000 if state.since else 0.0,
            pages_run=0,
            errors=added(self._errors.values()),
            hosts=int(meters.get("frontier.hosts", 0)),
            next_due=meters.get("frontier.next_due", 0.0),
            ahead=merged_ahead(told),
            rss=sum(agent.rss for agent in agents),
            memory_limit=0,
            meters=meters,
            paused=options_of(state).steered.paused,
            shards=[
                ShardLine(
                    agent=row["holder"],
                    **{
                        name: row[name]
                        for name in ("shard", "pages", "pending", "left_behind", "deferred", "visits")
                    },
                )
                for row in found["shards"]
            ],
            agents=agents,
            **{name: found[name] for name in _SAME},
        )


_SAME = (
    *("pages", "bytes", "links", "duplicates", "statuses", "skipped", "pending", "left_behind", "deferred"),
    *("visits", "page_limit", "fetches"),
)


async def follow(
    engine: Engine,
    operator: Operator,
    into: Path,
    told: Callable[[str], None],
    ready: Callable[[Following], None],
) -> None:
    """Keep a directory current until cancelled; `ready` is called when it can be read."""
    about = await Control(engine, SystemClock()).about()
    storage = await operator.storage(about.storage)
    following = await asyncio.to_thread(Following, engine, operator, about, storage, into, told)
    try:
        await following.begin()
    except BaseException:
        await following.close()
        raise
    ready(following)
    await following.run()
