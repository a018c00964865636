"""Claims of the documentation that code can check: numbers, names, tables of ARCHITECTURE, README, guide, formats.

Numbers are read from the prose by a regular expression that must match exactly once, and compared with the constant
or the default they speak of: changing either side alone fails.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest.mock import MagicMock

import msgspec
import pytest

from lycosa import records
from lycosa.cli import main as cli
from lycosa.cluster import growing
from lycosa.content import joins, yields
from lycosa.crawl import agent, budgets, harvest, history, manifest, rules, scheduling, visit, watchdog
from lycosa.crawl.config import Options
from lycosa.crawl.shard import Shard
from lycosa.fetch import http
from lycosa.fetch.robots_policy import RobotsOptions
from lycosa.frontier.sydney import left_packed, left_store
from lycosa.frontier.sydney import room as sydney
from lycosa.log import snapshot
from lycosa.pages import rows as page_rows
from lycosa.records import Why
from lycosa.render import options as render_options
from lycosa.url import hrefs
from tests.crawl import test_kill

ROOT = Path(__file__).parent.parent
DEFAULTS = Options()


@cache
def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def prose(name: str) -> str:
    """A page with every run of spaces and line ends as one space."""
    return " ".join(page(name).split())


def section(name: str, heading: str) -> str:
    found = page(name).partition(f"\n## {heading}\n")
    assert found[1], f"{name} has no section {heading!r}"
    return found[2].partition("\n## ")[0]


def table(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose first line begins with `head`."""
    lines = [line.strip() for line in text.splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith(head))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def code(text: str) -> list[str]:
    """What stands in backticks, outside of fences."""
    return re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


# -- numbers

ARCHITECTURE = "docs/ARCHITECTURE.md"
WORDS = {"two": 2, "three": 3, "five": 5, "six": 6, "ten": 10, "a dozen": 12}

NUMBERS = {
    r"\*\*Commit\*\*, every ([\d.]+) seconds": DEFAULTS.commit_seconds,
    r"\*\*Snapshot\*\*, every (\d+) minutes": DEFAULTS.snapshot.seconds / 60,
    r"minutes, every ([\d,]+) records": DEFAULTS.snapshot.records,
    r"neither of the last (\d+) snapshots": snapshot.KEPT,
    r"may finish \((\d+) s\)": scheduling.GRACE,
    r"kills a crawl up to (\d+) times with SIGKILL": test_kill.KILLS,
    r"cut into shards \((\d+) unless": manifest.DEFAULT_SHARDS,
    r"up to (\d+) MiB of URLs": harvest.MOST_BYTES >> 20,
    r"links \((\d+) MiB of URLs\)": harvest.MOST_BYTES >> 20,
    r"visits pause for (a) second": visit._SHORT_WAIT,
    r"up to (\w+) redirects are followed at once": RobotsOptions().redirects,
    r"has not moved for (\d+) seconds": watchdog.NOTICE,
    r"has been read for (\d+) seconds": watchdog.LIMIT,
    r"\(exit code (\d+); agents of a team": watchdog._CODE,
    r"threads of their own, (\w+) each": harvest._READERS,
    r"of their own, (\w+) each, so": http._DECODERS,
    r"kept a core busy for (\d+) seconds": growing._SECONDS,
    r"with ([\d,]+) pages of several shards pending": growing.ENOUGH,
    r"archives every (\d+) seconds or": DEFAULTS.snapshot.archive_seconds,
    r"archives every \d+ seconds or (\d+) MB": DEFAULTS.snapshot.archive_bytes >> 20,
    r"up to (\d+) pages over it": DEFAULTS.politeness.pages_per_visit,
    r"configured minimum \((\d+) s\)": DEFAULTS.politeness.wait,
    r"and (\d+) times as long as the last fetch": DEFAULTS.politeness.factor,
    r"the last fetch took \(at most (\d+) s\)": DEFAULTS.politeness.max_wait,
    r"a short wait of its own \(([\d.]+) s\)": DEFAULTS.politeness.address_wait,
    r"at most (\d+) hours old": RobotsOptions().expiry / 3600,
    r"given up after (\d+) failures": DEFAULTS.robots.attempts,
    r"it gives at most (\d+) links at a time": sydney.MOST_BACK,
    r"a cursor, (\d+) bytes in a file": left_packed._ENTRY.size,
    r"\| (\d+) bytes per entry, in files": left_packed._ENTRY.size,
    r"\| ([\d,]+) sites as objects": agent._HOT_SITES,
    r"budgets \| ([\d,]+) hosts and as many domains": budgets.ROWS,
    r"\| (\d+) bytes a host that has any": left_store.ROW.itemsize + 4,  # and its place in a bucket
    r"shard \((\d+) of them\)": manifest.DEFAULT_SHARDS,
    r"`href_cache` entries of (\d+) bytes": hrefs.ENTRY,
    r"parsed robots rules \| (\d+) MB": rules.KEPT >> 20,
    r"yields \| ([\d,]+) patterns of all shards": yields.ROWS,
    r"joins \| ([\d,]+) forms per shard": joins.FORMS,
    r"in sorted files, (\d+) bytes per page": page_rows.ROW_BYTES,
}

