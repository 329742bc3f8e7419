"""A tube that was changed is refused, and one that was not is shown again by other code."""

from __future__ import annotations

import copy
import json

import mpmath
import numpy as np
import pytest

import tether
from tether.claims.tubes import load_tube, save_tube, tube
from tether.data import Transitions, make_schema
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import train_method
from tether.verification.tubes import verify_tube
from tether.verification.tubes.distances import Task, _pieces

SCHEMA = make_schema(["angle", "speed"], ["torque"], angles=["angle"])


def pendulum(states, controls):
    angle, speed = states[:, 0], states[:, 1]
    speed = np.clip(
        speed + 0.05 * (15.0 * np.sin(angle) + 3.0 * np.clip(controls[:, 0], -2.0, 2.0)), -8.0, 8.0
    )
    return np.stack([angle + 0.05 * speed, speed], axis=1)


@pytest.fixture(scope="module", params=["increment", "next_state"])
def made(request, tmp_path_factory):
    """A model file, and the content of a tube over ±π."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform([-3.1, -7, -2], [3.1, 7, 2], (400, 3))
    after = pendulum(inputs[:, :2], inputs[:, 2:]) + 0.02 * np.sin(3 * inputs[:, :1])
    data = Transitions.from_arrays(
        inputs[:, :2], inputs[:, 2:], after, episodes=np.arange(400) // 20, schema=SCHEMA
    )
    training = tether.TrainingConfig(steps=20, dtype="float64")
    config = FitConfig(
        memories=30, leaves=200, hidden=(4,), training=training, evidence="proved", target=request.param
    )
    problem = prepare(data, trusted=pendulum, config=config)
    model = train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model
    folder = tmp_path_factory.mktemp("tube")
    tether.save(model, folder / "model.safetensors")
    found = tube(
        model, pendulum, ([3.0, 0.8], [3.2, 0.9]), ([-0.1], [0.1]), steps=12, halvings=2, generators=30
    )
    assert found.complete
    save_tube(found, folder / "tube.json")
    return folder, json.loads((folder / "tube.json").read_text())


def _verify(made, content):
    folder, _ = made
    (folder / "changed.json").write_text(json.dumps(content))
    return verify_tube(folder / "changed.json", pendulum, folder / "model.safetensors")


def test_what_was_not_changed_is_shown(made):
    result = _verify(made, made[1])
    assert result.tubes == 1 and result.moves == 12 * len(made[1]["starts"][0]["parts"])


def _narrower(content, step, state, share):
    row = content["starts"][0]
    matrix = row["parts"][0]["sets"][step]["generators"]
    matrix[state][len(matrix[0]) - 2 + state] *= share


def _moved(content):
    content["starts"][0]["parts"][0]["sets"][4]["center"][1] += 1e-6
    for step in content["starts"][0]["lower"], content["starts"][0]["upper"]:
        step[4] = [-100.0, -100.0] if step is content["starts"][0]["lower"] else [100.0, 100.0]


CHANGES = {
    "a box of the first step": lambda content: _narrower(content, 1, 1, 0.99),
    "a box of the last step": lambda content: _narrower(content, 12, 0, 0.99),
    "a centre": _moved,
    "a limit": lambda content: content["starts"][0]["upper"][5].__setitem__(0, 0.0),
    "the start": lambda content: content["start"]["upper"][0].__setitem__(1, 0.95),
    "the controls": lambda content: content["controls"]["upper"][0][3].__setitem__(0, 0.3),
    "a slope": lambda content: content["starts"][0]["parts"][0]["moves"][2]["slope"][1].__setitem__(0, 0.0),
    "a turn": lambda content: content["starts"][0]["parts"][0]["moves"][2]["turns"].__setitem__(0, 0.5),
    "a generator": lambda content: content["starts"][0]["parts"][0]["sets"][3]["generators"][0].__setitem__(
        0, 0.0
    ),
    "controls without any": lambda content: content["controls"]["lower"][0][3].__setitem__(0, 0.2),
    "starts without any": lambda content: content["start"]["lower"][0].__setitem__(1, 0.9000001),
    "no starts": lambda content: (content["starts"].clear(), *map(list.clear, content["start"].values())),
    "boxes of one column": lambda content: content["starts"][0].update(
        lower=[[-9.0]] * 13, upper=[[9.0]] * 13
    ),
    "more steps than there are": lambda content: content["starts"][0].__setitem__("ended", 13),
    "the tether": lambda content: content["about"].__setitem__("tether", "0" * 64),
    "a missing part": lambda content: content["starts"][0]["parts"].pop(),
    "fewer steps": lambda content: content["starts"][0]["parts"][0]["moves"].pop(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_refused(made, change):
    content = copy.deepcopy(made[1])
    CHANGES[change](content)
    with pytest.raises(tether.CertificateError, match="not verified"):
        _verify(made, content)


def test_a_tube_without_controls_is_shown(tmp_path):
    """There are no numbers by which to tell how many controls are listed."""

    def swing(states, controls):
        angle, speed = states[:, 0], states[:, 1]
        return np.stack([angle + 0.1 * speed, speed - 0.5 * np.sin(angle)], axis=1)

    rng = np.random.default_rng(0)
    states, none = rng.uniform(-3, 3, (300, 2)), np.zeros((300, 0))
    schema = make_schema(["angle", "speed"], [], angles=["angle"])
    after = swing(states, none) + 0.01 * np.sin(states)
    data = Transitions.from_arrays(states, none, after, episodes=np.arange(300) // 15, schema=schema)
    training = tether.TrainingConfig(steps=5)
    model = tether.fit(
        data, trusted=swing, evidence="proved", leaves=60, memories=10, hidden=(4,), training=training
    )
    tether.save(model, tmp_path / "model.safetensors")
    found = tube(model, swing, ([0.1, 0.2], [0.2, 0.2]), None, steps=4)
    assert found.complete
    save_tube(found, tmp_path / "tube.json")
    assert verify_tube(tmp_path / "tube.json", swing, tmp_path / "model.safetensors").moves == 4
    assert np.array_equal(load_tube(tmp_path / "tube.json").upper, found.upper)


def test_an_angle_far_out_is_in_a_piece():
    """However many turns away: none may be taken for another, or what is beside ±π would not be looked at."""
    rng, none = np.random.default_rng(0), np.zeros(1)
    for _ in range(300):
        turns = int(rng.choice([-1, 1]) * 10 ** rng.uniform(3, 15))
        angle = np.array([float(mpmath.pi * (2 * turns + 1))])
        for _ in range(rng.integers(0, 4)):
            angle = np.nextafter(angle, rng.choice([-np.inf, np.inf]))
        boxes = _pieces(np.array([True]), [Task("", angle, angle, none, none, none, none, none)])
        with mpmath.workdps(50):
            seen = [mpmath.mpf(angle[0]) - 2 * mpmath.pi * int(turn) for turn in boxes.turns[:, 0]]
        held = [
            low <= one <= high for one, low, high in zip(seen, boxes.low[:, 0], boxes.high[:, 0], strict=True)
        ]
        assert any(held), (turns, angle)


def test_what_is_beside_a_tube_is_refused_by_the_name_of_its_file(made):
    with pytest.raises(tether.StorageError, match=r"changed\.json.*`beside` must be a table"):
        _verify(made, made[1] | {"beside": "another"})
