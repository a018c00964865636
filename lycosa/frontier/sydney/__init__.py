"""The Sydney strategy: how many of a page's new links enter the frontier, and where the others wait.

    room.py            decisions: how full the memory is, how many links enter, when to come back
    left_behind.py     the contract of a store of left-behind records
    left_plain.py      the simple one, for tests
    left_packed.py     the one that crawls use, in append-only files (`left_segments.py`); its arrays are in
                       `left_store.py`, their kernels in `left_kernels.py`, their invariants in `left_checking.py`

Used by `lycosa.crawl.admission`. Guarantees: a pushed entry comes out once, those of a queue in the order of the
pushes; RAM is bounded by the number of queues and by the limit of tails; no link is lost except those that the
modes `fixed` and `truncated` drop by definition.
"""
