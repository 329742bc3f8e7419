"""Studies: every run in its own process and files, failures shown, an interrupted study continued."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tether.cli.running import run
from tether.evidence import SamplingConfig
from tether.fitting import VANILLA
from tether.foundation.atomic import write_tensors
from tether.report.seeds import seeds_grid
from tether_studies.registry import find_study
from tether_studies.runner import outcome_of, run_all
from tether_studies.study import Entry
from tether_studies.summary import claim_lines, study_command, write_summary
from tether_studies.tasks import Plan, open_folder, tasks_of

FEWER_LEAVES = """
from dataclasses import replace
import tether_studies.drones.study as drones
from tether.cli import main
config = drones.STUDY.config
drones.STUDY = replace(drones.STUDY, config=lambda scale: replace(config(scale), leaves=200))
main()
"""


def refused(capfd, *arguments):
    """What a study that ends with code 2 says."""
    assert run(["study", *map(str, arguments)]) == 2
    return capfd.readouterr().err


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A smoke study of the drones, killed at its beginning and then continued, with coarser tethers."""
    folder = tmp_path_factory.mktemp("study") / "drones"
    command = [sys.executable, "-m", "tether.cli", "study", "drones", "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while len(list(folder.glob("runs/*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*.json")}
    assert len(kept) >= 2 and not (folder / "results.json").exists()
    # In one process, for the patch: workers would import the study as it is.
    command = [sys.executable, "-c", FEWER_LEAVES, "study", "drones", "--out", str(folder), "--jobs", "1"]
    again = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=600)
    return folder, kept, again


def test_a_killed_study_goes_on(finished):
    folder, kept, again = finished
    assert again.returncode == 0, again.stdout + again.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "finished runs are not run again"
    assert "report: " in again.stdout and "✓ holds" in again.stdout
    for name in ("results.json", "report.html", "curves.png", "bars.svg", "plane.png"):
        assert (folder / name).stat().st_size > 0
    assert not list(folder.glob("checkpoints/*"))


def test_results_have_every_key_of_the_design(finished):
    results = json.loads((finished[0] / "results.json").read_text())
    assert (
        results["name"] == "drones" and results["scale"] == "smoke" and "study drones" in results["command"]
    )
    methods = {run["method"] for run in results["runs"]}
    assert methods >= {"Trusted", "Vanilla", "Vanilla Δ", "Residual", "Augmented Lagrangian", "Constrained",
                       "HardNet", "Tethered", "Direct"}  # fmt: skip
    tethered = next(run for run in results["runs"] if run["method"] == "Tethered")
    keys = {"approximation_loss_D", "constraint_loss_omega_max", "delta_certified", "evidence_level",
            "coverage_D", "tether_miss_D", "attack_max_ratio", "seconds_bounds", "hover_deviation"}  # fmt: skip
    assert keys <= set(tethered)
    assert tethered["evidence_level"] == "proved" and tethered["attack_max_ratio"] <= 1


def test_another_plan_is_refused(finished, capfd):
    told = refused(capfd, "drones", "--scale", "paper", "--out", finished[0])
    assert "must hold this study to continue it; it holds drones at scale smoke" in told
    assert len(told.strip().splitlines()) == 1


def test_other_files_are_left_alone(tmp_path, capfd):
    (tmp_path / "notes.txt").write_text("mine")
    assert "must be new, empty or a study to continue" in refused(capfd, "drones", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_unknown_study(tmp_path, capfd):
    told = refused(capfd, "submarines", "--out", tmp_path / "new")
    assert "the study must be one of vehicle, " in told
    assert not (tmp_path / "new").exists()


def test_a_failed_run_does_not_stop_the_others(finished, tmp_path):
    """One run's data are damaged while it waits: it is shown as failed, and the summary is still made."""
    folder = finished[0]
    plan = Plan("drones", "smoke", (0,), {})
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(folder), str(copy)], check=True)
    open_folder(plan, copy)
    task = next(task for task in tasks_of(plan, copy)[1] if task.method_name == "Direct")
    task.result.unlink()
    good = (copy / "data" / "0.npz").read_bytes()
    (copy / "data" / "0.npz").write_bytes(b"damaged")
    failed = run_all(tasks_of(plan, copy), jobs=1)
    assert [t.method_name for t in failed] == ["Direct"] and task.failure.is_file()
    (copy / "data" / "0.npz").write_bytes(good)
    report = write_summary(plan, copy, command=study_command(plan, copy), failed=failed)
    assert "Failed runs" in report.read_text() and "no run ended of Direct" in report.read_text()


def test_a_run_of_other_settings_is_run_again(finished, tmp_path):
    folder, plan = finished[0], Plan("drones", "smoke", (0,), {})
    subprocess.run(["cp", "-r", str(folder), str(tmp_path / "copy")], check=True)
    task = next(t for t in tasks_of(plan, tmp_path / "copy")[1] if t.method_name == "Residual")
    assert task.done
    written = json.loads(task.result.read_text())
    task.result.write_text(
        json.dumps(written | {"settings": task.settings.replace("steps=200", "steps=100")})
    )
    assert not task.done
    assert not run_all(tasks_of(plan, tmp_path / "copy"), jobs=1) and task.done


@pytest.mark.parametrize("stale", ["other settings", "damaged"])
def test_a_checkpoint_of_other_settings_is_begun_anew(finished, tmp_path, stale):
    folder, plan = finished[0], Plan("drones", "smoke", (0,), {})
    subprocess.run(["cp", "-r", str(folder), str(tmp_path / "copy")], check=True)
    task = next(t for t in tasks_of(plan, tmp_path / "copy")[1] if t.method_name == "Residual")
    before = json.loads(task.result.read_text())
    task.result.unlink()
    if stale == "damaged":
        task.checkpoint.write_bytes(b"damaged")
    else:
        write_tensors(task.checkpoint, {"sums": torch.zeros(2)}, {"digest": "of another run", "step": 7})
    assert not run_all(tasks_of(plan, tmp_path / "copy"), jobs=1)
    after = json.loads(task.result.read_text())
    assert after["approximation_loss_D"] == before["approximation_loss_D"]
    assert not task.checkpoint.exists() and not task.failure.exists()


def test_settings_in_words_leave_defaults_out():
    entry = Entry(VANILLA, 5, changes={"sampling": SamplingConfig(refinements=7)})
    assert entry.settings.endswith("steps=5, changes={sampling: SamplingConfig(refinements=7)})")
    assert entry.settings != Entry(VANILLA, 6).settings


def test_a_missing_simulator_is_said_before_anything_is_run(tmp_path, monkeypatch):
    study_ = replace(find_study("drones"), needs=("no_such_simulator", "simulator==1"))
    monkeypatch.setattr("tether_studies.tasks.find_study", lambda name: study_)
    with pytest.raises(
        ValueError, match=r"must have the package no_such_simulator.*pip install simulator==1"
    ):
        open_folder(Plan("drones", "smoke", (0,), {}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_tables_over_seeds():
    runs = [
        {"method": "Vanilla", "memories": None, "seed": seed, "approximation_loss_D": 1.0 + seed}
        for seed in (0, 1)
    ]
    grid = seeds_grid(runs, {})
    # 95 %: 12.7 standard deviations of the mean of two.
    assert grid.rows[0][:2] == ("Vanilla", "1.5 ± 6.35")
    fewer = seeds_grid([*runs, runs[0] | {"method": "Direct"}], {})
    assert fewer.header[1] == "seeds" and "rows of one seed have none" in fewer.title
    assert [row[:3] for row in fewer.rows] == [("Vanilla", "2", "1.5 ± 6.35"), ("Direct", "1", "1")]


def test_claims_say_what_was_measured(finished):
    lines = claim_lines(
        find_study("drones").claims(outcome_of(Plan("drones", "smoke", (0,), {}), finished[0]))
    )
    assert all(line.startswith(("✓ holds: ", "✗ does not hold: ")) for line in lines)
    assert any("100 times below Vanilla's" in line for line in lines)


def test_the_command_makes_the_study_again():
    plan = Plan("drones", "paper", (0, 2), {})
    assert study_command(plan, Path("out")) == "tether study drones --scale paper --seeds 0,2 --out out"
