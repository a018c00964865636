"""What takes long is made beside the answers."""

from __future__ import annotations

import threading

import pytest

from lycosa.serve import making as module
from lycosa.serve.making import Making, Tell


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch, patience: None) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)


class Work:
    """Something that is made when it is let go on."""

    def __init__(self) -> None:
        self.version = 1
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.error: Exception | None = None

    def make(self, tell: Tell) -> str:
        made = self.version
        tell("reading", 12_345)
        self.begun.release()
        assert self.go_on.acquire(timeout=170)
        if self.error is not None:
            raise self.error
        return f"made of {made}"


def until_made(making: Making[str], work: Work) -> str:
    """What comes of the work that is under way."""
    assert work.begun.acquire(timeout=170)
    work.go_on.release()
    while (look := making.look()).telling:
        pass
    assert look.made is not None
    return look.made


def test_who_looks_is_told_how_far_it_is_and_does_not_wait_for_it() -> None:
    work = Work()
    making = Making(work.make, lambda: work.version)
    assert making.look().made is None
    assert work.begun.acquire(timeout=170)
    assert making.look() == (None, "reading, 12,345 so far")
    assert not work.begun.acquire(blocking=False), "one at a time"
    work.begun.release()
    assert until_made(making, work) == "made of 1"
    assert making.look() == ("made of 1", "")
    assert not work.begun.acquire(blocking=False), "nothing has changed"


def test_what_is_old_is_shown_until_the_next_is_there() -> None:
    work = Work()
    making = Making(work.make, lambda: work.version)
    making.look()
    until_made(making, work)
    work.version = 2
    assert making.look().made == "made of 1"
    assert until_made(making, work) == "made of 2"


def test_what_has_just_been_made_rests() -> None:
    work = Work()
    making = Making(work.make, lambda: work.version, rest=1e12)
    making.look()
    until_made(making, work)
    work.version = 2
    assert making.look() == ("made of 1", "")


def test_what_fails_is_told_once_and_tried_again() -> None:
    work = Work()
    work.error = ValueError("no room")
    making = Making(work.make, lambda: work.version)
    making.look()
    assert work.begun.acquire(timeout=170)
    work.go_on.release()
    with pytest.raises(ValueError, match="no room"):
        while True:
            making.look()
    work.error = None
    making.look()
    assert until_made(making, work) == "made of 1"
