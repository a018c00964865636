"""The options of a crawl by the names of their flags: what the command line calls `--max-pages` is `limits.pages`.

The command line sets options by this table, and a name that is no option is looked for among them, too.
"""

from __future__ import annotations

OPTIONS = {
    "user_agent": "fetch.user_agent",
    "private": "public",
    "header": "fetch.headers",
    "cookie": "fetch.cookies",
    "cookie_file": "fetch.cookie_file",
    "auth": "fetch.auth",
    "proxy": "fetch.proxy",
    "scope": "scope.mode",
    "include_host": "scope.include_hosts",
    "include_domain": "scope.include_domains",
    "include_path": "scope.include_paths",
    "include": "scope.include_patterns",
    "exclude_host": "scope.exclude_hosts",
    "exclude_domain": "scope.exclude_domains",
    "exclude_path": "scope.exclude_paths",
    "exclude": "scope.exclude_patterns",
    "blocklist": "scope.blocklist",
    "max_depth": "scope.max_depth",
    "max_pages_per_site": "scope.max_pages_per_site",
    "requisites": "follow.requisites",
    "no_sitemaps": "follow.sitemaps",
    "traps": "traps.quarantine",
    "near_duplicates": "duplicates.alike",
    "url_rules": "variants.apply",
    "render": "render.when",
    "browser": "render.browser",
    "rules": "rules",
    "max_pages": "limits.pages",
    "max_bytes": "limits.bytes",
    "max_time": "limits.seconds",
    "continuous": "refresh.continuous",
    "fetches": "refresh.fetches",
    "bandwidth": "fetch.bandwidth",
    "visits": "visits",
    "wait": "politeness.wait",
    "pages_per_visit": "politeness.pages_per_visit",
    "order": "frontier.order",
    "oracle": "frontier.oracle",
    "scorer": "frontier.scorer",
    "batch": "frontier.batch",
    "memory": "frontier.memory",
    "sample": "frontier.sample",
    "admit": "frontier.admit",
    "host_budget": "frontier.host_budget",
    "domain_budget": "frontier.domain_budget",
    "allow": "allow",
    "only_network": "only_networks",
    "resolve": "dns.resolve",
    "resolve_file": "dns.resolve",
    "insecure": "fetch.verify_tls",
    "no_archive": "archive.keep",
}
TURNED_OFF = frozenset(("private", "no_sitemaps", "insecure", "no_archive"))
"""Flags that set their option to false."""


def meanings() -> dict[str, str]:
    """What to write instead of a flag's name: `limits.pages`, `public = false`."""
    return {flag: name + " = false" * (flag in TURNED_OFF) for flag, name in OPTIONS.items()}
