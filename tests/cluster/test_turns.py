"""Turns of addresses: one at a time, for a time, and none from a new owner for one expiry."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.clock import ManualClock
from lycosa.cluster.turn_table import Granted, Later, TurnTable, owner_of
from lycosa.cluster.turns import Turn, TurnAddresses, TurnAsker, TurnKeeper, of_addresses
from lycosa.engine.memory import Fate, MemoryEngine, MemoryServers
from lycosa.engine.protocol import Engine
from lycosa.lab import virtual
from lycosa.lab.cluster_run import AgentClock
from lycosa.lab.virtual import VirtualClock


def test_one_turn_at_a_time_with_a_rest_between() -> None:
    table = TurnTable(0.0, expiry=10.0, wait=0.5)
    assert table.ask("a", "x", 10.0) == Granted(10.0)
    assert table.ask("a", "y", 13.0) == Later(7.0)
    assert table.ask("b", "y", 13.0) == Granted(10.0)
    table.give_back("a", "y", 13.0)  # not y's
    assert table.ask("a", "y", 13.0) == Later(7.0)
    table.give_back("a", "x", 14.0)
    assert table.ask("a", "y", 14.0) == Later(0.5)
    assert table.ask("a", "y", 14.5) == Granted(10.0)
    table.give_back("a", "x", 15.0)  # a late word from x does not end y's turn
    assert isinstance(table.ask("a", "z", 15.0), Later)
    assert table.ask("a", "z", 24.5) == Granted(10.0)  # y never came back


def test_a_repeated_request_is_the_same_turn() -> None:
    table = TurnTable(0.0, expiry=10.0, wait=0.5)
    assert table.ask("a", "x", 10.0) == table.ask("a", "x", 11.0) == Granted(10.0)


def test_a_new_owner_grants_nothing_for_one_expiry() -> None:
    table = TurnTable(100.0, expiry=10.0, wait=0.5)
    assert table.ask("a", "x", 100.0) == Later(10.0)
    assert table.ask("a", "x", 109.0) == Later(1.0)
    assert table.ask("a", "x", 110.0) == Granted(10.0)


def test_an_owner_in_good_order_leaves_what_is_out() -> None:
    old = TurnTable(0.0, expiry=10.0, wait=0.5, left={})
    assert old.ask("a", "x", 0.0) == Granted(10.0)  # at once: nobody was before it
    assert old.ask("b", "y", 2.0) == Granted(10.0)
    assert old.ask("c", "z", 1.0) == Granted(10.0)
    old.give_back("b", "y", 4.0)
    old.give_back("c", "z", 3.9)
    old.close()
    assert isinstance(old.ask("d", "w", 4.0), Later) and old.out(4.0) == 1
    left = old.leave(4.2)
    assert left == {
        "a": ("x", pytest.approx(5.8)),
        "b": ("", pytest.approx(0.3)),
        "c": ("", pytest.approx(0.2)),
    }
    # The next one's clock has another beginning; it counts from when it took over.
    new = TurnTable(100.0, expiry=10.0, wait=0.5, left=left)
    assert new.ask("d", "w", 100.0) == Granted(10.0)
    assert new.ask("b", "v", 100.0) == Later(pytest.approx(0.3))
    assert new.ask("b", "v", 100.3) == Granted(10.0)
    assert new.ask("a", "v", 101.0) == Later(pytest.approx(4.8))
    new.give_back("a", "x", 101.0)  # who had it from the old one gives it back to the new one
    assert new.ask("a", "v", 101.5) == Granted(10.0)
    # An owner that must itself wait has nothing to leave.
    assert TurnTable(0.0, expiry=10.0, wait=0.5).leave(5.0) is None


def test_turns_that_are_over_are_forgotten() -> None:
    table = TurnTable(-10.0, expiry=10.0, wait=0.5)
    for number in range(5_000):
        table.ask(f"a{number}", "x", number * 0.1)
    assert len(table) < 1_200


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 6), st.floats(0, 6), st.floats(0, 3)), max_size=30))
def test_turns_of_two_never_overlap_whatever_the_delays(steps) -> None:
    """Askers count from when they asked, the owner from when it granted; the owner changes now and then."""
    expiry, now, owned = 10.0, 0.0, 0.0
    table = TurnTable(0.0, expiry=expiry, wait=0.5)
    held: list[tuple[float, float]] = []
    for act, asking, granting, until_back in steps:
        if act == 0:
            owned = now
            table = TurnTable(owned, expiry=expiry, wait=0.5)
            continue
        asked = now
        now += asking  # the request travels
        who = f"w{len(held)}-{now}"
        if isinstance(table.ask("a", who, now), Granted):
            end = asked + expiry
            if act == 2 and now + granting + until_back < end:
                end = now + granting + until_back
                held.append((now + granting, end))
                now = end
                table.give_back("a", who, now)
            else:
                held.append((now, max(end, now)))
    for (_, end), (start, _) in pairwise(held):
        assert start >= end


class NoHosts:
    """A shard whose hosts nobody may ask."""

    def claim(self, host: str, now: float) -> bool:
        return False

    def end(self, host: str, ready: float) -> None: ...


async def heard(asker: TurnAsker, address: str) -> Turn | Later:
    """The first answer: a subscription takes a moment until the server knows of it."""
    while (answer := await asker.ask(address)) == Later(1.0):
        pass
    return answer


async def test_asked_over_the_wire(engine: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lycosa.cluster.turns._ANSWER", 60.0)  # a busy machine answers late
    clock = ManualClock()
    address = "192.0.2.7"
    shard = owner_of(address, 4)
    keeper = TurnKeeper(engine.requests, clock, expiry=10.0, wait=0.5)
    asker = TurnAsker(other.requests, of_addresses(4), clock)
    assert isinstance(await asker.ask(address), Later)  # nobody holds the shard: no answer, no turn
    may = True
    await keeper.keep(shard, NoHosts(), lambda: may)
    assert await heard(asker, address) == Later(10.0)
    clock.advance(10.0)
    answers = await asyncio.gather(*(asker.ask(address) for _ in range(5)))
    turns = [answer for answer in answers if isinstance(answer, Turn)]
    assert len(turns) == 1 and turns[0].until == 20.0
    asker.give_back(turns[0])
    for _ in range(5):  # the giving back has no answer, and counts from when it arrives
        clock.advance(0.5)
        if isinstance(await asker.ask(address), Turn):
            break
    else:
        raise AssertionError("a turn that was given back is never granted again")
    second = next(a for n in range(99) if owner_of(a := f"192.0.2.{n}", 4) == shard and a != address)
    out = await asker.ask(second)
    assert isinstance(out, Turn)
    left = await keeper.end(shard, 0.0)
    assert left is not None and left[second][0] == out.who
    await keeper.keep(shard, NoHosts(), lambda: may, left)
    assert isinstance(await heard(asker, second), Later), "also by the new owner's word it is out"
    may = False  # the lease is at 0.8 of its time
    clock.advance(60.0)
    monkeypatch.setattr("lycosa.cluster.turns._ANSWER", 0.2)
    assert isinstance(await asker.ask(address), Later)
    await other.requests.tell(f"turn.{shard}", b"\xff{")  # is not answered, and harms nobody
    await keeper.drop(shard)


class Silence:
    """A network that loses everything from some moment on."""

    def __init__(self) -> None:
        self.fell = False

    def fate(self, client: str, to: str) -> Fate:
        return Fate(None, None) if self.fell else Fate()


@pytest.mark.parametrize(("ours", "owners"), [(1.0, 1.0), (1 / 1.09, 1.09), (1.09, 1 / 1.09)])
def test_a_request_is_broken_off_before_its_turn_is_anothers(ours: float, owners: float) -> None:
    """Its server is slower than the turn lasts, and the turn cannot be renewed; clocks are 20% apart."""
    address, expiry = "192.0.2.7", 3.0

    async def main(clock: VirtualClock) -> None:
        servers, network = MemoryServers(), Silence()
        mine, its = AgentClock(clock, ours), AgentClock(clock, owners)
        keeper = TurnKeeper(MemoryEngine(servers, "web", its).requests, its, expiry=expiry, wait=0.1)
        await keeper.keep(0, NoHosts(), lambda: True, {})
        asker = TurnAsker(MemoryEngine(servers, "web", mine, network=network).requests, of_addresses(1), mine)
        addresses = TurnAddresses(asker, mine, expiry)
        other = TurnAsker(MemoryEngine(servers, "web", its).requests, of_addresses(1), its)
        ended: list[float] = []

        async def visit() -> None:
            assert await addresses.begin(address, mine.monotonic()) == 0.0
            try:
                await asyncio.Event().wait()  # the server does not answer
            finally:
                ended.append(clock.monotonic())

        async def look(step: float) -> None:
            while True:
                await addresses.renew()
                await mine.sleep(step)

        visiting, renewing = asyncio.ensure_future(visit()), asyncio.ensure_future(look(0.15))
        while clock.monotonic() < 20.0:
            addresses.cut()
            await mine.sleep(0.15)
        assert not ended and addresses.has(address), "turns of long visits go on"
        network.fell = True
        while not isinstance(await other.ask(address), Turn):
            addresses.cut()
            await clock.sleep(0.05)
        assert ended and ended[0] < clock.monotonic(), "two at one address"
        assert visiting.cancelled()
        renewing.cancel()

    virtual.run(main)


async def test_an_agent_is_at_an_address_once_though_its_turn_there_is_over_for_the_owner() -> None:
    clock, address = ManualClock(), "192.0.2.7"
    requests = MemoryEngine(MemoryServers(), "web", clock).requests
    keeper = TurnKeeper(requests, clock, expiry=3.0, wait=0.1)
    await keeper.keep(0, NoHosts(), lambda: True, {})
    addresses = TurnAddresses(TurnAsker(requests, of_addresses(1), clock), clock, 3.0)
    assert await addresses.begin(address, clock.monotonic()) == 0.0
    await keeper.keep(0, NoHosts(), lambda: True, {})  # an owner that knows of no turn
    assert await addresses.begin(address, clock.monotonic()) > 0.0
    addresses.end(address, clock.monotonic())
    assert await addresses.begin(address, clock.monotonic()) == 0.0
