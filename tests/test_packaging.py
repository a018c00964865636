"""What an installation is."""

from __future__ import annotations

import tomllib
from pathlib import Path


def test_an_editable_install_is_a_plain_path() -> None:
    """Else setuptools makes an import hook, which no type checker follows, and prints a page about it."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["package-dir"] == {"": "."}
