"""The records of the log and the values in them: the vocabulary that the rooms share.

A crawl is an append-only log of these records; every other structure is a fold over them. They are
encoded by msgspec as MessagePack arrays whose first element is the tag. Fields are only ever added at
the end, with a default, so that an older log stays readable.

    Configured  the crawl's options, whole, whenever they change
    Seeded      URLs given by the operator
    Received    links that another shard found
    Fetched     a fetch that ended with an answer, with the links of the page; a URL may be fetched many times
    Skipped     a URL that will not be fetched, and why
    Deferred    a URL or a site that waits for a time
    Robots      what a site's robots.txt said
    Duplicates  a later notice that earlier fetches had a content that was already known
    Lost        an earlier fetch whose bytes in the archive are gone: the page is to be fetched again
    Reread      earlier records whose links were judged again, after the scope changed
    Learned     a finding about URLs of a site that the crawl acts on from then on, or no longer acts on

Times are whole milliseconds since the epoch. URLs are canonical (see `lycosa.url`), hence ASCII without
white space or newline; that is what lets `Links` join them with newlines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec


class LinkKind(IntEnum):
    """The way in which a page refers to a link. The low seven bits of a byte in `Links.kinds`."""

    ANCHOR = 0
    AREA = 1
    FRAME = 2
    REFRESH = 3
    REDIRECT = 4
    CANONICAL = 5
    ALTERNATE = 6
    SITEMAP = 7
    FEED = 8
    SEED = 9
    FORM = 10
    RELATED = 11  # <link> of any other relation: next, prev, author, search ...
    IMAGE = 32  # from here on: requisites, what a browser needs to show the page
    SCRIPT = 33
    STYLE = 34
    MEDIA = 35
    OBJECT = 36
    ICON = 37
    MANIFEST = 38


NOFOLLOW = 0x80
"""Set in a byte of `Links.kinds`: the page asks that this link not be followed."""

FIRST_REQUISITE = int(LinkKind.IMAGE)


class Link(NamedTuple):
    """One link, unpacked."""

    url: str
    kind: LinkKind
    nofollow: bool
    text: str


class Links(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The links of one record, packed in three parallel columns.

    `urls` and `texts` are joined by newlines, `kinds` has one byte per link. Packed, a page's links are three
    values instead of hundreds of objects: cheap to log, and a kernel can hash them in place.
    """

    urls: bytes = b""
    kinds: bytes = b""
    texts: bytes = b""

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Link]:
        if not self.kinds:
            return
        urls = self.urls.decode("ascii").split("\n")
        texts = self.texts.decode("utf-8").split("\n") if self.texts else [""] * len(urls)
        for url, kind, text in zip(urls, self.kinds, texts, strict=True):
            yield Link(url, LinkKind(kind & 0x7F), bool(kind & NOFOLLOW), text)

    @staticmethod
    def pack(links: Iterable[Link]) -> Links:
        """Pack links; newlines in texts are removed."""
        rows = list(links)
        if not rows:
            return NO_LINKS
        texts = [row.text.replace("\n", " ") for row in rows]
        return Links(
            "\n".join(row.url for row in rows).encode("ascii"),
            bytes(int(row.kind) | (NOFOLLOW if row.nofollow else 0) for row in rows),
            "\n".join(texts).encode("utf-8", "replace") if any(texts) else b"",
        )


NO_LINKS = Links()


