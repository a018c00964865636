"""The connection to the NATS servers: addresses, TLS, credentials, and a one-line error when it fails.

An agent opens one outgoing connection and listens on no port. The first connection is tried once per server, and
its failure is for the operator to fix (`ConfigError`): no server there, wrong credentials, a certificate that does
not fit, no JetStream, a server older than 2.12 (expected-sequence checks and replicated deletes before that
have known defects). Several servers elect a leader for some seconds after one of them is lost, and JetStream is
unavailable meanwhile: then all are tried again, for ten seconds. Once established, a connection is kept: if it is
lost, it is reopened for ever, to any of the servers.
Meanwhile requests fail as `Unavailable`, leases run out, and the agent stops by itself.

A credentials file holds a user's JWT and the seed of its key, as the `nsc` tool writes it:

    -----BEGIN NATS USER JWT----- line(s) jwt ... -----BEGIN USER NKEY SEED----- seed ...
    seed := base32(prefix:2 key:32 crc16:2)         crc: CCITT, little endian

Subjects are bytes to the servers, and anyone who may publish can use any. The library takes a subject that is not
UTF-8 for a broken connection, reconnects and receives the same again, for ever; here such bytes become U+FFFD.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client

from lycosa.errors import ConfigError

OLDEST = (2, 12)
_FIRST = 5.0
"""Seconds that a first connection may take, per server."""
_ELECTION = 20
"""How often several servers are tried, half a second apart, while they have no leader."""
_SWITCHED_OFF = (10039, 10076)
"""What a server answers if JetStream is off for the account, or altogether."""
_DENIED = re.compile(r"permissions violation for (publish|subscription) to \"?([^\"]+)", re.IGNORECASE)
_CLOSED = (
    ConnectionError,
    nats.errors.UnexpectedEOF,
    nats.errors.StaleConnectionError,
    nats.errors.ConnectionClosedError,
)
"""What we see when the other end accepts a connection and then closes it (a refused connection is told apart)."""


class _Client(Client):
    """The library's client that tolerates subjects that are not UTF-8, and remembers what it was refused."""

    denied = ""

    @property
    def met(self) -> dict[str, Any]:
        """What the last server said of itself when it was connected; empty if it said nothing."""
        return self._server_info

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> Any:
        return super()._build_message(sid, _utf8(subject), _utf8(reply), data, headers)


def _utf8(name: bytes) -> bytes:
    return bytes(name).decode("utf-8", "replace").encode()


class ConnectionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The servers' addresses, and our credentials."""

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    ca: str = ""  # PEM file of the authority that signed the servers' certificates
    cert: str = ""  # PEM file of our certificate, if the servers want one
    key: str = ""  # PEM file of its private key
    credentials: str = ""  # file with a user's JWT and seed
    user: str = ""
    password: str = ""


async def connect(options: ConnectionOptions, name: str = "lycosa") -> Client:
    """An established connection that will be kept open; `ConfigError` if there can be none."""
    settings = _settings(options, name)
    for attempt in range(_ELECTION):
        if (failures := await _try_all(options, settings)) is None:
            break
        if len(options.servers) == 1 or not any(electing for _, electing in failures):
            break
        if attempt + 1 < _ELECTION:
            await asyncio.sleep(0.5)
    if failures is not None:
        said = "; ".join(dict.fromkeys(text for text, _ in failures))
        raise ConfigError(said or "no NATS server was given: --cluster nats://HOST")
    client = _Client()

    async def note(error: Exception) -> None:
        """Errors reach the caller that waits for an answer (the library would print them as well), but a denied
        permission does not."""
        if found := _DENIED.search(str(error)):
            client.denied = client.denied or f"this user has no permission to {found[1].lower()} {found[2]}"

    kept = client.connect(
        list(options.servers),
        error_cb=note,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.25,  # type: ignore[arg-type]
        ping_interval=5,
        connect_timeout=2,
        **settings,
    )
    try:
        await asyncio.wait_for(kept, _FIRST * max(len(options.servers), 1))
    except TimeoutError:
        raise ConfigError(f"none of {', '.join(options.servers)} keeps a connection") from None
    return client


async def _try_all(options: ConnectionOptions, settings: dict[str, Any]) -> list[tuple[str, bool]] | None:
    """None if one of the servers can be used; else what is wrong with each, and whether it may pass by itself."""
    failures: list[tuple[str, bool]] = []
    for url in options.servers:
        client = _Client()
        try:
            await _probe(url, client, settings)
            return None
        except ConfigError:
            raise
        except nats.js.errors.ServiceUnavailableError:
            failures.append((_without_jetstream(url), True))
        except Exception as error:
            failures.append((_said(url, error, client.met, options.cert), False))
    return failures


def denied(client: Client) -> str:
    """What the servers first refused this user on this connection (a refusal looks like silence); empty if
    nothing."""
    return str(getattr(client, "denied", ""))


def _settings(options: ConnectionOptions, name: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"name": name}
    tls = _tls(options)
    if tls is not None:
        settings["tls"] = tls
    if options.credentials:
        jwt, sign = read_credentials(options.credentials)
        # `user` only tells the library that there is something to present.
        settings |= {"user_jwt_cb": lambda: jwt, "signature_cb": sign, "user": "credentials"}
    elif options.user or options.password:
        settings |= {"user": options.user, "password": options.password}
    return settings


