"""The BV format: the content of its three files, and the parameters of its codes.

A graph `name` of n nodes, numbered from 0, is three files:

    name.graph       the lists of successors, node by node, as bits (`lycosa.graph.bits`)
    name.offsets     where each list starts
    name.properties  lines `key=value`, in the manner of Java's property files

    graph   := node*                                     padded with zeros to a whole byte
    node    := outdegree [reference? blocks? intervals? residuals?]       nothing more if the degree d is 0
    reference := r           if the window W > 0; 0: none, else the list of node x−r is the prototype
    blocks  := count first*  if r > 0: lengths of blocks that alternately copy and skip the prototype's
                             list, starting with copy; the first as it is, the others less one;
                             what is left after the last block is copied iff the count is even
    intervals := count (left length)*   if the shortest interval L > 0 and arcs are still missing; always γ:
                             int2nat(left − x) for the first, left − end of the one before − 1 for the
                             others; length − L
    residuals := first gap*  int2nat(first − x), then successor − the one before − 1; as many as are missing
    offsets := gap*          n+1 differences of bit positions; the first is 0, the last position is the end

The successors are the sorted union of what is copied, the intervals and the residuals. The code of each part
is given by the property `compressionflags`; by default, outdegrees, blocks, block counts and offsets are γ,
references unary, residuals ζₖ. `maxrefcount` bounds the chain of references from a node down to one without.

The format is that of WebGraph (Boldi and Vigna 2004), in which the table of links of Manning et al. §20.4 has its
three ideas: similarity (references within a window of seven rows), locality and gaps. Seven and not eight rows
(Exercise 20.4): with "none" there are eight answers, the most that three bits can tell; here the
reference is unary, and eight rows would be no trouble, but the eighth seldom pays for its search.

Limits: at most 2^31 − 1 nodes, as in WebGraph's plain BVGraph; ζ's k at most 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from lycosa.errors import ConfigError, StorageError
from lycosa.graph.bits import Code, check_parameter

MOST_NODES = (1 << 31) - 1
"""The largest number of nodes."""

MOST_WINDOW = 1 << 16
"""The largest window that we read or write."""

UNLIMITED = -1
"""As a chain limit: none."""

_CLASSES = ("it.unimi.dsi.webgraph.BVGraph", "it.unimi.dsi.big.webgraph.BVGraph")

COMPONENTS: dict[str, tuple[int, frozenset[Code]]] = {
    "outdegrees": (0, frozenset({Code.GAMMA, Code.DELTA})),
    "blocks": (4, frozenset({Code.GAMMA, Code.DELTA})),
    "residuals": (8, frozenset({Code.GAMMA, Code.ZETA, Code.DELTA, Code.GOLOMB, Code.NIBBLE})),
    "references": (12, frozenset({Code.UNARY, Code.GAMMA, Code.DELTA})),
    "block_count": (16, frozenset({Code.UNARY, Code.GAMMA, Code.DELTA})),
    "offsets": (20, frozenset({Code.GAMMA, Code.DELTA})),
}
"""Part of the format -> the bit of its nibble in WebGraph's flags, and the codes that it may have."""


