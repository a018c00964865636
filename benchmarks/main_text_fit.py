"""Fit the scorer of the main text to the development part of WCXB, and write its model file.

    python benchmarks/main_text_fit.py DIR              cross-validation: F1 and leak of pages not fitted to
    python benchmarks/main_text_fit.py DIR --write      then fit to all pages of DIR and write
                                                        lycosa/content/main_text.model

DIR is the directory `dev` of the repository Murrough-Foley/web-content-extraction-benchmark (`html`,
`ground-truth`). Its directory `test` is for evaluation, and is never read here.

Labels. The words of a page, block after block, are aligned with those of its reference text (the best common
subsequence in which beginning a run of words costs 1.5 and each word is worth 1). The label of a block is the
share of its words that are in the alignment.

Trees. Gradient boosting of complete trees with the logistic loss, on columns cut into at most 64 bins. A block's
weight is its contribution to its page's F1, plus a little for being a block. The first scorer is fitted to the
features; the second to the features and to the first one's scores of pages that it was not fitted to. Folds are of
hosts, not of pages: no site is in two of them. Everything follows from one seed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np

from lycosa.content import main_text
from lycosa.content.blocks import Blocks
from lycosa.content.feature_kernels import FEATURES, LEVELS, WIDER, describe, widen
from lycosa.content.main_text import LIMIT, MAGIC, Trees

_OPEN = 1.5
_MOST_PAGE, _MOST_TEXT = 24_000, 12_000
FOLDS = 5
BINS = 64
_SAMPLE = 0.4
"""The share of rows that a tree sees."""


@numba.njit(cache=True)
def align(page: Any, text: Any, hit: Any) -> None:
    """Mark the words of a page that are in its reference text."""
    n, m = page.size, text.size
    back = np.zeros((n + 1, m + 1), np.uint8)
    best = np.zeros(m + 1, np.float32)
    run = np.full(m + 1, -1e9, np.float32)
    for i in range(1, n + 1):
        corner_best, corner_run = best[0], run[0]
        for j in range(1, m + 1):
            kept_best, kept_run = best[j], run[j]
            trace = 0
            now = np.float32(-1e9)
            if page[i - 1] == text[j - 1]:
                if corner_run >= corner_best - _OPEN:
                    now, trace = corner_run + np.float32(1), 4
                else:
                    now = corner_best - np.float32(_OPEN) + np.float32(1)
            top = best[j]
            if best[j - 1] > top:
                top, trace = best[j - 1], trace | 1
            if now >= top:
                top, trace = now, (trace & 4) | 2
            best[j], run[j] = top, now
            back[i, j] = trace
            corner_best, corner_run = kept_best, kept_run
    i, j, inside = n, m, False
    while i > 0 and j > 0:
        trace = back[i, j]
        if inside or trace & 3 == 2:
            hit[i - 1] = 1
            inside = trace & 4 != 0
            i -= 1
            j -= 1
        elif trace & 1:
            j -= 1
        else:
            i -= 1


_TOKEN = re.compile(r"\w+")


class Example:
    """A labelled page."""

    def __init__(self, name: str, html: bytes, truth: dict[str, Any]) -> None:
        self.name = name
        told = truth["ground_truth"]
        self.text = told.get("main_content") or ""
        self.without = told.get("without") or []
        kind = truth["_internal"]["page_type"]["primary"]
        self.kind = "collection" if kind == "category" else kind
        self.host = truth.get("url", name).split("://")[-1].split("/")[0].removeprefix("www.")
        self.blocks = Blocks(html)
        self.parts = [self.blocks.text(n) for n in range(len(self.blocks))]
        count = len(self.parts)
        self.rows = np.zeros((count, FEATURES + WIDER), np.float32)
        self.levels = np.zeros((count, LEVELS), np.int64)
        self.groups = np.zeros(count, np.int64)
        self.kinds = describe(
            self.blocks.octets, self.blocks.rows, self.blocks.elements, self.rows, self.levels, self.groups
        )
        self.tokens = [_TOKEN.findall(part.lower()) for part in self.parts]
        self.labels, self.weights = self._labels()

    def _labels(self) -> tuple[Any, Any]:
        ids: dict[str, int] = {}
        wanted = [ids.setdefault(word, len(ids)) for word in _TOKEN.findall(self.text.lower())][:_MOST_TEXT]
        flat = [ids.setdefault(word, len(ids)) for part in self.tokens for word in part][:_MOST_PAGE]
        hit = np.zeros(sum(map(len, self.tokens)), np.uint8)
        align(np.array(flat, np.int64), np.array(wanted, np.int64), hit)
        labels, weights, at = [], [], 0
        for part in self.tokens:
            labels.append(float(hit[at : at + len(part)].mean()) if part else 0.0)
            weights.append(len(part))
            at += len(part)
        sizes = np.array(weights, np.float32)
        share = sizes / (len(wanted) + 0.25 * sizes.sum() + 20)
        return np.array(labels, np.float32), (share + 0.3 / max(1, len(sizes))).astype(np.float32)

    def widen(self, said: Any) -> None:
        widen(self.blocks.rows, self.kinds, self.levels, self.groups, self.blocks.elements, said, self.rows)


def load(directory: Path) -> list[Example]:
    found = []
    for path in sorted((directory / "html").glob("*.html.gz")):
        name = path.name.split(".")[0]
        truth = json.loads((directory / "ground-truth" / f"{name}.json").read_text(encoding="utf-8"))
        found.append(Example(name, gzip.decompress(path.read_bytes()), truth))
    return found


# -- trees


@numba.njit(cache=True)
def _histogram(binned: Any, place: Any, grad: Any, hess: Any, use: Any, out: Any) -> None:
    for c in range(use.size):
        column = binned[use[c]]
        for n in range(place.size):
            out[c, place[n], column[n], 0] += grad[n]
            out[c, place[n], column[n], 1] += hess[n]


@numba.njit(cache=True)
def _descend(binned: Any, columns: Any, cuts: Any, place: Any) -> None:
    for n in range(place.size):
        at = place[n]
        place[n] = 2 * at + (1 if binned[columns[at], n] > cuts[at] else 0)


@numba.njit(cache=True)
def _split(
    histogram: Any, use: Any, width: int, penalty: float, least: float, columns: Any, cuts: Any
) -> None:
    for at in range(width):
        best, columns[at], cuts[at] = 1e-6, use[0], BINS - 1
        for c in range(use.size):
            g = h = 0.0
            for value in range(BINS):
                g += histogram[c, at, value, 0]
                h += histogram[c, at, value, 1]
            gl = hl = 0.0
            for value in range(BINS - 1):
                gl += histogram[c, at, value, 0]
                hl += histogram[c, at, value, 1]
                if hl < least or h - hl < least:
                    continue
                gain = gl * gl / (hl + penalty) + (g - gl) ** 2 / (h - hl + penalty) - g * g / (h + penalty)
                if gain > best:
                    best, columns[at], cuts[at] = gain, use[c], value


def fit(rows: Any, labels: Any, weights: Any, count: int, depth: int, rate: float = 0.12) -> Trees:
    """Boosted trees."""
    source = np.random.default_rng(1)
    made = Trees(
        np.zeros((count, (1 << depth) - 1), np.uint8),
        np.zeros((count, (1 << depth) - 1), np.float32),
        np.zeros((count, 1 << depth), np.float32),
        0.0,
    )
    edges = []
    binned = np.zeros((rows.shape[1], rows.shape[0]), np.uint8)
    sample = rows[source.permutation(len(rows))[:50_000]]
    for c in range(rows.shape[1]):
        cuts = np.unique(np.quantile(sample[:, c], np.linspace(0, 1, BINS + 1)[1:-1]).astype(np.float32))
        edges.append(cuts)
        binned[c] = np.searchsorted(cuts, rows[:, c], side="left")
    weights = weights / weights.mean()
    share = float((labels * weights).sum() / weights.sum())
    made.base = float(np.log(share / (1 - share)))
    total = np.full(len(rows), made.base, np.float64)
    for tree in range(count):
        p = 1 / (1 + np.exp(-total))
        grad, hess = ((p - labels) * weights), (np.maximum(p * (1 - p), 1e-4) * weights)
        some = np.sort(source.permutation(len(rows))[: int(_SAMPLE * len(rows))])
        part, g, h = np.ascontiguousarray(binned[:, some]), grad[some], hess[some]
        place, whole = np.zeros(len(some), np.int32), np.zeros(len(rows), np.int32)
        use = np.sort(source.permutation(rows.shape[1])[: max(8, rows.shape[1] // 2)])
        for level in range(depth):
            width = 1 << level
            histogram = np.zeros((use.size, width, BINS, 2))
            _histogram(part, place, g, h, use, histogram)
            columns, cuts = np.zeros(width, np.int64), np.zeros(width, np.int64)
            _split(histogram, use, width, 5.0, 20.0, columns, cuts)
            for at in range(width):
                column, cut = int(columns[at]), int(cuts[at])
                made.columns[tree, width - 1 + at] = column
                limit = edges[column][cut] if cut < len(edges[column]) else np.float32(np.inf)
                made.limits[tree, width - 1 + at] = limit
            _descend(part, columns, cuts, place)
            _descend(binned, columns, cuts, whole)
        sums = np.bincount(place, g, 1 << depth), np.bincount(place, h, 1 << depth)
        made.leaves[tree] = -rate * sums[0] / (sums[1] + 5.0)
        total += made.leaves[tree][whole]
    return made


# -- judging


def f1_of(example: Example, chosen: Any) -> float:
    from collections import Counter

    got: Counter[str] = Counter()
    for n in np.nonzero(chosen)[0]:
        got.update(example.tokens[n])
    want = Counter(_TOKEN.findall(example.text.lower()))
    if not want or not got:
        return float(not want and not got)
    both = sum((got & want).values())
    return 2 * both / (sum(got.values()) + sum(want.values()))


def leak_of(example: Example, chosen: Any) -> float | None:
    if not example.without:
        return None
    text = "\n".join(example.parts[n] for n in np.nonzero(chosen)[0]).lower()
    return sum(each.lower() in text for each in example.without) / len(example.without)


def judge(examples: list[Example], said: list[Any], limit: float, by_kind: bool = False) -> str:
    scores: dict[str, list[tuple[float, float | None]]] = {}
    for example, each in zip(examples, said, strict=True):
        chosen = each > limit
        row = (f1_of(example, chosen), leak_of(example, chosen))
        scores.setdefault("all", []).append(row)
        if by_kind:
            scores.setdefault(example.kind, []).append(row)
    return "  ".join(
        f"{kind} {np.mean([a for a, _ in rows]):.4f}/{np.mean([b for _, b in rows if b is not None]):.3f}"
        for kind, rows in scores.items()
    )


def folds_of(examples: list[Example]) -> list[int]:
    hosts = sorted({example.host for example in examples})
    source = np.random.default_rng(7)
    fold = dict(zip(hosts, source.integers(0, FOLDS, len(hosts)).tolist(), strict=True))
    return [fold[example.host] for example in examples]


def fitted(
    examples: list[Example], folds: list[int], first: tuple[int, int]
) -> tuple[Any, Any, Any, list[Any]]:
    """Labels, weights and folds of all blocks, and the scores of a first scorer fitted to the other folds."""
    labels = np.concatenate([each.labels for each in examples])
    weights = np.concatenate([each.weights for each in examples])
    rows = np.concatenate([each.rows[:, :FEATURES] for each in examples])
    owner = np.repeat(np.array(folds), [len(each.labels) for each in examples])
    said: list[Any] = [None] * len(examples)
    for fold in range(FOLDS):
        away = owner != fold
        trees = fit(rows[away], labels[away], weights[away], *first)
        for n, each in enumerate(examples):
            if folds[n] == fold:
                said[n] = trees.score(each.rows)
                each.widen(said[n])
    return labels, weights, owner, said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--first", type=int, nargs=2, default=(50, 5), metavar=("TREES", "DEPTH"))
    parser.add_argument("--second", type=int, nargs=2, default=(70, 5), metavar=("TREES", "DEPTH"))
    args = parser.parse_args()
    examples = load(args.directory)
    folds = folds_of(examples)
    perfect = [each.labels for each in examples]
    best = judge(examples, perfect, 0.5, True)
    print(f"{len(examples)} pages, {sum(map(len, perfect))} blocks; with perfect scores: {best}")
    first, second = tuple(args.first), tuple(args.second)
    labels, weights, owner, ones = fitted(examples, folds, first)
    rows = np.concatenate([each.rows for each in examples])
    twos: list[Any] = [None] * len(examples)
    for fold in range(FOLDS):
        away = owner != fold
        trees = fit(rows[away], labels[away], weights[away], *second)
        for n, example in enumerate(examples):
            if folds[n] == fold:
                twos[n] = trees.score(example.rows)
    for limit in (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6):
        print(f"above {limit}: first {judge(examples, ones, limit)}; both {judge(examples, twos, limit)}")
        sys.stdout.flush()
    print(judge(examples, twos, LIMIT, True))
    if args.write:
        write(fit(rows[:, :FEATURES], labels, weights, *first), fit(rows, labels, weights, *second))


def write(one: Trees, two: Trees) -> None:
    data = MAGIC + one.to_bytes() + two.to_bytes()
    path = Path(main_text.__file__).with_name("main_text.model")
    path.write_bytes(data)
    print(f"{path}: {len(data)} bytes")


if __name__ == "__main__":
    main()
