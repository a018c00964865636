"""How well a site's bandwidth is predicted from a recorded crawl (Castillo, §6.4, after Diligenti and others)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lycosa.lab.experiments.result import Line
from lycosa.lab.experiments.web import Web


def predicted_bandwidths(sites: Sequence[int], speeds: Sequence[float]) -> dict[str, float]:
    """How far off the prediction of a site's bandwidth from earlier pages is: the median factor, 1 if always right.

    Pages come in the order of their arrival, each with its site and its bytes per second. Only pages whose site
    has had one before count.
    """
    by_site: dict[int, list[float]] = {}
    every: list[float] = []
    off: dict[str, list[float]] = {}
    for site, speed in zip(sites, speeds, strict=True):
        if speed <= 0:
            continue
        before = by_site.setdefault(site, [])
        if before:
            guesses = {
                "the site's last page": before[-1],
                "the median of the site's last five": float(np.median(before[-5:])),
                "the mean of all the site's": sum(before) / len(before),
                "the median of all sites' last hundred": float(np.median(every[-100:])),
            }
            for name, guess in guesses.items():
                off.setdefault(name, []).append(abs(math.log(guess / speed)))
        before.append(speed)
        every.append(speed)
    return {name: math.exp(float(np.median(values))) for name, values in off.items()}


def bandwidths(web: Web) -> list[Line]:
    """§6.4, after Diligenti and others: the speed of a site's connections, predicted from observed values."""
    found = predicted_bandwidths(web.sites[web.recorded].tolist(), web.speeds.tolist())
    return [
        Line("§6.4", f"bandwidth predicted by {name}: off by a factor of", factor)
        for name, factor in found.items()
    ]
