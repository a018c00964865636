"""Facts about robots files: a file, an agent, a URL, and whether it is allowed.

From the cases of google/robotstxt (robots_test.cc), of Protego's test suite and of RFC 9309, written down
as one table. `DIFFERENT` holds the cases of either suite that we answer otherwise, each with the reason.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    source: str
    robots: str
    agent: str
    url: str
    allowed: bool


def _cases(source: str, robots: str, agent: str, allowed: str = "", refused: str = "") -> list[Case]:
    """One robots file and agent, with the URLs it allows and those it does not."""

    def full(url: str) -> str:
        return "http://foo.bar" + url if url.startswith("/") else url

    return [Case(source, robots, agent, full(u), True) for u in allowed.split()] + [
        Case(source, robots, agent, full(u), False) for u in refused.split()
    ]


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


GROUPS = _lines(
    "allow: /foo/bar/",
    "",
    "user-agent: FooBot",
    "disallow: /",
    "allow: /x/",
    "user-agent: BarBot",
    "disallow: /",
    "allow: /y/",
    "",
    "",
    "allow: /w/",
    "user-agent: BazBot",
    "",
    "user-agent: FooBot",
    "allow: /z/",
    "disallow: /",
)
ONE = _lines("user-agent: FooBot", "disallow: /")
SITEMAP_BETWEEN = _lines("User-agent: BarBot", "Sitemap: https://foo.bar/s", "User-agent: *", "Disallow: /")
UNKNOWN_BETWEEN = _lines("User-agent: FooBot", "Invalid-Unknown-Line: x", "User-agent: *", "Disallow: /")
GLOBAL = _lines("user-agent: *", "allow: /", "user-agent: FooBot", "disallow: /")
SPECIFIC = _lines(
    "user-agent: FooBot", "allow: /", "user-agent: BarBot", "disallow: /", "user-agent: BazBot", "disallow: /"
)
SPACED = _lines("User-Agent: *", "Disallow: /", "User-Agent: Foo Bar", "Allow: /x/", "Disallow: /")

GOOGLE: list[Case] = [
    Case("empty", "", "FooBot", "", True),
    Case("empty", ONE, "", "", True),
    Case("empty", ONE, "FooBot", "", False),
    Case("empty", "", "", "", True),
    *_cases("syntax", ONE, "FooBot", "", "/x/y"),
    *_cases("syntax", "foo: FooBot\nbar: /\n", "FooBot", "/x/y"),
    *_cases("syntax", "user-agent FooBot\ndisallow /\n", "FooBot", "", "/x/y"),
    *_cases("groups", GROUPS, "FooBot", "/x/b /z/d", "/y/c /foo/bar/"),
    *_cases("groups", GROUPS, "BarBot", "/y/c /w/a", "/z/d /foo/bar/"),
    *_cases("groups", GROUPS, "BazBot", "/z/d", "/foo/bar/"),
    *_cases("other lines", SITEMAP_BETWEEN, "FooBot", "", "/"),
    *_cases("other lines", SITEMAP_BETWEEN, "BarBot", "", "/"),
    *_cases("other lines", UNKNOWN_BETWEEN, "FooBot", "", "/"),
    *_cases("other lines", UNKNOWN_BETWEEN, "BarBot", "", "/"),
    *[
        case
        for names in (
            ("USER-AGENT", "ALLOW", "DISALLOW"),
            ("user-agent", "allow", "disallow"),
            ("uSeR-aGeNt", "AlLoW", "dIsAlLoW"),
        )
        for case in _cases(
            "key case",
            f"{names[0]}: FooBot\n{names[1]}: /x/\n{names[2]}: /\n",
            "FooBot",
            "/x/y",
            "/a/b",
        )
    ],
    *[
        case
        for name in ("FOO BAR", "foo bar", "FoO bAr")
        for agent in ("Foo", "foo")
        for case in _cases(
            "agent case", f"User-Agent: {name}\nAllow: /x/\nDisallow: /\n", agent, "/x/y", "/a/b"
        )
    ],
    *_cases("up to the space", SPACED, "Foo", "/x/y"),
    *_cases("up to the space", SPACED, "Foo Bar", "", "/x/y"),
    *_cases("global", "", "FooBot", "/x/y"),
    *_cases("global", GLOBAL, "FooBot", "", "/x/y"),
    *_cases("global", GLOBAL, "BarBot", "/x/y"),
    *_cases("global", SPECIFIC, "QuxBot", "/x/y"),
    *_cases("case of paths", "user-agent: FooBot\ndisallow: /x/\n", "FooBot", "", "/x/y"),
    *_cases("case of paths", "user-agent: FooBot\ndisallow: /X/\n", "FooBot", "/x/y"),
    *_cases(
        "longest", "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/\n", "FooBot", "", "/x/page.html"
    ),
    *_cases(
        "longest",
        "user-agent: FooBot\nallow: /x/page.html\ndisallow: /x/\n",
        "FooBot",
        "/x/page.html",
        "/x/",
    ),
    *_cases("longest", "user-agent: FooBot\ndisallow: \nallow: \n", "FooBot", "/x/page.html"),
    *_cases("longest", "user-agent: FooBot\ndisallow: /\nallow: /\n", "FooBot", "/x/page.html"),
    *_cases("longest", "user-agent: FooBot\ndisallow: /x\nallow: /x/\n", "FooBot", "/x/", "/x"),
    *_cases(
        "longest",
        "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/page.html\n",
        "FooBot",
        "/x/page.html",
    ),
    *_cases(
        "longest", "user-agent: FooBot\nallow: /page\ndisallow: /*.html\n", "FooBot", "/page", "/page.html"
    ),
    *_cases(
        "longest",
        "user-agent: FooBot\nallow: /x/page.\ndisallow: /*.html\n",
        "FooBot",
        "/x/page.html",
        "/x/y.html",
    ),
    *_cases(
        "longest",
        "User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\n",
        "FooBot",
        "/x/page",
        "/y/page",
    ),
    *_cases(
        "encoding",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par\n",
        "FooBot",
        "/foo/bar?qux=taz&baz=http://foo.bar?tar&par",
    ),
    *_cases(
        "encoding",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/ツ\n",
        "FooBot",
        "/foo/bar/%E3%83%84",
    ),
    *_cases(
        "encoding",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%E3%83%84\n",
        "FooBot",
        "/foo/bar/%E3%83%84",
    ),
    *_cases(
        "encoding",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n",
        "FooBot",
        "/foo/bar/%62%61%7A",
    ),
    *_cases(
        "specials",
        "User-agent: FooBot\nDisallow: /foo/bar/quz\nAllow: /foo/*/qux\n",
        "FooBot",
        "/foo/quz /foo//quz /foo/bax/quz",
        "/foo/bar/quz",
    ),
    *_cases(
        "specials",
        "User-agent: FooBot\nDisallow: /foo/bar$\nAllow: /foo/bar/qux\n",
        "FooBot",
        "/foo/bar/qux /foo/bar/ /foo/bar/baz",
        "/foo/bar",
    ),
    *_cases(
        "specials",
        "User-agent: FooBot\n# Disallow: /\nDisallow: /foo/quz#qux\nAllow: /\n",
        "FooBot",
        "/foo/bar",
        "/foo/quz",
    ),
    *_cases(
        "index.html",
        "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n",
        "foobot",
        "/allowed-slash/ /allowed-slash/index.html",
        "/allowed-slash/index.htm /anyother-url",
    ),
    *_cases(
        "long line",
        "user-agent: FooBot\ndisallow: /x/" + "a" * 16649 + "/qux\n",
        "FooBot",
        "/fux",
        "/x/" + "a" * 16649 + "/fux",
    ),
    *_cases(
        "long line",
        "user-agent: FooBot\ndisallow: /\nallow: /x/"
        + "a" * 16652
        + "/qux\nallow: /x/"
        + "b" * 16652
        + "/qux\n",
        "FooBot",
        "/x/" + "a" * 16652 + "/qux /x/" + "b" * 16652 + "/fux",
        "/",
    ),
    *_cases(
        "documentation",
        "user-agent: FooBot\ndisallow: /\nallow: /fish\n",
        "FooBot",
        "/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html /fish.html?id=anything",
        "/bar /Fish.asp /catfish /?id=fish",
    ),
    *_cases(
        "documentation",
        "user-agent: FooBot\ndisallow: /\nallow: /fish*\n",
        "FooBot",
        "/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html /fish.html?id=anything",
        "/bar /Fish.bar /catfish /?id=fish",
    ),
    *_cases(
        "documentation",
        "user-agent: FooBot\ndisallow: /\nallow: /fish/\n",
        "FooBot",
        "/fish/ /fish/salmon /fish/?salmon /fish/salmon.html /fish/?id=anything",
        "/bar /fish /fish.html /Fish/Salmon.html",
    ),
    *_cases(
        "documentation",
        "user-agent: FooBot\ndisallow: /\nallow: /*.php\n",
        "FooBot",
        "/filename.php /folder/filename.php /folder/filename.php?parameters //folder/any.php.file.html"
        " /filename.php/ /index?f=filename.php/",
        "/bar /php/ /index?php /windows.PHP",
    ),
    *_cases(
        "documentation",
        "user-agent: FooBot\ndisallow: /\nallow: /*.php$\n",
        "FooBot",
        "/filename.php /folder/filename.php",
        "/bar /filename.php?parameters /filename.php/ /filename.php5 /php/ /filename?php /aaaphpaaa"
        " //windows.PHP",
    ),
    *_cases(
        "documentation",
        "user-agent: FooBot\ndisallow: /\nallow: /fish*.php\n",
        "FooBot",
        "/fish.php /fishheads/catfish.php?parameters",
        "/bar /Fish.PHP",
    ),
    *_cases("documentation", "user-agent: FooBot\nallow: /p\ndisallow: /\n", "FooBot", "/page"),
    *_cases(
        "documentation", "user-agent: FooBot\nallow: /folder\ndisallow: /folder\n", "FooBot", "/folder/page"
    ),
    *_cases(
        "documentation",
        "user-agent: FooBot\nallow: /page\ndisallow: /*.htm\n",
        "FooBot",
        "",
        "/page.htm",
    ),
    *_cases("documentation", "user-agent: FooBot\nallow: /$\ndisallow: /\n", "FooBot", "/", "/page.html"),
    *_cases("byte order mark", "\ufeffUser-Agent: foo\nDisallow: /a\n", "foo", "/b", "/a"),
    *_cases("byte order mark", "User-Agent: foo\n\ufeffDisallow: /a\n", "foo", "/a"),
    *_cases("asterisk and more", "User-agent: * and more\nDisallow: /\n", "foo", "", "/a"),
]

PATHS = [
    ("", "/"),
    ("http://www.example.com", "/"),
    ("http://www.example.com/", "/"),
    ("http://www.example.com/a", "/a"),
    ("http://www.example.com/a/", "/a/"),
    ("http://www.example.com/a/b?c=http://d.e/", "/a/b?c=http://d.e/"),
    ("http://www.example.com/a/b?c=d&e=f#fragment", "/a/b?c=d&e=f"),
    ("example.com", "/"),
    ("example.com/", "/"),
    ("example.com/a", "/a"),
    ("example.com/a/", "/a/"),
    ("example.com/a/b?c=d&e=f#fragment", "/a/b?c=d&e=f"),
    ("a", "/"),
    ("a/", "/"),
    ("/a", "/a"),
    ("a/b", "/b"),
    ("example.com?a", "/?a"),
    ("example.com/a;b#c", "/a;b"),
    ("//a/b/c", "/b/c"),
]
"""URLs and the part that rules are matched against (google/robotstxt)."""

WILD = """
# robots.txt for http://www.example.com/

