"""The canonical form, held against the cases of the web platform tests and against its own promises."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.errors import ConfigError
from lycosa.url.canonical import MAX_URL, NO_RULES, SCHEMES, Rules, canonicalise
from lycosa.url.parts import split
from lycosa.url.rules import TABLE

# Facts of web-platform-tests' url/resources/urltestdata.json: (input, base, href, or None for a failure).
WPT: list[tuple[str, str | None, str | None]] = [
    (text, base, href)
    for text, base, href in json.loads((Path(__file__).parent / "wpt_cases.json").read_text())
]
WPT_SCHEMES = frozenset(href.partition(":")[0] for _, _, href in WPT if href) | SCHEMES
ALL_RULES = Rules.named(TABLE)

# Where the native library departs from the standard, all in file URLs: repeated slashes at the start of the
# path are joined, a host before a drive letter is dropped, and "w|" stays as it is.
KNOWN_DIFFERENCES = {
    ("file:///w|/m", None): "file:///w|/m",
    ("/", "file://h/C:/a/b"): "file:///C:/",
    ("file:\\\\//", None): "file:///",
    ("file:\\\\\\\\", None): "file:///",
    ("file:\\\\\\\\?fox", None): "file:///?fox",
    ("file:\\\\\\\\#guppy", None): "file:///",
    ("file://spider///", None): "file://spider/",
    ("file:\\\\localhost//", None): "file:///",
    ("file://\\/localhost//cat", None): "file:///localhost//cat",
    ("file://localhost//a//../..//", None): "file:///",
    ("/////mouse", "file:///elephant"): "file:///mouse",
    ("\\/localhost//pig", "file://lion/"): "file:///pig",
    ("//localhost//pig", "file://lion/"): "file:///pig",
    ("/..//localhost//pig", "file://lion/"): "file://lion/localhost//pig",
    ("C|", "file://host/dir/file"): "file:///C:",
    ("C|", "file://host/D:/dir1/dir2/file"): "file:///C:",
    ("C|#", "file://host/dir/file"): "file:///C:",
    ("C|?", "file://host/dir/file"): "file:///C:?",
    ("C|/", "file://host/dir/file"): "file:///C:/",
    ("C|\n/", "file://host/dir/file"): "file:///C:/",
    ("C|\\", "file://host/dir/file"): "file:///C:/",
    ("/c:/foo/bar", "file://host/path"): "file:///c:/foo/bar",
    ("file://example.net/C:/", None): "file:///C:/",
    ("file://1.2.3.4/C:/", None): "file:///C:/",
    ("file://[1::8]/C:/", None): "file:///C:/",
    ("C|/", "file://host/"): "file:///C:/",
    ("/C:/", "file://host/"): "file:///C:/",
    ("file:C:/", "file://host/"): "file:///C:/",
    ("file:/C:/", "file://host/"): "file:///C:/",
    ("file://localhost//a//../..//foo", None): "file:///foo",
    ("file://localhost////foo", None): "file:///foo",
    ("file:////foo", None): "file:///foo",
    ("file:////one/two", "file:///"): "file:///one/two",
    ("////one/two", "file:///"): "file:///one/two",
    ("file:///.//", "file:////"): "file:///",
    ("file:.//p", None): "file:///p",
    ("file:/.//p", None): "file:///p",
    ("/\\//\\/a/../", "file:///"): "file:///",
}


def expected(href: str) -> str | None:
    """What our form makes of the standard's: no fragment, no credentials, a host and a path."""
    found = re.fullmatch(r"([a-z0-9+.-]+)://(?:[^/?@]*@)?([^/?]*)(.*)", href.partition("#")[0])
    if found is None:
        return None
    scheme, authority, rest = found.groups()
    if not authority and scheme != "file":
        return None
    return f"{scheme}://{authority}{rest if rest.startswith('/') else '/' + rest}"


def test_wpt_cases() -> None:
    wrong = []
    differences = dict(KNOWN_DIFFERENCES)
    for text, base, href in WPT:
        want = None if href is None else expected(href)
        want = differences.pop((text, base), want)
        got = canonicalise(text, base, schemes=WPT_SCHEMES)
        if got != want:
            wrong.append((text, base, want, got))
    assert not wrong
    assert not differences, "a known difference that is no case"
    assert len(WPT) > 800


