"""Outputs inside the bounds, zero tolerance: any weights, any dtype, all operators, both targets."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.data import Scaling, make_schema
from tether.evidence import Sampled
from tether.geometry.cells import Cells
from tether.learning.descent import constrain_in_training
from tether.model import Frame, constrain, mlp
from tether.model.assembling import constrained_model
from tether.tethers.bounds import IntervalBounds

SCHEMA = make_schema(["x", "heading"], ["speed"], angles=["heading"])


def random_model(operator="clip", target="increment", seed=0, network=None):
    rng = np.random.default_rng(seed)
    frame = Frame(
        SCHEMA,
        target,
        Scaling(rng.standard_normal(3), rng.uniform(0.1, 30, 3)),
        Scaling(rng.standard_normal(2), rng.uniform(0.1, 30, 2)),
    )
    memories = rng.standard_normal((40, 3))
    cells = Cells(
        memories, np.empty((0, 2), np.int64), rng.uniform(0.1, 9, 3), 2.0, -np.full(3, 99.0), np.full(3, 99.0)
    )
    lower = rng.standard_normal((40, 2)) * 10.0 ** rng.integers(-9, 6, (40, 2))
    # Some cells allow a single value: that, too, must be met exactly.
    upper = lower + rng.choice([0.0, 1e-12, 1.0, 1e4], (40, 2))
    bounds = IntervalBounds(lower, upper, upper - lower, np.zeros_like(lower), Sampled())
    network = network or mlp(frame.features_width, 2, (16, 16), seed=seed)
    return constrained_model(network, frame, cells, bounds, operator=operator)


def check_inside(model, states, controls):
    prediction = model.predict(states, controls, details=True)
    assert (prediction.next_states >= prediction.lower).all()
    assert (prediction.next_states <= prediction.upper).all()
    inputs = SCHEMA.wrap_inputs(states, controls)
    cell = ((inputs[:, None] / model.cells.scale - model.cells.memories) ** 2).sum(2).argmin(1)
    base = model.frame.base(inputs[:, :2])
    np.testing.assert_array_equal(prediction.lower, base + model.bounds.lower[cell])
    np.testing.assert_array_equal(prediction.upper, base + model.bounds.upper[cell])


@pytest.mark.parametrize("operator", ["clip", "sigmoid", "project"])
@pytest.mark.parametrize("target", ["increment", "next_state"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("factor", [0.0, 1.0, 1e3, 1e6])
def test_any_weights_and_dtype(operator, target, dtype, factor):
    rng = np.random.default_rng(7)
    model = random_model(operator, target)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(factor)
    model.network.to(dtype)
    if dtype == torch.float16 and factor > 1:
        # Half precision overflows inside the network; what it says then must be refused, not passed on.
        with pytest.raises(ValueError, match="the network must give numbers; got NaN"):
            model.predict(rng.standard_normal((2000, 2)) * 3, rng.standard_normal((2000, 1)) * 3)
        return
    check_inside(model, rng.standard_normal((2000, 2)) * 3, rng.standard_normal((2000, 1)) * 3)


class Constant(torch.nn.Module):
    """A network whose output is whatever the test wants."""

    def __init__(self, value, dtype):
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor(value, dtype=dtype))

    def forward(self, features):
        return self.value.expand(len(features), 2)


@pytest.mark.parametrize("operator", ["clip", "sigmoid", "project"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("value", [0.0, 1e-300, 1e30, -1e30, float("inf"), -float("inf")])
def test_extreme_logits(operator, dtype, value):
    rng = np.random.default_rng(3)
    model = random_model(operator, network=Constant(value, dtype))
    check_inside(model, rng.standard_normal((500, 2)), rng.standard_normal((500, 1)))


@pytest.mark.parametrize("operator", ["clip", "sigmoid", "project"])
def test_nan_weights_raise_or_stay_nan(operator):
    model = random_model(operator, network=Constant(float("nan"), torch.float32))
    with pytest.raises(ValueError, match="the network must give numbers; got NaN"):
        model.predict(np.zeros((1, 2)), np.zeros((1, 1)))
    # In torch, where nothing can be raised that an export would keep, it is no number either.
    assert torch.isnan(model(torch.zeros(1, 2), torch.zeros(1, 1))).all()


def test_nan_inputs_raise():
    with pytest.raises(ValueError, match="`states` must be finite; got nan at row 1, column 'heading'"):
        random_model().predict([[0.0, 0.0], [0.0, np.nan]], np.zeros((2, 1)))


numbers = st.floats(allow_nan=False, width=32)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=20),
    st.sampled_from(["float32", "float64"]),
)
def test_operator_is_exact_in_its_own_arithmetic(rows, dtype):
    """The formula alone may round out of the interval, or overflow; the operator must not."""
    values, one, two = torch.tensor(rows, dtype=getattr(torch, dtype)).T
    one, two = one.nan_to_num(0.0), two.nan_to_num(0.0)
    finite = torch.isfinite(torch.maximum(one, two) - torch.minimum(one, two))
    lower, upper = torch.minimum(one, two)[finite], torch.maximum(one, two)[finite]
    for operator in ("clip", "sigmoid", "project"):
        result = constrain(values[finite], lower, upper, operator)
        assert (result >= lower).all() and (result <= upper).all()
        assert torch.equal(constrain_in_training(values[finite], lower, upper, operator), result)


def test_casting_the_model_leaves_the_geometry_alone():
    model = random_model()
    rng = np.random.default_rng(5)
    states, controls = rng.standard_normal((200, 2)), rng.standard_normal((200, 1))
    before = model.predict(states, controls, details=True)
    after = model.half().predict(states, controls, details=True)
    for name in ("lower", "upper", "cell", "in_domain"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


@pytest.mark.parametrize("operator", ["clip", "sigmoid", "project"])
@pytest.mark.parametrize("target", ["increment", "next_state"])
def test_torch_forward_is_the_same_model(operator, target):
    model = random_model(operator, target).double()
    rng = np.random.default_rng(5)
    states, controls = rng.standard_normal((300, 2)) * 20, rng.standard_normal((300, 1))
    prediction = model.predict(states, controls, details=True)
    outputs = model(torch.from_numpy(states), torch.from_numpy(controls)).detach().numpy()
    assert (outputs >= prediction.lower).all() and (outputs <= prediction.upper).all()
    np.testing.assert_allclose(outputs, prediction.next_states, rtol=1e-9, atol=1e-9)


def test_in_training_the_gradient_of_clip_points_back_inside():
    values = torch.tensor([-2.0, -2.0, 0.5, 3.0, 3.0], requires_grad=True)
    lower, upper = torch.zeros(5), torch.ones(5)
    push = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0])
    (constrain_in_training(values, lower, upper, "clip") * push).sum().backward()
    assert values.grad is not None
    # Descent goes against the gradient: below the interval only -1 leads back, above it only +1.
    assert values.grad.tolist() == [0.0, -1.0, 1.0, 1.0, 0.0]
