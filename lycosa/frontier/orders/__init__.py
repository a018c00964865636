"""Orders: which waiting URL of a host comes first, and which of the hosts that are ready.

    order.py      the contract of an order, and those that need no ranks: depth, length, biased
    ranked.py     batch, partial, optimal: levels from ranks that the crawl calculates
    shares.py     what `partial` knows of pages that have no rank yet
    scoring.py    the operator's own opinion, around any of them
    rows.py       rows that a thread may read while more are appended (what was noted for ranks and scores)

Used by both frontiers, which ask for levels and host ranks, and by `lycosa.crawl.ranking`, which makes an order and
hands it ranks. Guarantees: a level is 0 to 255, a function of what the order was told; an order never does I/O
and never sees a frontier.
"""
