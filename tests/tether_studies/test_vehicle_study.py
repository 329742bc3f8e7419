"""The vehicle studies: the same rows in two sets of outputs, the whole of it at smoke scale, its verdicts."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import tether
from tether.fitting import FitConfig, measure_losses, measure_trusted, prepare
from tether.foundation.progress import silent
from tether.learning.config import TrainingConfig
from tether.report.seeds import grouped
from tether_studies.registry import find_study
from tether_studies.runner import outcome_of, run_all
from tether_studies.study import StudyData
from tether_studies.summary import claim_lines, study_command, write_summary
from tether_studies.tasks import Plan, open_folder, tasks_of
from tether_studies.vehicle.data import (
    DOMAINS,
    EPISODES,
    PROBES,
    STEPS,
    TEST_SHARE,
    TRUSTED_MODELS,
    as_body,
    as_transitions,
    parked_probes,
)
from tether_studies.vehicle.driving import Recording, drive_episodes
from tether_studies.vehicle.study import RICH_STUDY, STUDY, _reason, _rich_claims

pytest.importorskip(
    "vehiclemodels",
    reason="commonroad-vehicle-models is not installed: pip install commonroad-vehicle-models==3.0.2",
)

LOSSES = (
    "approximation_loss_D",
    "constraint_loss_D_mean",
    "constraint_loss_D_max",
    "constraint_loss_omega_mean",
    "constraint_loss_omega_max",
)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return drive_episodes(episodes=20, steps=50, seed=4)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The whole study at smoke scale, and what it left behind."""
    folder = tmp_path_factory.mktemp("study") / "vehicle"
    plan = Plan("vehicle", "smoke", (0,), {})
    open_folder(plan, folder)
    failed = run_all(tasks_of(plan, folder), jobs=1)  # one process imports and compiles once
    write_summary(plan, folder, command=study_command(plan, folder), failed=failed)
    assert not failed
    return folder, outcome_of(plan, folder)


@pytest.mark.parametrize(("variant", "body"), [("pose", "body"), ("rich", "rich_body")])
def test_rows_recast_are_those_that_were_driven(recording, variant, body):
    recast, driven = as_body(as_transitions(recording, variant)), as_transitions(recording, body)
    assert recast.schema == driven.schema
    np.testing.assert_array_equal(recast.inputs, driven.inputs)
    np.testing.assert_allclose(recast.next_states, driven.next_states, atol=1e-12)


@pytest.mark.parametrize(("study", "variant"), [(STUDY, "pose"), (RICH_STUDY, "rich")])
@pytest.mark.parametrize("seed", [0, 5])
def test_both_frames_measure_the_same_errors_on_the_same_rows(recording, study, variant, seed):
    """A rotation keeps squared errors, and the split is by episode and seed alone."""
    transitions = as_transitions(recording, variant)
    data = StudyData(transitions, parked_probes(transitions, count=300))
    recast = study.recasts["body"]
    config = FitConfig(validation=TEST_SHARE, test=TEST_SHARE, seed=seed)
    poses = prepare(data.transitions, trusted=TRUSTED_MODELS[variant], probes=data.probes, config=config)
    other = recast.data(data)
    body = prepare(other.transitions, trusted=recast.trusted, probes=other.probes, config=config)
    for name in ("train", "validation", "test"):
        one, same = getattr(poses.split, name), getattr(body.split, name)
        np.testing.assert_array_equal(one.inputs, same.inputs)
        np.testing.assert_array_equal(one.episodes, same.episodes)

    def crooked(step):
        return lambda states, controls: (
            step(states, controls) + 0.01 * np.sin(states[:, :1] + controls[:, :1])
        )

    mine, theirs = measure_trusted(poses, seed), measure_trusted(body, seed)
    found, expected = (each.losses.approximation_loss_D for each in (mine, theirs))
    assert found == pytest.approx(expected, rel=1e-9)
    step = crooked(recast.trusted.function)
    restored, direct = measure_losses(poses, recast.restore(step)), measure_losses(body, step)
    for key in LOSSES:
        assert getattr(restored, key) == pytest.approx(getattr(direct, key), rel=1e-9)


def test_what_is_particular_to_the_car():
    entries = {entry.name: entry for entry in STUDY.entries("paper")}
    assert STUDY.config("paper").hidden == (1024, 1024) and STUDY.config("paper").training.gamma == 0
    own = {name: entry for name, entry in entries.items() if name.split(" (")[0].endswith("own axes")}
    assert set(own) == {"Vanilla, own axes", "Augmented Lagrangian, own axes", "Tethered, own axes (1000)"}
    assert {entry.recast for entry in own.values()} == {"body"}
    assert {entry.recast for name, entry in entries.items() if name not in own} == {None}


def test_the_papers_number_of_rows():
    rows = EPISODES["paper"] * STEPS["paper"]
    held_out = round(TEST_SHARE * EPISODES["paper"]) * STEPS["paper"]
    assert (rows - 2 * held_out, held_out) == (15_000, 2_000) and PROBES["paper"] == rows


def test_parked_cars_where_the_authors_park_them():
    study = STUDY.with_options({"omega": "patch"})
    data = study.simulate("smoke", 0, {"omega": "patch"}, silent)
    assert np.abs(data.probes.states[:, :2]).max() <= 0.5 and np.abs(data.probes.controls).max() == 0
    assert np.ptp(data.transitions.states[:, 0]) > 100


