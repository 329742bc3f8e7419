"""Slopes and curvatures too small for float64, over boxes so large that they matter: no room is lost to underflow."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tether.evidence.expansions import Second, expand_boxes
from tether.programs import trace

FAINT = {
    "a slope of 1e-324": (lambda x, y: (x * 1e-200) * 1e-124, (1e90, 1.0), 1),
    "a slope that is subnormal beside a way of 1e-99": (lambda x, y: (1e-231 * y) * x, (1e-99, 1e99), 1),
    "a curvature beside a way of 1e-99": (lambda x, y: (1e-231 * y) * x, (1e-99, 1e99), 2),
    "a curvature that loses its first product": (lambda x, y: (1e-250 * y) * x, (1e-79, 1e79), 2),
}


@pytest.mark.parametrize("name", FAINT)
def test_predictions_stay_within_delta(name, tmp_path):
    function, reach, order = FAINT[name]

    def model(states, controls):
        x, y = states[:, 0], states[:, 1]
        return function(x, y)[:, None]

    rng, high = np.random.default_rng(0), np.array(reach)
    states, none = rng.uniform(-high, high, (200, 2)), np.zeros((200, 0))
    schema = tether.make_schema(["x", "y"], [], ["z"])
    data = tether.Transitions.from_arrays(
        states, none, model(states, none), episodes=np.arange(200) // 5, schema=schema
    )
    training = tether.TrainingConfig(steps=2, evaluate_every=2)
    with np.errstate(all="ignore"):
        learned = tether.fit(
            data, trusted=model, evidence="proved", order=order, leaves=30, memories=10, hidden=(4,),
            training=training, seed=0,
        )  # fmt: skip
        tried = np.concatenate([states, np.sign(states) * high, rng.uniform(-high, high, (5000, 2))])
        found = learned.predict(tried, np.zeros((len(tried), 0)), details=True)
        limits = learned.limits(tried)
        truth = model(tried, None)
    assert found.in_domain.all()
    for said in (found.next_states, limits.lower, limits.upper):
        assert (np.abs(said - truth) <= found.delta).all()
    tether.certify(learned, model, points_per_cell=4)
    tether.save(learned, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", model).verified


def test_the_middle_of_a_range_is_rounded():
    """Half of 5e-324 is 0: what is said to be in the middle is then at an end."""
    program = trace(lambda states, controls: np.fmod(states, 1e-3), states=1, controls=0)
    point = np.array([[7.883000663e-315]])
    leaves = expand_boxes(program, point, point, second=Second.none())
    assert abs(point[0, 0] - leaves.value[0]) <= leaves.remainder[0]
