"""Malformed invocations and data files: each must end with code 2 and one line, and leave nothing behind.

    python tests/fuzz/invocations.py --count 300 --seed 0

First every bad value of every option in turn, then random pairs of them and damaged tables.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

for place in (Path(__file__).parent, Path(__file__).parent.parent):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

import mutations  # noqa: E402
import numpy as np  # noqa: E402
from subjects import make_originals  # noqa: E402

from tether.cli import running  # noqa: E402

WHOLE = ("0", "-1", "1.5", "many", "", "nan", "1e12", "99999999999999999999999")
FIT_OPTIONS: dict[str, tuple[str, ...]] = {
    "--memories": (*WHOLE, "1000001"),
    "--steps": (*WHOLE, "1000000001"),
    "--probe-count": (*WHOLE, "1000000000000"),
    "--epsilon": ("0", "1", "-1", "nan", "inf", "1e-12", "1e-9", "1e-300", "5e-324", "half"),
    "--beta": ("0", "1", "nan", "-inf", "2"),
    "--hidden": ("200000,200000", "0", "-1", "8,wide", "1e3", "99999999999", "9" * 400, ",".join(["1"] * 2000)),
    "--gamma": ("1", "-0.1", "nan", "inf", "x"),
    "--learning-rate": ("0", "-1", "nan", "inf", "fast"),
    "--patience": ("0", "-1", "x", "99999999999"),
    "--seed": ("-1", "x", "1.5", "99999999999999999999999"),
    "--jobs": ("0", "x", "1000000000", "-99999"),
    "--device": ("meta", "abacus", "cuda:99", "cpu:x", "[red]"),
    "--domain": ("x", "x=far", "w=0:1", "x=0:0.001", "x=1:0", "x=nan:nan", "x=1:2:3", "x=0:1,x=0:1"),
    "--probes": ("somewhere", "v=slow", "v=1:2:3", "v=2:1", "w=0", "jitter=-1", "jitter=nan", "jitter=inf",
                 "absent.csv", "v=nan", "v=inf", "v=-inf:inf", "v=1e400"),
    "--states": ("x,w", "", "x,x", ",", "[red]", "episode,x"),
    "--controls": ("w", "x", "u,u"),
    "--next-states": ("w", "x,x", "x,v,u"),
    "--episode": ("lap", "[/b]", "x"),
    "--time": ("clock", "[/b]", "x"),
    "--step": ("0.1", "0", "nan", "often"),
    "--tolerance": ("0", "1", "-1", "nan", "x"),
    "--block": ("0", "1", "-5", "2.5", "ten", "10s", "s", "1e400s", "9" * 30),
    "--history": ("x", "x=", "x=0", "x=many", "w=1", "x=1001", "x=1,x=2", "x=50", "=1"),
    "--angle": ("yaw", "x,yaw", ","),
    "--unit": ("x", "x=", "=m", "w=m", "x=m,x=m"),
    "--bounds": ("loose", ""),
    "--evidence": ("hearsay", "lipschitz", ""),
    "--operator": ("squash", "project"),
    "--loss": ("none",),
    "--target": ("sideways",),
    "--delta": ("much", "x=much", "x=0.1,x=0.2"),
    "--decreasing": ("u", "w", "x,v,u"),
    "--data": ("absent.csv", "{}", "{}/physics.py", "{}/run", "/dev/null", "/proc/self/mem", "-"),
    "--trusted": ("f", "no_such_module:f", "absent.py:f", "{}/physics.py:absent", "{}/physics.py:", ":f", "os:path",
                  "{}/bad.py:complex_", "{}/bad.py:none", "{}/bad.py:text", "{}/bad.py:ragged", "{}/bad.py:objects",
                  "{}/bad.py:raises", "{}/bad.py:recurses", "{}/bad.py:exits", "{}/bad.py:narrow", "{}/bad.py:nans",
                  "{}/bad.py:number", "{}/bad.py:generator", "{}/bad.py:words", "{}/bad.py:needs_three",
                  "{}/broken.py:f", "{}/cart.csv:f", "sys:exit", "{}/bad.py:interrupts_nothing"),
    "--out": ("{}/cart.csv", "{}/run", "{}", "/proc/nowhere", "{}/cart.csv/inside", "/dev/null"),
}  # fmt: skip
AFFINE = ("--bounds", "affine")
EXTRA: tuple[tuple[str, ...], ...] = (
    ("--history", "x=1", "--history", "x=2"), ("--time", "u", "--step", "0.1"), ("--data", "{}/cart.csv"),
    ("--data", "{}/*.nothing"), ("--data", ""), ("--time", "episode", "--next-states", "x,v"),
    ("--independent-rows",), ("--no-such-option",), ("--memories",), ("stray",), ("--resume", "--resume", "x"),
    (*AFFINE, "--delta", "-1"), (*AFFINE, "--delta", "0"), (*AFFINE, "--delta", "nan"), (*AFFINE, "--delta", "w=1"),
    (*AFFINE, "--delta", "x="), (*AFFINE, "--decreasing", "u"), (*AFFINE, "--decreasing", "x,v,u"),
    (*AFFINE, "--decreasing", "w", "--trusted", "{}/physics.py:affine"),
    (*AFFINE, "--evidence", "proved", "--trusted", "{}/bad.py:unprovable"),
    ("--evidence", "proved", "--trusted", "{}/bad.py:unprovable"),
    ("--bounds", "interval", "--delta", "0.1"), ("--bounds", "interval", "--memories", "100000"),
)  # fmt: skip
BAD_MODELS = """
import numpy as np
def complex_(s, u): return s + 1j
def none(s, u): return None
def text(s, u): return [["1.0", "2.0"]] * len(s)
def words(s, u): return "nothing"
def ragged(s, u): return [[1.0, 2.0]] * (len(s) - 1) + [[1.0]]
def objects(s, u): return np.array([[{}, []]] * len(s), dtype=object)
def raises(s, u): raise RuntimeError("out of [red]fuel[/red]\\n")
def recurses(s, u): return recurses(s, u)
def exits(s, u): raise SystemExit(0)
def narrow(s, u): return s[:, :1]
def nans(s, u): return s * np.nan
def generator(s, u): yield s
def needs_three(s, u, w): return s
def unprovable(s, u): return np.array([[float(x), float(v)] for x, v in np.sort(s, axis=1)])
number = 3
"""
COLUMNS = ("--states", "x,v", "--controls", "u", "--episode", "episode")
TINY = ("--memories", "5", "--steps", "5", "--hidden", "4")
FIT = (
    "fit",
    "--data",
    "{}/cart.csv",
    *COLUMNS,
    "--trusted",
    "{}/physics.py:frictionless",
    "--out",
    "{}/new",
    *TINY,
)
SPEC = ("--trusted", "{}/physics.py:frictionless")
OTHERS: tuple[tuple[str, ...], ...] = (
    ("bogus",), ("--bogus",), ("fit",), ("info",), ("info", "{}/absent"), ("info", "{}"), ("info", "{}/cart.csv"),
    ("info", "{}/stopped"), ("info", "{}/run/results.json"), ("info", "/dev/zero"), ("info", "{}/run", "stray"),
    ("predict", "{}/run", "--data", "{}/cart.csv", "--out", "{}/out.txt"),
    ("predict", "{}/run", "--data", "{}/absent.csv", "--out", "{}/out.csv"),
    ("predict", "{}/run", "--data", "{}/cart.csv", "--out", "{}/cart.csv"),
    ("predict", "{}/run", "--data", "{}/cart.csv", "--out", "{}/nowhere/out.csv"),
    ("predict", "{}/run", "--data", "{}/cart.csv", "--out", "{}/out.csv", "--outside", "shrug"),
    ("predict", "{}/direct.safetensors", "--data", "{}/cart.csv", "--out", "{}/out.csv"),
    ("predict", "{}/direct.safetensors", "--data", "{}/cart.csv", "--out", "{}/out.csv", "--trusted", "{}/bad.py:complex_"),
    ("certify", "{}/run"), ("certify", "{}/absent", *SPEC), ("certify", "{}/bare.safetensors", *SPEC),
    ("certify", "{}/cart.csv", *SPEC), ("certify", "{}/run", *SPEC, "--out", "{}/cart.csv"),
    ("certify", "{}/run", *SPEC, "--out", "{}/page.html"), ("certify", "{}/run", "--trusted", "{}/bad.py:none"),
    ("certify", "{}/run", "--trusted", "{}/bad.py:complex_"), ("verify", "{}/absent", *SPEC),
    ("verify", "{}/run", *SPEC, "--certificate", "{}/absent.json"), ("verify", "{}/cart.csv", *SPEC),
    ("attack", "{}/run", *SPEC, "--evaluations", "0"),
    ("attack", "{}/run", *SPEC, "--evaluations", "-1"), ("attack", "{}/run", *SPEC, "--evaluations", "1000000000000"),
    ("attack", "{}/run", *SPEC, "--seed", "-1"), ("attack", "{}/run", *SPEC, "--jobs", "0"),
    ("attack", "{}/run", *SPEC, "--jobs", "1000000"), ("attack", "{}/run", *SPEC, "--evaluations", "nan"),
    ("report",), ("report", "{}/absent"), ("report", "{}/cart.csv"), ("report", "{}/stopped"),
    ("report", "{}/run", "--out", "{}/page.txt"), ("report", "{}/run", "--out", "{}/cart.csv/page.html"),
    ("report", "{}/run", "--out", "/proc/page.html"), ("study", "bogus", "--out", "{}/new"), ("study", "drones"),
    ("study", "drones", "--out", "{}/new", "--seeds", "0,0"), ("study", "drones", "--out", "{}/new", "--seeds", "-1"),
    ("study", "drones", "--out", "{}/new", "--seeds", "x"), ("study", "drones", "--out", "{}/new", "--jobs", "0"),
    ("study", "drones", "--out", "{}/new", "--seeds", "9" * 30), ("study", "drones", "--out", "{}/run"),
    ("study", "drones", "--out", "{}/new", "--jobs", "100000"), ("study", "drones", "--out", "{}/new", "--patient", "x"),
    ("study", "drones", "--out", "{}/new", "--scale", "huge"), ("study", "pancreas", "--out", "{}/new", "--patient", "x"),
    ("study", "pancreas", "--out", "{}/new", "--traces", "{}/absent"),
    ("reproduce",), ("reproduce", "--out", "{}/new", "--seeds", "1,1"), ("demo", "--out", "{}/run"),
    ("demo", "--out", "{}/new", "--steps", "0"), ("demo", "--out", "{}/new", "--seed", "-1"),
    ("collect", "carla"), ("collect", "carla", "--out", "{}/new", "--minutes", "nan"),
    ("collect", "carla", "--out", "{}/new", "--minutes", "inf"), ("collect", "carla", "--out", "{}/new", "--minutes", "0"),
    ("collect", "carla", "--out", "{}/new", "--port", "0"), ("collect", "carla", "--out", "{}/new", "--port", "70000"),
    ("collect", "carla", "--out", "{}/run"), ("collect", "bogus"),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What one invocation came to; `wrong` is empty where all is well."""

    arguments: tuple[str, ...]
    code: int
    message: str
    seconds: float
    wrong: str


