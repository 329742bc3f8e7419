from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tether
from conftest import TRUSTED_SOURCE, cart_rows, write_csv
from tether import cli
from tether.files.runs import to_toml
from tether.foundation.atomic import read_tensors, write_tensors
from tether.model.assembling import direct_model, unconstrained_model

HEADER = ["episode", "x", "v", "u"]
TINY = ["--memories", "6", "--steps", "40", "--hidden", "8"]
RUN_FILES = {
    "config.toml", "metrics.jsonl", "results.json", "model.safetensors", "certificate.json", "report.html",
    "explorer.json",
}  # fmt: skip
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command line in this process."""

    def command(*arguments: Any) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["tether", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Outcome(code or 0, printed.out, printed.err)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield command  # type: ignore[misc]
    torch.set_num_threads(threads)


def fit_arguments(data: Path, trusted: str, out: Path) -> list[str]:
    columns = ["--states", "x,v", "--controls", "u", "--episode", "episode", "--unit", "x=m,v=m/s"]
    return [
        "fit",
        "--data",
        str(data),
        *columns,
        "--trusted",
        trusted,
        "--out",
        str(out),
        "--bounds",
        "interval",
        *TINY,
        "--steps",
        "400",
    ]


def assert_refused(outcome: Outcome, *fragments: str) -> None:
    """One line that says what is wrong, and code 2."""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err + outcome.out
    for fragment in fragments:
        assert fragment in outcome.err
    assert outcome.code == 2


# --- a run, end to end, in a process of its own


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cart.csv, cart_physics.py, and a finished run in run/."""
    folder = tmp_path_factory.mktemp("cart")
    write_csv(folder / "cart.csv", HEADER, cart_rows())
    (folder / "cart_physics.py").write_text(TRUSTED_SOURCE)
    arguments = fit_arguments(Path("cart.csv"), "cart_physics.py:frictionless", Path("run"))
    command = [sys.executable, "-m", "tether", *arguments, "--evidence", "sampled"]
    ended = subprocess.run(command, cwd=folder, env=ONE_THREAD, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    (folder / "stdout.txt").write_text(ended.stdout)
    return folder


def results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "results.json").read_text())


def test_a_run_leaves_exactly_its_files(finished: Path) -> None:
    assert {path.name for path in (finished / "run").iterdir()} == RUN_FILES


def test_the_configuration_is_toml(finished: Path) -> None:
    config = tomllib.loads((finished / "run" / "config.toml").read_text())
    assert config["memories"] == 6
    assert config["hidden"] == [8]
    assert config["training"]["steps"] == 400
    assert config["training"]["loss"] == "squared_error"


def test_metrics_hold_one_line_per_evaluation(finished: Path) -> None:
    lines = [json.loads(line) for line in (finished / "run" / "metrics.jsonl").read_text().splitlines()]
    places = [(line["method"], line["step"]) for line in lines]
    methods = ("Vanilla", "Vanilla Δ", "Constrained")
    assert places == [(method, step) for method in methods for step in (100, 200, 300, 400)]
    measures = ("approximation_loss_D", "constraint_loss_D_mean", "constraint_loss_omega_max")
    assert all(line[key] >= 0 for line in lines for key in measures)


def test_results_compare_the_methods(finished: Path) -> None:
    content = results(finished / "run")
    expected = ["name", "command", "versions", "units", "headings", "sections", "runs"]
    assert list(content) == expected
    assert content["command"].startswith("tether fit --data cart.csv")
    assert content["units"] == {"x": "m", "v": "m/s", "u": ""}
    assert {"python", "tether", "torch", "numpy", "numba"} <= content["versions"].keys()
    runs = {entry["method"]: entry for entry in content["runs"]}
    assert list(runs) == ["Trusted", "Vanilla", "Vanilla Δ", "Constrained"]
    shared = {
        "memories", "seed", "steps", "approximation_loss_D", "constraint_loss_D_mean",
        "constraint_loss_D_max", "constraint_loss_omega_mean", "constraint_loss_omega_max",
        "seconds_training",
    }  # fmt: skip
    assert all(shared <= entry.keys() for entry in runs.values())
    constrained = runs["Constrained"]
    assert {"coverage_D", "coverage_omega", "tether_miss_D", "seconds_memories", "seconds_bounds"} <= set(
        constrained
    )
    assert constrained["memories"] == 6
    assert constrained["evidence_level"] == "sampled"
    for output in ("x", "v"):
        delta = constrained["delta_certified"][output]
        assert 0 < delta["median"] <= delta["max"]
    assert runs["Trusted"]["constraint_loss_D_max"] == 0
    assert runs["Trusted"]["approximation_loss_D"] > 0
    assert runs["Vanilla"]["constraint_loss_D_mean"] > constrained["constraint_loss_D_mean"]


def test_the_certificate_of_a_run_is_no_guarantee_when_sampled(finished: Path) -> None:
    certificate = json.loads((finished / "run" / "certificate.json").read_text())
    assert certificate["certified"] is False
    assert certificate["evidence"] == "sampled"
    assert [delta["unit"] for delta in certificate["deltas"]] == ["m", "m/s"]
    assert certificate["approximation_cost"]["sharp_holds"] == 1.0
    assert "an estimate, not a guarantee" in " ".join((finished / "stdout.txt").read_text().split())


def test_the_report_holds_the_command(finished: Path) -> None:
    page = (finished / "run" / "report.html").read_text()
    assert "tether fit --data cart.csv" in page
    assert "Constrained" in page