@dataclass(frozen=True)
class Parameters:
    """How lists are coded. The defaults are WebGraph's."""

    window: int = 7
    chain: int = 3  # references in a row, at most; UNLIMITED for no limit
    interval: int = 4  # the shortest run of consecutive successors kept as an interval; 0: no intervals
    k: int = 3  # of ζ and Golomb codes
    outdegrees: Code = Code.GAMMA
    blocks: Code = Code.GAMMA
    residuals: Code = Code.ZETA
    references: Code = Code.UNARY
    block_count: Code = Code.GAMMA
    offsets: Code = Code.GAMMA
    thorough: bool = field(default=False, compare=False)
    """Choose references for many lists together (`bv_plan_kernels`); irrelevant to readers."""

    def __post_init__(self) -> None:
        if not 0 <= self.window <= MOST_WINDOW:
            raise ConfigError(f"window is {self.window}: choose 0 … {MOST_WINDOW}")
        if self.chain < UNLIMITED or self.chain > MOST_NODES:
            raise ConfigError(f"chain is {self.chain}: choose 0 or more, or -1 for no limit")
        if not 0 <= self.interval <= MOST_NODES:
            raise ConfigError(f"interval is {self.interval}: choose 0 (none) or more")
        try:
            check_parameter(self.residuals, self.k)
        except ValueError as error:
            raise ConfigError(f"k is {self.k}: {error}") from None
        for name, (_, allowed) in COMPONENTS.items():
            if getattr(self, name) not in allowed:
                codes = ", ".join(sorted(code.name for code in allowed))
                raise ConfigError(f"{name} cannot be coded by {getattr(self, name)!r}; choose from {codes}")

    def flags(self) -> str:
        """The property `compressionflags`: only what differs from the defaults."""
        plain = Parameters()
        return " | ".join(
            f"{name.upper()}_{getattr(self, name).name}"
            for name in COMPONENTS
            if getattr(self, name) != getattr(plain, name)
        )

    def with_flags(self, text: str) -> Parameters:
        """These parameters with the codes that `compressionflags` tells; `ValueError` if it tells none."""
        found: dict[str, Code] = {}
        for word in text.split("|"):
            flag = word.strip()
            if not flag:
                continue
            component, _, code = flag.rpartition("_")
            name = component.lower()
            if name.endswith("_skewed"):  # RESIDUALS_SKEWED_GOLOMB: the code's own name has a bar
                name, code = name.removesuffix("_skewed"), f"SKEWED_{code}"
            if name not in COMPONENTS or code not in Code.__members__:
                raise ValueError(f"unknown compression flag {flag!r}")
            found[name] = Code[code]
        try:
            return replace(self, **found)  # type: ignore[arg-type]  # only codes, by construction
        except ConfigError as error:
            raise ValueError(str(error)) from None


PRESETS: dict[str, Parameters] = {
    "fast": Parameters(window=3, chain=1),
    "default": Parameters(),
    "small": Parameters(
        window=64,
        chain=8,
        k=2,
        references=Code.GAMMA,
        block_count=Code.UNARY,
        thorough=True,
    ),
}
"""Named choices: the fastest random access, WebGraph's own, and the fewest bits.

On cnr-2000: 3.24, 2.90 and 2.39 bits per link, random access at about 17, 26 and 37 ns per link. Tried there
for `small` and left: windows of 32 (2.45 bits) and 128 (2.37, compressed in twice the time); chains of 16
(2.33, random access at 50 ns); intervals from 2, 3 and 5; ζ₃, ζ₄ and δ residuals; δ outdegrees, blocks and
references, which are no better or worse.
"""


def preset(name: str) -> Parameters:
    """The parameters of that name."""
    if name not in PRESETS:
        raise ConfigError(f"no preset {name!r}; choose from {', '.join(PRESETS)}")
    return PRESETS[name]


@dataclass
class Counts:
    """What a graph's bits are spent on, and how its arcs are kept."""

    outdegrees: int = 0
    references: int = 0
    blocks: int = 0  # block counts included
    intervals: int = 0
    residuals: int = 0
    copied_arcs: int = 0
    interval_arcs: int = 0
    residual_arcs: int = 0
    references_used: int = 0  # nodes with a reference
    reference_total: int = 0  # sum of r
    chain_total: int = 0  # sum over nodes of the length of the chain below

    @property
    def bits(self) -> int:
        """All bits of the stream."""
        return self.outdegrees + self.references + self.blocks + self.intervals + self.residuals


