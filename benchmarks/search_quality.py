"""Search quality on test collections, with the default settings: nDCG@10 and MAP by ir-measures.

    python -m benchmarks.search_quality DIRECTORY        with cran/ (cran.all.1400, cran.qry, cranqrel) and
                                                         cisi/ (CISI.ALL, CISI.QRY, CISI.REL)

Nothing is downloaded; `ir_measures` must be importable (it is among the development dependencies).

Cranfield: queries are numbered by their order in cran.qry (its own numbers have gaps, the judgements count by
order). Judgements go from 1 (best: a complete answer) to 4 (least), and -1, which is not explained anywhere: there
are 225 of them, one for each query. Gains are 5 minus the judgement for 1 to 4; -1 counts as not relevant. MAP
counts 1 to 4 as relevant. CISI's judgements are yes or no.

A document's title is the page's title, its abstract the text. `--expand` adds RM3 expansion.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from lycosa.index.broker import Broker
from lycosa.index.reader import ShardReader
from lycosa.index.schema import Page
from lycosa.index.writer import ShardWriter

_SECTION = re.compile(r"^\.([A-Z])\s*", re.MULTILINE)


def records(text: str) -> list[dict[str, str]]:
    """SMART's format: `.I number`, then sections `.T`, `.A`, `.W`."""
    found = []
    for part in re.split(r"^\.I\s+", text, flags=re.MULTILINE)[1:]:
        number, _, rest = part.partition("\n")
        pieces = _SECTION.split(rest)
        row = {"I": number.strip()}
        for name, value in zip(pieces[1::2], pieces[2::2], strict=True):
            row.setdefault(name, " ".join(value.split()))
        found.append(row)
    return found


def cranfield(path: Path) -> tuple[list[dict[str, str]], dict[str, str], list[tuple[str, str, int]]]:
    documents = records((path / "cran.all.1400").read_text("latin-1"))
    queries = records((path / "cran.qry").read_text("latin-1"))
    judged = []
    for line in (path / "cranqrel").read_text().splitlines():
        parts = line.split()
        if len(parts) >= 3:
            code = int(parts[2])
            judged.append((parts[0], parts[1], 5 - code if code > 0 else 0))
    return documents, {str(n): row["W"] for n, row in enumerate(queries, 1)}, judged


def cisi(path: Path) -> tuple[list[dict[str, str]], dict[str, str], list[tuple[str, str, int]]]:
    documents = records((path / "CISI.ALL").read_text("latin-1"))
    queries = {row["I"]: row.get("W", "") for row in records((path / "CISI.QRY").read_text("latin-1"))}
    rows = [line.split() for line in (path / "CISI.REL").read_text().splitlines() if line.strip()]
    return documents, queries, [(row[0], row[1], 1) for row in rows]


def plain(text: str) -> str:
    """A question as words only: its quotation marks and hyphens are not meant for the query language."""
    return re.sub(r'["()+*~:-]', " ", text)


def index(documents: list[dict[str, str]], into: Path, shards: int) -> list[ShardReader]:
    for shard in range(shards):
        writer = ShardWriter(into / f"{shard:02d}", "quality")
        for row in documents:
            if int(row["I"]) % shards == shard:
                url = f"http://collection.test/{row['I']}"
                page = Page(
                    int(row["I"]), url, "collection.test", row.get("T", ""), "", row.get("W", ""), at=1
                )
                writer.put(page)
        writer.commit([0, 0, 0])
        writer.close()
    return [ShardReader(into / f"{shard:02d}") for shard in range(shards)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--shards", type=int, default=4)
    args = parser.parse_args()
    import ir_measures
    from ir_measures import AP, nDCG

    from lycosa.index.expand import rm3
    from lycosa.index.query import parse

    for name, load in (("cran", cranfield), ("cisi", cisi)):
        documents, queries, judged = load(args.directory / name)
        scratch = Path(tempfile.mkdtemp(prefix="lycosa-quality-"))
        try:
            broker = Broker(index(documents, scratch, args.shards))
            qrels = [ir_measures.Qrel(query, document, gain) for query, document, gain in judged]
            for label in ("default", "expanded"):
                run: list[Any] = []
                for number, text in queries.items():
                    made = broker.plan(parse(plain(text)))
                    if label == "expanded":
                        made = rm3(broker, made)
                    run += [
                        ir_measures.ScoredDoc(number, str(row.id), row.score)
                        for row in broker.top(made, 1000)
                    ]
                found = ir_measures.calc_aggregate([nDCG @ 10, AP], qrels, run)
                print(f"{name} {label:8} nDCG@10 {found[nDCG @ 10]:.4f}  MAP {found[AP]:.4f}", flush=True)
        finally:
            shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
