"""`lycosa lab simulate`: a cluster in trouble, in one process on a virtual clock, from one seed; and a verdict.

    lycosa lab simulate --seed N [--agents A] [--shards S] [--pages P]      one run: events and faults
    lycosa lab simulate --seed N --trace URL                                the history of a URL in it
    lycosa lab simulate --seeds FROM-TO                                     many runs, summed up

The exit code is 0 if everything was right and 1 if not; faults are shown with the command that repeats them. Ctrl-C
ends many runs after the present one, with the sum of those that were made, and code 130.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lycosa.cli import amounts
from lycosa.cli.amounts import counted
from lycosa.errors import ConfigError

if TYPE_CHECKING:
    from lycosa.lab.simulate import Numbers, Simulated

_DAY = 86_400


def add_options(parser: argparse.ArgumentParser) -> None:
    given = parser.add_argument_group("simulate")
    given.add_argument("--seeds", metavar="FROM-TO", default="", help="run all of these seeds, and summarize")
    given.add_argument(
        "--agents", type=int, default=0, metavar="N", help="number of agents (chosen by the seed)"
    )
    given.add_argument(
        "--shards", type=int, default=0, metavar="N", help="number of shards (chosen by the seed)"
    )
    given.add_argument(
        "--pages",
        type=amounts.size,
        default=None,
        metavar="N",
        help="approximate number of pages (chosen by the seed); predict: limit; plan: all pages",
    )
    given.add_argument("--trace", metavar="URL", default="", help="show what happened to a URL")


def run(args: argparse.Namespace, tell: Callable[[str], None], done: Callable[[], None]) -> int:
    from lycosa.lab.simulate import Numbers

    for name in ("seed", "agents", "shards", "pages"):
        if getattr(args, name) < 0:
            raise ConfigError(f"--{name} must be at least 0")
    numbers = Numbers(args.agents, args.shards, args.pages)
    if args.seeds:
        if args.trace:
            raise ConfigError("--trace tells of one run: give it with --seed, not with --seeds")
        if args.seed:
            raise ConfigError("give --seed or --seeds, not both")
        return _many(args, numbers, *_range(args.seeds), tell, done)
    return _one(args, numbers)


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        one = f" (or --seed {first} for one run)" if first.isdecimal() and not dash else ""
        raise ConfigError(f"--seeds {text!r}: write it like 1-100{one}")
    if int(first) > int(last):
        raise ConfigError(f"--seeds {text!r}: the first is greater than the last; write it like 1-100")
    return int(first), int(last)


def _one(args: argparse.Namespace, numbers: Numbers) -> int:
    from lycosa.lab.simulate import simulate
    from lycosa.lab.simulate_trace import traced

    more: dict[str, object] = {}
    if args.trace:
        simulated, lines = traced(args.seed, numbers, args.trace)
        if all(text.startswith(" ") for _, text in lines):
            met = sorted({row.url for row in simulated.ran.asked if not row.url.endswith("/robots.txt")})
            raise ConfigError(
                f"nothing happened to {args.trace} in this run; it asked for {', '.join(met[:5])}"
                + (f" and {len(met) - 5:,} more" if len(met) > 5 else "")
            )
        more["trace"] = [[round(at, 3), text.strip()] for at, text in lines]
        if not args.json:
            print(f"seed {args.seed}: {args.trace}")
            for at, text in lines:
                print(f"{at:10.3f} s  {text}")
    else:
        simulated = simulate(args.seed, numbers)
        if not args.json:
            for at, text in simulated.happened:
                print(f"{at:10.3f} s  {text}")
    if args.json:
        print(json.dumps({**_row(simulated), **more}))
    else:
        print(
            f"seed {simulated.seed} ({simulated.profile}): {counted(simulated.agents, 'agent')}, "
            f"{counted(simulated.shards, 'shard')}, "
            f"{counted(simulated.pages, 'page')}, {counted(simulated.requests, 'request')}, "
            f"{simulated.seconds:.0f} s of virtual time: {'right' if simulated.right else 'WRONG'}"
        )
        _complain(simulated)
    return 0 if simulated.right else 1


def _complain(simulated: Simulated) -> None:
    for fault in simulated.faults:
        print(f"  {fault}")
    if simulated.faults:
        print(f"  again: {simulated.numbers.command(simulated.seed)}", flush=True)


def _row(simulated: Simulated) -> dict[str, object]:
    return {
        "seed": simulated.seed,
        "profile": simulated.profile,
        "right": simulated.right,
        "faults": simulated.faults,
        "agents": simulated.agents,
        "shards": simulated.shards,
        "pages": simulated.pages,
        "requests": simulated.requests,
        "lost": simulated.lost,
        "seconds": round(simulated.seconds, 3),
        "troubles": dict(simulated.counts),
        "digest": simulated.digest,
    }


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The interrupts noted so far: the first is only noted, so that no simulated cluster is broken off by it."""
    noted: list[int] = []

    def note(number: int, frame: object) -> None:
        noted.append(number)
        signal.signal(number, signal.default_int_handler)

    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _many(
    args: argparse.Namespace,
    numbers: Numbers,
    first: int,
    last: int,
    tell: Callable[[str], None],
    done: Callable[[], None],
) -> int:
    with _interrupts() as noted:
        wrong = _series(args, numbers, range(first, last + 1), noted, tell, done)
    return 130 if noted else int(wrong)


def _series(
    args: argparse.Namespace,
    numbers: Numbers,
    seeds: range,
    noted: list[int],
    tell: Callable[[str], None],
    done: Callable[[], None],
) -> bool:
    """Run seeds until an interrupt is noted; whether any was wrong."""
    from lycosa.lab.simulate import simulate

    troubles: Counter[str] = Counter()
    wrong: list[int] = []
    pages = 0
    virtual = 0.0
    simulate(seeds[0], numbers)  # compilation and cached files are not part of a run
    began = time.process_time()
    runs = 0
    for seed in seeds:
        if noted:
            break
        tell(f"seed {seed}, {len(wrong)} wrong")
        simulated = simulate(seed, numbers)
        runs += 1
        troubles += simulated.counts
        pages += simulated.pages
        virtual += simulated.seconds
        if args.json:
            print(json.dumps(_row(simulated)), flush=True)
        elif not simulated.right:
            done()
            print(f"seed {seed}: WRONG")
            _complain(simulated)
        if not simulated.right:
            wrong.append(seed)
        if seed % 20 == 0:  # killed agents never unfreeze what they froze
            gc.unfreeze()
            gc.collect()
    cpu = time.process_time() - began
    done()
    if not args.json and runs:
        made = counted(runs, "seed") + (f" of {len(seeds):,}" if noted else "")
        print(
            f"{made}, {len(wrong)} wrong; {counted(pages, 'page')}, {virtual / 3600:.2f} h of "
            f"virtual time in {cpu:.1f} s of CPU: {runs / cpu:.2f} per second, "
            f"a day in {cpu / virtual * _DAY:.0f} s"
        )
        print("happened: " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(troubles.items())))
    return bool(wrong)
