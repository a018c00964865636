"""The URL table: keys one to one, search and retrieval against sorted lists, size, damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.errors import LocalError, StorageError
from lycosa.files import DiskFiles
from lycosa.graph.urls import UrlTable, UrlWriter, host_of_key, key_of, url_of, write_urls

hosts = st.sampled_from(
    ["example.com", "www.example.com", "example.com-x.org", "127.0.0.1", "[::1]", "a.b.c.d.e", "x", "!x.org"]
)
url = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}/{path}".encode(),
    st.sampled_from(["http", "https", "ftp"]),
    hosts,
    st.sampled_from(["", ":8080", ":1"]),
    st.text(st.sampled_from("ab/?%"), max_size=12),
)


@given(st.one_of(url, st.binary(max_size=40), st.binary(max_size=20).map(lambda b: b"http://" + b)))
def test_keys_are_one_to_one(given_url: bytes) -> None:
    assert url_of(key_of(given_url)) == given_url


def test_order_of_figure_20_5() -> None:
    paths = [
        "alchemy",
        "biology",
        "biology/plant",
        "biology/plant/copyright",
        "biology/plant/people",
        "chemistry",
    ]
    urls = [f"http://www.stanford.edu/{path}".encode() for path in paths]
    urls.append(b"http://stanford.edu/")  # the domain comes before its subdomains
    assert sorted(urls, key=key_of) == [urls[-1], *urls[:-1]]
    assert key_of(urls[0]) == b"edu.stanford.www h/alchemy"
    assert host_of_key(key_of(b"https://www.stanford.edu:81/x")) == b"www.stanford.edu"
    assert host_of_key(key_of(b"http://10.0.0.1/x")) == b"10.0.0.1"
    assert host_of_key(key_of(b"mailto:x")) == b""


@given(st.lists(url, max_size=60), st.lists(url, max_size=10), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_the_table_is_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, urls: list[bytes], others: list[bytes], block: int
) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("u"))
    assert write_urls(files, "t", urls, block) == len(set(urls))
    table = UrlTable.open(files, "t")
    expected = sorted(set(urls), key=key_of)
    assert len(table) == len(expected)
    assert list(table.iterate()) == [key_of(u) for u in expected]
    asked = [u.decode() for u in urls + others]
    found = table.numbers(asked).tolist()
    index = {u: i for i, u in enumerate(expected)}
    assert found == [index.get(u.encode(), -1) for u in asked]
    order = np.random.default_rng(0).permutation(len(expected))
    assert table.urls(order) == [expected[i].decode() for i in order]
    starts = table.host_starts().tolist()
    changes = [
        i
        for i in range(len(expected))
        if i == 0 or host_of_key(key_of(expected[i])) != host_of_key(key_of(expected[i - 1]))
    ]
    assert starts == [*changes, len(expected)]


def realistic(count: int) -> list[bytes]:
    """URLs as documentation sites have them: sections of long names, each with numbered and named pages."""
    rng = np.random.default_rng(4)
    words = [
        "library",
        "reference",
        "tutorial",
        "function",
        "datatype",
        "postgres",
        "release",
        "admin",
        "index",
    ]
    out: set[bytes] = set()
    while len(out) < count:
        section = "/".join(words[int(w)] for w in rng.integers(0, len(words), size=rng.integers(1, 6)))
        site = f"https://docs{int(rng.integers(0, 9))}.example.org/{section}"
        for page in range(int(rng.geometric(0.02))):
            name = f"{words[page % 9]}.{int(rng.integers(0, 9999))}.html"
            out.add(f"{site}/{name}".encode())
    return sorted(out)


def playground(count: int) -> list[bytes]:
    """URLs that carry a program each."""
    rng = np.random.default_rng(7)
    words = [
        "let+mut+",
        "%0A++++",
        "assert_eq!(",
        "std::collections::",
        "vec!%5B",
        "println!(%22",
        "fn+main()+%7B",
    ]
    code = [
        "".join(words[int(w)] for w in rng.integers(0, 7, size=rng.integers(20, 90))) for _ in range(count)
    ]
    return sorted({f"https://play.example.org/?code={text}".encode() for text in code})


def test_long_queries_are_compressed(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    long, short = playground(1500), realistic(3000)
    write_urls(files, "t", long + short)
    table = UrlTable.open(files, "t")
    assert table._packed.any() and not table._packed.all()
    assert table.nbytes < 0.25 * sum(map(len, long)) + 20 * len(short)
    urls = sorted([*long, *short], key=key_of)
    assert list(table.iterate()) == [key_of(u) for u in urls]
    asked = [u.decode() for u in urls[::-1]]
    missing = [u + "x" for u in asked[::7]]
    assert table.numbers(asked + missing).tolist() == [*range(len(urls) - 1, -1, -1), *[-1] * len(missing)]
    order = np.random.default_rng(0).permutation(len(urls))
    assert table.urls(order) == [urls[i].decode() for i in order]
    starts = table.host_starts()
    assert len(starts) == len({u.split(b"/")[2] for u in urls}) + 1
    # Damage in a compressed block, under a checksum that fits, is found.
    import google_crc32c

    whole = bytearray(files.read("t"))
    b = int(np.flatnonzero(table._packed)[3])
    at = 28 + int(table._offsets[b + 1]) - 9
    for value in (0, 255):
        whole[at] = value
        fitting = bytes(whole[:-4]) + google_crc32c.value(bytes(whole[:-4])).to_bytes(4, "little")
        try:
            again = UrlTable(fitting, "t")
        except StorageError:
            continue
        keys = list(again.iterate())
        assert keys == sorted(set(keys))


def test_at_most_twenty_bytes_a_url(tmp_path: Path) -> None:
    urls = realistic(20_000)
    files = DiskFiles(tmp_path)
    write_urls(files, "t", urls)
    table = UrlTable.open(files, "t")
    assert files.size("t") <= 20 * len(urls)
    sample = [u.decode() for u in urls[::97]]
    assert table.urls(table.numbers(sample)) == sample
    assert table.number("https://docs1.example.org/nowhere") is None
    with pytest.raises(IndexError):
        table.url(len(urls))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_tables_are_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    files = DiskFiles(tmp_path_factory.mktemp("u"))
    write_urls(files, "t", realistic(40), 4)
    whole = bytearray(files.read("t"))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(StorageError, match="t is damaged"):
        UrlTable(bytes(whole), "t")
    with pytest.raises(StorageError):
        UrlTable(bytes(whole[:at]), "t")
    # With a checksum that fits, what the kernels rely on is still checked.
    import google_crc32c

    fitting = bytes(whole[:-4]) + google_crc32c.value(bytes(whole[:-4])).to_bytes(4, "little")
    try:
        table = UrlTable(fitting, "t")
    except StorageError:
        return
    keys = list(table.iterate())
    assert keys == sorted(set(keys))
    table.numbers_of_keys([*keys, b"", b"zzz"])


@given(st.binary(max_size=100))
def test_any_bytes_as_a_table(data: bytes) -> None:
    with pytest.raises(StorageError):
        UrlTable(b"LYURLS1\n" + data, "t")


def test_limits(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    writer = UrlWriter(files, "t")
    writer.append([b"b"])
    writer.close()
    for keys in ([b"b", b"b"], [b"b", b"a"], [b"a", b"c", b"c"], [b"x" * ((1 << 20) + 1)]):
        writer = UrlWriter(files, "t")
        with pytest.raises(LocalError):
            writer.append(keys)
            writer.close()
    with pytest.raises(LocalError):
        UrlWriter(files, "t", 0)
