"""Waits: how long a host, an address and a URL are left alone, and what is deferred until a due time.

    politeness.py    the wait after a visit, pages of a visit, one connection at a time to an address
    retries.py       when a URL that failed is tried again, and when it is given up
    calendar.py      `Deferred` records by the time they are due, on disk until that is near

Used by `lycosa.crawl` (visits decide waits, a shard has a calendar) and `lycosa.cluster`. Guarantees: a wait is
finite and never below the operator's minimum; what was put into the calendar comes out once, not before it is due.
"""
