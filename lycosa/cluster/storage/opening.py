"""The place of shared storage as one word, and opening the storage from it.

    DIR                                          a directory that all machines mount
    s3://BUCKET/PREFIX?endpoint=URL&region=NAME  a bucket of an S3-compatible object store
    nats                                         the cluster's own servers

The word is kept with the crawl and shown in its status, so it never holds credentials.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lycosa.cluster.storage.directory import DirectoryStorage
from lycosa.cluster.storage.protocol import Storage
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.engine.nats.connection import ConnectionOptions

SERVERS = "nats"


class OpenStorage(Protocol):
    """The signature of `open_storage`, with the connection to the servers bound if storage may be in them."""

    def __call__(self, place: str, crawl: str, *, replicas: int = 0) -> Storage: ...


def normal(place: str) -> str:
    """The word in its normal form: an absolute directory, or a URL in one form; refused if it is neither."""
    if place.startswith("s3:"):
        from lycosa.cluster.storage.s3 import S3Place

        return str(S3Place.parse(place))
    if place == SERVERS:
        return place
    if "://" in place:
        raise ConfigError(
            "shared storage is a directory, s3://BUCKET/PREFIX, or nats (the servers themselves); not another URL"
        )
    return str(Path(place).absolute())


def open_storage(
    place: str, crawl: str, connection: ConnectionOptions | None = None, *, replicas: int = 0
) -> Storage:
    """Open shared storage, which must exist: a missing mount must not be created on the local disk.

    `connection`: to the servers, for storage in them; `replicas`: create it, with so many copies. May block.
    """
    place = normal(place)
    if place.startswith("s3:"):
        from lycosa.cluster.storage.s3 import S3Place, S3Storage

        bucket = S3Storage(S3Place.parse(place))
        bucket.probe()
        return bucket
    if place == SERVERS:
        from lycosa.cluster.storage.jetstream import JetStreamStorage

        if connection is None:
            raise ConfigError("shared storage is in the servers, and it is not said how they are reached")
        store = JetStreamStorage(connection, f"lycosa_{crawl}_files")
        try:
            if replicas:
                store.create(replicas)
            store.probe()
        except BaseException:
            store.close()
            raise
        return store
    if not Path(place).is_dir():
        raise ConfigError(
            f"there is no shared directory {place}: mount it, or say where it is mounted here (--shared)"
        )
    return DirectoryStorage(place)
