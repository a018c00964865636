"""The transport of acts to a crawl: files in its directory, which the process that runs the crawl reads.

    control/ID.act      one act (`acts.Act`) as JSON, written whole and renamed into place; IDs sort by time
    control/ID.answer   the answer: {"ok": bool, "text": ...}; removed by the asker, or after an hour

The process that runs the crawl, one agent or the supervisor of several, looks every half second. It does the acts
one after the other, in the order of their IDs: each is in the logs of all shards, committed, before its file is
answered and removed. If it is killed anywhere in between, the next run finds the file again and, if the act is in
the logs, only answers it. So every act is done exactly once, and in order. One that cannot be done is answered with
the reason.

Acts that arrive while no process crawls wait for the next run; except `stop`, which is only for the run that was.

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
"""Seconds to wait for an answer: a busy crawl of several agents commits within a few."""
_ASKING = 0.05
_KEPT = 3_600.0
_LARGEST = 64 << 20


class Answer(msgspec.Struct, frozen=True):
    """The answer to an act."""

    ok: bool
    text: str


class ActFiles:
    """The directory of acts, for both sides."""

    def __init__(self, directory: Path) -> None:
        self._place = directory / PLACE
        self._files = DiskFiles(self._place)

    # -- the asker

    def leave(self, act: Act) -> None:
        """Leave an act for the process that runs the crawl; it is durable when this returns."""
        try:
            self._place.mkdir(exist_ok=True)
            write_whole(self._files, f"{act.id}.act", msgspec.json.encode(act))
        except OSError as error:
            raise ConfigError(f"{self._place} cannot be written: {error.strerror}") from None

    def answer_to(self, act: Act) -> Answer | None:
        """The answer to an act, if there is one; it is removed."""
        path = self._place / f"{act.id}.answer"
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Answer)
        except (OSError, msgspec.MsgspecError):
            return None
        with suppress(OSError):
            path.unlink()
        return found

    # -- the crawl

    def waiting(self) -> Iterator[Act | str]:
        """The waiting acts, oldest first; for an invalid file its name."""
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
        """Answer an act that was done, or refused, and remove it."""
        name = f"{act.id}.act" if isinstance(act, Act) else act
        answered = self._place / f"{name.removesuffix('.act')}.answer"
        draft = answered.with_suffix(".part")
        with suppress(OSError):  # a full disk: the asker sees that the act is gone
            draft.write_bytes(msgspec.json.encode(answer))
            draft.replace(answered)
        self._files.remove(name)
        self._files.sync_dir("")

    def sweep(self, now: float) -> None:
        """Remove answers that were not collected."""
        with suppress(OSError):
            for entry in os.scandir(self._place):
                if entry.name.endswith((".answer", ".part")) and now - entry.stat().st_mtime > _KEPT:
                    Path(entry.path).unlink()


def new_act(what: str, words: tuple[str, ...], who: str = "") -> Act:
    """An act with the present time, by the user of this process."""
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
    """Controls a crawl, which may be running, for its operator."""

    def __init__(self, directory: str | Path, *, who: str = "", patience: float = PATIENCE) -> None:
        """`who`: the author for the log; "": the user of this process. `patience`: seconds to wait for an
        answer."""
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
        """Have the crawl carry out an act; returns the answer. `ConfigError` says why it cannot be done."""
        act = new_act(what, words, self._who)
        # Mistakes that do not depend on the crawl's options are reported here, also if no process crawls.
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
        """Begin no more visits."""
        return self.act("pause")

    def go_on(self) -> str:
        """End a pause."""
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
        """Have URLs of patterns that are quarantined as traps fetched after all."""
        return self.act("release", *patterns)

    def site(self, host: str, order: str, *more: str) -> str:
        """Give an order about a host: hold, release, block, boost, or budget N."""
        return self.act("site", host, order, *map(str, more))


def _toml(value: Any) -> str:
    """A value as the text of `set`: JSON's numbers, texts and lists are TOML's."""
    return msgspec.json.encode(value).decode()
