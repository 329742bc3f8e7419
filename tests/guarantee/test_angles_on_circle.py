"""Angles that cross ±π, turn fast or come many turns away: outputs within delta of M on the circle, zero tolerance.

Distances are taken in 200 bits from the float64 numbers that M and the model return, with code of their own.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from flint import arb, ctx
from test_affine_tethers import affine_bounds

import tether
from conftest import seeds
from tether.claims.attack import attack
from tether.claims.certificate import certify, output_deltas
from tether.data import HALF_TURN, MOST_RADIANS, Scaling, Schema, make_schema, near
from tether.evidence import Question, SamplingConfig, Statistical, as_evidence
from tether.fitting import DIRECT, FitConfig, prepare, train_method
from tether.foundation.errors import TrustedModelError
from tether.geometry.cells import Cells
from tether.learning.config import TrainingConfig
from tether.model import Frame, mlp
from tether.model.assembling import constrained_model, direct_model
from tether.model.single import single_delta, single_precision
from tether.tethers.bounds import bound_by_intervals
from tether.tethers.calibration import calibrate
from tether.trusted import TrustedModel

QUICK = TrainingConfig(steps=20, evaluate_every=20)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads that wait for one another are slower than none on rows this few."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def exactly_apart(one, other):
    """Distances on the circle between float64 numbers, rounded down from 200 bits."""
    before, ctx.prec = ctx.prec, 200
    try:
        turn = 2 * arb.pi()
        apart = []
        for a, b in zip(np.ravel(one).tolist(), np.ravel(other).tolist(), strict=True):
            gap = arb(a) - arb(b)
            gap = abs(gap - turn * round(float(gap) / (2 * np.pi)))
            # A count of turns that was rounded the wrong way, next to half a turn.
            apart.append(float(gap.min(turn - gap).lower()))
        return np.array(apart).reshape(np.shape(one))
    finally:
        ctx.prec = before


def assert_within(outputs, values, delta, angles):
    """Every output within delta of M: a rough look at all rows, an exact one at those that come nearest to it."""
    line = np.abs(outputs - values)
    assert (line <= delta)[:, ~angles].all()
    rough = np.where(angles, np.abs(np.remainder(outputs - values + np.pi, 2 * np.pi) - np.pi), 0.0)
    worst = np.unravel_index(np.argsort(-(rough - delta), axis=None)[:300], rough.shape)
    excess = np.where(angles[worst[1]], exactly_apart(outputs[worst], values[worst]) - delta[worst], -1.0)
    assert excess.max() <= 0, (excess.max(), delta[worst][np.argmax(excess)])


class Constant(torch.nn.Module):
    """A network that says one number, whatever it is asked."""

    def __init__(self, value, outputs):
        super().__init__()
        self.value = torch.nn.Parameter(torch.full((outputs,), value))

    def forward(self, features):
        return self.value.expand(len(features), len(self.value))


def wild(model):
    """Networks that push to either end, say nothing, or have weights a million times too large."""
    outputs = len(model.schema.outputs)
    large = mlp(model.frame.features_width, outputs, (8,), seed=3)
    with torch.no_grad():
        for parameter in large.parameters():
            parameter.mul_(1e6)
    return [*(Constant(value, outputs) for value in (torch.inf, -torch.inf, 0.0)), large]


def assert_holds(model, function, inputs):
    """The model's delta, for any weights, at inputs in its domain, in float64 and float32, by both ways to ask."""
    angles, dx = model.schema.output_angles, len(model.schema.states)
    covered = 0
    for network in wild(model):
        for operator in ("clip", "sigmoid"):
            one = constrained_model(network, model.frame, model.cells, model.bounds, operator=operator)
            found = one.predict(inputs[:, :dx], inputs[:, dx:], details=True)
            rows = found.in_domain
            wrapped = model.schema.wrap_inputs(inputs[:, :dx], inputs[:, dx:])
            values = np.asarray(function(wrapped[:, :dx], wrapped[:, dx:]))
            assert_within(found.next_states[rows], values[rows], found.delta[rows], angles)
            largest = np.array([delta.max() for _, delta in model.bounds.by_output()])
            assert (found.delta[rows] <= largest * (1 + 1e-12)).all()
            assert (found.delta[rows][:, angles] <= HALF_TURN).all()
            states, controls = (torch.from_numpy(part) for part in (inputs[:, :dx], inputs[:, dx:]))
            with torch.no_grad():
                forward = one(states, controls).numpy()
            assert_within(forward[rows], values[rows], found.delta[rows] * (1 + 1e-9) + 1e-11, angles)
            covered += int(rows.sum())
    assert covered
    if model.bounds.evidence.everywhere and model.bounds.kind == "interval":
        assert_single_holds(model, function, inputs)