User-agent: Rule1TestBot
Disallow:  /foo*

User-agent: Rule2TestBot
Disallow:  /foo*/bar.html

User-agent: Rule3TestBot
Disallow:  *m

User-agent: Rule4TestBot
Allow:  /foo/bar.html
Disallow: *

User-agent: Rule5TestBot
Disallow:  /foo*/*bar.html

User-agent: Rule6TestBot
Allow:  /foo$
Disallow:  /foo
"""
UNICODE = """
User-Agent: *
Disallow: /admin/
Disallow: /static/
Disallow: /wiki/K%C3%A4ytt%C3%A4j%C3%A4:
Disallow: /wiki/Käyttäjä:
Disallow: /wiki/Keskustelu_käyttäjästä:
User-Agent: UnicödeBöt
Disallow: /some/randome/page.html"""
SLAVIC = """
User-Agent: Jävla-Foobot
Disallow: /

User-Agent: Львів-bot
Disallow: /totalitarianism/
"""
NOBODY = """
Disallow: /withoutUA
Allow: /withoutUA/exception
Crawl-delay: 5.2
User-Agent: testbot
Disallow: /withUA
"""
DEFAULT = """
User-Agent: robot
Disallow: /ro-bot

User-Agent: *
Disallow: /default-UA

User-Agent: testbot
Disallow: /testbot
"""
COMMENTS = """
# comment 1
User-Agent: one # comment 2
# comment 3
User-Agent: two
Disallow: /one-two-bot
# Disallow: /commented
# comment 4
User-Agent: *
Disallow: /default-ua
"""
OLD_1996 = """
User-agent: 1bot
Allow: /tmp
Disallow: /

User-agent: 2bot
Allow: /tmp/
Disallow: /

User-agent: 3bot
Allow: /a%3cd.html
Disallow: /

User-agent: 4bot
Allow: /a%3Cd.html
Disallow: /

User-agent: 5bot
Allow: /a%2fb.html
Disallow: /

User-agent: 6bot
Allow: /a/b.html
Disallow: /

User-agent: 7bot
Allow: /%7ejoe/index.html
Disallow: /

User-agent: 8bot
Allow: /~joe/index.html
Disallow: /
"""
HIP = """
User-agent: unhipbot
Disallow: /

User-agent: webcrawler
User-agent: excite
Disallow:

User-agent: *
Disallow: /org/plans.html
Allow: /org/
Allow: /serv
Allow: /~mak
Disallow: /
"""
HEDWIG = """
user-agent: hedwig-news
disallow: /
allow: /group1
user-agent: *
disallow: /
allow: /group2
user-agent: hedwig
disallow: /
allow: /group3
"""

_SPEC_PATTERNS = [
    ("/", "/harry /device/time-turner /hogwards.html", ""),
    ("/*", "/harry /device/time-turner /hogwards.html", ""),
    (
        "/phoenix",
        "/phoenix /phoenix.html /phoenix/sparky.html /phoenixheads /phoenixheads/yummy.html"
        " /phoenix.php?id=anything",
        "/Phoenix.asp /redphoenix /?id=phoenix",
    ),
    (
        "/phoenix*",
        "/phoenix /phoenix.html /phoenix/sparky.html /phoenixheads /phoenixheads/yummy.html"
        " /phoenix.php?id=anything",
        "/Phoenix.asp /redphoenix /?id=phoenix",
    ),
    (
        "/phoenix/",
        "/phoenix/ /phoenix/?id=anything /phoenix/sparky.htm",
        "/phoenix /phoenix.html /Phoenix/Sparky.asp",
    ),
    (
        "/*.php",
        "/filename.php /folder/filename.php /folder/filename.php?parameters /folder/any.php.file.html"
        " /filename.php/ /index?f=filename.php/",
        "/windows.PHP / /index?php",
    ),
    (
        "/*.php$",
        "/filename.php /folder/filename.php",
        "/filename.php?parameters /filename.php/ /filename.php5 /windows.PHP /filename?php",
    ),
    ("/fish*.php", "/fish.php /fishheads/catfish.php?parameters", "/Fish.PHP"),
]

PROTEGO: list[Case] = [
    *_cases(
        "allowed",
        "User-agent: * \nDisallow: /disallowed \nAllow: /allowed \nCrawl-delay: 10",
        "*",
        "/allowed",
        "/disallowed",
    ),
    *_cases("allowed", "User-agent: * \nDisallow: /d \nCrawl-delay: 10", "*", "/abc/d", "/disallowed"),
    *_cases(
        "typos",
        "User-agent: * \nDisallow: /one \nDissallow: /two \nDissalow: /three \nDisalow: /four \n"
        "Diasllow: /five \nDisallaw: /six \n",
        "*",
        "/seven",
        "/one /two /three /four /five /six",
    ),
    *_cases("length", "User-agent: * \nDisallow: / \nAllow: /page", "*", "/page", "/elsewhere"),
    *_cases("escapes", "User-agent: * \nDisallow: / \nAllow: /a%3cd.html", "*", "/a<d.html /a%3cd.html"),
    *_cases("escapes", "User-agent: * \nDisallow: / \nAllow: /a%3c*", "*", "/a<d.html /a%3cd.html"),
    *_cases("escapes", "User-agent: * \nDisallow: / \nAllow: /a<d.html", "*", "/a<d.html /a%3cd.html"),
    *_cases("escapes", "User-agent: * \nDisallow: / \nAllow: /a<*", "*", "/a<d.html /a%3cd.html"),
    *_cases(
        "parts of URLs",
        "User-agent: * \nDisallow: /path;params?query \n",
        "*",
        "",
        "http://userinfo@exmaple.com:10/path;params?query#fragment",
    ),
    *_cases("parts of URLs", "User-agent: * \nDisallow: /? \n", "*", "/", "/?query"),
    *_cases("parts of URLs", "User-agent: * \nDisallow: /; \n", "*", "/", "/;params"),
    *_cases("empty", "", "chrome", "/ /index.html /disallowed"),
    *_cases(
        "wildcards",
        "User-agent: first\nDisallow: /disallowed/*/end$\nDisallow: /protego*work\n",
        "first",
        "/disallowed /disallowed/xyz/endinglater /rotego_does_work /protego_does_wor",
        "/disallowed/xyz/end /disallowed/abc/end /protegoworks /protego_works /protego/works"
        " /protego_does_work",
    ),
    *_cases(
        "wildcards",
        "User-agent: second\nAllow: /*allowed\nDisallow: /\n",
        "second",
        "/allowed /is_still_allowed /is_allowed_too",
    ),
    *_cases("wildcards", WILD, "Rule1TestBot", "/fo.html", "/foo.html /foo /foo/bar.html"),
    *_cases(
        "wildcards",
        WILD,
        "Rule2TestBot",
        "/fo.html /foo.html /foo /food/xyz.html",
        "/foo/bar.html /food/bar.html /foo/a/b/c/x/y/z/bar.html",
    ),
    *_cases(
        "wildcards",
        WILD,
        "Rule3TestBot",
        "/foo /foo/bar.txt",
        "/foo.htm /foo.html /foom /moo /foo/bar.html",
    ),
    *_cases("wildcards", WILD, "Rule4TestBot", "/foo/bar.html", "/fo.html /foo.html /foo /foo/bar.txt"),
    *_cases(
        "wildcards",
        WILD,
        "Rule5TestBot",
        "/food/rebarf.html",
        "/foo/bar.html /food/rebar.html /foo/a/b/c/rebar.html /foo/a/b/c/bar.html",
    ),
    *_cases("wildcards", WILD, "Rule6TestBot", "/foo", "/foo/ /foo/bar.html /fooey"),
    *_cases(
        "unicode",
        UNICODE,
        "*",
        "/ /some/randome/page.html",
        "/admin/ /static/ /wiki/K%C3%A4ytt%C3%A4j%C3%A4: /wiki/Käyttäjä:"
        " /wiki/Keskustelu_k%C3%A4ytt%C3%A4j%C3%A4st%C3%A4: /wiki/Keskustelu_käyttäjästä:",
    ),
    *_cases("unicode", UNICODE, "UnicödeBöt", "/admin/", "/some/randome/page.html"),
    *_cases("unicode", SLAVIC, "jävla-fanbot", "/foo/bar.html"),
    *_cases("unicode", SLAVIC, "jävla-foobot", "", "/foo/bar.html"),
    *_cases("unicode", SLAVIC, "foobot", "/"),
    *_cases("unicode", SLAVIC, "Mozilla/5.0 (compatible; Львів-bot/1.1)", "/", "/totalitarianism/foo.htm"),
    *_cases("nobody's rules", NOBODY, "mybot", "/withoutUA /withUA"),
    *_cases("nobody's rules", NOBODY, "testbot", "/withoutUA", "/withUA"),
    *_cases("nobody's rules", NOBODY, "*", "/withoutUA"),
    *_cases("default", DEFAULT, "mybot", "", "/default-UA"),
    *_cases("default", DEFAULT, "testbot", "/default-UA"),
    *_cases("default", DEFAULT, "robot", "/default-UA"),
    *[
        case
        for agent in ("TESTbot", "testbot", "tEStbOt")
        for case in _cases("agent case", DEFAULT, agent, "/default-UA", "/testbot")
    ],
    *_cases("grouping", COMMENTS, "one", "/commented /default-ua", "/one-two-bot"),
    *_cases("grouping", COMMENTS, "two", "/commented /default-ua", "/one-two-bot"),
    *_cases(
        "unknown key",
        "User-Agent: one\nDisallow: /one\nHarry: Potter\nUser-Agent: two\nDisallow: /two\n",
        "one",
        "/two",
        "/one",
    ),
    *_cases(
        "malformed line",
        "User-Agent: one\nDisallow: /one\nHarry Potter\nUser-Agent: two\nDisallow: /two\n",
        "two",
        "/one",
        "/two",
    ),
    *_cases("empty rules", "User-Agent: one\nDisallow:\n\nUser-Agent: two\nAllow:\n", "one", "/a /b"),
    *_cases("empty rules", "User-Agent: one\nDisallow:\n\nUser-Agent: two\nAllow:\n", "two", "/a /b"),
    *_cases("empty group", "User-Agent: harrybot\nDisallow: /\nUser-Agent: testbot\n", "testbot", "/a /b"),
    *_cases("1996", OLD_1996, "1bot", "/tmp.html /tmp /tmp/a.html"),
    *_cases("1996", OLD_1996, "2bot", "/tmp/ /tmp/a.html", "/tmp"),
    *_cases("1996", OLD_1996, "3bot", "/a%3cd.html /a%3Cd.html"),
    *_cases("1996", OLD_1996, "4bot", "/a%3cd.html /a%3Cd.html"),
    *_cases("1996", OLD_1996, "5bot", "/a%2fb.html", "/a/b.html"),
    *_cases("1996", OLD_1996, "6bot", "/a/b.html", "/a%2fb.html"),
    *_cases("1996", OLD_1996, "7bot", "/~joe/index.html"),
    *_cases("1996", OLD_1996, "8bot", "/%7Ejoe/index.html"),
    *_cases("1996", HIP, "unhipbot", "", "/ /index.html /server.html /orgo.gif /%7Emak/mak.html"),
    *_cases("1996", HIP, "webcrawler", "/ /index.html /server.html /orgo.gif /org/plans.html"),
    *_cases("1996", HIP, "excite", "/ /index.html /server.html /orgo.gif /org/plans.html"),
    *_cases(
        "1996",
        HIP,
        "OtherBot",
        "/server.html /services/fast.html /services/slow.html /org/about.html /%7Emak/mak.html",
        "/ /index.html /orgo.gif /org/plans.html /%7Ejim/jim.html",
    ),
    *_cases("implicit allow", "User-agent: *\nDisallow: /\n\nUser-agent: foobot\nDisallow:\n", "foobot", "/"),
    *_cases("implicit allow", "User-agent: *\nDisallow: /\nUser-agent: foobot\nDisallow:\n", "x", "", "/"),
    *_cases("wildcard agent", "user-agent: foo*bot\ndisallow: /myprofile\n", "foo*bot", "", "/myprofile"),
    *_cases("encoding", "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/ツ\n", "FooBot", "/foo/bar/ツ"),
    *_cases(
        "encoding", "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%E3%83%84\n", "FooBot", "/foo/bar/ツ"
    ),
    *_cases(
        "encoding", "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n", "FooBot", "/foo/bar/baz"
    ),
    *_cases(
        "dollar inside",
        "user-agent: FooBot\ndisallow: /x$/abc\ndisallow: /y/abc$\ndisallow: /x*x$/abc\n"
        "disallow: /y*y/abc$\n",
        "FooBot",
        "/y/abcdef /yabcy/abcdef",
        "/x$/abcdef /x%24/abcdef /y/abc /xabcx$/abcdef /xabcx%24/abcdef /yabcy/abc",
    ),
    *_cases(
        "escaped specials",
        "user-agent: FooBot\ndisallow: /x/abc%24\ndisallow: /x%2Ax/abc\n",
        "FooBot",
        "/x/abc /xabcx/abc",
        "/x/abc$abc /x/abc$ /x*x/abc /x*x/abcdef",
    ),
    *_cases("literal asterisk", "user-agent: FooBot\ndisallow: /x*x/abc\n", "FooBot", "", "/x*x/abc"),
    *_cases("absolute URL", "user-agent: *\ndisallow: http://ms-web00.walkerplus.com/\n", "FooBot", "/"),
    *_cases(
        "no path",
        "User-Agent: *\nDisallow: /\n",
        "FooBot",
        "",
        "http://example.com/ http://example.com",
    ),
    *_cases(
        "double slash",
        "User-Agent: *\nDisallow: //folder/*\n",
        "FooBot",
        "/ /folder /folder/ /folder/page //folder",
        "//folder/page",
    ),
    *_cases("query", "User-agent: * \nDisallow: /*s=", "*", "/ /s/", "/?s=asd"),
    *_cases("leading asterisk", "User-Agent: *\nallow: */p\ndisallow: /\n", "*", "/page"),
    *_cases("leading asterisk", "User-Agent: *\nallow: /page\ndisallow: */*.htm\n", "*", "", "/page.htm"),
    *_cases("precedence", HEDWIG, "hedwig-news", "/group1", "/group2 /group3"),
    *_cases("precedence", HEDWIG, "hedwig-news2", "/group1", "/group2 /group3"),
    *_cases("precedence", HEDWIG, "hedwi", "/group2", "/group1 /group3"),
    *_cases("precedence", HEDWIG, "a", "/group2", "/group1 /group3"),
    *[
        case
        for pattern, matching, other in _SPEC_PATTERNS
        for case in _cases("patterns", f"User-Agent: *\ndisallow: {pattern}\n", "*", other, matching)
    ],
]

