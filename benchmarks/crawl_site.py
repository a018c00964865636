"""The site that the crawl benchmarks crawl: Debian's documentation packages, served by nginx on loopback.

    with site(Path(".bench"), core=1) as found:
        found.seeds("http")         one index page per host

The packages are downloaded (`apt-get download`) and unpacked (`dpkg-deb -x`) into the cache directory, once.
Every address 127.0.0.1 ... 127.0.0.N is a host; each serves the same tree, the packages as they are, with a
robots.txt and an index page of its own that links the roots of one or several packages (`LAYOUT`). So a
package that several hosts link to is fetched from each: URLs are distinct, bodies repeat, which costs every
contestant the same. Listening, each on a port of its own:

    http        HTTP/1.1, connections kept
    tls         the same over TLS
    h2          HTTP/2 over TLS
    closing     HTTP/1.1 over TLS, every connection closed after one answer, no TLS session resumed

nginx gets one worker, pinned to one core, and a configuration, certificate and pid file in a temporary
directory; it runs in the foreground as our child, so that it ends with us. The system's nginx is not
touched.

Without nginx or the packages the embedded web (`lycosa.lab.webs`) serves instead, over plain HTTP only:
numbers from it compare contestants with each other, but pages and server are not those of the published
ones.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple


class Package(NamedTuple):
    """A Debian package of HTML."""

    debian: str
    inside: str  # the part that is served
    name: str  # under which name
    root: str  # the page that indexes link to


PACKAGES = (
    Package("openjdk-17-doc", "usr/share/doc/openjdk-17-jre-headless/api", "java", "index.html"),
    Package("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html", "postgresql", "index.html"),
    Package("apache2-doc", "usr/share/doc/apache2-doc/manual", "apache", "index.html"),
    Package("qtbase5-doc-html", "usr/share/qt5/doc", "qt", "qtcore/qtcore-index.html"),
    Package("python3.11-doc", "usr/share/doc/python3.11/html", "python", "index.html"),
    Package("rust-doc", "usr/share/doc/rust-doc/html", "rust", "index.html"),
    Package("debian-reference-en", "usr/share/debian-reference", "debian", "index.en.html"),
)
LAYOUT = (
    # How many hosts link which packages from their index. The mean page should have some 20 KB: pages of the
    # first three packages do (28 at most), the first pages of Qt, Python and Rust do not
    # (38, 107 and 102), and so share one host.
    (7, ("java",)),
    (6, ("postgresql",)),
    (2, ("apache",)),
    (1, ("qt", "python", "rust", "debian")),
)
HOSTS = sum(count for count, _ in LAYOUT)
FIRST_PORT = 8400
WAYS = ("http", "tls", "h2", "closing")

_CONFIGURATION = """\
daemon off;
{user}
worker_processes 1;
pid {place}/nginx.pid;
error_log {place}/error.log warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  keepalive_requests 100000000;
  keepalive_timeout 600;
  open_file_cache max=50000 inactive=600s;
  default_type application/octet-stream;
  types {{
    text/html html htm; text/css css; text/plain txt; text/javascript js; image/svg+xml svg; image/png png;
    font/woff2 woff2; application/xml xml;
  }}
  charset utf-8;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  ssl_certificate {place}/site.pem;
  ssl_certificate_key {place}/site.key;
  ssl_protocols TLSv1.2 TLSv1.3;
{servers}}}
"""


class Site(NamedTuple):
    """A site that is being served."""

    server: str  # "nginx 1.22.1", or its replacement and why
    hosts: tuple[str, ...]
    ports: dict[str, int]  # by way of serving; missing ones are not served
    ca_file: str
    root: Path | None  # of what nginx serves
    packages: tuple[str, ...]

    def seeds(self, way: str) -> list[str]:
        """The index page of every host."""
        scheme = "http" if way == "http" else "https"
        return [f"{scheme}://{host}:{self.ports[way]}/" for host in self.hosts]


class SiteError(Exception):
    """The reason why nginx cannot serve; one line."""


@contextmanager
def site(cache: Path, core: int | None, demand: bool = False, saved: Path | None = None) -> Iterator[Site]:
    """Serve while the block runs. If `demand`, a failure of nginx is raised.

    `saved`: a directory of saved pages (.html, .html.gz), which are served instead of the packages.
    """
    with ExitStack() as stack:
        try:
            packages = {} if saved is not None else unpack(cache)
            served = stack.enter_context(_nginx(cache, packages, core, saved))
        except SiteError as missing:
            if demand or saved is not None:
                raise
            served = stack.enter_context(_embedded(str(missing), core))
        yield served


def unpack(cache: Path) -> dict[Package, Path]:
    """The packages' documents in the cache, downloaded if need be."""
    found: dict[Package, Path] = {}
    troubles: list[str] = []
    for package in PACKAGES:
        place = cache / f"docs-{package.debian}"
        trouble = "" if (place / package.inside).is_dir() else _download(package.debian, cache, place)
        if (place / package.inside).is_dir():
            found[package] = place / package.inside
        else:
            troubles.append(f"{package.debian}: {trouble or 'its documents are elsewhere'}")
    if len(found) < 3:
        raise SiteError("too few documentation packages could be had (" + "; ".join(troubles) + ")")
    for trouble in troubles:
        print(f"left out: {trouble}")
    return found