class Stored(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the archive keeps an exchange (request and response): `length` bytes at `offset` of `file`."""

    file: str
    offset: int
    length: int
    response: int = 0  # offset within those bytes at which the response record starts


class Timing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How long a fetch took, in milliseconds from its start."""

    dns: int = 0
    connect: int = 0
    first_byte: int = 0
    total: int = 0


class Why(StrEnum):
    """Why a URL was skipped or deferred."""

    ROBOTS = "robots"  # the site's rules forbid it
    ROBOTS_UNREACHABLE = "robots-unreachable"  # the rules could not be fetched, so nothing may be fetched
    SCOPE = "scope"  # the crawl's scope excludes it (now)
    DNS = "dns"  # its host has no address
    ADDRESS = "address"  # its host's address must not be connected to
    FAILED = "failed"  # every attempt failed
    SITE_LIMIT = "site-limit"  # its site has reached its limit of pages
    BLOCKED = "blocked"  # its host is on the operator's blocklist
    RETRY = "retry"  # deferred: a fetch failed and is tried again
    BUSY = "busy"  # deferred: 429 or 503, with or without Retry-After
    SCHEME = "scheme"  # no fetcher for its scheme
    REFRESH = "refresh"  # deferred: a page that is to be fetched again, to see whether it has changed
    TRAP = "trap"  # its pattern keeps giving nothing new (see Learned); deferred: it no longer does so
    VARIANT = "variant"  # by a learned rule it leads to a page that was fetched; deferred: the rule was wrong
    LOGIN = "login"  # its site requires a login, which failed; or the URL would log out
    POISON = "poison"  # reading it killed or stalled the process: deferred once, then skipped


class Before(IntEnum):
    """What this log knew of a URL before an event."""

    NEVER = 0  # no fetch of it
    LOST = 1  # fetches, all of them taken back by Lost: it is no page, but its content may be known
    PAGE = 2  # a fetch that is valid: it is a page


class Configured(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="C"):
    """The complete options of the crawl as JSON. The last such record is in force."""

    at: int
    options: bytes
    acts: list[
        tuple[str, int, str, str]
    ] = []  # of the operator, that changed them: id, when it was asked for, who did it, and what


class Seeded(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="S"):
    """URLs given by the operator, at depth 0."""

    at: int
    links: Links


class Received(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="V"):
    """Links that shard `sender` found at positions before `cursor` of its log.

    From another agent it also has digests of contents that it fetched and whose partition is kept here: `asked`
    has, for each, the position of its Fetched in the sender's log, or -1 if no answer is wanted.
    """

    at: int
    sender: int
    cursor: int
    links: Links
    depths: list[int]
    hops: bytes
    digests: bytes = b""  # eight bytes each, little endian
    asked: list[int] = []
    hints: list[
        int
    ] = []  # what the sender alone knows of each link (see `crawl.exchange.Row`); empty: nothing
    sequence: int = 0  # in a cluster: sequence of the message of the receiver's stream that carried it


class Rendered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a browser rendered of a page. Without a `problem`, or with "time", the page's links, title and digest
    are those of the rendered document, unless that is empty (`length` 0)."""

    why: str  # the cause of rendering: auto, always, or the pattern
    problem: str = (
        ""  # "": it became quiet; "time": it did not in its time; else why there is nothing, in words
    )
    length: int = (
        0  # bytes of the rendered document; 0: there is none, and the links are those of the plain page
    )
    requests: int = 0  # requests of its scripts that were answered, by the site or from the cache
    refused: list[str] = []  # the first of those that were not: "why URL"
    millis: int = 0  # duration of rendering
    stored: Stored | None = None
    """Where the archive keeps the exchanges of its requests and, from `response` on, the rendered document."""


class Fetched(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="F"):
    """A fetch that ended with an answer of the site, whatever its status.

    A URL may have many: the last one not taken back by a Lost is the current state of the page.
    """

    at: int
    url: str
    depth: int
    hops: int  # number of consecutive redirects that led here
    attempt: int  # 0 for the first
    status: int
    type: str  # media type, without parameters; sniffed if the site lied
    charset: str
    size: int  # bytes of the body as sent
    length: int  # bytes of the body decoded
    digest: int  # 64-bit digest of the decoded body; 0 for an empty one
    timing: Timing
    address: str
    links: Links
    stored: Stored | None = None
    title: str = ""
    etag: str = ""
    modified: str = ""  # Last-Modified, as sent
    truncated: str = ""  # "length" or "time": our limit cut the body; "disconnect": the site did
    noindex: bool = False
    duplicate: bool = False  # the same content was fetched before, at another URL
    dropped: int = 0  # links omitted because of our limits
    before: Before = Before.NEVER  # PAGE: one more fetch, but not one more page
    content: int = 0  # 64-bit digest of the main text, in a continuous crawl; 0: not computed
    weight: int = 0  # in a continuous crawl: how important the page is (`lycosa.refresh.importance`), 1 to 31
    previous: int = (
        0  # the position of the fetch before it of the same URL that had a content; 0: none is known
    )
    body: Stored | None = None  # if `stored` is a revisit: where the body lies
    gain: int = 0
    """What the fetch gave that was new. The lower four bits: 0: not examined; 1, 4 to 8: nothing new on its site;
    2: new there, not in its domain; 3: new; 9: it has too little text to judge. 1: it led to unknown URLs of its
    finest pattern; 4, 5, 6: of a coarser one; 7: of none; 8: of one that gives new things. The bits above: the
    number of such URLs, for 1 and 4 to 6 (`lycosa.content.yields`)."""
    rendered: Rendered | None = None  # None: no browser was asked
    like: str = (
        ""  # the URL of an earlier page that says nearly the same, for which its links are not followed
    )


class Skipped(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="K"):
    """A URL that will not be fetched: final until the operator changes the crawl."""

    at: int
    url: str
    depth: int
    why: Why
    detail: str = ""


class Deferred(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="D"):
    """A URL (or, with `url` empty, a whole site) that waits until `due`."""

    at: int
    url: str
    site: str
    depth: int
    hops: int
    attempt: int  # how many attempts have been made
    why: Why
    due: int
    detail: str = ""
    before: Before = Before.NEVER


class RobotsState(StrEnum):
    """What asking for a robots.txt came to."""

    READ = "read"  # its rules hold
    NONE = "none"  # there is none: everything is allowed
    UNREACHABLE = "unreachable"  # it could not be fetched: nothing may be fetched


class Robots(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="R"):
    """What a site's robots.txt said. `status` 0: there was no answer."""

    at: int
    site: str
    status: int
    body: bytes  # at most 500 KiB, as parsed
    expires: int  # if it is unreachable: not to be asked for before
    links: Links = NO_LINKS  # its sitemaps
    stored: Stored | None = None
    detail: str = ""
    delay: float = 0.0  # its Crawl-delay for us, in seconds
    state: RobotsState | None = None  # None: the log is older than this field

    @property
    def unreachable(self) -> bool:
        """Whether nothing may be fetched of the site before `expires`."""
        if self.state is None:
            return self.detail.startswith("unreachable")  # how older logs say it
        return self.state is RobotsState.UNREACHABLE


class Duplicates(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="U"):
    """The fetches at these positions of this log had a content that was already known from another URL.

    The answer of shard `owner`, which keeps the partition of their digests, to what it logged before `cursor`.
    """

    at: int
    owner: int
    cursor: int
    positions: list[int]


class Lost(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="L"):
    """The fetch at `position` of this log is taken back: the archive file with its bytes was lost with a machine.

    If it was the only valid fetch of its page, the URL is pending again, and a later Fetched of it is the valid
    one. The other fields repeat the lost Fetched, so that counters can subtract it without reading that record.
    """

    at: int
    url: str
    depth: int
    hops: int
    file: str  # of the archive
    position: int
    status: int
    size: int
    outlinks: int  # how many links it had
    digest: int
    duplicate: bool = False
    remains: bool = False  # another fetch of the page is valid: it is still a page


class Reread(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="A"):
    """The links of this log's records from `start` up to `stop` were judged again by the scope of the Configured at
    `change`; links that belong to other shards count as found here."""

    at: int
    change: int
    start: int
    stop: int


class Learned(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="N"):
    """A finding about URLs: the crawl acts on it from here on, or (`holds` false) no longer does."""

    at: int
    what: str
    """"trap": URLs of the pattern `subject` give nothing new, and are skipped except for tests. "rule": `subject`
    says which URLs lead to the same page; URLs of a page that was fetched are skipped except for tests."""
    subject: str
    holds: bool
    pages: int  # number of fetched pages that support it
    why: str
    examples: list[str] = []


Record = (
    Configured
    | Seeded
    | Received
    | Fetched
    | Skipped
    | Deferred
    | Robots
    | Duplicates
    | Lost
    | Reread
    | Learned
)


_TRIES = 24
_ATTEMPT = (1 << _TRIES) - 1
_BEFORE = tuple(Before)


class Waiting(NamedTuple):
    """A URL on its way to be fetched, with everything that its fetch needs to know."""

    url: str
    key: int
    depth: int = 0
    hops: int = 0
    attempt: int = 0
    before: Before = Before.NEVER

    @property
    def tries(self) -> int:
        """`attempt` and `before` as one number, which is `attempt` for a URL that was never fetched."""
        return self.attempt | self.before << _TRIES

    @staticmethod
    def of_tries(url: str, key: int, depth: int, hops: int, tries: int) -> Waiting:
        """A `Waiting` with `attempt` and `before` unpacked from one number."""
        return Waiting(url, key, depth, hops, tries & _ATTEMPT, _BEFORE[tries >> _TRIES])


class UrlHead(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="F", gc=False):
    """The first fields of a record about one URL: enough for some readers, at a fraction of the decoding cost."""

    at: int
    url: str


class SkippedHead(UrlHead, frozen=True, array_like=True, tag_field="record", tag="K", gc=False):
    """The head of a Skipped."""


class DeferredHead(UrlHead, frozen=True, array_like=True, tag_field="record", tag="D", gc=False):
    """The head of a Deferred."""


class ConfiguredHead(msgspec.Struct, frozen=True, array_like=True, tag_field="record", tag="C", gc=False):
    """Tells that a record is a Configured."""


class SeededHead(ConfiguredHead, frozen=True, array_like=True, tag_field="record", tag="S", gc=False):
    """Tells that a record is a Seeded."""


class ReceivedHead(ConfiguredHead, frozen=True, array_like=True, tag_field="record", tag="V", gc=False):
    """Tells that a record is a Received."""


class RobotsHead(ConfiguredHead, frozen=True, array_like=True, tag_field="record", tag="R", gc=False):
    """Tells that a record is a Robots."""


class DuplicatesHead(ConfiguredHead, frozen=True, array_like=True, tag_field="record", tag="U", gc=False):
    """Tells that a record is a Duplicates."""


class LostHead(ConfiguredHead, frozen=True, array_like=True, tag_field="record", tag="L", gc=False):
    """Tells that a record is a Lost."""


class RereadHead(ConfiguredHead, frozen=True, array_like=True, tag_field="record", tag="A", gc=False):
    """Tells that a record is a Reread."""


class LearnedHead(ConfiguredHead, frozen=True, array_like=True, tag_field="record", tag="N", gc=False):
    """Tells that a record is a Learned."""


Head = (
    UrlHead
    | SkippedHead
    | DeferredHead
    | ConfiguredHead
    | SeededHead
    | ReceivedHead
    | RobotsHead
    | DuplicatesHead
    | LostHead
    | RereadHead
    | LearnedHead
)

_encoder = msgspec.msgpack.Encoder()
_head_decoder = msgspec.msgpack.Decoder(Head)
_decoder = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    """The record's bytes in the log."""
    return _encoder.encode(record)


def tag_of(kind: type[msgspec.Struct]) -> bytes:
    """The tag of a kind of record, as its encoding holds it."""
    return msgspec.msgpack.encode(kind.__struct_config__.tag)


def has_tag(data: bytes | memoryview, tag: bytes) -> bool:
    """Whether those bytes are a record of that tag, however many fields it has: only the tag is looked at."""
    # MessagePack: an array of up to 15, of up to 65,535 elements, or of more.
    start = {0xDC: 3, 0xDD: 5}.get(data[0], 1)
    return data[start : start + len(tag)] == tag


def decode_head(data: bytes | memoryview) -> Head:
    """The head of the record of those bytes."""
    head: Head = _head_decoder.decode(data)
    return head


def decode(data: bytes | memoryview) -> Record:
    """The record of those bytes; `msgspec.MsgspecError` if they are none."""
    record: Record = _decoder.decode(data)
    return record
