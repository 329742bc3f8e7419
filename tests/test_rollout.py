import numpy as np
import pytest

import tether
from tether.claims.rollout import rollout
from tether.data import Schema, make_schema
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import train_method


def test_feeds_predictions_back():
    schema = make_schema(["x", "v"], ["u"])
    controls = np.ones((3, 2, 1))
    path = rollout(
        lambda s, u: s + np.column_stack([s[:, 1], u[:, 0]]), [[0, 0], [0, 1]], controls, schema=schema
    )
    assert path.shape == (4, 2, 2)
    assert path[:, 0, 1].tolist() == [0, 1, 2, 3]
    assert path[:, 0, 0].tolist() == [0, 0, 1, 3]
    assert path[:, 1, 0].tolist() == [0, 1, 3, 6]


def test_outputs_in_another_order():
    schema = Schema(("x", "v"), (), ("v", "x"), advances=(1, 0))
    path = rollout(
        lambda s, u: np.column_stack([s[:, 1], s[:, 0] + s[:, 1]]),
        [[0.0, 1.0]],
        np.zeros((2, 1, 0)),
        schema=schema,
    )
    assert path[-1, 0].tolist() == [2.0, 1.0]


def test_needs_every_state():
    schema = make_schema(["x", "v"], [], ["x"])
    with pytest.raises(ValueError, match="a rollout must predict every state"):
        rollout(lambda s, u: s, [[0.0, 1.0]], np.zeros((2, 1, 0)), schema=schema)


def test_other_states_follow_a_rule():
    schema = make_schema(["x", "double", "v"], ["u"], ["v", "x"])
    path = rollout(
        lambda s, u: np.column_stack([s[:, 2] + u[:, 0], s[:, 0] + s[:, 2]]),
        [[0.0, 7.0, 1.0]],
        np.ones((2, 1, 1)),
        schema=schema,
        carried=lambda states, controls, outputs: 2 * outputs[:, 1:],
    )
    assert path[:, 0].tolist() == [[0, 7, 1], [1, 2, 2], [3, 6, 3]]


def test_a_rule_sees_angles_on_the_circle():
    schema = make_schema(["angle", "before"], [], ["angle"], angles=["angle"])
    path = rollout(
        lambda s, u: s[:, :1] + 1.0,
        [[3.0 + 2 * np.pi, 0.0]],
        np.zeros((2, 1, 0)),
        schema=schema,
        carried=lambda states, controls, outputs: states[:, :1],
    )
    assert np.allclose(path[1:, 0, 1], [3.0, 4.0 - 2 * np.pi], rtol=0, atol=1e-12)
    whole = make_schema(["angle"], [], angles=["angle"])
    with pytest.raises(ValueError, match="`carried` must be of states that are not predicted"):
        rollout(
            lambda s, u: s,
            [[0.0]],
            np.zeros((1, 1, 0)),
            schema=whole,
            carried=lambda *given: given[0],
        )


def frictionless(states, controls):
    return states + 0.1 * np.stack([states[:, 1], controls[:, 0]], axis=1)


@pytest.fixture(scope="module")
def model(cart):
    config = FitConfig(memories=20, leaves=40, hidden=(4,), training=tether.TrainingConfig(steps=10))
    problem = prepare(cart, trusted=frictionless, config=config)
    return train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model


def test_a_model_is_its_own_step(model):
    start, controls = np.array([[0.0, 0.1], [0.2, 0.0]]), np.zeros((3, 2, 1))
    path = rollout(model, start, controls)
    assert path.shape == (4, 2, 2)
    assert np.array_equal(path, rollout(model.predict, start, controls, schema=model.schema))


def test_shapes_are_named(model):
    with pytest.raises(ValueError, match=r"`states` must be rows of 2 states, \(N, 2\); got \(2,\)"):
        rollout(model, [0.0, 0.1], np.zeros((3, 1, 1)))
    with pytest.raises(
        ValueError, match=r"`controls` must be steps of rows of 1 controls, \(T, 2, 1\); got \(2, 3, 1\)"
    ):
        rollout(model, np.zeros((2, 2)), np.zeros((2, 3, 1)))


@pytest.mark.parametrize("outside", ["flag", "fallback", "stop"])
def test_what_happens_at_the_edge_is_known_by_row(model, outside):
    edge = model.bounds.tree.upper
    start = np.array([[0.0, 0.0], [0.0, edge[1] - 0.05], [0.0, edge[1] + 1.0]])
    controls = np.stack([[[0.0], [edge[2]], [0.0]]] * 5)
    found = rollout(model, start, controls, outside=outside, trusted=frictionless)
    assert found.left[0] == -1 and found.left[1] > 0 and found.left[2] == 0
    plain = rollout(model.predict, start, controls, schema=model.schema)
    inside = slice(0, int(found.left[1]) + 1)
    assert np.array_equal(found.states[:, 0], plain[:, 0])
    assert np.array_equal(found.states[inside, 1], plain[inside, 1])
    if outside == "flag":
        assert np.array_equal(found.states, plain)
    if outside == "stop":
        assert np.isnan(found.states[1:, 2]).all() and np.isnan(found.states[found.left[1] + 1 :, 1]).all()
    if outside == "fallback":
        exact = rollout(frictionless, start[2:], controls[:, 2:], schema=model.schema)
        assert np.array_equal(found.states[1, 2], exact[1, 0])


def test_an_edge_needs_a_model(model):
    with pytest.raises(TypeError, match="`step` must be a model"):
        rollout(model.predict, [[0.0, 0.0]], np.zeros((1, 1, 1)), schema=model.schema, outside="flag")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="must have the trusted model"):
        rollout(model, [[0.0, 0.0]], np.zeros((1, 1, 1)), outside="fallback")
    with pytest.raises(ValueError, match="`outside` must be"):
        rollout(model, [[0.0, 0.0]], np.zeros((1, 1, 1)), outside="raise")


def test_a_function_needs_a_schema_and_a_model_has_one():
    schema = make_schema(["x"], ["u"])
    with pytest.raises(TypeError, match=r"where `step` is no model; got none, and <lambda>\. Pass `schema="):
        rollout(lambda s, u: s, np.zeros((1, 1)), np.zeros((3, 1, 1)))
    with pytest.raises(TypeError, match=r"got a Schema\. Call `rollout\(model, states, controls\)`"):
        rollout(lambda s, u: s, schema, np.zeros((1, 1)))  # type: ignore[arg-type]
