"""What is under test, and how every fuzzer counts, times and reports."""

from __future__ import annotations

import argparse
import linecache
import re
import resource
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from tether.programs import EnclosureError, trace
from tether.programs import enclose as enclose_checked
from tether.trusted.reading.tripwire import Tripwire

__all__ = ["EnclosureError", "Tally", "enclose", "enclose_checked", "main", "reason_of", "run_text"]


def enclose(function: Callable[..., Any], lower: np.ndarray, upper: np.ndarray, *, states: int) -> Any:
    """M's enclosure from its program alone.

    Not `enclose_checked`, the public one, which first compares the program with M at points of the boxes: what that
    finds is wrong already, and a narrow feature would pass it. And without the wire on which code that was not read
    would be caught: it makes nothing right, and takes more than half of the time.
    """
    start, stop = Tripwire.start, Tripwire.stop
    Tripwire.start = Tripwire.stop = lambda _: None
    try:
        program = trace(function, states=states, controls=lower.shape[1] - states)
    finally:
        Tripwire.start, Tripwire.stop = start, stop
    return enclose_checked(program, lower, upper, states=states)


def run_text(text: str) -> dict[str, Any]:
    """The names that a piece of source makes, with its functions such that their source can be read."""
    name = f"<program {zlib.crc32(text.encode())}>"
    if len(linecache.cache) > 1000:  # of a hundred thousand programs
        linecache.clearcache()
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    return space


def reason_of(error: BaseException) -> str:
    """An error's message with numbers and places left out, so that alike ones count together."""
    text = str(error).split("\n")[0]
    text = re.sub(r"\(?\bat row.*", "", text)
    text = re.sub(r"\S*[/\\]?\S+\.py:\d+|<[\w ]+>:\d+|line \d+", "LINE", text)
    text = re.sub(r"[-+]?\b\d+(\.\d+)?(e[-+]?\d+)?\b", "#", text)
    text = re.sub(r"\[#?[^\]]*\]", "[..]", text)
    return f"{type(error).__name__}: {text[:150]}"


@dataclass
class Tally:
    """What a run of a fuzzer has seen."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)

    def skips(self, source: str) -> bool:
        """Whether the source holds something that is known to be wrong, so that a run can go on past it."""
        skipped = any(text in source for text in self.without)
        self.counts["left out"] += skipped
        return skipped

    @property
    def wrong(self) -> int:
        return self.counts["wrong"]

    def refuse(self, error: BaseException, example: str = "") -> None:
        reason = reason_of(error)
        self.refusals[reason] += 1
        self.examples.setdefault(reason, example)

    def fail(self, text: str) -> None:
        self.counts["wrong"] += 1
        self.failures.append(text)
        print(f"\n=== wrong {self.counts['wrong']}\n{text}", flush=True)

    def summary(self) -> str:
        counts = {key: count for key, count in self.counts.items() if key != "wrong"}
        listed = ", ".join(f"{key} {count:,}" for key, count in counts.items())
        return f"{self.name}: {listed}, refusals {self.refusals.total():,}, wrong {self.wrong:,}"


def compile_kernels() -> None:
    """Once, so that no program's time is spent on it."""
    corner = np.zeros((1, 1))
    enclose(lambda s, u: np.sin(s) * s, corner, corner, states=1)


class Slow(BaseException):
    """One program took longer than any may."""


def _stop(*_: Any) -> None:
    raise Slow


def bounded(run: Callable[[Tally, int], Any], tally: Tally, seed: int, seconds: int) -> None:
    """One run; one that hangs counts as wrong, and cannot take the machine's memory with it."""
    # Of the processor's time: on a busy machine a clock says nothing of the program.
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        run(tally, seed)
    except (Slow, MemoryError):
        tally.fail(f"# seed {seed}: no end in {seconds} s, or in 6 GB")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def main(
    name: str,
    run: Callable[[Tally, int], Any],
    *,
    count: int,
    arguments: list[str] | None = None,
    seconds: int = 20,
) -> Tally:
    """Runs `run(tally, seed)` for seeds `seed`, `seed` + 1, ... until `count` or `minutes` are used up."""
    parser = argparse.ArgumentParser(description=f"fuzz {name}")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first; the next has the next")
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--failures", type=int, default=20, help="stop after so many")
    parser.add_argument("--without", nargs="*", default=[], help="leave out programs that hold such a text")
    parser.add_argument("--examples", action="store_true", help="print one program per reason of refusal")
    options = parser.parse_args(arguments)
    if arguments is None:  # as a script, not within a test
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    compile_kernels()
    tally, begun, last = Tally(name, without=options.without), time.monotonic(), options.seed
    for last in range(options.seed, options.seed + options.count):
        bounded(run, tally, last, seconds)
        spent = time.monotonic() - begun
        if (options.minutes and spent > 60 * options.minutes) or tally.wrong >= options.failures:
            break
    _report(tally, options, last, time.monotonic() - begun)
    return tally


def _report(tally: Tally, options: SimpleNamespace | argparse.Namespace, last: int, seconds: float) -> None:
    for reason, count in tally.refusals.most_common():
        print(f"  refused {count:6,}  {reason}")
        if options.examples:
            print("\n".join(f"      | {line}" for line in tally.examples[reason].splitlines()))
    print(f"{tally.summary()} (seeds {options.seed} to {last}, {seconds:.0f} s)", flush=True)