def assert_single_holds(model, function, inputs):
    """The same of the float32 model, at float32 inputs."""
    dx, rounded = len(model.schema.states), inputs.astype(np.float32)
    exact = rounded.astype(np.float64)
    values = np.asarray(function(exact[:, :dx], exact[:, dx:]))
    largest = single_delta(model)
    for network in wild(model):
        one = single_precision(constrained_model(network, model.frame, model.cells, model.bounds))
        given = torch.from_numpy(rounded)
        with torch.no_grad():
            found = one(given[:, :dx].contiguous(), given[:, dx:].contiguous())
        rows = found.in_domain.numpy()
        outputs, delta = found.next_states.double().numpy()[rows], found.delta.double().numpy()[rows]
        assert (delta <= largest).all()
        assert_within(outputs, values[rows], delta, model.schema.output_angles)


# --- case 1: an affine tether whose angle crosses ±π


def bearing_from_behind(s, u):
    return np.column_stack([np.pi + 0.5 * s[:, 0]])


@pytest.fixture(scope="module", params=["data", "probes"])
def behind(request):
    """Exact data all over, or data on either side and nothing but probes where the bearing crosses ±π."""
    rng = np.random.default_rng(0)
    everywhere = rng.uniform(-1, 1, (3000, 2))
    states = everywhere if request.param == "data" else everywhere[np.abs(everywhere[:, 0]) > 0.2]
    rows = len(states)
    schema = make_schema(["x", "y"], [], ["bearing"], angles=["bearing"])
    data = tether.Transitions.from_arrays(
        states,
        np.zeros((rows, 0)),
        bearing_from_behind(states, None),
        episodes=np.arange(rows) // 50,
        schema=schema,
    )
    probes = tether.Probes.from_arrays(everywhere, np.zeros((3000, 0)), schema=schema)
    model = tether.fit(
        data, trusted=bearing_from_behind, probes=probes, bounds="affine", evidence="proved",
        memories=300, hidden=(8,), training=QUICK,
    )  # fmt: skip
    return data, model


def test_a_bearing_across_half_a_turn(behind):
    _, model = behind
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-1, 1, (10_000, 2))
    inputs[:5000, 0] = rng.normal(0, 0.02, 5000)
    assert_holds(model, bearing_from_behind, inputs)
    found = model.predict(inputs, np.zeros((len(inputs), 0)), details=True)
    assert found.in_domain.mean() > 0.8
    # Exact data: what is left is rounding.
    assert found.delta[found.in_domain].max() < 1e-11


