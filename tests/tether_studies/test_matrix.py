"""Every study has every method on both targets, with one budget; what a search chose; what an ablation says."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tether_studies import matrix
from tether_studies.ablation import FACTORS, ablation_section, combinations, effects, levelled
from tether_studies.claims import Said, paper_claims, reached_after
from tether_studies.matrix import Matrix, Setting
from tether_studies.registry import find_study
from tether_studies.searching import (
    RATES,
    best_settings,
    chosen_lines,
    search_entries,
    search_section,
    settings_of,
)
from tether_studies.study import Outcome
from tether_studies.tasks import Plan, tasks_of

METHODS = ("Vanilla", "Augmented Lagrangian", "Constrained", "HardNet", "Tethered", "Direct")
PAPER = ("Lagrangian (paper)", "Constrained (paper)", "Constrained (paper, AL)", "Constrained (paper, clip)")
ROWS = {*METHODS, *(f"{name} Δ" for name in METHODS), *PAPER}


@pytest.mark.parametrize("name", ["vehicle", "pancreas", "drones"])
@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_every_study_has_every_method_on_both_targets(name, scale):
    study = find_study(name)
    entries = study.entries(scale)
    assert {entry.method.name for entry in entries} >= ROWS
    assert len({entry.name for entry in entries}) == len(entries)
    configs = {entry.name: entry.config(study.config(scale), 3) for entry in entries}
    for entry in entries:
        config = configs[entry.name]
        assert config.hidden == study.config(scale).hidden, "one network for everybody"
        if entry.method.name in ROWS:
            target = "increment" if entry.method.name.endswith("Δ") else "next_state"
            assert entry.method.target == target
            assert entry.method.tether is None or config.target == target
    paper = [entry for entry in entries if entry.method.name == "Constrained (paper)"]
    assert [entry.memories for entry in paper] == sorted(entry.memories for entry in paper)
    for entry in paper:
        assert configs[entry.name].operator == "sigmoid"
        assert configs[entry.name].training.update_every > entry.steps, "weights stay what they are"
        assert configs[entry.name].training.gamma == (0.99 if name == "pancreas" else 0.0)


def test_the_papers_sizes():
    vehicle, drones, pancreas = (find_study(name) for name in ("vehicle", "drones", "pancreas"))
    counts = {
        name: [e.memories for e in study.entries("paper") if e.method.name == "Constrained (paper)"]
        for name, study in (("vehicle", vehicle), ("drones", drones), ("pancreas", pancreas))
    }
    assert counts == {
        "vehicle": [500, 1000, 2500],
        "drones": [800, 1000, 2000],
        "pancreas": [1000, 1500, 2000],
    }
    assert {entry.steps for entry in vehicle.entries("paper")} == {12_000}


def test_a_row_takes_what_was_chosen_for_it(monkeypatch):
    settings = {"Vanilla": Setting(0.03, 1 / 3), "Tethered Δ": Setting(0.003)}
    monkeypatch.setattr(matrix, "chosen_settings", lambda study: settings)
    entries = {entry.name: entry for entry in Matrix("drones", (10, 20), 300).entries()}
    assert (entries["Vanilla"].training["learning_rate"], entries["Vanilla"].steps) == (0.03, 100)
    assert (entries["Tethered Δ (20)"].training["learning_rate"], entries["Tethered Δ (20)"].steps) == (
        0.003,
        300,
    )
    assert "learning_rate" not in entries["Direct"].training


def test_what_was_chosen_is_of_rows_that_exist():
    from importlib.resources import files

    lines = list(csv.DictReader(files("tether_studies").joinpath("chosen.csv").read_text().splitlines()))
    assert {line["method"] for line in lines} <= ROWS
    assert {line["study"] for line in lines} <= {"vehicle", "pancreas", "pancreas-traces", "drones"}
    for line in lines:
        assert 1e-4 <= float(line["learning_rate"]) <= 0.1 and 0 < float(line["share"]) <= 1


@pytest.mark.parametrize("name", ["vehicle", "pancreas", "drones"])
def test_every_method_is_searched_as_much(name):
    study = find_study(name)
    entries = search_entries(study, "paper")
    tried = {}
    for entry in entries:
        method, rate, steps = settings_of({"method": entry.method.name})
        tried.setdefault(method, set()).add((rate, steps))
        assert entry.training["learning_rate"] == rate and entry.steps == steps
        assert "hidden" not in entry.changes  # the study's own, whose best rate is not that of a smaller one
    assert set(tried) == ROWS and len({frozenset(each) for each in tried.values()}) == 1
    assert {rate for rate, _ in tried["Vanilla"]} == set(RATES["paper"])


@pytest.mark.parametrize("name", ["vehicle", "pancreas", "drones"])
def test_what_was_chosen_does_not_change_a_second_search(name, monkeypatch):
    study = find_study(name)
    monkeypatch.setattr(matrix, "chosen_settings", lambda study: {})
    before = search_entries(study, "paper")
    settings = {method: Setting(0.05, 1 / 3) for method in ROWS}
    monkeypatch.setattr(matrix, "chosen_settings", lambda study: settings)
    assert {entry.training["learning_rate"] for entry in study.matrix("paper")} == {0.05}
    assert [entry.settings for entry in search_entries(study, "paper")] == [e.settings for e in before]


def test_the_smallest_validation_error_is_chosen():
    def run(method, rate, steps, error, omega=1.0):
        return {"method": f"{method} @ {rate:g} x {steps}", "validation_error": error, "best_step": 7,
                "constraint_loss_omega_mean": omega}  # fmt: skip

    runs = [run("Vanilla", 1e-3, 100, 3.0), run("Vanilla", 1e-2, 100, 1.0, 8.0),
            run("Vanilla", 1e-2, 300, 2.0, 0.5), run("Direct Δ", 1e-3, 300, 0.5),
            run("Direct Δ", 1e-1, 300, None, None)]  # fmt: skip
    assert best_settings(runs) == {"Vanilla": (1e-2, 1 / 3), "Direct Δ": (1e-3, 1.0)}
    assert chosen_lines("drones", runs) == "drones,Vanilla,0.01,0.3333\ndrones,Direct Δ,0.001,1\n"
    tried, cost = search_section(runs).grids
    assert [row[-1] for row in tried.rows] == ["", "✓", "", "✓", ""]
    assert [row[4] for row in tried.rows] == ["3", "1", "2", "1", ""], "over the least of the same method"
    assert tried.rows[-1][3] == "diverged" and "within a method only" in tried.title
    assert cost.rows[0] == ("Vanilla", "0.01, 100", "8", "0.01, 300", "0.5", "2")


def test_rows_of_a_trend_are_run_with_fewer_seeds(tmp_path):
    _, tasks = tasks_of(Plan("drones", "paper", (3, 4, 5), {}), tmp_path)
    seeds = {}
    for task in tasks:
        seeds.setdefault(task.method_name, []).append(task.seed)
    few = {name for name, own in seeds.items() if own == [3]}
    assert {"Constrained (800)", "Constrained (paper, AL) (2000)", "Tethered Δ (1000)", "Residual"} <= few
    whole = {name for name, own in seeds.items() if own == [3, 4, 5]}
    assert {"Trusted", "Vanilla", "Vanilla Δ", "Constrained (2000)", "Constrained Δ (2000)"} <= whole
    assert {"Constrained (paper) (800)", "Augmented Lagrangian Δ", "Tethered (1000)"} <= whole


def _ablated(orders):
    """Runs of a made-up loss: each change multiplies it by a power of ten."""
    runs = []
    for combination in combinations("paper"):
        changed = sum(
            orders[name] for name, pair in list(FACTORS.items())[:5]
            if getattr(combination, name) == pair[1]
        )  # fmt: skip
        losses = dict.fromkeys(("approximation_loss_D", "constraint_loss_omega_max"), 1.0)
        losses |= {"constraint_loss_omega_mean": 10.0**changed, "limits_half_width": 1.0}
        runs.append({"method": combination.name, "limits_trusted_outside": 0.1, **losses})
    return runs


def test_effects_are_told_apart():
    orders = {"operator": -1.0, "sampling": 2.0, "loss": -0.5, "target": -4.0, "gas": 0.0}
    theirs = _ablated(orders)
    ours = [{**run, "constraint_loss_omega_mean": 1e3 * run["constraint_loss_omega_mean"]} for run in theirs]
    found = effects(levelled(theirs, "the authors'") + levelled(ours, "ours"))
    told = {effect.factor.split(":")[0]: effect.orders["constraint_loss_omega_mean"] for effect in found}
    assert told == pytest.approx({**orders, "all data and M": 3.0})
    assert {effect.pairs for effect in found} == {32}
    both = ablation_section(levelled(theirs, "the authors'") + levelled(ours, "ours"), "Ω alone")
    assert (
        both.grids[0].rows[-1][0] == "Ω alone: the authors' → ours" and both.grids[1].header[5] == "Ω alone"
    )
    section = ablation_section(levelled(theirs, "ours"))
    assert len(section.grids[0].rows) == 5 and len(section.grids[1].rows) == 32
    assert "target: next_state → increment" in section.pictures[0].svg


def test_a_small_ablation_changes_one_thing_after_the_other():
    few = combinations("smoke")
    assert len(few) == 7 and len(combinations("paper")) == 32


def _outcome(**spoilt):
    """Runs in which everything that the paper says is so, but for what is spoilt."""
    end = {"Vanilla": 1e8, "Lagrangian (paper)": 1e8, "Constrained (paper)": 1.0}

    def run(method, memories=None, **values):
        far = end.get(method, 0.0)
        history = [{"step": s, "constraint_loss_omega_mean": far} for s in (10, 1000)]
        losses = {"approximation_loss_D": 1.0, "constraint_loss_D_mean": far, "steps": 1000,
                  "constraint_loss_omega_mean": far, "constraint_loss_omega_max": far}  # fmt: skip
        return {"method": method, "memories": memories, "seed": 3, "history": history, **losses, **values}

    runs = [run("Trusted", approximation_loss_D=2.0), run("Vanilla"), run("Lagrangian (paper)")]
    for count in (5, 9):
        values = {"constraint_loss_omega_mean": 10.0 / count, "constraint_loss_omega_max": 10.0 / count}
        runs.append(run("Constrained (paper)", count, **values))
    runs[-1] |= spoilt
    return Outcome("paper", runs, {})


def test_every_claim_of_the_paper_can_hold_and_fail():
    said = Said(mean=1e4, largest=1e3, up_to=1e6, on_data=10.0, within=25)
    good = paper_claims(_outcome(), said)
    assert len(good) == 14 and all(claim.holds for claim in good), [c for c in good if not c.holds]
    assert all(claim.said.startswith("The paper, of Constrained (paper) (9):") for claim in good[:-1])
    for spoilt, words in (
        ({"approximation_loss_D": 3.0}, "similar"),
        ({"constraint_loss_omega_mean": 1e5}, "on Ω, mean"),
        ({"constraint_loss_omega_max": 1e7}, "three orders of magnitude closer to M on Ω, worst"),
        ({"constraint_loss_omega_max": 1e3}, "up to six orders of magnitude closer to M on Ω, worst"),
        ({"constraint_loss_D_mean": 1e8}, "on D, mean"),
        ({"constraint_loss_omega_max": 2.5}, "improves with memories"),
        ({"history": [{"step": 30, "constraint_loss_omega_mean": 0.0}]}, "within 25 steps"),
        ({"history": [{"step": 10, "constraint_loss_omega_mean": 1e9}]}, "within 25 steps"),
    ):
        failed = [c.said for c in paper_claims(_outcome(**spoilt), said) if not c.holds]
        assert any(words in text for text in failed), (spoilt, failed)


def test_what_the_paper_says_of_another_study_is_not_called_its_claim():
    said = Said(mean=1.0, trend=False)
    asked = [c for c in paper_claims(_outcome(), said) if not c.said.startswith("The paper")]
    assert [claim.said.split(",")[0] for claim in asked] == [
        "As the paper says of the car and the drones",
        "As the paper says of the car",
    ]
    assert "within a tenth of its steps" in asked[1].said and asked[1].holds
    late = [{"step": 101, "constraint_loss_omega_mean": 0.0}]
    assert not paper_claims(_outcome(history=late), said)[-2].holds


def test_a_large_gain_from_the_last_memories():
    assert not paper_claims(_outcome(), Said(mean=1.0, leap=True))[-3].holds
    (leap,) = (
        c for c in paper_claims(_outcome(constraint_loss_omega_mean=0.1), Said(mean=1.0, leap=True))
        if "a large gain from 5 to 9 memories" in c.said
    )  # fmt: skip
    assert leap.holds and leap.measured.startswith("0.1 against 2")


def test_verdicts_say_that_they_rest_on_one_seed():
    outcome = _outcome()
    again = [run | {"seed": 4} for run in outcome.runs if run["memories"] != 5]
    claims = {
        c.said: c.measured for c in paper_claims(replace(outcome, runs=[*outcome.runs, *again]), Said(1.0))
    }
    trend = next(text for said, text in claims.items() if "improves with memories" in said)
    assert trend.endswith("(one seed alone, 3)")
    assert sum("seed" in text for text in claims.values()) == 1, "the others are of all seeds"
    three = [run | {"seed": 5} for run in outcome.runs if run["memories"] is None]
    claims = paper_claims(replace(outcome, runs=[*outcome.runs, *again, *three]), Said(1.0))
    assert sum(claim.measured.endswith("(seeds 3, 4)") for claim in claims) == len(claims) - 2


MEASURED = (
    "approximation_loss_D", "constraint_loss_D_mean", "constraint_loss_omega_mean",
    "constraint_loss_omega_max", "drift_at_rest_20", "drift_at_rest_50", "drift_poses_still",
    "drift_poses_max", "monotonicity_rise_max", "monotonicity_rise_mean", "monotonicity_attack_pairs",
    "monotonicity_attack_rises", "coverage_D", "coverage_omega", "attack_max_ratio", "attack_evaluations",
)  # fmt: skip


def _made_up(name, options):
    """Runs of every row of a study at paper scale, on the seeds it is run with."""
    deltas = {output: {"max": 1.0} for output in ("x", "y", "heading", "ahead", "left", "turn")}
    runs, often = [], find_study(name).with_options(options).config("paper").training.evaluate_every
    for task in tasks_of(Plan(name, "paper", (3, 4, 5), options), Path("nowhere"))[1]:
        row = None if task.entry == -1 else task.row
        steps = 0 if row is None else row.steps
        evaluated = range(often, steps + 1, often)
        history = [{"step": step, "constraint_loss_omega_mean": 1.0} for step in evaluated]
        told = {"method": task.method_name, "memories": None} if row is None else {
            "method": row.method.name, "memories": row.memories
        }  # fmt: skip
        runs.append(
            told | {"seed": task.seed, "steps": steps, "history": history, "delta_certified": deltas}
            | {"evidence_level": "proved", **dict.fromkeys(MEASURED, 1.0)}
        )  # fmt: skip
    return Outcome("paper", runs, options)


@pytest.mark.parametrize(
    ("name", "options", "within", "others", "alone"),
    [
        ("vehicle", {}, "within 300 steps", 0, True),
        ("vehicle", {"omega": "patch"}, "within 300 steps", 0, True),
        ("pancreas", {}, "within a tenth of its steps", 2, False),
        ("pancreas", {"traces": "there"}, "within a tenth of its steps", 2, False),
        ("drones", {}, "within a tenth of its steps", 1, True),
        ("drones", {"flights": "there"}, "within a tenth of its steps", 1, True),
    ],
)
def test_every_claim_of_a_study_is_judged_and_says_its_seeds(name, options, within, others, alone):
    study, outcome = find_study(name).with_options(options), _made_up(name, options)
    claims = study.claims(outcome)
    texts = [claim.said for claim in claims]
    assert len(set(texts)) >= len(texts) - 2, "each is said once, but for those that go on another (…)"
    assert all(claim.holds for claim in claims if within in claim.said), "they can hold"
    paper = [claim for claim in claims if "Constrained (paper) " in claim.said]
    assert sum(within in claim.said for claim in paper) == 1
    assert sum(claim.said.startswith("As the paper says of") for claim in paper) == others
    assert any("(one seed alone, 3)" in claim.measured for claim in claims) == alone
    if name == "drones":
        assert sum("six orders of magnitude closer to M on Ω, worst" in claim.said for claim in paper) == 2
        assert any("a large gain from 1000 to 2000 memories" in claim.said for claim in paper)
    if name == "pancreas":
        assert sum("rises by a tenth" in claim.said and "at most" in claim.said for claim in paper) == 2
        assert any("where insulin is raised, largest rise and mean rise" in claim.said for claim in paper)
    if name == "vehicle":
        assert {"Vanilla", "Lagrangian (paper)"} <= {
            text.split(": ")[1].split(" drifts far")[0] for text in texts if "drifts far" in text
        }


def test_a_lagrangian_that_conforms_refutes_that_it_fails():
    outcome = _outcome()
    runs = [run | {"constraint_loss_D_mean": 1.9} for run in outcome.runs]
    claim = paper_claims(replace(outcome, runs=runs), Said(mean=1.0))[-1]
    assert "Lagrangian (paper) fails to conform" in claim.said and not claim.holds
    assert claim.measured == "1.9 against 2"


def test_when_a_loss_is_reached():
    history = [{"step": 100, "loss": 5.0}, {"step": 200, "loss": 2.0}, {"step": 300, "loss": 3.0}]
    assert reached_after(history, "loss", 2.5) == 200 and reached_after(history, "loss", 1.0) is None


def test_variants_of_studies_are_chosen_by_their_options():
    vehicle, drones = find_study("vehicle"), find_study("drones")
    patch = vehicle.with_options({"omega": "patch"})
    assert patch is not vehicle and vehicle.with_options({}) is vehicle
    assert all(entry.method.target == "next_state" for entry in patch.entries("paper"))
    authors = drones.with_options({"flights": "there"})
    assert {"Constrained (paper, their gas)", "Tethered"} <= {e.method.name for e in authors.entries("paper")}
    with pytest.raises(ValueError, match="`--omega` must be 'map' or 'patch'; got 'moon'"):
        vehicle.check_options({"omega": "moon"})
    assert replace(Plan("vehicle", "smoke", (0,), {}), options={"omega": "patch"}).definition is patch
