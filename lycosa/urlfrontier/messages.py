"""The messages and calls of URLFrontier's interface; classes are made from this table at import.

The interface is that of crawler-commons/url-frontier, version 2.6 (API/src/main/protobuf/urlfrontier.proto,
Apache-2.0): package `urlfrontier`, service `URLFrontier`. This table has its names, numbers and types, so that
messages on the wire are the same; neither a compiler nor generated code is needed.

    message = name ":" *( field )
    field   = name type [ "*" ] number      * repeated; ? optional; {k,v} a map; "|" before it: of the oneof `item`
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "urlfrontier"
SERVICE = f"{PACKAGE}.URLFrontier"

_MESSAGES = """
Stats: size uint64 1, inProcess uint32 2, counts {string,uint64} 3, numberOfQueues uint64 4, crawlID string 5
Pagination: start uint32 1, size uint32 2, include_inactive bool 3, crawlID string 4, local bool 5
DeleteCrawlMessage: value string 1, local bool 2
Empty:
Local: local bool 1
Active: state bool 1, local bool 2
Boolean: state bool 1
Long: value uint64 1
QueueList: values string* 1, total uint64 2, start uint32 3, size uint32 4, crawlID string 5
StringList: values string* 1
QueueWithinCrawlParams: key string 1, crawlID string 2, local bool 3
QueueDelayParams: key string 1, delay_requestable uint32 2, crawlID string 3, local bool 4
BlockQueueParams: key string 1, time uint64 2, crawlID string 3, local bool 4
GetParams: max_urls_per_queue uint32 1, max_queues uint32 2, key string 3, delay_requestable uint32 4, |anyCrawlID AnyCrawlID 5, |crawlID string 6
AnyCrawlID:
URLItem: |discovered DiscoveredURLItem 1, |known KnownURLItem 2, ID string 3, creation_date uint64 4
AckMessage: ID string 1, status Status 2
URLInfo: url string 1, key string 2, metadata {string,StringList} 3, crawlID string 4
KnownURLItem: info URLInfo 1, refetchable_from_date uint64 2
DiscoveredURLItem: info URLInfo 1
DiscoveredBatch: ID string 1, items URLInfo* 2
BatchAck: ID string 1, statuses Status* 2
LogLevelParams: package string 1, level Level 2, local bool 3
CrawlLimitParams: key string 1, limit uint32 2, crawlID string 3, local bool 4
URLStatusRequest: url string 1, key string 2, crawlID string 3
ListUrlParams: start uint32 1, size uint32 2, key string 3, crawlID string 4, local bool 5, filter string? 6, ignoreCase bool? 7
CountUrlParams: key string 1, crawlID string 2, filter string? 3, ignoreCase bool? 4, local bool? 5
PurgeUrlParams: key string 1, crawlID string 2, days uint32 3
"""  # noqa: E501 - a line a message

_ENUMS = {
    "Status": ("AckMessage", ("OK", "SKIPPED", "FAIL")),
    "Level": ("LogLevelParams", ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")),
}

CALLS = {
    "ListNodes": ("Empty", "StringList"),
    "ListCrawls": ("Local", "StringList"),
    "DeleteCrawl": ("DeleteCrawlMessage", "Long"),
    "ListQueues": ("Pagination", "QueueList"),
    "GetURLs": ("GetParams", "stream URLInfo"),
    "PutURLs": ("stream URLItem", "stream AckMessage"),
    "PutDiscovered": ("stream DiscoveredBatch", "stream BatchAck"),
    "GetStats": ("QueueWithinCrawlParams", "Stats"),
    "DeleteQueue": ("QueueWithinCrawlParams", "Long"),
    "BlockQueueUntil": ("BlockQueueParams", "Empty"),
    "SetActive": ("Active", "Empty"),
    "GetActive": ("Local", "Boolean"),
    "SetDelay": ("QueueDelayParams", "Empty"),
    "SetLogLevel": ("LogLevelParams", "Empty"),
    "SetCrawlLimit": ("CrawlLimitParams", "Empty"),
    "GetURLStatus": ("URLStatusRequest", "URLItem"),
    "ListURLs": ("ListUrlParams", "stream URLItem"),
    "CountURLs": ("CountUrlParams", "Long"),
    "PurgeURLs": ("PurgeUrlParams", "Long"),
}
"""Calls of the service, with the types of request and response."""

_FIELD = re.compile(r"(\|?)(\w+) (\{(\w+),(\w+)\}|\w+)([*?]?) (\d+)")
_Field = descriptor_pb2.FieldDescriptorProto


def _typed(field: Any, kind: str) -> None:
    """Give a field its type: a scalar, an enum or a message."""
    scalar = getattr(_Field, f"TYPE_{kind.upper()}", None)
    if scalar is not None:
        field.type = scalar
    elif kind in _ENUMS:
        field.type, field.type_name = _Field.TYPE_ENUM, f".{PACKAGE}.{_ENUMS[kind][0]}.{kind}"
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


def _message(file: Any, line: str) -> None:
    name, _, rest = line.partition(":")
    message = file.message_type.add(name=name)
    for enum, (owner, values) in _ENUMS.items():
        if owner == name:
            made = message.enum_type.add(name=enum)
            for number, value in enumerate(values):
                made.value.add(name=value, number=number)
    fields = [_FIELD.fullmatch(part.strip()) for part in rest.split(", ") if part.strip()]
    if any(found and found[1] for found in fields):
        message.oneof_decl.add(name="item")
    for found in fields:
        assert found is not None, line
        field = message.field.add(name=found[2], number=int(found[7]), label=_Field.LABEL_OPTIONAL)
        if found[1]:
            field.oneof_index = 0
        if found[6] == "?":
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{found[2]}")
        if found[4]:
            entry = message.nested_type.add(name=f"{found[2][0].upper()}{found[2][1:]}Entry")
            entry.options.map_entry = True
            for number, (part, kind) in enumerate((("key", found[4]), ("value", found[5])), 1):
                _typed(entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL), kind)
            field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{name}.{entry.name}"
            continue
        if found[6] == "*":
            field.label = _Field.LABEL_REPEATED
        _typed(field, found[3])


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="urlfrontier.proto", package=PACKAGE, syntax="proto3")
    lines = [line for line in _MESSAGES.splitlines() if line]
    for line in lines:
        _message(file, line)
    pool = (
        descriptor_pool.DescriptorPool()
    )  # a separate pool: a client's generated code may be in the same process
    pool.Add(file)
    names = [line.partition(":")[0] for line in lines]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in names
    }


MESSAGES = _classes()
"""The class of each message, by its name."""
OK, SKIPPED, FAIL = range(3)
