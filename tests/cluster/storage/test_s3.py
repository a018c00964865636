"""S3: what a server may do wrong, what an operator may, and that nobody sees a secret."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.cluster.storage import Away, Missing
from lycosa.cluster.storage.opening import normal, open_storage
from lycosa.cluster.storage.protocol import PIECE
from lycosa.cluster.storage.s3 import Patience, S3Place, S3Storage, file_credentials
from lycosa.errors import ConfigError
from lycosa.files import DiskFiles, write_whole
from tests.cluster.storage.s3_server import ENVIRON, KEY, SECRET, FaultyS3, S3Server, answer, silent

SHORT = Patience(connect=60.0, request=60.0, retries=3, first=0.01, most=0.05)
"""Whoever is there answers, on however busy a machine; waits between attempts are short."""


@pytest.fixture
def faulty(s3: S3Server) -> Iterator[FaultyS3]:
    made = FaultyS3(s3)
    yield made
    made.close()


def opened(faulty: FaultyS3, **more: str) -> S3Storage:
    return S3Storage(S3Place.parse(faulty.place(**more)), environ=ENVIRON, patience=SHORT)


def test_errors_that_pass_are_waited_for(faulty: FaultyS3, tmp_path: Path) -> None:
    storage, local = opened(faulty), DiskFiles(tmp_path)
    data = bytes(range(256)) * 40_000
    assert len(data) > PIECE
    write_whole(local, "f", data)
    for status, code in ((500, "InternalError"), (503, "SlowDown"), (429, "TooManyRequests")):
        faulty.fault = answer(status, code, 2)
        storage.put("a/small", b"1")
        faulty.fault = answer(status, code, 2)
        assert storage.get("a/small") == b"1"
        faulty.fault = answer(status, code, 2)
        assert storage.list("a") == ["small"] if status == 500 else storage.exists("a/small")
    faulty.fault = answer(500, "InternalError", 2)
    storage.put_file("a/large", local, "f")
    faulty.fault = answer(503, "SlowDown", 2)
    storage.get_file("a/large", local, "copy")
    assert local.read("copy") == data
    assert faulty.fault is not None and any("partNumber=2" in line for line in faulty.seen)


def test_a_connection_that_is_cut_in_the_middle(faulty: FaultyS3, tmp_path: Path) -> None:
    storage, local = opened(faulty), DiskFiles(tmp_path)
    data = bytes(range(256)) * 40_000
    write_whole(local, "f", data)
    storage.put_file("a/large", local, "f")
    faulty.cut = 2
    storage.get_file("a/large", local, "copy")
    assert local.read("copy") == data and faulty.cut == 0
    faulty.cut = 1
    assert storage.get("a/large") == data
    faulty.cut = 1 << 30
    with pytest.raises(Away):
        storage.get("a/large")
    faulty.cut = 0
    assert storage.get("a/large") == data


def test_a_server_that_is_away_or_slow(faulty: FaultyS3) -> None:
    storage = opened(faulty)
    storage.put("a/f", b"1")
    faulty.fault = answer(503, "ServiceUnavailable")
    for act in (lambda: storage.put("a/f", b"2"), lambda: storage.get("a/f"), lambda: storage.list("a")):
        with pytest.raises(Away, match=r"cannot answer now \(503"):
            act()
    faulty.fault = silent(0.2, 2)
    assert storage.get("a/f") == b"1"
    faulty.close()
    with pytest.raises(Away, match="does not answer"):
        storage.put("a/f", b"2")


def test_a_request_without_an_answer_ends(s3: S3Server) -> None:
    made = FaultyS3(s3)
    hasty = Patience(connect=1.0, request=0.3, retries=1, first=0.01, most=0.01)
    storage = S3Storage(S3Place.parse(made.place()), environ=ENVIRON, patience=hasty)
    made.fault = silent(3.0, 1 << 30)
    with pytest.raises(Away, match="does not answer"):
        storage.size("a/f")
    made.close()


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", "check AWS_SECRET_ACCESS_KEY"),
        (403, "RequestTimeTooSkewed", "this machine's clock differs"),
        (403, "AccessDenied", "lack a permission"),
        (400, "ExpiredToken", "have expired"),
        (301, "PermanentRedirect", "another region"),
        (404, "NoSuchBucket", "no such bucket"),
        (405, "Whatever", "check bucket, region and endpoint"),
    ],
)
def test_mistakes_are_told_in_a_line_without_secrets(
    faulty: FaultyS3, status: int, code: str, said: str
) -> None:
    """The server repeats the header with the signature, and even the secret; we do not."""
    storage = opened(faulty)
    faulty.fault = answer(status, code, repeat=SECRET)
    for act in (lambda: storage.put("a/f", b"2"), lambda: storage.get("a/f"), storage.probe):
        with pytest.raises(ConfigError, match=said) as error:
            act()
        text = str(error.value)
        assert "\n" not in text and KEY not in text and SECRET not in text and "Signature=" not in text
        assert error.value.__suppress_context__, "what the library said is not shown, should it be traced"
    assert len(faulty.seen) == 3, "nothing of this is asked twice"


def test_the_real_servers_refusals(s3: S3Server) -> None:
    def probe(place: str, **environ: str) -> str:
        with pytest.raises(ConfigError) as error:
            S3Storage(S3Place.parse(place), environ={**ENVIRON, **environ}, patience=SHORT).probe()
        return str(error.value)

    place = s3.place("p")
    assert "there is no such bucket" in probe(place.replace(s3.bucket, "nobody"))
    assert "check AWS_ACCESS_KEY_ID" in probe(place, AWS_ACCESS_KEY_ID="guess")
    assert "check AWS_SECRET_ACCESS_KEY" in probe(place, AWS_SECRET_ACCESS_KEY="guess")
    with pytest.raises(ConfigError, match="no such bucket"):
        S3Storage(S3Place.parse(place.replace(s3.bucket, "nobody")), environ=ENVIRON).put("a/f", b"1")


def test_a_prefix_keeps_to_itself(s3: S3Server) -> None:
    one, other = (S3Storage(S3Place.parse(s3.place(name)), environ=ENVIRON) for name in ("q/one", "q/on"))
    one.put("a/f", b"1")
    assert other.list("a") == [] and not other.exists("e/a/f")
    whole = S3Storage(S3Place.parse(s3.place()), environ=ENVIRON)
    assert whole.get("q/one/a/f") == b"1"
    with pytest.raises(Missing):
        other.get("a/f")


def test_urls() -> None:
    for text in (
        "s3://crawls",
        "s3://crawls/a/b",
        "s3://crawls/a?endpoint=https://s3.example.org:9000",
        "s3://my.crawls/a?endpoint=http://127.0.0.1:1&region=eu-central-1",
    ):
        assert normal(text) == text == str(S3Place.parse(text))
    assert normal("s3://crawls/a/") == "s3://crawls/a"


@pytest.mark.parametrize(
    "text",
    [
        "s3://key:verysecret@crawls/a",
        "s3://crawls/a?endpoint=https://key:verysecret@s3.example.org",
        "s3://crawls/a?secret_access_key=verysecret",
        "s3://crawls/a?endpoint=verysecret",
        "s3://crawls/a?endpoint=http://x:verysecret",
        "s3://crawls/a?verysecret",
        "s3://crawls/../a",
        "s3://crawls/a#verysecret",
        "s3:///a",
        "s3:crawls",
    ],
)
def test_urls_that_are_refused_are_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_storage(text, "c")
    assert "verysecret" not in str(error.value) and "\n" not in str(error.value)


def test_credentials(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = a%b\n"
        "[work]\naws_access_key_id=two\naws_secret_access_key=c\naws_session_token=d\n"
    )
    there = {"AWS_SHARED_CREDENTIALS_FILE": str(path)}
    assert file_credentials(there) == {"access_key_id": "one", "secret_access_key": "a%b"}
    assert file_credentials({**there, "AWS_PROFILE": "work"})["session_token"] == "d"
    assert file_credentials({**there, **ENVIRON}) == {"access_key_id": KEY, "secret_access_key": SECRET}
    assert file_credentials({"HOME": str(tmp_path)}) == {}
    for environ in ({**there, "AWS_PROFILE": "none"}, {"HOME": str(tmp_path), "AWS_PROFILE": "none"}):
        with pytest.raises(ConfigError, match="none"):
            file_credentials(environ)
    path.write_text("aws_secret_access_key = verysecret\n")
    with pytest.raises(ConfigError) as error:
        file_credentials(there)
    assert "verysecret" not in str(error.value)


def test_a_machine_without_credentials(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library asks the cloud's metadata service, which is not there. (Here it would be on loopback.)"""
    for name in ENVIRON:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    storage = S3Storage(S3Place.parse(s3.place("p")), environ={"HOME": str(tmp_path)}, patience=SHORT)
    with pytest.raises(ConfigError, match="there are no credentials for s3://"):
        storage.probe()


def test_the_client_is_imported_only_when_it_is_used(tmp_path: Path) -> None:
    line = (
        "import sys; from lycosa.cluster.storage.opening import open_storage; import lycosa.cluster.storage.s3;"
        f" open_storage({str(tmp_path)!r}, 'c'); assert 'obstore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", line], check=True)


def test_a_missing_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match=r"pip install 'lycosa\[s3\]'"):
        open_storage("s3://crawls/a", "c")
