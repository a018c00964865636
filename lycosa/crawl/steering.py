"""Acts on their way to a crawl: files in its directory, which whoever runs the crawl takes up.

    control/ID.act      one act (`acts.Act`) as JSON, written whole and renamed into place; IDs sort by time
    control/ID.answer   what came of it: {"ok": bool, "text": ...}; removed by who asked, or after an hour

Whoever runs the crawl, one agent or the supervisor of several, looks every half second. It does the acts one after
the other, in the order of their IDs: each is in the logs of all shards, committed, before its file is answered and
removed. Killed anywhere in between, the next run finds the file again and, if the act is in the logs, answers and
does nothing else. So every act is done exactly once, and in order. One that cannot be done is answered with the
reason.

Acts that come while nobody crawls wait for the next run; `stop` alone does not: it is for the run that was.

From Python, with the same words as `lycosa control`:

    steering = lycosa.steer("crawls/example")
    steering.pause()
    steering.set({"limits.pages": 5000})
    steering.site("www.example.org", "hold")
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lycosa.crawl import manifest as manifests
from lycosa.crawl.acts import Act, applied
from lycosa.crawl.config import Options
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, process_of, write_whole

PLACE = "control"
LOOK = 0.5
"""Seconds between two looks at the directory."""
PATIENCE = 30.0
"""Seconds that an answer is waited for: a busy crawl of several agents commits within a few."""
_ASKING = 0.05
_KEPT = 3_600.0
_LARGEST = 64 << 20


class Answer(msgspec.Struct, frozen=True):
    """What came of an act."""

    ok: bool
    text: str


class ActFiles:
    """The directory of acts, for both sides."""

    def __init__(self, directory: Path) -> None:
        self._place = directory / PLACE
        self._files = DiskFiles(self._place)

    # -- who asks

    def leave(self, act: Act) -> None:
        """Have an act wait for who runs the crawl; it is durable when this returns."""
        try:
            self._place.mkdir(exist_ok=True)
            write_whole(self._files, f"{act.id}.act", msgspec.json.encode(act))
        except OSError as error:
            raise ConfigError(f"{self._place} cannot be written: {error.strerror}") from None

    def answer_to(self, act: Act) -> Answer | None:
        """What came of an act, if it was answered; the answer is removed."""
        path = self._place / f"{act.id}.answer"
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Answer)
        except (OSError, msgspec.MsgspecError):
            return None
        with suppress(OSError):
            path.unlink()
        return found

    # -- who does

    def waiting(self) -> Iterator[Act | str]:
        """The acts that wait, first come first; of a file that is none, its name."""
        try:
            names = sorted(entry.name for entry in os.scandir(self._place) if entry.name.endswith(".act"))
        except OSError:
            return
        for name in names:
            path = self._place / name
            try:
                if path.stat().st_size > _LARGEST:
                    raise ValueError("too large")
                act = msgspec.json.decode(path.read_bytes(), type=Act)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, msgspec.MsgspecError):
                yield name
                continue
            yield act if f"{act.id}.act" == name else name

    def answer(self, act: Act | str, answer: Answer) -> None:
        """The act is done, or will not be: it waits no more."""
        name = f"{act.id}.act" if isinstance(act, Act) else act
        answered = self._place / f"{name.removesuffix('.act')}.answer"
        draft = answered.with_suffix(".part")
        with suppress(OSError):  # a full disk: who asked sees that the act is gone
            draft.write_bytes(msgspec.json.encode(answer))
            draft.replace(answered)
        self._files.remove(name)
        self._files.sync_dir("")

    def sweep(self, now: float) -> None:
        """Remove answers that nobody came for."""
        with suppress(OSError):
            for entry in os.scandir(self._place):
                if entry.name.endswith((".answer", ".part")) and now - entry.stat().st_mtime > _KEPT:
                    Path(entry.path).unlink()


def new_act(what: str, words: tuple[str, ...], who: str = "") -> Act:
    """An act that is asked for now, by whoever runs this process."""
    now = time.time_ns()
    ident = f"{now:020d}-{secrets.token_hex(4)}"
    return Act(id=ident, at=now // 1_000_000, who=who or whoami(), what=what, words=words)


def whoami() -> str:
    """The user of this process, and the machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


class Steering:
    """A crawl that may be running, for whoever operates it."""

    def __init__(self, directory: str | Path, *, who: str = "", patience: float = PATIENCE) -> None:
        """`who`: goes into the log; "": the user of this process. `patience`: seconds for which an answer is
        waited for."""
        self._directory = Path(directory)
        found = manifests.load(DiskFiles(self._directory)) if self._directory.is_dir() else None
        if found is None:
            raise ConfigError(f"{directory} is not the directory of a crawl")
        if found.cluster and not self.is_running():
            raise ConfigError(
                f"{directory} is a copy of a cluster's crawl: control the crawl there (lycosa cluster control)"
            )
        self._files = ActFiles(self._directory)
        self._who = who
        self._patience = patience

    def act(self, what: str, *words: str) -> str:
        """Have the crawl do something; what came of it. `ConfigError` says why it cannot be done."""
        act = new_act(what, words, self._who)
        # What is wrong whatever the crawl's options are is said here, also if nobody crawls.
        applied(Options(public=False), act)
        running = self.is_running()
        if what == "stop" and not running:
            raise ConfigError(f"no process crawls into {self._directory}: there is nothing to stop")
        self._files.leave(act)
        until = time.monotonic() + self._patience
        while running and time.monotonic() < until:
            if (answer := self._files.answer_to(act)) is not None:
                if not answer.ok:
                    raise ConfigError(answer.text)
                return answer.text
            time.sleep(_ASKING)
            running = self.is_running()
        if (answer := self._files.answer_to(act)) is not None:
            return answer.text
        if running:
            return "left for the crawl, which has not answered yet"
        return "no process crawls now: kept for the next start"

    def is_running(self) -> bool:
        """Whether a process crawls into the directory, or keeps a copy of a cluster's crawl current there."""
        return process_of(self._directory) is not None

    def pause(self) -> str:
        """No more visits begin."""
        return self.act("pause")

    def go_on(self) -> str:
        """After a pause."""
        return self.act("go-on")

    def stop(self) -> str:
        """End the run cleanly."""
        return self.act("stop")

    def seed(self, *urls: str) -> str:
        """Give more seeds."""
        return self.act("seed", *urls)

    def set(self, values: Mapping[str, Any]) -> str:
        """Change options, by their full names: {"limits.pages": 5000}."""
        return self.act("set", *(f"{name}={_toml(value)}" for name, value in values.items()))

    def release(self, *patterns: str) -> str:
        """Have what is quarantined as a trap fetched after all."""
        return self.act("release", *patterns)

    def site(self, host: str, order: str, *more: str) -> str:
        """hold, release, block, boost, or budget N: what is to be done with a host."""
        return self.act("site", host, order, *map(str, more))


def _toml(value: Any) -> str:
    """A value as the text of `set`: JSON's numbers, texts and lists are TOML's."""
    return msgspec.json.encode(value).decode()
