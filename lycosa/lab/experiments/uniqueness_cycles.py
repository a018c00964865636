"""The crawl simulation of the VEUNIQ slides: cycles of 1M URLs against repositories of growing size.

Both stores get the same cycles (see `uniqueness_stream`) on repositories that were preloaded with the same keys. A
cycle is timed as a whole: 100,000 marks, 900,000 offers with payloads of about 60 bytes, the merge, and a snapshot
with its syncs. VEUNIQ runs in the paper's mode (N equal ranges, in turn) and is timed for one whole rotation after
one untimed rotation, so that what waits for other repositories is in its steady state. DRUM has as many buckets as
VEUNIQ has repositories, as in the slides, and merges all in every cycle, as the slides' measurement does; a second
row lets it gather 16 cycles before it merges, which is its intended use, and delays every answer as long.
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lycosa.files import DiskFiles
from lycosa.lab.experiments.uniqueness_stream import CRAWLED, EXTRACTED, Web
from lycosa.seen import cost_model, repository
from lycosa.seen.disk import DiskSeen
from lycosa.seen.drum import DrumSeen
from lycosa.seen.veuniq import VeuniqSeen

PAYLOADS = [b"https://www.example.org/some/path/to/a/page-%08d.html?q=1" % n for n in range(1024)] * (
    EXTRACTED // 1024 + 1
)
URL_BYTES = len(PAYLOADS[0])
TENTH = 10
"""One in ten URLs of a cycle is crawled, the others are extracted."""
PER_CYCLE = CRAWLED + EXTRACTED


def preload(web: Web, files: DiskFiles, store: DiskSeen) -> int:
    """Write the known keys directly into the repositories of a store, which are the web's ranges; how
    many."""
    total = 0
    for part in range(web.ranges):
        builder = repository.Builder(files, store.new_name())
        keys = web.stored(part)
        for at in range(0, len(keys), repository.BLOCK_KEYS):
            block = keys[at : at + repository.BLOCK_KEYS]
            builder.add(block, np.zeros(len(block), np.uint8))
        total += len(keys)
        store.adopt(part, builder.finish())
    return total


def measure(
    web: Web,
    store: DiskSeen,
    files: DiskFiles,
    cycles: range,
    merge_every: int,
    whole: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Run cycles; seconds, bytes and answers per cycle. `whole`: a merge goes on until nothing waits."""
    seconds, new, nbytes = [], 0, 0
    read, written = store.bytes_read, store.bytes_written
    named: set[str] = set()
    for number in cycles:
        cycle = web.cycle(number)
        started = time.perf_counter()
        store.mark(cycle.crawled)
        store.offer(cycle.extracted, PAYLOADS[: len(cycle.extracted)])
        nbytes = max(nbytes, store.nbytes)
        if (number + 1) % merge_every == 0:
            new += len(store.merge())
            while whole and store.waiting:  # DRUM's pass is one merge per bucket
                new += len(store.merge())
        for _piece in store.freeze():
            pass
        store.settle()
        needless = named.difference(store.files())  # as the owner of the snapshots does
        named = set(store.files())
        for name in needless:
            files.remove(name)
        seconds.append(time.perf_counter() - started)
        say(f"cycle {number}: {seconds[-1]:.2f} s")
    count = len(cycles)
    return {
        "cycles": count,
        "seconds": sum(seconds) / count,
        "slowest": max(seconds),
        "new_per_cycle": new / count,
        "read_per_cycle": (store.bytes_read - read) / count,
        "written_per_cycle": (store.bytes_written - written) / count,
        "ram": nbytes,
        "stored": len(store),
        "disk_bytes_per_url": store.disk / len(store),
    }


def simulate(
    stored: int,
    place: Path,
    *,
    ranges: int,
    memory: int,
    drum_cycles: int,
    say: Callable[[str], None],
    per_cycle: int = PER_CYCLE,
    seed: int = 1,
) -> list[dict[str, Any]]:
    """All rows for one size."""
    rows = []
    runs: list[tuple[str, int, int, int]] = [("veuniq", ranges, ranges, 1)]
    if drum_cycles:
        runs += [("drum", 1, drum_cycles, 1), ("drum, every 16 cycles", 0, 16, 16)]
    for name, warm, timed, every in runs:
        shutil.rmtree(place, ignore_errors=True)
        files = DiskFiles(place)
        crawled = max(per_cycle // TENTH, 1)
        web = Web(stored, ranges, seed, crawled=crawled, extracted=per_cycle - crawled)
        store: DiskSeen
        if name == "veuniq":
            store = VeuniqSeen(files, memory=memory, repositories=ranges, turns=True)
        else:
            store = DrumSeen(files, memory=memory, buckets=ranges)
        began = time.perf_counter()
        count = preload(web, files, store)
        say(f"{name}: {count:,} URLs preloaded in {time.perf_counter() - began:.0f} s")
        if warm:
            measure(web, store, files, range(warm), every, name != "veuniq", say)
        row = measure(web, store, files, range(warm, warm + timed), every, name != "veuniq", say)
        row |= {"store": name, "size": stored, "waiting": store.waiting}
        row["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )
        row |= modelled(row, store, ranges, per_cycle)
        rows.append(row)
        say(f"{name} at {stored:,}: {row['seconds']:.2f} s a cycle")
        del store
    shutil.rmtree(place, ignore_errors=True)
    return rows


def modelled(
    row: dict[str, Any], store: DiskSeen, ranges: int, per_cycle: int = PER_CYCLE
) -> dict[str, float]:
    """The measured overhead (disk bytes per byte of URL) beside the model's, with our parameters.

    The model's last term, passes over the repository, is taken as it was in the cycle: the model uses the
    whole crawl's n, from an empty repository; here the repository is preloaded.
    """
    traffic = row["read_per_cycle"] + row["written_per_cycle"]
    share = row["new_per_cycle"] / per_cycle
    setting = cost_model.Setting(url=URL_BYTES, hash=8, start=0, unique=0, local=0.81)
    passes = 2 * store.disk / (ranges if row["store"] == "veuniq" else 1)
    every = 16 if "16" in row["store"] else 1
    base = cost_model.veuniq(0, 1, 1, setting) if row["store"] == "veuniq" else cost_model.drum(0, 1, setting)
    return {
        "overhead": traffic / (per_cycle * URL_BYTES),
        "model": base + passes / every / (per_cycle * URL_BYTES),
        "share_new": share,
    }
