"""What `lycosa.frontier` offers to the rest of the program."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lycosa.frontier


def test_every_name_is_there_and_those_alone() -> None:
    for name in lycosa.frontier.__all__:
        assert hasattr(lycosa.frontier, name)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        lycosa.frontier.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse(Path(lycosa.frontier.__file__).read_text())
    (checking,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    seen = {
        name.name: str(node.module)
        for node in checking.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert sorted(seen) == sorted(lycosa.frontier.__all__)
    assert seen == {name: f"lycosa.frontier.{where}" for name, where in lycosa.frontier._MODULES.items()}


def test_options_do_not_load_the_kernels() -> None:
    code = "import sys; from lycosa.frontier import FrontierOptions; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
