"""The Sydney strategy: how many of a page's new links enter the frontier, and where the others wait.

    room.py            decisions: how full the memory is, how many links enter, when to come back
    left_behind.py     the contract of a store of left-behind records
    left_plain.py      the readable one, for tests
    left_packed.py     the one that crawls, in append-only files; `left_segments.py` has these, `left_store.py` the
                       arrays, `left_kernels.py` what is done to them, `left_checking.py` what must hold of them

Used by `lycosa.crawl.admission`. Guarantees: an entry pushed comes out once, those of a queue in the order in which
they came; RAM is bounded by the number of queues and by the limit of tails; nothing of the paper's modes is lost
but what `fixed` and `truncated` say they drop.
"""
