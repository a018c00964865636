"""What becomes of a run of several agents, by what happens to them."""

from __future__ import annotations

import pytest

from lycosa.cluster.team_run import (
    Began,
    Ends,
    Exited,
    Heard,
    Looked,
    Opened,
    Recover,
    Stage,
    Start,
    TeamRun,
)
from lycosa.crawl.agent import End
from lycosa.errors import ConfigError, LocalError


def begun(agents: int = 2) -> TeamRun:
    run = TeamRun(agents)
    for number in range(agents):
        assert run.on(Began(number), 0.0) == []
    assert run.stage is Stage.OPENING and run.on(Opened(), 1.0) == [] and run.stage is Stage.RUNNING
    return run


def test_a_run_that_ends_well() -> None:
    run = begun()
    run.on(Ends(End.FINISHED), 5.0)
    assert run.stage is Stage.ENDING and not run.is_clean()
    assert [run.on(Exited(number, 0), 6.0) for number in range(2)] == [[], []]
    assert run.is_clean() and run.result() is End.FINISHED


def test_the_first_reason_to_end_holds() -> None:
    run = begun()
    for end in (End.LIMIT, End.STOPPED):
        run.on(Ends(end), 5.0)
    run.on(Opened(), 6.0)
    assert run.result() is End.LIMIT and run.stage is Stage.ENDING and run.ends == [End.LIMIT, End.STOPPED]


def test_an_agent_that_dies_is_started_again_and_waited_for() -> None:
    run = begun()
    (command,) = run.on(Exited(1, -9), 100.0)
    assert isinstance(command, Recover) and "agent 1 died (signal 9)" in command.text
    assert run.on(Looked(), 100.1) == [] and run.on(Looked(), 100.3) == [Start(1)]
    assert run.on(Looked(), 100.4) == [], "once"
    run.on(Began(1), 100.4)
    assert run.waits_for == [1]
    run.on(Ends(End.FINISHED), 101.0)
    with pytest.raises(LocalError, match="before the end"):
        run.result()
    run.on(Heard(1), 101.1)
    assert run.waits_for == [] and run.result() is End.FINISHED


def test_one_that_dies_over_and_over_ends_the_run_and_waits_longer_each_time() -> None:
    run, now, waits = begun(), 100.0, list[float]()
    for _ in range(4):
        run.on(Exited(0, 1), now)
        while not run.on(Looked(), now):
            now += 0.25
        waits.append(now)
        run.on(Began(0), now)
    assert [after - before for before, after in zip([100.0, *waits], waits, strict=False)] == [
        0.25,
        0.5,
        1,
        2,
    ]
    assert run.on(Exited(0, 1), now) == [] and run.stage is Stage.ENDING
    with pytest.raises(LocalError, match="5 times in a row"):
        run.result()


def test_one_that_dies_now_and_then_is_always_started_again() -> None:
    run = begun()
    for hour in range(1, 9):
        assert len(run.on(Exited(0, 1), 3600.0 * hour)) == 1
        assert run.on(Looked(), 3600.0 * hour + 1) == [Start(0)]
        run.on(Began(0), 3600.0 * hour + 1)
    assert run.stage is Stage.RUNNING


def test_one_that_dies_at_the_start_or_while_it_ends_is_the_failure_of_the_run() -> None:
    run = TeamRun(1)
    run.on(Began(0), 0.0)
    assert run.on(Exited(0, -11), 1.0) == []
    with pytest.raises(LocalError, match="at its start"):
        run.result()
    run = begun(1)
    run.on(Ends(End.STOPPED), 1.0)
    assert run.on(Exited(0, -11), 2.0) == [] and not run.is_clean()
    with pytest.raises(LocalError, match="while it ended"):
        run.result()


def test_one_that_says_why_it_failed_is_not_started_again() -> None:
    run = begun()
    assert run.on(Exited(0, 2, ConfigError("agent 0: no")), 50.0) == []
    run.on(Exited(1, 2, LocalError("later")), 51.0)
    assert run.on(Looked(), 99.0) == []
    with pytest.raises(ConfigError, match="agent 0: no"):
        run.result()