def test_predict_writes_what_the_model_predicts(finished: Path, tmp_path: Path, run: Command) -> None:
    outcome = run("predict", finished / "run", "--data", finished / "cart.csv", "--out", tmp_path / "p.csv")
    assert outcome.code == 0
    assert "240 predictions" in outcome.out
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = np.array(cart_rows())
    model = tether.load(finished / "run" / "model.safetensors")
    expected = model.predict(table[:, 1:3], table[:, 3:], details=True)
    for k, name in enumerate(("x", "v")):
        np.testing.assert_array_equal([float(r[f"next_{name}"]) for r in rows], expected.next_states[:, k])
        np.testing.assert_array_equal([float(r[f"upper_{name}"]) for r in rows], expected.upper[:, k])
    assert [int(r["in_domain"]) for r in rows] == expected.in_domain.astype(int).tolist()
    assert [int(r["cell"]) for r in rows] == expected.cell.tolist()


def test_certify_says_that_sampled_is_not_certified(finished: Path, tmp_path: Path, run: Command) -> None:
    spec = f"{finished}/cart_physics.py:frictionless"
    outcome = run("certify", finished / "run", "--trusted", spec, "--out", tmp_path / "c.json")
    assert outcome.code == 1
    assert "ESTIMATE, not a guarantee" in outcome.out
    assert outcome.err == ""
    assert json.loads((tmp_path / "c.json").read_text())["certified"] is False
    page = (tmp_path / "c.html").read_text()
    assert "Domain box" in page and "ESTIMATE, not a guarantee" in page and "frictionless" in page


def test_a_certificate_cannot_be_its_own_page(finished: Path, tmp_path: Path, run: Command) -> None:
    spec = f"{finished}/cart_physics.py:frictionless"
    outcome = run("certify", finished / "run", "--trusted", spec, "--out", tmp_path / "c.html")
    assert_refused(outcome, "must end in .json; got '.html'")


def test_info_tells_what_the_file_holds(finished: Path, run: Command) -> None:
    outcome = run("info", finished / "run" / "model.safetensors")
    assert outcome.code == 0
    for fragment in ("x [m], v [m/s]", "interval, 6 memories, clip", "increment", "frictionless", "400"):
        assert fragment in outcome.out


def test_bench_tells_what_a_prediction_takes_here(finished: Path, run: Command) -> None:
    outcome = run("bench", finished / "run", "--rounds", "2")
    assert outcome.code == 0
    rows = [line.split() for line in outcome.out.splitlines() if line.strip().startswith("1")]
    assert [row[0] for row in rows] == ["1", "1,024"] and all(float(row[4]) > 0 for row in rows)
    assert_refused(run("bench", finished / "run", "--rounds", "0"), "`rounds` must be")


def test_known_constants_give_a_certificate(finished: Path, tmp_path: Path, run: Command) -> None:
    # A constant column besides, which must simply work, and a domain whose name is no TOML key.
    rows = [[*row, 7.5] for row in cart_rows()]
    data = write_csv(tmp_path / "cart.csv", ["episode", "x", "v", "u", "load [kg]"], rows)
    (tmp_path / "m.py").write_text(
        TRUSTED_SOURCE.replace("[[1.0, 0.1, 0.0], [0.0, 1.0, 0.1]]", "1.2").replace(
            "[[0.0, 0.1, 0.0], [0.0, 0.0, 0.1]]", "[[0.0, 0.1, 0.0, 0.0], [0.0, 0.0, 0.1, 0.0]]"
        )
    )
    arguments = fit_arguments(data, f"{tmp_path}/m.py:known", tmp_path / "run")
    extra = ["--controls", "u,load [kg]", "--domain", "load [kg]=7:8", "--evidence", "lipschitz"]
    assert run(*arguments, *extra, "--steps", "100", "--probes", "v=0,x=-1:1").code == 0
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["domain"] == {"load [kg]": [7.0, 8.0]}
    outcome = run("certify", tmp_path / "run", "--trusted", f"{tmp_path}/m.py:known")
    assert outcome.code == 0
    assert "GUARANTEED IF" in outcome.out
    other = f"{finished}/cart_physics.py:frictionless"
    (tmp_path / "other.py").write_text("def other(s, u):\n    return s + 5.0\n")
    refuted = run("certify", tmp_path / "run", "--trusted", f"{tmp_path}/other.py:other")
    assert refuted.code == 1
    assert refuted.err.startswith("error: `trusted` must be the model the bounds were built with")
    assert run("certify", finished / "run", "--trusted", other).code == 1


def test_constants_are_needed_for_that_evidence(cart_csv: Path, trusted_file: Path, run: Command) -> None:
    out = cart_csv.parent / "run"
    arguments = fit_arguments(cart_csv, f"{trusted_file}:frictionless", out)
    outcome = run(*arguments, "--evidence", "lipschitz")
    assert outcome.code == 2
    assert outcome.err.startswith("error: evidence `lipschitz` must have constants")
    assert not out.exists()


def test_outputs_that_are_fewer_than_the_states(tmp_path: Path, run: Command) -> None:
    rows = [[*row, row[2] + 0.1 * row[3]] for row in cart_rows()]
    data = write_csv(tmp_path / "cart.csv", [*HEADER, "next_v"], rows)
    (tmp_path / "m.py").write_text("def speed(s, u):\n    return s[:, 1:] + 0.1 * u\n")
    arguments = fit_arguments(data, f"{tmp_path}/m.py:speed", tmp_path / "run")
    assert run(*arguments, "--next-states", "next_v", "--steps", "100").code == 0
    content = results(tmp_path / "run")
    assert list(content["runs"][-1]["delta_certified"]) == ["v"]


