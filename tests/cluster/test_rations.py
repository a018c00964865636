"""Pages of the quota: whatever answers are lost, none is nobody's for good, and none is granted twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from lycosa.cluster.control import Control
from lycosa.cluster.rations import Rations
from lycosa.engine.memory import Fate, MemoryEngine, MemoryServers
from lycosa.lab import virtual
from lycosa.lab.virtual import VirtualClock


class _Unheard:
    """Some calls of a client are done, and their answers are lost; the others are well."""

    def __init__(self) -> None:
        self.lost: tuple[int, ...] = ()
        self.calls = 0

    def fate(self, client: str, to: str) -> Fate:
        self.calls += 1
        return Fate(0.001, None if self.calls in self.lost else 0.001)


def _run(act: Callable[[_Unheard, Control, VirtualClock], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        network, servers = _Unheard(), MemoryServers()
        engine = MemoryEngine(servers, "c", clock, client="agent", network=network)
        await engine.create([], 1)
        await act(network, Control(engine, clock), clock)

    virtual.run(main)


@pytest.mark.parametrize("lost", [(1,), (2,), (3,), (2, 3), (3, 4), (3, 4, 5)])
def test_a_grant_whose_answer_was_lost_is_asked_for_again(lost: tuple[int, ...]) -> None:
    async def act(network: _Unheard, control: Control, clock: VirtualClock) -> None:
        await control.limit_pages(1)
        rations = Rations(control, 1, clock)
        await rations.begin(0, 1, 0, lambda: True)
        network.calls, network.lost = 0, lost
        assert not rations.may(0)
        for _ in range(20):
            if await rations.tend():
                break
        assert rations.take(0) and not rations.take(0)

    _run(act)


@pytest.mark.parametrize("lost", [(1,), (2,), (1, 2), (2, 3)])
def test_pages_that_are_given_back_are_free_though_the_answer_was_lost(lost: tuple[int, ...]) -> None:
    async def act(network: _Unheard, control: Control, clock: VirtualClock) -> None:
        await control.limit_pages(1)
        mine, other = (Rations(control, 1, clock) for _ in range(2))
        await mine.begin(0, 1, 0, lambda: True)
        await other.begin(1, 1, 0, lambda: True)
        assert not mine.may(0) and await mine.tend()
        network.calls, network.lost = 0, lost
        for _ in range(20):
            await mine.tend()  # for want of use it gives the page back
        network.lost = ()
        assert not other.may(1) and await other.tend()
        assert other.take(1) and not mine.take(0)

    _run(act)