def test_it_is_certified_attacked_and_verified(behind, tmp_path):
    _, model = behind
    assert certify(model, bearing_from_behind).deltas[0].maximum < 1e-11
    assert attack(model, bearing_from_behind, evaluations=40_000).max_ratio <= 1
    tether.save(model, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", bearing_from_behind).verified
    again = tether.load(tmp_path / "model.safetensors")
    inputs = np.random.default_rng(2).uniform(-1, 1, (500, 2))
    nothing = np.zeros((500, 0))
    np.testing.assert_array_equal(again.predict(inputs, nothing), model.predict(inputs, nothing))


def test_on_the_circle_it_is_continuous_across_half_a_turn(behind):
    _, model = behind
    line = np.column_stack([np.linspace(-0.1, 0.1, 4001), np.full(4001, 0.2)])
    outputs = model.predict(line, np.zeros((4001, 0)))
    jumps = model.schema.distance(outputs[1:], outputs[:-1])
    assert jumps.max() < 1e-3


def test_forward_says_the_same(behind):
    _, model = behind
    inputs = np.random.default_rng(3).uniform(-1, 1, (2000, 2))
    nothing = np.zeros((2000, 0))
    forward = model(torch.from_numpy(inputs), torch.from_numpy(nothing)).detach().numpy()
    assert model.schema.distance(forward, model.predict(inputs, nothing)).max() < 1e-12


# --- case 10: room and range on the circle


def test_exact_data_across_half_a_turn_ask_for_no_room():
    """Observed angles come wrapped, A runs on across ±π: 1.1 turns of room were asked for."""
    rng = np.random.default_rng(4)
    states = rng.uniform(-1, 1, (2000, 1))

    def bearing(s, u):
        return np.column_stack([np.pi + 0.5 * s[:, 0], s[:, 0]])

    schema = make_schema(["x"], [], ["bearing", "level"], angles=["bearing"])
    data = tether.Transitions.from_arrays(
        states, np.zeros((2000, 0)), bearing(states, None), episodes=np.arange(2000) // 50, schema=schema
    )
    model = tether.fit(
        data, trusted=bearing, bounds="affine", evidence="proved", memories=40, hidden=(8,),
        training=QUICK,
    )  # fmt: skip
    assert model.bounds.delta.max() < 1e-11
    # The network learns from deviations on the circle, too: none is a turn.
    assert model.frame.outputs.scale[0] < 1e-9 or model.frame.outputs.scale[0] == 1.0
    assert_holds(model, bearing, rng.uniform(-1, 1, (4000, 1)))


def test_a_direct_model_of_exact_data_asks_for_no_room():
    rng = np.random.default_rng(5)
    states = rng.uniform(-1, 1, (600, 1))

    def off(s, u):
        return np.column_stack([np.pi + 0.5 * s[:, 0]])

    schema = make_schema(["x", "y"], [], ["bearing"], angles=["bearing"])
    states = np.column_stack([states, states])
    seen = off(states, None) + 1e-3 * rng.uniform(-1, 1, (600, 1))
    data = tether.Transitions.from_arrays(
        states, np.zeros((600, 0)), seen, episodes=np.arange(600) // 20, schema=schema
    )
    config = FitConfig(hidden=(8,), training=QUICK)
    problem = prepare(data, trusted=off, config=config)
    model = train_method(problem, DIRECT, config).model
    assert 1e-3 <= model.tether.half_width[0] < 1.2e-3
    assert problem.frame("next_state", problem.data[0].trusted).outputs.scale[0] < 1e-3


def spinning(rate):
    def function(s, u):
        return np.column_stack([s[:, 0] + rate * u[:, 0], s[:, 1] + 0.1 * u[:, 0]])

    return function


@pytest.mark.parametrize("evidence", ["proved", "lipschitz", "statistical", "sampled"])
@pytest.mark.parametrize("rate", [0.5, 3.0, 40.0])
def test_interval_bounds_of_a_fast_rotation(evidence, rate):
    """Whether a cell sees a part of the circle, a little more than all of it, or many turns."""
    rng = np.random.default_rng(6)
    states = np.column_stack([rng.uniform(-np.pi, np.pi, 2000), rng.uniform(-1, 1, 2000)])
    controls = rng.uniform(-1, 1, (2000, 1))
    schema = make_schema(["theta", "v"], ["u"], angles=["theta"])
    function = spinning(rate)
    data = tether.Transitions.from_arrays(
        states, controls, function(states, controls), episodes=np.arange(2000) // 50, schema=schema
    )
    constants = [[1.0, 0.0, rate], [0.0, 1.0, 0.1]]
    trusted = TrustedModel(function, lipschitz=constants, increment_lipschitz=[[0, 0, rate], [0, 0, 0.1]])
    model = tether.fit(
        data, trusted=trusted, bounds="interval", evidence=evidence, memories=60, hidden=(8,), training=QUICK
    )
    delta = model.bounds.delta[:, 0]
    assert delta.max() <= HALF_TURN and (rate < 40 or delta.min() > 3)
    certify(model, trusted)
    if evidence in ("proved", "lipschitz"):
        inputs = np.column_stack([rng.uniform(-np.pi, np.pi, 4000), rng.uniform(-1, 1, (4000, 2))])
        assert_holds(model, function, inputs)
        assert attack(model, trusted, evaluations=20_000).max_ratio <= 1


# --- case 15: M many turns away


@pytest.mark.parametrize("turns", [0, 1, -37, 10**6, -4 * 10**7])
def test_direct_with_an_angle_many_turns_away(turns):
    rng = np.random.default_rng(7)
    schema = make_schema(["theta"], ["u"], angles=["theta"])

    def far(s, u):
        return s + 0.3 * u + 2 * np.pi * turns

    states, controls = rng.uniform(-3.2, 3.2, (2000, 1)), rng.uniform(-1, 1, (2000, 1))
    frame = Frame(schema, "increment", Scaling(np.zeros(2), np.ones(2)), Scaling(np.zeros(1), np.ones(1)))
    for width in (0.0, 0.05):
        for value in (torch.inf, -torch.inf, 0.0):
            model = direct_model(Constant(value, 1), frame, TrustedModel(far), np.full(1, width))
            found = model.predict(states, controls, details=True)
            wrapped = schema.wrap_inputs(states, controls)
            apart = exactly_apart(found.next_states, far(wrapped[:, :1], wrapped[:, 1:]))
            assert (apart <= found.delta).all()
            assert found.delta.max() < width + 1e-13


def test_a_fallback_to_an_angle_many_turns_away(behind):
    _, model = behind

    def far(s, u):
        return bearing_from_behind(s, u) + 2e6 * np.pi

    states = np.random.default_rng(8).uniform(50, 60, (500, 2))
    found = model.predict(states, np.zeros((500, 0)), details=True, outside="fallback", trusted=far)
    assert (exactly_apart(found.next_states, far(states, None)) <= found.delta).all()
    assert found.delta.max() < 1e-13


def test_so_many_turns_that_no_digits_are_left():
    schema = make_schema(["theta"], [], angles=["theta"])
    with pytest.raises(
        TrustedModelError, match=r"must return angles of at most 2.68e\+08 rad; got 3e\+08 in output"
    ):
        TrustedModel(lambda s, u: s + 3e8)(np.zeros((1, 1)), np.zeros((1, 0)), schema)


def test_turns_are_taken_off_exactly():
    rng = np.random.default_rng(9)
    values = rng.uniform(-MOST_RADIANS, MOST_RADIANS, 4000)
    reference = rng.uniform(-4, 4, 4000)
    moved = near(values, reference)
    assert np.abs(moved - reference).max() <= np.pi * (1 + 1e-15)
    assert exactly_apart(moved, values).max() < 2e-15
    np.testing.assert_array_equal(near(moved, moved), moved)


def test_the_farthest_of_an_arc_may_be_between_its_ends():
    schema = make_schema(["x", "theta"], [], angles=["theta"])
    values, lower = np.zeros((3, 2)), np.array([[-2.0, -2.0], [-1.0, -1.0], [5.0, 5.0]])
    upper = np.array([[4.0, 4.0], [2.0, 2.0], [6.0, 6.0]])
    farthest = schema.farthest(values, lower, upper)
    np.testing.assert_allclose(farthest, [[4.0, np.pi], [2.0, 2.0], [6.0, 2 * np.pi - 5]])
    np.testing.assert_allclose(
        schema.farthest(values + 4e6 * np.pi, lower, upper)[:, 1], farthest[:, 1], atol=1e-8
    )


# --- any model: random rotations, several turns and offsets


def random_rotation(seed):
    """Angles that turn, bend and start anywhere, and one output that is none; with its own Jacobian."""
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(2, 4))
    turn, bend, other = rng.standard_normal((3, inputs))
    speed, curve = 10 ** rng.uniform(-1, 1.7), 10 ** rng.uniform(-2, 0.7)
    offset = rng.choice([0.0, np.pi, -np.pi, 3.0, 50.0, 2e3 * np.pi])

    def function(s, u):
        angle = offset + speed * (s @ turn) + curve * np.sin(s @ bend)
        return np.column_stack([angle, np.cos(s @ other)])

    def jacobian(s, u):
        angle = speed * turn + curve * np.cos(s @ bend)[:, None] * bend
        return np.stack([angle, -np.sin(s @ other)[:, None] * other], axis=1)

    steep = np.stack([np.abs(speed * turn) + curve * np.abs(bend), np.abs(other)])
    curvature = np.array([curve * bend @ bend, other @ other])
    return TrustedModel(function, jacobian, steep, jacobian_lipschitz=curvature), inputs


