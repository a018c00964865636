"""Search quality on test collections, with the default settings: nDCG@10 and MAP by ir-measures.

    python -m benchmarks.search_quality DIRECTORY        with cran/ (cran.all.1400, cran.qry, cranqrel),
                                                         cisi/ (CISI.ALL, CISI.QRY, CISI.REL),
                                                         lisa/ (LISA0.001 ..., LISA.QUE, LISARJ.NUM) and
                                                         npl/ (doc-text, query-text, rlv-ass), or some of them

The files are those of the University of Glasgow's page of test collections, of which many public repositories hold
copies. Nothing is downloaded; `ir_measures` must be importable (it is among the development dependencies).

Settings were tuned on Cranfield and CISI only. LISA and NPL show how they perform elsewhere: no setting was
chosen or changed by them.

Cranfield: queries are numbered by their order in cran.qry (its own numbers have gaps, the judgements count by
order). Judgements go from 1 (best: a complete answer) to 4 (least), and -1, which is explained nowhere: there
are 225 of them, one for each query. Gains are 5 minus the judgement for 1 to 4; -1 counts as not relevant. MAP
counts 1 to 4 as relevant. The others' judgements are yes or no.

A document's title becomes the page's title, its abstract the text. Each collection is searched as it is, with RM3
expansion, and by tantivy alone: its English stemmer, one field, its own query parser.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tantivy

from lycosa.index.broker import Broker
from lycosa.index.expand import rm3
from lycosa.index.query import parse
from lycosa.index.reader import ShardReader
from lycosa.index.schema import Page
from lycosa.index.writer import ShardWriter

Collection = tuple[list[dict[str, str]], dict[str, str], list[tuple[str, str, int]]]
"""Documents; queries by number; query, document, gain."""
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


def cranfield(path: Path) -> Collection:
    documents = records((path / "cran.all.1400").read_text("latin-1"))
    queries = records((path / "cran.qry").read_text("latin-1"))
    judged = []
    for line in (path / "cranqrel").read_text().splitlines():
        parts = line.split()
        if len(parts) >= 3:
            code = int(parts[2])
            judged.append((parts[0], parts[1], 5 - code if code > 0 else 0))
    return documents, {str(n): row["W"] for n, row in enumerate(queries, 1)}, judged


def cisi(path: Path) -> Collection:
    documents = records((path / "CISI.ALL").read_text("latin-1"))
    queries = {row["I"]: row.get("W", "") for row in records((path / "CISI.QRY").read_text("latin-1"))}
    rows = [line.split() for line in (path / "CISI.REL").read_text().splitlines() if line.strip()]
    return documents, queries, [(row[0], row[1], 1) for row in rows]


def lisa(path: Path) -> Collection:
    documents = []
    for file in sorted(path.glob("LISA[0-9].*")):
        for part in re.split(r"\n\*{20,}\n?", file.read_text("latin-1")):
            if found := re.match(r"\s*Document\s+(\d+)\s*\n(.*)", part, re.DOTALL):
                title, _, text = re.sub(r"\n[ \t]+\n", "\n\n", found[2]).partition("\n\n")
                documents.append({"I": found[1], "T": " ".join(title.split()), "W": " ".join(text.split())})
    queries = numbered((path / "LISA.QUE").read_text("latin-1").split("#"))
    numbers = (path / "LISARJ.NUM").read_text().split()  # query, how many, their numbers
    judged = []
    while numbers:
        query, end = numbers[0], 2 + int(numbers[1])
        judged += [(query, document, 1) for document in numbers[2:end]]
        numbers = numbers[end:]
    return documents, queries, judged


def npl(path: Path) -> Collection:
    texts = numbered((path / "doc-text").read_text("latin-1").split("\n   /\n"))
    queries = numbered((path / "query-text").read_text("latin-1").split("\n/\n"))
    rows = [part.split() for part in (path / "rlv-ass").read_text().split("\n   /\n")]
    judged = [(row[0], document, 1) for row in rows for document in row[1:] if row[0].isdigit()]
    return [{"I": number, "W": text} for number, text in texts.items()], queries, judged


def numbered(parts: list[str]) -> dict[str, str]:
    """Texts by the numbers in their first lines."""
    pairs = [part.strip().partition("\n") for part in parts]
    return {
        number.strip(): " ".join(text.split()).lower()
        for number, _, text in pairs
        if number.strip().isdigit()
    }


def bare_tantivy(
    documents: list[dict[str, str]], queries: dict[str, str]
) -> Iterator[tuple[str, str, float]]:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("number", stored=True, tokenizer_name="raw")
    builder.add_text_field("body", tokenizer_name="en_stem", index_option="position")
    index = tantivy.Index(builder.build())
    writer = index.writer(48 << 20, 1)
    for row in documents:
        text = f"{row.get('T', '')}\n{row.get('W', '')}"
        writer.add_document(tantivy.Document(number=row["I"], body=text))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    for number, text in queries.items():
        query = index.parse_query(re.sub(r"[^\w ]", " ", text).lower(), ["body"])
        for score, address in searcher.search(query, 1000).hits:
            yield number, searcher.doc(address)["number"][0], score


def lycosa(broker: Broker, queries: dict[str, str], *, expanded: bool) -> Iterator[tuple[str, str, float]]:
    for number, text in queries.items():
        made = broker.plan(parse(plain(text)))
        for row in broker.top(rm3(broker, made) if expanded else made, 1000):
            yield number, str(row.id), row.score


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

    for name, load in (("cran", cranfield), ("cisi", cisi), ("lisa", lisa), ("npl", npl)):
        if not (args.directory / name).is_dir():
            continue
        documents, queries, judged = load(args.directory / name)
        qrels = [ir_measures.Qrel(*each) for each in judged]
        with tempfile.TemporaryDirectory(prefix="lycosa-quality-") as scratch:
            broker = Broker(index(documents, Path(scratch), args.shards))
            runs = {
                "default": lycosa(broker, queries, expanded=False),
                "expanded": lycosa(broker, queries, expanded=True),
                "tantivy": bare_tantivy(documents, queries),
            }
            for label, rows in runs.items():
                found = ir_measures.calc_aggregate(
                    [nDCG @ 10, AP], qrels, [ir_measures.ScoredDoc(*row) for row in rows]
                )
                print(f"{name} {label:8} nDCG@10 {found[nDCG @ 10]:.4f}  MAP {found[AP]:.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
