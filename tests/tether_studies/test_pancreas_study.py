"""The pancreas study at smoke scale through the runner, its options, sections and verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tether_studies.pancreas.claims import pancreas_claims
from tether_studies.pancreas.study import STUDY
from tether_studies.registry import find_study
from tether_studies.runner import outcome_of, run_all
from tether_studies.study import Entry, Outcome
from tether_studies.summary import study_command, write_summary
from tether_studies.tasks import Plan, open_folder, tasks_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan("pancreas", "smoke", (0,), {"patient": "adult#002"})


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "pancreas"
    open_folder(plan, folder)
    failed = run_all(tasks_of(plan, folder), jobs=1)  # one process imports and compiles once
    assert not failed, failed[0].failure.read_text()
    write_summary(plan, folder, command=study_command(plan, folder), failed=failed)
    return folder


def test_every_method_is_there_and_tethers_are_certified(finished) -> None:
    results = json.loads((finished / "results.json").read_text())
    assert "--patient 'adult#002'" in results["command"]
    runs = {run["method"]: run for run in results["runs"]}
    assert set(runs) >= {"Trusted", "Vanilla", "Vanilla Δ", "Residual", "Augmented Lagrangian", "Constrained",
                         "Tethered", "Tethered, monotone", "Direct"}  # fmt: skip
    for name in ("Tethered", "Tethered, monotone"):
        run = runs[name]
        assert (run["evidence_level"], run["coverage_D"], run["coverage_omega"]) == ("proved", 1.0, 1.0)
        assert run["attack_max_ratio"] <= 1 and run["certificate"]["certified"]
        # M is followed to the last digits wherever probes lie.
        assert run["constraint_loss_omega_max"] < 1e-20
    monotone = runs["Tethered, monotone"]
    assert monotone["memories"] == 100 and monotone["monotonicity_attack_pairs"] == 50_000
    rises = [value for key, value in monotone.items() if "rise" in key or "attack_largest" in key]
    assert len(rises) >= 9 and set(rises) == {0}
    assert runs["Vanilla"]["monotonicity_rise_max"] > 0


def test_report_has_the_studys_own_sections(finished) -> None:
    page, summary = (finished / "report.html").read_text(), (finished / "summary.md").read_text()
    for title in ("The trusted model", "Delta-monotonicity", "Clinical view"):
        assert title in page and title in summary
    assert "authors" not in summary, "their figures are of other data"
    for name in ("armax", "rises", "error_grid", "patient_day", "patient_day_monotone"):
        assert (finished / f"{name}.svg").stat().st_size > 0 and f"({name}.svg)" in summary


def test_claims_take_the_least_favourable_number_of_memories(plan, finished) -> None:
    outcome = outcome_of(plan, finished)
    runs = list(outcome.runs)
    tethered = next(run for run in runs if run["method"] == "Tethered")
    worse = tethered | {"memories": 200, "approximation_loss_D": 1e9}
    claims = pancreas_claims(replace(outcome, runs=[*runs, worse]))
    errors = [claim for claim in claims if claim.said.startswith("Tethered's error on D is below")]
    assert len(errors) == 7 and not any(claim.holds for claim in errors)
    never = next(claim for claim in claims if "never rises" in claim.said)
    assert never.holds and "0 of 50,000 attacking pairs rose" in never.measured


def test_a_rise_or_too_few_pairs_refute_the_monotone_claim(plan, finished) -> None:
    outcome = outcome_of(plan, finished)

    def verdict(outcome: Outcome) -> bool:
        return next(claim for claim in pancreas_claims(outcome) if "never rises" in claim.said).holds

    risen = [run | {"monotonicity_rise_max_every_lag": 1e-300} for run in outcome.runs]
    assert verdict(outcome)
    assert not verdict(replace(outcome, runs=risen))
    assert not verdict(replace(outcome, scale="paper"))


def test_authors_figures_stand_beside_ours_on_their_traces_only(plan, finished) -> None:
    outcome = outcome_of(plan, finished)
    texts = [claim.measured for claim in pancreas_claims(outcome)]
    assert not any("the authors" in text for text in texts)
    runs = [
        run | {"memories": 1000} if run["method"] == "Constrained (paper)" else run for run in outcome.runs
    ]
    traces = replace(outcome, runs=runs, options={"traces": "there"})
    texts = [claim.measured for claim in pancreas_claims(traces)]
    assert any("(the authors: 0.0092 against 1.25)" in text for text in texts), "of Lagrangian (paper)"


def test_options_are_checked_before_anything_is_made(tmp_path) -> None:
    out = tmp_path / "new"
    for options, message in (
        ({"patient": "adult#011"}, "`patient` must be one of adolescent#001"),
        ({"traces": str(tmp_path / "none")}, "`traces` must be a folder; there is none at"),
        ({"traces": str(tmp_path)}, "`traces` must hold Glucose_data_above150.csv"),
        ({"patient": "adult#001", "traces": str(tmp_path)}, "`--patient` must be left out with `--traces`"),
        ({"weather": "fine"}, r"must be among its own \(`--patient`, `--traces`\); got `--weather`"),
    ):
        with pytest.raises(ValueError, match=message):
            open_folder(Plan("pancreas", "smoke", (0,), options), out)
    with pytest.raises(
        ValueError, match=r"options of the study 'drones' must be among its own \(`--flights`\)"
    ):
        open_folder(Plan("drones", "smoke", (0,), {"patient": "adult#001"}), out)
    assert not out.exists()


def test_traces_in_the_authors_format(tmp_path) -> None:
    rng = np.random.default_rng(0)
    for name, rows in (("above150", 30), ("zeroCarbs", 30)):
        for signal in ("Glucose", "Insulin", "meal"):
            np.savetxt(tmp_path / f"{signal}_data_{name}.csv", rng.uniform(1, 3, (rows, 40)), delimiter=",")
    options = {"traces": str(tmp_path)}
    STUDY.check_options(options)
    smoke, paper = (STUDY.simulate(scale, 0, options, lambda title: None) for scale in ("smoke", "paper"))  # type: ignore[arg-type]
    assert (
        len(np.unique(smoke.transitions.episodes)) == 19 and len(np.unique(paper.transitions.episodes)) == 28
    )
    config = STUDY.with_options(options).config("paper")
    split = paper.transitions.split(validation=config.validation, test=config.test)
    assert [len(np.unique(part.episodes)) for part in (split.train, split.validation, split.test)] == [
        22,
        3,
        3,
    ]
    assert smoke.transitions.schema.unit("insulin_0") == "mode"


def test_paper_scale_runs_what_the_paper_ran() -> None:
    entries = find_study("pancreas").entries("paper")
    names = [entry.name for entry in entries]
    for method in ("Constrained", "Constrained (paper)"):
        assert [f"{method} ({count})" in names for count in (1000, 1500, 2000)] == [True] * 3
    assert "Tethered, monotone (1500)" in names
    constrained = next(entry for entry in entries if entry.method.name == "Constrained")
    config = constrained.config(STUDY.config("paper"), 0)
    assert (config.training.gamma, config.bounds, config.hidden) == (0.99, "interval", (20, 20, 20))
    assert {entry.steps for entry in STUDY.searched("paper")} == {30_000}, "nobody may take fewer"


def test_an_entry_changes_training_too() -> None:
    entry = Entry(STUDY.entries("smoke")[0].method, 7, training={"gamma": 0.5})
    config = entry.config(STUDY.config("smoke"), 3)
    assert (config.training.steps, config.training.gamma, config.seed) == (7, 0.5, 3)
