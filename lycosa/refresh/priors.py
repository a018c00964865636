"""The priors of pages' change rates, by site, learned in a survey of the pages.

A survey takes all pages of a crawl, or a sample of them, with a number for the site of each. The page table is in
the order of keys, and the first bits of a key are those of the host: these serve as the number, so that no URL is
read. (Two hosts of one number then share a prior; a shard of ten thousand hosts has a few such pairs.)"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lycosa.refresh.rates import DEFAULT, Looks, Weights, learned, likelihood

_SAMPLE = 20_000
"""Pages from which the prior of the whole crawl is learned."""
_MOST_OF_A_SITE = 2_000


class Priors:
    """A prior for each site, and one for unknown sites."""

    def __init__(
        self, whole: Weights = DEFAULT, sites: NDArray[np.int64] | None = None, rows: Weights | None = None
    ) -> None:
        """`sites`: numbers in ascending order, `rows`: the prior of each."""
        self.whole = whole
        self.sites = np.empty(0, np.int64) if sites is None else sites
        self._rows: Weights = np.vstack([rows, whole]) if rows is not None else whole[None, :]

    def of(self, numbers: NDArray[np.int64]) -> Weights:
        """The priors of pages of these sites, a row per page."""
        if not len(self.sites):
            return np.broadcast_to(self.whole, (len(numbers), len(self.whole)))
        at = np.minimum(np.searchsorted(self.sites, numbers), len(self.sites) - 1)
        return np.asarray(self._rows[np.where(self.sites[at] == numbers, at, len(self.sites))])


def survey(numbers: NDArray[np.int64], looks: Looks) -> Priors:
    """Learn from pages of the sites `numbers`; pages that were fetched only once tell nothing, and do not count."""
    known = (looks.still > 0) | (looks.moved > 0)
    numbers = numbers[known]
    looks = Looks(*(column[known] for column in looks))
    if not len(numbers):
        return Priors()
    step = max(len(numbers) // _SAMPLE, 1)
    whole = learned(likelihood(Looks(*(column[::step] for column in looks))))
    order = np.argsort(numbers, kind="stable")
    sites, starts = np.unique(numbers[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    rows = np.empty((len(sites), len(whole)))
    for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        chosen = order[start : min(end, start + _MOST_OF_A_SITE)]
        rows[place] = learned(likelihood(Looks(*(column[chosen] for column in looks))), whole)
    return Priors(whole, sites, rows)
