"""The checker of the documentation finds what it is there to find, and the documentation has none of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.cli.main import verbs
from tests import check_docs

VERBS = "".join(f"## lycosa {verb}\n" for verb in verbs())


def problems(tmp_path: Path, text: str, **more: str) -> list[str]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("[guide](docs/guide.md)\n")
    (tmp_path / "docs" / "guide.md").write_text(f"# Guide\n{VERBS}\n{text}\n")
    for name, body in more.items():
        (tmp_path / "docs" / f"{name}.md").write_text(body)
    return check_docs.Checker(tmp_path).run()


def test_the_documentation_itself() -> None:
    assert check_docs.Checker(check_docs.ROOT).run() == []


def test_a_good_page(tmp_path: Path) -> None:
    text = "[up](#guide) [other](other.md#two-words) `[code](nowhere.md)`\n```\n[code](nowhere.md)\n# no\n```"
    assert problems(tmp_path, text, other="# Two words\n") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[x](nowhere.md)", "leads nowhere"),
        ("[`x`](nowhere.md)", "leads nowhere"),
        ("[x](#nothing)", "no heading #nothing"),
        ("[x](../../outside.md)", "leaves the project"),
        ("```toml\nvisits = \n```", "not TOML"),
        ("```toml\nvisist = 1\n```", "did you mean 'visits'"),
        ("```toml\n[scope]\nmode = 'everything'\n```", "not a crawl.toml"),
        ("```python\ndef f(:\n```", "not Python"),
        ("```console\n$ lycosa crwal x\n```", "no verb 'crwal'"),
        ("```console\n$ echo x | lycosa crawl --nonsense \\\n  --into x\n```", "--nonsense"),
        ("```console\n$ lycosa status\n```", "missing: DIR"),
        ("```\nopen", "not closed"),
        ("see /home/me/x", "some machine"),
    ],
)
def test_a_bad_page(tmp_path: Path, text: str, told: str) -> None:
    (found,) = problems(tmp_path, text)
    assert told in found


def test_an_orphan_and_a_missing_section(tmp_path: Path) -> None:
    assert problems(tmp_path, "", lost="# Lost\n") == ["docs/lost.md:1: no other page links here"]
    (tmp_path / "docs" / "lost.md").unlink()
    (tmp_path / "docs" / "guide.md").write_text(f"# Guide\n{VERBS.replace('## lycosa crawl', '')}")
    assert check_docs.Checker(tmp_path).run() == ["docs/guide.md:1: no section `lycosa crawl`"]
