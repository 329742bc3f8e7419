"""Proved tethers of random systems, attacked; and corrupted ones, which the attack must find."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tether.attack import attack
from tether.bounds import AffineBounds, Observations, bound_by_expansions, bound_by_intervals
from tether.cells import Cells
from tether.certificate import certify
from tether.constrained import ConstrainedModel, Frame, mlp
from tether.data import Scaling, make_schema
from tether.errors import CertificateError
from tether.pipeline import (
    DIRECT,
    TETHERED,
    FitConfig,
    build_tether,
    build_tether_within,
    fit,
    prepare,
    train_method,
)
from tether.ranges import SamplingConfig
from tether.remainders import expand
from tether.rollout import rollout
from tether.storage import load, save
from tether.training import TrainingConfig
from tether.trusted import TrustedModel
from tether_studies import parked_car


def random_system(seed):
    """A polynomial, trigonometric or rational map of 1 to 12 inputs, written as anyone would."""
    rng = np.random.default_rng(seed)
    inputs, kind = int(rng.integers(1, 13)), seed % 3
    first, second = rng.standard_normal((2, inputs, 2))

    def function(states, controls):
        one, two = states @ first, states @ second
        if kind == 0:
            return one * two - 0.3 * one**3 + states[:, :1]
        if kind == 1:
            return np.sin(one) * np.cos(2 * two) + 0.1 * np.tanh(one)
        return one / (2.0 + two**2) + np.sqrt(1.0 + one**2)

    return function, inputs


def model_of(function, inputs, bounds_kind, seed):
    rng = np.random.default_rng(seed + 1)
    schema = make_schema([f"s{k}" for k in range(inputs)], [], ["y0", "y1"])
    schema = replace(schema, outputs=("y0", "y1"), advances=(-1, -1))
    scale = 10.0 ** rng.uniform(-2, 1, inputs)
    memories = rng.standard_normal((30, inputs)) / scale
    box = np.full(inputs, 4.0)
    radius = 0.4 / scale.max()
    cells = Cells(memories, np.array([[0, 1], [1, 2]]), scale, radius, -box, box)
    data = rng.standard_normal((200, inputs))
    trusted = TrustedModel(function)
    truth = function(data, None) + 0.1 * rng.standard_normal((200, 2))
    if bounds_kind == "affine":
        pinned = np.full(inputs, np.nan)
        bounds = bound_by_expansions(
            cells, trusted, schema, "next_state", observations=Observations(data, truth, pinned)
        )
    else:
        bounds = bound_by_intervals(cells, trusted, schema, "next_state", inputs=data, evidence="proved")
    frame = Frame(schema, "next_state", Scaling(np.zeros(inputs), scale), Scaling(np.zeros(2), np.ones(2)))
    return ConstrainedModel(mlp(inputs, 2, (4,)), frame, cells, bounds), trusted


def corrupted(model):
    """Delta understated in every cell: by 30 % of what it is."""
    bounds = model.bounds
    if isinstance(bounds, AffineBounds):
        remainder = replace(bounds.expansion.remainder, slopes=0.0 * bounds.expansion.remainder.slopes)
        bounds = replace(bounds, expansion=replace(bounds.expansion, remainder=remainder))
    else:
        bounds = replace(bounds, delta=0.3 * bounds.delta)
    return ConstrainedModel(model.network, model.frame, model.cells, bounds)


def check_system(seed, evaluations):
    function, inputs = random_system(seed)
    for kind in ("affine", "interval"):
        model, trusted = model_of(function, inputs, kind, seed)
        found = attack(model, trusted, evaluations=evaluations, seed=seed)
        assert 0 < found.max_ratio <= 1.0, (seed, kind, found)
        broken = attack(corrupted(model), trusted, evaluations=evaluations, seed=seed)
        assert broken.broken, (seed, kind, broken)


@pytest.mark.parametrize("seed", range(18))
def test_proved_tethers_hold(seed):
    check_system(seed, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_two_hundred_systems(seed):
    check_system(seed, 100_000)


@pytest.fixture(scope="module")
def car():
    transitions = parked_car.drive(episodes=40, steps=60)
    config = FitConfig(
        memories=300,
        bounds="affine",
        evidence="proved",
        domain=parked_car.DOMAIN,
        hidden=(32,),
        training=TrainingConfig(steps=400, evaluate_every=100),
    )
    probes = parked_car.parked(transitions, count=2400)
    problem = prepare(transitions, trusted=parked_car.TRUSTED, probes=probes, config=config)
    tether = build_tether(problem, config)
    return problem, config, train_method(problem, TETHERED, config, tether=tether).model


def test_a_parked_car_stays_parked(car):
    model = car[2]
    rng = np.random.default_rng(0)
    start = rng.uniform([-50, -50, -np.pi], [50, 50, np.pi], (300, 3))
    path = rollout(model.predict, parked_car.SCHEMA, start, np.zeros((20, 300, 2)))
    drift = np.hypot(*(path[-1] - path[0])[:, :2].T)
    assert (drift < 1e-9).mean() > 0.99
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(1e3)
    wild = rollout(model.predict, parked_car.SCHEMA, start, np.zeros((20, 300, 2)))
    np.testing.assert_array_equal(wild[:, drift < 1e-9], path[:, drift < 1e-9])


def test_attack_on_the_car(car):
    found = attack(car[2], parked_car.TRUSTED, evaluations=100_000)
    assert 0.5 < found.max_ratio <= 1.0
    assert found.evaluations >= 100_000


def test_delta_of_a_prediction_shrinks_towards_its_memory(car):
    model = car[2]
    rng = np.random.default_rng(1)
    direction = rng.standard_normal((len(model.cells), 5))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    widths = []
    for share in (0.1, 0.9):
        inputs = (model.cells.memories + share * model.cells.radii[:, None] * direction) * model.cells.scale
        limits = model.limits(inputs)
        remainder = limits.delta - 0.5 * (limits.upper - limits.lower)
        widths.append(np.median(remainder[:, 0]))
        assert (limits.delta <= model.bounds.delta[limits.cell] * (1 + 1e-12)).all()
    assert widths[1] > 20 * widths[0]


def test_saved_and_loaded_with_all_its_bounds(car, tmp_path):
    model = car[2]
    save(model, tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    states, controls = car[0].split.test.states, car[0].split.test.controls
    one, two = (m.predict(states, controls, details=True) for m in (model, again))
    for name in ("next_states", "lower", "upper", "delta", "cell"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    outputs = model(torch.from_numpy(states), torch.from_numpy(controls)).detach().numpy()
    assert (outputs >= one.lower).all() and (outputs <= one.upper).all()


def test_direct_stays_within_its_half_width(car):
    problem, config, _ = car
    run = train_method(problem, DIRECT, config)
    with torch.no_grad():
        for parameter in run.model.network.parameters():
            parameter.mul_(1e4)
    test = problem.split.test
    prediction = run.model.predict(test.states, test.controls, details=True)
    distance = problem.split.test.schema.distance(prediction.next_states, problem.data[2].trusted)
    assert (distance <= prediction.delta).all() and (distance > 0.9 * prediction.delta).any()


def test_an_affine_model_has_no_remainder():
    """M affine: whatever the cells, A is M and only rounding is left."""
    rng = np.random.default_rng(0)
    schema = replace(make_schema(["a", "b", "c"], [], ["y"]), advances=(-1,))
    weights = rng.standard_normal((3, 1))
    cells = Cells(
        rng.standard_normal((20, 3)),
        np.empty((0, 2), np.int64),
        np.ones(3),
        5.0,
        -np.full(3, 9.0),
        np.full(3, 9.0),
    )
    expansion = expand(
        cells, TrustedModel(lambda s, u: s @ weights + 1.0), schema, "next_state", evidence="proved"
    )
    np.testing.assert_allclose(expansion.jacobian[:, 0], np.broadcast_to(weights[:, 0], (20, 3)), rtol=1e-12)
    assert (expansion.remainder.slopes * expansion.remainder.radii[:, :, None]).max() < 1e-13


def test_lipschitz_of_the_jacobian():
    schema = replace(make_schema(["a"], [], ["y"]), advances=(-1,))
    cells = Cells(
        np.linspace(-2, 2, 9)[:, None],
        np.empty((0, 2), np.int64),
        np.array([0.5]),
        0.7,
        np.array([-2.0]),
        np.array([2.0]),
    )
    trusted = TrustedModel(
        lambda s, u: np.sin(s), jacobian=lambda s, u: np.cos(s)[:, :, None], jacobian_lipschitz=1.0
    )
    expansion = expand(cells, trusted, schema, "next_state", evidence="lipschitz")
    points = cells.centers + np.linspace(-0.35, 0.35, 101)
    for k in range(9):
        at = points[k][:, None]
        missed = np.abs(np.sin(at) - expansion.evaluate(cells, at, np.full(101, k)))[:, 0]
        distance = np.abs(points[k] - cells.centers[k]) / 0.5
        assert (missed <= expansion.remainder.at(np.full(101, k), distance)[:, 0] + 1e-15).all()
    with pytest.raises(ValueError, match="must have the trusted model's Jacobian and the Lipschitz constant"):
        expand(cells, TrustedModel(lambda s, u: s), schema, "next_state", evidence="lipschitz")


def test_public_fit_with_an_affine_tether():
    transitions = parked_car.drive(episodes=20, steps=40)
    model = fit(transitions, trusted=parked_car.unicycle, memories=60, bounds="affine", evidence="proved", hidden=(8,),
                training=TrainingConfig(steps=20, evaluate_every=20))  # fmt: skip
    assert isinstance(model.bounds, AffineBounds)
    assert model.bounds.evidence == "proved"


def test_delta_as_the_input(car):
    """A delta asked for is kept in every cell, with more memories than the search started from."""
    problem, config, _ = car
    wanted = replace(config, memories=40, delta={"x": 0.5, "y": 0.5})
    with pytest.raises(CertificateError, match=r"in cell \d+ output '[xy]' the remainder exceeds 0.5 by"):
        build_tether(problem, wanted)
    tether = build_tether_within(problem, wanted)
    assert len(tether.cells) > 40
    assert (tether.bounds.delta[:, :2] <= 0.5).all()
    for part in (problem.data[2], problem.probes[2]):
        assert tether.cells.locate(part.inputs).in_domain.mean() > 0.97
    with pytest.raises(CertificateError, match="`delta` must leave room for the remainder"):
        build_tether_within(problem, replace(wanted, delta=1e-6))
    with pytest.raises(ValueError, match="`delta` must name outputs"):
        build_tether(problem, replace(wanted, delta={"speed": 1.0}))
    with pytest.raises(ValueError, match="`delta` must come with bounds 'affine'"):
        replace(wanted, bounds="interval")


def test_remainders_converge_at_their_orders():
    """On a grid of K memories in d = 2, delta falls as K^(-1/d) for intervals and K^(-2/d) for affine bounds."""
    schema = replace(make_schema(["a", "b"], [], ["y"]), advances=(-1,))
    trusted = TrustedModel(lambda s, u: np.sin(s[:, :1]) * np.cos(s[:, 1:]))
    counts, deltas = [], []
    for side in (6, 12, 24, 48):
        axis = (np.arange(side) + 0.5) * 4 / side - 2
        memories = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        radius = np.sqrt(2) * 2 / side
        cells = Cells(
            memories, np.empty((0, 2), np.int64), np.ones(2), radius, np.full(2, -2.0), np.full(2, 2.0)
        )
        interval = bound_by_intervals(
            cells,
            trusted,
            schema,
            "next_state",
            inputs=memories,
            evidence="proved",
            sampling=SamplingConfig(16, 2),
        )
        affine = expand(cells, trusted, schema, "next_state", evidence="proved").remainder
        counts.append(len(cells))
        deltas.append([np.median(interval.delta), np.median(affine.rim)])
    slopes = np.polyfit(np.log(counts), np.log(deltas), 1)[0]
    assert slopes[0] == pytest.approx(-0.5, abs=0.1)
    assert slopes[1] == pytest.approx(-1.0, abs=0.1)


def test_rounding_of_a_large_input_that_cancels():
    """(x + y) - y errs by a rounding of y, although its derivative by y is zero."""
    schema = make_schema(["x", "y"], [])
    box = np.array([1.0, 1e6])
    cells = Cells(np.zeros((1, 2)), np.empty((0, 2), np.int64), box, 1.5, -box, box)
    trusted = TrustedModel(lambda s, u: np.stack([s[:, 0] + s[:, 1] + 0.1 - s[:, 1], s[:, 1]], axis=1))
    nothing = Observations(np.zeros((1, 2)), np.array([[0.1, 0.0]]), np.full(2, np.nan))
    bounds = bound_by_expansions(cells, trusted, schema, "increment", observations=nothing)
    frame = Frame(schema, "increment", Scaling(np.zeros(2), box), Scaling(np.zeros(2), np.ones(2)))
    model = ConstrainedModel(mlp(2, 2, (4,)), frame, cells, bounds)
    found = attack(model, trusted, evaluations=100_000)
    assert 0 < found.max_ratio <= 1.0 and found.delta < 1e-8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: replace(b, half_width=b.half_width - 1.0), "`half_width` must be finite and at least 0"),
        (
            lambda b: replace(b.expansion.remainder, offset=-b.expansion.remainder.offset),
            "must be finite and at least 0",
        ),
        (
            lambda b: replace(b.expansion.remainder, radii=b.expansion.remainder.radii[:, ::-1]),
            "positive and ascending",
        ),
    ],
)
def test_malformed_bounds_are_refused(car, change, message):
    with pytest.raises(ValueError, match=message):
        change(car[2].bounds)


def test_certify_compares_the_remainder_at_every_distance(car):
    """Offset taken away and inner slopes raised, so that every rim stays as it was: still refused."""
    model = car[2]
    certify(model, parked_car.TRUSTED)
    remainder = model.bounds.expansion.remainder
    moved = replace(
        remainder,
        offset=0.0 * remainder.offset,
        slopes=remainder.slopes + (remainder.offset[:, None] / remainder.radii[:, :, None]),
    )
    bounds = replace(model.bounds, expansion=replace(model.bounds.expansion, remainder=moved))
    model = ConstrainedModel(model.network, model.frame, model.cells, bounds)
    with pytest.raises(CertificateError, match="derived anew, delta is larger"):
        certify(model, parked_car.TRUSTED)