RFC: list[Case] = [
    *_cases("2.2.2 encoding", "User-agent: x\nDisallow: /foo/bar?baz=quz\n", "x", "", "/foo/bar?baz=quz"),
    *_cases(
        "2.2.2 encoding",
        "User-agent: x\nDisallow: /foo/bar?baz=https://foo.bar\n",
        "x",
        "",
        "/foo/bar?baz=https://foo.bar",
    ),
    *_cases("2.2.2 encoding", "User-agent: x\nDisallow: /foo/bar/\u30c4\n", "x", "", "/foo/bar/%e3%83%84"),
    *_cases("2.2.2 encoding", "User-agent: x\nDisallow: /foo/bar/%62%61%7A\n", "x", "", "/foo/bar/baz"),
    *_cases(
        "2.2.3 literals",
        "User-agent: x\nDisallow: /path/file-with-a-%2A.html\nDisallow: /path/foo-%24\n",
        "x",
        "/path/file-with-a-x.html /path/foo-",
        "/path/file-with-a-*.html /path/foo-$",
    ),
    *_cases("2.2.2 itself", "User-agent: *\nDisallow: /\n", "x", "/robots.txt", "/robots.txt/"),
    *_cases(
        "5.1 example",
        "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n"
        "User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n"
        "User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\nUser-Agent: quxbot\n",
        "foobot",
        "/example/page.html /example/allowed.gif",
        "/ /publications/ /x.gif",
    ),
    *_cases(
        "5.2 longest",
        "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n",
        "foobot",
        "/example/page/x",
        "/example/page/disallowed.gif",
    ),
]