def _download(package: str, cache: Path, place: Path) -> str:
    """Fetch and unpack one package; returns an error message, or nothing."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "this is no Debian: apt-get and dpkg-deb are missing"
    debs = cache / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    if not list(debs.glob(f"{package}_*.deb")):
        print(f"downloading {package} ...", flush=True)
        done = subprocess.run(
            ["apt-get", "-q", "download", package], cwd=debs, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["apt-get failed"])[-1]
    deb = sorted(debs.glob(f"{package}_*.deb"))[-1]
    draft = place.with_suffix(".part")
    shutil.rmtree(draft, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-x", str(deb), str(draft)], check=True)
    shutil.rmtree(place, ignore_errors=True)
    draft.rename(place)
    return ""


def pin(core: int | None, pid: int = 0) -> None:
    """Keep a process on one core, where the system can."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, {core})


def free_ports(count: int, hosts: tuple[str, ...], first: int = FIRST_PORT) -> list[int]:
    """`count` ports in a row that are free on every host."""
    base = first
    while base < first + 1000:
        for port in range(base, base + count):
            if not all(_is_free(host, port) for host in hosts):
                base = port + 1
                break
        else:
            return list(range(base, base + count))
    raise SiteError(f"no free ports from {first} on")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


@contextmanager
def _nginx(
    cache: Path, packages: dict[Package, Path], core: int | None, saved: Path | None = None
) -> Iterator[Site]:
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if binary is None:
        raise SiteError("nginx is not installed")
    hosts = tuple(f"127.0.0.{n}" for n in range(1, HOSTS + 1))
    if not _is_free(hosts[-1], 0):
        raise SiteError(f"{hosts[-1]} is not an address of this machine")
    ports = dict(zip(WAYS, free_ports(len(WAYS), hosts), strict=True))
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        root = place / "root"
        if saved is None:
            _lay_out(root, hosts, packages)
            about = _versions(cache)
        else:
            about = (_lay_out_saved(root, hosts, saved),)
        _certify(place, hosts)
        servers = "".join(_server(way, port, hosts, root) for way, port in ports.items())
        user = "user root;" if os.geteuid() == 0 else ""
        text = _CONFIGURATION.format(place=place, servers=servers, user=user)
        (place / "nginx.conf").write_text(text, encoding="ascii")
        command = [binary, "-p", str(place), "-e", str(place / "error.log"), "-c", str(place / "nginx.conf")]
        process = subprocess.Popen(command, preexec_fn=lambda: pin(core))
        try:
            _wait_for(process, hosts[0], ports["http"], place)
            said = subprocess.run([binary, "-v"], capture_output=True, text=True, check=False).stderr
            version = said.rpartition("/")[2].strip()
            yield Site(f"nginx {version}", hosts, ports, str(place / "ca.pem"), root, about)
        finally:
            process.terminate()
            process.wait(10)


def _versions(cache: Path) -> tuple[str, ...]:
    found = []
    for package in PACKAGES:
        debs = sorted((cache / "debs").glob(f"{package.debian}_*.deb"))
        found.append(debs[-1].name.rpartition("_")[0].replace("_", " ") if debs else package.debian)
    return tuple(found)


