"""A crawl of an embedded web with every trap gets out of all of them, and misses nothing."""

from __future__ import annotations

from functools import cache

from lycosa.crawl.agent import End
from lycosa.lab.experiments import traps
from lycosa.lab.faults import FaultyFiles
from lycosa.lab.webs.plan import TRAP_ROLES
from lycosa.lab.webs.sections.traps import FARMED

HOSTS, PAGES = 24, 300
ROLES = {FARMED if role == "farm" else role for role in TRAP_ROLES}


@cache
def outcome() -> traps.Outcome:
    return traps.crawl(FaultyFiles(), traps.web_of(HOSTS, PAGES), {"traps": {"quarantine": True}})


def test_every_trap_is_left_soon_and_nothing_real_is_missed() -> None:
    found = outcome()
    assert found.end is End.FINISHED
    assert found.missed == []
    assert set(found.wasted) == ROLES
    assert max(found.wasted.values()) <= 100
    assert sum(found.wasted.values()) <= 270
    assert found.held > 100


def test_every_quarantine_is_in_the_log_with_its_evidence() -> None:
    found = outcome()
    assert len([row for row in found.learned if row.holds]) >= len(ROLES)
    for row in found.learned:
        assert row.what == "trap" and row.why
        assert row.examples or not row.holds