def model_of(trusted, inputs, kind, evidence, seed):
    """A tether of few cells of various sizes, and labels that are off by up to a radian.

    The angle is a bearing, or the next value of the first state, which is an angle then.
    """
    rng = np.random.default_rng(seed + 1)
    names, target = tuple(f"s{k}" for k in range(inputs)), rng.choice(["next_state", "increment"])
    if target == "increment":
        schema = Schema(names, (), names[:2], angles=names[:1], advances=(0, 1))
    else:
        schema = Schema(names, (), ("bearing", "level"), angles=("bearing",), advances=(-1, -1))
    scale = 10.0 ** rng.uniform(-0.3, 0.3, inputs)
    reach = np.where(schema.input_angles, np.pi, 1.0)
    memories = reach * rng.uniform(-1, 1, (40, inputs)) / scale
    radii = rng.uniform(0.15, 0.6, 40) / scale.max()
    box = 1.5 * reach
    cells = Cells(memories, np.array([[0, 1], [1, 2]]), scale, radii, -box, box)
    common = (cells, trusted, schema, target)
    data = reach * rng.uniform(-1, 1, (200, inputs))
    room = rng.choice([0, 1e-3, 1.0])
    level = Statistical(0.02, 1e-3) if evidence == "statistical" else as_evidence(evidence)
    sampling = SamplingConfig(per_cell=16, refinements=2, calls=20_000)
    if kind == "interval":
        bounds = bound_by_intervals(*common, inputs=data, evidence=level, sampling=sampling)
        bounds = calibrate(bounds, *common, evidence=level, seed=0) if level.draws else bounds
    else:
        over = np.where(schema.input_angles, np.pi, box)
        question = Question(trusted, schema, target, -over, over, sampling=sampling)
        bounds = affine_bounds(question, cells, evidence=level, half_width=room, rows=data)
    frame = Frame(schema, target, Scaling(np.zeros(inputs), scale), Scaling(np.zeros(2), np.ones(2)))
    return constrained_model(mlp(frame.features_width, 2, (4,)), frame, cells, bounds)