DIFFERENT: list[tuple[str, Case]] = [
    *[
        ("google: a URL is to be escaped by the caller; RFC 9309 2.2.2 has both sides escaped", case)
        for pattern in ("/foo/bar/ツ", "/foo/bar/%E3%83%84")
        for case in _cases(
            "encoding", f"User-agent: FooBot\nDisallow: /\nAllow: {pattern}\n", "FooBot", "/foo/bar/ツ"
        )
    ],
    *[
        ("google: escapes of unreserved characters stay; RFC 9309 2.2.2 undoes them", case)
        for case in _cases(
            "encoding",
            "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n",
            "FooBot",
            "/foo/bar/baz",
        )
    ],
    *[
        ("protego: a token matches agents that begin with it; RFC 9309 2.2.1 compares tokens", case)
        for agent in ("hedwig-new", "hedwig-images")
        for case in _cases("precedence", HEDWIG, agent, "/group2", "/group3")
    ],
    *[
        ("protego: a * in a name is a wildcard; RFC 9309 2.2.1 and google: a name ends there", case)
        for case in _cases(
            "wildcard agent", "user-agent: foo*bot\ndisallow: /myprofile\n", "foobot", "/myprofile"
        )
    ],
    *[
        ("protego: an unknown line ends a group; RFC 9309 2.2.4 and google: it does not", case)
        for case in _cases(
            "unknown key",
            "User-agent: abc\nDisallow: /content/2/\nUser-agent: *\nInvalid_directive: /gb.html\n"
            "User-agent: ia_archiver\nDisallow: /\n",
            "agent",
            "",
            "/foo",
        )
    ],
    *[
        ("protego: several words without a colon; google reads a missing colon only in two words", case)
        for case in _cases("no colon", "user agent harry potter\ndisallow /h\n", "harry potter", "/h")
    ],
    *[
        ("protego: a last $ is also a literal; RFC 9309 2.2.3: it is the end", case)
        for case in _cases("dollar", "user-agent: FooBot\ndisallow: /x/abc$\n", "FooBot", "/x/abc$ /x/abc%24")
    ],
    *[
        ("protego: an absolute URL gets a slash; google: it matches nothing", case)
        for case in _cases("absolute URL", "user-agent: *\ndisallow: http://a.b/\n", "FooBot", "/http://a.b/")
    ],
]
"""Why, and the case as we answer it."""
