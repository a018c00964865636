"""Several shards' indexes on this machine, read as one.

A tantivy index is immutable files of segments, and `meta.json`, which names them. So an index of all shards'
segments needs no copy: it is a directory with a link to each file, and a `meta.json` that names all of them.
tantivy then counts, scores and merges in one search what would otherwise be a search per shard, and a query over
sixteen shards costs about as much as over one.

The directory is temporary and removed once the index is open: tantivy keeps the files open. If a writer removes
files between reading its `meta.json` and opening, the opening fails and the caller starts again (`ShardReader`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lycosa.errors import StorageError
from lycosa.index.writer import opened


def together(paths: Sequence[Path]) -> Any:
    """The tantivy index of the current segments of the indexes in these directories."""
    names = f"{paths[0]} and {len(paths) - 1} beside it"
    try:
        found = [msgspec.json.decode((path / "meta.json").read_bytes()) for path in paths]
        if any(meta["schema"] != found[0]["schema"] for meta in found):
            raise StorageError(f"the indexes in {names} have different layouts: run `lycosa index --rebuild`")
        with tempfile.TemporaryDirectory(prefix="lycosa-index-") as place:
            for path, meta in zip(paths, found, strict=True):
                parts = {segment["segment_id"].replace("-", "") for segment in meta["segments"]}
                for file in path.resolve().iterdir():
                    if file.name.partition(".")[0] in parts:
                        (Path(place) / file.name).symlink_to(file)
            every = [segment for meta in found for segment in meta["segments"]]
            (Path(place) / "meta.json").write_bytes(msgspec.json.encode(found[0] | {"segments": every}))
            return opened(Path(place))
    except (OSError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise StorageError(
            f"the indexes in {names} cannot be read ({error}): build them anew with --rebuild"
        ) from None