def dense(model, rows, rng):
    """Inputs everywhere in the domain: most in balls and between memories, some on rims."""
    cells = model.cells
    cell = rng.integers(0, len(cells), rows)
    direction = rng.standard_normal((rows, cells.memories.shape[1]))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    reach = cells.radii[cell] * rng.choice([1.0, 1 - 1e-9, 0.95, *rng.random(5)], rows)
    scaled = cells.memories[cell] + reach[:, None] * direction
    between = rng.random(rows) < 0.3
    other = rng.integers(0, len(cells), between.sum())
    scaled[between] = 0.5 * (cells.memories[cell[between]] + cells.memories[other])
    return np.clip(scaled * cells.scale, cells.box_lower, cells.box_upper)


@pytest.mark.parametrize("kind", ["interval", "affine"])
@pytest.mark.parametrize("evidence", ["proved", "lipschitz"])
@pytest.mark.parametrize("seed", seeds(6, 12))
def test_random_rotations(kind, evidence, seed):
    trusted, inputs = random_rotation(seed)
    model = model_of(trusted, inputs, kind, evidence, seed)
    rng = np.random.default_rng(seed + 2)
    assert_holds(model, trusted.function, dense(model, 1500, rng))
    assert attack(model, trusted, evaluations=3000).max_ratio <= 1
    certify(model, trusted, points_per_cell=4)
    output_deltas(model)


