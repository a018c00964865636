"""Connecting: TLS, credentials, and one clear line for every mistake; and the servers' own settings."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path

import nats.errors
import pytest
import trustme
from nats.aio.client import Client

from lycosa.engine.nats import connection
from lycosa.engine.nats.connection import ConnectionOptions, connect, read_credentials, seed_key, signer
from lycosa.engine.nats.names import Names
from lycosa.errors import ConfigError
from lycosa.lab.nats_servers import Access, Servers, Tls, configuration, free_ports
from tests.servers import demand_binary


async def refused(options: ConnectionOptions) -> str:
    with pytest.raises(ConfigError) as raised:
        await connect(options)
    text = str(raised.value)
    assert "\n" not in text
    return text


async def test_nobody_there() -> None:
    port = free_ports(1)[0]
    assert "there is no NATS server at" in await refused(
        ConnectionOptions(servers=(f"nats://127.0.0.1:{port}",))
    )


@pytest.mark.parametrize(
    "error",
    [
        BrokenPipeError(32, "Broken pipe"),
        ConnectionResetError(104, "Connection reset by peer"),
        ConnectionAbortedError(103, "Software caused connection abort"),
        ConnectionError("Connection lost"),
        nats.errors.UnexpectedEOF(),
        nats.errors.StaleConnectionError(),
        nats.errors.ConnectionClosedError(),
    ],
    ids=lambda error: error.__class__.__name__,
)
async def test_a_connection_that_was_taken_and_closed_is_no_missing_server(
    error: Exception, one: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says what the server had said of itself by then, and suspects nothing else."""
    met: dict[str, object] = {}

    async def closes(self: Client, *given: object, **more: object) -> None:
        self._server_info = met
        raise error

    monkeypatch.setattr(Client, "_process_connect_init", closes)
    plain = ConnectionOptions(servers=one.urls)
    assert "closed the connection without a word" in await refused(plain)
    met["version"] = "2.12.1"
    assert "(NATS 2.12.1) closed the connection: the server's log says why" in await refused(plain)
    met["tls_verify"] = True
    assert "demands a certificate" in await refused(plain)


async def test_a_connection_refused_is_a_missing_server(
    one: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(self: Client, *given: object, **more: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(Client, "_process_connect_init", refuses)
    assert "there is no NATS server at" in await refused(ConnectionOptions(servers=one.urls))


async def test_one_of_several_servers_is_enough(one: Servers) -> None:
    port = free_ports(1)[0]
    client = await connect(ConnectionOptions(servers=(f"nats://127.0.0.1:{port}", *one.urls)))
    assert client.is_connected
    await client.close()


async def test_a_server_too_old(one: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OLDEST", (99, 0))
    assert "needs 99.0 or newer" in await refused(ConnectionOptions(servers=one.urls))


async def test_a_password(tmp_path: Path) -> None:
    demand_binary()
    with Servers(tmp_path, access=Access("crawler", "open sesame")) as servers:
        good = ConnectionOptions(servers=servers.urls, user="crawler", password="open sesame")
        client = await connect(good)
        assert client.is_connected
        await client.close()
        wrong = ConnectionOptions(servers=servers.urls, user="crawler", password="guess")
        assert "refuses these credentials" in await refused(wrong)
        assert "refuses these credentials" in await refused(ConnectionOptions(servers=servers.urls))


async def test_tls_both_ways(tmp_path: Path) -> None:
    demand_binary()
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    for name, cert in (
        ("server", authority.issue_cert("127.0.0.1")),
        ("agent", authority.issue_cert("agent")),
    ):
        cert.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        (tmp_path / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))
    ca = str(tmp_path / "ca.pem")
    tls = Tls(str(tmp_path / "server.pem"), str(tmp_path / "server.key"), ca, verify=True)
    with Servers(tmp_path / "nats", tls=tls) as servers:
        ours = {"cert": str(tmp_path / "agent.pem"), "key": str(tmp_path / "agent.key")}
        client = await connect(ConnectionOptions(servers=servers.urls, ca=ca, **ours))
        assert client.is_connected
        await client.close()
        assert "authority as ca" in await refused(ConnectionOptions(servers=servers.urls, **ours))
        none = ConnectionOptions(servers=servers.urls, ca=ca)
        assert "demands a certificate of its clients: give cert and key" in await refused(none)
        stranger = trustme.CA().issue_cert("agent")
        stranger.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "stranger.pem"))
        pem = str(tmp_path / "stranger.pem")
        strange = ConnectionOptions(servers=servers.urls, ca=ca, cert=pem, key=pem)
        assert f"may not trust the certificate {pem}" in await refused(strange)
        half = ConnectionOptions(servers=servers.urls, ca=ca, cert=ours["cert"])
        assert "needs both" in await refused(half)
        missing = ConnectionOptions(servers=servers.urls, ca=str(tmp_path / "none.pem"))
        assert "cannot read" in await refused(missing)


