"""Completion scripts and manual pages hold what the parsers have, and the tools that read them take them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lycosa.cli.completion import bash, fish, zsh
from lycosa.cli.described import described
from lycosa.cli.main import main, verbs
from lycosa.cli.man import page


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _lycosa; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script + asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_verbs_actions_flags_and_choices() -> None:
    script = bash(described())
    assert completed(script, "lycosa", "cra") == ["crawl"]
    assert set(completed(script, "lycosa", "")) == set(verbs())
    assert completed(script, "lycosa", "crawl", "--max-d") == ["--max-depth"]
    assert completed(script, "lycosa", "crawl", "--scope", "do") == ["domain"]
    assert completed(script, "lycosa", "cluster", "cre") == ["create"]
    assert completed(script, "lycosa", "cluster", "remove", "--y") == ["--yes"]
    assert completed(script, "lycosa", "completion", "--he") == ["--help"]
    assert completed(script, "lycosa", "graph", "t") == ["top"]
    assert completed(script, "lycosa", "control", "DIR", "go") == ["go-on"]
    assert completed(script, "lycosa", "cluster", "control", "NAME", "go") == ["go-on"]


def test_every_verb_and_flag_is_in_every_script() -> None:
    found = described()
    for script in (bash(found), zsh(found), fish(found)):
        for verb in found:
            assert verb.name in script
            assert all(name.lstrip("-") in script for flag in verb.flags for name in flag.names)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_takes_its_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_manual_pages_are_written_and_man_has_nothing_to_say_against_them(tmp_path: Path) -> None:
    assert main(["man", "--to", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "lycosa.1",
        *(f"lycosa-{verb}.1" for verb in verbs()),
    }
    crawl = (tmp_path / "lycosa-crawl.1").read_text()
    assert "\\-\\-max\\-pages" in crawl and ".SH OPTIONS" in crawl
    assert "\n\\&." in page(described()[0]._replace(notes="\n.a line that begins like a request"))
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    pages = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", *pages], capture_output=True, text=True, check=True
    )
    assert "error" not in done.stderr.lower() and "warning: macro" not in done.stderr.lower(), done.stderr


def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man", "fly"]) == 2 and "no verb 'fly'" in capsys.readouterr().err
