"""Decisions about leases, on made-up clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lycosa.cluster.lease import Holding, Lease, Sighting, Sightings, Take, Wait, decide, decode, encode, plan


def sighting(lease: Lease, revision: int = 5, at: float = 100.0) -> Sighting:
    return Sighting(revision, at, encode(lease))


def test_a_lease_that_never_was_is_taken_with_epoch_one() -> None:
    assert decide(None, "me", 10.0, 0.0) == Take(Lease("me", 1, 10.0), 0, {})


def test_a_lease_expires_when_it_has_not_changed_for_its_own_time() -> None:
    seen = sighting(Lease("other", 3, 10.0))
    assert decide(seen, "me", 99.0, 109.9) == Wait(110.0)  # its time counts, not ours
    assert decide(seen, "me", 99.0, 110.0) == Take(Lease("me", 4, 99.0), 5)


def test_a_released_lease_is_taken_at_once_by_the_next_epoch() -> None:
    seen = sighting(Lease("other", 3, 10.0, released=True))
    assert decide(seen, "me", 10.0, 100.0) == Take(Lease("me", 4, 10.0), 5)


def test_even_our_own_lease_of_before_is_a_new_epoch() -> None:
    assert decide(sighting(Lease("me", 3, 10.0)), "me", 10.0, 110.0) == Take(Lease("me", 4, 10.0), 5)


def test_a_damaged_lease_is_nobodys() -> None:
    assert decide(Sighting(5, 0.0, b"{"), "me", 10.0, 1e9) == Wait(float("inf"))
    assert decide(Sighting(5, 0.0, None), "me", 10.0, 1e9) == Wait(float("inf"))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_lease_or_none(data: bytes) -> None:
    assert decode(data) is None or isinstance(decode(data), Lease)


def test_a_holder_stops_at_eight_tenths_of_the_time_since_the_renewal_began() -> None:
    holding = Holding(Lease("me", 1, 10.0), 1, began=100.0)
    assert holding.may_fetch(107.9) and not holding.may_fetch(108.0)
    assert holding.may_write(109.9) and not holding.may_write(110.0)
    holding.renewed(2, began=105.0)  # the answer came at 107.5, say: that does not count
    assert holding.may_fetch(112.9) and not holding.may_fetch(113.0)
    holding.lose()
    assert not holding.may_fetch(105.0) and not holding.may_write(105.0)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 15.0), st.floats(0.0, 12.0), st.floats(0.0, 4.0)), min_size=1, max_size=20
    ),
    st.floats(0.5, 1.24),
)
def test_nobody_takes_while_the_holder_may_fetch(steps, speed) -> None:
    """Whatever the delays of writing and of seeing, and with clocks that differ in speed by almost a quarter."""
    seconds, now = 10.0, 0.0
    holding = Holding(Lease("a", 1, seconds), 1, began=0.0)
    watcher = Sightings()
    watcher.note("lease.0", 1, encode(holding.lease), 0.0)
    revision = 1
    for wait, writing, seeing in steps:
        began = now + wait
        revision += 1
        written = began + writing
        holding.renewed(revision, began)
        watcher.note("lease.0", revision, encode(holding.lease), (written + seeing) * speed)
        now = written
    # From the holder's last moment of fetching back: the watcher must still wait.
    last = holding._began + 0.8 * seconds - 1e-6
    assert holding.may_fetch(last)
    assert isinstance(decide(watcher.get("lease.0"), "b", seconds, last * speed), Wait)


def test_old_news_is_no_news() -> None:
    seen = Sightings()
    assert seen.note("k", 7, b"x", 1.0)
    assert not seen.note("k", 7, b"x", 5.0)  # a watch that begins again tells everything again
    assert not seen.note("k", 6, b"w", 5.0)
    assert seen.changed_within(4.5, 5.0) == ["k"] and seen.changed_within(4.0, 5.0) == []
    seen.note("k", 8, None, 6.0)
    assert seen.changed_within(4.5, 6.0) == []


def test_the_plan_takes_what_is_free_and_hands_over_what_is_anothers() -> None:
    seen = {
        0: sighting(Lease("b", 1, 10.0)),
        1: sighting(Lease("b", 1, 10.0, released=True)),
        2: None,
        3: sighting(Lease("a", 2, 10.0)),
        4: sighting(Lease("a", 2, 10.0)),
    }
    placed = {0: "a", 1: "a", 2: "b", 3: "b", 4: "a"}
    made = plan("a", 10.0, placed, seen, [3, 4], 101.0)
    assert [shard for shard, _ in made.take] == [1] and made.hand_over == [3]
    assert [shard for shard, _ in plan("a", 10.0, placed, seen, [3, 4], 110.0).take] == [0, 1]
    assert plan("a", 10.0, {}, seen, [3, 4], 101.0) == ([], [])  # nobody known to live: keep what we have