def _tls(options: ConnectionOptions) -> ssl.SSLContext | None:
    if not (options.ca or options.cert or any(url.startswith("tls://") for url in options.servers)):
        return None
    if bool(options.cert) != bool(options.key):
        raise ConfigError("a client certificate needs both: cert and key")
    try:
        context = ssl.create_default_context(cafile=options.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot read the authority's certificate {options.ca}: {error}") from None
    if options.cert:
        try:
            context.load_cert_chain(options.cert, options.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot read the certificate {options.cert}: {error}") from None
    return context


async def _probe(url: str, client: _Client, settings: dict[str, Any]) -> None:
    """One attempt to connect, given up at the first failure."""
    noted: list[Exception] = []

    async def note(error: Exception) -> None:
        noted.append(error)

    once = client.connect(
        [url],
        error_cb=note,
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0.05,  # type: ignore[arg-type]
        connect_timeout=3,
        **settings,
    )
    try:
        try:
            await asyncio.wait_for(once, _FIRST)
        except (nats.errors.NoServersError, TimeoutError) as error:
            raise (noted[0] if noted else error) from None  # the first error tells the cause
        version = client.connected_server_version
        if (version.major, version.minor) < OLDEST:
            raise ConfigError(
                f"{url} runs NATS {version.major}.{version.minor}: "
                f"lycosa needs {OLDEST[0]}.{OLDEST[1]} or newer"
            )
        try:
            await client.jetstream(timeout=_FIRST).account_info()
        except TimeoutError as error:
            raise (noted[0] if noted else error) from None
        except (nats.js.errors.NotFoundError, nats.js.errors.ServiceUnavailableError) as error:
            if (
                isinstance(error, nats.js.errors.ServiceUnavailableError)
                and error.err_code not in _SWITCHED_OFF
            ):
                raise  # there may be no leader at the moment
            raise ConfigError(_without_jetstream(url)) from None
    finally:
        # After a failed handshake the library waits for a transport that never reports that it is closed.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client.close(), 0.5)


def _without_jetstream(url: str) -> str:
    return f"{url} has no JetStream (for this user): switch it on in its configuration"


def _said(url: str, error: Exception, met: dict[str, Any], cert: str) -> str:
    """Why a server could not be connected. `met`: what it said of itself; `cert`: our certificate, if any."""
    text = str(error).lower()
    if (
        isinstance(error, nats.errors.AuthorizationError)
        or "authorization" in text
        or "authentication" in text
    ):
        return f"{url} refuses these credentials"
    if found := _DENIED.search(str(error)):
        return f"{url}: this user has no permission to {found[1].lower()} {found[2]}"
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message or "cannot be verified"
        return f"{url} shows a certificate that we cannot trust ({why}): give its authority as ca"
    of_tls = isinstance(error, ssl.SSLError) or "tls" in text or "ssl" in text
    closed = isinstance(error, _CLOSED) and not isinstance(error, ConnectionRefusedError)
    if met.get("tls_verify") and (of_tls or closed):
        # With TLS 1.3 a client that shows no certificate completes its handshake and is disconnected afterwards:
        # whether that is seen as an error of TLS, of reading or of writing is a matter of chance.
        if not cert:
            return f"{url} demands a certificate of its clients: give cert and key"
        return f"{url} closed the connection: it may not trust the certificate {cert}"
    if of_tls:
        return f"TLS with {url} failed ({error.__class__.__name__}): check ca, cert and key"
    if isinstance(error, TimeoutError):
        return f"{url} does not answer"
    if closed and not met:
        return (
            f"{url} closed the connection without a word: is it the port that a NATS server has for clients?"
        )
    if closed:
        return f"{url} (NATS {met.get('version', '?')}) closed the connection: the server's log says why"
    if isinstance(error, OSError | nats.errors.NoServersError):
        return f"there is no NATS server at {url}"
    return f"cannot connect to {url}: {error or error.__class__.__name__}"


# -- credentials


def read_credentials(path: str) -> tuple[bytes, Callable[[str], bytes]]:
    """The JWT of a credentials file, and the function that signs a server's challenge."""
    try:
        lines = Path(path).read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the credentials {path}: {error}") from None
    jwt = _after(lines, "BEGIN NATS USER JWT")
    key = seed_key(_after(lines, "BEGIN USER NKEY SEED"))
    if not jwt or key is None:
        raise ConfigError(f"{path} is not a NATS credentials file: it holds no JWT and seed")
    sign = signer(key)
    return jwt.encode(), lambda nonce: base64.urlsafe_b64encode(sign(nonce.encode())).rstrip(b"=")


def _after(lines: list[str], mark: str) -> str:
    for number, line in enumerate(lines[:-1]):
        if mark in line:
            return lines[number + 1].strip()
    return ""


def seed_key(seed: str) -> bytes | None:
    """The 32 bytes of private key in a seed; None if it is no seed."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError):
        return None
    if len(raw) != 36 or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        return None
    return raw[2:34]


def signer(key: bytes) -> Callable[[bytes], bytes]:
    """A function that signs by Ed25519 with that key."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise ConfigError(
            "NATS credentials need the package cryptography: pip install cryptography"
        ) from None
    return Ed25519PrivateKey.from_private_bytes(key).sign
