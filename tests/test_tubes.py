"""Tubes: what they are made of, what they say, their files and their command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tether
from conftest import cart_rows
from tether.claims.rollout import rollout
from tether.claims.tubes import calibrate_system, load_tube, save_tube, tube
from tether.claims.tubes.limits import EvenLimits
from tether.claims.tubes.making import Effort, tube_within
from tether.claims.tubes.pieces import cut
from tether.claims.tubes.zonotopes import Zonotopes, least_useful, sum_up
from tether.cli.running import run
from tether.data import make_schema
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import train_method
from tether.report.tubes import tube_figure, tube_page
from tether_studies import parked_car


def frictionless(states, controls):
    return states + 0.1 * np.stack([states[:, 1], controls[:, 0]], axis=1)


CONFIG = FitConfig(
    memories=20,
    leaves=40,
    hidden=(4,),
    training=tether.TrainingConfig(steps=20, dtype="float64"),
    evidence="proved",
)


@pytest.fixture(scope="module")
def model(cart):
    problem = prepare(cart, trusted=frictionless, config=CONFIG)
    return train_method(problem, TETHERED, CONFIG, built=build_for(problem, TETHERED, CONFIG)).model


@pytest.fixture(scope="module")
def found(model):
    return tube(model, frictionless, [0.1, 0.2], np.full((6, 1), 0.3))


def test_sums_round_up():
    values = np.array([[1.0, 2.0**-60, 2.0**-60], [0.0, 0.0, 0.0]])
    assert sum_up(values)[0] > 1.0
    assert sum_up(values)[1] == 0.0


def test_boxes_hold_their_ends():
    rng = np.random.default_rng(0)
    low = rng.normal(size=(1000, 3))
    high = low + rng.random((1000, 3)) * 10.0 ** rng.uniform(-16, 2, (1000, 3))
    below, above = Zonotopes.boxes(low, high).hull()
    assert ((below <= low) & (above >= high)).all()
    assert np.allclose(below, low, atol=1e-12)


def test_what_is_least_useful_goes_first():
    generators = np.array([[[1.0, 0.01, 1.0], [1.0, 0.01, 0.0]]])
    assert least_useful(generators, 1).tolist() == [[0]]
    assert least_useful(generators, 2).tolist() in ([[0, 1]], [[0, 2]])


def test_a_box_over_the_end_of_the_circle_is_cut():
    angles = np.array([True, False])
    pieces = cut(np.array([[3.0, 0.0]]), np.array([[3.5, 1.0]]), np.array([[3.1, 0.5]]), angles)
    assert pieces.turns[:, 0].tolist() == [0.0, 1.0]
    assert pieces.upper[0, 0] == np.pi
    assert pieces.lower[1, 0] == -np.pi
    assert 3.5 - 2 * np.pi <= pieces.upper[1, 0] < 3.5 - 2 * np.pi + 1e-13
    assert pieces.lower[:, 1].tolist() == [0.0, 0.0]


def test_rotations_do_not_widen():
    # A box that turns is a box that turns: with intervals it would grow by a factor of √2 in each eighth of a turn.
    schema = make_schema(["x", "y"], [])
    angle = 0.1

    def turn(states, controls):
        x, y = states.T
        return np.stack(
            [np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y], axis=1
        )

    limits = EvenLimits(np.zeros(2), schema)
    wide = tube_within(limits, schema, turn, ([-0.1, -0.1], [0.1, 0.1]), np.zeros((200, 0)))
    assert wide.complete
    assert wide.half_width[-1].max() < 0.1 * np.sqrt(2) * (1 + 1e-9)


def test_steps_of_a_pushed_cart(found, model):
    assert found.steps == 6 and found.complete and found.ended is None
    assert found.lower.shape == (7, 2)
    assert found.lower[0].tolist() == found.upper[0].tolist() == [0.1, 0.2]
    assert (found.half_width[1:] > 0).all()
    assert found.words.startswith("Model tube (proved, with outward rounding): every rollout")
    path = rollout(model, [[0.1, 0.2]], np.full((6, 1, 1), 0.3))[:, 0]
    assert found.contains(path).all()
    assert not found.contains(path + np.array([0.0, 9.0])).any()


def test_at_rest_nothing_moves():
    data = parked_car.drive(episodes=6, steps=20)
    config = replace(CONFIG, domain=parked_car.DOMAIN, memories=30)
    problem = prepare(
        data, trusted=parked_car.TRUSTED, probes=parked_car.parked(data, count=200), config=config
    )
    car = train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model
    still = tube(car, parked_car.TRUSTED, [1.0, 2.0, 3.0], np.zeros((20, 2)))
    assert still.complete
    assert still.half_width.max() < 1e-10


def test_it_ends_where_the_box_does(model):
    fast = tube(model, frictionless, [0.0, 0.5], np.full((60, 1), 2.0))
    assert not fast.complete and 0 < fast.ended < 60
    assert np.isfinite(fast.upper[fast.ended]).all()
    assert np.isnan(fast.upper[fast.ended + 1 :]).all()
    assert "the operating box ends at" in fast.reasons[0]
    assert f"It ends early, after step {fast.ended}" in fast.words


def test_many_are_as_one_each(model):
    starts = np.array([[0.0, 0.1], [0.3, -0.2]])
    many = tube(model, frictionless, starts, np.full((5, 1), 0.1))
    assert many.lower.shape == (2, 6, 2)
    for row, start in enumerate(starts):
        one = tube(model, frictionless, start, np.full((5, 1), 0.1))
        assert np.allclose(many.lower[row], one.lower, rtol=0, atol=1e-12)


def test_feedback_holds_both_together(model):
    def policy(states):
        return -1.0 * states[:, :1] - 2.0 * states[:, 1:]

    tied = tube(model, frictionless, ([-0.2, -0.2], [0.2, 0.2]), policy, steps=10)
    loose = tube(model, frictionless, ([-0.2, -0.2], [0.2, 0.2]), ([-0.6], [0.6]), steps=10)
    assert tied.complete
    assert tied.half_width[-1, 1] < 0.6 * loose.half_width[-1, 1]
    rng = np.random.default_rng(0)
    states = rng.uniform(-0.2, 0.2, (100, 2))
    path = [states]
    for _ in range(10):
        path.append(model.predict(path[-1], policy(path[-1])))
    assert tied.contains(np.stack(path, axis=1)).all()


def test_parts_are_narrower():
    schema = make_schema(["x"], [])
    limits = EvenLimits(np.zeros(1), schema)

    def bent(states, controls):
        return states + 0.3 * np.sin(3 * states)

    whole, parts = (
        tube_within(
            limits, schema, bent, ([-1.0], [1.0]), np.zeros((3, 0)), effort=Effort(halvings=k, cuts=0)
        )
        for k in (0, 3)
    )
    assert parts.parts > 1
    assert parts.half_width[-1, 0] < 0.9 * whole.half_width[-1, 0]


def test_files_come_back(found, tmp_path):
    save_tube(found, tmp_path / "tube.json")
    again = load_tube(tmp_path / "tube.json")
    assert np.array_equal(again.lower, found.lower) and np.array_equal(again.upper, found.upper)
    assert again.words == found.words
    assert np.array_equal(again.sets[3].generators, found.sets[3].generators)
    content = json.loads((tmp_path / "tube.json").read_text())
    content["starts"][0]["parts"][0]["sets"][2]["center"] = "x"
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(tether.StorageError, match="must be a tube written by Tether"):
        load_tube(tmp_path / "bad.json")


def _with_system(found):
    return replace(found, system={"alpha": 0.1, "words": "so", "lower": np.zeros((1, 7, 2))})


ROUND_TRIPS = {
    "some of many end": lambda model: tube(
        model, frictionless, [[0.1, 0.2], [0.0, 0.5], [90.0, 90.0]], np.full((40, 1), 2.0)
    ),
    "weights at hand": lambda model: tube(
        model, frictionless, ([0.0, 0.1], [0.1, 0.3]), ([-0.1], [0.1]), steps=4, weights="own"
    ),
    "parts": lambda model: tube(
        model, frictionless, ([0.0, 0.1], [0.1, 0.3]), lambda states: -states[:, :1], steps=4, halvings=1
    ),
    "a system tube": lambda model: _with_system(tube(model, frictionless, [0.1, 0.2], np.full((6, 1), 0.3))),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_what_was_read_is_written_as_it_was(model, name, tmp_path):
    found = ROUND_TRIPS[name](model)
    save_tube(found, tmp_path / "one.json")
    save_tube(load_tube(tmp_path / "one.json"), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()


def test_system_tubes_hold_what_they_say(cart, model):
    band = calibrate_system(model, cart, steps=5, alpha=0.25)
    assert band.episodes == 9 and band.half_width.shape == (6, 2)
    assert (band.half_width[0] == 0).all() and (np.diff(band.half_width, axis=0) >= 0).all()
    assert "statistical" in band.words and "proved" not in band.words
    with pytest.raises(
        ValueError, match=r"`alpha` must be at least 1 / \(n \+ 1\).* of \d+ say how errors grow\)"
    ):
        calibrate_system(model, cart, steps=5, alpha=0.05)
    with pytest.raises(ValueError, match="must have 40 steps in a row"):
        calibrate_system(model, cart, steps=40)


@pytest.mark.parametrize(
    ("start", "controls", "message"),
    [
        ([0.1], np.zeros((3, 1)), "`start` must have 2 columns"),
        (([1.0, 1.0], [0.0, 2.0]), np.zeros((3, 1)), "`start` must have lower ends"),
        (
            {"x": 1.0},
            np.zeros((3, 1)),
            "`start` must say where every column is; got nothing for v. Add a value",
        ),
        ([0.1, 0.2], np.zeros((3, 2)), r"`controls` must have shape \(T, 1\)"),
        ([0.1, 0.2], {"u": (0.0, 1.0)}, "`steps` must be given"),
        ([0.1, 0.2], None, "`controls` must be given for u"),
        ([0.1, 0.2], np.full((3, 1), np.nan), "`controls` must be finite"),
    ],
)
def test_says_what_is_wrong(model, start, controls, message):
    with pytest.raises(ValueError, match=message):
        tube(model, frictionless, start, controls)


def test_a_page_calls_proved_what_is(found):
    for evidence, told in (
        ("proved", "model tube (proved)"),
        ("construction", "model tube (by construction)"),
    ):
        known = replace(found, evidence=evidence)
        figure = tube_figure(known)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [told]
        text = tube_page(known, figure, command="", versions={})
        assert ("What is proved" in text) is (evidence == "proved")


def test_a_folder_that_is_not_there_is_named(found, tmp_path):
    with pytest.raises(tether.StorageError, match=r"absent/t\.json` must be in a folder; .*Make it first"):
        save_tube(found, tmp_path / "absent" / "t.json")


def test_the_command(model, trusted_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tether.save(model, tmp_path / "model.safetensors")
    given = [
        "tube",
        "model.safetensors",
        "--trusted",
        f"{trusted_file.name}:frictionless",
        "--start",
        "x=0:0.1,v=0",
    ]
    assert run([*given, "--controls", "u=-0.1:0.1", "--steps", "4", "--out", "tube.json"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "whatever its weights, stays in it for all 4 steps" in told
    assert all(Path(name).is_file() for name in ("tube.json", "tube.html", "tube.png"))
    assert "Model tube (proved" in Path("tube.html").read_text()
    assert load_tube("tube.json").about["model"] == "model.safetensors"
    assert run(["verify", "tube.json", *given[2:4]]) == 0
    assert "verified: 1 tube, 4 steps." in capsys.readouterr().out
    assert run(["attack", "tube.json", *given[2:4], "--evaluations", "4000"]) == 0
    assert "1000 rollouts tried." in " ".join(capsys.readouterr().out.split())
    assert run([*given, "--steps", "4", "--weights", "own", "--out", "own.json"]) == 0
    assert "with the weights at hand, stays" in " ".join(capsys.readouterr().out.split())
    assert run(["verify", "own.json", *given[2:4]]) == 0
    assert "for these weights" in " ".join(capsys.readouterr().out.split())
    assert run(["attack", "own.json", *given[2:4], "--evaluations", "400"]) == 0
    assert "that starts and controls went" in " ".join(capsys.readouterr().out.split())
    beyond = [*given[:4], "--start", "x=1000,v=0", "--steps", "4", "--out", "short.json"]
    assert run(beyond) == 1  # it ends where it starts
    told = " ".join(capsys.readouterr().out.split())
    assert "and so may `--weights own`" in told and "Controls: zero at every step" in told
    assert run([*given, "--steps", "4", "--weights", "mine", "--out", "b.json"]) == 2
    assert "`weights` must be 'any' or 'own'" in " ".join(capsys.readouterr().err.split())
    assert run([*given, "--steps", "4", "--out", "tube.json"]) == 2
    assert "must be a new file" in capsys.readouterr().err
    assert run([*given, "--controls", "what", "--steps", "4", "--out", "b.json"]) == 2


def test_held_out_rows_that_lack_a_value_can_be_dropped(model, trusted_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tether.save(model, "model.safetensors")
    lines = [",".join(map(repr, row)) for row in cart_rows()]
    lines[3] = "0,,0.0,0.0"
    Path("new.csv").write_text("\n".join(["episode,x,v,u", *lines]))
    given = [
        "tube",
        "model.safetensors",
        "--trusted",
        f"{trusted_file.name}:frictionless",
        "--start",
        "x=0,v=0",
    ]
    given += ["--steps", "4", "--out", "tube.json"]
    with_log = [*given, "--held-out", "new.csv", "--episode", "episode"]
    assert run(with_log) == 2
    assert "drop them with `drop_invalid=True` (command line: `--drop-invalid`)" in capsys.readouterr().err
    assert run([*with_log, "--drop-invalid"]) == 0
    told, shown = " ".join(capsys.readouterr().out.split()), Path("tube.html").read_text()
    assert "System tube (statistical)" in told
    for which in ("model tube", "system tube (statistical)"):
        assert f"Half-width of the {which} after step" in told and f"Boxes of the {which} by step" in shown
    assert run([*given[:-1], "other.json", "--drop-invalid"]) == 2
    assert "`--drop-invalid` must come with `--held-out`" in capsys.readouterr().err
