"""What a crawl of a cluster has in its engine, by name.

    log.N       stream   the tail of shard N's log
    x.N         stream   links for shard N, in lanes: S from shard S, `seeds`, aS answers of shard S
                bucket   lease.N agent.ID gone.ID report.N cursors.N crawl state quota
    host.N      subject  asks for a host's turn, answered by N's holder
    turn.N      subject  asks for an address's turn, answered by N's holder
    search.N    subject  asks the search index of shard N, answered by whoever has one

One exchange stream per receiving shard, not one for all. Measured on loopback with eight shards and batches of
100 links: the same on one server as far as could be told, up to 30 % slower with three copies (more groups to
replicate), and far from being what a crawl waits for either way. For that price a shard whose holder is away
fills only its own stream, and the others' links go on.
"""

from __future__ import annotations

from lycosa.engine.protocol import StreamPlan

SEEDS = "seeds"


def log_of(shard: int) -> str:
    return f"log.{shard}"


def exchange_of(shard: int) -> str:
    return f"x.{shard}"


def cursors_of(shard: int) -> str:
    return f"cursors.{shard}"


def streams_of(shards: int, log_bytes: int = 0, exchange_bytes: int = 0) -> list[StreamPlan]:
    """All streams of a crawl."""
    return [
        plan
        for shard in range(shards)
        for plan in (
            StreamPlan(log_of(shard), log_bytes),
            StreamPlan(exchange_of(shard), exchange_bytes, lanes=True),
        )
    ]
