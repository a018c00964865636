"""The permissions of docs/operating.md, as they stand there: an agent crawls with its own, a viewer only looks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lycosa.lab.nats_servers import Server, configuration, free_ports
from lycosa.lab.webs import serving
from tests.cluster.crawled import SMALL
from tests.cluster.members import Cluster, cluster, until
from tests.servers import demand_binary

DOCS = Path(__file__).parents[2] / "docs/operating.md"


def block() -> str:
    """The file of permissions, out of the document."""
    found = re.search(r"```\n(# /etc/nats/permissions\.conf\n.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    demand_binary()
    for name in ("ADMIN", "OPERATOR", "AGENT", "VIEWER"):
        monkeypatch.setenv(f"{name}_PASSWORD", f"{name.lower()}-secret")
    port, http = free_ports(2)
    text = configuration("n1", port, http, str(tmp_path / "store")) + 'include "permissions.conf"\n'
    server = Server("n1", tmp_path / "nats", port, http, text)
    (tmp_path / "nats/permissions.conf").write_text(block())
    server.start()
    try:
        until(lambda: (server.ask("/healthz") or {}).get("status") == "ok" or not server.running)
        assert server.running, server.log()
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.stop()


def become(made: Cluster, user: str) -> None:
    """What is run from now on is run as that user."""
    made.flags = [*made.flags[:2], "--nats-user", user]
    made.environment = {**os.environ, "LYCOSA_CLUSTER_PASSWORD": f"{user}-secret"}


def test_each_user_may_do_what_it_must_and_no_more(url: str, tmp_path: Path) -> None:
    known = {"user": "operator", "password": "operator-secret"}
    with serving(SMALL) as served, cluster(tmp_path, (url,), "web", **known) as made:
        become(made, "operator")
        made.shared = "nats"  # so that shared storage is a matter of permissions, too
        made.create(served.web, shards=4, limits={"pages": 60})
        made.command("start")
        become(made, "viewer")
        assert "web: running" in made.command("status")
        rows = (
            ("stop",),
            ("seed", "http://x.test/"),
            ("remove", "--yes"),
            ("fetch", "--into", str(tmp_path / "home")),
        )
        with ThreadPoolExecutor() as pool:  # at once: a refusal is noticed when no answer comes
            for said in pool.map(lambda row: made.process(*row, fails=True), rows):
                assert said.count("\n") == 1 and "no permission to publish" in said, said
        become(made, "agent")
        assert "no permission to publish" in made.command("remove", "--yes", fails=True)
        made.join("a")
        made.join("b")
        made.wait()
        for name in "ab":
            assert "permission" not in made.said(name), made.said(name)
        become(made, "viewer")
        assert "web: limit" in made.command("status") and made.look()["pages"] == 60
