"""The container files: every command of Lycosa's in them is one that this version takes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.cli.main import parse

DEPLOY = Path(__file__).parents[1] / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Words of each command: lists of a service whose entry point is `lycosa`, and lines for a shell."""
    found = [json.loads(row) for row in re.findall(r'command: (\["(?:agent|serve)".*\])', COMPOSE)]
    text = COMPOSE.replace('"$$AGENT"', "mybot").replace("$$SEEDS", "https://example.org/")
    shell = re.findall(r"(?<=lycosa )cluster (?:list|status|create|start|fetch)\b[^;|>\n]*", text)
    return [*found, *(row.strip().split() for row in shell)]


def test_there_is_a_command_for_each_part() -> None:
    assert {tuple(words[: 2 if words[0] == "cluster" else 1]) for words in commands()} == {
        ("agent",),
        ("serve",),
        ("cluster", "list"),
        ("cluster", "status"),
        ("cluster", "create"),
        ("cluster", "start"),
        ("cluster", "fetch"),
    }


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_is_taken(words: list[str]) -> None:
    parse(words[0], words[1:])


def test_the_containers_extras_exist() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    extras = re.search(r"'/src\[([a-z0-9,]+)\]'", text)
    project = (DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert extras is not None
    assert all(f"\n{name} = [" in project for name in extras[1].split(","))
    for name in re.findall(r"^COPY (.+) \S+$", text, re.M):
        assert all((DEPLOY.parent / each).exists() for each in name.split())


def test_the_servers_take_their_file(tmp_path: Path) -> None:
    server = shutil.which(
        "nats-server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if server is None:
        pytest.skip("no nats-server here")
    words = [server, "-t", "-c", str(DEPLOY / "nats.conf")]
    ran = subprocess.run(words, env={**os.environ, "NAME": "n1"}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and "is valid" in ran.stdout + ran.stderr
