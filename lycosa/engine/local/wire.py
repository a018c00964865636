"""Frames between a client and the server of one machine's engine: see the package."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import msgspec

_LENGTH = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Frames(asyncio.Protocol):
    """One side of a connection: whole frames in, whole frames out."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at = 0
        while at + 4 <= len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            if at + 4 + length > len(data):
                break
            self.heard(*_decode(memoryview(data)[at + 4 : at + 4 + length]))
            at += 4 + length
        self._rest = data[at:]

    def heard(self, number: int, word: str, more: Any) -> None:
        """A frame has come."""
        raise NotImplementedError

    def say(self, *frame: Any) -> None:
        if not self.closed:
            if not self._out:
                asyncio.get_running_loop().call_soon(self._flush)
            body = _encode(frame)
            self._out += (_LENGTH.pack(len(body)), body)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def hang_up(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()
