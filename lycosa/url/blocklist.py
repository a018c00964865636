"""Host blocklists: files of hosts that a crawl must leave alone.

    line  = [address] *(host) ["#" comment]
    host  = a name or an address; with "*." or "." in front: the name and every name below it

The form with an address in front is that of `/etc/hosts`, in which many public blocklists come; there the
machine's own names (localhost and the like) are not taken for entries, since every such file has them.
"""

from __future__ import annotations

import ipaddress

from lycosa.errors import ConfigError
from lycosa.url.canonical import canonicalise
from lycosa.url.parts import host_of

_OWN_NAMES = frozenset(
    {
        "localhost",
        "localhost.localdomain",
        "local",
        "broadcasthost",
        "ip6-localhost",
        "ip6-loopback",
        "ip6-localnet",
        "ip6-mcastprefix",
        "ip6-allnodes",
        "ip6-allrouters",
        "ip6-allhosts",
        "0.0.0.0",
    }
)


def canonical_host(text: str) -> str | None:
    """The host as canonical URLs spell it; None if it is not a host."""
    if ":" in text and not text.startswith("["):
        text = f"[{text}]"  # an IPv6 address as people write it; "host:port" is no address and fails
    if not text or any(c in "/?#@\\" or c.isspace() for c in text):
        return None
    url = canonicalise(f"http://{text}/")
    # A colon outside of brackets would be a port.
    return None if url is None or text.rpartition("]")[2].find(":") >= 0 else host_of(url)


def read_blocklist(data: bytes, name: str) -> tuple[str, ...]:
    """The entries of a blocklist file, sorted, as `ScopeOptions.blocklist` takes them.

    A line that is none of the above is a `ConfigError` that names the file and the line.
    """
    entries: set[str] = set()
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        from_hosts_file = len(words) > 1 and _is_address(words[0])
        if len(words) > 1 and not from_hosts_file:
            raise ConfigError(f"{name} line {number}: one host a line, not {' '.join(words)[:60]!r}")
        for word in words[from_hosts_file:]:
            if from_hosts_file and word.lower() in _OWN_NAMES:
                continue
            entry = blocklist_entry(word)
            if entry is None:
                raise ConfigError(f"{name} line {number}: {word[:60]!r} is not a host")
            entries.add(entry)
    return tuple(sorted(entries))


def blocklist_entry(text: str) -> str | None:
    """An entry in canonical spelling (a leading dot: with all names below); None if it is not valid."""
    below = text.startswith(("*.", "."))
    host = canonical_host(text.removeprefix("*").removeprefix(".") if below else text)
    if host is None:
        return None
    return "." + host if below else host


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