GUIDE = "docs/guide.md"
GUIDE_NUMBERS = {
    r"paths with more than (\d+) segments": DEFAULTS.scope.max_path_depth,
    r"in which one segment occurs more than (\w+) times": DEFAULTS.scope.max_repeats,
    r"URLs of more than ([\d,]+) characters": DEFAULTS.scope.max_url_length,
    r"due within a day \(`horizon`\).{0,9} A failed URL is tried again after (\w+) minutes": DEFAULTS.retry.first
    / 60,
    r"It serves up to (\d+) pages \(`--pages-per-visit`\)": DEFAULTS.politeness.pages_per_visit,
    r"up to `--visits` \((\d+)\) hosts at a time": DEFAULTS.visits,
    r"the site's Crawl-delay \(up to (\d+) s;": DEFAULTS.politeness.max_crawl_delay,
    r"the status over time, at most ([\d,]+) lines": history.MOST,
    r"\(commits are ([\d.]+) s apart\)": DEFAULTS.commit_seconds,
    r"each known page gets ([\d.]+) fetches per day": DEFAULTS.refresh.per_page,
    r"less than (\d+) characters of text\) are rendered": render_options.LEAST_TEXT,
}


@pytest.mark.parametrize("claim", NUMBERS)
def test_numbers_of_the_architecture(claim: str) -> None:
    found = [row for row in re.finditer(claim, prose(ARCHITECTURE)) if row[1]]
    assert len(found) == 1, f"{len(found)} times in {ARCHITECTURE}"
    said = found[0][1].replace(",", "")
    number = 1.0 if said == "a" else float(WORDS.get(said, said))
    assert number == NUMBERS[claim]


@pytest.mark.parametrize("claim", GUIDE_NUMBERS)
def test_numbers_of_the_guide(claim: str) -> None:
    found = re.findall(claim, prose(GUIDE))
    assert len(found) == 1, f"{len(found)} times in {GUIDE}"
    said = found[0].replace(",", "")
    assert float(WORDS.get(said, said)) == GUIDE_NUMBERS[claim]


def test_the_steps_of_admission() -> None:
    said = re.search(r"all below one half, then ([\d, ]+), none", prose(ARCHITECTURE))
    assert said is not None
    (half, first), *rest = sydney._STEPS
    assert (half, first) == (0.5, sydney.ALL)
    assert [int(t) for t in said[1].split(", ")] == [t for _, t in rest]
    assert rest[-1][0] == 1.0


