"""A network namespace connected to the machine's own by links that can be cut. Linux, root, `ip`.

    with Namespace(links=2) as other:
        other.command([...])        the command line that runs a command in it
        other.outside(0)            our address on link 0; `inside(0)` is the other end's
        other.cut(0)                packets are dropped silently, as by a dead switch; no side gets an error
        other.mend(0)

    link n := veth pair, 10.200+k.n.0/24: .1 is ours, .2 the namespace's; further addresses of ours from .11 on

Nothing else leads in or out: there is no other route. A cut takes our end of the link down. The addresses at our
end stay ours (local processes still reach them), while at the other end connecting times out and sent data are
retransmitted, as in a real partition; an unreachable address would report an error at once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType

from lycosa.errors import LocalError

_NETS = range(200, 250)


def why_not() -> str:
    """Why namespaces are not available here; empty if they are."""
    if not shutil.which("ip"):
        return "there is no `ip` command here (Debian: apt-get install iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Namespace(links=1):
            return ""
    except LocalError as error:
        return f"this system makes no network namespaces: {error}"


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=10)
    if done.returncode:
        raise LocalError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Namespace:
    """A namespace; as a context it removes itself, with its links."""

    def __init__(self, links: int = 1, addresses: int = 0) -> None:
        """`addresses`: how many further addresses of ours each link has, for several servers."""
        self._links = links
        self._addresses = addresses
        self._net = 0
        self.name = f"lycosa-{os.getpid()}"

    def __enter__(self) -> Namespace:
        try:
            _ip("netns", "add", self.name)
            _ip("-n", self.name, "link", "set", "lo", "up")
            taken = _ip("-o", "-4", "addr", "show") + _ip("route", "show", "table", "all")
            nets = [net for net in _NETS if f"10.{net}." not in taken]
            self._net = nets[os.getpid() % len(nets)]  # a process choosing at the same time has another id
            for link in range(self._links):
                self._join(link)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _join(self, link: int) -> None:
        here, there = self._device(link), f"{self._device(link)}i"
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", self.name)
        _ip("addr", "add", f"{self.outside(link)}/24", "dev", here)
        for number in range(self._addresses):
            _ip("addr", "add", f"{self.outside(link, number + 1)}/24", "dev", here)
        _ip("-n", self.name, "addr", "add", f"{self.inside(link)}/24", "dev", there)
        _ip("-n", self.name, "link", "set", there, "up")
        _ip("link", "set", here, "up")

    def _device(self, link: int) -> str:
        return f"ly{os.getpid() % 1_000_000}n{link}"  # 15 characters at most

    def remove(self) -> None:
        """Remove it. Processes in it lose their network."""
        for link in range(self._links):
            subprocess.run(["ip", "link", "del", self._device(link)], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)

    def outside(self, link: int, number: int = 0) -> str:
        """Our address on a link; numbers from 1 on: the further ones."""
        return f"10.{self._net}.{link}.{10 + number if number else 1}"

    def inside(self, link: int) -> str:
        return f"10.{self._net}.{link}.2"

    def command(self, line: Sequence[str]) -> list[str]:
        """The command line to run this one in the namespace. (`ip` executes it, so the process id is its own.)"""
        return ["ip", "netns", "exec", self.name, *line]

    def cut(self, link: int) -> None:
        _ip("link", "set", self._device(link), "down")

    def mend(self, link: int) -> None:
        _ip("link", "set", self._device(link), "up")