def test_outputs_that_advance_no_state(tmp_path: Path, run: Command) -> None:
    rows = [[*row, 0.5 * row[2] ** 2, 9.81 * row[1], row[3]] for row in cart_rows()]
    data = write_csv(tmp_path / "cart.csv", [*HEADER, "kinetic", "potential", "force"], rows)
    (tmp_path / "m.py").write_text(
        "import numpy as np\n"
        "def energies(s, u):\n    return np.stack([0.5 * s[:, 1] ** 2, 9.8 * s[:, 0], u[:, 0]], axis=1)\n"
    )
    extra = ["--next-states", "kinetic,potential,force", "--unit", "kinetic=J", "--steps", "100"]
    spec = f"{tmp_path}/m.py:energies"
    assert run(*fit_arguments(data, spec, tmp_path / "run"), *extra).code == 0
    content = results(tmp_path / "run")
    assert [entry["method"] for entry in content["runs"]] == ["Trusted", "Vanilla", "Constrained"]
    assert content["units"]["kinetic"] == "J"
    assert tether.load(tmp_path / "run" / "model.safetensors").frame.target == "next_state"
    outcome = run(*fit_arguments(data, spec, tmp_path / "no"), *extra, "--target", "increment")
    assert_refused(outcome, "each advance a state; got outputs kinetic, potential, force")
    assert not (tmp_path / "no").exists()


# --- help


@pytest.mark.parametrize("command", [[], ["demo"], ["fit"], ["predict"], ["certify"], ["info"]])
def test_every_command_explains_itself(run: Command, command: Sequence[str]) -> None:
    outcome = run(*command, "--help")
    assert outcome.code == 0
    assert "Usage: tether" in outcome.out
    assert "--help" in outcome.out


def test_fit_names_the_options_of_the_manual(run: Command) -> None:
    text = run("fit", "--help").out
    for option in ("data", "states", "controls", "next-states", "episode", "angle", "trusted", "probes",
                   "memories", "bounds", "steps", "seed", "out", "resume"):  # fmt: skip
        assert f"--{option}" in text


def test_version(run: Command) -> None:
    assert run("--version") == Outcome(0, f"{tether.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments", [["fit"], ["bogus"], ["fit", "--memories", "many"], ["info"], ["certify", "x"]]
)
def test_arguments_that_do_not_parse(run: Command, arguments: Sequence[str]) -> None:
    assert_refused(run(*arguments), "--help`")


def test_a_pattern_that_the_shell_took_is_to_be_quoted(run: Command) -> None:
    outcome = run(
        "fit", "--data", "day1.csv", "day2.csv", "--states", "x", "--trusted", "m.py:m", "--out", "o"
    )
    assert_refused(outcome, "(day2.csv). For several files quote the pattern, `--data 'logs/*.csv'`")


@pytest.mark.parametrize("option", ["--angle", "--states", "--unit"])
def test_columns_are_told_to_fit_alone(run: Command, option: str) -> None:
    outcome = run("adapt", "runs/x", "--data", "new.csv", option, "x", "--out", "o")
    assert_refused(outcome, f"No such option: {option}", "The model knows its columns, angles and units")


# --- bad data


@dataclass(frozen=True)
class Refusal:
    """Fits with changed arguments and checks that nothing was left behind."""

    run: Command
    data: Path
    trusted: Path

    def __call__(self, *extra: Any, fragments: Sequence[str], trusted: str = "frictionless") -> None:
        out = self.data.parent / "run"
        spec = f"{self.trusted}:{trusted}"
        assert_refused(self.run(*fit_arguments(self.data, spec, out), *extra), *fragments)
        assert not out.exists()


@pytest.fixture
def refused(run: Command, cart_csv: Path, trusted_file: Path) -> Refusal:
    return Refusal(run, cart_csv, trusted_file)


@pytest.mark.parametrize(
    ("row", "column", "cell", "fragment"),
    [
        (7, 1, "nan", "must be finite; got nan at row 7, column 'x'"),
        (0, 3, "-inf", "must be finite; got -inf at row 0, column 'u'"),
        (3, 2, "", "must be finite; got nan at row 3, column 'v'"),
        (
            9,
            2,
            "fast",
            "must hold numbers; got 'fast' at row 9, column 'v' (1 such value). Repair those rows, or drop",
        ),
        (4, 0, "", "must have an episode id in every row; got none at row 4"),
    ],
)
def test_bad_cells(refused: Refusal, row: int, column: int, cell: str, fragment: str) -> None:
    rows: list[list[Any]] = [list(r) for r in cart_rows()]
    rows[row][column] = cell
    write_csv(refused.data, HEADER, rows)
    refused(fragments=[fragment])


def test_a_ragged_file(refused: Refusal) -> None:
    refused.data.write_text("episode,x,v,u\n0,1,2,3\n0,1,2\n")
    refused(fragments=["must have 4 fields in every row; got 3 at row 1"])


def test_no_rows(refused: Refusal) -> None:
    refused.data.write_text("episode,x,v,u\n")
    refused(fragments=["must hold two consecutive rows of one episode; got 0 rows"])


def test_an_empty_file(refused: Refusal) -> None:
    refused.data.write_text("")
    refused(fragments=["must have a header line; it is empty"])


def test_one_episode_only(refused: Refusal) -> None:
    write_csv(refused.data, HEADER, cart_rows(episodes=1, steps=60))
    refused(fragments=["at least 3 episodes", "got 1", "--independent-rows"])