def test_wpt_differences_are_still_differences() -> None:
    """When the library is mended, this says which lines of the table to drop."""
    hrefs = {(text, base): href for text, base, href in WPT}
    for case, ours in KNOWN_DIFFERENCES.items():
        href = hrefs[case]
        assert href is not None
        assert expected(href) != ours


@pytest.mark.parametrize(
    ("text", "base", "want"),
    [
        ("HTTP://EXAMPLE.com:80/a/../b#c", None, "http://example.com/b"),
        ("https://example.com:443", None, "https://example.com/"),
        ("https://example.com:80", None, "https://example.com:80/"),
        ("http://bücher.example/ü?ü", None, "http://xn--bcher-kva.example/%C3%BC?%C3%BC"),
        ("http://user:pass@example.com/", None, "http://example.com/"),
        ("http://user@example.com/@a", None, "http://example.com/@a"),
        ("https://example.com/@a?b@c", None, "https://example.com/@a?b@c"),
        ("http://example.com/a^b?c^d", None, "http://example.com/a%5Eb?c^d"),
        ("http://0x7f.1/", None, "http://127.0.0.1/"),
        ("http://[::FFFF:1.2.3.4]:8080/", None, "http://[::ffff:102:304]:8080/"),
        ("http://example.com/a b\tc\nd", None, "http://example.com/a%20bcd"),
        ("http://example.com/?", None, "http://example.com/?"),
        ("http://example.com/\ud800", None, "http://example.com/%EF%BF%BD"),
        ("http://example.com/\ud83d\ude00", None, "http://example.com/%F0%9F%98%80"),
        ("http://\ud800/", None, None),
        ("c", "http://example.com/\ud800/b", "http://example.com/%EF%BF%BD/c"),
        ("../c?d#e", "http://example.com/a/b/", "http://example.com/a/c?d"),
        ("", "http://example.com/a?b#c", "http://example.com/a?b"),
        ("#x", "http://example.com/a?b#c", "http://example.com/a?b"),
        ("//other.example", "https://example.com/a", "https://other.example/"),
        (" ///\t/other.example/x", "https://example.com/a", "https://other.example/x"),
        ("file:///etc/hosts", "http://example.com/", "file:///etc/hosts"),
        ("file://server/share", None, "file://server/share"),
        ("mailto:a@example.com", "http://example.com/", None),
        ("javascript:void(0)", "http://example.com/", None),
        ("data:text/plain,a", "http://example.com/", None),
        ("blob:http://example.com/a", None, None),
        ("ftp://example.com/", None, None),
        ("gopher://example.com/", None, None),
        ("example.com", None, None),
        ("/a", None, None),
        ("http://", None, None),
        ("http:///", None, None),
        ("http://a b/", None, None),
        ("http://example.com:99999/", None, None),
        ("a", "mailto:x", None),
        ("a", "not a base", None),
        ("http://example.com/", "not a base", None),
        ("http://example.com/", "about:blank", "http://example.com/"),
    ],
)
def test_cases(text: str, base: str | None, want: str | None) -> None:
    assert canonicalise(text, base) == want


def test_other_schemes_on_request() -> None:
    schemes = frozenset({"gopher", "s3"})
    assert canonicalise("gopher://example.com?a", schemes=schemes) == "gopher://example.com/?a"
    assert canonicalise("s3://u:p@Bucket/Key a", schemes=schemes) == "s3://Bucket/Key%20a"
    assert canonicalise("s3:///key", schemes=schemes) is None
    assert canonicalise("s3:key", schemes=schemes) is None
    assert canonicalise("http://example.com/", schemes=schemes) is None


