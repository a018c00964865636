"""Near duplicates of real pages against exact Jaccard similarities: separately within a site and across sites.

    python benchmarks/near_duplicates.py DIR DIR ... [--most 300]

Each DIR is a site: its pages (`*.html`, `*.html.gz`) at any depth, up to `--most` of them, evenly spaced. All
pairs are compared exactly, by the sets of shingles of their main texts. Then, for each threshold: the pairs that
are alike by the MinHash estimate, by the simhash, and by both together, over all pairs of sketches, so that the
sketches are judged and not the index (benchmarks/sketches.py has the index); and the pairs that the clusters of
`lycosa.content.clusters` join: pairs of a page and its representative.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.sketches import texts_of
from lycosa.content.alike import AlikeIndex
from lycosa.content.clusters import FEW, LIKE, Clusters, Members
from lycosa.content.sketches import shingles_of, similarities, sketch
from lycosa.files import DiskFiles

MOST_BITS = {0.9: (3, 6, 9, 12), 0.8: (12, 16), 0.5: (24,)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sites", type=Path, nargs="+")
    parser.add_argument("--most", type=int, default=300)
    args = parser.parse_args()
    texts, sites = [], []
    for number, site in enumerate(args.sites):
        found = [text for text in texts_of(site, args.most) if len(text.split()) >= FEW]
        texts += found
        sites += [number] * len(found)
    exact = exact_similarities(texts)
    sketches = [sketch(text) for text in texts]
    least = np.array([np.frombuffer(each.least, np.uint8) for each in sketches])
    like = np.array([similarities(each.least, least) for each in sketches])
    hashes = np.array([each.simhash for each in sketches], np.uint64)
    bits = np.bitwise_count(hashes[:, None] ^ hashes[None, :])
    upper = np.triu(np.ones(exact.shape, np.bool_), 1)
    same = np.equal.outer(np.array(sites), np.array(sites))
    places = {"within": upper & same, "across": upper & ~same}
    print(f"{len(texts)} pages of {len(args.sites)} sites\n")
    print("| pairs | threshold | alike | by | found | precision | recall | wrong by more than .1 |")
    print("|---|---|---|---|---|---|---|---|")
    for place, mask in places.items():
        for threshold, limits in MOST_BITS.items():
            ways = {"MinHash": like >= threshold}
            ways |= {f"SimHash, {most} bits": bits <= most for most in limits}
            ways |= {f"both, {most} bits": (like >= threshold) & (bits <= most) for most in limits}
            for name, found in ways.items():
                row(place, threshold, name, exact, found & mask, mask)
    with tempfile.TemporaryDirectory() as directory:
        clusters = Clusters(AlikeIndex(DiskFiles(directory)), Members(), sketches.__getitem__)
        for n, each in enumerate(sketches):
            clusters.put(n, each, n)
        leaders, _ = clusters.members.sizes()
        joined = np.zeros(exact.shape, np.bool_)
        for leader in leaders:
            for member in clusters.members.of(int(leader)):
                joined[min(int(leader), member.key), max(int(leader), member.key)] = True
        for place, mask in places.items():
            row(place, LIKE, "clusters", exact, joined & mask, mask)


def row(
    place: str, threshold: float, name: str, exact: np.ndarray, found: np.ndarray, mask: np.ndarray
) -> None:
    alike = (exact >= threshold) & mask
    both = np.count_nonzero(found & alike)
    precision, recall = both / max(1, np.count_nonzero(found)), both / max(1, np.count_nonzero(alike))
    far = np.count_nonzero(found & (exact < threshold - 0.1))
    shown = "-" if name == "clusters" else f"{recall:.3f}"
    print(
        f"| {place} | {threshold} | {np.count_nonzero(alike)} | {name} | {np.count_nonzero(found)} |"
        f" {precision:.3f} | {shown} | {far} |"
    )


def exact_similarities(texts: list[str]) -> np.ndarray:
    """The Jaccard similarity of every pair."""
    sets = [set(shingles_of(text)) for text in texts]
    holders: dict[int, list[int]] = defaultdict(list)
    for n, each in enumerate(sets):
        for shingle in each:
            holders[shingle].append(n)
    shared = np.zeros((len(texts), len(texts)), np.int32)
    for them in holders.values():
        if len(them) > 1:
            shared[np.ix_(them, them)] += 1
    sizes = np.array([len(each) for each in sets])
    union = sizes[:, None] + sizes[None, :] - shared
    return shared / np.maximum(union, 1)


if __name__ == "__main__":
    main()