# -- credentials: an operator, an account and a user, as `nsc` would make them

_PREFIX = {"O": 14 << 3, "A": 0, "U": 20 << 3}


class Key:
    """A NATS key pair: operator, account or user."""

    def __init__(self, kind: str, key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self.sign = signer(key)
        public = Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
        self.public = encoded(bytes([_PREFIX[kind]]) + public)
        prefix = _PREFIX[kind]
        self.seed = encoded(bytes([18 << 3 | prefix >> 5, (prefix & 31) << 3]) + key)


def encoded(raw: bytes) -> str:
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).rstrip(b"=").decode()


def jwt(issuer: Key, subject: str, name: str, nats: dict[str, object]) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {
        "jti": name,
        "iat": 1_700_000_000,
        "iss": issuer.public,
        "name": name,
        "sub": subject,
        "nats": nats,
    }
    body = part({"typ": "JWT", "alg": "ed25519-nkey"}) + "." + part(claims)
    signature = base64.urlsafe_b64encode(issuer.sign(body.encode())).rstrip(b"=").decode()
    return f"{body}.{signature}"


def credentials(path: Path, user: Key, token: str) -> str:
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )
    return str(path)


async def test_a_credentials_file(tmp_path: Path) -> None:
    demand_binary()
    operator, system, account, user, stranger = (Key(k, bytes([n]) * 32) for n, k in enumerate("OAAUU", 1))
    many = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
    unlimited: dict[str, object] = dict.fromkeys(many, -1)
    store = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    limits = {**unlimited, **store, "wildcards": True}
    is_account = {"type": "account", "version": 2}
    access = Access(
        operator=jwt(operator, operator.public, "O", {"type": "operator", "version": 2}),
        accounts=(
            (system.public, jwt(operator, system.public, "S", {**is_account, "limits": unlimited})),
            (account.public, jwt(operator, account.public, "A", {**is_account, "limits": limits})),
        ),
    )
    may = {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
    good = credentials(tmp_path / "good.creds", user, jwt(account, user.public, "U", may))
    bad = credentials(tmp_path / "bad.creds", stranger, jwt(account, user.public, "U", may))
    with Servers(tmp_path / "nats", access=access) as servers:
        client = await connect(ConnectionOptions(servers=servers.urls, credentials=good))
        assert client.is_connected
        await client.close()
        assert "refuses these credentials" in await refused(
            ConnectionOptions(servers=servers.urls, credentials=bad)
        )


def test_what_is_no_credentials_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    for path in ("x", "none"):
        with pytest.raises(ConfigError):
            read_credentials(str(tmp_path / path))
    seed = Key("U", b"k" * 32).seed
    assert seed_key(seed) == b"k" * 32
    assert seed_key(seed[:-1] + ("A" if seed[-1] != "A" else "B")) is None
    assert seed_key("no seed!") is None and seed_key("") is None


def test_the_servers_sync_every_write(tmp_path: Path, one: Servers) -> None:
    assert "sync_interval: always" in configuration("n", 1, 2, "/s")
    about = one.all[0].ask("/jsz?config=1")
    assert about is not None and about["config"]["sync_always"] is True


def test_names_are_checked() -> None:
    for name in ("", "a b", "a.b", "x" * 41, "-a", "a*"):
        with pytest.raises(ConfigError):
            Names(name)
    assert Names("news-2026").subject("log.3") == "lycosa.news-2026.log.3"
