"""Orders: which waiting URL of a host comes first, and which of the hosts that are ready.

    order.py      the contract of an order, and the orders that need no ranks: depth, length, biased
    ranked.py     batch, partial, optimal: levels from ranks that the crawl calculates
    shares.py     temporary ranks, for `partial`, of pages that have no rank yet
    scoring.py    the operator's scores and boosts, on top of any order
    rows.py       rows that a thread may read while more are appended (data for ranks and scores)

Used by both frontiers, which ask for levels and host ranks, and by `lycosa.crawl.ranking`, which makes an order and
gives it ranks. Guarantees: a level is 0 to 255, and depends only on what the order was given; an order never does
I/O and never sees a frontier.
"""
