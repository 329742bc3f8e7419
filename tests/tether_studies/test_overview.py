"""How far a number of runs are, read off the files they leave."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from tether_studies.cli.watching import watching
from tether_studies.overview import Overview, Watcher
from tether_studies.registry import find_study
from tether_studies.reproduction import plan_reproduction, reproduce
from tether_studies.tasks import Plan, open_folder, tasks_of


@pytest.fixture
def tasks(tmp_path):
    plan = Plan("drones", "smoke", (0,), {})
    open_folder(plan, tmp_path / "drones")
    return [task for stage in tasks_of(plan, tmp_path / "drones") for task in stage]


def test_what_is_done_runs_and_failed(tasks):
    watcher = Watcher(tasks)
    nothing = watcher.look()
    assert nothing == Overview({"drones": (0, 0, len(tasks))}, (), 0.0, None)
    tasks[0].result.write_bytes(b"data")
    tasks[1].progress.write_text(json.dumps({"share": 0.25}))
    tasks[2].failure.write_text("no")
    later = watcher.look()
    assert later.studies == {"drones": (1, 1, len(tasks))}
    assert later.running == ((tasks[1].name, 0.25),)
    work = [task.work for task in tasks]
    assert later.share == pytest.approx((work[0] + 0.25 * work[1] + work[2]) / sum(work))
    assert later.seconds_left is not None and later.seconds_left > 0


def test_half_written_progress_is_no_progress(tasks):
    tasks[1].progress.write_text('{"share"')
    assert Watcher(tasks).look().running == ()


def test_wide_networks_weigh_more(tmp_path):
    work = [
        max(task.work for task in tasks_of(Plan("drones", scale, (0,), {}), tmp_path)[1])
        for scale in ("smoke", "paper")
    ]
    assert work[1] > 20 * work[0]


def test_lines_where_nobody_watches():
    stream = io.StringIO()
    overview = Overview({"drones": (3, 1, 12)}, (("drones: Vanilla, seed 0", 0.5),), 0.4, 75.0)
    with watching(Console(file=stream, width=200)) as watch:
        watch(overview)
        watch(overview)
    assert stream.getvalue().count("\n") == 1, "a line now and then, not one for every look"
    assert (
        "40% (drones 3/12 (1 failed)), 1 min 15 s left; running: drones: Vanilla, seed 0 50%"
        in stream.getvalue()
    )


def test_a_picture_on_a_terminal():
    stream = io.StringIO()
    overview = Overview({"drones": (3, 1, 12)}, (("drones: Vanilla, seed 0", 0.5),), 0.4, None)
    with watching(Console(file=stream, width=100, force_terminal=True)) as watch:
        watch(overview)
    for text in ("3 of 12 done, 1 failed", "Vanilla, seed 0", "time left not known yet"):
        assert text in stream.getvalue()


def test_a_reproduction_leaves_other_files_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="must be new, empty or a reproduction to continue"):
        reproduce(plan_reproduction("smoke", [0], tmp_path), jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_traces_are_a_study_of_their_own(tmp_path):
    plans = plan_reproduction("smoke", [0, 1], tmp_path, traces="traces").plans
    assert plans["pancreas-traces"] == Plan("pancreas", "smoke", (0, 1), {"traces": "traces"})
    assert "drones" in plans and plans["drones"].options == {}
    assert plans["vehicle-patch"].options == {"omega": "patch"} and "drones-authors" not in plans


def test_every_chapter_tells_of_an_ablation_on_whatever_data_there_are(tmp_path):
    asked = plan_reproduction("smoke", [3], tmp_path, traces="t", flights="f")
    options = {name: plan.options for name, plan in asked.ablations.items()}
    theirs = {"vehicle": {"omega": "patch"}, "pancreas": {"traces": "t"}, "drones": {"flights": "f"}}
    assert options == theirs and {plan.part for plan in asked.ablations.values()} == {"ablation"}
    assert asked.ablation_of("vehicle-patch", []) == [] and "drones-authors" in asked.plans


@pytest.mark.parametrize("after", ["the mark", "half a mark"])
def test_a_study_killed_while_its_folder_is_made_goes_on(tmp_path, monkeypatch, after):
    plan, folder = Plan("drones", "smoke", (0,), {}), tmp_path / "drones"

    def killed(path, content):
        name = "study.json" if after == "the mark" else ".study.json.x7k2"
        path.with_name(name).write_text(json.dumps(content))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tether_studies.tasks.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            open_folder(plan, folder)
    open_folder(plan, folder)
    assert {"study.json", "data", "runs", "progress", "checkpoints"} <= {p.name for p in folder.iterdir()}


def test_a_reproduction_without_a_simulator_leaves_nothing(tmp_path, monkeypatch):
    missing = replace(find_study("drones"), needs=("no_such_simulator", "drones"))
    found = {name: find_study(name) for name in ("vehicle", "pancreas")} | {"drones": missing}
    monkeypatch.setattr("tether_studies.tasks.find_study", lambda name: replace(found[name]))
    with pytest.raises(ValueError, match="must have the package no_such_simulator"):
        reproduce(plan_reproduction("smoke", [0], tmp_path / "all"), jobs=1)
    assert not (tmp_path / "all").exists()
