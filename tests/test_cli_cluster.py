"""`--scheduler` of the verbs, on a scheduler and a worker of their own: the same files, and a scheduler that is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import cart_rows, write_csv
from tether import cli

pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("default::ResourceWarning", "default::DeprecationWarning")

SOURCE = '''
import time
from pathlib import Path

import numpy as np

HERE = Path({folder!r})


def pulled(states, controls):
    """x' = x + 0.1 v, v' = v + 0.1 (u - sin x)."""
    x, v = states[:, 0], states[:, 1]
    return np.stack([x + 0.1 * v, v + 0.1 * (controls[:, 0] - np.sin(x))], axis=1)


def waiting(states, controls):
    """The same, not proved: it says that it was asked, and waits where that is wanted."""
    while (HERE / "wait").exists():
        (HERE / "asked").touch()
        time.sleep(0.05)
    return pulled(states, controls)
'''


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Its address and its process; one worker asks it for work."""
    about, dask = folder / "scheduler.json", [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    about.unlink(missing_ok=True)
    started = [
        subprocess.Popen([*dask, *command, "--no-dashboard"], cwd=folder, env=environment, **quiet)
        for command in (
            ["scheduler", "--port", "0", "--scheduler-file", str(about)],
            ["worker", "--scheduler-file", str(about), "--nthreads", "1"],
        )
    ]
    try:
        while not about.exists() or not about.read_text().strip():
            assert started[0].poll() is None
            time.sleep(0.1)
        yield json.loads(about.read_text())["address"], started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cluster")
    write_csv(made / "log.csv", ["run", "x", "v", "u"], cart_rows())
    (made / "model.py").write_text(SOURCE.format(folder=str(made)))
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Of a scheduler that stays."""
    with scheduler(folder) as (address, _):
        yield address


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Exit code, output and errors of the command line, in this process and the folder of the log."""
    import dask

    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tether", *arguments])
        capsys.readouterr()
        soon = {"distributed.comm.timeouts.connect": "2s"}  # a scheduler that is lost is given up
        with dask.config.set(soon), pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return command


def fitting(out: str, trusted: str = "pulled") -> list[str]:
    columns = ["--states", "x,v", "--controls", "u", "--episode", "run"]
    small = ["--memories", "6", "--leaves", "100", "--steps", "20", "--hidden", "8"]
    return ["fit", "--data", "log.csv", *columns, "--trusted", f"model.py:{trusted}", *small, "--out", out]


def said(printed: str) -> list[str]:
    """Lines of what was printed, without those that tell of progress."""
    return [line for line in printed.splitlines() if not re.fullmatch(r"\w+: (\d+/\d+|done in .*)", line)]


@pytest.fixture
def here(folder: Path, run: Command) -> Path:
    """A run without a cluster, fitted once."""
    if not (folder / "here").exists():
        code, _, errors = run(*fitting("here"))
        assert (code, errors) == (0, "")
    return folder / "here"


def same_files(one: Path, two: Path) -> bool:
    names = ("model.safetensors", "certificate.json", "metrics.jsonl")
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in names)


def test_a_fit_on_a_cluster_writes_the_same_files(run: Command, here: Path, address: str) -> None:
    code, _, errors = run(*fitting("spread"), "--scheduler", address)
    assert (code, errors) == (0, "")
    assert same_files(here, here.with_name("spread"))


def test_verify_attack_and_tube_say_the_same_on_a_cluster(run: Command, here: Path, address: str) -> None:
    M = ["here", "--trusted", "model.py:pulled"]
    for command in (["verify", *M], ["attack", *M, "--evaluations", "4000"]):
        alone, spread = run(*command), run(*command, "--scheduler", address)
        assert alone[::2] == spread[::2] == (0, "")
        assert said(alone[1]) == said(spread[1])
    start = ["tube", *M, "--halvings", "1", "--start", "x=0:0.1,v=0", "--steps", "5"]
    assert run(*start, "--out", "alone.json")[::2] == (0, "")
    assert run(*start, "--out", "spread.json", "--scheduler", address)[::2] == (0, "")
    tubes = [here.with_name(f"{name}.json").read_bytes() for name in ("alone", "spread")]
    assert tubes[0] == tubes[1]


def test_a_fit_whose_scheduler_is_lost_goes_on_with_another(run: Command, folder: Path, address: str) -> None:
    """Killed while a worker asks M; one line, and the same command with `--resume` ends as if nothing had been."""
    assert run(*fitting("whole", "waiting"))[::2] == (0, "")
    (folder / "wait").touch()

    def kill() -> None:
        while not (folder / "asked").exists():
            time.sleep(0.05)
        process.kill()
        (folder / "wait").unlink()

    with scheduler(folder) as (lost, process):
        killing = threading.Thread(target=kill)
        killing.start()
        code, _, errors = run(*fitting("lost", "waiting"), "--scheduler", lost)
        killing.join()
    assert code == 2
    assert errors.startswith("error: `scheduler` must stay reachable; tcp://") and errors.count("\n") == 1
    assert "`--resume`" in errors and not (folder / "lost" / "model.safetensors").exists()
    assert run(*fitting("lost", "waiting"), "--scheduler", address, "--resume")[::2] == (0, "")
    assert same_files(folder / "whole", folder / "lost")
