"""Storages of every kind, each empty; their servers are started once a test run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lycosa.cluster.storage import DirectoryStorage, Storage
from lycosa.cluster.storage.jetstream import JetStreamStorage
from lycosa.cluster.storage.s3 import S3Place, S3Storage
from lycosa.engine.nats.connection import ConnectionOptions
from lycosa.lab.nats_servers import Servers
from tests.cluster.storage.s3_server import ENVIRON, S3Server, s3_server

KINDS = ("directory", "s3", "nats")
_number = itertools.count(1)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Storage]]:
    """Opens the same storage once more, as another agent would."""
    kind, number = request.param, next(_number)
    made: list[Storage] = []
    if kind == "directory":
        (tmp_path / "shared").mkdir()
    elif kind == "s3":
        server: S3Server = request.getfixturevalue("s3")
    else:
        servers: Servers = request.getfixturevalue("one")

    def open_one() -> Storage:
        if kind == "directory":
            made.append(DirectoryStorage(tmp_path / "shared"))
        elif kind == "s3":
            made.append(S3Storage(S3Place.parse(server.place(f"t{number}/deep")), environ=ENVIRON))
        else:
            store = JetStreamStorage(ConnectionOptions(servers=servers.urls), f"t{os.getpid()}_{number}")
            store.create(1)
            made.append(store)
        return made[-1]

    yield open_one
    for storage in made:
        storage.close()


@pytest.fixture
def storage(opened: Callable[[], Storage]) -> Storage:
    return opened()
