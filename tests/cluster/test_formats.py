"""docs/formats/cluster.md: what a crawl left on servers and storage, read by that page and not by our code."""

from __future__ import annotations

import asyncio
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import msgspec
import pytest
import zstandard

from lycosa.cluster.control import About, Quota, Report, State
from lycosa.cluster.frames import AnswersFrame, LinksFrame
from lycosa.cluster.lease import Lease
from lycosa.cluster.leases import Gone, Said
from lycosa.cluster.links import Cursors
from lycosa.cluster.names import exchange_of, log_of
from lycosa.cluster.storage import Checkpoint
from lycosa.crawl.status import ReportTotals
from lycosa.engine.nats.connection import ConnectionOptions, connect
from lycosa.engine.nats.names import Names
from lycosa.engine.nats.ordered import Ordered
from lycosa.engine.protocol import Message, got
from lycosa.lab.nats_servers import Servers
from lycosa.lab.webs import serving
from tests.cluster.crawled import SMALL
from tests.cluster.members import cluster
from tests.servers import demand_binary

PAGE = (Path(__file__).parents[2] / "docs/formats/cluster.md").read_text("utf-8")
SHARDS = 3
STRUCTS: dict[str, type[msgspec.Struct]] = {
    "crawl": About,
    "state": State,
    "quota": Quota,
    "lease.N": Lease,
    "report.N": Report,
    "cursors.N": Cursors,
    "agent.ID": Said,
    "gone.ID": Gone,
}