def test_hosts_in_play_are_counted_for_the_whole_crawl() -> None:
    said = re.search(
        r"those \*in play\* \((\d+) times as many as visits, .{0,40}counted for the whole crawl",
        prose(ARCHITECTURE),
    )
    source = (ROOT / "lycosa/crawl/agent.py").read_text(encoding="utf-8")
    does = re.search(
        r"back_queues = -\(-\(options.frontier.back_queues or (\d+) \* options.visits\) // manifest.shards\)",
        source,
    )
    assert said is not None
    assert does is not None
    assert said[1] == does[1]


# -- names and tables


def test_paths_that_the_architecture_names_exist() -> None:
    named = [each for each in code(page(ARCHITECTURE)) if re.match(r"(lycosa|tests|docs)/", each)]
    assert len(named) > 30
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_the_folds_are_the_parts_of_a_snapshot() -> None:
    parts = Shard.parts.fget  # type: ignore[attr-defined]
    assert sorted(code(row[2])[0] for row in table(page(ARCHITECTURE), "| fold |")) == sorted(
        parts(MagicMock())
    )


def test_the_table_of_a_visit_has_every_reason() -> None:
    text = "\n".join(row[1] for row in table(page(ARCHITECTURE), "| step |"))
    assert set(re.findall(r"`(?:Skipped|Deferred)\(([a-z-]+)\)`", text)) == {why.value for why in Why}


BELOW = {"compiled"}
"""A package that is no room."""


def rooms() -> set[str]:
    return {path.parent.name for path in (ROOT / "lycosa").glob("*/__init__.py")} - BELOW


def test_rooms_and_the_modules_below_them() -> None:
    assert {code(row[0])[0] for row in table(page(ARCHITECTURE), "| room |")} == rooms()
    said = re.search(r"Below the rooms are small modules .*? may use: (.*?)\.", prose(ARCHITECTURE))
    assert said is not None
    modules = {path.stem for path in (ROOT / "lycosa").glob("[!_]*.py")}
    assert set(code(said[1])) == modules | BELOW
    shape = re.search(r"^lycosa/ +one package per question: (.*)$", page("README.md"), re.M)
    assert shape is not None
    assert set(shape[1].split()) == rooms()


