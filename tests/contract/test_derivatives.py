"""Every model differentiates as the function it is, and torch's own tools work on it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from every_model import SUBJECTS, Constant, each, every, parts, scaled, tensors

from tether.data import Scaling, make_schema
from tether.evidence import Proved, Question
from tether.geometry.cells import Cells
from tether.model import Frame, mlp
from tether.model.assembling import constrained_model
from tether.model.single import single_precision
from tether.tethers.expanding import expand, with_room
from tether.tethers.growth import Aim
from tether.trusted import TrustedModel

STEP = 1e-6


def steps_of(model, inputs):
    """Central differences (N, P, D), and the rows (N,) whose two ends lie in the cell and leaves of the middle."""
    columns, same = [], np.ones(len(inputs), dtype=bool)
    for d in range(inputs.shape[1]):
        change = STEP * np.eye(inputs.shape[1])[d]
        ends = [model.predict(*parts(x), details=True) for x in (inputs + change, inputs - change)]
        gap = ends[0].next_states - ends[1].next_states
        turns = np.round(gap / (2 * np.pi)) * model.schema.output_angles
        columns.append((gap - 2 * np.pi * turns) / (2 * STEP))
        same &= ends[0].cell == ends[1].cell
        if model.tether.kind == "affine":
            leaves = [model.bounds.tree.find(x) for x in (inputs + change, inputs - change)]
            same &= (leaves[0] == leaves[1]).all(axis=1)
    return np.stack(columns, axis=2), same


def jacobian_of(model, inputs):
    """(N, P, D)."""
    found = model.linearize(*parts(inputs))
    return np.concatenate([found.states, found.controls], axis=2)


@pytest.mark.parametrize("factor", [0.0, 1.0, 30.0, 1e4])
@every
def test_derivatives_are_those_of_finite_differences(subject, factor):
    model = scaled(subject.model(), factor)
    inputs = subject.inputs()
    jacobian = jacobian_of(model, inputs)
    expected, same = steps_of(model, inputs)
    size = 1 + np.abs(expected)
    # Kinks within a step of a row: of the network's own, of limits met, of where probes close the room.
    close = np.all(np.abs(jacobian - expected) <= 1e-5 * size, axis=(1, 2))
    assert close[same].mean() > 0.97
    assert same.mean() > 0.8


@pytest.mark.parametrize("factor", [1.0, 1e4])
@each(s for s in SUBJECTS if s.single)
def test_in_float32_derivatives_are_those_of_float64(subject, factor):
    model = scaled(subject.model(), factor)
    single, inputs = single_precision(model), subject.inputs().astype(np.float32)
    found, expected = single.linearize(*parts(inputs)), jacobian_of(model, inputs.astype(np.float64))
    jacobian = np.concatenate([found.states, found.controls], axis=2)
    mapped = torch.func.vmap(
        torch.func.jacrev(lambda row: single(row[None, :2], row[None, 2:]).next_states[0])
    )
    again = mapped(torch.from_numpy(inputs)).detach().numpy()
    np.testing.assert_allclose(again, jacobian, rtol=1e-3, atol=1e-5 * np.abs(jacobian).max())
    # Rows that rounding moves to the other side of a kink, or of a limit.
    close = np.all(np.abs(jacobian - expected) <= 1e-3 * (1 + np.abs(expected)), axis=(1, 2))
    assert close.mean() > 0.95
    values = single.predict(*parts(inputs))
    assert values.dtype == np.float32
    assert (values == single(*tensors(inputs)).next_states.detach().numpy()).all()


@pytest.mark.parametrize("factor", [0.0, 1.0, 1e4])
@each(s for s in SUBJECTS if s.kind == "affine, angles" and s.operator != "project")
def test_without_room_the_derivative_is_that_of_the_expansion(subject, factor):
    model = scaled(subject.model(), factor)
    inputs = subject.inputs()[:40]  # at rest, where probes pin the model to M
    jacobian = jacobian_of(model, inputs)
    rows = torch.from_numpy(inputs).requires_grad_()
    anchor = model.tether.room(rows).anchor
    for output in range(2):
        (slope,) = torch.autograd.grad(anchor[:, output].sum(), rows, retain_graph=True)
        expected = slope.numpy()
        if model.frame.target == "increment":
            expected[:, output] += 1
        np.testing.assert_allclose(jacobian[:, output], expected, rtol=1e-12, atol=1e-12)


@every
def test_a_derivative_does_not_know_what_it_is_for(subject):
    model = scaled(subject.model(), 30.0)
    inputs = torch.from_numpy(subject.inputs()).requires_grad_()
    up, down = (torch.autograd.grad((sign * model(*parts(inputs))).sum(), inputs)[0] for sign in (1, -1))
    assert torch.equal(up, -down)


@every
def test_a_constant_network_has_derivatives(subject):
    """Those of the state that increments are added to, of limits, or none at all."""
    model, inputs = subject.model(), subject.inputs(20)
    model.network = Constant(0.25)
    for target in ("increment", "next_state"):
        model.frame.target = target
        jacobian = jacobian_of(model, inputs)
        expected, same = steps_of(model, inputs)
        assert (np.abs(jacobian - expected) <= 1e-5 * (1 + np.abs(expected)))[same].mean() > 0.97


@every
def test_forward_says_what_predict_says(subject):
    model, inputs = subject.model(), subject.inputs()
    batch = model(*tensors(inputs)).detach().numpy()
    np.testing.assert_allclose(batch, model.predict(*parts(inputs)), rtol=0, atol=1e-12)
    one = model(*(part[0] for part in tensors(inputs)))
    np.testing.assert_allclose(one.detach().numpy(), batch[0], rtol=0, atol=1e-12)


@every
def test_rows_can_be_mapped_over(subject):
    model, inputs = subject.model(), subject.inputs(20)
    rows = torch.from_numpy(inputs)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: model(row[:2], row[2:])))(rows)
    np.testing.assert_allclose(jacobian.detach().numpy(), jacobian_of(model, inputs), rtol=1e-9, atol=1e-12)


@each(s for s in SUBJECTS if s.operator == "clip" and s.kind not in ("affine", "affine, pinned"))
# Torch's own way of following a function with a derivative of its own.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_models_are_compiled(subject):
    model, given = subject.model(), tensors(subject.inputs(20))
    torch._dynamo.reset()  # it counts compilations of one `forward`, whichever model they are of
    assert torch.equal(torch.compile(model, backend="aot_eager", fullgraph=True)(*given), model(*given))


@each(s for s in SUBJECTS if s.single and s.operator == "clip" and s.kind in ("interval", "affine, angles"))
def test_in_float32_models_are_compiled(subject):
    model, given = single_precision(subject.model()), tensors(subject.inputs(20).astype(np.float32))
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)(*given)
    for ours, theirs in zip(compiled, model(*given), strict=True):
        assert torch.equal(ours, theirs)


@every
def test_casting_a_model_leaves_its_geometry(subject):
    model = subject.model()
    half = copy.deepcopy(model).half()
    assert {part.dtype for part in half.network.parameters()} == {torch.float16}
    for name, values in model.tether.named_buffers():
        assert torch.equal(values, dict(half.tether.named_buffers())[name])


@every
def test_a_state_changes_forward_and_predict_alike(subject):
    """Geometry of another model is taken up by both, and by what is certified."""
    model, other = subject.model(), subject.model()
    state = {key: part.clone() for key, part in model.state_dict().items()}
    for key in ("tether.half_width", "tether.lower", "tether.upper", "frame.output_scale"):
        if key in state:
            state[key] += 0.25 if key.endswith("upper") else -0.25 if key.endswith("lower") else state[key]
    other.load_state_dict(state)
    other = scaled(other, 1e4)
    inputs = subject.inputs()
    before, after = (m.predict(*parts(inputs), details=True) for m in (model, other))
    assert np.abs(after.next_states - before.next_states).max() > 0.01
    batch = other(*tensors(inputs)).detach().numpy()
    np.testing.assert_allclose(batch, after.next_states, rtol=0, atol=1e-12)
    if model.tether.limited:
        assert other.bounds.delta.max() >= model.bounds.delta.max()
        assert (after.upper - after.lower > before.upper - before.lower).any()
        bounds = constrained_model(
            other.network, other.frame, other.cells, other.bounds, operator=other.operator
        )
        rebuilt = bounds.predict(*parts(inputs), details=True)
        np.testing.assert_array_equal(rebuilt.lower, after.lower)
        np.testing.assert_array_equal(rebuilt.delta, after.delta)


@every
def test_every_way_to_ask_a_tether_gives_the_same_bits(subject):
    model, inputs = subject.model(), subject.inputs()
    rows = torch.from_numpy(inputs)
    limits, room = model.tether.limits(rows), model.tether.room(rows)
    arrays, at_once = model.tether.rows(inputs), model.tether.room_at_once(inputs)
    for part in ("lower", "upper", "anchor"):
        assert torch.equal(getattr(limits, part), getattr(room, part))
        for found in (arrays, at_once):
            np.testing.assert_array_equal(getattr(found, part), getattr(limits, part).numpy())
    features = model.frame.features(rows).numpy()
    np.testing.assert_array_equal(model.frame.features_of(inputs), features)
    details = model.predict(*parts(inputs), details=True)
    np.testing.assert_array_equal(model.predict(*parts(inputs)), details.next_states)


@every
def test_derivatives_across_leaves_are_of_the_same_numbers(subject):
    model, inputs = subject.model(), subject.inputs(20)
    rows = torch.from_numpy(inputs)
    assert torch.equal(model(*tensors(inputs), across=True), model(*tensors(inputs)))
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: model(row[:2], row[2:], across=True)))(rows)
    found = model.linearize(*parts(inputs), across=True)
    known = np.concatenate([found.states, found.controls], axis=2)
    np.testing.assert_allclose(jacobian.detach().numpy(), known, rtol=1e-9, atol=1e-12)
    if model.tether.strides() is None:
        np.testing.assert_array_equal(known, jacobian_of(model, inputs))


def test_across_a_turn_nothing_jumps():
    """A vane that keeps its heading, given as the next one: by its heading it changes by 1, also at the cut."""
    schema = make_schema(["heading"], ["wind"], angles=["heading"])
    box = np.array([np.pi, 1.0])
    question = Question(
        TrustedModel(lambda s, u: s + 0.1 * np.sin(s) * u),
        schema,
        "next_state",
        -box,
        box,
        np.full(2, np.nan),
    )
    cells = Cells(np.zeros((1, 2)), np.empty((0, 2), dtype=np.int64), np.ones(2), 9.0, -box, box)
    found = expand(question, Proved(), Aim(np.full(1, 1e-3), np.empty((0, 2)), 200), cells)
    one = Scaling(np.zeros(1), np.ones(1))
    frame = Frame(schema, "next_state", Scaling(np.zeros(2), np.ones(2)), one)
    bounds = with_room(found.bounds, np.zeros((1, 1)), schema)
    model = constrained_model(mlp(frame.features_width, 1, (4,)), frame, cells, bounds)
    states = np.array([[-np.pi], [np.pi - 1e-9], [3.1], [0.5]])
    slopes = model.linearize(states, np.full((4, 1), 0.5), across=True).states[:, 0, 0]
    np.testing.assert_allclose(slopes, 1 + 0.05 * np.cos(states[:, 0]), atol=0.01)
