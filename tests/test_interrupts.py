"""Ctrl-C at any time: one line, code 130, no traceback, whether of ours or of a worker."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import TRUSTED_SOURCE, cart_rows, write_csv
from tether.cli.starting import interruptible

SLOW = '''
import time

def slow(states, controls):
    time.sleep(0.02)
    return frictionless(states, controls)
'''  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cart")
    write_csv(path / "cart.csv", ["episode", "x", "v", "u"], cart_rows())
    (path / "physics.py").write_text(TRUSTED_SOURCE + SLOW)
    return path


def interrupted(
    folder: Path, arguments: list[str], *, after: float = 0.0, until: Path | None = None
) -> tuple[int, str]:
    """Code and complaints of a command stopped after some time, or once a file is there."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tether.cli", *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while until is not None and not until.exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(after)
    # To the whole group, as a terminal does: workers get it too.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def assert_one_line(code: int, errors: str) -> None:
    assert (code, errors.count("\n")) == (130, 1), errors
    assert errors.startswith("error: interrupted."), errors


def fit(out: str, *extra: str) -> list[str]:
    columns = ["--states", "x,v", "--controls", "u", "--episode", "episode"]
    return ["fit", "--data", "cart.csv", *columns, "--memories", "6", "--hidden", "8", "--out", out, *extra]


@pytest.mark.parametrize("after", [0.3, 0.8, 1.5])
def test_while_it_starts(folder: Path, after: float) -> None:
    code, errors = interrupted(
        folder, fit(f"a{after}", "--trusted", "physics.py:frictionless", "--steps", "90000000"), after=after
    )
    assert_one_line(code, errors)


def test_while_it_trains(folder: Path) -> None:
    arguments = fit("b", "--trusted", "physics.py:frictionless", "--steps", "90000000")
    code, errors = interrupted(folder, arguments, until=folder / "b" / "metrics.jsonl")
    assert_one_line(code, errors)
    assert "--resume" in errors


def test_nothing_is_said_of_one_that_a_callback_swallows(capfd) -> None:
    pressing = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    with interruptible() as interruption:
        pressing()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)  # until it comes again
    assert interruption.asked
    interruption.heard()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert capfd.readouterr().err == ""


def test_while_workers_evaluate_a_slow_model(folder: Path) -> None:
    rows = ["--probes", "v=-1:1", "--probe-count", "60000"]
    arguments = fit("c", "--trusted", "physics.py:slow", "--jobs", "2", *rows)
    code, errors = interrupted(folder, arguments, after=8.0)
    assert_one_line(code, errors)
    assert not (folder / "c").exists()
