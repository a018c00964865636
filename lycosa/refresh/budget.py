"""The budget of a continuous crawl: how many fetches of new URLs and of known pages may be made.

With `fetches` per day there are two token buckets, one for new URLs and one for known pages; what overflows one
goes into the other. At first each gets half (or the known pages `share`); then they are divided by yield: the share
of new URLs that were pages worth keeping against the share of known pages that had changed, at least a tenth each.
Without `fetches` new URLs are not limited, and known pages have `per_page` fetches per day each.

`bytes` per day is a third bucket, for the bodies of known pages. It is debited when a body has arrived, so fetches
under way may overdraw it, and that is paid back.

`per_host` fetches per day of one host's known pages are spaced out evenly.

With `fetches` a bucket holds at most a minute's worth, or `AT_LEAST`; unused tokens beyond that are lost. With
`per_page` it holds a day's: due times come in lulls and crowds, and what a lull saves a crowd needs (with an hour's
worth 2 to 3% of all fetches were lost). Times are seconds of the monotonic clock; those of hosts are milliseconds
since the epoch, as due times are."""

from __future__ import annotations

from lycosa.refresh.options import RefreshOptions
from lycosa.refresh.rates import DAY

AT_LEAST = 4.0
_ENOUGH = 200
"""Fetches of each kind before yields count."""
_HOSTS = 10_000
_AGAIN = 600.0
NEW, KNOWN = 0, 1


class Budget:
    """The budget of one agent; `size` agents share what the options give."""

    def __init__(self, options: RefreshOptions, now: float, size: int = 1) -> None:
        self._options = options
        self._whole = options.fetches / DAY / size
        self._bytes_rate = options.bytes / DAY / size
        self._filled = self._surveyed = now
        self._found = 0  # fetches of new URLs since the last survey
        self._tokens = [1.0, 1.0]
        self._bytes = 0.0
        self._tried, self._gained = [0, 0], [0, 0]
        self._mean_bytes = 0.0
        self._next_of: dict[str, int] = {}

    # -- what was had

    def note(self, known: bool, gained: bool, size: int) -> None:
        """Count a fetch: of a known page or a new URL; whether it gained something; the bytes of its body."""
        self._tried[known] += 1
        self._gained[known] += gained
        self._found += not known
        if known:
            self._mean_bytes += (size - self._mean_bytes) / min(self._tried[known], 1000)
            self._bytes -= size

    def surveyed(self, now: float) -> None:
        """Note a survey: fetches of new URLs are counted from now on."""
        self._surveyed, self._found = now, 0

    @property
    def share(self) -> float:
        """The share of the fetches that is for known pages."""
        if self._options.share:
            return self._options.share
        if min(self._tried) < _ENOUGH:
            return 0.5
        found, changed = (gained / tried for gained, tried in zip(self._gained, self._tried, strict=True))
        return min(max(changed / max(found + changed, 1e-9), 0.1), 0.9)

    def rate(self, pages: int, now: float) -> float:
        """Fetches of known pages per second, for a collection of `pages` pages."""
        if not self._options.fetches:
            rate = self._options.per_page * pages / DAY
        else:
            rate = max(self._whole * self.share, self._whole - self._found / max(now - self._surveyed, 60.0))
        if self._bytes_rate and self._mean_bytes:
            rate = min(rate, self._bytes_rate / self._mean_bytes)
        return rate

    # -- what may be had

    def fill(self, pages: int, now: float) -> None:
        """Add tokens for the time that has passed."""
        passed, self._filled = now - self._filled, now
        self._bytes = min(self._bytes + passed * self._bytes_rate, max(60 * self._bytes_rate, 1.0))
        if not self._options.fetches:
            rate = self.rate(pages, now)
            self._tokens[KNOWN] = min(self._tokens[KNOWN] + passed * rate, max(DAY * rate, AT_LEAST))
            return
        most = max(60 * self._whole, AT_LEAST)
        parts = [passed * self._whole * (1 - self.share), passed * self._whole * self.share]
        for kind in (NEW, KNOWN):
            self._tokens[kind] += parts[kind]
            over = self._tokens[kind] - most
            if over > 0:
                self._tokens[kind] = most
                self._tokens[1 - kind] = min(self._tokens[1 - kind] + over, most)

    def take_new(self, pages: int, now: float) -> bool:
        """Whether a new URL may be fetched now; if so, it counts as fetched."""
        if not self._options.fetches:
            return True
        self.fill(pages, now)
        if self._tokens[NEW] < 1:
            return False
        self._tokens[NEW] -= 1
        return True

    @property
    def known(self) -> int:
        """How many known pages may be fetched now."""
        most = int(self._tokens[KNOWN])
        if not self._bytes_rate:
            return most
        return 0 if self._bytes <= 0 else min(most, int(self._bytes / max(self._mean_bytes, 1.0)) + 1)

    @property
    def saved(self) -> float:
        """Fetches of known pages that could have been made by now, and were not."""
        return max(self._tokens[KNOWN], 0.0)

    def take_known(self) -> None:
        """Count a fetch of a known page."""
        self._tokens[KNOWN] -= 1

    def patience(self, kind: int, pages: int, now: float) -> float:
        """Seconds until another fetch of a kind may be made; at least one second."""
        if kind == KNOWN and self._bytes_rate and self._bytes <= 0:
            return max(-self._bytes / self._bytes_rate, 1.0)
        if self._tokens[kind] >= 1:
            return 1.0
        rate = self.rate(pages, now) if kind == KNOWN else self._whole * (1 - self.share)
        return max((1 - self._tokens[kind]) / rate, 1.0) if rate else _AGAIN

    # -- hosts

    def host_waits(self, host: str, now: int) -> int | None:
        """The time until which no known page of a host may be fetched; None: one may be, and counts as fetched."""
        if not self._options.per_host:
            return None
        until = self._next_of.get(host, 0)
        if until > now:
            return until
        if len(self._next_of) >= _HOSTS:
            self._next_of = {name: at for name, at in self._next_of.items() if at > now}
        self._next_of[host] = now + int(DAY / self._options.per_host * 1000)
        return None
