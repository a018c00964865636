"""The history of one URL in a simulated run, line by line: time, agent, event.

    where it was found, which shard it was sent to and by whom, received, requested, committed to which log,
    deferred, skipped, lost with a disk and fetched again; in between events of the cluster and the shard

A traced run is identical to an untraced one: a `TracedRunning` only observes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lycosa.clock import Clock
from lycosa.cluster.links import decode
from lycosa.cluster.losses import records_of
from lycosa.engine.client import ClientReading, ClientStream
from lycosa.engine.memory import MemoryEngine
from lycosa.engine.protocol import Conflict, Full, Message, Unavailable
from lycosa.lab.cluster_run import CRAWL, Running
from lycosa.lab.simulate import Numbers, Simulated, simulate
from lycosa.records import Deferred, Fetched, Links, Lost, Received, Record, Seeded, Skipped


class Passed(NamedTuple):
    """A message: appended by an agent (`answer`: the result it got), or read by one (`answer`: None)."""

    at: float
    agent: str
    stream: str
    lane: str
    data: bytes
    answer: Any


class _Reading(ClientReading):
    heard: Any = None

    async def next(self, seconds: float, most: int = 256) -> list[Message] | Unavailable:
        found = await super().next(seconds, most)
        if not isinstance(found, Unavailable):
            for message in found:
                self.heard(message.lane, message.data, None)
        return found


class _Stream(ClientStream):
    heard: Any = None

    async def append(
        self,
        data: bytes,
        *,
        lane: str = "",
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
        seconds: float = 5.0,
    ) -> int | Conflict | Full | Unavailable:
        answer = await super().append(data, lane=lane, headers=headers, expected=expected, seconds=seconds)
        self.heard(lane, data, answer)
        return answer

    def read(self, after: int = 0) -> ClientReading:
        reading = _Reading(self._line, self.name, after)
        reading.heard = self.heard
        return reading


class _Engine(MemoryEngine):
    heard: Any = None

    def stream(self, name: str) -> ClientStream:
        stream = _Stream(self._line, name)
        stream.heard = lambda lane, data, answer: self.heard(name, lane, data, answer)
        return stream


class TracedRunning(Running):
    """A run that keeps the messages in the streams."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.passed: list[Passed] = []
        _LAST.append(self)

    def engine(self, client: str, clock: Clock | None = None) -> MemoryEngine:
        engine = _Engine(self.servers, CRAWL, clock or self.clock, client=client, network=self._network)

        def heard(stream: str, lane: str, data: bytes, answer: Any) -> None:
            self.passed.append(Passed(self.clock.monotonic(), client, stream, lane, data, answer))

        engine.heard = heard
        return engine


_LAST: list[TracedRunning] = []


def traced(seed: int, numbers: Numbers, url: str) -> tuple[Simulated, list[tuple[float, str]]]:
    """Run a seed, and return the history of a URL."""
    _LAST.clear()
    simulated = simulate(seed, numbers, TracedRunning)
    running = _LAST.pop()
    lines = [*_streams(running.passed, url), *_asked(simulated, url)]
    lines += [(at, f"     {what}") for at, what in simulated.happened]
    shards = {row.stream.partition(".")[2] for row in running.passed if _names(row, url)}
    for at, agent, text in simulated.ran.told:
        if not text.startswith("shard ") or text.split()[1].rstrip(":") in shards:
            lines.append((at, f"     {agent}: {text}"))
    return simulated, sorted(lines, key=lambda line: line[0])


def _names(row: Passed, url: str) -> bool:
    return bool(_of_log(row, url) if row.stream.startswith("log.") else _of_exchange(row, url))


def _streams(passed: list[Passed], url: str) -> list[tuple[float, str]]:
    lines = []
    for row in passed:
        if row.stream.startswith("log."):
            if row.answer is None:
                continue
            for position, text in _of_log(row, url):
                shard = row.stream.partition(".")[2]
                what = _heard(row.answer, "committed")
                lines.append((row.at, f"{row.agent}: {text} (shard {shard}, position {position}): {what}"))
        else:
            for text in _of_exchange(row, url):
                to = row.stream.partition(".")[2]
                if row.answer is None:
                    lines.append((row.at, f"{row.agent}: received for shard {to}: {text}"))
                else:
                    lines.append(
                        (row.at, f"{row.agent}: sent to shard {to}: {text}: {_heard(row.answer, 'taken')}")
                    )
    return lines


def _heard(answer: Any, good: str) -> str:
    return f"{good} as {answer}" if isinstance(answer, int) else f"not {good}: {answer}"


def _of_exchange(row: Passed, url: str) -> list[str]:
    message = decode(row.data)
    if message is None or not hasattr(message.frame, "rows"):
        return []
    sender = "the operator" if row.lane == "seeds" else f"shard {row.lane}"
    return [
        f"link of {sender} found at position {link.at}, epoch {message.epoch}"
        for link in message.frame.rows()
        if link.url == url
    ]


def _of_log(row: Passed, url: str) -> list[tuple[int, str]]:
    found = []
    for position, record in records_of(row.data):
        text = _about(record, url)
        if text:
            found.append((position, text))
    return found


def _about(record: Record, url: str) -> str:
    if isinstance(record, Fetched) and record.url == url:
        return f"logs it as fetched, status {record.status}"
    if isinstance(record, Lost) and record.url == url:
        return f"logs it as lost with {record.file}: it is fetched again"
    if isinstance(record, Skipped) and record.url == url:
        return f"logs it as skipped ({record.why}: {record.detail})"
    if isinstance(record, Deferred) and record.url == url:
        return f"logs it as deferred ({record.why}, attempt {record.attempt})"
    links = getattr(record, "links", None)
    if isinstance(links, Links) and any(link.url == url for link in links):
        if isinstance(record, Seeded):
            return "logs it as a seed"
        if isinstance(record, Received):
            return f"logs it as received from shard {record.sender}"
        if isinstance(record, Fetched):
            return f"logs it as found on {record.url}"
    return ""


def _asked(simulated: Simulated, url: str) -> list[tuple[float, str]]:
    return [
        (
            row.start,
            f"{row.agent}: asks for it at {row.address}, until {row.end:.3f} s: status {row.status or 'none'}",
        )
        for row in simulated.ran.asked
        if row.url == url
    ]
