"""A busy machine: here answers wait for what is being made, but for the tests that say otherwise."""

from __future__ import annotations

import pytest

from lycosa.serve import making


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "PATIENCE", 120.0)