@dataclass(frozen=True)
class Properties:
    """The properties file."""

    nodes: int
    arcs: int
    parameters: Parameters = field(default_factory=Parameters)
    counts: dict[str, int] = field(default_factory=dict)  # the bits and arcs by component, if said

    def text(self, counts: Counts, bits: int) -> str:
        """The file: what Java wants first, then the statistics that it writes too."""
        p = self.parameters
        rows: dict[str, object] = {
            "graphclass": _CLASSES[0],
            "version": 0,
            "nodes": self.nodes,
            "arcs": self.arcs,
            "windowsize": p.window,
            "maxrefcount": p.chain if p.chain != UNLIMITED else (1 << 31) - 1,
            "minintervallength": p.interval,
            "zetak": p.k,
            "compressionflags": p.flags(),
            "length": bits,
            "bitsperlink": f"{bits / self.arcs:.3f}" if self.arcs else "0",
            "bitspernode": f"{bits / self.nodes:.3f}" if self.nodes else "0",
            "compratio": f"{_ratio(self.nodes, self.arcs, bits):.3f}",
            "avgdist": f"{counts.reference_total / self.nodes:.3f}" if self.nodes else "0",
            "avgref": f"{counts.chain_total / self.nodes:.3f}" if self.nodes else "0",
            "bitsforoutdegrees": counts.outdegrees,
            "bitsforreferences": counts.references,
            "bitsforblocks": counts.blocks,
            "bitsforintervals": counts.intervals,
            "bitsforresiduals": counts.residuals,
            "copiedarcs": counts.copied_arcs,
            "intervalisedarcs": counts.interval_arcs,
            "residualarcs": counts.residual_arcs,
        }
        return "#BVGraph properties\n" + "".join(f"{key}={value}\n" for key, value in rows.items())


def _ratio(nodes: int, arcs: int, bits: int) -> float:
    """Bits against the information-theoretical least for any graph of that size: log₂ C(n², m)."""
    pairs = nodes * nodes
    if not 0 < arcs < pairs:
        return 0.0
    least = math.lgamma(pairs + 1) - math.lgamma(arcs + 1) - math.lgamma(pairs - arcs + 1)
    return bits * math.log(2) / least if least > 0 else 0.0


_COUNTED = {
    "bitsforoutdegrees": "outdegrees",
    "bitsforreferences": "references",
    "bitsforblocks": "blocks",
    "bitsforintervals": "intervals",
    "bitsforresiduals": "residuals",
    "copiedarcs": "copied_arcs",
    "intervalisedarcs": "interval_arcs",
    "residualarcs": "residual_arcs",
}


def parse_properties(data: bytes, name: str) -> Properties:
    """Read a properties file; a `StorageError` that names it if it does not describe a BV graph."""
    values: dict[str, str] = {}
    for line in data.decode("latin-1").splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            key, _, value = text.partition("=")
            values[key.strip()] = value.strip()
    kind = values.get("graphclass", "").removeprefix("class ")
    if kind not in _CLASSES:
        raise StorageError(f"{name} does not describe a BV graph (graphclass is {kind[:80]!r})")

    def number(key: str, default: int | None, low: int, high: int) -> int:
        said = values.get(key, "")
        if not said and default is not None:
            return default
        try:
            value = int(said)
        except ValueError:
            raise StorageError(f"{name}: {key} is {said[:80]!r}, not a number") from None
        if not low <= value <= high:
            raise StorageError(f"{name}: {key} is {value}, not in {low} … {high}")
        return value

    if number("version", 0, 0, 1 << 31) != 0:
        raise StorageError(f"{name} is of version {values['version']}; version 0 can be read")
    nodes = number("nodes", None, 0, MOST_NODES)
    chain = number("maxrefcount", 3, -1, 1 << 31)
    try:
        parameters = Parameters(
            window=number("windowsize", 7, 0, MOST_WINDOW),
            chain=UNLIMITED if chain >= MOST_NODES else chain,
            interval=number("minintervallength", 4, 0, MOST_NODES),
            k=number("zetak", 3, 1, 1 << 20),
            residuals=Code.GOLOMB,  # any k will do until the flags are read
        ).with_flags("RESIDUALS_ZETA | " + values.get("compressionflags", ""))
    except ValueError as error:
        raise StorageError(f"{name}: {error}") from None
    counts = {
        ours: number(theirs, None, 0, 1 << 62)
        for theirs, ours in _COUNTED.items()
        if values.get(theirs, "").isdigit()
    }
    return Properties(nodes, number("arcs", None, 0, nodes * nodes), parameters, counts)
