"""Shared storage in a bucket of an S3-compatible object store.

    s3://BUCKET/PREFIX?endpoint=URL&region=NAME          endpoint: default AWS; region: default us-east-1

An object of S3 appears whole when its put, or the last step of its upload in parts, is answered; since 2020 AWS
guarantees that it is visible at once, in lists too, and the other servers in use do as well. Objects above
`PIECE` are uploaded in parts of that size, a few at a time, so that memory is bounded; a killed writer leaves parts
that are never visible, and that a bucket's lifecycle rule removes (see docs/operating.md).

Credentials are never part of the place: it is kept with the crawl, and shown in its status. They come from the
environment (`AWS_ACCESS_KEY_ID`, ...), the credentials file (`AWS_PROFILE`), or what AWS gives to an instance, a
container or a web identity. Error messages contain only the status and the code of the server's answer, so that
nothing that it repeats reaches a log.

Temporary failures (no connection, a connection that is cut, 5xx, 429) are retried, with growing waits,
and are `Away` in the end. The rest is for the operator to fix: `ConfigError`.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from lycosa.cluster.storage.protocol import PIECE, Away, Missing, demand_name, pieces_of
from lycosa.errors import ConfigError, StorageError
from lycosa.files import Files

_ANSWER = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]\Z", re.IGNORECASE)
_KEYS = ("endpoint", "region")
_MOST_PARTS = 9_000
_PARALLEL = 2
_TRIES = 3
"""Tries to read a piece whose bytes stop coming; the library retries requests, but not interrupted answers."""
_MEND = {
    "NoSuchBucket": "there is no such bucket: create it, or check the name",
    "InvalidAccessKeyId": "the server does not know this access key: check AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the server refuses the secret key: check AWS_SECRET_ACCESS_KEY",
    "RequestTimeTooSkewed": "this machine's clock differs too much from the server's: set it (NTP)",
    "ExpiredToken": "the credentials have expired: get new ones",
    "InvalidToken": "the server refuses the session token: check AWS_SESSION_TOKEN",
    "AccessDenied": "the credentials lack a permission (see docs/operating.md)",
    "PermanentRedirect": "the bucket is in another region: say region=... in the URL",
    "AuthorizationHeaderMalformed": "the bucket is in another region: say region=... in the URL",
    "EntityTooLarge": "the server does not take objects of this size",
}
_INSTANCE = ("169.254.", "/latest/api/token", "/latest/meta-data/")
"""Addresses that are asked for credentials when there are no others."""
T = TypeVar("T")


class S3Place(NamedTuple):
    """The place of a bucket; no secrets."""

    bucket: str
    prefix: str
    endpoint: str
    region: str

    @staticmethod
    def parse(text: str) -> S3Place:
        """A place from its URL. Errors do not quote the URL: it may hold secrets."""
        form = "s3://BUCKET/PREFIX?endpoint=URL&region=NAME"
        try:
            parts = urlsplit(text)
            given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
            endpoint = urlsplit(given.get("endpoint", ""))
            endpoint.port  # noqa: B018  a port that is none is told here
        except ValueError:
            raise ConfigError(f"this is not the URL of an S3 bucket: {form}") from None
        if "@" in parts.netloc or "@" in endpoint.netloc or set(given) - set(_KEYS):
            raise ConfigError(
                f"an S3 URL is {form}, and no more: credentials do not belong in it (it is kept with the crawl);"
                " set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where agents run"
            )
        prefix = parts.path.strip("/")
        if not _BUCKET.match(parts.netloc) or parts.fragment:
            raise ConfigError(f"this is not the URL of an S3 bucket: {form}")
        if given.get("endpoint") and (endpoint.scheme not in ("http", "https") or not endpoint.hostname):
            raise ConfigError("the endpoint of an S3 URL is itself a URL: endpoint=https://HOST[:PORT]")
        if prefix:
            try:
                demand_name(prefix)
            except StorageError:
                raise ConfigError("the prefix of an S3 URL has a part that cannot be a name") from None
        return S3Place(parts.netloc, prefix, given.get("endpoint", "").rstrip("/"), given.get("region", ""))

    def __str__(self) -> str:
        given = {key: value for key in _KEYS if (value := getattr(self, key))}
        query = "?" + urlencode(given, safe=":/") if given else ""
        return f"s3://{self.bucket}{'/' if self.prefix else ''}{self.prefix}{query}"


class Patience(NamedTuple):
    """How long to wait for a server."""

    connect: float = 5.0
    request: float = 60.0
    """Seconds for one request, including its bytes: a piece of 8 MiB, at most."""
    retries: int = 4
    first: float = 0.2
    most: float = 5.0


class S3Storage:
    """A bucket, or the names below a prefix in one."""

    def __init__(
        self,
        place: S3Place,
        *,
        environ: Mapping[str, str] = os.environ,
        patience: Patience = Patience(),  # noqa: B008
    ) -> None:
        try:
            import obstore
            from obstore.store import S3Store
        except ImportError:
            raise ConfigError(
                "shared storage in S3 needs the package obstore: pip install 'lycosa[s3]'"
            ) from None
        self._place = place
        self._answered = False
        self._api: Any = obstore
        config: Any = {
            "region": place.region
            or environ.get("AWS_REGION")
            or environ.get("AWS_DEFAULT_REGION")
            or "us-east-1",
            "disable_bulk_delete": True,  # servers answer it differently
        }
        endpoint = (
            place.endpoint or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
        )
        if endpoint:
            config["endpoint"] = endpoint
        config |= file_credentials(environ)
        try:
            self._store: Any = S3Store(
                place.bucket,
                prefix=place.prefix or None,
                config=config,
                client_options={
                    "allow_http": endpoint.startswith("http://"),
                    "connect_timeout": timedelta(seconds=patience.connect),
                    "timeout": timedelta(seconds=patience.request),
                },
                retry_config={
                    "max_retries": patience.retries,
                    "backoff": {
                        "init_backoff": timedelta(seconds=patience.first),
                        "max_backoff": timedelta(seconds=patience.most),
                        "base": 2,
                    },
                    "retry_timeout": timedelta(seconds=patience.request),
                },
            )
        except Exception as error:
            raise ConfigError(f"{place} cannot be opened ({type(error).__name__}): check its parts") from None

    # -- putting

    def put_file(self, name: str, source: Files, local: str, size: int | None = None) -> None:
        size = source.size(local) if size is None else size
        demand_name(name)
        if size <= PIECE:
            self.put(name, b"".join(pieces_of(source, local, size)))
            return
        part = max(PIECE, size // _MOST_PARTS + 1)
        self._ask(
            lambda: self._api.put(
                self._store,
                name,
                pieces_of(source, local, size, part),
                use_multipart=True,
                chunk_size=part,
                max_concurrency=_PARALLEL,
            )
        )

    def put(self, name: str, data: bytes) -> None:
        demand_name(name)
        self._ask(lambda: self._api.put(self._store, name, data, use_multipart=False))

    # -- getting

    def get_file(self, name: str, target: Files, local: str) -> None:
        while not self._copied(name, target, local):
            """It was replaced meanwhile: try again."""

    def _copied(self, name: str, target: Files, local: str) -> bool:
        """Copy an object; False if its pieces are of different puts."""
        size, version = self.size(name), None
        out = target.create(local)
        try:
            for offset in range(0, size, PIECE):
                data, found = self._piece(name, offset, min(PIECE, size - offset))
                version = version or found
                if found != version or found[0] != size:
                    return False
                out.write(data)
            out.sync()
        finally:
            out.close()
        return True

    def get(self, name: str) -> bytes:
        demand_name(name)
        return self._ask(lambda: bytes(self._api.get(self._store, name).bytes()), name)

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        left = min(length, self.size(name) - offset)
        return self._piece(name, offset, left)[0] if left > 0 else b""

    def _piece(self, name: str, offset: int, length: int) -> tuple[bytes, tuple[object, ...]]:
        """Some bytes of an object, with the size, tag and time of the object they belong to."""

        def ask() -> tuple[bytes, tuple[object, ...]]:
            found = self._api.get(self._store, name, options={"range": (offset, offset + length)})
            meta = found.meta
            return bytes(found.bytes()), (meta["size"], meta["e_tag"], meta["last_modified"])

        return self._ask(ask, name)

    # -- what is there

    def size(self, name: str) -> int:
        demand_name(name)
        return int(self._ask(lambda: self._api.head(self._store, name), name)["size"])

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except Missing:
            return False
        return True

    def list(self, directory: str) -> list[str]:
        found = self._list(directory)
        return sorted(
            {*map(_last, found["common_prefixes"]), *(_last(row["path"]) for row in found["objects"])}
        )

    def sizes(self, directory: str) -> dict[str, int]:
        return {_last(row["path"]): int(row["size"]) for row in self._list(directory)["objects"]}

    def _list(self, directory: str) -> Any:
        demand_name(directory)
        return self._ask(lambda: self._api.list_with_delimiter(self._store, directory))

    def probe(self) -> None:
        """Check that the bucket answers and accepts our credentials; `ConfigError` in one line if not."""
        self._list("probe")

    # -- removing

    def remove(self, name: str) -> None:
        demand_name(name)
        with contextlib.suppress(Missing):
            self._ask(lambda: self._api.delete(self._store, name), name)

    def remove_all(self, directory: str) -> None:
        demand_name(directory)
        pages = self._ask(lambda: list(self._api.list(self._store, directory)))
        for name in [row["path"] for page in pages for row in page]:
            self.remove(name)

    def close(self) -> None:
        """Connections end by themselves."""

    # -- errors

    def _ask(self, act: Callable[[], T], name: str = "") -> T:
        """Run `act`; errors of the library become ours. `name`: the requested object, if any."""
        for tries in range(_TRIES):
            try:
                found = act()
                self._answered = True
                return found
            except (FileNotFoundError, self._api.exceptions.BaseError) as error:
                why = self._judge(error, name)
                if not isinstance(why, Away) or _ANSWER.search(str(error)) or tries == _TRIES - 1:
                    raise why from None
        raise AssertionError("not reached")

    def _judge(self, error: Exception, name: str) -> Exception:
        text = str(error)
        found, code = _ANSWER.search(text), _CODE.search(text)
        status = int(found[1]) if found else 0
        word = code[1] if code else ""
        if not self._answered and any(word in text for word in _INSTANCE):
            return ConfigError(
                f"there are no credentials for {self._place}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "or AWS_PROFILE"
            )
        if "redirect without LOCATION" in text:
            status, word = 301, "PermanentRedirect"
        if not status and "certificate" in text.lower():
            return ConfigError(
                f"{self._place}: the server's certificate cannot be trusted: check the endpoint"
            )
        if isinstance(error, FileNotFoundError) and name and word in ("", "NoSuchKey"):
            return Missing(f"there is no {name} on shared storage ({self._place})")
        if status in (408, 409, 416, 429) or status >= 500 or word in ("RequestTimeout", "SlowDown"):
            return Away(f"{self._place} cannot answer now ({' '.join(filter(None, (str(status), word)))})")
        if status or isinstance(error, FileNotFoundError):
            if not word and status == 403:
                word = "AccessDenied"
            said = _MEND.get(word, "it refuses what it was asked: check bucket, region and endpoint")
            return ConfigError(
                f"{self._place}: {said} ({' '.join(filter(None, (str(status or 404), word)))})"
            )
        return Away(f"{self._place} does not answer")


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def file_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """The keys from the environment, or else from the credentials file and its profile; empty if neither has
    any."""
    if environ.get("AWS_ACCESS_KEY_ID"):
        named = {"access_key_id": "AWS_ACCESS_KEY_ID", "secret_access_key": "AWS_SECRET_ACCESS_KEY"}
        named |= {"session_token": "AWS_SESSION_TOKEN"}
        return {key: value for key, name in named.items() if (value := environ.get(name, ""))}
    path = Path(
        environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path(environ.get("HOME", "/"), ".aws/credentials")
    )
    profile = environ.get("AWS_PROFILE", "")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text("utf-8"))
    except FileNotFoundError:
        if profile:
            raise ConfigError(f"AWS_PROFILE is {profile}, and there is no {path}") from None
        return {}
    except (OSError, ValueError, configparser.Error):
        raise ConfigError(f"cannot read the credentials file {path}") from None  # its content is not quoted
    if not parser.has_section(profile or "default"):
        if profile:
            raise ConfigError(f"{path} has no profile {profile}")
        return {}
    section = parser[profile or "default"]
    words = ("access_key_id", "secret_access_key", "session_token")
    return {word: value for word in words if (value := section.get(f"aws_{word}", ""))}
