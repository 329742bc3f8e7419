"""Searches look at validation rows alone; ablations tell what each change does; both write what they found."""

from __future__ import annotations

from pathlib import Path

from tether_studies.runner import _perform, outcome_of
from tether_studies.study import Outcome
from tether_studies.summary import _follows_lines, study_command, write_ablation, write_search
from tether_studies.tasks import Plan, open_folder, tasks_of
from tether_studies.trying import AUTHORS, OURS, ablation_plans, ablation_stages

PLAN = Plan("pancreas", "smoke", (0,), {})


def _run(tasks) -> None:
    for task in tasks:
        _perform(task)
        assert task.done, task.failure.read_text()


def test_a_search_chooses_by_validation_rows(tmp_path):
    plan = Plan("pancreas", "smoke", (0,), {}, "search")
    open_folder(plan, tmp_path)
    data, tasks = tasks_of(plan, tmp_path)
    tried = [
        task for task in tasks if task.row.method.name.startswith(("Vanilla @", "Constrained (paper) @"))
    ]
    assert len(tried) == 8 and len(tasks) == 16 * 4, "two rates, two numbers of steps"
    _run([*data, *tried])
    runs = outcome_of(plan, tmp_path).runs
    assert all(not {"approximation_loss_D", "rmse"} & set(run) for run in runs), (
        "no row of the test is looked at"
    )
    section = write_search(plan, tmp_path, command=study_command(plan, tmp_path))
    assert len(section.grids[0].rows) == 8
    lines = (tmp_path / "chosen.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines] == [
        ["pancreas", "Vanilla"],
        ["pancreas", "Constrained (paper)"],
    ]
    text = (tmp_path / "search.md").read_text()
    assert "tether study pancreas --scale smoke --seeds 0 --search --out" in text and text.count("✓") == 2
    assert "What choosing by the error on D alone costs on Ω" in text


def test_an_ablation_changes_one_thing_after_the_other(tmp_path):
    data, tasks = ablation_stages(PLAN, tmp_path)
    assert len(tasks) == 7 and {task.folder.name for task in tasks} == {"ours"}
    _run([*data, *tasks])
    section = write_ablation(PLAN, tmp_path, command="tether study pancreas --ablation --out here")
    factors = [row[0].split(":")[0] for row in section.grids[0].rows]
    assert factors == ["operator", "sampling", "loss", "target", "gas"]
    table = (tmp_path / "ablation.md").read_text()
    assert "| operator: sigmoid → clip |" in table and (tmp_path / "ablation.svg").stat().st_size > 0
    widths = {row[:5]: float(row[-2]) for row in section.grids[1].rows}
    authors = widths["sigmoid", "authors", "fixed", "next_state", "at once"]
    assert authors < 0.5 * widths["sigmoid", "climbed", "fixed", "next_state", "at once"], (
        "far narrower limits"
    )


def test_whose_data_an_ablation_is_of():
    patch = ablation_plans(Plan("vehicle", "paper", (3,), {}), Path("out"))
    assert {omega: plan.options for omega, (plan, _) in patch.items()} == {
        OURS: {},
        AUTHORS: {"omega": "patch"},
    }
    assert {plan.seeds for plan, _ in patch.values()} == {(0,)}, "a seed that no table uses"
    flights = ablation_plans(Plan("drones", "paper", (3,), {"flights": "there"}), Path("out"))
    assert [plan.options for plan, _ in flights.values()] == [{}, {"flights": "there"}]
    assert list(ablation_plans(Plan("drones", "paper", (3,), {}), Path("out"))) == [OURS]


def test_what_follows_m_by_construction_is_said_where_the_number_stands():
    runs = [
        {"method": method, "memories": None, "seed": 0, "constraint_loss_omega_max": worst}
        for method, worst in (("Trusted", 0.0), ("Direct", 0.0), ("Tethered", 1e-25), ("Tethered Δ", 1e-3))
    ]
    (line,) = _follows_lines(Outcome("smoke", runs, {}))
    assert line.startswith("Tethered: 0, or rounding, on Ω by construction")
    assert not _follows_lines(Outcome("smoke", runs[:2], {}))


def test_a_study_without_a_matrix_is_not_searched():
    assert not Plan("vehicle-rich", "smoke", (0,), {}, "search").entries
    assert not Plan("vehicle-rich", "smoke", (0,), {}, "ablation").entries
