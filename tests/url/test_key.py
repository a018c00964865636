"""Keys: the kernel against the library, and the mix against its inverse."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from lycosa.compiled import njit
from lycosa.url.canonical import canonicalise
from lycosa.url.key import Keyer, Keys, mix, mix_array, unmix, unmix_array
from lycosa.url.key_kernels import mix as mix_kernel
from lycosa.url.key_kernels import unmix as unmix_kernel
from lycosa.url.key_kernels import xxh64
from lycosa.url.parts import host_of

SEED = 0x9E3779B97F4A7C15
u64 = st.integers(0, (1 << 64) - 1)

URLS = [
    "http://example.com/",
    "http://example.com:8080/",
    "https://example.com/a?b=c:d/e",
    "http://[::1]/",
    "http://[2001:db8::1]:8080/x",
    "http://127.0.0.1/",
    "http://127.0.0.1:81/",
    "file:///etc/hosts",
    "file://server/share",
    "http://a/://b/",
    "http://a/" + "x" * 8000,
    "http://" + "long." * 40 + "example/",
]


def test_known_answers() -> None:
    """XXH64's published value for the empty input, and ours pinned: keys are in every crawl's files."""
    assert xxh64(b"", 0, 0, np.uint64(0)) == 0xEF46DB3751D8E999
    assert Keyer(0).host_hash("") == 0xEF46DB3751D8E999
    assert Keyer(42).key("https://example.com/a?b") == 0x328545A4090404D8
    assert Keyer(42).host_hash("example.com") == 0x3285AC9D832095F7


def test_layout() -> None:
    keyer = Keyer(SEED)
    for url in URLS:
        key = keyer.key(url)
        assert key >> 48 == keyer.host_hash(host_of(url)) >> 48
        assert key & (1 << 48) - 1 == xxh64_intdigest(url.encode(), SEED) & (1 << 48) - 1


def same(keyer: Keyer, blob: bytes) -> tuple[Keys, Keys]:
    keys, hosts = keyer.scan(blob)
    plain_keys, plain_hosts = keyer.scan_plain(blob)
    assert keys.dtype == hosts.dtype == plain_keys.dtype == plain_hosts.dtype == np.uint64
    assert keys.tolist() == plain_keys.tolist()
    assert hosts.tolist() == plain_hosts.tolist()
    return keys, hosts


@pytest.mark.parametrize("seed", [0, 1, SEED, (1 << 64) - 1])
def test_scan_equals_key(seed: int) -> None:
    keyer = Keyer(seed)
    keys, hosts = same(keyer, "\n".join(URLS).encode())
    assert keys.tolist() == [keyer.key(url) for url in URLS]
    assert hosts.tolist() == [keyer.host_hash(host_of(url)) for url in URLS]


def test_scan_of_nothing() -> None:
    keys, hosts = Keyer(1).scan(b"")
    assert len(keys) == len(hosts) == 0


@settings(max_examples=600, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.sampled_from([b"http://", b"://", b":", b"/", b"[", b"]", b"\n", b"a", b"host.example"])
        ).map(b"".join),
    ),
    u64,
)
def test_scan_of_anything(blob: bytes, seed: int) -> None:
    """Lines that are no URLs have keys too, the same on both paths."""
    same(Keyer(seed), blob)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 40), st.integers(0, 40), u64)
def test_xxh64(data: bytes, front: int, back: int, seed: int) -> None:
    start, end = min(front, len(data)), max(min(front, len(data)), len(data) - back)
    assert xxh64(data, start, end, np.uint64(seed)) == xxh64_intdigest(data[start:end], seed)


@given(st.lists(st.text(min_size=1), max_size=20))
def test_scan_of_canonical_urls(texts: list[str]) -> None:
    urls = [url for text in texts if (url := canonicalise("http://host/" + text)) is not None]
    keys, _ = same(Keyer(7), "\n".join(urls).encode())
    assert len(keys) == len(urls)


def test_seeds_differ() -> None:
    assert Keyer(1).key(URLS[0]) != Keyer(2).key(URLS[0])


@njit()
def both(keys, mixed, back):  # type: ignore[no-untyped-def]  # a kernel
    for i in range(len(keys)):
        mixed[i] = mix_kernel(keys[i])
        back[i] = unmix_kernel(mixed[i])


@settings(max_examples=200, deadline=None)
@given(st.lists(u64, min_size=1, max_size=50))
def test_mix(values: list[int]) -> None:
    keys = np.array(values, np.uint64)
    mixed = mix_array(keys)
    assert mixed.tolist() == [mix(value) for value in values]
    assert unmix_array(mixed).tolist() == values
    assert [unmix(mix(value)) for value in values] == values
    assert [mix(unmix(value)) for value in values] == values
    by_kernel, back = np.empty_like(keys), np.empty_like(keys)
    both(keys, by_kernel, back)
    assert by_kernel.tolist() == mixed.tolist()
    assert back.tolist() == values


def test_mix_spreads_the_keys_of_one_host() -> None:
    """Keys of one host share their top 16 bits; mixed, they fill the table evenly."""
    keyer = Keyer(3)
    keys, _ = keyer.scan("\n".join(f"http://example.com/{i}" for i in range(20_000)).encode())
    assert len(np.unique(keys >> np.uint64(48))) == 1
    assert len(np.unique(keys)) == 20_000
    counts = np.bincount((mix_array(keys) >> np.uint64(58)).astype(np.int64), minlength=64)
    assert counts.min() > 200 and counts.max() < 430  # 312 expected; 6 sigma either way


def test_a_single_key_does_not_load_numba() -> None:
    code = "import sys, lycosa.url.key as k; k.Keyer(1).key('http://a/'); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
