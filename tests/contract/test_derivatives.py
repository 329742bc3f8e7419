"""Every model differentiates as the function it is, and torch's own tools work on it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import tether
from tether.fitting import DIRECT, VANILLA, FitConfig, prepare, train_method
from tether.model import Model
from tether.model.assembling import constrained_model

STEP = 1e-6


def trusted(states, controls):
    """A cart that turns: its heading is an angle, and at rest nothing moves."""
    speed, heading = states[:, 0], states[:, 1]
    following = [speed + 0.1 * np.sin(heading) * controls[:, 0], heading + 0.3 * speed * controls[:, 0]]
    return np.stack(following, axis=1)


def transitions():
    rng = np.random.default_rng(0)
    states, controls = rng.uniform([-1, -3.1], [1, 3.1], (900, 2)), rng.uniform(-1, 1, (900, 1))
    following = trusted(states, controls) + 0.05 * np.sin(4 * states) * states[:, :1]
    schema = tether.make_schema(["speed", "heading"], ["steering"], angles=["heading"])
    return tether.Transitions.from_arrays(
        states, controls, following, episodes=np.arange(900) // 30, schema=schema
    )


def settings(**given):
    return FitConfig(
        memories=60, hidden=(16,), evidence="proved",
        training=tether.TrainingConfig(steps=60, dtype="float64"), **given,
    )  # fmt: skip


KINDS = {
    "interval, clip": {"bounds": "interval"},
    "interval, sigmoid": {"bounds": "interval", "operator": "sigmoid"},
    "affine, clip": {"bounds": "affine", "leaves": 300},
    "affine, sigmoid": {"bounds": "affine", "leaves": 300, "operator": "sigmoid"},
    "affine, project": {"bounds": "affine", "leaves": 300, "operator": "project"},
}


@pytest.fixture(scope="module")
def models():
    data = transitions()
    probes = tether.Probes.from_box({"speed": 0.0}, count=100, like=data)
    fitted: dict[str, Any] = {
        name: tether.fit(data, trusted=trusted, probes=probes, config=settings(**given))
        for name, given in KINDS.items()
    }
    problem = prepare(data, trusted=trusted, probes=probes, config=settings(bounds="affine"))
    for method in (DIRECT, VANILLA):
        fitted[method.name] = train_method(problem, method, settings(bounds="affine")).model
    return fitted


NAMES = [*KINDS, DIRECT.name, VANILLA.name]


def inputs_of(model, count=200):
    """Inside and beyond the domain, at rest, and a memory itself."""
    rng = np.random.default_rng(1)
    inputs = rng.uniform([-1.1, -3, -1], [1.1, 3, 1], (count, 3))
    inputs[: count // 5, 0] = 0.0
    if model.tether.kind in ("interval", "affine"):
        inputs[-5:] = model.cells.centers[:5]
    return inputs


def steps_of(model, inputs):
    """Central differences (N, P, D), and the rows (N,) whose two ends lie in the cell of the middle."""
    columns, same = [], np.ones(len(inputs), dtype=bool)
    for d in range(inputs.shape[1]):
        change = STEP * np.eye(inputs.shape[1])[d]
        ends = [model.predict(x[:, :2], x[:, 2:], details=True) for x in (inputs + change, inputs - change)]
        gap = ends[0].next_states - ends[1].next_states
        columns.append((gap - 2 * np.pi * np.round(gap / (2 * np.pi)) * [0, 1]) / (2 * STEP))
        same &= ends[0].cell == ends[1].cell
        if model.tether.kind == "boxes":
            leaves = [model.bounds.tree.find(x) for x in (inputs + change, inputs - change)]
            same &= (leaves[0] == leaves[1]).all(axis=1)
    return np.stack(columns, axis=2), same


def scaled(model, factor):
    """The model with other weights: inside its limits, on them and far beyond them."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in list(other.network.parameters())[-2:]:
            parameter *= factor
    return other


