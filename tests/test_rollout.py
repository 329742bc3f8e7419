import numpy as np
import pytest

from tether.claims.rollout import rollout
from tether.data import Schema, make_schema


def test_feeds_predictions_back():
    schema = make_schema(["x", "v"], ["u"])
    controls = np.ones((3, 2, 1))
    path = rollout(lambda s, u: s + np.column_stack([s[:, 1], u[:, 0]]), schema, [[0, 0], [0, 1]], controls)
    assert path.shape == (4, 2, 2)
    assert path[:, 0, 1].tolist() == [0, 1, 2, 3]
    assert path[:, 0, 0].tolist() == [0, 0, 1, 3]
    assert path[:, 1, 0].tolist() == [0, 1, 3, 6]


def test_outputs_in_another_order():
    schema = Schema(("x", "v"), (), ("v", "x"), advances=(1, 0))
    path = rollout(
        lambda s, u: np.column_stack([s[:, 1], s[:, 0] + s[:, 1]]), schema, [[0.0, 1.0]], np.zeros((2, 1, 0))
    )
    assert path[-1, 0].tolist() == [2.0, 1.0]


def test_needs_every_state():
    schema = make_schema(["x", "v"], [], ["x"])
    with pytest.raises(ValueError, match="a rollout must predict every state"):
        rollout(lambda s, u: s, schema, [[0.0, 1.0]], np.zeros((2, 1, 0)))
