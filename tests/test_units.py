"""The units of systemd that we give, in deploy/ and docs/operating.md: systemd itself finds nothing wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def units() -> dict[str, str]:
    found = {path.name: path.read_text() for path in (ROOT / "deploy" / "systemd").iterdir()}
    operating = (ROOT / "docs" / "operating.md").read_text()
    found |= dict(re.findall(r"# /etc/systemd/system/([\w@.-]+\.service)[^\n]*\n(.*?)\n```", operating, re.S))
    return found


@pytest.mark.parametrize("name", sorted(units()))
def test_systemd_takes_the_unit(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # What is on the operator's machine is not on this one: the programs, and the users.
    text = re.sub(r"(?<==)/(?:opt/lycosa|usr/local)/bin/[\w-]+", "/bin/true", units()[name])
    text = re.sub(r"(?m)^User=.*\n", "", text)
    unit = tmp_path / name.replace("@.", "@web.")
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    mine = [line for line in done.stderr.splitlines() if unit.name in line]
    assert not mine, done.stderr


def test_there_are_units() -> None:
    assert {"lycosa-crawl@.service", "lycosa-serve@.service", "lycosa-agent@.service"} <= set(units())