def test_fewer_points_than_memories(refused: Refusal) -> None:
    probes = write_csv(refused.data.with_name("probes.csv"), ["x", "v", "u"], [[0, 0, 0]])
    refused(
        "--memories", "5000", "--probes", probes,
        fragments=["got 5000 memories for", "Ask for fewer memories"],
    )  # fmt: skip


def test_a_delta_that_no_number_of_leaves_keeps(refused: Refusal) -> None:
    """The line says where, by how much, and what would do."""
    refused.trusted.write_text(
        "import numpy as np\ndef frictionless(s, u):\n"
        "    return s + 0.1 * np.stack([np.sin(3 * s[:, 1]) * s[:, 0] ** 2, u[:, 0]], axis=1)\n"
    )
    asked = ["--memories", "50", "--delta", "1e-6"]
    refused(*asked, fragments=["got 'interval'", "Choose bounds 'affine' (command line: `--bounds affine`)"])
    out = refused.data.parent / "run"
    arguments = fit_arguments(refused.data, f"{refused.trusted}:frictionless", out)
    outcome = refused.run(*arguments, *asked, "--bounds", "affine")
    assert outcome.code == 1
    assert "`delta` must leave room for the remainder; over x " in outcome.err
    assert "more leaves, or a smaller domain" in outcome.err


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("log.txt", b"x", "must be one of .csv, .npz, .parquet, .npy; got '.txt'"),
        ("log.npz", b"x,v\n1,2\n", "must be an .npz file of plain arrays"),
        ("log.parquet", b"x,v\n1,2\n", "must be a parquet file"),
        ("log.csv", b"\xff\xfe\x00", "must be a CSV file in UTF-8"),
    ],
)
def test_files_of_another_kind(refused: Refusal, name: str, content: bytes, fragment: str) -> None:
    path = refused.data.with_name(name)
    path.write_bytes(content)
    refused("--data", path, fragments=[name, fragment])


# --- bad options


