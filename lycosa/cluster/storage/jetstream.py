"""Shared storage in the NATS servers themselves: an object store of JetStream, for small clusters.

Every NATS client lays object stores out like this, and `nats object` reads it; BUCKET is `lycosa_CRAWL_files`:

    OBJ_BUCKET                stream, replicated as the crawl is
    $O.BUCKET.C.ID            the chunks of an object, in order; ID is new for every put
    $O.BUCKET.M.NAME          base64url(name): {"name", "bucket", "nuid": ID, "size", "chunks", "digest", ...}

An object exists once its last message, the one of its name, was accepted: chunks without a name are never
seen. Names are written at an expected sequence, so a writer that replaces an object knows which one, and removes
exactly its chunks. A writer that is killed leaves chunks, which stay until the stream is removed.

All reads go to the stream's leader: a copy that lags behind must not report an object as missing. Chunks
are read one after the other, each by a request, so a reader pays a round trip for every 256 KiB.

The connection is one of its own, on a loop in a thread of its own, so that storage may be asked from any thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api

from lycosa.cluster.storage.protocol import Away, Missing, demand_name, pieces_of
from lycosa.engine.nats.connection import ConnectionOptions, connect, denied
from lycosa.errors import ConfigError, DiskFullError, StorageError
from lycosa.files import Files

CHUNK = 256 << 10
_DIGEST = "SHA-256="
_ASKED = 16
"""Names whose sizes are requested at a time."""
_NO_MESSAGE, _NO_STREAM, _EXISTS = 10037, 10059, 10058
_WRONG_LAST = (10071, 10164)
_FULL = (10077, 10023, 10047, 10028)
_COPIES = (10074, 10005)
_TROUBLE = (nats.errors.Error, TimeoutError, OSError)
T = TypeVar("T")


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the message of a name."""

    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    options: dict[str, Any] = msgspec.field(default_factory=lambda: {"max_chunk_size": CHUNK})
    mtime: str = "0001-01-01T00:00:00Z"
    """Not set, as in other clients: the message has its time."""


class _Changed(Exception):  # noqa: N818
    """The chunks are not those that the name referred to."""