def test_limit_of_length() -> None:
    site = "http://example.com/"
    longest = site + "a" * (MAX_URL - len(site))
    assert canonicalise(longest) == longest
    assert canonicalise(longest + "a") is None
    assert canonicalise("a" * (MAX_URL - len(site)), site) == longest
    assert canonicalise("a" * (MAX_URL - len(site) + 1), site) is None
    assert canonicalise(site + "ü" * (MAX_URL // 4)) is None, "it grows when escaped"
    assert canonicalise(site + "#" + "f" * 100_000) == site, "the fragment does not count"
    assert canonicalise(" " * 100_000 + site + " " * 100_000) == site, "nor do spaces around it"
    assert canonicalise("a", site + "#" + "f" * 100_000) == site + "a"
    assert canonicalise("data:," + "a" * 1_000_000, site) is None
    assert canonicalise("a", longest + "a") is None


awkward = st.text(
    st.sampled_from(
        "ahtpsfilew.:/\\?#@[]%0127eE^|&=; \t\n\x00\x7féß。\u200d\ufffe\ud800\udc00\U0001f600CxXnN-_~"
    )
)
# fmt: off
pieces = st.lists(
    st.sampled_from([
        "http://", "https://", "file://", "//", "/", "..", ".", "%2e", "%%32e", "%41", "xn--", "www.",
        "www.example.com", "example.com", "[::1]", "1.2.3.4", "0x7f", ":80", ":443", "@", "?", "#",
        ";", "&", "=", ";jsessionid=A1", "(S(abcdefghijklmnopqrstuvwx))", "utm_source=x",
        "sid=0123456789abcdef", "PHPSESSID=1", "index.html", "^", "|", "\\", "C|", "ü", "\ud800", "\t",
    ]),
    max_size=10,
).map("".join)
# fmt: on
anything = st.one_of(st.text(), awkward, pieces, st.tuples(pieces, awkward).map("".join))
bases = st.sampled_from(
    [None, "http://example.com/a/b?c", "https://[::1]:8/x/", "file:///a/b", "mailto:a", "\ud800", "x://h/a"]
)
choices = st.sets(st.sampled_from(sorted(TABLE))).map(Rules.named)


@settings(max_examples=1500, deadline=None)
@given(anything, bases, choices)
@example("http://a/%%%%333341", None, ALL_RULES)
@example("http://www.www.example.com/", None, ALL_RULES)
@example("http://www.1.2.3.4/", None, ALL_RULES)
@example("http://a/;sid=1/..;sid=2/", None, ALL_RULES)
def test_promises(text: str, base: str | None, rules: Rules) -> None:
    url = canonicalise(text, base, rules)
    if url is None:
        return
    assert canonicalise(url, None, rules) == url
    assert canonicalise(url) == url
    assert re.fullmatch(r"[!-~]+", url)
    assert "#" not in url
    parts = split(url)
    assert parts.scheme in SCHEMES
    assert parts.host or parts.scheme == "file"
    assert parts.path_and_query.startswith("/")
    assert "@" not in parts.host


def rule(name: str, url: str) -> str | None:
    return canonicalise(url, rules=Rules.named([name]))


@pytest.mark.parametrize(
    ("name", "url", "want"),
    [
        ("escapes", "http://a.b/%7euser/%c3%bc?%41=%2f", "http://a.b/~user/%C3%BC?A=%2F"),
        ("escapes", "http://a.b/x%2fy%2e%zz%", "http://a.b/x%2Fy.%zz%"),
        ("escapes", "http://a.b/x/%%32e%%32e/y", "http://a.b/y"),
        ("www", "http://www.example.com/", "http://example.com/"),
        ("www", "http://www.www.example.com:8/x", "http://example.com:8/x"),
        ("www", "http://www.com/", "http://www.com/"),
        ("www", "http://www.com./", "http://www.com./"),
        ("www", "http://wwwx.example.com/", "http://wwwx.example.com/"),
        ("dot", "http://example.com.:81/", "http://example.com:81/"),
        ("dot", "http://[::1]/", "http://[::1]/"),
        ("sessions", "http://a.b/x;jsessionid=A1B2.n1?q=1", "http://a.b/x?q=1"),
        ("sessions", "http://a.b/(S(abcdefghijklmnopqrstuvwx))/d.aspx", "http://a.b/d.aspx"),
        ("sessions", "http://a.b/?PHPSESSID=1&q=2&ASPSESSIONIDABC=3", "http://a.b/?q=2"),
        ("sessions", "http://a.b/?sid=0123456789abcdef", "http://a.b/"),
        ("sessions", "http://a.b/?sid=42", "http://a.b/?sid=42"),
        ("sessions", "http://a.b/?cfid=1&cftoken=2", "http://a.b/"),
        ("tracking", "http://a.b/?utm_source=x&id=1&fbclid=y&UTM_MEDIUM=z", "http://a.b/?id=1"),
        ("tracking", "http://a.b/?gclid=1", "http://a.b/"),
        ("tracking", "http://a.b/?", "http://a.b/?"),
        ("sorted", "http://a.b/?b=2&a=3&b=1&&c", "http://a.b/?&a=3&b=2&b=1&c"),
        ("index", "http://a.b/x/index.html", "http://a.b/x/"),
        ("index", "http://a.b/Default.aspx", "http://a.b/"),
        ("index", "http://a.b/index.php?id=1", "http://a.b/index.php?id=1"),
        ("index", "http://a.b/myindex.html", "http://a.b/myindex.html"),
        ("slash", "http://a.b/x/", "http://a.b/x"),
        ("slash", "http://a.b/", "http://a.b/"),
        ("slash", "http://a.b/x/?y/", "http://a.b/x/?y/"),
    ],
)
def test_rules(name: str, url: str, want: str) -> None:
    assert canonicalise(url) == canonicalise(url, rules=NO_RULES)
    assert rule(name, url) == want


def test_rules_work_together_in_the_order_of_the_table() -> None:
    url = "http://www.a.b/x/index.html?utm_source=1"
    assert canonicalise(url, rules=ALL_RULES) == "http://a.b/x"
    assert Rules.named(["index", "tracking"]) == Rules.named(["tracking", "index", "index"])
    assert Rules.named([]) == NO_RULES


def test_rules_are_off_for_other_schemes() -> None:
    assert canonicalise("file:///x/index.html", rules=ALL_RULES) == "file:///x/index.html"


def test_rules_that_do_not_settle_refuse_the_url() -> None:
    escapes = Rules.named(["escapes"])
    assert canonicalise("http://a/" + "%" * 4 + "3" * 3 + "41", rules=escapes) == "http://a/A"
    nested = "http://a/" + "%" * 12 + "3" * 11 + "41"
    assert canonicalise(nested) == nested
    assert canonicalise(nested, rules=escapes) is None


def test_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown URL rule 'trackin'; did you mean 'tracking'"):
        Rules.named(["trackin"])
    with pytest.raises(ConfigError, match="known: escapes, www"):
        Rules.named(["qqqq"])


def _path_state(path: str) -> str:
    """The path state of the URL standard for http, without percent-encoding, which these letters need not."""
    kept: list[str] = []
    segments = path.replace("\\", "/").split("/")[1:]
    for row, segment in enumerate(segments):
        last = row == len(segments) - 1
        name = segment.replace("%2e", ".")
        if name == "..":
            del kept[-1:]
        if name in (".", ".."):
            if last:
                kept.append("")
        else:
            kept.append(segment)
    return "/" + "/".join(kept)


SEGMENTS = st.lists(st.sampled_from(["c:", "C|", "a", "..", "%2e.", ".", "", "cc:", "c:d"]), max_size=7)


@given(SEGMENTS, SEGMENTS, st.sampled_from("/\\"), st.sampled_from(["", "?q/c:/../x", "#/c:/.."]))
def test_no_segment_is_a_drive_in_http(above: list[str], below: list[str], slash: str, rest: str) -> None:
    base, path = "/" + "/".join(above), slash + slash.join(below)
    query = rest if rest.startswith("?") else ""
    assert canonicalise(f"http://h.test{path}{rest}") == f"http://h.test{_path_state(path)}{query}"
    relative = "/".join(below)
    if below and ":" not in below[0] and below[0]:  # "c:" at the start is a scheme, and "/" the root
        directory = _path_state(base).rpartition("/")[0]
        wanted = f"http://h.test{_path_state(directory + '/' + relative)}{query}"
        assert canonicalise(relative + rest, f"http://h.test{base}") == wanted


def test_hosts_and_files_that_look_like_drives() -> None:
    assert canonicalise("http://c:/../c:/../x") == "http://c/x"
    assert canonicalise("//c:/c:/../x", "http://h/") == "http://c/x"
    assert canonicalise("http:/c:/../x", "http://h/y") == "http://h/x"
    assert canonicalise("/c:/../x", "file:///y") == "file:///c:/x"


def test_a_space_before_the_fragment_is_part_of_the_path() -> None:
    assert canonicalise("home.html #x", "http://h/") == "http://h/home.html%20"
    assert canonicalise("home.html #" + "x" * MAX_URL, "http://h/") == "http://h/home.html%20"
