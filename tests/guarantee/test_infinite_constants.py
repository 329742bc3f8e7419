"""Infinity as a constant of M is no number to calculate with: nothing is known of what rests on it, on both sides."""

import numpy as np
import pytest

import tether
from tether.learning.config import TrainingConfig
from tether.programs import EnclosureError, enclose, trace
from tether.verification.interpreter import enclose as enclose_again
from tether.verification.tracing import trace as trace_again

LOST = {
    "sin": lambda x, far: np.sin(far),
    "cos": lambda x, far: np.cos(far) * x,
    "zero times": lambda x, far: 0.0 * far,
    "less itself": lambda x, far: far - far,
    "over itself": lambda x, far: far / far,
    "dot": lambda x, far: np.dot(np.stack([far, x], axis=-1), np.array([0.0, 1.0])),
    "product": lambda x, far: np.prod(np.stack([far, 0.0 * x], axis=-1), axis=-1),
    "compared": lambda x, far: np.where(far - far == 0.0, 1.0, 2.0),
    "not compared": lambda x, far: np.where(np.sin(far) < 2.0, 1.0, 2.0),
    "table": lambda x, far: np.interp(x, [0.0, 1.0], [1.0, 2.0], left=np.inf) * 0.0,
}
FOUND = {
    "minimum": lambda x, far: np.minimum(far, 3.0),
    "divisor": lambda x, far: 1.0 / far,
    "where": lambda x, far: np.where(far > 2.0, 1.0, x),
    "clip": lambda x, far: np.clip(far, 0.0, 1.0),
}


def model_of(expression):
    def model(states, controls):
        x = states[:, 0]
        return np.stack([expression(x, np.where(x < 0.2, np.inf, x))], axis=1)

    return model


def ends(model, low, high):
    """What both sides know of M over a box; NaN for nothing."""
    lower, upper = np.array([[low]]), np.array([[high]])
    with np.errstate(all="ignore"):
        again = enclose_again(trace_again(model, 1, 0, 1, counts=(2, 5)), lower, upper, slopes=False)
        found = [np.broadcast_to(end, 1)[0] for end in (again.lower[0], again.upper[0])]
        try:
            box = enclose(trace(model, states=1, controls=0), lower, upper, states=1)
        except EnclosureError:
            return (np.nan, np.nan), found
    return (box.lower[0, 0], box.upper[0, 0]), found


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", [*LOST, *FOUND])
def test_what_may_be_nan_is_not_known(name):
    model = model_of((LOST | FOUND)[name])
    for low, high in ((-1.0, 2.0), (-0.5, -0.4), (0.15, 0.15), (0.3, 0.4)):
        points = np.linspace(low, high, 41)[:, None]
        values = model(points, np.zeros((41, 0)))
        found = ends(model, low, high)
        for least, most in found:
            known = np.isfinite(least) and np.isfinite(most)
            assert not known or ((least <= values) & (values <= most)).all()
        assert np.isfinite(found[0]).all() == np.isfinite(found[1]).all() or low < 0.2 < high  # undecided
        assert np.isfinite(found[0]).all() or low < 0.2


def narrow(states, controls):
    """Another number where infinity is, in a strip that points drawn do not find."""
    x = states[:, 0]
    far = np.where(np.abs(x - 0.12345) < 1e-7, np.inf, x)
    return np.column_stack([0.9 * x + 0.1 * np.where(far - far == 0.0, 0.0, 1.0), 0.8 * states[:, 1]])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_narrow_strip_is_left_out():
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (400, 2)), np.zeros((400, 0))
    rows = tether.Transitions.from_arrays(
        states, controls, narrow(states, controls), episodes=np.arange(400) // 20
    )
    model = tether.fit(
        rows, trusted=narrow, evidence="proved", leaves=100, memories=20, hidden=(4,),
        training=TrainingConfig(steps=5),
    )  # fmt: skip
    inputs = np.array([[0.12345, 0.3]])
    found = model.predict(inputs, np.zeros((1, 0)), details=True)
    away = np.abs(found.next_states - narrow(inputs, np.zeros((1, 0))))
    assert not found.in_domain[0] or (away <= found.delta).all()
