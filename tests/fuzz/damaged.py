"""Damages files of every kind that Tether reads, and reads them: one line each, no traceback, little time and memory.

    python tests/fuzz/damaged.py --count 10000 --seed 0

Each case is a function of the seed and its number alone, so that `--only 1234` repeats it. Cases run in a few
processes, each with a limit on its memory; one that dies or hangs is a failure of the case it was at.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

for place in (Path(__file__).parent, Path(__file__).parent.parent):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

import mutations  # noqa: E402
import numpy as np  # noqa: E402
from subjects import SUBJECTS, Subject, make_originals  # noqa: E402

from tether.cli import running  # noqa: E402

MOST_SECONDS, MOST_BYTES = 2.0, 1 << 30
_HANG_SECONDS = 60
_CHUNK = 500


@dataclass(frozen=True)
class Outcome:
    """What became of one damaged file."""

    number: int
    subject: str
    mutation: str
    command: str
    code: int
    seconds: float
    megabytes: float
    message: str
    wrong: str
    """Empty where all is well."""


def damage(number: int, seed: int, originals: Path) -> tuple[Subject, str, bytes, tuple[str, ...]]:
    """A subject, the mutation's name, the damaged contents, and the command that reads them."""
    random = np.random.default_rng([seed, number])
    weights = np.array([subject.weight for subject in SUBJECTS])
    subject = SUBJECTS[int(random.choice(len(SUBJECTS), p=weights / weights.sum()))]
    content = (originals / subject.path).read_bytes()
    mutation = mutations.blind
    if subject.mutations and random.random() < 0.75:
        mutation = subject.mutations[int(random.integers(len(subject.mutations)))]  # type: ignore[assignment]
    command = subject.commands[int(random.integers(len(subject.commands)))]
    return subject, mutation.__name__, mutation(random, content), command


def attempt(number: int, seed: int, originals: Path, folder: Path) -> Outcome:
    """Runs one case in `folder`, a copy of the originals, and puts the file back."""
    subject, mutation, content, command = damage(number, seed, originals)
    path = folder / subject.path
    arguments = [argument.format(folder) for argument in command]
    path.write_bytes(content)
    before = {p for p in folder.rglob("*") if p.is_file()}
    start, printed, errors = time.process_time(), io.StringIO(), io.StringIO()
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, wrong = -1, ""
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            code = _call(arguments, folder) if arguments[0] == "library" else running.run(arguments)
    except BaseException as error:
        wrong = f"{type(error).__name__} came out: {error}"
    seconds = time.process_time() - start
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - highest) / 1024
    message = errors.getvalue()
    wrong = wrong or _judge(code, message, seconds, megabytes, path)
    if not wrong and code == 2 and subject.name not in ("checkpoint", "configuration", "command"):
        left = [p for p in folder.rglob("*") if p.is_file() and p not in before]
        wrong = f"left {left[0].name}" if left else ""
    _restore(folder, originals, subject)
    return Outcome(
        number, subject.name, mutation, " ".join(command[:2]), code, seconds, megabytes, message, wrong
    )


def _call(arguments: list[str], folder: Path) -> int:
    """Readers that no quick command reaches, with the same words for what goes wrong."""
    from tether_studies.storing import read_data
    from tether_studies.tasks import Plan, open_folder

    try:
        if arguments[1] == "data":
            read_data(folder / "planned" / "data" / "0.npz")
        else:
            open_folder(Plan("drones", "smoke", (0,), {}), folder / "planned")
    except Exception as error:
        return running._explain(error)
    return 0


def _judge(code: int, message: str, seconds: float, megabytes: float, path: Path) -> str:
    if code not in (0, 1, 2):
        return f"code {code}"
    if "Traceback" in message or "must not fail like this" in message or "memory enough" in message:
        return "not expected by any reader"
    if seconds > MOST_SECONDS or 1024**2 * megabytes > MOST_BYTES:
        return f"{seconds:.1f} s, {megabytes:.0f} MB"
    if code == 2 and not (message.startswith("error: ") and message.count("\n") == 1):
        return "not one line"
    named = path.name in message or path.parent.name in message or path.stem in message
    named = named or (path.suffix == ".py" and "`trusted`" in message)
    if code == 2 and not named:
        return "does not name the file"
    return ""


def _restore(folder: Path, originals: Path, subject: Subject) -> None:
    for name in ("new", "stopped"):
        shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(originals / "stopped", folder / "stopped")
    shutil.copy(originals / subject.path, folder / subject.path)
    for name in ("out.csv", "page.html"):
        (folder / name).unlink(missing_ok=True)


