"""What an operator does with a crawl of a cluster, by its keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.clock import SystemClock
from lycosa.cluster.control import Control, Wanted
from lycosa.cluster.links import SEEDS, decode
from lycosa.cluster.names import exchange_of
from lycosa.cluster.operating import Operator
from lycosa.crawl.config import decode_options, read_options
from lycosa.crawl.steering import new_act
from lycosa.engine.protocol import Engine
from lycosa.errors import ConfigError


async def test_acts_change_the_state_that_agents_follow_each_once(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    operator, control = Operator(engine), Control(engine, SystemClock())
    options = read_options({"public": False})
    await operator.create(options, ["http://a.test/"], shared=tmp_path / "shared", shards=1, replicas=1)
    limit = new_act("set", ("limits.pages=20",), "ann@here")
    assert await operator.act(limit) == [] and await operator.act(limit) == []  # twice: an answer was lost
    state = await control.state()
    steered = decode_options(state.options.encode())
    assert [(did.who, did.text) for did in steered.steered.did] == [("ann@here", "set limits.pages=20")]
    assert steered.limits.pages == (await control.quota()).limit == 20
    assert state.round == 1
    for what, wanted in (("pause", Wanted.PAUSED), ("go-on", Wanted.RUNNING), ("stop", Wanted.STOPPED)):
        await operator.act(new_act(what, ()))
        assert (await control.state()).wanted is wanted
    await operator.seed(["http://b.test/x"])
    newest = await engine.stream(exchange_of(0)).newest("seeds")
    assert newest is not None and (message := decode(newest.data)) is not None  # type: ignore[union-attr]
    assert message.frame.sender == SEEDS  # type: ignore[union-attr]
    assert [did.text for did in decode_options((await control.state()).options.encode()).steered.did] == [
        "set limits.pages=20",
        "pause",
        "go-on",
        "stop",
        "seed http://b.test/x",
    ]
    with pytest.raises(ConfigError, match="cannot be changed"):
        await operator.act(new_act("set", ("seen.store=drum",)))