@pytest.mark.parametrize("factor", [0.0, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_finite_differences(models, name, factor):
    model = scaled(models[name], factor)
    inputs = inputs_of(model)
    found = model.linearize(inputs[:, :2], inputs[:, 2:])
    jacobian = np.concatenate([found.states, found.controls], axis=2)
    expected, same = steps_of(model, inputs)
    size = 1 + np.abs(expected)
    # Kinks within a step of a row: of the network's own, of limits met, of a blend's rim.
    close = np.all(np.abs(jacobian - expected) <= 1e-5 * size, axis=(1, 2))
    assert close[same].mean() > 0.97
    assert same.mean() > 0.8


@pytest.mark.parametrize("name", ["affine, clip", "affine, sigmoid"])
@pytest.mark.parametrize("factor", [0.0, 1.0, 1e4])
def test_without_room_the_derivative_is_that_of_the_expansion(models, name, factor):
    model = scaled(models[name], factor)
    inputs = inputs_of(model)[:40]  # at rest, where probes pin the model to M
    found = model.linearize(inputs[:, :2], inputs[:, 2:])
    jacobian = np.concatenate([found.states, found.controls], axis=2)
    rows = torch.from_numpy(inputs).requires_grad_()
    anchor = model.tether.room(rows).anchor
    for output in range(2):
        (slope,) = torch.autograd.grad(anchor[:, output].sum(), rows, retain_graph=True)
        expected = slope.numpy()
        if model.frame.target == "increment":
            expected[:, output] += 1
        np.testing.assert_allclose(jacobian[:, output], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_derivative_does_not_know_what_it_is_for(models, name):
    model = scaled(models[name], 30.0)
    inputs = torch.from_numpy(inputs_of(model)).requires_grad_()
    up, down = (
        torch.autograd.grad((sign * model(inputs[:, :2], inputs[:, 2:])).sum(), inputs)[0] for sign in (1, -1)
    )
    assert torch.equal(up, -down)


@pytest.mark.parametrize("name", NAMES)
def test_forward_says_what_predict_says(models, name):
    model = models[name]
    inputs = inputs_of(model)
    batch = model(torch.from_numpy(inputs[:, :2]), torch.from_numpy(inputs[:, 2:])).detach().numpy()
    np.testing.assert_allclose(batch, model.predict(inputs[:, :2], inputs[:, 2:]), rtol=0, atol=1e-12)
    one = model(torch.from_numpy(inputs[0, :2]), torch.from_numpy(inputs[0, 2:]))
    np.testing.assert_allclose(one.detach().numpy(), batch[0], rtol=0, atol=1e-12)


TRACED = [name for name in NAMES if name != DIRECT.name]
"""All but the one that calls M, a function in NumPy, at run time."""


@pytest.mark.parametrize("name", TRACED)
def test_rows_can_be_mapped_over(models, name):
    model = models[name]
    inputs = inputs_of(model, 20)
    rows = torch.from_numpy(inputs)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: model(row[:2], row[2:])))(rows)
    found = model.linearize(inputs[:, :2], inputs[:, 2:])
    expected = np.concatenate([found.states, found.controls], axis=2)
    np.testing.assert_allclose(jacobian.detach().numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", TRACED)
def test_models_are_exported_compiled_copied_and_moved(models, name):
    model = models[name]
    rows = torch.from_numpy(inputs_of(model, 20))
    given = (rows[:, :2], rows[:, 2:])
    expected = model(*given)
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, given, dynamic_shapes=({0: batch}, {0: batch}))
    assert torch.equal(program.module()(rows[:7, :2], rows[:7, 2:]), model(rows[:7, :2], rows[:7, 2:]))
    torch._dynamo.reset()  # it counts compilations of one `forward`, whichever model they are of
    assert torch.equal(torch.compile(model, backend="aot_eager", fullgraph=True)(*given), expected)
    assert torch.equal(copy.deepcopy(model)(*given), expected)
    nowhere = copy.deepcopy(model).to("meta")
    assert nowhere(*(part.to("meta") for part in given)).shape == expected.shape


def test_casting_a_model_leaves_its_geometry(models):
    model = models["affine, clip"]
    half = copy.deepcopy(model).half()
    assert {part.dtype for part in half.network.parameters()} == {torch.float16}
    for name, values in model.tether.named_buffers():
        assert torch.equal(values, dict(half.tether.named_buffers())[name])


def test_the_state_of_a_model_holds_its_geometry(models):
    model, other = models["affine, clip"], copy.deepcopy(models["affine, clip"])
    for values in other.tether.buffers():
        values.zero_()
    other.load_state_dict(model.state_dict())
    inputs = torch.from_numpy(inputs_of(model))
    assert torch.equal(other(inputs[:, :2], inputs[:, 2:]), model(inputs[:, :2], inputs[:, 2:]))


@pytest.mark.parametrize("name", NAMES)
def test_a_state_changes_forward_and_predict_alike(models, name):
    """Geometry of another model is taken up by both, and by what is certified."""
    model, other = models[name], copy.deepcopy(models[name])
    state = {key: part.clone() for key, part in model.state_dict().items()}
    for key in ("tether.half_width", "tether.lower", "tether.upper", "frame.output_scale"):
        if key in state:
            state[key] += 0.25 if key.endswith("upper") else -0.25 if key.endswith("lower") else state[key]
    other.load_state_dict(state)
    other = scaled(other, 1e4)
    inputs = inputs_of(model)
    before, after = (m.predict(inputs[:, :2], inputs[:, 2:], details=True) for m in (model, other))
    assert np.abs(after.next_states - before.next_states).max() > 0.01
    batch = other(torch.from_numpy(inputs[:, :2]), torch.from_numpy(inputs[:, 2:])).detach().numpy()
    np.testing.assert_allclose(batch, after.next_states, rtol=0, atol=1e-12)
    if model.tether.kind in ("interval", "affine"):
        assert other.bounds.delta.max() >= model.bounds.delta.max()
        one = after.upper - after.lower
        assert (one > before.upper - before.lower).any()
        bounds = constrained_model(
            other.network, other.frame, other.cells, other.bounds, operator=other.operator
        )
        rebuilt = bounds.predict(inputs[:, :2], inputs[:, 2:], details=True)
        np.testing.assert_array_equal(rebuilt.lower, after.lower)
        np.testing.assert_array_equal(rebuilt.delta, after.delta)


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_ask_a_tether_gives_the_same_bits(models, name):
    model = models[name]
    rows = torch.from_numpy(model.schema.wrap_inputs(*np.split(inputs_of(model), [2], axis=1)))
    limits, room, at_once = (
        ask(rows) for ask in (model.tether.limits, model.tether.room, model.tether.room_at_once)
    )
    arrays = model.tether.rows(rows.numpy())
    for part in ("lower", "upper", "anchor"):
        for found in (room, at_once):
            assert torch.equal(getattr(limits, part), getattr(found, part))
        np.testing.assert_array_equal(getattr(arrays, part), getattr(limits, part).numpy())
    states, controls = rows.numpy()[:, :2], rows.numpy()[:, 2:]
    details = model.predict(states, controls, details=True)
    np.testing.assert_array_equal(model.predict(states, controls), details.next_states)


def test_kinds_are_what_they_are_called(models):
    assert isinstance(models[DIRECT.name], Model)
    assert isinstance(models[VANILLA.name], Model)
