"""The packed frontier: tens of millions of waiting URLs in flat arrays, a few tens of bytes each.

    frontier.py      `PackedFrontier`: the methods of the contract
    queues.py        hosts and queues for Python: growing, names, asking the order
    outside.py       URLs in flight and put back        withdrawals.py   URLs that replay found done
    relevelling.py   new levels for waiting URLs        freezing.py      the bytes of a snapshot
    store.py         the arrays and their named fields; kernels reach them through `view_kernels.py`
    checking.py      the invariants of the arrays, checked
    *_kernels.py     view; queue, table, heap; draw; host; visit; freeze, relevel: each imports those before it

Used by `lycosa.crawl.agent` through `lycosa.frontier`. Guarantees: those of `lycosa.frontier.protocol`, with the
same result as `PlainFrontier` for every call; memory grows by steps of at most 16 MiB; a freeze makes no copy and
no pause.
"""
