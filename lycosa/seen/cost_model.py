"""The cost model of DRUM and VEUNIQ: how often every byte of the URLs passes over the disk.

The *overhead* of a method is the number of times that b n bytes, the n URLs that are checked at b bytes
each, are written to or read from disk (the VEUNIQ slides; the measure is IRLbot's).

DRUM, with RAM R, disk D, arrays of M bytes, hash H, pointer P, U URLs known at the start and a share
p of the n that is unique:

    k = R / 4M                              buckets: two sets of two arrays of M bytes each
    D = R^2 (H + b) / (8 M (H + P))         the disk that k buckets can fill, each sorted in RAM
    overhead = 2 + p + 2H/b + (H + b)(2UH + pHn) / (bD)

that is: every URL is written to its bucket and read back (2), its key as well (2H/b), the unique ones are
written out (p), and for every D bytes in buckets the repository of hashes is read and written once.

Origin: the slides give no formula, and IRLbot's text was not available. The form is a
reconstruction, and its constants are fitted to the slides: M = 256,000 to their k, b = 110 with H = 8
and P = 4 to their D, and the constant terms with p = 1/9 to their 2.26; U = 100 million hardly matters.
So k, D and the 2.26 do not test the model. It was not fitted to how the overhead grows with n and
shrinks with R: there it agrees in all cells but one (2.2646, where the slides have 2.27).

VEUNIQ. The slides give results and N, but no formula; this one is derived from the algorithm, not quoted:

    overhead = 2 (1 - s)(1 + H/b) + p + (H + b)(2UH + pHn) / (b N R)

URLs of the current repository, the share s, go through RAM alone. The others are written to the waiting
file of their repository and read back in its turn, with their keys. Unique ones are written out. A cycle
holds R / (H + b) URLs and reads and writes one of N repositories. The locality s is not in the slides
either, and is fitted: s = 0.765 gives their limit for large R (0.62). The remaining difference, up to
0.06 at R = 2 GB and shrinking as 1/R, is a cost of small memory that their model has and this one lacks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """The parameters, in bytes and URLs."""

    url: float = 110
    """b: bytes of a URL."""
    hash: float = 8
    """H: bytes of a key."""
    pointer: float = 4
    """P: bytes of a pointer, for sorting a bucket in place."""
    array: float = 256_000
    """M: bytes of one array of a bucket in RAM."""
    start: float = 100e6
    """U: URLs known at the start."""
    unique: float = 1 / 9
    """p: the share of checked URLs that is new."""
    local: float = 0.765
    """s: the share of URLs that belongs to the current repository."""


SLIDES = Setting()


def buckets(ram: float, setting: Setting = SLIDES) -> float:
    """k: how many buckets fit into RAM."""
    return ram / (4 * setting.array)


def drum_disk(ram: float, setting: Setting = SLIDES) -> float:
    """D: bytes of disk that the buckets can use."""
    s = setting
    return ram * ram * (s.hash + s.url) / (8 * s.array * (s.hash + s.pointer))


def _passes(n: float, s: Setting) -> float:
    """Bytes of repository read and written if there were one pass for every byte of URLs and keys."""
    return (s.hash + s.url) * (2 * s.start * s.hash + s.unique * s.hash * n) / s.url


def drum(n: float, disk: float, setting: Setting = SLIDES) -> float:
    """DRUM's overhead for n URLs."""
    s = setting
    return 2 + s.unique + 2 * s.hash / s.url + _passes(n, s) / disk


def veuniq(n: float, ram: float, repositories: float, setting: Setting = SLIDES) -> float:
    """VEUNIQ's overhead for n URLs."""
    s = setting
    waiting = 2 * (1 - s.local) * (1 + s.hash / s.url)
    return waiting + s.unique + _passes(n, s) / (repositories * ram)


RAM = (2 << 30, 4 << 30, 8 << 30, 16 << 30)
"""The columns of the slides' table."""

TABLE = {
    0.3e9: (2_097, (2.26, 0.67, 2.26, 0.64, 2.26, 0.63, 2.26, 0.62)),
    3e9: (2_097, (2.26, 0.68, 2.26, 0.64, 2.26, 0.63, 2.26, 0.62)),
    30e9: (6_926, (2.26, 0.66, 2.26, 0.63, 2.26, 0.62, 2.26, 0.62)),
    300e9: (38_822, (2.27, 0.67, 2.26, 0.63, 2.26, 0.63, 2.26, 0.62)),
    3000e9: (306_991, (2.39, 0.68, 2.29, 0.64, 2.27, 0.63, 2.26, 0.62)),
}
"""The slides' figures: n to (N, DRUM and VEUNIQ for each RAM)."""


def table() -> dict[float, tuple[float, ...]]:
    """The same table by these formulas."""
    return {
        n: tuple(value for ram in RAM for value in (drum(n, drum_disk(ram)), veuniq(n, ram, repositories)))
        for n, (repositories, _) in TABLE.items()
    }
