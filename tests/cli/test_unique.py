"""`lycosa unique`."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import zstandard

from lycosa.cli.main import main
from lycosa.seen.stores import NAMES


def urls(count: int, seed: int = 1) -> list[str]:
    dice = random.Random(seed)
    return [f"http://h{dice.randrange(40)}.example/{dice.randrange(count // 3)}" for _ in range(count)]


def lines(capfd) -> list[str]:
    return capfd.readouterr().out.splitlines()


def write(path: Path, rows: list[str], end: str = "\n") -> str:
    path.write_bytes("".join(row + end for row in rows).encode())
    return str(path)


@pytest.mark.parametrize("store", NAMES)
def test_every_line_comes_out_once(tmp_path, capfd, store: str) -> None:
    rows = urls(30_000)
    name = write(tmp_path / "u.txt", rows)
    assert main(["unique", "--store", store, "--memory", "1MB", name]) == 0
    out = lines(capfd)
    assert sorted(out) == sorted(set(rows))
    if store == "memory":
        assert out == list(dict.fromkeys(rows))


@pytest.mark.parametrize("store", ["memory", "veuniq", "auto"])
def test_into_remembers_across_runs(tmp_path, capfd, store: str) -> None:
    first, second = urls(8000, 1), urls(8000, 2)
    into = str(tmp_path / "known")
    args = ["unique", "--store", store, "--memory", "1MB", "--into", into]
    assert main([*args, write(tmp_path / "1", first)]) == 0
    assert set(lines(capfd)) == set(first)
    assert main([*args, write(tmp_path / "2", second)]) == 0
    assert sorted(lines(capfd)) == sorted(set(second) - set(first))
    assert main([*args, str(tmp_path / "1"), str(tmp_path / "2")]) == 0
    assert lines(capfd) == []


def test_files_left_by_a_killed_run_do_no_harm(tmp_path, capfd) -> None:
    into = tmp_path / "known"
    args = ["unique", "--store", "veuniq", "--memory", "1MB", "--into", str(into)]
    assert main([*args, write(tmp_path / "1", urls(5000, 1))]) == 0
    (into / "store" / "repo-00000099").write_bytes(b"half")
    (into / "unique.part").write_bytes(b"half")
    capfd.readouterr()
    assert main([*args, str(tmp_path / "1")]) == 0
    assert lines(capfd) == []
    assert not (into / "store" / "repo-00000099").exists()


def test_formats_and_line_ends(tmp_path, capfd) -> None:
    rows = ["http://a/", "http://b/", "http://a/"]
    text = "".join(row + "\r\n" for row in rows).encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    packer = zstandard.ZstdCompressor()
    (tmp_path / "b.zst").write_bytes(packer.compress(text) + packer.compress(b"http://c/\n\nhttp://d/"))
    assert main(["unique", str(tmp_path / "a.gz"), str(tmp_path / "b.zst")]) == 0
    assert lines(capfd) == ["http://a/", "http://b/", "http://c/", "http://d/"]


def test_stdin_and_count(tmp_path) -> None:
    text = "http://a/\nhttp://b/\nhttp://a/\n"
    done = subprocess.run(
        [sys.executable, "-m", "lycosa.cli.main", "unique", "--count", "--json"],
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    row = json.loads(done.stdout)
    assert (row["offered"], row["unique"]) == (3, 2)
    assert row["seconds"] > 0 and row["peak_rss"] > 1 << 20


def test_canonical(tmp_path, capfd) -> None:
    rows = ["http://A.example:80/x/../y#top", "http://a.example/y", "no url", "http://a.example/y?"]
    assert main(["unique", "--canonical", write(tmp_path / "u", rows)]) == 0
    assert lines(capfd) == ["http://a.example/y", "http://a.example/y?"]


def test_json_lines(tmp_path, capfd) -> None:
    assert main(["unique", "--json", write(tmp_path / "u", ["http://a/", "http://a/"])]) == 0
    assert [json.loads(row) for row in lines(capfd)] == [{"url": "http://a/"}]


def test_lines_that_are_no_urls_are_lines_all_the_same(tmp_path, capfd) -> None:
    (tmp_path / "u").write_bytes(b"\xff\xfe\n\x00\nabc\n\xff\xfe\n://\n")
    assert main(["unique", "--count", str(tmp_path / "u")]) == 0
    assert lines(capfd) == ["4"]


def test_mistakes_get_one_line(tmp_path, capfd) -> None:
    def fails(*args: str) -> str:
        assert main(["unique", *args]) == 2
        return capfd.readouterr().err

    assert "nothing.txt" in fails(str(tmp_path / "nothing.txt"))
    (tmp_path / "x.gz").write_bytes(b"not gzip")
    assert "x.gz" in fails(str(tmp_path / "x.gz"))
    (tmp_path / "y.gz").write_bytes(gzip.compress(b"http://a/\n" * 1000)[:-20])
    assert "y.gz" in fails(str(tmp_path / "y.gz"))
    (tmp_path / "z.zst").write_bytes(b"not zstandard")
    assert "z.zst" in fails(str(tmp_path / "z.zst"))
    (tmp_path / "long").write_bytes(b"x" * (3 << 20))
    assert "line" in fails(str(tmp_path / "long"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    good = write(tmp_path / "good", ["http://a/"])
    assert "other" in fails("--into", str(other), good)
    into = str(tmp_path / "kept")
    assert main(["unique", "--into", into, "--store", "memory", good]) == 0
    capfd.readouterr()
    assert "--store memory" in fails("--into", into, "--store", "veuniq", good)


def test_a_damaged_directory_is_named(tmp_path, capfd) -> None:
    into = tmp_path / "kept"
    good = write(tmp_path / "good", urls(20_000))
    assert main(["unique", "--into", str(into), "--store", "memory", good]) == 0
    data = bytearray((into / "unique").read_bytes())
    data[len(data) // 2] ^= 1
    (into / "unique").write_bytes(data)
    capfd.readouterr()
    assert main(["unique", "--into", str(into), "--store", "memory", good]) == 3
    assert "unique" in capfd.readouterr().err


def test_no_temporary_directory_is_told_in_one_line(tmp_path, capfd, monkeypatch) -> None:
    (tmp_path / "urls").write_text("http://a.test/\n")
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        assert main(["unique", str(tmp_path / "urls")]) == 3
    said = capfd.readouterr().err
    assert said.startswith("lycosa unique: no temporary directory can be made") and said.count("\n") == 1
