"""The address guard: which addresses a crawl must not ask.

A crawler fetches what strangers' pages tell it to. Without a guard a link, a redirect or a name server could make
it contact the machine it runs on, its neighbours, or the cloud's metadata service, and archive the answer. So an
address is checked after every lookup and immediately before it is connected to, and only a globally reachable
address (by the IANA special-purpose registries, RFC 6890 and its updates) passes:

- IPv4: everything but the ranges in `_V4`;
- IPv6: only 2000::/3, without the ranges in `_V6`; a refusal names the prefix, if it is a known one;
- an IPv6 address that carries an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) is refused
  if what it carries is: a translator on the way would bring it there;
- anything that is not the text of one address is refused, so the many spellings that other parsers accept
  (127.1, 0x7f.1, 2130706433, zone suffixes) never count as public.

What the operator allows is allowed whatever range it is in. The word `private` stands for loopback, RFC 1918,
CGNAT and IPv6's unique local addresses, but *not* link-local, where metadata services live, nor these services'
addresses elsewhere.

A crawl may also be confined to networks (`only`): every address outside of them is refused, that of a proxy
included. This only restricts: a private network must also be allowed.

A network-specific NAT64 prefix (RFC 6052) cannot be told from any other global prefix: a network that has one
must be guarded by its own firewall.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from lycosa.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The first range that holds the address names the refusal, so the narrow ones come first.
_V4: list[tuple[IPv4Network, str]] = [
    (IPv4Network(text), why)
    for text, why in (
        ("169.254.169.254/32", "cloud metadata service"),
        ("169.254.170.2/32", "cloud metadata service"),
        ("169.254.170.23/32", "cloud metadata service"),
        ("169.254.0.23/32", "cloud metadata service"),
        ("100.100.100.200/32", "cloud metadata service"),
        ("192.0.0.192/32", "cloud metadata service"),
        ("168.63.129.16/32", "cloud metadata service"),
        ("0.0.0.0/32", "unspecified"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V6: list[tuple[IPv6Network, str]] = [
    (IPv6Network(text), why)
    for text, why in (
        ("fd00:ec2::254/128", "cloud metadata service"),
        ("fd00:ec2::23/128", "cloud metadata service"),
        ("fd20:ce::254/128", "cloud metadata service"),
        ("fd00:c1::a9fe:a9fe/128", "cloud metadata service"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard"),
        ("100:0:0:1::/64", "dummy prefix"),
        ("2001:2::/48", "benchmarking"),
        ("2001:db8::/32", "documentation"),
        ("2001::/23", "protocol assignments"),
        ("3fff::/20", "documentation"),
        ("3ffe::/16", "retired test network"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
]
_GLOBAL_V6 = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE = IPv6Network("::/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_TEREDO = IPv6Network("2001::/32")
_SIX_TO_FOUR = IPv6Network("2002::/16")

PRIVATE = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
)
"""What the word `private` allows."""

_METADATA = "cloud metadata service"
_MEMO = 65_536


class AddressGuard:
    """Decides which addresses must not be contacted; `allow` has networks, addresses, or the word `private`, `only`
    has networks and addresses."""

    def __init__(self, allow: Sequence[str] = (), only: Sequence[str] = ()) -> None:
        self._private: list[Network] = []
        self._named: list[Network] = []
        for text in allow:
            if text == "private":
                self._private = [ip_network(one) for one in PRIVATE]
            else:
                self._named.append(_network(text, ", or 'private'"))
        self._only = [_network(text) for text in only]
        self._memo: dict[str, str | None] = {}

    @property
    def stays_here(self) -> bool:
        """Whether the crawl is confined to this machine."""
        return bool(self._only) and all(network.is_loopback for network in self._only)

    def outside(self, address: str) -> str | None:
        """Why an address is outside of the networks that the crawl is confined to; None if it is not."""
        if not self._only:
            return None
        try:
            given = ip_address(address)
        except ValueError:
            return f"{address[:80]!r} is not an IP address"
        found = getattr(given, "ipv4_mapped", None) or given
        if any(found in network for network in self._only):
            return None
        return f"{address} is outside of --only-network {', '.join(map(str, self._only))[:150]}"

    def refuses(self, address: str) -> str | None:
        """Why the address must not be asked (naming the range), or None if it may."""
        try:
            return self._memo[address]
        except KeyError:
            pass
        why = self._judge(address)
        if len(self._memo) >= _MEMO:
            self._memo.clear()
        self._memo[address] = why
        return why

    def _judge(self, text: str) -> str | None:
        try:
            address = ip_address(text)
        except ValueError:
            return f"{text[:80]!r} is not an IP address"
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            return f"{text[:80]} is in a scoped zone (link-local)"
        if (outside := self.outside(text)) is not None:
            return outside
        why = self._range_of(address)
        return f"{text} is in {why}" if why else None

    def _range_of(self, address: Address) -> str:
        """The refused range that holds the address, as `network (name)`; empty if none does."""
        if any(address in network for network in self._named):
            return ""
        if isinstance(address, IPv4Address):
            for network4, why in _V4:
                if address in network4:
                    return "" if self._lets(address, why) else f"{network4} ({why})"
            return ""
        carried = _carried(address)
        if carried is not None:
            form, inner = carried
            for each in inner:
                why = self._range_of(each)
                if why:
                    return f"{form} form of {each}, {why}"
            return ""
        for network6, why in _V6:
            if address in network6:
                return "" if self._lets(address, why) else f"{network6} ({why})"
        return "" if address in _GLOBAL_V6 else "no global unicast range"

    def _lets(self, address: Address, why: str) -> bool:
        return why != _METADATA and any(address in network for network in self._private)


def _network(text: str, words: str = "") -> Network:
    """Parse the operator's text as a network; `words`: what else is allowed there, for the message."""
    try:
        return ip_network(text.strip().strip("[]"), strict=False)
    except ValueError:
        raise ConfigError(f"{text!r} is not a network: write it like 10.0.0.0/8 or fd00::/8{words}") from None


def _carried(address: IPv6Address) -> tuple[str, list[IPv4Address]] | None:
    """The name of the form and the IPv4 addresses of an IPv6 address that carries any; else None."""
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    if address in _MAPPED:
        return "IPv4-mapped", [low]
    if address in _TRANSLATED:
        return "IPv4-translated", [low]
    if address in _NAT64:
        return "NAT64", [low]
    if address in _COMPATIBLE and number > 1:
        return "IPv4-compatible", [low]
    if address in _SIX_TO_FOUR:
        return "6to4", [IPv4Address((number >> 80) & 0xFFFFFFFF)]
    if address in _TEREDO:
        server = IPv4Address((number >> 64) & 0xFFFFFFFF)
        return "Teredo", [server, IPv4Address((number & 0xFFFFFFFF) ^ 0xFFFFFFFF)]
    if (number >> 32) & 0xFDFFFFFF == 0x5EFE and address in _GLOBAL_V6:
        return "ISATAP", [low]
    return None
