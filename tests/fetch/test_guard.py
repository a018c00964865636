"""The address guard: every range, every form, and what the operator allows."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.fetch.guard import AddressGuard

guard = AddressGuard()

REFUSED = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "this network",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "carrier-grade NAT",
    "100.127.255.255": "carrier-grade NAT",
    "100.100.100.200": "metadata",
    "127.0.0.1": "loopback",
    "127.255.255.255": "loopback",
    "168.63.129.16": "metadata",
    "169.254.1.1": "link-local",
    "169.254.169.254": "metadata",
    "169.254.170.2": "metadata",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "protocol",
    "192.0.0.192": "metadata",
    "192.0.2.1": "documentation",
    "192.88.99.1": "6to4",
    "192.168.0.1": "private",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:a9fe:a9fe": "metadata",
    "::ffff:0:10.0.0.1": "private",
    "::127.0.0.1": "loopback",
    "::7f00:1": "loopback",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b::a9fe:a9fe": "metadata",
    "64:ff9b:1::1": "NAT64",
    "100::1": "discard",
    "2001::1": "Teredo",
    "2001:0:a00:1::f5ff:fffe": "private",
    "2001:0:4136:e378:8000:63bf:80ff:fffe": "loopback",
    "2001:2::1": "benchmarking",
    "2001:10::1": "protocol",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "loopback",
    "2002:a00:1::1": "private",
    "2002:a9fe:a9fe::": "metadata",
    "2a00:1450::5efe:10.0.0.1": "private",
    "2a00:1450::200:5efe:127.0.0.1": "loopback",
    "3fff::1": "documentation",
    "5f00::1": "segment routing",
    "4000::1": "no global unicast",
    "fc00::1": "unique local",
    "fd00:ec2::254": "metadata",
    "fd20:ce::254": "metadata",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "localhost": "not an IP address",
    "": "not an IP address",
    "127.1": "not an IP address",
    "2130706433": "not an IP address",
    "0x7f000001": "not an IP address",
    "0177.0.0.1": "not an IP address",
    "127.0.0.1:80": "not an IP address",
    "[::1]": "not an IP address",
    " 8.8.8.8": "not an IP address",
    "8.8.8.8\n": "not an IP address",
}
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001::64",
    "2002:808:808::1",
    "64:ff9b::8.8.8.8",
    "::ffff:8.8.8.8",
]


@pytest.mark.parametrize(("address", "why"), REFUSED.items())
def test_refused(address: str, why: str) -> None:
    assert why in (guard.refuses(address) or "may be asked")


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert guard.refuses(address) is None


@given(st.integers(0, 2**32 - 1))
def test_no_address_that_the_standard_library_calls_local_passes(number: int) -> None:
    address = IPv4Address(number)
    if not address.is_global or address.is_multicast:
        assert guard.refuses(str(address))


@given(st.integers(0, 2**32 - 1))
def test_every_embedding_is_judged_by_what_it_carries(number: int) -> None:
    plain = IPv4Address(number)
    refused = guard.refuses(str(plain)) is not None
    high, low = number >> 16, number & 0xFFFF
    for form in (
        f"::ffff:{plain}",
        f"64:ff9b::{plain}",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:808:808:0:0:{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",
    ):
        assert (guard.refuses(form) is not None) == refused, form


@given(st.binary(min_size=16, max_size=16))
def test_any_spelling_of_an_address_gets_the_same_answer(packed: bytes) -> None:
    address = ip_address(packed)
    spelled = {str(address), address.exploded, socket.inet_ntop(socket.AF_INET6, packed)}
    assert len({guard.refuses(text) is None for text in spelled}) == 1


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    AddressGuard().refuses(text)


def test_allowed_networks() -> None:
    some = AddressGuard(["127.0.0.0/8", "fd00::/8", "192.168.1.5"])
    for address in ("127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "fd12::1", "192.168.1.5", "fd00:ec2::254"):
        assert some.refuses(address) is None
    for address in ("10.0.0.1", "192.168.1.6", "::1", "169.254.169.254"):
        assert some.refuses(address)


def test_private_does_not_mean_metadata() -> None:
    private = AddressGuard(["private"])
    for address in ("127.0.0.1", "::1", "10.1.1.1", "192.168.1.1", "172.20.0.1", "100.64.0.1", "fd12::1"):
        assert private.refuses(address) is None
    for address in (
        "169.254.169.254",
        "100.100.100.200",
        "fd00:ec2::254",
        "169.254.1.1",
        "fe80::1",
        "224.0.0.1",
    ):
        assert private.refuses(address)
    assert AddressGuard(["private", "169.254.169.254"]).refuses("169.254.169.254") is None


def test_a_bad_network_is_the_operators() -> None:
    with pytest.raises(ConfigError, match="not a network"):
        AddressGuard(["intranet"])


def test_a_crawl_is_confined_to_networks() -> None:
    guard = AddressGuard(["private"], only=["127.0.0.0/8", "192.0.1.0/24", "fd00::/8"])
    for inside in ("127.0.0.1", "127.9.9.9", "192.0.1.7", "::ffff:127.0.0.1", "fd00::1"):
        assert guard.refuses(inside) is None and guard.outside(inside) is None, inside
    for outside in ("8.8.8.8", "10.0.0.1", "::1", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::7f00:1"):
        why = guard.refuses(outside)
        assert why is not None and "--only-network 127.0.0.0/8, 192.0.1.0/24" in why, outside
        assert guard.outside(outside) == why
    assert guard.refuses("name") is not None


def test_confining_opens_nothing() -> None:
    guard = AddressGuard(only=["127.0.0.0/8", "0.0.0.0/0"])
    assert "loopback" in (guard.refuses("127.0.0.1") or "")
    assert "link-local" in (guard.refuses("169.254.1.1") or "")
    assert guard.refuses("8.8.8.8") is None


def test_what_stays_on_this_machine() -> None:
    assert AddressGuard(only=["127.0.0.0/8", "::1"]).stays_here
    assert not AddressGuard(only=["127.0.0.0/8", "10.0.0.0/8"]).stays_here
    assert not AddressGuard(["private"]).stays_here
    with pytest.raises(ConfigError, match="'private' is not a network"):
        AddressGuard(only=["private"])


def test_the_memo_is_bounded_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lycosa.fetch.guard._MEMO", 100)
    some = AddressGuard()
    for number in range(1_000):
        some.refuses(str(IPv4Address(0x08000000 + number)))
    assert some.refuses("8.0.0.1") is None
    assert some.refuses("10.0.0.1")
    assert len(some._memo) <= 100
