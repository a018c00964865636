"""Many shards answer as one index: scores and order, whatever was deleted, replaced and merged."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError, StorageError
from lycosa.index.broker import Broker
from lycosa.index.expand import rm3
from lycosa.index.plan import Weights
from lycosa.index.query import parse
from lycosa.index.reader import LENGTHS, Clause, Hit, ShardReader
from lycosa.index.schema import Page
from lycosa.index.writer import ShardWriter
from tests.index.made import page, shards

WORDS = ("ape", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "host", "hosts")
QUERIES = (
    *("ape", "ape bee", "ape bee cat dog elk fox", "ape ape bee", "+ape bee", "ape AND bee", "cat -dog"),
    *(
        '"ape bee"',
        '"ape cat"~2 fox',
        '"ape bee cat"~2',
        "(ape OR bee) AND cat",
        "e*",
        "appe~",
        "intitle:ape",
        "-ape",
    ),
    *("hosts", "hosts ape", '"ape hosts"', "+hosts cat", "inheading:hosts OR hosts"),
    *("site:a.test ape", "type:pdf", "ape type:pdf", "bee inurl:a"),
    *("site:a.test OR site:b.test ape", "type:(pdf html) bee", "intitle:(ape bee) cat", "-type:(pdf html)"),
)

texts = st.lists(st.sampled_from(WORDS), max_size=12).flatmap(
    lambda few: st.sampled_from((1, 1, 1, 2, 30)).map(lambda times: " ".join(few * times))
)
"""Most are short, some are long."""
versions = st.tuples(
    st.integers(1, 25), texts, texts, st.sampled_from(("text/html", "application/pdf")), st.booleans()
)
histories = st.lists(st.lists(versions, max_size=12), min_size=1, max_size=4)
"""Commits, each with pages put (or, if the last is false, removed)."""


def made(version: tuple[int, str, str, str, bool]) -> Page:
    number, text, title, media, _ = version
    language = "es" if number % 4 == 0 else "en"  # of "hosts" the one makes "hosts", the other "host"
    return page(
        number, text, title[:40].strip(), type=media, at=1_700_000_000_000 + number % 3, language=language
    )


def written(
    path: Path, history: Sequence[Sequence[tuple[int, str, str, str, bool]]], only: int, of: int
) -> ShardReader:
    writer = ShardWriter(path, "made")
    for commit in history:
        for version in commit:
            if version[0] % of == only:
                if version[4] or version[0] % 3:
                    writer.put(made(version))
                else:
                    writer.remove(version[0])
        writer.commit([0, 0, 0])
    writer.close()
    return ShardReader(path)


def final(history: Sequence[Sequence[tuple[int, str, str, str, bool]]]) -> list[Page]:
    pages: dict[int, Page] = {}
    for version in (version for commit in history for version in commit):
        if version[4] or version[0] % 3:
            pages[version[0]] = made(version)
        else:
            pages.pop(version[0], None)
    return list(pages.values())


def ranks(ids: Sequence[int]) -> list[float]:
    return [number % 5 / 5 for number in ids]


def check(
    history: Sequence[Sequence[tuple[int, str, str, str, bool]]], count: int, most: int, weight: float
) -> None:
    """`weight`: of the ranks; with one, queries are expanded, too. Shards are asked one by one, and read as one."""
    scratch = Path(tempfile.mkdtemp(prefix="lycosa-test-"))
    try:
        whole = shards(scratch / "whole", final(history))
        parts = [written(scratch / str(shard), history, shard, count) for shard in range(count)]
        one = Broker(whole, ranks=ranks, rank_weight=weight)
        for readers in parts, [together(parts)]:
            equal(one, Broker(readers, ranks=ranks, rank_weight=weight), most, weight)
    finally:
        shutil.rmtree(scratch)


def together(parts: Sequence[ShardReader]) -> ShardReader:
    first, *beside = [part.path for part in parts]
    return ShardReader(first, 0, beside)


def equal(one: Broker, many: Broker, most: int, weight: float) -> None:
    assert many.statistics.totals == one.statistics.totals
    for text in QUERIES:
        plans = one.plan(parse(text)), many.plan(parse(text))
        assert plans[0] == plans[1]
        if weight:
            plans = rm3(one, plans[0]), rm3(many, plans[1])
            assert plans[0] == plans[1]
        (expected, total), (found, many_total) = one.found(plans[0], most), many.found(plans[1], most)
        assert many_total == total == len(one.top(plans[0], 1000))
        assert [row.id for row in found] == [row.id for row in expected], text
        assert [row.score for row in found] == pytest.approx([row.score for row in expected], abs=1e-9)


@settings(max_examples=8, deadline=None)
@given(histories, st.sampled_from((2, 3)), st.sampled_from((1, 3, 10)), st.sampled_from((0.0, 0.5)))
def test_shards_answer_as_one_index(
    history: list[list[tuple[int, str, str, str, bool]]], count: int, most: int, weight: float
) -> None:
    check(history, count, most, weight)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=150, deadline=None)
@given(histories, st.sampled_from((2, 3, 5)), st.sampled_from((1, 3, 10)), st.sampled_from((0.0, 0.5)))
def test_shards_answer_as_one_index_often(
    history: list[list[tuple[int, str, str, str, bool]]], count: int, most: int, weight: float
) -> None:
    check(history, count, most, weight)


@pytest.mark.parametrize("skewed", [False, True])
def test_shards_answer_as_one_index_after_merges_and_with_ties(tmp_path: Path, skewed: bool) -> None:
    """So many commits that tantivy merges segments, with what was deleted in them; a third of the pages say the
    same, some are a thousand times as long as others; `skewed`: one shard has nearly all of them, another none."""
    draw = Random(7)
    history: list[list[Page | int]] = []
    for _ in range(12):
        commit: list[Page | int] = []
        for _ in range(20):
            number = draw.randrange(1, 90)
            words = " ".join(draw.choice(WORDS) for _ in range(draw.choice((1, 3, 9, 9, 2000))))
            text = "ape bee ape" if number % 3 == 0 else words
            commit.append(number if draw.random() < 0.2 else page(number, text, WORDS[number % 2]))
        history.append(commit)
    last = {(each if isinstance(each, int) else each.id): each for commit in history for each in commit}
    whole = shards(tmp_path / "whole", [each for each in last.values() if isinstance(each, Page)])
    writers = [ShardWriter(tmp_path / str(shard), "made") for shard in range(4)]
    for commit in history:
        for each in commit:
            number = each if isinstance(each, int) else each.id
            shard = (0 if number > 4 else 1 + number % 2) if skewed else number % 4
            if isinstance(each, int):
                writers[shard].remove(number)
            else:
                writers[shard].put(each)
        for writer in writers:
            writer.commit([0, 0, 0])
    for writer in writers:
        writer.close()
    parts = [ShardReader(tmp_path / str(shard), shard) for shard in range(4)]
    assert parts[0].searcher.num_segments < len(history)  # merges there were
    one = Broker(whole, ranks=ranks, rank_weight=0.3)
    for readers in parts, [together(parts)]:
        for most in (1, 7, 40, 200):
            equal(one, Broker(readers, ranks=ranks, rank_weight=0.3), most, 0.0)


def test_shards_read_as_one_see_commits_of_each(tmp_path: Path) -> None:
    """Also after merges, in which the files go that were linked before."""
    writers = [ShardWriter(tmp_path / str(shard), "made") for shard in range(3)]
    for writer in writers:
        writer.commit([0, 0, 0])
    reader = ShardReader(tmp_path / "0", 0, [tmp_path / "1", tmp_path / "2"])
    assert reader.totals.pages == 0
    for number in range(1, 40):
        writers[number % 2].put(page(number, "ape", "bee"))
        writers[number % 2].commit([0, number, number])
        assert reader.reload()
        assert reader.df("body", "ape") == reader.totals.pages == number
        assert (
            len(reader.pages([hit.address for hit in reader.newest(reader.everything(), 100).rows])) == number
        )
    writers[0].remove(2)
    writers[0].commit([0, 99, 99])
    assert reader.reload() and reader.df("body", "ape") == 38
    for writer in writers:
        writer.close()


def test_shards_that_cannot_be_read_as_one(tmp_path: Path) -> None:
    shards(tmp_path, [page(1, "ape"), page(2, "bee")], 2)
    meta = tmp_path / "1" / "meta.json"
    whole = meta.read_text()
    meta.write_text(whole.replace('"n_body"', '"n_text"'))
    with pytest.raises(StorageError, match="different layouts: run `lycosa index --rebuild`"):
        ShardReader(tmp_path / "0", 0, [tmp_path / "1"])
    meta.write_text(whole[:100])
    with pytest.raises(StorageError, match="--rebuild"):
        ShardReader(tmp_path / "0", 0, [tmp_path / "1"])
    with pytest.raises(ConfigError, match="holds no index"):
        ShardReader(tmp_path / "0", 0, [tmp_path / "2"])


def corpus(count: int) -> list[Page]:
    draw = np.random.default_rng(7)
    pages = []
    for number in range(1, count + 1):
        length = int(draw.pareto(1.0) * 20) % 3000 + 1
        words = [f"w{min(int(draw.pareto(0.8)), 400)}" for _ in range(length)]
        pages.append(page(number, " ".join(words), language="xx"))
    return pages


def test_scores_are_those_of_a_bare_tantivy_index(tmp_path: Path) -> None:
    pages = corpus(400)
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("id", fast=True)
    builder.add_text_field("body", tokenizer_name="whitespace")
    schema = builder.build()
    bare = tantivy.Index(schema)
    writer = bare.writer(20_000_000, 1)
    for each in pages:
        document = tantivy.Document()
        document.add_unsigned("id", each.id)
        document.add_text("body", each.text)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    bare.reload()
    searcher = bare.searcher()
    # Skewed shards: the long pages in one of them.
    ordered = sorted(pages, key=lambda each: len(each.text))
    renumbered = {each.id: at for at, each in enumerate(ordered)}
    for shard in range(4):
        own = [each for each in pages if renumbered[each.id] // 100 == shard]
        writer_of = ShardWriter(tmp_path / str(shard), "made")
        for each in own:
            writer_of.put(each)
        writer_of.commit([0, 0, 0])
        writer_of.close()
    broker = Broker(
        [ShardReader(tmp_path / str(shard)) for shard in range(4)],
        weights=Weights(1.0, 0.0, 0.0, 0.0, 0.0, 1.2),
    )
    for words in (["w1"], ["w0", "w3"], ["w2", "w9", "w400"], [f"w{n}" for n in range(30)]):
        parts = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, "body", word)) for word in words]
        hits = searcher.search(tantivy.Query.boolean_query(parts), 400).hits
        ids = searcher.fast_field_values("id", [address for _, address in hits])
        expected = {number: score for number, (score, _) in zip(ids, hits, strict=True)}
        rows = broker.top(broker.plan(parse(" ".join(words))), 400)
        assert {row.id: row.score for row in rows} == pytest.approx(expected, rel=1e-5)
        best = broker.top(broker.plan(parse(" ".join(words))), 10)
        assert best == rows[:10]


def test_tf_solved_and_tf_explained(tmp_path: Path) -> None:
    pages = [*corpus(60), page(100, "w0 " * 700 + "w1"), page(101, "w0 " * 5000)]
    (reader,) = shards(tmp_path, pages)
    clauses = [Clause("body", (f"w{n}",)) for n in range(5)] + [Clause("body", ("w0", "w0"))]
    hits: list[Hit] = reader.top(reader.everything(), 100).rows
    assert len(hits) == 62
    lengths = reader._lengths("body", hits)
    for clause in clauses:
        solved = reader._solved(clause, hits, 100, lengths)
        told = reader._explained(clause, hits)
        assert solved.tf.tolist() == told.tf.tolist()
        there = told.tf > 0
        assert solved.length[there].tolist() == told.length[there].tolist()


def test_lengths_as_tantivy_keeps_them() -> None:
    assert len(LENGTHS) == 256
    assert LENGTHS[:41].tolist() == list(range(41))
    assert LENGTHS[41:50].tolist() == [42, 44, 46, 48, 50, 52, 54, 56, 60]
    assert LENGTHS[255] == 2_013_265_944


def test_many_equal_scores_are_ordered_by_id(tmp_path: Path) -> None:
    readers = shards(tmp_path, [page(number, "same text") for number in range(1, 200)], 3)
    rows = Broker(readers).top(Broker(readers).plan(parse("text")), 5)
    assert [row.id for row in rows] == [1, 2, 3, 4, 5]


def test_an_empty_index(tmp_path: Path) -> None:
    broker = Broker(shards(tmp_path, [], 2))
    for text in QUERIES:
        assert broker.top(broker.plan(parse(text)), 10) == []
    assert math.isfinite(broker.statistics.average("body"))
