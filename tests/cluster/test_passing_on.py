"""What the supervisor passes on between agents, and what it makes up for when one of them dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from lycosa.cluster.messages import (
    Begun,
    Channel,
    Claim,
    Claimed,
    Failed,
    FromAgent,
    GoBack,
    Release,
    Settled,
    Start,
    Stop,
    ToAgent,
)
from lycosa.cluster.process import FarHosts
from lycosa.cluster.supervisor import Supervisor, all_quiet
from lycosa.crawl import manifest as manifests
from lycosa.crawl.config import read_options
from lycosa.crawl.splitting import Splitter
from lycosa.errors import StorageError
from lycosa.files import DirectoryLock, DiskFiles


class Line:
    """Stands where a channel stands; keeps what is said."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def send(self, message: Any) -> None:
        self.said.append(message)


def made(directory: Path, agents: int = 3) -> tuple[Supervisor, list[Line], DirectoryLock]:
    manifest = manifests.open_or_create(DiskFiles(directory), 1, 8)
    lock = DirectoryLock(directory)
    options = read_options({"public": False})
    supervisor = Supervisor(directory, manifest, options, [], agents=agents, lock=lock)
    lines = [Line() for _ in range(agents)]
    for member, line in zip(supervisor._members, lines, strict=True):
        member.channel = line  # type: ignore[assignment]
        member.begun = True
    return supervisor, lines, lock


def with_team(check: Callable[[Supervisor, list[Line]], Awaitable[None]], directory: Path) -> None:
    async def go() -> None:
        supervisor, lines, lock = made(directory)
        try:
            await check(supervisor, lines)
        finally:
            lock.release()

    asyncio.run(go())


def test_a_turn_of_a_host_is_asked_of_its_owner_and_given_back(tmp_path: Path) -> None:
    async def check(supervisor: Supervisor, lines: list[Line]) -> None:
        claim = Claim(id=1, by=0, shard=4, host="h.test")
        supervisor._heed(supervisor._members[0], claim)
        assert lines[1].said == [claim]
        answer = Claimed(id=1, by=0, granted=True)
        supervisor._heed(supervisor._members[1], answer)
        assert lines[0].said == [answer]
        release = Release(by=0, shard=4, host="h.test", ready=5.0)
        supervisor._heed(supervisor._members[0], release)
        assert lines[1].said == [claim, release]
        assert not supervisor._claims and not supervisor._asked_claims

    with_team(check, tmp_path)


def test_the_dead_hold_no_turns_and_owe_no_answers(tmp_path: Path) -> None:
    async def check(supervisor: Supervisor, lines: list[Line]) -> None:
        supervisor._heed(supervisor._members[0], Claim(id=1, by=0, shard=4, host="h.test"))
        supervisor._heed(supervisor._members[0], Claim(id=2, by=0, shard=2, host="i.test"))
        supervisor._heed(supervisor._members[1], Claimed(id=1, by=0, granted=True))
        lines[0].said.clear()
        supervisor._end_claims(2)  # never answered
        assert lines[0].said == [Claimed(id=2, by=0, granted=False)]
        before = time.monotonic()
        supervisor._end_claims(0)  # died in the middle of its turn
        [release] = [row for row in lines[1].said if isinstance(row, Release)]
        assert release.host == "h.test" and release.ready >= before + 1.0
        supervisor._members[1].begun = False
        supervisor._heed(supervisor._members[0], Claim(id=3, by=0, shard=4, host="h.test"))
        assert lines[0].said[-1] == Claimed(id=3, by=0, granted=False)

    with_team(check, tmp_path)


def test_a_gap_goes_to_the_sender_and_a_failure_is_the_crawls(tmp_path: Path) -> None:
    async def check(supervisor: Supervisor, lines: list[Line]) -> None:
        gap = GoBack(sender=5, receiver=0, cursor=7)
        supervisor._heed(supervisor._members[0], gap)
        assert lines[2].said == [gap]
        supervisor._heed(supervisor._members[1], Failed(kind="StorageError", text="the disk is full"))
        with pytest.raises(StorageError, match="the disk is full"):
            await supervisor._watch()

    with_team(check, tmp_path)


def test_far_hosts_ask_and_wait(tmp_path: Path) -> None:
    async def go() -> None:
        manifest = manifests.open_or_create(DiskFiles(tmp_path), 1, 8)
        splitter = Splitter(manifest.shards, manifests.domains_of(DiskFiles(tmp_path)))
        line = Line()
        far = FarHosts(line, 0, splitter)  # type: ignore[arg-type]
        asked = asyncio.ensure_future(far.claim("h.test"))
        await asyncio.sleep(0)
        [claim] = line.said
        assert claim.shard == splitter.shard_of("h.test")
        far.answered(Claimed(id=99, by=0, granted=False))
        far.answered(Claimed(id=claim.id, by=0, granted=True))
        assert await asked
        far.end("h.test", 3.0)
        assert line.said[-1] == Release(by=0, shard=claim.shard, host="h.test", ready=3.0)

    asyncio.run(go())


def test_all_is_quiet_only_if_everything_written_was_read() -> None:
    def answer(ends: dict[int, Any], reads: dict[int, Any], idle: bool = True) -> Settled:
        return Settled(round=1, idle=idle, appended=1, ends=ends, reads=reads)

    first = answer({1: (0, 50)}, {1: (0, 24)})
    assert all_quiet([first, answer({0: (0, 24)}, {0: (0, 50)})])
    assert not all_quiet([first, answer({0: (0, 24)}, {0: (0, 49)})])
    assert not all_quiet([first, answer({0: (1, 24)}, {0: (0, 50)})])
    assert not all_quiet([first, answer({0: (0, 24)}, {0: (0, 50)}, idle=False)])


def test_messages_cross_a_pair_of_sockets() -> None:
    import socket

    async def go() -> None:
        ours, theirs = socket.socketpair()
        near: Channel[FromAgent] = await Channel.over(ours, FromAgent)
        far: Channel[ToAgent] = await Channel.over(theirs, ToAgent)
        near.send(Start(directory="d", agent=1, agents=2, options=b"\x00{}", limited=True))
        near.send(Stop())
        start = await far.receive()
        assert isinstance(start, Start) and start.options == b"\x00{}"
        assert isinstance(await far.receive(), Stop)
        far.send(Begun(refused=[("http://a.test/", "scope")]))
        begun = await near.receive()
        assert isinstance(begun, Begun) and begun.refused == [("http://a.test/", "scope")]
        far._writer.write(b'{"type": "Nonsense"}\n')
        assert await near.receive() is None
        far.close()
        assert await near.receive() is None
        near.close()

    asyncio.run(go())
