"""Logs as they are, on the command line: what is said about them, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import TRUSTED_SOURCE, cart_rows, write_csv
from tether.cli import running

HEADER = ["episode", "t", "x", "v", "u"]
TINY = ["--memories", "5", "--steps", "5", "--hidden", "4"]
HISTORY_SOURCE = """
import numpy as np


def remembering(states, controls):
    assert states.shape[1] == 4 and controls.shape[1] == 2
    return states[:, :2] + 0.1 * np.stack([states[:, 1], controls[:, 0]], axis=1)
"""
Fit = Callable[..., tuple[int, str, str]]


def timed_rows(episodes: int = 12) -> list[list[Any]]:
    rows = cart_rows(episodes)
    return [[int(row[0]), round(0.1 * (k % 20), 6), *row[1:]] for k, row in enumerate(rows)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with four logs of three drives each, and trusted models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(TRUSTED_SOURCE)
    (tmp_path / "h.py").write_text(HISTORY_SOURCE)
    (tmp_path / "logs").mkdir()
    rows = timed_rows()
    for part in range(4):
        write_csv(tmp_path / "logs" / f"{part}.csv", HEADER, rows[60 * part : 60 * (part + 1)])
    return tmp_path


@pytest.fixture
def tether(place: Path, capsys: pytest.CaptureFixture[str]) -> Fit:
    """Runs a command; its code and what it printed."""

    def command(*arguments: Any) -> tuple[int, str, str]:
        capsys.readouterr()
        code = running.run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


def fitting(*extra: Any, trusted: str = "m.py:frictionless") -> list[Any]:
    columns = ["--states", "x,v", "--controls", "u", "--episode", "episode"]
    return ["fit", *columns, "--trusted", trusted, "--out", "run", *TINY, *extra]


def name_of_run(place: Path) -> str:
    return json.loads((place / "run" / "results.json").read_text())["name"]


def test_repeated_data_add_up(tether: Fit, place: Path) -> None:
    code, out, err = tether(*fitting("--data", "logs/0.csv", "--data", "logs/[12].csv"))
    assert (code, err) == (0, "")
    data, probes = out.splitlines()[:2]
    assert data == "data: 171 transitions of 9 episodes from 180 rows of 3 tables"
    assert probes == "probes: training rows moved at random by 0.1 standard deviations (`--probes`)"
    assert name_of_run(place) == "fit of 0.csv and 1 more"


def test_a_folder_with_time(tether: Fit) -> None:
    code, out, _ = tether(*fitting("--data", "logs", "--time", "t"))
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "data: 228 transitions of 12 episodes from 240 rows of 4 tables"
    assert lines[1] == "step: 0.1 (the median); M must advance by it"
    code, out, _ = tether("info", "run")
    assert "0.1 (the median); M must advance by it" in out


def test_everything_done_is_said_on_a_line_of_its_own(tether: Fit, place: Path) -> None:
    rows = timed_rows(1)
    long = [[k // 300, round(0.1 * (k % 300), 6), *rows[k % 20][2:]] for k in range(600)]
    long[7][2] = ""
    long.insert(20, list(long[19]))
    del long[100:105]
    write_csv(place / "long.csv", HEADER, long)
    options = ["--data", "long.csv", "--time", "t", "--block", "3s", "--drop-invalid", "--history", "x=1"]
    code, out, err = tether(*fitting(*options, trusted="m.py:wide"))
    assert code == 2 and "m.py" in err
    (place / "m.py").write_text(
        TRUSTED_SOURCE + "\n\ndef wide(s, u):\n    return frictionless(s[:, :2], u)\n"
    )
    code, out, err = tether(*fitting(*options, trusted="m.py:wide"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("data: ") and lines[0].endswith("from 596 rows of 1 table")
    assert lines[1:7] == [
        "dropped: 1 row with a missing or invalid value",
        "dropped: 1 row with the time of the row before",
        "split: at 1 gap, the longest 0.6 before row 100 of long.csv",
        "blocks: 20 episodes cut",
        "history: 22 rows with too few older ones only served as such",
        "step: 0.1 (the median); M must advance by it",
    ]


def test_resampling(tether: Fit) -> None:
    code, out, _ = tether(*fitting("--data", "logs/*.csv", "--time", "t", "--step", "0.2"))
    assert code == 0
    assert "resampled: to 120 rows, one every 0.2, states interpolated, controls held\n" in out
    assert "step: 0.2 (asked for); M must advance by it\n" in out


def test_history_is_fitted_and_predicted(tether: Fit, place: Path) -> None:
    history = ["--history", "v=2", "--history", "u=1", "--data", "logs"]
    assert tether(*fitting(*history, trusted="h.py:remembering"))[0] == 0
    code, out, _ = tether("predict", "run", *history, "--episode", "episode", "--out", "p.csv")
    assert code == 0
    assert "24 rows left out: invalid, repeated, or with too few older ones" in out
    with (place / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 240 - 24
    assert [(row["file"], row["row"]) for row in rows[:19:18]] == [("logs/0.csv", "2"), ("logs/0.csv", "22")]
    code, _, err = tether("predict", "run", "--data", "logs", "--out", "q.csv", "--history", "v=1")
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = tether("predict", "run", "--data", "logs", "--out", "q.csv", "--history", "v=3")
    assert (code, err.count("\n")) == (2, 1) and "`history` must make the inputs of the model" in err


def test_predictions_of_several_files(tether: Fit, place: Path) -> None:
    assert tether(*fitting("--data", "logs"))[0] == 0
    code, out, _ = tether("predict", "run", "--data", "logs/1.csv", "--data", "logs/0.csv", "--out", "p.csv")
    assert code == 0 and "120 predictions" in out
    with (place / "p.csv").open() as file:
        assert [row["file"] for row in csv.DictReader(file)] == ["logs/1.csv"] * 60 + ["logs/0.csv"] * 60
    code, _, _ = tether("predict", "run", "--data", "logs/1.csv", "--out", "q.csv")
    assert code == 0 and (place / "q.csv").read_text().startswith("next_x,")


def shuffle(place: Path) -> None:
    rows = timed_rows()
    rows[3], rows[4] = rows[4], rows[3]
    write_csv(place / "logs" / "0.csv", HEADER, rows[:60])


def uneven(place: Path) -> None:
    write_csv(
        place / "logs" / "0.csv", HEADER, [[0, 0.4 * k, *row[2:]] for k, row in enumerate(timed_rows(1))]
    )


def leave(place: Path) -> None:
    """The logs as they are."""


@pytest.mark.parametrize(
    ("change", "options", "fragments"),
    [
        (leave, ["--data", "logs/*.npz"], ["`logs/*.npz` must match at least one file"]),
        (leave, ["--data", "logs", "--data", "logs/0.csv"], ["each file once; got 'logs/0.csv' twice"]),
        (leave, ["--data", ""], ["`data` must name a file, a folder or a pattern"]),
        (leave, ["--data", "logs", "--time", "clock"], ["logs/0.csv", "must have a column 'clock'"]),
        (leave, ["--data", "logs", "--step", "0.1"], ["`step` must come with a column of time", "--time"]),
        (leave, ["--data", "logs", "--time", "t", "--step", "0"], ["`step` must be positive"]),
        (leave, ["--data", "logs", "--time", "t", "--step", "1e-9"], ["`step` must give at most"]),
        (leave, ["--data", "logs", "--block", "10s"], ["`block` must come with a column of time"]),
        (leave, ["--data", "logs", "--block", "soon"], ["`block` must be a number of rows, or a time"]),
        (leave, ["--data", "logs", "--block", "1"], ["`block` must be at least 2"]),
        (leave, ["--data", "logs", "--history", "w=2"], ["`history` must name states or controls"]),
        (leave, ["--data", "logs", "--history", "x"], ["`--history` must be name=value"]),
        (leave, ["--data", "logs", "--history", "x=few"], ["`--history` must be whole numbers"]),
        (leave, ["--data", "logs", "--history", "x=1", "--history", "x=2"], ["each name once; got 'x' twice"]),
        (leave, ["--data", "logs", "--history", "x=20"], ["`history` must leave rows that have 20 older ones"]),
        (leave, ["--data", "logs", "--time", "t", "--tolerance", "2"], ["`tolerance` must be finite and at most"]),
        (leave, ["--data", "logs", "--time", "t", "--next-states", "x,v"], ["`time` must come without"]),
        (shuffle, ["--data", "logs", "--time", "t"], ["must not go backwards", "row 4 of logs/0.csv", "Sort"]),
        (uneven, ["--data", "logs", "--time", "t"], ["one step in all episodes; got a median of 0.4", "--step 0.4"]),
    ],
)  # fmt: skip
def test_bad_logs_and_options(
    tether: Fit, place: Path, change: Callable[[Path], None], options: list[str], fragments: list[str]
) -> None:
    change(place)
    code, out, err = tether(*fitting(*options))
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1
    for fragment in fragments:
        assert fragment in err
    assert not (place / "run").exists()
