"""The experiment on freshness, small: the order of the policies, and how near to the optimum ours is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lycosa.cli.main import main
from lycosa.content.change import content_digest
from lycosa.lab.experiments import freshness as experiment
from lycosa.lab.experiments.freshness import Known, make_web, periodic_optimum, run
from lycosa.lab.experiments.freshness_pages import page
from lycosa.refresh.options import Policy
from lycosa.refresh.rates import RATES

WEB = make_web(1500, 30, 4)


def test_known_rates_keep_their_mean() -> None:
    inside = (WEB.rates > RATES[0]) & (WEB.rates < RATES[-1])
    assert (Known(WEB).weights @ RATES)[inside] == pytest.approx(WEB.rates[inside])


def test_the_optimum_is_above_every_schedule_of_one_interval() -> None:
    for budget in (0.1, 1.0):
        changes = WEB.rates * 86_400 / budget
        even = float((WEB.importance * -np.expm1(-changes) / changes).sum() / WEB.importance.sum())
        assert even < periodic_optimum(WEB, budget) < 1.0


@pytest.mark.parametrize(("budget", "least"), [(0.1, 0.94), pytest.param(0.3, 0.97, marks=pytest.mark.slow)])
def test_learned_rates_come_near_the_optimum(budget: float, least: float) -> None:
    optimum = periodic_optimum(WEB, budget)
    found = run(WEB, budget, Policy.VALUE, seed=1, days=30)
    assert found.fresh > least * optimum
    assert abs(found.error) < 0.02
    assert found.fetches < 1.02 * budget
    known = run(WEB, budget, Policy.VALUE, seed=1, days=30, known=True)
    assert known.fresh > 0.985 * optimum


def test_every_look_has_other_bytes_and_only_a_new_version_has_other_content() -> None:
    for number in range(20):
        pages = [page(number, version, look) for version in range(4) for look in range(5)]
        assert len(set(pages)) == 20
        digests = [content_digest(each) for each in pages]
        assert len(set(digests)) == 4 and 0 not in digests
        assert all(len(set(digests[at : at + 5])) == 1 for at in range(0, 20, 5)), "of one version"


def test_changes_are_judged_by_the_code_of_the_crawl(monkeypatch: pytest.MonkeyPatch) -> None:
    web = make_web(200, 5, 4)
    assert run(web, 1.0, Policy.VALUE, seed=1, days=5).misjudged < 0.002
    assert run(web, 1.0, Policy.VALUE, seed=1, days=5, by_bytes=True).misjudged > 0.5
    monkeypatch.setattr(experiment, "content_digest", lambda body: 7)
    assert run(web, 1.0, Policy.VALUE, seed=1, days=5).misjudged > 0.02, "it sees no change at all"


@pytest.mark.slow
def test_bytes_mislead() -> None:
    ours, misled = (run(WEB, 0.3, Policy.VALUE, seed=1, days=20, by_bytes=each) for each in (False, True))
    assert misled.fresh < 0.9 * ours.fresh


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["lab", "freshness", "--web", "200", "--on-sites", "5", "--days", "3", "--rates", "1", "--json"])
        == 0
    )
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["policy"] for row in rows} >= {"uniform", "proportional", "value", "known rates"}
    assert all(0 < row["fresh"] <= 1 and len(row["curve"]) == 3 for row in rows)
    assert main(["lab", "freshness", "--days", "0"]) == 2
    assert main(["lab", "freshness", "graph"]) == 2