class JetStreamStorage:
    """An object store on the NATS servers."""

    def __init__(
        self,
        options: ConnectionOptions,
        bucket: str,
        *,
        timeout: float = 5.0,
        tries: int = 5,
        first_wait: float = 0.2,
    ) -> None:
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"
        self._timeout = timeout
        self._tries = tries
        self._first_wait = first_wait
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lycosa storage", daemon=True)
        self._thread.start()
        try:
            self._client: Client = self._run(connect(options, "lycosa storage"))
        except BaseException:
            self._end()
            raise
        self._js: JetStreamContext = self._client.jetstream(timeout=timeout)

    # -- the store itself

    def create(self, replicas: int) -> None:
        """Create the store unless it exists."""
        config = api.StreamConfig(
            name=self._stream,
            subjects=[f"$O.{self._bucket}.C.>", f"$O.{self._bucket}.M.>"],
            storage=api.StorageType.FILE,
            discard=api.DiscardPolicy.NEW,
            num_replicas=replicas,
            allow_rollup_hdrs=True,
            allow_direct=True,
            duplicate_window=120,
        )
        try:
            self._run(self._patiently(lambda: self._js.add_stream(config)))
        except _Refused as refused:
            if refused.code == _EXISTS:
                return
            if refused.code in _COPIES:
                raise ConfigError(
                    f"the servers cannot keep {replicas} copies: start more, or create with fewer replicas"
                ) from None
            raise refused.said(self._bucket) from None

    def probe(self) -> None:
        """Check that the store exists; `ConfigError` in one line if not."""
        self.exists("probe")

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._run(asyncio.wait_for(self._client.close(), 2.0))
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- putting

    def put_file(self, name: str, source: Files, local: str, size: int | None = None) -> None:
        self._run(self._put(demand_name(name), pieces_of(source, local, size, CHUNK)))

    def put(self, name: str, data: bytes) -> None:
        pieces = (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))
        self._run(self._put(demand_name(name), pieces))

    async def _put(self, name: str, pieces: Iterable[bytes]) -> None:
        nuid = secrets.token_hex(11)
        chunks = f"$O.{self._bucket}.C.{nuid}"
        size = count = 0
        digest = hashlib.sha256()
        try:
            for piece in pieces:
                # One at a time, in order; the message id removes duplicates when one is sent again.
                await self._publish(chunks, piece, {"Nats-Msg-Id": f"{nuid}-{count}"})
                size, count = size + len(piece), count + 1
                digest.update(piece)
            told = _DIGEST + base64.urlsafe_b64encode(digest.digest()).decode()
            info = Info(name=name, bucket=self._bucket, nuid=nuid, size=size, chunks=count, digest=told)
            before = await self._replace(info)
        except BaseException:
            with contextlib.suppress(*_TROUBLE):
                await self._js.purge_stream(self._stream, subject=chunks)
            raise
        if before is not None:
            await self._purge(f"$O.{self._bucket}.C.{before.nuid}")

    async def _replace(self, info: Info) -> Info | None:
        """Write the message of a name; returns the previous one."""
        while True:
            before, sequence = await self._find(info.name)
            if before is not None and before.nuid == info.nuid:
                return None  # an earlier try was accepted, but its answer lost
            header = {"Nats-Rollup": "sub", "Nats-Expected-Last-Subject-Sequence": str(sequence)}
            try:
                await self._publish(self._subject(info.name), msgspec.json.encode(info), header)
                return before
            except _Refused as refused:
                if refused.code not in _WRONG_LAST:
                    raise refused.said(self._bucket) from None

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        try:
            await self._patiently(lambda: self._js.publish(subject, data, headers=headers))
        except _Refused as refused:
            if refused.code in _WRONG_LAST:
                raise
            raise refused.said(self._bucket) from None

    # -- getting

    def get_file(self, name: str, target: Files, local: str) -> None:
        self._run(self._copy(demand_name(name), target, local))

    async def _copy(self, name: str, target: Files, local: str) -> None:
        while True:
            info = await self._demand(name)
            out = target.create(local)
            try:
                async for chunk in self._chunks(info):
                    out.write(chunk)
                out.sync()
                return
            except _Changed:
                await self._demand_other(info)
            finally:
                out.close()

    def get(self, name: str) -> bytes:
        return self._run(self._read(demand_name(name), 0, None))

    def read_at(self, name: str, offset: int, length: int) -> bytes:
        return self._run(self._read(demand_name(name), offset, offset + length))

    async def _read(self, name: str, start: int, stop: int | None) -> bytes:
        while True:
            info = await self._demand(name)
            found, at = [], 0
            try:
                async for chunk in self._chunks(info):
                    found.append(chunk[max(start - at, 0) : None if stop is None else max(stop - at, 0)])
                    at += len(chunk)
                    if stop is not None and at >= stop:
                        break
                return b"".join(found)
            except _Changed:
                await self._demand_other(info)

    async def _chunks(self, info: Info) -> AsyncIterator[bytes]:
        subject, sequence, size = f"$O.{self._bucket}.C.{info.nuid}", 0, 0
        digest = hashlib.sha256()
        for _ in range(info.chunks):
            found = await self._message(subject, sequence + 1)
            if found is None or found.seq is None:
                raise _Changed
            sequence, data = found.seq, found.data or b""
            digest.update(data)
            size += len(data)
            yield data
        told = info.digest.removeprefix(_DIGEST).encode()
        if size != info.size or base64.urlsafe_b64encode(digest.digest()) != told:
            raise _Changed

    async def _demand_other(self, info: Info) -> None:
        """The object's chunks were missing: check that it was replaced or removed meanwhile."""
        if await self._demand(info.name) == info:
            raise StorageError(
                f"{info.name} in the object store {self._bucket} is damaged: its bytes are gone"
            )

    # -- what is there

    def size(self, name: str) -> int:
        return self._run(self._demand(demand_name(name))).size

    def exists(self, name: str) -> bool:
        return self._run(self._find(demand_name(name)))[0] is not None

    def list(self, directory: str) -> list[str]:
        names = self._run(self._below(demand_name(directory)))
        return sorted({name.partition("/")[0] for name in names})

    def sizes(self, directory: str) -> dict[str, int]:
        return self._run(self._sizes(demand_name(directory)))

    async def _sizes(self, directory: str) -> dict[str, int]:
        names = [name for name in await self._below(directory) if "/" not in name]
        found: dict[str, int] = {}
        for at in range(0, len(names), _ASKED):
            some = names[at : at + _ASKED]
            rows = await asyncio.gather(*(self._find(f"{directory}/{name}") for name in some))
            found |= {name: row.size for name, (row, _) in zip(some, rows, strict=True) if row is not None}
        return found

    async def _below(self, directory: str) -> Sequence[str]:
        """Names below a directory, relative to it."""
        found = []
        offset = 0
        while True:
            told = json.dumps({"subjects_filter": f"$O.{self._bucket}.M.>", "offset": offset}).encode()
            page = await self._patiently(lambda told=told: self._info_page(told))  # type: ignore[misc]
            subjects = (page.get("state") or {}).get("subjects") or {}
            for subject in subjects:
                with contextlib.suppress(binascii.Error, ValueError):  # skip foreign names
                    name = base64.urlsafe_b64decode(subject.rpartition(".")[2]).decode()
                    if name.startswith(f"{directory}/"):
                        found.append(name[len(directory) + 1 :])
            offset += len(subjects)
            if not subjects or offset >= page.get("total", 0):
                return found

    async def _info_page(self, told: bytes) -> dict[str, Any]:
        subject = f"$JS.API.STREAM.INFO.{self._stream}"
        page: dict[str, Any] = json.loads(
            (await self._client.request(subject, told, timeout=self._timeout)).data
        )
        if "error" in page:
            raise nats.js.errors.APIError.from_error(page["error"])
        return page

    async def _demand(self, name: str) -> Info:
        found, _ = await self._find(name)
        if found is None:
            raise Missing(f"there is no {name} on shared storage (the object store {self._bucket})")
        return found

    async def _find(self, name: str) -> tuple[Info | None, int]:
        """The message of a name, and its sequence; None if there is no such object."""
        found = await self._message(self._subject(name), None)
        if found is None or found.seq is None:
            return None, 0
        try:
            info = msgspec.json.decode(found.data or b"", type=Info)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise StorageError(f"{name} in the object store {self._bucket} is damaged: remove it") from None
        return (None if info.deleted else info), found.seq

    async def _message(self, subject: str, sequence: int | None) -> api.RawStreamMsg | None:
        """The last message of a subject, or its first one from a sequence on."""
        later = sequence is not None
        try:
            return await self._patiently(
                lambda: self._js.get_msg(self._stream, seq=sequence, subject=subject, next=later)
            )
        except _Refused as refused:
            if refused.code == _NO_MESSAGE:
                return None
            raise refused.said(self._bucket) from None

    # -- removing

    def remove(self, name: str) -> None:
        self._run(self._remove(demand_name(name)))

    def remove_all(self, directory: str) -> None:
        async def all_of_them() -> None:
            for name in await self._below(directory):
                await self._remove(f"{directory}/{name}")

        demand_name(directory)
        self._run(all_of_them())

    async def _remove(self, name: str) -> None:
        info, _ = await self._find(name)
        if info is not None:
            await self._purge(self._subject(name))  # first, so that it is no longer found
            await self._purge(f"$O.{self._bucket}.C.{info.nuid}")

    async def _purge(self, subject: str) -> None:
        try:
            await self._patiently(lambda: self._js.purge_stream(self._stream, subject=subject))
        except _Refused as refused:
            raise refused.said(self._bucket) from None

    # -- asking

    def _subject(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _patiently(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask, several times if the servers do not answer; every request here may safely be repeated."""
        wait = self._first_wait
        for tries in range(self._tries):
            try:
                return await ask()
            except nats.js.errors.APIError as error:
                if (error.code or 500) < 500 or error.err_code in (*_FULL, *_COPIES):
                    raise _Refused(error.err_code or 0, error.description or "") from None
                why: Exception = error
            except _TROUBLE as error:
                why = error
            if refused := denied(self._client):
                raise ConfigError(f"{refused}: see the permissions in docs/operating.md")
            if tries < self._tries - 1:
                await asyncio.sleep(wait)
                wait *= 2
        raise Away(f"the object store {self._bucket} does not answer ({type(why).__name__})")


class _Refused(Exception):  # noqa: N818
    """The servers refuse the request."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def said(self, bucket: str) -> Exception:
        if self.code in _FULL or "maximum" in self.text:
            return DiskFullError(f"the servers have no room for the object store {bucket}: {self.text}")
        if self.code == _NO_STREAM:
            return ConfigError(f"the servers have no object store {bucket}: was the crawl created elsewhere?")
        return Away(f"the object store {bucket}: {self.text}")