def _lay_out(root: Path, hosts: tuple[str, ...], packages: dict[Package, Path]) -> None:
    root.mkdir()
    for package, directory in packages.items():
        (root / package.name).symlink_to(directory.resolve())
    rows = [names for count, names in LAYOUT for _ in range(count)]
    for host, names in zip(hosts, rows, strict=True):
        here = [package for package in packages if package.name in names] or list(packages)
        links = "".join(f'<p><a href="/{package.name}/{package.root}">{package.name}</a>' for package in here)
        index = f"<!doctype html><title>{host}</title><h1>Documentation</h1>{links}\n"
        (root / f"index.{host}.html").write_text(index, encoding="ascii")
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /private/\nAllow: /\n", encoding="ascii")


def _lay_out_saved(root: Path, hosts: tuple[str, ...], saved: Path) -> str:
    """Give each host a share of the pages; returns a one-line description.

    A base element sends the relative links of a page elsewhere, so that every contestant fetches just these pages.
    """
    root.mkdir()
    (root / "saved").mkdir()
    sizes = []
    links: dict[str, list[str]] = {host: [] for host in hosts}
    for number, path in enumerate(sorted(saved.rglob("*.html*"))):
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        found = re.search(rb"<head(?:\s[^>]*)?>", data, re.I)
        at = found.end() if found else 0
        data = data[:at] + b'<base href="http://saved.invalid/">' + data[at:]
        (root / "saved" / f"{number}.html").write_bytes(data)
        sizes.append(len(data))
        links[hosts[number % len(hosts)]].append(f'<p><a href="/saved/{number}.html">{number}</a>')
    if not sizes:
        raise SiteError(f"{saved} holds no .html and no .html.gz")
    for host, mine in links.items():
        index = f"<!doctype html><title>{host}</title>{''.join(mine)}\n"
        (root / f"index.{host}.html").write_text(index, encoding="ascii")
    (root / "robots.txt").write_text("User-agent: *\nAllow: /\n", encoding="ascii")
    return f"{len(sizes):,} saved pages, {sum(sizes) / len(sizes) / 1000:,.0f} KB in the mean"


def _certify(place: Path, hosts: tuple[str, ...]) -> None:
    import trustme

    authority = trustme.CA()
    certificate = authority.issue_cert(*hosts)
    authority.cert_pem.write_to_path(str(place / "ca.pem"))
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    (place / "site.pem").write_bytes(chain)
    certificate.private_key_pem.write_to_path(str(place / "site.key"))


def _server(way: str, port: int, hosts: tuple[str, ...], root: Path) -> str:
    flags = {"http": "", "tls": " ssl", "h2": " ssl http2", "closing": " ssl"}[way]
    lines = [f"    listen {host}:{port}{flags} backlog=1024;" for host in hosts]
    if way == "closing":
        lines += ["    keepalive_timeout 0;", "    ssl_session_cache off;", "    ssl_session_tickets off;"]
    elif way != "http":
        lines += ["    ssl_session_cache shared:bench:4m;"]
    lines += [
        f"    root {root};",
        "    location = / { index index.$server_addr.html; }",
        "    index index.html;",
    ]
    return "  server {\n" + "\n".join(lines) + "\n  }\n"


def _wait_for(process: subprocess.Popen[bytes], host: str, port: int, place: Path) -> None:
    for _ in range(200):
        if process.poll() is not None:
            log = place / "error.log"
            said = log.read_text("utf-8", "replace").strip() if log.exists() else ""
            raise SiteError(f"nginx does not start: {said.splitlines()[-1] if said else process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex((host, port)) == 0:
                return
        time.sleep(0.05)
    raise SiteError(f"nginx does not answer at {host}:{port}")


@contextmanager
def _embedded(why: str, core: int | None) -> Iterator[Site]:
    from lycosa.lab.webs.options import WebOptions, for_this_machine
    from lycosa.lab.webs.serving import serving

    # Hosts are addresses, because Scrapy cannot be told how names resolve; only Linux has more than one.
    options = for_this_machine(
        WebOptions(
            hosts=HOSTS if platform.system() == "Linux" else 1,
            pages=20_000,
            page_bytes=20_000,
            links=60,
            kinds=(),
            flat=True,
        )
    )
    with serving(options) as served:
        pin(core, served.pid)
        web = served.web
        hosts = tuple(host.name for host in web.hosts)
        yield Site(f"the embedded web ({why})", hosts, {"http": web.options.port}, "", None, ())
