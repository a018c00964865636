"""Servers on loopback, started once a test run: one for most tests, three where replication matters."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import pytest
from nats.aio.client import Client

from lycosa.cluster.engine.connection import ConnectionOptions, connect
from lycosa.cluster.engine.server import Servers, find_binary
from lycosa.cluster.engine.streams import Names
from lycosa.errors import ConfigError

_number = itertools.count(1)


def demand_binary() -> None:
    try:
        find_binary()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """One server."""
    demand_binary()
    with Servers(tmp_path_factory.mktemp("nats1")) as servers:
        yield servers


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Three servers that replicate."""
    demand_binary()
    with Servers(tmp_path_factory.mktemp("nats3"), 3) as servers:
        yield servers


@pytest.fixture
async def client(one: Servers) -> AsyncIterator[Client]:
    made = await connect(ConnectionOptions(servers=one.urls))
    yield made
    await made.close()


@pytest.fixture
async def other(one: Servers) -> AsyncIterator[Client]:
    made = await connect(ConnectionOptions(servers=one.urls))
    yield made
    await made.close()


@pytest.fixture
async def client3(three: Servers) -> AsyncIterator[Client]:
    made = await connect(ConnectionOptions(servers=three.urls))
    yield made
    await made.close()


@pytest.fixture
def names() -> Names:
    """A crawl of its own for every test."""
    return Names(f"t{os.getpid()}-{next(_number)}")
