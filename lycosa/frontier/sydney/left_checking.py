"""The invariants of a store of left-behind entries between two operations; see `lycosa.frontier.checking`.

- rows: they are dense, row 0 is OTHERS, every other is in the list of its bucket and has entries;
- pool: every place is in the tail of one queue, or free; a tail's last place holds its row and its size;
- files: segments do not overlap, and addresses in rows lie in them;
- numbers: the entries are the sum over the rows; the entries outside of tails are those still wanted of segments.
"""

from __future__ import annotations

import numpy as np

from lycosa.frontier.checking import demand, lists
from lycosa.frontier.sydney.left_segments import Segments
from lycosa.frontier.sydney.left_store import Store
from lycosa.url.key import mix_array


def check(s: Store, segments: Segments) -> None:
    """Raise `BrokenError` if an invariant does not hold."""
    f = s.fields
    rows, heads, pool = s.rows[: f.queues], s.heads[: f.buckets], s.pool[: f.top]
    demand(1 <= f.next_row <= f.queues, "rows: the one that is next is there")
    demand(
        rows["queue"][0] == 0 and (rows["queue"][1:] != 0).all(), "rows: the first is OTHERS, and no other"
    )
    demand(rows["count"][1:] > 0, "rows: none but OTHERS is empty")
    links = rows["link"][1:].astype(np.int64)
    found = lists("rows", heads - (heads > 0), links - (links > 0))  # row 0 is in no list
    size = 1 << (f.buckets - 1).bit_length()
    bucket = (mix_array(rows["queue"][1:]) & np.uint64(size - 1)).astype(np.int64)
    bucket = np.where(bucket < f.buckets, bucket, bucket & ((size >> 1) - 1))
    ends = np.full(f.buckets, -1)
    ends[heads > 0] = found.last[heads[heads > 0] - 1]
    demand(ends[bucket] == found.last, "rows: each is in the list of its bucket")

    tails = rows["tail"].astype(np.int64)
    owners = np.flatnonzero(tails >= 0)
    lasts = tails[owners]
    demand(lasts < f.top, "pool: every pointer is within the arrays")
    nexts = pool["next"].astype(np.int64)
    firsts = nexts[lasts]
    nexts[lasts] = -1
    chains = lists("pool", [*firsts, f.free], nexts)
    sizes = np.zeros(len(pool), np.int64)
    sizes[lasts] = 1 + chains.after[firsts]
    demand(chains.last[firsts] == lasts, "pool: a tail ends with its last entry")
    demand(pool["size"] == sizes, "pool: the last entry of a tail, and no other, knows how many there are")
    demand(pool["row"][lasts] == owners, "pool: the last entry of a tail knows its row")
    demand(f.pooled == sizes.sum() <= f.tails, "pool: as many entries are in it as the number says")

    tail = np.zeros(len(rows), np.int64)
    tail[owners] = sizes[lasts]
    chained = rows["count"] - rows["left"].astype(np.int64) - tail
    demand(chained >= rows["blocks"], "a row has as many entries as its run, its blocks and its tail")
    demand((chained > 0) == (rows["blocks"] > 0), "a row has blocks if it has entries in them, and only then")
    demand(f.entries == rows["count"].sum(), "the number of entries is that of the rows")
    demand(
        f.entries - f.pooled == segments.wanted, "files: they are wanted for the entries that are in no tail"
    )
    segments.check()
    for name, some in (("run", rows["left"] > 0), ("chain", rows["blocks"] > 0)):
        top = rows[some][name + "_top"].astype(np.int64)
        for address in (rows[some][name].astype(np.int64) | top << 32).tolist():
            demand(segments.has(address), f"files: the {name} of a row lies in them", address)
