"""Shared storage: what every machine of a cluster can read. A directory, an S3 store, or the servers themselves."""

from lycosa.cluster.storage.archive_files import ArchiveFiles
from lycosa.cluster.storage.directory import DirectoryStorage
from lycosa.cluster.storage.protocol import Away, Missing, Storage, check_name
from lycosa.cluster.storage.shards import (
    Checkpoint,
    CheckpointAhead,
    Restored,
    SegmentWriter,
    ShardStorage,
    TailAhead,
    TailPiece,
    archives,
    look_again,
    put_archive,
)

__all__ = [
    "ArchiveFiles",
    "Away",
    "Checkpoint",
    "CheckpointAhead",
    "DirectoryStorage",
    "Missing",
    "Restored",
    "SegmentWriter",
    "ShardStorage",
    "Storage",
    "TailAhead",
    "TailPiece",
    "archives",
    "check_name",
    "look_again",
    "put_archive",
]