@pytest.mark.parametrize(
    ("extra", "fragment"),
    [
        (["--data", "absent.csv"], "`absent.csv` must be a file; there is none"),
        (["--states", "x,w"], "must have a column 'w'; got episode, x, v, u"),
        (["--states", ""], "`states` must name at least one column"),
        (["--states", "x,x"], "column names must be distinct; got x twice"),
        (["--episode", "lap"], "must have a column 'lap'"),
        (["--angle", "yaw"], "`angles` must name columns of the data (x, v, u); got yaw"),
        (["--not-angle", "x,yaw"], "`not_angles` must name columns of the data (x, v, u); got yaw"),
        (["--angle", "x", "--not-angle", "x"], "`not_angles` must name no angle; got x, declared as one"),
        (["--unit", "x"], "`--unit` must be name=value, comma separated; got 'x'"),
        (["--unit", "=m"], "`--unit` must be name=value, comma separated; got '=m'"),
        (["--unit", "x=m,x=km"], "`--unit` must give each name once; got 'x=m,x=km'"),
        (["--states", f"x,{'w' * 300}"], f"must have a column '{'w' * 200}...'; got episode, x, v, u"),
        (["--unit", "x" * 300], f"comma separated; got '{'x' * 200}...'"),
        (["--hidden", "x" * 300], f"comma separated; got '{'x' * 200}...'"),
        (["--hidden", "8,wide"], "`--hidden` must be whole numbers, comma separated; got '8,wide'"),
        (["--hidden", "8,0"], "`hidden` must list positive layer widths; got (8, 0)"),
        (["--probes", "somewhere"], "`--probes` must be"),
        (["--probes", "v=slow"], "`--probes` must be name=low:high or name=value; got 'v=slow'"),
        (["--probes", "v=1:2:3"], "`--probes` must be name=low:high or name=value"),
        (["--probes", "v=2:1"], "`--probes` must have finite limits, low <= high; got 2.0:1.0 for 'v'"),
        (["--probes", "w=0"], "`--probes` must name inputs (x, v, u); got w"),
        (["--probes", "jitter=0:1"], "`--probes` must name inputs (x, v, u); got jitter"),
        (["--probes", ""], "`--probes` must be a file, a box or jitter=SPREAD"),
        (["--probes", "jitter=-1"], "`--probes` jitter must be a finite number >= 0; got -1.0"),
        (["--probes", "jitter=nan"], "`--probes` jitter must be a finite number >= 0; got nan"),
        (["--probes", "absent.csv"], "`absent.csv` must be a file; there is none"),
        (["--probe-count", "0"], "`--probe-count` must be at least 1; got 0"),
        (["--probes", "v=0", "--probe-count", "0"], "`--probe-count` must be at least 1; got 0"),
        (["--domain", "x"], "`--domain` must be name=value"),
        (["--domain", "x=far"], "`--domain` must be name=low:high or name=value; got 'x=far'"),
        (["--domain", "w=0:1"], "`domain` must name inputs (x, v, u); got w"),
        (["--domain", "x=0:0.01"], "`domain` must contain the data and probes; got 0.0:0.01 for 'x'"),
        (["--memories", "0"], "`memories` must be at least 1; got 0"),
        (["--steps", "0"], "`steps` must be at least 1; got 0"),
        (["--gamma", "1"], "`gamma` must be in [0, 1); got 1.0"),
        (["--bounds", "affine", "--delta", "0"], "`delta` must be positive; got 0.0. To answer as M does"),
        (["--learning-rate", "0"], "`learning_rate` must be positive; got 0.0"),
        (["--device", "abacus"], "`--device` must be one that torch can use; got 'abacus'"),
        (["--independent-rows"], "independent rows must come with `next_states`"),
    ],
)
def test_bad_options(
    refused: Refusal, extra: Sequence[str], fragment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(refused.data.parent)
    refused(*extra, fragments=[fragment])


def test_a_column_that_wraps_is_refused_until_it_is_called_an_angle_or_none(refused: Refusal) -> None:
    steps = np.arange(120)
    heading = (0.3 * steps) % (2 * np.pi)
    rows = np.stack([steps // 30, heading, np.sin(steps), np.cos(steps)], axis=1).tolist()
    write_csv(refused.data, HEADER, rows)
    refused(fragments=["got 'x' undeclared", "`--angle x`", "`--not-angle x`"])
    out = refused.data.parent / "run"
    arguments = fit_arguments(refused.data, f"{refused.trusted}:frictionless", out)
    assert refused.run(*arguments, "--not-angle", "x").code == 0
    assert tomllib.loads((out / "config.toml").read_text())["not_angles"] == ["x"]


@pytest.mark.parametrize("extra", [(), ("--time", "time", "--step", "0.2")])
def test_an_angle_in_degrees_is_refused(refused: Refusal, extra: Sequence[str]) -> None:
    steps = np.arange(120)
    heading = (17.0 * steps + 180) % 360 - 180
    rows = np.stack([steps // 30, heading, np.sin(steps), np.cos(steps), 0.1 * steps], axis=1).tolist()
    write_csv(refused.data, [*HEADER, "time"], rows)
    refused("--angle", "x", *extra, fragments=["`angles` must be in radians; got 'x'", "Convert it, and M"])


def test_names_with_commas_and_equals_signs(run: Command, trusted_file: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "odd.csv", tmp_path / "run"
    write_csv(data, ["lap", "x, in m", "v=dx/dt", 'u "raw"'], cart_rows())
    names = ["--states", '"x, in m", v=dx/dt', "--controls", 'u "raw"', "--episode", "lap"]
    limits = ["--domain", '"x, in m"=-1e3:1e3', "--unit", '"x, in m=m",v=dx/dt=m/s', "--probes", "v=dx/dt=0"]
    trusted = ["--trusted", f"{trusted_file}:frictionless"]
    fitted = run("fit", "--data", data, *names, *limits, *trusted, "--out", out, *TINY)
    assert (fitted.code, fitted.err) == (0, "")
    assert results(out)["units"] == {"x, in m": "m", "v=dx/dt": "m/s", 'u "raw"': ""}
    assert "x, in m [m], v=dx/dt [m/s]" in run("info", out).out


@pytest.mark.parametrize("text", ["a\0b", 'a,"b', "x" * 200_000])
def test_names_that_csv_cannot_read_are_refused_as_names(refused: Refusal, text: str) -> None:
    refused("--states", text, fragments=["must"])


# --- bad trusted models

BAD_MODELS = """
import numpy as np
CALLS = []
def raises(s, u):
    raise RuntimeError("out of\\nfuel")
def narrow(s, u):
    return s[:, :1]
def nans(s, u):
    return s * np.nan
def fickle(s, u):
    CALLS.append(1)
    return s + len(CALLS)
def writes(s, u):
    s += 1
    return s
def mixes(s, u):
    return s - s.mean(axis=0)
def exits(s, u):
    raise SystemExit(0)
number = 3.0
"""


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("raises", "`trusted` must not raise; got RuntimeError: out of fuel"),
        ("narrow", "must return shape (32, 2) for that many rows; got (32, 1). Return a row"),
        ("nans", "`trusted` must return finite numbers; got nan in output 0 for state"),
        ("fickle", "`trusted` must be deterministic"),
        ("writes", "`trusted` must not change its arguments"),
        ("mixes", "`trusted` must treat rows independently"),
        ("exits", "`trusted` must not raise; got SystemExit: 0"),
        ("absent", "`trusted` must name a function of"),
        ("number", "`trusted` must be callable"),
    ],
)
def test_bad_trusted_models(refused: Refusal, name: str, fragment: str) -> None:
    refused.trusted.write_text(BAD_MODELS)
    refused(trusted=name, fragments=[fragment])


@pytest.mark.parametrize(
    ("spec", "fragment"),
    [
        ("frictionless", "must be module:function or file.py:function; got 'frictionless'"),
        ("no_such_module:f", "must name an importable module; no_such_module"),
        ("absent.py:f", "must name an existing file; got 'absent.py'"),
    ],
)
def test_bad_specs(refused: Refusal, spec: str, fragment: str) -> None:
    refused("--trusted", spec, fragments=[fragment])


def test_a_file_that_does_not_run(refused: Refusal) -> None:
    refused.trusted.write_text("def frictionless(:\n")
    refused(fragments=["`trusted` must be a file that runs", "SyntaxError"])


# --- output that must not be touched


def test_a_folder_with_files_in_it_stays_as_it_was(finished: Path, refused: Refusal) -> None:
    full = refused.data.parent / "full"
    full.mkdir()
    (full / "thesis.txt").write_text("years of work")
    (full / "config.toml").write_text("mine")
    arguments = fit_arguments(refused.data, f"{refused.trusted}:frictionless", full)
    assert_refused(refused.run(*arguments), "must be new or empty; it holds files", "--resume")
    assert_refused(refused.run(*arguments, "--resume"), "must hold an interrupted run", "other files")
    assert {path.name: path.read_text() for path in full.iterdir()} == {
        "thesis.txt": "years of work", "config.toml": "mine",
    }  # fmt: skip
    arguments = fit_arguments(refused.data, f"{refused.trusted}:frictionless", finished / "run")
    before = {path.name: path.read_bytes() for path in (finished / "run").iterdir()}
    assert_refused(refused.run(*arguments), "must be new or empty")
    assert_refused(refused.run(*arguments, "--resume"), "must hold an interrupted run", "is finished")
    assert {path.name: path.read_bytes() for path in (finished / "run").iterdir()} == before


def test_an_empty_folder_that_was_there_before_a_failure_is_empty_after(refused: Refusal) -> None:
    refused.trusted.write_text(BAD_MODELS)
    empty = refused.data.parent / "empty"
    empty.mkdir()
    assert_refused(refused.run(*fit_arguments(refused.data, f"{refused.trusted}:nans", empty)), "finite")
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("name", ["cart.csv", "cart.csv/run", "/dev/null/run"])
def test_fit_into_what_is_no_folder(refused: Refusal, name: str) -> None:
    before = refused.data.read_bytes()
    out = refused.data.parent / name
    outcome = refused.run(*fit_arguments(refused.data, f"{refused.trusted}:frictionless", out))
    assert_refused(outcome, "must be a folder; it is a file" if name == "cart.csv" else "must be writable")
    assert refused.data.read_bytes() == before


def test_predict_and_certify_overwrite_nothing(finished: Path, tmp_path: Path, run: Command) -> None:
    there = tmp_path / "there.csv"
    there.write_text("mine")
    predict = ["predict", finished / "run", "--data", finished / "cart.csv", "--out"]
    certify = ["certify", finished / "run", "--trusted", f"{finished}/cart_physics.py:frictionless", "--out"]
    for command in (predict, certify):
        assert_refused(run(*command, there), "must be a new file; it exists")
        assert_refused(run(*command, there / "below.csv"), "must be writable; Not a directory")
        assert_refused(run(*command, tmp_path / "absent" / "p.csv"), "must be writable; No such file")
    assert there.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [there]


# --- bad models and bad inputs of a model


@pytest.fixture
def model_file(finished: Path, tmp_path: Path) -> Path:
    (tmp_path / "m.safetensors").write_bytes((finished / "run" / "model.safetensors").read_bytes())
    return tmp_path / "m.safetensors"


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def make_newer(path: Path) -> None:
    tensors, metadata = read_tensors(path)
    write_tensors(path, tensors, metadata | {"format_version": 99})


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "it cannot be read"),
        (lambda path: path.write_bytes(b"not a model"), "it cannot be read"),
        (lambda path: write_tensors(path, {"a": torch.zeros(1)}, {}), "safetensors file of another kind"),
        (flip_a_bit, "must match its own digest"),
        (make_newer, "must have format version at most 2; got 99"),
        (Path.unlink, "must be a file; there is none"),
    ],
    ids=["truncated", "text", "foreign", "tampered", "newer", "absent"],
)
def test_bad_model_files(finished: Path, model_file: Path, run: Command, damage, fragment: str) -> None:
    damage(model_file)
    out = model_file.with_name("out.csv")
    assert_refused(run("info", model_file), fragment)
    spec = f"{finished}/cart_physics.py:frictionless"
    assert_refused(run("certify", model_file, "--trusted", spec, "--out", out), fragment)
    assert_refused(run("predict", model_file, "--data", finished / "cart.csv", "--out", out), fragment)
    assert not out.exists()


def test_a_model_without_a_tether_cannot_be_certified(finished: Path, tmp_path: Path, run: Command) -> None:
    model = tether.load(finished / "run" / "model.safetensors")
    tether.save(unconstrained_model(model.network, model.frame), tmp_path / "bare.safetensors")
    spec = f"{finished}/cart_physics.py:frictionless"
    assert_refused(run("certify", tmp_path / "bare.safetensors", "--trusted", spec), "no tether to certify")
    assert run("info", tmp_path / "bare.safetensors").code == 0


def test_a_direct_model(finished: Path, tmp_path: Path, run: Command) -> None:
    """`info` shows it without the trusted model; the other verbs ask it."""
    learned = tether.load(finished / "run" / "model.safetensors")
    spec = f"{finished}/cart_physics.py:frictionless"
    model = tmp_path / "direct.safetensors"
    tether.save(
        direct_model(learned.network, learned.frame, tether.load_trusted(spec), np.array([0.1, np.inf])),
        model,
    )
    outcome = run("info", model)
    assert outcome.code == 0 and "direct: the trusted model at run time" in outcome.out
    assert "x [m] 0.1 at most, v [m/s] inf at most" in " ".join(outcome.out.split())
    data, out = finished / "cart.csv", tmp_path / "out.csv"
    arguments = ["predict", model, "--data", data, "--out", out]
    assert_refused(run(*arguments), "must be loaded with its trusted model", "`--trusted`")
    assert not out.exists()
    assert run(*arguments, "--trusted", spec).code == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["in_domain"] for row in rows} == {"1"}
    assert all(abs(float(row["delta_x"]) - 0.1) < 1e-9 for row in rows)
    for verb in ("certify", "attack"):
        assert_refused(run(verb, model, "--trusted", spec), "must be a constrained model; this one has no")
    bounded = tmp_path / "bounded.safetensors"
    tether.save(
        direct_model(learned.network, learned.frame, tether.load_trusted(spec), np.array([0.1, 0.2])), bounded
    )
    outcome = run("certify", bounded, "--trusted", spec, "--out", tmp_path / "said.json")
    assert outcome.code == 0 and "Domain: every finite input." in outcome.out
    outcome = run("verify", bounded, "--trusted", spec, "--certificate", tmp_path / "said.json")
    assert outcome.code == 0 and "verified: 7 recorded answers, evidence `proved`" in outcome.out
    outcome = run("attack", bounded, "--trusted", spec, "--evaluations", "1000")
    assert outcome.code == 0 and "evidence level proved" in outcome.out


