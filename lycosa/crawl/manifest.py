"""The manifest: identifies a crawl's directory, and holds what never changes in the crawl.

    DIR/
      crawl.json          the manifest
      public_suffix.dat   the public suffix list as it was when the crawl began
      lock                held by the process that crawls
      status.json         the latest status of the running process (not durable)
      archive/            WARC files and their index
      shards/00/          one shard: log/ snapshots/ seen/ content/ calendar/

The hash seed is drawn once per crawl: keys of URLs depend on it, and a site that does not know it cannot
craft collisions. The number of shards is fixed, because a domain's shard is a hash modulo that number, and so is
what is hashed (`splitter`); the number of agents is not.
"""

from __future__ import annotations

import secrets

import msgspec

from lycosa.crawl.splitting import SplitterOptions, check_splitter
from lycosa.errors import ConfigError, StorageError
from lycosa.files import Files, write_whole
from lycosa.url.domains import Domains
from lycosa.version import VERSION

FORMAT = 1
DEFAULT_SHARDS = 16
NAME = "crawl.json"
SUFFIXES = "public_suffix.dat"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What never changes in a crawl."""

    format: int = FORMAT
    crawl: str
    hash_seed: int
    shards: int = DEFAULT_SHARDS
    created: int
    version: str = VERSION
    splitter: SplitterOptions = SplitterOptions()
    cluster: bool = False  # it was fetched from a cluster, whose logs may take pages back (`Lost`)


def create(
    files: Files,
    created: int,
    shards: int | None = None,
    hash_seed: int | None = None,
    splitter: SplitterOptions | None = None,
) -> Manifest:
    """Begin a crawl in an empty directory."""
    demand_shards(shards, splitter)
    manifest = Manifest(
        crawl=secrets.token_hex(6),
        hash_seed=secrets.randbits(63) if hash_seed is None else hash_seed,
        shards=DEFAULT_SHARDS if shards is None else shards,
        created=created,
        splitter=splitter or SplitterOptions(),
    )
    write_whole(files, SUFFIXES, Domains.bundled_list())
    write_whole(files, NAME, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def open_or_create(
    files: Files,
    now: int,
    shards: int | None = None,
    hash_seed: int | None = None,
    splitter: SplitterOptions | None = None,
) -> Manifest:
    """The manifest of the crawl in a directory, or that of a new one; given values must equal those of the
    crawl."""
    manifest = load(files) or create(files, now, shards, hash_seed, splitter)
    check_shards(manifest, shards, splitter)
    return manifest


def demand_shards(shards: int | None, splitter: SplitterOptions | None = None) -> None:
    """Refuse an invalid number of shards; None means the default."""
    if shards is not None and not 1 <= shards <= 4096:
        raise ConfigError(f"a crawl has 1 to 4096 shards, not {shards}")
    if splitter is not None:
        check_splitter(splitter, DEFAULT_SHARDS if shards is None else shards)


def check_shards(manifest: Manifest, shards: int | None, splitter: SplitterOptions | None = None) -> None:
    """Refuse another number of shards, or another way of splitting, than the crawl began with."""
    if splitter not in (None, manifest.splitter):
        raise ConfigError(
            f"this crawl is split by {manifest.splitter.by}, which cannot be changed: omit the splitter "
            f"(and regions), or start a new crawl"
        )
    if shards not in (None, manifest.shards):
        raise ConfigError(
            f"this crawl has {manifest.shards} shards, which cannot be changed: omit shards, or start a new crawl"
        )


def load(files: Files) -> Manifest | None:
    """The manifest of the crawl in a directory, or None if there is no crawl in it."""
    if not files.exists(NAME):
        return None
    try:
        manifest = _decode_manifest(files.read(NAME))
    except msgspec.MsgspecError as error:
        raise StorageError(f"{NAME} is damaged ({error}): restore it from a copy") from None
    if manifest.format != FORMAT:
        raise ConfigError(
            f"this crawl has format {manifest.format}, and this version of lycosa reads format {FORMAT}: "
            f"use the version that made it ({manifest.version})"
        )
    return manifest


def shard_directory(number: int) -> str:
    return f"shards/{number:02d}"


def domains_of(files: Files) -> Domains:
    """The public suffix list that the crawl began with."""
    return Domains(files.read(SUFFIXES))


# Made at import: msgspec crashes if two threads are the first to decode a struct, as when shards recover.
_decode_manifest = msgspec.json.Decoder(Manifest).decode
