"""Sketches and their index against exact Jaccard similarities: precision, recall, time and bytes per page.

    python benchmarks/sketches.py DIR [--most 400] [--filler 20000]

DIR has pages (`*.html`, `*.html.gz`) at any depth: a site's pages, for near duplicates as they are on the web.
In addition, every page comes in versions in which some share of the words was changed, dropped or moved, so that
every similarity occurs. `--filler` adds so many random sketches, to see what a large index
finds in addition.

Pairs: all pairs of a page and its versions, and all pairs of pages that share a shingle that is not common. A
pair is *found* if the index returns it for the threshold; it *is alike* if its exact similarity is at least the
threshold. `near` counts only pairs whose exact similarity is not within .05 of the threshold: what remains
are errors and not noise.
"""

from __future__ import annotations

import argparse
import gzip
import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from lycosa.content.alike import AlikeIndex
from lycosa.content.main_text import main_text
from lycosa.content.sketches import Sketch, jaccard, shingles_of, sketch
from lycosa.files import DiskFiles

THRESHOLDS = (0.9, 0.8, 0.5)


def texts_of(directory: Path, most: int) -> list[str]:
    found = []
    paths = sorted([*directory.rglob("*.html"), *directory.rglob("*.html.gz")])
    for path in paths[:: max(1, len(paths) // most)][:most]:
        data = path.read_bytes()
        text = main_text(gzip.decompress(data) if path.suffix == ".gz" else data).text
        if len(text.split()) >= 30:
            found.append(text)
    return found


def version(text: str, share: float, source: random.Random) -> str:
    """The text with some of its words changed."""
    words = text.split()
    for _ in range(max(1, int(share * len(words)))):
        at = source.randrange(len(words))
        what = source.randrange(3)
        if what == 0:
            words[at] = f"new{source.randrange(10**6)}"
        elif what == 1 and len(words) > 10:
            del words[at]
        else:
            words.insert(source.randrange(len(words)), words[at])
    return " ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--most", type=int, default=400)
    parser.add_argument("--filler", type=int, default=20_000)
    args = parser.parse_args()
    source = random.Random(1)
    base = texts_of(args.directory, args.most)
    texts = [
        each
        for text in base
        for each in (text, *(version(text, s, source) for s in (0.005, 0.02, 0.05, 0.1, 0.2)))
    ]
    sketch(texts[0])
    begun = time.process_time()
    sketches = [sketch(text) for text in texts]
    cost = 1e6 * (time.process_time() - begun) / len(texts)
    words = sum(len(text.split()) for text in texts) / len(texts)
    shingles = [set(shingles_of(text)) for text in texts]
    holders: dict[int, list[int]] = defaultdict(list)
    for n, each in enumerate(shingles):
        for shingle in each:
            holders[shingle].append(n)
    pairs = {(a, b) for them in holders.values() if len(them) <= 40 for a in them for b in them if a < b}
    exact = {pair: jaccard(shingles[pair[0]], shingles[pair[1]]) for pair in pairs}
    with tempfile.TemporaryDirectory() as place:
        index = AlikeIndex(DiskFiles(place), memory=8 << 20)
        for n in range(args.filler):
            index.add(
                (1 << 40) + n, Sketch(source.getrandbits(64), source.randbytes(128), source.randbytes(168))
            )
        for n, each in enumerate(sketches):
            index.add(n, each)
        index.save()
        size = sum(path.stat().st_size for path in Path(place).iterdir())
        print(f"{len(base)} pages and versions of them: {len(texts)} texts of {words:.0f} words,")
        print(f"{len(pairs)} pairs that share a shingle; {args.filler} random sketches besides\n")
        print(
            "| threshold | pairs alike | precision | recall | precision (near aside) | recall (near aside) |"
        )
        print("|---|---|---|---|---|---|")
        asked = 0.0
        for threshold in THRESHOLDS:
            begun = time.process_time()
            got = {
                (min(n, one.key), max(n, one.key))
                for n, each in enumerate(sketches)
                for one in index.find(each, threshold, most=1000)
                if one.key != n
            }
            asked = 1e6 * (time.process_time() - begun) / len(sketches)
            like = {pair for pair, value in exact.items() if value >= threshold}
            clear = {pair for pair in got | like if abs(exact.get(pair, 0.0) - threshold) > 0.05}
            rows = [(got, like), (got & clear, like & clear)]
            cells = [
                f"{len(a & b) / max(1, len(a)):.3f} | {len(a & b) / max(1, len(b)):.3f}" for a, b in rows
            ]
            print(f"| {threshold} | {len(like)} | {' | '.join(cells)} |")
        print(f"\nSketch: {cost:.0f} µs a text. Lookup: {asked:.0f} µs among {len(index)} pages.")
        print(f"Disk: {size / len(index):.0f} bytes a page; memory {index.nbytes >> 20} MiB.")


if __name__ == "__main__":
    main()
