"""A crawl that lost part of its directory: it says so, and once repaired it ends with the right set."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.archive.writer import MISSING
from lycosa.crawl import agent as agents
from lycosa.crawl.agent import End
from lycosa.crawl.manifest import shard_directory
from lycosa.crawl.repair import look, mend
from lycosa.errors import StorageError
from lycosa.files import DiskFiles
from lycosa.log.reader import LogReader
from lycosa.records import Fetched, Skipped
from lycosa.url.domains import Domains
from tests.crawl import little
from tests.crawl.scripted import crawl, expected

SHARDS = 4
OPTIONS = {"snapshot": {"records": 30, "seconds": 600.0}, "archive": {"rotate_bytes": 4_000}}
SECRET = {url for url in expected() if "secret" in url}


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Short segments, so that a small crawl has several; a short list of suffixes, which is read at every start."""
    patch.setattr(agents, "SEGMENT_BYTES", 1_500)
    patch.setattr(Domains, "bundled_list", staticmethod(lambda: b"com\n"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same crawl as it was after ten pages, after thirty, and at its end."""
    patch = pytest.MonkeyPatch()
    make_small(patch)
    place = tmp_path_factory.mktemp("stages")
    found = {}
    start = 0.0
    for name, pages in (("ten", 10), ("thirty", 30), ("end", 0)):
        ran = crawl(DiskFiles(place / "crawl"), start, limits={"pages": pages}, **OPTIONS)
        start = ran.until + 1.0
        found[name] = place / name
        shutil.copytree(place / "crawl", found[name])
    patch.undo()
    assert ran.end is End.FINISHED
    return found


def answered(directory: Path) -> Counter[str]:
    """How often each URL is in the logs."""
    counts: Counter[str] = Counter()
    for number in range(SHARDS):
        log = LogReader(DiskFiles(directory / shard_directory(number) / "log"))
        counts.update(record.url for _, record in log.scan() if isinstance(record, Fetched | Skipped))
    return counts


def check_whole(directory: Path) -> None:
    """Every URL that the web has, each once."""
    counts = answered(directory)
    assert {url for url in counts if "nowhere" not in url and "secret" not in url} == expected() - SECRET
    assert max(counts.values()) == 1, counts.most_common(3)


def go_on(directory: Path) -> None:
    assert crawl(DiskFiles(directory), 1000.0, **OPTIONS).end is End.FINISHED


def contents(directory: Path) -> dict[str, bytes]:
    """What all files hold."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def check_nothing_deleted(before: dict[str, bytes], directory: Path) -> None:
    """Every byte is where it was, or aside; but for the torn end of a log, which opening it cuts off."""
    after = contents(directory)
    for name, data in before.items():
        here, aside = after.get(name, b""), after.get(f"set-aside/now/{name}", b"")
        torn = name.endswith(".seg") and data.startswith(aside or here)
        assert data in (here, aside, here + aside) or (torn and (aside or here)), f"{name} is gone"


Damage = Callable[[Path, int, dict[str, Path]], None]


def segments(directory: Path, number: int) -> list[Path]:
    return sorted((directory / shard_directory(number) / "log").glob("*.seg"))


def no_directory(directory: Path, number: int, _: dict[str, Path]) -> None:
    shutil.rmtree(directory / shard_directory(number))


def no_log(directory: Path, number: int, _: dict[str, Path]) -> None:
    shutil.rmtree(directory / shard_directory(number) / "log")


def no_first(directory: Path, number: int, _: dict[str, Path]) -> None:
    segments(directory, number)[0].unlink()


def no_middle(directory: Path, number: int, _: dict[str, Path]) -> None:
    rows = segments(directory, number)
    rows[len(rows) // 2].unlink()


def no_last(directory: Path, number: int, _: dict[str, Path]) -> None:
    segments(directory, number)[-1].unlink()


def cut_middle(directory: Path, number: int, _: dict[str, Path]) -> None:
    rows = segments(directory, number)
    path = rows[len(rows) // 2]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_last(directory: Path, number: int, _: dict[str, Path]) -> None:
    path = segments(directory, number)[-1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(directory: Path, number: int, _: dict[str, Path]) -> None:
    path = segments(directory, number)[0]
    data = bytearray(path.read_bytes())
    data[150] ^= 0xFF
    path.write_bytes(data)
    shutil.rmtree(directory / shard_directory(number) / "snapshots")  # else nobody reads that far


def older_log(directory: Path, number: int, stages: dict[str, Path]) -> None:
    no_log(directory, number, stages)
    place = shard_directory(number)
    shutil.copytree(stages["ten"] / place / "log", directory / place / "log")


def older_shard(directory: Path, number: int, stages: dict[str, Path]) -> None:
    """Restored whole from an earlier backup."""
    no_directory(directory, number, stages)
    place = shard_directory(number)
    shutil.copytree(stages["ten"] / place, directory / place)


def older_all_but(directory: Path, number: int, stages: dict[str, Path]) -> None:
    """All other shards were."""
    for other in range(SHARDS):
        if other != number:
            older_shard(directory, other, stages)


DAMAGES: list[Damage] = [
    no_directory,
    no_log,
    no_first,
    no_middle,
    no_last,
    cut_middle,
    cut_last,
    flipped,
    older_log,
    older_shard,
    older_all_but,
]
HARMLESS = (older_shard, older_all_but, cut_last, no_last)
"""May cut what nobody knows of: then it is as if the machine had stopped before."""


@pytest.mark.parametrize(("number", "stage"), [(0, "end"), (1, "thirty"), (2, "end"), (3, "thirty")])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_is_missing_is_noticed_and_repaired(
    damage: Damage, number: int, stage: str, stages: dict[str, Path], tmp_path: Path
) -> None:
    directory = tmp_path / "crawl"
    shutil.copytree(stages[stage], directory)
    damage(directory, number, stages)
    before = contents(directory)
    try:
        go_on(directory)
    except StorageError as error:
        assert "repair" in str(error), error
        found = look(DiskFiles(directory))
        assert found.broken, error
        mend(DiskFiles(directory), found, "now")
        check_nothing_deleted(before, directory)
        assert not look(DiskFiles(directory)).broken, "once is enough"
        go_on(directory)
    else:
        assert damage in HARMLESS
    check_whole(directory)
    assert not look(DiskFiles(directory)).broken


def test_a_crawl_that_is_whole_is_left_alone(stages: dict[str, Path]) -> None:
    found = look(DiskFiles(stages["end"]))
    assert not found.broken and found.lines() == [] and found.urls == []
    logs = [LogReader(DiskFiles(stages["end"] / shard_directory(number) / "log")) for number in range(SHARDS)]
    assert found.pages == sum(isinstance(record, Fetched) for log in logs for _, record in log.scan())


def test_the_refusal_names_the_shard_and_what_is_lost(stages: dict[str, Path], tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    shutil.copytree(stages["end"], directory)
    no_directory(directory, 2, stages)
    before = contents(directory)
    with pytest.raises(StorageError) as refused:
        go_on(directory)
    assert "the log of shard 02 ends at record 0 and" in str(refused.value)
    assert f"lycosa repair {directory}" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert before == contents(directory), "nothing was changed"
    found = look(DiskFiles(directory))
    assert found.urls, "what the archive has and no log knows is listed"
    counts = answered(directory)
    assert not set(found.urls) & set(counts)


def test_a_state_file_that_a_snapshot_names(tmp_path: Path) -> None:
    files, options = DiskFiles(tmp_path), {**OPTIONS, "seen": {"store": "drum"}}
    crawl(files, limits={"pages": 30}, **options)
    for path in tmp_path.glob("shards/02/*/*"):
        if path.parent.name in ("seen", "sites"):
            path.unlink()
    with pytest.raises(StorageError, match=r"of shard 02 is missing.*lycosa repair"):
        crawl(files, 1000.0, **options)
    mend(files, look(files), "now")
    assert crawl(files, 1000.0, **options).end is End.FINISHED
    check_whole(tmp_path)


@pytest.mark.parametrize("cut", [False, True], ids=["missing", "cut"])
def test_archive_files_that_are_gone_are_marked(stages: dict[str, Path], tmp_path: Path, cut: bool) -> None:
    directory = tmp_path / "crawl"
    shutil.copytree(stages["thirty"], directory)
    path = sorted((directory / "archive").glob("*.warc.gz"))[-1]
    if cut:
        path.write_bytes(path.read_bytes()[:-20])
    else:
        path.unlink()
    with pytest.raises(StorageError, match="lycosa repair"):
        go_on(directory)
    found = look(DiskFiles(directory))
    assert [row.name for row in found.archive] == [path.name]
    assert found.archive[0].exchanges > 0
    mend(DiskFiles(directory), found, "now")
    assert path.name in (directory / "archive" / MISSING).read_text()
    size = path.stat().st_size if cut else None
    go_on(directory)
    check_whole(directory)
    assert (path.stat().st_size if path.exists() else None) == size, "nothing is added to it"
    assert not look(DiskFiles(directory)).broken


def test_what_others_sent_into_a_gap_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page of one host is linked once, from the other host: nobody but its sender knows it."""
    monkeypatch.setattr(agents, "SEGMENT_BYTES", 600)
    count = 12
    pages: dict[str, little.Answer] = {}
    for number in range(count):
        links = [f"http://b.test/{number}", f"http://a.test/{number + 1}"]
        pages[f"http://a.test/{number}"] = little.html(*links)
        pages[f"http://b.test/{number}"] = little.html()
    truth = {*pages, f"http://a.test/{count}"}
    options = {
        "politeness": {"wait": 1.0, "pages_per_visit": 1},
        "snapshot": {"records": 8, "seconds": 600.0},
    }

    def run(directory: Path) -> little.Ran:
        return little.crawl(DiskFiles(directory), pages, ["http://a.test/0"], start=1000.0, **options)

    whole = tmp_path / "whole"
    assert set(run(whole).fetched) == truth
    rows = [path.relative_to(whole) for path in sorted(whole.glob("shards/*/log/*.seg"))]
    assert len(rows) > 10
    for number, row in enumerate(rows):
        directory = tmp_path / str(number)
        shutil.copytree(whole, directory)
        (directory / row).unlink()
        with pytest.raises(StorageError, match="lycosa repair"):
            run(directory)
        mend(DiskFiles(directory), look(DiskFiles(directory)), "now")
        assert set(run(directory).fetched) == truth, f"without {row}"