def test_certify_against_a_model_of_another_shape(finished: Path, tmp_path: Path, run: Command) -> None:
    (tmp_path / "m.py").write_text(BAD_MODELS)
    outcome = run("certify", finished / "run", "--trusted", f"{tmp_path}/m.py:narrow")
    assert_refused(outcome, "`trusted` must return shape (6, 2)")


@pytest.mark.parametrize(
    ("header", "rows", "fragment"),
    [
        (["x", "v"], [[1, 2]], "`data` must have a column 'u'; got x, v"),
        (["x", "v", "u"], [[1, 2, "nan"]], "`data` must be finite; got nan at row 0, column 'u'"),
        (["x", "v", "u"], [], "`probes` must have at least one row"),
    ],
)
def test_predict_with_bad_inputs(
    finished: Path, tmp_path: Path, run: Command, header, rows, fragment
) -> None:
    data = write_csv(tmp_path / "in.csv", header, rows)
    outcome = run("predict", finished / "run", "--data", data, "--out", tmp_path / "p.csv")
    assert_refused(outcome, fragment)
    assert not (tmp_path / "p.csv").exists()


def test_rows_outside_the_domain(finished: Path, tmp_path: Path, run: Command) -> None:
    data = write_csv(tmp_path / "in.csv", ["x", "v", "u"], [[0, 0, 0], [1e3, 1, 2]])
    command = ["predict", finished / "run", "--data", data, "--out"]
    outcome = run(*command, tmp_path / "flag.csv")
    assert outcome.code == 0
    assert "2 predictions, 1 outside the domain" in outcome.out
    assert_refused(
        run(*command, tmp_path / "p.csv", "--outside", "raise"), "1 of 2 rows outside (first: row 1)"
    )
    assert_refused(run(*command, tmp_path / "p.csv", "--outside", "fallback"), "must have the trusted model")
    assert not (tmp_path / "p.csv").exists()
    spec = f"{finished}/cart_physics.py:frictionless"
    assert run(*command, tmp_path / "back.csv", "--outside", "fallback", "--trusted", spec).code == 0
    last = (tmp_path / "back.csv").read_text().splitlines()[-1].split(",")
    assert [float(value) for value in last[:2]] == [1e3 + 0.1, 1.2]