@pytest.mark.parametrize("kind", ["interval", "affine"])
@pytest.mark.parametrize("seed", range(6))
def test_random_rotations_by_draws(kind, seed):
    """Statistical claims: on draws of their own, no more than the share that may exceed delta does."""
    trusted, inputs = random_rotation(seed)
    model = model_of(trusted, inputs, kind, "statistical", seed)
    certify(model, trusted, points_per_cell=4)
    points = dense(model, 1500, np.random.default_rng(seed + 2))
    for network in wild(model):
        one = constrained_model(network, model.frame, model.cells, model.bounds)
        found = one.predict(points, np.zeros((len(points), 0)), details=True)
        rows = found.in_domain
        values = trusted.function(model.schema.wrap_inputs(points, np.zeros((len(points), 0))), None)
        apart = exactly_apart(found.next_states[rows, 0], values[rows, 0])
        assert (apart > found.delta[rows, 0]).mean() <= 0.1


@pytest.fixture(scope="module")
def bending():
    """Two leaves of an angle that bends by turns in one half of the box, and is straight in the other."""
    schema = make_schema(["x", "y"], [], ["bearing"], angles=["bearing"])
    cells = Cells(np.zeros((1, 2)), np.empty((0, 2), np.int64), np.ones(2), 0.4, -np.ones(2), np.ones(2))
    trusted = TrustedModel(lambda s, u: np.column_stack([np.pi + 40.0 * np.maximum(s[:, 0], 0.0) ** 2]))
    question = Question(trusted, schema, "next_state", -np.ones(2), np.ones(2))
    bounds = affine_bounds(question, cells, leaves=2, half_width=0.0)
    frame = Frame(schema, "next_state", Scaling(np.zeros(2), np.ones(2)), Scaling(np.zeros(1), np.ones(1)))
    return constrained_model(mlp(2, 1, (4,)), frame, cells, bounds), trusted


def test_leaves_that_bend_by_turns_claim_half_a_turn(bending):
    """Such a leaf says nothing; others are as good as ever."""
    model, trusted = bending
    inputs = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
    assert_holds(model, trusted.function, inputs)
    found = model.predict(inputs, np.zeros((4000, 0)), details=True)
    assert found.delta[inputs[:, 0] < 0].max() < 1e-10
    assert (found.delta[inputs[:, 0] > 0] == HALF_TURN).all()
    assert model.bounds.delta.max() == HALF_TURN == output_deltas(model)[0].maximum


def test_bounds_that_do_not_know_of_angles_are_refused(bending):
    model, _ = bending
    unaware = replace(model.bounds, angles=np.array([False]))
    with pytest.raises(ValueError, match="`bounds` must say of the outputs that are angles"):
        constrained_model(model.network, model.frame, model.cells, unaware)
