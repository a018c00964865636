"""`lycosa unique`: the uniqueness store as a tool. Reads URLs, one per line; writes those not seen before.

Lines are compared as they are (`--canonical`: by their canonical form, and lines that are not URLs are left
out); empty lines are skipped. Two lines are the same if their 64-bit keys are: a billion URLs of
many hosts lose one with a probability of 3%, 100 million of a single host lose about 18. The seed of
the keys is random, so that nobody can choose the URLs that are lost.

Files may be plain, `.gz` or `.zst`; `-`, or none, is standard input. Lines come out in their order while
the store answers immediately (`memory`, and `auto` until it moves to disk), else in the order of merges.

With `--into DIR` the store is kept: what earlier runs wrote is not written again. DIR has

    lock        held while in use
    unique      kind of the store's files, and the seed: msgpack [version, store, seed, pieces], then CRC-32C
    store/      the store's own files

and changes atomically at the end of a successful run.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import resource
import secrets
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import google_crc32c
import msgspec
import zstandard

from lycosa.cli import amounts
from lycosa.cli.streams import Progress
from lycosa.errors import ConfigError, StorageError
from lycosa.files import DirectoryLock, DiskFiles, Files, scratch, write_whole
from lycosa.seen.protocol import Merging
from lycosa.seen.stores import NAMES, open_store
from lycosa.url.canonical import canonicalise
from lycosa.url.key import Keyer

HELP = "write the lines that were not seen before (the uniqueness store as a filter)"
EPILOG = """\
examples:
  lycosa unique urls.txt more.txt.gz > new.txt
  lycosa unique --store veuniq --memory 64MB --count --json huge.zst
  lycosa unique --into known/ today.txt        only what no earlier run had
"""

_CHUNK = 1 << 20
_LONGEST = 1 << 20
_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", default=[], metavar="FILE", help="plain, .gz or .zst; - or none: stdin"
    )
    parser.add_argument("--store", choices=NAMES, default="auto", help="how to remember (auto)")
    parser.add_argument(
        "--memory", type=amounts.size, default=512 << 20, metavar="SIZE", help="RAM for the store (512MB)"
    )
    parser.add_argument("--into", metavar="DIR", type=Path, help="keep the store here, for further runs")
    parser.add_argument("--canonical", action="store_true", help="compare canonical forms")
    parser.add_argument("--count", action="store_true", help="print how many, not which")
    parser.add_argument("--json", action="store_true", help="JSON lines")


def run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    if args.into is not None:
        lock = DirectoryLock(args.into)
        try:
            offered, unique = _kept(args)
        finally:
            lock.release()
    else:
        with scratch("lycosa-unique-") as place:
            store = open_store(args.store, DiskFiles(place), args.memory)
            offered, unique = _filter(args, store, Keyer(secrets.randbits(64)))
    if args.count:
        seconds = time.monotonic() - started
        if args.json:
            row = {
                "offered": offered,
                "unique": unique,
                "seconds": round(seconds, 3),
                "peak_rss": _peak_rss(),
            }
            print(json.dumps(row))
        else:
            print(unique)
    return 0


# -- the store that is kept


def _kept(args: argparse.Namespace) -> tuple[int, int]:
    files = DiskFiles(args.into)
    place = files.within("store")
    seed = secrets.randbits(64)
    pieces: list[bytes] = []
    named: list[str] = []
    if files.exists("unique"):
        store_name, seed, named, pieces = _read(files)
        if store_name != args.store:
            raise ConfigError(f"{args.into} was made with --store {store_name}: use the same")
    elif set(files.list("")) - {"lock", "store", "unique.part"}:
        raise ConfigError(f"{args.into} is not empty: give an empty or a new directory")
    for name in place.list(""):
        if name not in named:
            place.remove(name)
    store = open_store(args.store, place, args.memory)
    if pieces:
        store.thaw(pieces)
    counts = _filter(args, store, Keyer(seed))
    frozen = list(store.freeze())
    store.settle()
    sys.stdout.flush()
    body = msgspec.msgpack.encode((_VERSION, args.store, seed, store.files(), frozen))
    write_whole(files, "unique", body + int(google_crc32c.value(body)).to_bytes(4, "little"))
    for name in set(place.list("")).difference(store.files()):
        place.remove(name)
    return counts


def _read(files: Files) -> tuple[str, int, list[str], list[bytes]]:
    data = files.read("unique")
    body, check = data[:-4], data[-4:]
    if int(google_crc32c.value(body)).to_bytes(4, "little") != check:
        raise StorageError("the file `unique` is damaged: restore the directory, or start a new one")
    version, store, seed, named, pieces = msgspec.msgpack.decode(
        body, type=tuple[int, str, int, list[str], list[bytes]]
    )
    if version != _VERSION:
        raise ConfigError(f"the directory is of version {version}; this program knows {_VERSION}")
    return store, seed, named, pieces


# -- the filter


def _filter(args: argparse.Namespace, store: Merging, keyer: Keyer) -> tuple[int, int]:
    """Put all lines through the store; returns how many were offered, and how many were new."""
    out = sys.stdout.buffer
    offered, unique = 0, 0
    shown = [] if args.count else [out]

    def write(lines: list[bytes]) -> None:
        nonlocal unique
        unique += len(lines)
        for stream in shown:
            if args.json:
                lines = [json.dumps({"url": line.decode("utf-8", "replace")}).encode() for line in lines]
            if lines:
                stream.write(b"\n".join(lines) + b"\n")

    with Progress("unique") as progress:
        for lines in _chunks(args.files or ["-"]):
            if args.canonical:
                lines = _canonical(lines)
            if not lines:
                continue
            offered += len(lines)
            keys, _ = keyer.scan(b"\n".join(lines))
            answer = store.offer(keys, [b""] * len(lines) if args.count else lines)
            write([lines[i] for i in answer.new.tolist()])
            while store.due:
                write([payload for _, payload in store.merge()])
            progress(f"{unique:,} unique of", offered)
        while store.waiting:
            write([payload for _, payload in store.merge()])
            progress(f"{store.waiting:,} to be merged of", offered)
    out.flush()
    return offered, unique


def _canonical(lines: list[bytes]) -> list[bytes]:
    urls = (canonicalise(line.decode("utf-8", "replace")) for line in lines)
    return [url.encode("ascii") for url in urls if url is not None]


def _chunks(names: list[str]) -> Iterator[list[bytes]]:
    """The lines of all files, in pieces of a MiB, without line ends and empty lines."""
    for name in names:
        try:
            with _open(name) as source:
                rest = b""
                while data := source.read(_CHUNK):
                    whole, mark, rest = (rest + data).rpartition(b"\n")
                    if len(rest) > _LONGEST:
                        raise ConfigError(
                            f"{name} has a line of over {_LONGEST} bytes: is it a list of URLs?"
                        )
                    if mark:
                        yield _lines(whole)
                yield _lines(rest)
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise ConfigError(f"cannot read {name}: {error}; is it whole?") from None
        except OSError as error:
            raise ConfigError(f"cannot read {name}: {error.strerror or error}") from None


def _lines(data: bytes) -> list[bytes]:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
    return [line for line in data.split(b"\n") if line]


def _open(name: str) -> BinaryIO:
    if name == "-":
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    if name.endswith(".gz"):
        return cast(BinaryIO, gzip.open(name, "rb"))
    raw = io.FileIO(name)
    if name.endswith(".zst"):
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
        return cast(BinaryIO, reader)
    return io.BufferedReader(raw)


def _peak_rss() -> int:
    """Peak memory in bytes; the system counts in KiB on Linux, in bytes on macOS."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