def test_imports_go_the_way_that_the_linter_checks() -> None:
    contracts = tomllib.loads(page("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    wanted = []
    for layer in layers[:-1]:
        names = [name.strip(" ()") for name in layer.split("|")]
        wanted.append([name for name in names if name in rooms()])
    line = re.search(r"^cli → .*$", section(ARCHITECTURE, "The rooms"), re.M)
    assert line is not None
    *above, below = line[0].split(" → ")
    assert [each.split(" | ") for each in above] == wanted
    assert {name for name in below.split(", ") if name != "..."} <= set(layers[-1].split(" : "))


# -- seams: read from the sources, without importing them


class Class:
    """What a class offers: methods with their parameters, attributes with None."""

    def __init__(self, module: str, node: ast.ClassDef) -> None:
        self.module = module
        self.name = node.name
        self.bases = [re.sub(r"\[.*", "", ast.unparse(base)).rpartition(".")[2] for base in node.bases]
        self.own: dict[str, list[str] | None] = {}
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                is_property = any(ast.unparse(each) == "property" for each in part.decorator_list)
                self.own[part.name] = None if is_property else [row.arg for row in part.args.args][1:]
                self.own |= dict.fromkeys(set(_assigned(part)) - set(self.own))
            elif isinstance(part, ast.AnnAssign):
                self.own[ast.unparse(part.target)] = None
            elif isinstance(part, ast.Assign):
                self.own |= dict.fromkeys(map(ast.unparse, part.targets))


def _assigned(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node.value) == "self"
        ):
            yield node.attr


@cache
def classes() -> dict[str, list[Class]]:
    found: dict[str, list[Class]] = {}
    for path in sorted((ROOT / "lycosa").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "lycosa").with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(Class(module, node))
    return found


def members(of: Class) -> dict[str, list[str] | None]:
    every: dict[str, list[str] | None] = {}
    for base in of.bases:
        for above in classes().get(base, []):
            if above.name != of.name:
                every |= members(above)
    return {name: how for name, how in (every | of.own).items() if not re.match(r"_(?!_len)", name)}


def implements(one: Class, seam: Class) -> bool:
    """Whether a class has everything that a Protocol asks for, with parameters of the same names."""
    have = members(one)
    return all(
        name in have and (how is None or (have[name] or [])[: len(how)] == how)
        for name, how in members(seam).items()
    )


SEAMS = {code(row[0])[0]: row for row in table(section(ARCHITECTURE, "The seams"), "| seam |")}


@pytest.mark.parametrize("seam", SEAMS)
def test_seams_and_their_implementations(seam: str) -> None:
    module, _, name = seam.rpartition(".")
    contract = next(each for each in classes()[name] if each.module == module)
    assert "Protocol" in contract.bases
    found = {
        one.name
        for named in classes().values()
        for one in named
        if not {"Protocol", "ABC"} & set(one.bases)
        and not one.name.startswith("_")
        and implements(one, contract)
    }
    assert set(code(SEAMS[seam][1])) == found
    assert [path for path in code(SEAMS[seam][2]) if not (ROOT / path).is_file()] == []


# -- the README and the guide


def test_verbs_that_the_pages_name_exist() -> None:
    answers = re.search(r"- \*\*Inspection\*\*: (.*?)\. - ", prose("README.md"))
    assert answers is not None
    named = set(code(answers[1]))
    for name in ("README.md", ARCHITECTURE, "docs/guide.md", "docs/operating.md"):
        named |= set(re.findall(r"`lycosa ([a-z]+)\b", page(name)))
    assert named - set(cli.verbs()) == set()


def test_the_number_on_the_first_screen_was_measured() -> None:
    said = re.search(r"([\d.]+) times as many pages per second", prose("README.md"))
    measured = re.search(r"\| pages/s, lycosa : scrapy \| ([\d.]+) ", page("docs/benchmarks/crawl.md"))
    assert said is not None
    assert measured is not None
    assert said[1] == measured[1]


def test_the_readme_counts_the_kills() -> None:
    said = re.search(r"kill a crawl (a dozen|\d+) times with SIGKILL", prose("README.md"))
    assert said is not None
    assert int(WORDS.get(said[1], said[1])) == test_kill.KILLS


def test_exit_codes_of_the_guide() -> None:
    rows = {int(row[0]) for row in table(section("docs/guide.md", "Exit codes"), "| code |")}
    told = (cli.__doc__ or "").partition("Exit codes:")[2]
    assert rows == set(map(int, re.findall(r"(\d+) (?=[a-z])", told)))
    assert {number for _, number in cli._CODES} <= rows
    assert watchdog._CODE in rows


# -- formats


RECORDS = [
    records.Configured, records.Seeded, records.Received, records.Fetched, records.Skipped, records.Deferred,
    records.Robots, records.Duplicates, records.Lost, records.Reread, records.Learned,
]  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_the_log(kind: type[msgspec.Struct]) -> None:
    tag = kind.__struct_config__.tag
    part = page("docs/formats/log.md").partition(f"\n### {kind.__name__} ({tag})\n")[2].partition("\n### ")[0]
    said = [name for row in table(part, "| field |") for name in code(row[0])]
    assert sorted(said) == sorted(kind.__struct_fields__)


def test_no_record_is_missing_from_the_log_page() -> None:
    assert set(RECORDS) == set(records.Record.__args__)
    part = page("docs/formats/log.md").partition("\n### Why\n")[2]
    assert sorted(code(row[0])[0] for row in table(part, "| word |")) == sorted(why.value for why in Why)


def test_every_format_is_listed() -> None:
    there = {path.name for path in (ROOT / "docs/formats").glob("*.md")} - {"README.md"}
    assert set(re.findall(r"^\| \[([\w-]+\.md)\]", page("docs/formats/README.md"), re.M)) == there