def work(first: int, last: int, seed: int, originals: Path) -> None:
    """Runs cases in this process, a line of JSON for each, with limits on memory and time."""
    import torch

    torch.set_num_threads(1)
    report = sys.stdout
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "files"
        shutil.copytree(originals, folder)
        _warm_up(folder, originals)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES + (1 << 28), resource.RLIM_INFINITY))
        for number in range(first, last):
            signal.alarm(_HANG_SECONDS)
            print(json.dumps({"begun": number}), file=report, flush=True)
            outcome = attempt(number, seed, originals, folder)
            signal.alarm(0)
            print(json.dumps(asdict(outcome)), file=report, flush=True)


def _warm_up(folder: Path, originals: Path) -> None:
    """Undamaged files first, so that compiling is not measured."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for subject in SUBJECTS:
            for command in subject.commands:
                arguments = [argument.format(folder) for argument in command]
                code = _call(arguments, folder) if arguments[0] == "library" else running.run(arguments)
                expected = "bare" in subject.name or "direct" in subject.name or "monotone" in subject.name
                assert code in ((0, 1, 2) if expected else (0, 1)), f"undamaged: {arguments}"
                _restore(folder, originals, subject)


def explore(count: int, seed: int, *, jobs: int = 2, first: int = 0) -> list[Outcome]:
    """All cases, in processes of their own."""
    with tempfile.TemporaryDirectory() as scratch:
        originals = Path(scratch) / "originals"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            make_originals(originals)
        spans = [(k, min(k + _CHUNK, first + count)) for k in range(first, first + count, _CHUNK)]
        outcomes: list[Outcome] = []
        running_now: list[tuple[Any, int, Path]] = []
        while spans or running_now:
            while spans and len(running_now) < jobs:
                running_now.append(_start(*spans.pop(0), seed, originals, Path(scratch)))
            time.sleep(0.2)
            for entry in [e for e in running_now if e[0].poll() is not None]:
                running_now.remove(entry)
                done, rest = _collect(*entry)
                outcomes += done
                spans += rest
        return sorted(outcomes, key=lambda outcome: outcome.number)


def _start(first: int, last: int, seed: int, originals: Path, scratch: Path) -> tuple[Any, int, Path]:
    log = scratch / f"{first}.jsonl"
    command = [
        sys.executable,
        __file__,
        "--work",
        f"{first},{last}",
        "--seed",
        str(seed),
        "--originals",
        originals,
    ]
    with log.open("w") as told, log.with_suffix(".err").open("w") as complaints:
        process = subprocess.Popen(command, stdout=told, stderr=complaints)
    return process, last, log


def _collect(process: Any, last: int, log: Path) -> tuple[list[Outcome], list[tuple[int, int]]]:
    """What a process has told; and, where it died, the cases after the one it died of."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    done = [Outcome(**line) for line in lines if "begun" not in line]
    begun = [line["begun"] for line in lines if "begun" in line]
    if process.returncode == 0:
        return done, []
    complaint = log.with_suffix(".err").read_text()[-2000:]
    if not begun:
        raise RuntimeError(f"cases cannot be run: {complaint}")
    died = Outcome(
        begun[-1], "?", "?", "?", process.returncode, 0, 0, complaint, f"ended by {process.returncode}"
    )
    return [*done, died], [(begun[-1] + 1, last)] if begun[-1] + 1 < last else []


def summary(outcomes: list[Outcome]) -> str:
    """Counts by kind of file, and the worst of time and memory."""
    lines = []
    for name, total in sorted(Counter(outcome.subject for outcome in outcomes).items()):
        own = [outcome for outcome in outcomes if outcome.subject == name]
        refused, wrong = sum(o.code == 2 for o in own), sum(bool(o.wrong) for o in own)
        denied = sum(o.code == 1 for o in own)
        slowest = max(o.seconds for o in own)
        lines.append(
            f"{name:20} {total:6} files: {refused:6} refused, {denied:5} not certified, "
            f"{total - refused - denied:5} accepted, {wrong:4} WRONG; slowest {slowest:.2f} s"
        )
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    most = max(outcome.megabytes for outcome in outcomes)
    slowest = max(outcome.seconds for outcome in outcomes)
    lines.append(
        f"{len(outcomes)} damaged files, {wrong} wrong; slowest {slowest:.2f} s, most memory {most:.0f} MB"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, help="one case, with what it printed")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--originals", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        first, last = map(int, given.work.split(","))
        work(first, last, given.seed, given.originals)
        return
    count, first = (1, given.only) if given.only is not None else (given.count, 0)
    outcomes = explore(count, given.seed, jobs=given.jobs, first=first)
    for outcome in outcomes:
        if outcome.wrong or given.only is not None:
            print(f"{outcome.number}: {outcome.subject}, {outcome.mutation}, {outcome.command}: "
                  f"{outcome.wrong}: {outcome.message.strip()[-400:]}")  # fmt: skip
    print(summary(outcomes))
    sys.exit(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    main()
