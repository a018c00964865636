"""The trace of `caching_kernels` in its simplest form: deques. The tests compare the two."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence


def trace(
    links: Sequence[Sequence[int]],
    sites: Sequence[int],
    sources: Sequence[int],
    visits: int,
    lifo: bool,
    repeated: Callable[[int, Sequence[int]], list[list[int]]],
    machine: Sequence[int],
    machines: int = 1,
) -> list[tuple[int, int]]:
    """(link, visit) as machine 0 meets them. `repeated(page, its links)`: the links that are met again after each
    link; `machine`: the machine of each site."""
    queues: dict[int, deque[int]] = {}
    lines: list[deque[int]] = [deque() for _ in range(machines)]
    at: list[int | None] = [None] * (machines * visits)
    seen: set[int] = set()
    met: list[tuple[int, int]] = []

    def put(page: int, first: bool) -> None:
        if page in seen:
            return
        seen.add(page)
        site = sites[page]
        queue = queues.setdefault(site, deque())
        if first:
            queue.appendleft(page)
        else:
            queue.append(page)
        if site not in lines[machine[site]] and site not in at:
            lines[machine[site]].append(site)

    for page in sources:
        put(page, False)
    while any(queues.values()):
        for v in range(machines * visits):
            line = lines[v // visits]
            if at[v] is None:
                if not line:
                    continue
                at[v] = line.popleft()
            site = at[v]
            assert site is not None
            page = queues[site].popleft()
            for target, again in zip(links[page], repeated(page, links[page]), strict=True):
                met += [(one, v) for one in (target, *again) if v < visits]
                put(target, lifo)
            if not queues[site]:
                at[v] = None
    return met
