"""Main text on labelled pages: F1, leak and time of ours, trafilatura and resiliparse, in one run.

    PYTHONPATH=.:RIVALS python benchmarks/main_text.py DIR           all pages
    PYTHONPATH=.:RIVALS python benchmarks/main_text.py DIR --every 5

DIR is the directory `dev` of the repository Murrough-Foley/web-content-extraction-benchmark. RIVALS is a
directory with trafilatura and resiliparse (`pip install --target RIVALS trafilatura resiliparse`); missing
ones are left out.

F1 is that of the words of a text and its reference (as multisets), averaged over pages. Leak is the share of a
page's boilerplate snippets that are in the text, averaged over pages that have such. `with` is the same for
the snippets that must be in it. Times are CPU time, mean and median.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

_TOKEN = re.compile(r"\w+")


def f1_of(text: str, reference: str) -> float:
    got, want = Counter(_TOKEN.findall(text.lower())), Counter(_TOKEN.findall(reference.lower()))
    if not want or not got:
        return float(not want and not got)
    return 2 * sum((got & want).values()) / (sum(got.values()) + sum(want.values()))


def share_of(text: str, snippets: list[str]) -> float | None:
    text = text.lower()
    return sum(each.lower() in text for each in snippets) / len(snippets) if snippets else None


def extractors() -> dict[str, Callable[[str], str]]:
    from lycosa.content.main_text import main_text

    found: dict[str, Callable[[str], str]] = {"lycosa": lambda page: main_text(page).text}
    try:
        import trafilatura

        found["trafilatura"] = lambda page: trafilatura.extract(page) or ""
    except ImportError:
        pass
    try:
        from resiliparse.extract.html2text import extract_plain_text

        found["resiliparse"] = lambda page: extract_plain_text(page, main_content=True)
    except ImportError:
        pass
    return found


def mean(values: list[float]) -> float:
    return sum(values) / max(1, len(values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--every", type=int, default=1, help="only every n-th page")
    args = parser.parse_args()
    ours = extractors()
    scores: dict[str, dict[str, list[tuple[float, float | None, float | None]]]] = {}
    times: dict[str, list[float]] = defaultdict(list)
    for extract in ours.values():
        extract("<p>Once, so that what is compiled is compiled.</p>")
    size = 0
    paths = sorted((args.directory / "html").glob("*.html.gz"))[:: args.every]
    for path in paths:
        page = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        size += len(page)
        told = json.loads(
            (args.directory / "ground-truth" / f"{path.name[:-8]}.json").read_text(encoding="utf-8")
        )
        truth, kind = told["ground_truth"], told["_internal"]["page_type"]["primary"]
        for name, extract in ours.items():
            begun = time.process_time()
            try:
                text = extract(page)
            except Exception:  # of a rival
                text = ""
            times[name].append(1000 * (time.process_time() - begun))
            row = (
                f1_of(text, truth.get("main_content") or ""),
                share_of(text, truth.get("without") or []),
                share_of(text, truth.get("with") or []),
            )
            for each in ("all", "collection" if kind == "category" else kind):
                scores.setdefault(each, {}).setdefault(name, []).append(row)
    print(f"{len(paths)} pages, {size // len(paths):,} characters on average\n")
    print("| pages | number | " + " | ".join(f"{name} F1 | leak | with" for name in ours) + " |")
    print("|---|---|" + "---|---|---|" * len(ours))
    for kind, by_name in scores.items():
        cells = []
        for name in ours:
            rows = by_name[name]
            leaks, withs = [b for _, b, _ in rows if b is not None], [c for _, _, c in rows if c is not None]
            cells.append(f"{mean([a for a, _, _ in rows]):.3f} | {mean(leaks):.3f} | {mean(withs):.3f}")
        print(f"| {kind} | {len(by_name['lycosa'])} | " + " | ".join(cells) + " |")
    print("\n| | mean ms | median ms |\n|---|---|---|")
    for name in ours:
        print(f"| {name} | {mean(times[name]):.2f} | {statistics.median(times[name]):.2f} |")


if __name__ == "__main__":
    main()