# --- killed and resumed

DRIVER = """
import functools, os, signal
import tether.cli, tether.files.runs

# A checkpoint at every evaluation, as if each took ten seconds.
import tether.learning.config as config
config.TrainingConfig = functools.partial(config.TrainingConfig, checkpoint_seconds=0.0)
write = tether.files.runs.RunFolder.note

def note(self, method, evaluations):
    write(self, method, evaluations)
    if os.environ.get("KILL") and method == "Constrained" and len(evaluations) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

tether.files.runs.RunFolder.note = note
tether.cli.main()
"""


def test_a_run_killed_in_mid_training_resumes_to_the_same_metrics(finished: Path, run: Command) -> None:
    arguments = fit_arguments(Path("cart.csv"), "cart_physics.py:frictionless", Path("killed"))
    arguments += ["--evidence", "sampled"]
    folder = finished / "killed"

    def drive(*extra: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", DRIVER, *arguments, *extra],
            cwd=finished, env=ONE_THREAD | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    whole = (finished / "run" / "metrics.jsonl").read_bytes()
    assert drive(KILL="yes").returncode == -signal.SIGKILL
    assert not (folder / "results.json").exists()
    metrics = (folder / "metrics.jsonl").read_bytes()
    assert whole.startswith(metrics) and metrics.count(b"\n") == 11
    checkpoint = read_tensors(folder / "checkpoints" / "constrained.safetensors")[1]
    assert checkpoint["step"] == 200

    absolute = fit_arguments(finished / "cart.csv", f"{finished}/cart_physics.py:frictionless", folder)
    assert_refused(run(*absolute), "must be new or empty")
    outcome = run(*absolute, "--resume", "--learning-rate", "0.5")
    assert_refused(
        outcome, "must be resumed with the settings it was started with", "tether fit --data cart.csv"
    )
    assert (folder / "metrics.jsonl").read_bytes() == metrics

    resumed = drive("--resume")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert (folder / "metrics.jsonl").read_bytes() == whole
    assert {path.name for path in folder.iterdir()} == RUN_FILES
    first, second = (read_tensors(place / "model.safetensors")[0] for place in (finished / "run", folder))
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert "--resume" not in results(folder)["command"]


# --- the configuration file


def test_settings_survive_toml() -> None:
    values = {
        "memories": 3, "target": None, "hidden": [1, 2], "rate": 1e-30, "huge": 1e30, "yes": True,
        "word": 'a "b" \\',
        "domain": {"plain": (0.0, 1.0), "load [kg]": 2.0, "θ": (-1.0, 1.0), "a.b": 1.0, 'q"': 0.5},
    }  # fmt: skip
    expected = json.loads(json.dumps(values))
    del expected["target"]
    assert tomllib.loads(to_toml(values)) == expected


@pytest.fixture
def dosed(tmp_path: Path) -> list[str]:
    """Arguments of a fit in which a dose must not raise the level."""
    rng = np.random.default_rng(0)
    rows, level = [], 1.0
    for k in range(200):
        dose, food = rng.uniform(0, 1, 2)
        rows.append([k // 20, level, dose, food])
        level = 0.9 * level - 0.5 * dose * (1 + 0.2 * np.tanh(level)) + 0.3 * food + 0.1
    write_csv(tmp_path / "dosed.csv", ["run", "level", "dose", "food"], rows)
    source = "import tether\nM = tether.AffineModel([[0.9, -0.5, 0.3]], [0.1])\n\n\ndef other(x, u):\n    return M(x, u)\n"
    (tmp_path / "dosed.py").write_text(source)
    columns = ["--states", "level", "--controls", "dose,food", "--episode", "run"]
    return ["fit", "--data", tmp_path / "dosed.csv", *columns, *TINY, "--out", tmp_path / "out"]


def test_decreasing_end_to_end(run: Command, dosed: list[str], tmp_path: Path) -> None:
    out, trusted = tmp_path / "out", ["--trusted", f"{tmp_path / 'dosed.py'}:M"]
    fitted = run(*dosed, *trusted, "--bounds", "affine", "--decreasing", "dose")
    assert fitted.code == 0, fitted.err
    assert (
        "never raises the prediction" in " ".join(fitted.out.split())
        and "Declared inputs: dose." in fitted.out
    )
    assert "Vanilla Δ" in fitted.out
    assert {path.name for path in out.iterdir()} == RUN_FILES
    assert json.loads((out / "certificate.json").read_text())["monotonicity"]["declared"] == ["dose"]
    assert "monotone by construction, 6 memories" in run("info", out).out
    certified = run("certify", out, *trusted, "--out", tmp_path / "again.json")
    assert certified.code == 0 and "Evidence level: proved" in certified.out
    attacked = run("attack", out, *trusted, "--evaluations", 1000)
    assert attacked.code == 0
    assert "any weights can reach is" in attacked.out
    assert "  " not in attacked.out, "without a unit there is nothing, not even a blank, in its place"
    predicted = run("predict", out, "--data", tmp_path / "dosed.csv", "--out", tmp_path / "predicted.csv")
    assert predicted.code == 0 and "0 outside the domain" in predicted.out
    assert run("report", out, "--out", tmp_path / "again.html").code == 0
    verified = run("verify", out, *trusted)
    assert verified.code == 0, verified.err
    assert "Not vouched for: monotonicity (its premises hold in the file" in verified.out.replace("\n", " ")
    other = run("certify", out, "--trusted", f"{tmp_path / 'dosed.py'}:other")
    assert other.code == 1 and "must be the `tether.AffineModel`" in other.err


TABLE = """
import numpy as np


def table(states, controls):
    drag = 0.1 * np.sinc(states[:, 1])
    return states + 0.1 * np.stack([states[:, 1], controls[:, 0] - drag], axis=1)
"""


@pytest.mark.parametrize("bounds", ["affine", "interval"])
def test_the_evidence_that_was_taken_and_why(
    cart_csv: Path, tmp_path: Path, run: Command, bounds: str
) -> None:
    """In the terminal, in `info`, in the certificate and on the page; and `verify` knows the word."""
    (tmp_path / "m.py").write_text(TABLE)
    spec, out = f"{tmp_path / 'm.py'}:table", tmp_path / "out"
    columns = ["--states", "x,v", "--controls", "u", "--episode", "episode", "--bounds", bounds]
    fitted = run("fit", "--data", cart_csv, *columns, *TINY, "--trusted", spec, "--out", out)
    assert fitted.code == 0, fitted.err
    why = "statistical, because M (table) cannot be proved: `sinc` cannot be bounded over a box."
    assert f"Evidence: {why}" in " ".join(fitted.out.split()) and "(m.py:6)" in fitted.out
    assert f"evidence {why}" in " ".join(run("info", out).out.split())
    assert f"Evidence: {why}" in " ".join(run("certify", out, "--trusted", spec).out.split())
    coded = why.replace("`sinc`", "<code>sinc</code>")
    assert f"Evidence: {coded}" in (out / "report.html").read_text()
    assert run("verify", out, "--trusted", spec).code == 0
    said = json.loads((out / "certificate.json").read_text())
    (out / "certificate.json").write_text(json.dumps(said | {"why": None}))
    refused = run("verify", out, "--trusted", spec)
    assert refused.code == 1 and "`why` of `certificate.json` is None" in " ".join(refused.err.split())


def test_decreasing_refused(run: Command, dosed: list[str], tmp_path: Path) -> None:
    spec = f"{tmp_path / 'dosed.py'}"
    for arguments, message in (
        (
            ["--trusted", f"{spec}:M", "--bounds", "interval", "--decreasing", "dose"],
            "must come with bounds 'affine'",
        ),
        (
            ["--trusted", f"{spec}:M", "--bounds", "affine", "--decreasing", "food"],
            "weights in M are at most 0",
        ),
        (["--trusted", f"{spec}:M", "--bounds", "affine", "--decreasing", "drug"], "must name inputs"),
        (
            ["--trusted", f"{spec}:other", "--bounds", "affine", "--decreasing", "dose"],
            "affine trusted model",
        ),
    ):
        refused = run(*dosed, *arguments)
        assert refused.code == 2 and message in refused.err.replace("\n", " "), refused.err
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("code", ["import tether", "from tether.cli import main; main()"])
def test_nothing_slow_is_imported_before_it_is_needed(code: str) -> None:
    heavy = "torch", "numba", "numpy", "matplotlib", "joblib", "flint"
    told = f"import atexit, sys; atexit.register(lambda: print([m for m in {heavy} if m in sys.modules]))"
    command = [sys.executable, "-c", f"{told}; {code}", "--help"]
    ended = subprocess.run(command, env=ONE_THREAD, capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("[]\n"), ended.stdout
