"""Clusters in trouble, from seeds: each must come out right; the same seed is the same run; the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from lycosa.cli.main import main
from lycosa.engine.memory import Fate
from lycosa.lab.cluster_network import DiceNetwork, Hard
from lycosa.lab.cluster_web import Asked
from lycosa.lab.simulate import DRAWN, Numbers, Simulated, accesses, simulate
from lycosa.lab.simulate_faults import Halt, draw_schedule
from lycosa.lab.simulate_profiles import PROFILES, Kind, When, profile_of
from lycosa.lab.webs.accesses import Politeness, violations
from tests.lab.planted import DEFECTS, planted

SEEDS = 100
MANY = 3_000
FOUND = (591, 802, 2152, 2224, 2389, 3312, 3546)
"""Later seeds that were wrong once."""


def demand_right(simulated: Simulated) -> None:
    again = simulated.numbers.command(simulated.seed)
    assert simulated.right, f"{again}\n" + "\n".join(simulated.faults)


@pytest.mark.parametrize("seed", (*range(1, SEEDS + 1), *FOUND))
def test_a_cluster_in_trouble_comes_out_right(seed: int) -> None:
    demand_right(simulate(seed))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(SEEDS + 1, MANY + 1, 100))
def test_many_clusters_in_trouble_come_out_right(first: int) -> None:
    for seed in range(first, first + 100):
        demand_right(simulate(seed))


def test_the_same_seed_is_the_same_run_whatever_hashes_are() -> None:
    here = [simulate(seed).digest for seed in (7, 7, 8)]
    assert here[0] == here[1] != here[2]
    for hashes in ("1", "2"):
        line = [sys.executable, "-m", "lycosa.cli.main", "lab", "simulate", "--seed", "7", "--json"]
        done = subprocess.run(
            line, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": hashes}
        )
        assert json.loads(done.stdout)["digest"] == here[0], f"PYTHONHASHSEED={hashes}"


def test_a_trace_tells_the_way_of_a_url_and_is_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "simulate", "--seed", "7", "--trace", "http://h1.test/"]) == 0
    said = capsys.readouterr().out
    for word in (
        "logs it as found on http://h",
        "asks for it at 127.1.0.",
        "logs it as fetched, status 200",
        "committed as",
    ):
        assert word in said
    from lycosa.lab.simulate_trace import traced

    assert traced(7, DRAWN, "http://h1.test/")[0].digest == simulate(7).digest


def test_many_seeds_are_summed_up_and_a_wrong_one_names_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lab", "simulate", "--seeds", "3-4", "--pages", "6"]) == 0
    said = capsys.readouterr().out
    assert "2 seeds, 0 wrong" in said and "a day in" in said
    defect = next(each for each in DEFECTS if each.where.endswith("lost_pages"))
    with planted(defect._replace(old="gone: dict[int, Lost] = {}", new='raise ValueError("planted")')):
        assert main(["lab", "simulate", "--seed", "3", "--pages", "6"]) == 1
    said = capsys.readouterr().out
    assert "WRONG" in said and "lycosa lab simulate --seed 3 --pages 6" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "5"], "'5': write it like 1-100 (or --seed 5 for one run)"),
        (["--seeds", "9-3"], "the first is greater than the last"),
        (["--seeds", "1-2", "--seed", "3"], "give --seed or --seeds, not both"),
        (
            ["--seed", "3", "--pages", "6", "--trace", "h1.test"],
            "nothing happened to h1.test in this run; it asked",
        ),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "simulate", *words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and not shown.out


def test_an_interrupt_ends_many_runs_after_the_present_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seed: int, numbers: Numbers) -> Simulated:
        if seed == 4:
            signal.raise_signal(signal.SIGINT)
        return simulate(seed, numbers)

    monkeypatch.setattr("lycosa.lab.simulate.simulate", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["lab", "simulate", "--seeds", "3-90", "--pages", "6"]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert "2 seeds of 88, 0 wrong" in capsys.readouterr().out


def test_the_wait_for_a_request_broken_off_is_demanded_of_who_knows_how_long_it_took() -> None:
    first = Asked("agent0", 1.0, 9.0, "http://h.test/", "127.1.0.1", run="agent0.1", broken_off=True)
    same, other = (
        first._replace(start=10.0, end=10.1, broken_off=False),
        Asked("agent1", 10.0, 10.1, "http://h.test/", "127.1.0.1", run="agent1.2"),
    )
    rules = Politeness(wait=0.5, factor=1.0)
    assert [row.rule for row in violations(accesses([first, same]), rules)] == ["visit"]
    assert not violations(accesses([first, other]), rules)
    assert violations(accesses([first, other]), rules._replace(wait=2.0)), "the least wait holds for all"


def test_the_command_that_repeats_a_run_has_its_numbers() -> None:
    assert Numbers(3, 0, 9).command(5) == "lycosa lab simulate --seed 5 --agents 3 --pages 9"


def test_every_profile_and_kind_of_trouble_comes_up_within_the_seeds_of_a_test_run() -> None:
    seeds = range(1, SEEDS + 1)
    assert {profile_of(seed).name for seed in seeds} == {profile.name for profile in PROFILES}
    troubles = [trouble for seed in seeds for trouble in draw_schedule(seed, 2, 3.0).troubles]
    assert {trouble.kind for trouble in troubles} == set(Kind)
    assert {trouble.when for trouble in troubles} == set(When)
    assert {trouble.disk for trouble in troubles} == {"kept", "torn", "lost"}


def test_what_is_hard_to_reach_has_its_own_fate_and_all_else_is_as_ever() -> None:
    network = DiceNetwork(1, lost=0.0, unheard=0.0, twice=0.0, late=0.0)
    network.hard["agent0", "lease.1"] = Hard(
        [lambda chance: Fate(0.5, None), lambda chance: Fate(None, None)]
    )
    assert network.fate("agent0", "lease.1") == Fate(0.5, None)
    assert [network.fate("agent0", "lease.1") for _ in range(2)] == [Fate(None, None)] * 2
    for client, to in (("agent0", "lease.2"), ("agent1", "lease.1"), ("agent0", "lease.*")):
        fate = network.fate(client, to)
        assert fate.there is not None and fate.back is not None


@pytest.mark.timeout(600)  # sixty runs, should the known seed no longer find it
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.name)
def test_a_planted_defect_is_found_by_a_seed(defect: object) -> None:
    """The known one, or another of its profile: whatever changes the times of a run changes who finds what."""
    assert isinstance(defect, type(DEFECTS[0]))
    others = range(defect.seed % 30, 1_800, 30)
    assert {profile_of(seed).name for seed in others[1:]} == {profile_of(defect.seed).name}
    with planted(defect):
        assert any(not simulate(seed).right for seed in (defect.seed, *others[1:]))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.name)
def test_a_planted_defect_is_found_within_300_seeds(defect: object) -> None:
    assert isinstance(defect, type(DEFECTS[0]))
    with planted(defect):
        assert any(not simulate(seed).right for seed in range(1, 301))


def test_a_request_of_a_process_that_stands_still_counts_until_it_stops_if_the_host_is_anothers_then() -> (
    None
):
    def asked(agent: str, start: float, end: float) -> Asked:
        return Asked(agent, start, end, "http://h.test/", "127.1.0.1", run=agent)

    halts = [Halt("agent0", 2.0, 5.0)]
    first, again, other = asked("agent0", 1.0, 7.0), asked("agent0", 7.1, 7.2), asked("agent1", 5.0, 5.5)
    assert [row.end for row in accesses([first, other, again], halts).accesses] == [2.0, 5.5, 7.2]
    assert [row.end for row in accesses([first, again], halts).accesses] == [7.0, 7.2], (
        "it is its own to wait for"
    )
    assert [row.end for row in accesses([first, other, again]).accesses] == [7.0, 5.5, 7.2], (
        "it did not stand still"
    )
