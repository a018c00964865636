"""Engines for tests: the plain one in memory, and NATS servers on loopback, started once a test run.

A room's `conftest.py` imports the fixtures. A test that takes `engine` runs on every implementation; one that takes
`nats_engine` only on JetStream.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from nats.aio.client import Client

from lycosa.clock import SystemClock
from lycosa.engine.local.client import LocalEngine
from lycosa.engine.local.server import LocalServer
from lycosa.engine.memory import MemoryEngine, MemoryServers
from lycosa.engine.nats.connection import ConnectionOptions, connect
from lycosa.engine.nats.engine import NatsEngine
from lycosa.engine.nats.names import Names
from lycosa.engine.protocol import Engine, StreamPlan, Unavailable, got
from lycosa.errors import ConfigError
from lycosa.lab.nats_servers import Servers, find_binary

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
def crawl() -> str:
    """A crawl of its own for every test."""
    return f"t{os.getpid()}-{next(_number)}"


Clients = Callable[[], Awaitable[Engine]]


@pytest.fixture(params=["memory", "local", "nats"])
async def engines(request: pytest.FixtureRequest, crawl: str) -> AsyncIterator[Clients]:
    """Clients of the same servers, as many as are asked for; on every implementation."""
    made: list[Engine] = []
    memory = MemoryServers()
    local = LocalServer()
    urls = request.getfixturevalue("one").urls if request.param == "nats" else ()

    async def client() -> Engine:
        if request.param == "memory":
            made.append(MemoryEngine(memory, crawl, SystemClock(), client=f"client-{len(made)}"))
        elif request.param == "local":
            made.append(await LocalEngine.open(local.connect(), crawl))
        else:
            made.append(await NatsEngine.open(ConnectionOptions(servers=urls), crawl))
        return made[-1]

    yield client
    for each in made:
        await each.close()
    local.close()


@pytest.fixture
async def engine(engines: Clients) -> Engine:
    return await engines()


@pytest.fixture
async def other(engines: Clients) -> Engine:
    return await engines()


@pytest.fixture
async def client(one: Servers) -> AsyncIterator[Client]:
    """A connection to the one server, for what only NATS has."""
    made = await connect(ConnectionOptions(servers=one.urls))
    yield made
    await made.close()


@pytest.fixture
def nats_engine(client: Client, crawl: str) -> NatsEngine:
    return NatsEngine(client, crawl)


@pytest.fixture
def names(crawl: str) -> Names:
    return Names(crawl)


async def replicate(engine: Engine, plan: StreamPlan) -> None:
    """Make a stream on three servers. They do not answer while they elect a leader."""
    while isinstance(answer := await engine.create([plan], 3), Unavailable):
        pass
    got(answer)


@pytest.fixture
async def engine3(three: Servers, crawl: str) -> AsyncIterator[NatsEngine]:
    made = await NatsEngine.open(ConnectionOptions(servers=three.urls), crawl)
    yield made
    await made.close()
