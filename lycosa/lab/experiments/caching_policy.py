"""A user's own cache policy, compared with those of the paper.

    class Mine:
        def __init__(self, entries: int) -> None: ...
        def request(self, key: int) -> bool: ...      # was it there? If not, it enters

`request` is called for each link in turn, at best about a million times per second, so the trace is cut at a
million links. A policy that has `probe(keys, hits)` instead, like the caches of `lycosa.seen.cache`, is called
once with all links, and gets the whole trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lycosa.errors import ConfigError
from lycosa.lab.experiments.caching import PAPER
from lycosa.lab.experiments.caching_curves import MOST, POLICIES, Curves, trace
from lycosa.lab.experiments.result import Curve, Figure, Line, Result, Told
from lycosa.lab.experiments.web import Web
from lycosa.url.key import Keys

VISITS = 100
REQUESTS = 1_000_000
LEAST = 6
"""log2 of the fewest entries of libCacheSim's caches."""


class OneByOne:
    """Adapts a policy that is asked for one key at a time to the interface of a cache."""

    def __init__(self, policy: Any) -> None:
        self._request = policy.request

    def probe(self, keys: Keys, hits: npt.NDArray[np.bool_]) -> int:
        request = self._request
        for place, key in enumerate(keys.tolist()):
            hits[place] = request(key)
        return int(np.count_nonzero(hits[: len(keys)]))


class FromLibCacheSim:
    """A cache of libCacheSim (`pip install libcachesim`) as a further competitor: `--policy libcachesim:S3FIFO`.

    Every object has size 1, so that its bytes are our entries. `following`: when each key is requested next, which
    its clairvoyant policies need.
    """

    def __init__(self, made: Any, request: Any, following: npt.NDArray[np.int64] | None = None) -> None:
        self._made, self._request, self._following = made, request, following

    def probe(self, keys: Keys, hits: npt.NDArray[np.bool_]) -> int:
        request, get = self._request(), self._made.get
        request.obj_size = 1
        following = None if self._following is None else self._following.tolist()
        for place, key in enumerate(keys.tolist()):
            request.obj_id = key >> 1  # it takes 63 bits
            request.clock_time = place
            if following is not None:
                request.next_access_vtime = following[place]
            hits[place] = get(request)
        return int(np.count_nonzero(hits[: len(keys)]))


def from_libcachesim(
    policy: Any, entries: int, following: npt.NDArray[np.int64] | None = None
) -> FromLibCacheSim:
    """A cache with `entries` entries under one of libCacheSim's policies."""
    import importlib

    # Its table of objects has room for 2^24 by default.
    made = policy(cache_size=entries, hashpower=min(max(entries.bit_length() + 1, 10), 24))
    return FromLibCacheSim(made, importlib.import_module("libcachesim").Request, following)


def _is_libcachesim(policy: Any) -> bool:
    return getattr(policy, "__module__", "").partition(".")[0] == "libcachesim"


def cache_of(policy: Any, name: str, entries: int) -> Any:
    """A cache with `entries` entries under a policy."""
    try:
        if _is_libcachesim(policy):
            return from_libcachesim(policy, entries)
        made = policy(entries)
    except Exception as error:
        raise ConfigError(
            f"--policy: {name}({entries}) cannot be made: {type(error).__name__}: {error}"
        ) from None
    if hasattr(made, "probe"):
        return made
    if not hasattr(made, "request"):
        raise ConfigError(f"--policy: {name} is not a cache: it needs request(key) or probe(keys, hits)")
    return OneByOne(made)


def run_policy(web: Web, policy: Any, name: str, told: Told) -> Result:
    """Miss rates by size, compared with those of the paper's policies; on the trace of a crawl with 100 visits."""
    name = f"{name} (yours)" if name in POLICIES else name
    # Some of libCacheSim's policies end the process if they have fewer than some ten entries.
    least = LEAST if _is_libcachesim(policy) else 0
    slow = isinstance(cache_of(policy, name, 1 << least), OneByOne | FromLibCacheSim)
    most = REQUESTS if slow else MOST
    told(f"crawling with {VISITS} visits")
    made = trace(web, VISITS, most=most)
    curves = Curves(web, made.links)
    last = max(curves.distinct - 1, 1).bit_length()
    orders = range(least, max(last, least) + 1, 2)
    rates: dict[str, list[float]] = {who: [] for who in (name, *POLICIES)}
    for order in orders:
        for who, values in rates.items():
            told(f"{who}, 2^{order} entries")
            if who != name:
                values.append(curves.rate(who, order))
                continue
            cache = cache_of(policy, name, 1 << order)
            values.append(1 - cache.probe(curves.keys, curves.hits) / max(len(curves.links), 1))
    lines = [
        Line(f"2^{order}", f"{who}: misses", values[place], None, "share")
        for place, order in enumerate(orders)
        for who, values in rates.items()
    ]
    best = np.array(rates["MIN"])
    lines += [
        Line("", f"{who}: misses over MIN's, mean of all sizes", float((np.array(values) / best).mean()))
        for who, values in rates.items()
        if who != "MIN" and best.min() > 0
    ]
    sizes = [2.0**order for order in orders]
    shown = [Curve(who, sizes, values) for who, values in rates.items()]
    figure = Figure(
        "Figure 2", "miss rate, full trace", "entries of the cache", "miss rate", shown, log_x=True
    )
    definitions = {
        "policy": f"{name}, asked for each link in turn",
        "trace": f"{len(made.links):,} links of {made.fetched:,} pages, {VISITS} visits at a time",
        "seed": str(web.seed),
    }
    claim = f"{name}, beside the policies of the paper."
    return Result(f"caching-{name}", PAPER, claim, web.head(), definitions, lines, [figure])
