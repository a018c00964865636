"""The packed frontier: tens of millions of waiting URLs in flat arrays, a few tens of bytes each.

    frontier.py      `PackedFrontier`, the contract's calls
    queues.py        hosts and queues for Python: growing, names, asking the order
    outside.py       URLs in flight and put back        withdrawals.py   URLs that replay found done
    relevelling.py   new levels for waiting URLs        freezing.py      the bytes of a snapshot
    store.py         the arrays and their named fields, and `view_kernels.py`, by which kernels reach them
    checking.py      what must hold of them, and whether it does
    *_kernels.py     view; queue, table, heap; draw; host; visit; freeze, relevel: each imports those before it

Used by `lycosa.crawl.agent` through `lycosa.frontier`. Guarantees: what `lycosa.frontier.protocol` promises, call
by call the same as `PlainFrontier`; memory grows by steps of at most 16 MiB; a freeze makes no copy and no pause.
"""
