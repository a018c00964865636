"""Output of extracted rows: files that can be cut back to a mark, so that rows and place agree after a kill.

    sink.restore(mark)      everything after the mark is gone; `StorageError` if there is less than the mark says
    sink.add(rows)          rows are held
    mark = sink.commit()    everything added is durable; the mark says how far

The caller keeps the mark with its place in the crawl, in one file that is replaced atomically; the rows after the
last mark are made again.

    .jsonl      one file; the mark is its length. Bytes are base64, times ISO text.
    .parquet    a directory of part-00000.parquet ...; the mark is their number. A column has the type of its
                values (integers mixed with floats become floats); values without a common type become text,
                and lists and dicts of varying form JSON. A part has the columns that its rows have; readers
                that take a directory join them by name.
    .csv        a directory of part-00000.csv ..., each with a header line; for rows with known columns only

A row with a partition (`lycosa.ask.export`) goes to a part of the same number in a subdirectory.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from lycosa.ask.export import PART, parquet_modules, write_csv
from lycosa.ask.json_form import safe
from lycosa.errors import ConfigError, StorageError
from lycosa.files import Appender, DiskFiles, said

Row = dict[str, Any]


class Sink(Protocol):
    """For the contract see the module's text."""

    linger: float
    """Seconds that rows may wait for a commit."""

    @property
    def held(self) -> int:
        """Bytes of rows that are not committed, approximately."""
        ...

    def restore(self, mark: int) -> None: ...
    def add(self, rows: list[Row]) -> None: ...
    def commit(self) -> int: ...
    def close(self) -> None: ...


def sink_for(path: Path, schema: Any = None, columns: Sequence[str] = ()) -> Sink:
    """The sink for a file name's suffix; Parquet with a schema, if all rows have the same; CSV with columns."""
    if path.suffix == ".csv" and columns:
        return CsvParts(path, columns)
    if path.suffix in (".jsonl", ".ndjson"):
        return JsonLines(path)
    if path.suffix == ".parquet":
        return Parts(path, schema)
    raise ConfigError(f"{path.name} names no format: let it end in .jsonl or .parquet")


class JsonLines:
    """One file of JSON lines."""

    linger = 2.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = DiskFiles(path.parent)
        self._out: Appender | None = None
        self.held = 0
        self._encode = msgspec.json.Encoder(enc_hook=_json_value).encode

    def restore(self, mark: int) -> None:
        size = self._files.size(self._path.name) if self._path.exists() else 0
        if size < mark:
            raise StorageError(
                f"{self._path} has {size} bytes and {mark} were written: restore it, or start again with --anew"
            )
        if size > mark:
            self._files.truncate(self._path.name, mark)
        self._out = self._files.append(self._path.name)

    def add(self, rows: list[Row]) -> None:
        assert self._out is not None
        for row in rows:
            line = safe(self._encode(row)) + b"\n"
            self._out.write(line)
            self.held += len(line)

    def commit(self) -> int:
        assert self._out is not None
        self._out.sync()
        self._files.sync_dir("")
        self.held = 0
        return self._out.size

    def close(self) -> None:
        if self._out is not None:
            self._out.close()


class Parts:
    """A directory of Parquet files."""

    linger = 60.0
    suffix = ".parquet"

    def __init__(self, path: Path, schema: Any = None) -> None:
        self._schema = schema
        if self.suffix == ".parquet":
            parquet_modules()
        if path.exists() and not path.is_dir():
            raise ConfigError(f"cannot write {path}: it is a file, and rows go to a directory of parts")
        self._path = path
        self._rows: list[Row] = []
        self.held = 0
        self._count = 0

    def restore(self, mark: int) -> None:
        with said("write", self._path):
            self._path.mkdir(parents=True, exist_ok=True)
            for part in self._path.rglob(f"*part-*{self.suffix}"):
                number = part.name.removeprefix(".").removeprefix("part-").removesuffix(self.suffix)
                if part.name.startswith(".") or (number.isdigit() and int(number) >= mark):
                    part.unlink()
        self._count = mark

    def add(self, rows: list[Row]) -> None:
        self._rows += rows
        self.held += sum(64 + sum(_size(value) for value in row.values()) for row in rows)

    def commit(self) -> int:
        if self._rows:
            places: dict[str, list[Row]] = {}
            for row in self._rows:
                places.setdefault(row.pop(PART, ""), []).append(row)
            for place, rows in places.items():
                self._write(self._path / place, rows)
            if "" not in places:
                DiskFiles(self._path).sync_dir("")
            self._count += 1
            self._rows, self.held = [], 0
        return self._count

    def _write(self, directory: Path, rows: list[Row]) -> None:
        """Write one part durably."""
        name = f"part-{self._count:05d}{self.suffix}"
        draft = directory / f".{name}"
        with said("write", draft):
            directory.mkdir(exist_ok=True)
            self.fill(draft, rows)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
        files = DiskFiles(directory)
        files.rename(draft.name, name)
        files.sync_dir("")

    def fill(self, path: Path, rows: list[Row]) -> None:
        """Write rows to a file."""
        arrow, parquet = parquet_modules()
        parquet.write_table(table_of(arrow, rows, self._schema), path, compression="zstd")

    def close(self) -> None:
        """Does nothing: no file is open between commits."""


class CsvParts(Parts):
    """A directory of CSV files."""

    suffix = ".csv"

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        super().__init__(path)
        self._columns = columns

    def fill(self, path: Path, rows: list[Row]) -> None:
        with path.open("wb") as out:
            write_csv(rows, out, columns=self._columns)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | dict) else 8


def _json_value(value: Any) -> Any:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes | bytearray) else str(value)


def table_of(arrow: Any, rows: list[Row], schema: Any = None) -> Any:
    """Rows of any form as a table; see the module's text for the types of its columns."""
    if schema is not None:
        return arrow.Table.from_pylist(rows, schema=schema)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return arrow.table({name: _column(arrow, [row.get(name) for row in rows]) for name in names})


def _column(arrow: Any, values: list[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return arrow.array(values, arrow.string())
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    try:
        if len(kinds) == 1 or kinds == {int, float}:
            return arrow.array(values)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowNotImplementedError, OverflowError):
        pass
    return arrow.array([None if value is None else _told(value) for value in values], arrow.string())


def _told(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, enc_hook=_json_value).decode()
