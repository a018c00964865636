"""The options of a crawl as keywords of `lycosa.Crawl`, for type checkers.

Written by `python -m tests.crawl.write_keywords` from the options' structs: change those. What is left out has the
default of its struct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict


class ScopeKeywords(TypedDict, total=False):
    """The options of scope. The defaults: the whole of the seeds' hosts, without traps."""

    mode: Literal["host", "site", "domain", "any"]
    include_hosts: list[str] | tuple[str, ...]
    include_domains: list[str] | tuple[str, ...]
    include_paths: list[str] | tuple[str, ...]
    include_patterns: list[str] | tuple[str, ...]
    exclude_hosts: list[str] | tuple[str, ...]
    exclude_domains: list[str] | tuple[str, ...]
    exclude_paths: list[str] | tuple[str, ...]
    exclude_patterns: list[str] | tuple[str, ...]
    blocklist: list[str] | tuple[str, ...]
    schemes: list[str] | tuple[str, ...]
    max_depth: int | None
    max_pages_per_site: int | None
    max_url_length: int
    max_path_depth: int | None
    max_repeats: int | None


class FollowKeywords(TypedDict, total=False):
    """Which links of a page are followed."""

    requisites: bool
    nofollow: bool
    sitemaps: bool
    redirects: int


class FetchKeywords(TypedDict, total=False):
    """How to fetch. Times in seconds, sizes in bytes; 0 means no limit only where said."""

    user_agent: str
    accept: str
    accept_language: str
    headers: list[str] | tuple[str, ...]
    cookies: list[str] | tuple[str, ...]
    cookie_file: str
    auth: Mapping[str, str]
    proxy: str
    http2: bool
    verify_tls: bool
    ca_file: str
    connections: int
    connect_timeout: float
    first_byte_timeout: float
    total_timeout: float
    slow_bytes: int
    slow_time: float
    max_header_bytes: int
    max_body_bytes: int
    max_decoded_bytes: int
    max_robots_bytes: int
    bandwidth: int
    file_root: str


class DnsKeywords(TypedDict, total=False):
    """How to look names up. Times in seconds."""

    nameservers: list[str] | tuple[str, ...]
    family: Literal["prefer-v4", "prefer-v6", "v4", "v6", "both"]
    attempts: int
    first_wait: float
    last_wait: float
    ttl_floor: float
    ttl_ceiling: float
    negative_ttl: float
    cache: int
    resolve: list[str] | tuple[str, ...]


class RobotsKeywords(TypedDict, total=False):
    """How robots rules are obeyed."""

    agent: str
    obey: bool
    attempts: int
    first_retry: float


class SeenKeywords(TypedDict, total=False):
    """How a crawl remembers its URLs."""

    store: str
    memory: int
    cache: int


class BoostKeywords(TypedDict, total=False):
    """URLs that match a pattern come earlier, or later, by so many levels."""

    pattern: str
    levels: int


class FrontierKeywords(TypedDict, total=False):
    """How the frontier orders, bounds and shares out its URLs."""

    order: Literal["depth", "length", "batch", "partial", "optimal", "biased"]
    memory: int
    admit: Literal["adaptive", "sample", "fixed", "truncated"]
    sample: int
    directories: int
    quality: bool
    back_queues: int
    front_queues: int
    batch: int
    rank_memory: int
    oracle: str
    scorer: str
    boosts: list[BoostKeywords] | tuple[BoostKeywords, ...]
    host_budget: int
    domain_budget: int


class PolitenessKeywords(TypedDict, total=False):
    """How a crawl treats hosts and addresses. Times in seconds."""

    wait: float
    factor: float
    max_wait: float
    pages_per_visit: int
    max_crawl_delay: float
    max_retry_after: float
    address_wait: float


class RetryKeywords(TypedDict, total=False):
    """How often and how long failed fetches are tried again. Times in seconds."""

    attempts: int
    first: float
    growth: float
    most: float


class ArchiveKeywords(TypedDict, total=False):
    """How the archive is kept."""

    keep: bool
    prefix: str
    rotate_bytes: int
    buffer_bytes: int
    level: int
    block_digests: bool
    requests: bool


class LimitsKeywords(TypedDict, total=False):
    """When a crawl ends before the web does; 0 means never. What is left is kept for the next run."""

    pages: int
    bytes: int
    seconds: float


class SnapshotKeywords(TypedDict, total=False):
    """How often the state is written, so that recovery replays only what came after."""

    records: int
    seconds: float
    archive_seconds: float
    archive_bytes: int


class RefreshKeywords(TypedDict, total=False):
    """How pages are fetched again. Without `continuous` each page is fetched once, and the rest has no effect."""

    continuous: bool
    policy: Literal["value", "uniform", "proportional"]
    importance: Literal["depth", "equal", "order"]
    fetches: float
    bytes: int
    per_page: float
    per_host: float
    share: float
    shortest: float
    longest: float


class TrapKeywords(TypedDict, total=False):
    """Patterns of URLs whose pages give nothing new: whether they are quarantined, and which never are."""

    quarantine: bool
    patience: int
    release: list[str] | tuple[str, ...]


class VariantKeywords(TypedDict, total=False):
    """Rules about URLs that lead to the same page: whether sure ones are applied."""

    apply: bool


class DuplicateKeywords(TypedDict, total=False):
    """Near duplicates of other pages: whether their links are followed."""

    alike: Literal["expand", "leaf"]


class RenderKeywords(TypedDict, total=False):
    """Which pages a browser renders, and its limits per page. Times in seconds, sizes in bytes."""

    when: str
    browser: str
    sandbox: bool
    tabs: int
    seconds: float
    most_seconds: float
    page_seconds: float
    requests: int
    bytes: int
    images: bool
    turn_seconds: float
    cache: int
    cache_seconds: float
    pages_per_browser: int
    memory: int


class LoginKeywords(TypedDict, total=False):
    """How to log in by a form; see `lycosa.crawl.sessions`."""

    page: str
    form: str
    fields: Mapping[str, str]
    secrets: Mapping[str, str]
    attempts: int


class SiteKeywords(TypedDict, total=False):
    """How one site is crawled, where that differs."""

    hold: bool
    first: bool
    wait: float | None
    pages_per_visit: int | None
    pages: int | None
    depth: int | None
    headers: list[str] | tuple[str, ...]
    render: str | None
    cookies: Literal["none", "run", "kept"]
    login: LoginKeywords | None


class CrawlKeywords(TypedDict, total=False):
    """All options of a crawl."""

    visits: int
    commit_seconds: float
    horizon: float
    public: bool
    allow: list[str] | tuple[str, ...]
    only_networks: list[str] | tuple[str, ...]
    rules: list[str] | tuple[str, ...]
    href_cache: int
    scope: ScopeKeywords
    follow: FollowKeywords
    fetch: FetchKeywords
    dns: DnsKeywords
    robots: RobotsKeywords
    seen: SeenKeywords
    frontier: FrontierKeywords
    politeness: PolitenessKeywords
    retry: RetryKeywords
    archive: ArchiveKeywords
    limits: LimitsKeywords
    snapshot: SnapshotKeywords
    refresh: RefreshKeywords
    traps: TrapKeywords
    variants: VariantKeywords
    duplicates: DuplicateKeywords
    render: RenderKeywords
    site: Mapping[str, SiteKeywords]


class SplitterKeywords(TypedDict, total=False):
    """How a crawl is cut into shards: part of its manifest, never changed."""

    by: str
    regions: Mapping[str, list[str] | tuple[str, ...]]