def table(title: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    below = PAGE[PAGE.index(f"## {title}\n") :]
    found = re.search(r"^\|---.*\n((?:\|.*\n)+)", below, re.MULTILINE)
    assert found is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def pattern(text: str, **more: str) -> re.Pattern[str]:
    """A name of the page as a regular expression."""
    means = {**more, "NAME": "form", "NN": r"\d\d", "ID": r"\w+", "S": r"\d+", "N": r"\d+"}
    parts = re.split(rf"(?<![A-Z])({'|'.join(means)})(?![A-Z])", text)
    return re.compile("".join(means.get(part) or re.escape(part) for part in parts) + r"\Z")


def test_keys_are_those_of_the_code() -> None:
    assert {row[0].strip("`"): words(row[1]) for row in table("Keys")} == {
        key: list(kind.__struct_fields__) for key, kind in STRUCTS.items()
    }
    told = re.search(r"`totals`: ((?:`\w+`\s*)+)", PAGE)
    assert told is not None and words(told[1]) == list(ReportTotals.__struct_fields__)
    assert [word for row in table("Shared storage") for word in words(row[0])] == list(
        Checkpoint.__struct_fields__
    )


def test_names_are_those_of_the_code() -> None:
    names = Names("form")
    streams = {row[0].strip("`"): words(row[1]) for row in table("Streams and subjects")}
    log, exchange, bucket = streams
    assert pattern(log).match(names.stream(log_of(7)))
    assert pattern(streams[log][0]).match(names.subject(log_of(7)))
    assert pattern(exchange).match(names.stream(exchange_of(7)))
    for subject, sender in zip(streams[exchange], (3, "a3", "seeds"), strict=True):
        said = subject.replace("NAME", "form").replace(".N.", ".7.").replace("S", "3")
        assert said == f"{names.subject(exchange_of(7))}.{sender}"
    assert bucket.replace("NAME", "form") == names.bucket_stream
    assert streams[bucket][0].replace("NAME", "form").replace("KEY", "k") == f"{names.keys}.k"
    for kind, subject in (("turn", names.subject("turn.7")), ("host", names.subject("host.7"))):
        assert f"lycosa.NAME.{kind}.N".replace("NAME", "form").replace("N", "7") == subject
        assert f"`lycosa.NAME.{kind}.N`" in PAGE


class Left:
    """What a crawl left."""

    def __init__(self, streams: dict[str, list[Message]], shared: Path) -> None:
        self.streams = streams
        self.shared = shared

    def of(self, name: str) -> list[Message]:
        return [
            message for stream, rows in sorted(self.streams.items()) if name in stream for message in rows
        ]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    demand_binary()
    root = tmp_path_factory.mktemp("formats")
    with Servers(root / "nats") as servers, serving(SMALL) as served:
        with cluster(root, servers.urls, "form") as made:
            made.create(served.web, shards=SHARDS, limits={"pages": 60})
            made.command("start")
            made.join("a")
            made.wait()
        yield Left(asyncio.run(read(servers)), root / "shared")


async def read(servers: Servers) -> dict[str, list[Message]]:
    """Every message of every stream."""
    client = await connect(ConnectionOptions(servers=servers.urls))
    js = client.jetstream()
    found: dict[str, list[Message]] = {}
    try:
        for info in await js.streams_info():
            rows = found[info.config.name or ""] = []
            ordered = Ordered(client, js, info.config.name or "")
            while len(rows) < info.state.messages:
                rows += got(await ordered.next(60.0))
            await ordered.close()
    finally:
        await client.close()
    return found


def test_streams(left: Left) -> None:
    rows = table("Streams and subjects")
    for stream, messages in left.streams.items():
        fits = [row for row in rows if pattern(row[0].strip("`")).match(stream)]
        assert len(fits) == 1, stream
        subjects = [pattern(text, KEY=r"[\w.]+") for text in words(fits[0][1])]
        assert messages or "_x_" in stream
        for message in messages:
            assert any(one.match(message.lane) for one in subjects), message.lane
    assert len(left.streams) == 2 * SHARDS + 1


def test_keys(left: Left) -> None:
    rows = {row[0].strip("`"): words(row[1]) for row in table("Keys")}
    met = set()
    for message in left.of("KV_"):
        key = message.lane.removeprefix("$KV.lycosa_form.")
        (name,) = [name for name in rows if pattern(name).match(key)]
        if message.headers.get("KV-Operation") != "DEL":
            found = json.loads(message.data)
            assert set(found) == set(rows[name]), key
            if name == "lease.N":
                assert found["released"] and found["turns"] is not None, (
                    "it ended in good order: nobody need wait"
                )
        met.add(name)
    assert met == set(rows) - {"gone.ID"}, "nobody fell silent"


def test_tails(left: Left) -> None:
    headers = {row[0].strip("`") for row in table("The tail of a log")}
    for shard in range(SHARDS):
        position = sequence = 0
        for message in left.of(f"_log_{shard}"):
            assert set(message.headers) <= headers and set(message.headers) >= headers - {"Lycosa-Part"}
            assert int(message.headers["Lycosa-First"]) == position
            if sequence:
                assert int(message.headers["Nats-Expected-Last-Sequence"]) == sequence
            sequence = message.sequence
            count, at = int(message.headers["Lycosa-Count"]), 0
            assert count or not message.data
            while at < len(message.data):
                magic, _, first, records, plain, packed, crc = struct.unpack_from(
                    "<4sIQIIII", message.data, at
                )
                block = message.data[at + 32 : at + 32 + packed]
                assert magic == b"LyB1" and first == position and len(block) == packed
                assert google_crc32c.extend(google_crc32c.value(message.data[at : at + 28]), block) == crc
                assert len(zstandard.ZstdDecompressor().decompress(block, plain)) == plain
                position, at, count = position + records, at + 32 + packed, count - records
            assert count == 0
        assert position > 0


def test_links(left: Left) -> None:
    kinds = {"L": len(LinksFrame.__struct_fields__), "A": len(AnswersFrame.__struct_fields__)}
    ends: dict[str, int] = {}
    for message in left.of("_x_"):
        assert message.data[:4] == b"LyX1"
        _, frame = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(message.data[4:], 1 << 26))
        assert len(frame) == 1 + kinds[frame[0]]
        *_, receiver, sender = message.lane.split(".")
        if sender == "seeds":
            assert frame[1] == 2**31
        elif frame[0] == "L":
            assert [str(frame[1]), str(frame[2])] == [sender, receiver]
            assert frame[3] <= ends.setdefault(message.lane, frame[3])
            ends[message.lane] = max(frame[4], ends[message.lane])
        else:
            assert [f"a{frame[1]}", str(frame[2])] == [sender, receiver]
    assert ends


def test_storage(left: Left) -> None:
    section = PAGE[PAGE.index("## Shared storage") :]
    told = [line.split()[0] for line in re.findall(r"^NAME/.*$", section, re.MULTILINE)]
    more = {
        "FILE": r"[\w.-]+?",
        "POSITION": r"\d{20}",
        "EPOCH": r"\d{8}",
        "PART": r"[a-z]+",
        "SIZE": r"\d+",
    }
    met = set()
    for path in left.shared.rglob("*"):
        if path.is_file():
            name = str(path.relative_to(left.shared))
            fits = [text for text in told if pattern(text, **more).match(name)]
            assert fits, name
            met.add(fits[0])
    assert met >= set(told) - {
        text for text in told if text.endswith(("POSITION.seg", "FILE.SIZE", "index/ranks"))
    }
    (path, *_) = left.shared.rglob("checkpoints/*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    assert set(found) == set(Checkpoint.__struct_fields__) and (left.shared / found["snapshot"]).is_file()
    about = json.loads((left.shared / "form/crawl.json").read_text())
    assert set(about) == set(About.__struct_fields__)