def test_the_whole_study_holds_its_promises(finished):
    _, outcome = finished
    runs = grouped(outcome.runs)
    tethered, trusted = runs["Tethered (200)"][0], runs["Trusted"][0]
    assert tethered["approximation_loss_D"] <= trusted["approximation_loss_D"]
    own = runs["Tethered, own axes (200)"][0]
    assert set(own["delta_certified"]) == {"ahead", "left", "turn"}
    assert set(tethered["delta_certified"]) == {"x", "y", "heading"}
    sampled, proved = runs["Constrained (paper) (200)"][0], runs["Constrained (200)"][0]
    assert sampled["evidence_level"] == "sampled" and proved["evidence_level"] == "proved"
    assert tethered["evidence_level"] == "proved" and tethered["attack_max_ratio"] <= 1
    assert tethered["drift_poses_still"] >= 0.99 and tethered["drift_at_rest_50"] < 1e-9
    assert runs["Vanilla"][0]["drift_at_rest_20"] > 1
    # Of the weights in use, the losses on the map are those that were watched along the car's own axes.
    best = next(e for e in tethered["history"] if e["step"] == tethered["best_step"])
    assert tethered["approximation_loss_D"] < 10 * best["approximation_loss_D"]
    envelope = outcome.arrays["Tethered (200)", 0]["envelope"]
    assert envelope.shape == (51,) and 0 < envelope[-1] < 0.1
    assert tethered["certified_at_rest"] == envelope[-1]


def test_the_report_shows_it(finished):
    folder, _ = finished
    page = (folder / "report.html").read_text()
    assert "data:image/gif;base64," in page and page.count("data:image/svg+xml;base64,") >= 5
    assert "The town" in page and "Seed 0: predicted path" in (folder / "at_rest.svg").read_text()
    assert (folder / "at_rest.gif").read_bytes().startswith(b"GIF89a")
    for name in ("at_rest", "parked", "town"):
        assert (folder / f"{name}.svg").stat().st_size > 0
    summary = (folder / "summary.md").read_text()
    assert "![at_rest](at_rest.gif)" in summary and "![town](town.svg)" in summary
    row = next(line for line in summary.splitlines() if line.startswith("| ahead [m]"))
    assert " - " in row, "methods without limits have no bound on what lies ahead"
    assert "Tethered (200): 100 % of 1,000 poses" in summary
    assert json.loads((folder / "results.json").read_text())["units"]["turn"] == "rad"


def test_verdicts_say_what_was_measured(finished):
    lines = claim_lines(STUDY.claims(finished[1]))
    assert all(line.startswith(("✓ holds: ", "✗ does not hold: ")) for line in lines)
    text = "\n".join(lines)
    assert "four orders of magnitude closer to M on Ω, mean, than Lagrangian (paper)" in text
    assert "The paper: Vanilla drifts far from rest (20 steps, 1 m or more)" in text
    assert "The paper, of Constrained (paper) (200): little or no movement from rest" in text
    assert "ends on Ω within 300 steps" in text
    assert re.search(r"✓ holds: … have a delta of centimetres .*: [\d.]+ mm, [\d.]+ mrad", text)
    assert "improves with memories" not in text, "one number of memories says nothing of more"


def test_verdicts_can_fail(finished):
    """With Tethered's numbers spoilt, every verdict on it turns."""
    outcome = finished[1]
    spoilt = {
        "approximation_loss_D": 1e9, "constraint_loss_omega_mean": 1e9, "drift_poses_still": 0.5,
        "evidence_level": "sampled", "coverage_D": 0.5, "attack_max_ratio": 1.5,
        "delta_certified": {name: {"max": 1.0} for name in ("ahead", "left", "turn")},
    }  # fmt: skip
    runs = [run | spoilt if run["method"].startswith("Tethered") else run for run in outcome.runs]
    claims = [c for c in STUDY.claims(replace(outcome, runs=runs)) if not c.said.startswith("The paper")]
    assert len(claims) == 15 and not any(claim.holds for claim in claims)
    assert not any(claim.holds for claim in _rich_claims(replace(outcome, runs=runs)))


@pytest.mark.parametrize(
    ("in_domain", "room", "other", "words"),
    [
        (0.0, 0.1, 0.0, "outside the domain"),
        (1.0, 0.25, 0.0, "leave it 0.25 m of room"),
        (1.0, 0.0, 0.1, "gain speed"),
        (1.0, 0.0, 0.0, "rounding"),
    ],
)
def test_the_worst_pose_has_a_reason(in_domain, room, other, words):
    values = {"rest_in_domain": in_domain, "rest_room": room, "rest_other_room": other}
    arrays = {name: np.array([value]) for name, value in values.items()}
    assert words in _reason(arrays, 0)


def test_the_richer_variant_fits_and_certifies(recording):
    transitions = as_transitions(recording, "rich_body")
    trusted, probes = TRUSTED_MODELS["rich_body"], parked_probes(transitions, count=1000)
    model = tether.fit(
        transitions, trusted=trusted, probes=probes, memories=150, bounds="affine", evidence="proved",
        domain=DOMAINS["rich_body"], hidden=(32, 32), training=TrainingConfig(steps=100),
    )  # fmt: skip
    certificate = tether.certify(model, trusted, transitions=transitions, probes=probes)
    assert certificate.evidence == "proved"
    delta = {each.name: each.maximum for each in certificate.deltas}
    # Seven inputs and only 150 cells: decimetres, not yet centimetres.
    assert delta["ahead"] < 0.5 and delta["left"] < 0.5 and delta["turn"] < 0.1
    assert tether.attack(model, trusted, evaluations=5000).max_ratio <= 1


def test_the_richer_study_is_known_by_its_name():
    study = find_study("vehicle-rich")
    assert study is RICH_STUDY and {e.name for e in study.entries("smoke")} >= {"Tethered (200)", "Vanilla Δ"}
