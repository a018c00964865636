"""`lycosa control`: pause, resume or stop a running crawl, give it seeds, change its options, steer sites.

The act is written to the crawl's directory and taken up by the crawling process within a second; the command waits
for its answer. If no process crawls, it waits for the next start. Every act is in the log, with its author.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lycosa.cli.amounts import duration
from lycosa.cli.streams import printable

HELP = "pause, resume, stop or change a running crawl"
EPILOG = """\
acts:
  pause                  no more visits begin; also after a restart
  go-on                  after a pause
  stop                   the run ends cleanly; the same command resumes
  seed URL ...           more seeds
  set KEY=VALUE ...      other options: limits.*, scope.*, follow.*, politeness.*, retry.*, visits, horizon;
                         site.HOST.NAME=VALUE: an option of one site, such as site.example.org.wait=5
  release PATTERN ...    what is quarantined as a trap (lycosa report) is fetched after all
  site HOST hold         no visit of the host begins until it is released
  site HOST block        none of its URLs is fetched until it is released
  site HOST boost        it is visited before all others, whenever it is ready
  site HOST release      none of these
  site HOST budget N     at most N pages of each of its sites; 0: no such limit

examples:
  lycosa control crawls/example pause
  lycosa control crawls/example set limits.pages=50000 politeness.wait=2
  lycosa control crawls/example site www.example.org hold

exit code: 0 done, or kept for the next start; 2 it cannot be done.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    from lycosa.crawl.acts import WHATS

    parser.usage = "lycosa control DIR ACT [WORD ...] [option ...]"
    parser.add_argument("directory", type=Path, metavar="DIR", help="the crawl's directory")
    parser.add_argument("act", choices=WHATS, metavar="ACT", help="see below")
    parser.add_argument("words", nargs="*", default=[], metavar="WORD", help="arguments of the act")
    parser.add_argument("--who", default="", metavar="NAME", help="name for the log (default: user@machine)")
    parser.add_argument(
        "--wait",
        type=duration,
        default=30.0,
        metavar="TIME",
        help="how long to wait for the crawl's answer (30s)",
    )


def run(args: argparse.Namespace) -> int:
    from lycosa.crawl.steering import Steering

    said = Steering(args.directory, who=args.who, patience=args.wait).act(args.act, *args.words)
    print(printable(f"{' '.join((args.act, *args.words[:3]))}: {said}"))
    return 0