def systematic() -> Iterator[tuple[str, ...]]:
    """Every bad value by itself."""
    yield from OTHERS
    yield from ((*FIT, *extra) for extra in EXTRA)
    for option, values in FIT_OPTIONS.items():
        needed = ("--evidence", "statistical") if option in ("--epsilon", "--beta") else ()
        yield from ((*FIT, *needed, option, value) for value in values if (option, value) not in ACCEPTED)


# Bad only beside something else: the data have rows enough, and a list may be empty.
ACCEPTED = {("--angle", ","), ("--operator", "project"), ("--next-states", "x,v,u"), ("--controls", "x"),
            ("--episode", "x"), ("--states", "episode,x")}  # fmt: skip


def invocations(count: int, seed: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """So many: bad values in turn, then pairs of them and damaged tables."""
    random = np.random.default_rng(seed)
    yield from itertools.islice(systematic(), count)
    table = (folder / "cart.csv").read_bytes()
    pairs = [(o, v) for o, values in FIT_OPTIONS.items() for v in values if (o, v) not in ACCEPTED]
    for number in range(max(0, count - sum(1 for _ in systematic()))):
        if number % 2:
            one, two = (pairs[int(k)] for k in random.integers(len(pairs), size=2))
            yield (*FIT, *one, *two)
            continue
        path = folder / "tables" / f"{number}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(mutations.change_csv(random, table) + b"\n0,1.0\n")
        yield (*FIT, "--data", str(path))


def attempt(arguments: tuple[str, ...], folder: Path) -> Outcome:
    """Runs one and looks at what it said and left."""
    before = _listing(folder)
    printed, errors, start = io.StringIO(), io.StringIO(), time.process_time()
    code, wrong = -1, ""
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            code = running.run([argument.replace("{}", str(folder)) for argument in arguments])
    except BaseException as error:
        wrong = f"{type(error).__name__} came out: {error}"
    message, seconds = errors.getvalue(), time.process_time() - start
    wrong = wrong or _judge(code, message, seconds)
    left = _listing(folder) ^ before
    if left and not wrong:
        wrong = f"left {sorted(left)[0]}"
    for name in ("new", "out.csv", "page.html", "out.txt"):
        place = folder / name
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
    return Outcome(arguments, code, message, seconds, wrong)


def _listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in str(path)}


def _judge(code: int, message: str, seconds: float) -> str:
    if code != 2:
        return f"code {code}"
    if not message.startswith("error: ") or message.count("\n") != 1:
        return "not one line"
    if "Traceback" in message or "must not fail like this" in message or "memory enough" in message:
        return "not expected by any reader"
    return f"{seconds:.1f} s" if seconds > 5 else ""


def explore(count: int, seed: int, folder: Path) -> list[Outcome]:
    """All of them, in this process."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        make_originals(folder)
    (folder / "bad.py").write_text(BAD_MODELS)
    (folder / "broken.py").write_text("def f(:\n")
    return [attempt(arguments, folder) for arguments in invocations(count, seed, folder)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="what each said")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = explore(given.count, given.seed, Path(scratch) / "files")
    for outcome in outcomes:
        if outcome.wrong or given.show:
            words = " ".join(
                outcome.arguments if outcome.arguments[0] != "fit" else outcome.arguments[len(FIT) :]
            )
            print(f"{words[:120]}: {outcome.wrong}: {outcome.message.strip()[-400:]}")
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    slowest = max(outcome.seconds for outcome in outcomes)
    print(f"{len(outcomes)} malformed invocations, {wrong} wrong; slowest {slowest:.2f} s")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
