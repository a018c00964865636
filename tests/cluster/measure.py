"""Speed and size of the engine on loopback, with every write synced: the numbers of docs/operating.md.

    python -m tests.cluster.measure [--servers 1|3] [--pages N]

Pages are made up but of usual shape: 60 links each, a tenth of them for other shards once the URL cache has
dropped repeats. Not a test: it asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from lycosa.clock import SystemClock
from lycosa.cluster.frames import links_frame
from lycosa.cluster.links import Arrival, Reader, Sender, encode
from lycosa.cluster.names import streams_of
from lycosa.cluster.tail import Tail, pieces
from lycosa.crawl.exchange import Row
from lycosa.engine.nats.connection import ConnectionOptions
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.protocol import StreamPlan
from lycosa.engine.protocol import got as answered
from lycosa.lab.nats_servers import Servers
from lycosa.log import blocks
from lycosa.records import Fetched, Link, LinkKind, Links, Timing
from lycosa.records import encode as encode_record

SHARDS = 8
LINKS = 60
SECTIONS = ("news", "item", "tag", "user")


def page(number: int, dice: random.Random) -> Fetched:
    host = dice.randrange(5_000)
    links = Links.pack(
        Link(
            f"https://www.site{host if n < 50 else dice.randrange(5_000)}.example/{dice.choice(SECTIONS)}/"
            f"{dice.randrange(10**6)}-{dice.randrange(10**5):x}.html",
            LinkKind.ANCHOR,
            False,
            "some words of it",
        )
        for n in range(LINKS)
    )
    return Fetched(
        1_700_000_000_000 + number, f"https://www.site{host}.example/p/{number}", 3, 0, 0, 200, "text/html",
        "utf-8", 20_000, 60_000, dice.getrandbits(64), Timing(1, 10, 50, 90), f"10.0.{host % 256}.7", links,
        None, "A title",
    )  # fmt: skip


async def timed(what: str, amount: int, unit: str, work: Awaitable[object]) -> None:
    start, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await work
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    mine = used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime
    print(f"{what:44} {amount / seconds:10,.0f} {unit}/s   {1e6 * mine / amount:8.1f} µs CPU of ours each")


async def measure(servers: Servers, replicas: int, pages: int) -> None:
    options = ConnectionOptions(servers=servers.urls)
    engine = await NatsEngine.open(options, "measure")
    dice = random.Random(7)
    answered(await engine.create(streams_of(SHARDS, 1 << 30, 1 << 30), replicas))

    # The tail: every shard commits some pages at a time, all shards at once.
    encoded = [encode_record(page(n, dice)) for n in range(pages)]
    for per_commit in (10, 100):
        tails = [Tail(engine.stream(f"log.{shard}"), SystemClock()) for shard in range(SHARDS)]
        for tail in tails:
            await tail.claim(per_commit)
        made = [
            blocks.pack(1, n, encoded[n : n + per_commit])
            for n in range(0, pages - per_commit + 1, per_commit)
        ]
        each = len(made) // SHARDS

        async def commit(tail: Tail, made: list[bytes], count: int, epoch: int) -> None:
            position = tail.committed
            for data in made[:count]:
                head = blocks.head_of(data)
                assert head is not None
                rows = blocks.unpack(data, head)
                assert rows is not None
                packed = blocks.pack(1, position, list(map(bytes, rows)))
                appended = await tail.append(position, packed, epoch)
                assert isinstance(appended, int)
                position = appended

        size = sum(map(len, made)) / (len(made) * per_commit)
        print(f"-- {replicas} copies, commits of {per_commit} pages: {size:.0f} bytes of log a page")
        work = asyncio.gather(*(commit(tail, made, each, per_commit) for tail in tails))
        await timed("tail: messages", each * SHARDS, "messages", work)

    start = time.perf_counter()
    count = size_read = 0
    async for piece in pieces(engine.stream("log.0")):
        count += piece.records
        size_read += len(piece.data)
    seconds = time.perf_counter() - start
    print(f"tail read back: {count / seconds:,.0f} pages/s, {size_read / seconds / 1e6:.0f} MB/s")

    # The exchange: each of the shards sends to each other one.
    rows: list[Row] = [Row(n, f"https://www.site{dice.randrange(5_000)}.example/item/{dice.randrange(10**6)}-"
                        f"{dice.randrange(10**5):x}.html", 0, 3, 0) for n in range(60_000)]  # fmt: skip
    for links in (10, 100, 1_000):
        payload = encode(1, links_frame(1, 2, 0, links, rows[:links]))
        print(f"-- exchange, batches of {links} links: {len(payload) / links:.1f} bytes a link")
        rounds = max(1, min(40, 20_000 // links // SHARDS))
        await timed(
            "a stream for each receiver: links",
            rounds * links * SHARDS * (SHARDS - 1),
            "links",
            asyncio.gather(*(_send(engine, shard, rows, links, rounds) for shard in range(SHARDS))),
        )
    # The same messages, already encoded, into one stream and into one for each receiver, in turn.
    payload = encode(1, links_frame(1, 2, 0, 100, rows[:100]))
    one = await NatsEngine.open(options, "measure-one")
    many = await NatsEngine.open(options, "measure-many")
    answered(await one.create([StreamPlan("x.0", 1 << 30, lanes=True)], replicas))
    answered(await many.create(streams_of(SHARDS, 1 << 30, 1 << 30), replicas))

    async def send_all(shard: int, spread: bool) -> None:
        for number in range(25 * SHARDS):
            receiver = number % SHARDS
            stream = many.stream(f"x.{receiver}") if spread else one.stream("x.0")
            answered(await stream.append(payload, lane=f"{shard}" if spread else f"{shard}-{receiver}"))

    for spread in (False, True, False, True):
        what = "batches of 100 links, a stream each" if spread else "batches of 100 links, one stream"
        work = asyncio.gather(*(send_all(shard, spread) for shard in range(SHARDS)))
        await timed(what, 25 * SHARDS * SHARDS, "messages", work)
    reader = Reader(engine.stream("x.0"), after=0, cursors={})
    start = time.perf_counter()
    got = 0
    while arrivals := answered(await reader.next(0.5)):
        got += sum(len(arrival.rows) for arrival in arrivals if isinstance(arrival, Arrival))
        last = time.perf_counter()
    print(f"exchange read: {got / (last - start):,.0f} links/s")
    await reader.close()

    async def renew(key: str, times: int) -> None:
        revision = 0
        for _ in range(times):
            value = b'{"holder":"a","epoch":1,"seconds":20.0}'
            revision = answered(await engine.bucket.update(key, value, revision))

    await timed(
        "lease renewals, 8 at once",
        8 * 20,
        "renewals",
        asyncio.gather(*(renew(f"l.{n}", 20) for n in range(8))),
    )
    for each in (engine, one, many):
        await each.close()


async def _send(engine: NatsEngine, shard: int, rows: list[Row], links: int, rounds: int) -> None:
    for receiver in range(SHARDS):
        if receiver != shard:
            sender = Sender(engine.stream(f"x.{receiver}"), shard, receiver, 1)
            await sender.resume()
            part = rows[:links]
            for _ in range(rounds):
                at = sender.position
                await sender.send(at + links, [row._replace(at=at + n) for n, row in enumerate(part)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--pages", type=int, default=4_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Servers(Path(directory), given.servers) as servers:
        asyncio.run(measure(servers, given.servers, given.pages))


if __name__ == "__main__":
    main()
