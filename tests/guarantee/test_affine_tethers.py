"""Proved tethers of random systems, attacked; and corrupted ones, which the attack must find."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import seeds
from tether.claims.attack import attack
from tether.claims.certificate import certify
from tether.claims.rollout import rollout
from tether.data import Scaling, make_schema
from tether.evidence import Lipschitz, Proved, Question, SamplingConfig
from tether.files.storage import load, save
from tether.fitting import DIRECT, TETHERED, FitConfig, build_tether, fit, prepare, train_method
from tether.foundation.errors import CertificateError
from tether.geometry.cells import Cells
from tether.learning.config import TrainingConfig
from tether.model import Frame, mlp
from tether.model.assembling import constrained_model
from tether.tethers.bounds import AffineBounds, bound_by_intervals
from tether.tethers.expanding import expand, with_room
from tether.tethers.growth import Aim
from tether.trusted import TrustedModel
from tether_studies import parked_car


def random_system(seed):
    """A polynomial, trigonometric, rational or kinked map of 1 to 12 inputs, written as anyone would."""
    rng = np.random.default_rng(seed)
    inputs, kind = int(rng.integers(1, 13)), seed % 4
    first, second = rng.standard_normal((2, inputs, 2))

    def function(states, controls):
        one, two = states @ first, states @ second
        if kind == 0:
            return one * two - 0.3 * one**3 + states[:, :1]
        if kind == 1:
            return np.sin(one) * np.cos(2 * two) + 0.1 * np.tanh(one)
        if kind == 2:
            return one / (2.0 + two**2) + np.sqrt(1.0 + one**2)
        return np.abs(one - 0.3) + np.maximum(two, 0.2 * one) * np.clip(one, -1.0, 0.5)

    return function, inputs


def affine_bounds(question, cells, *, evidence=None, leaves=200, half_width=0.1, rows=None):
    """Affine bounds over the question's box, as wide everywhere."""
    outputs = len(question.schema.outputs)
    rows = np.empty((0, len(question.lower))) if rows is None else rows
    found = expand(question, evidence or Proved(), Aim(np.full(outputs, 1e-9), rows, leaves), cells).bounds
    return with_room(found, np.full((len(cells), outputs), half_width), question.schema)


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
    if bounds_kind == "affine":
        bounds = affine_bounds(
            Question(trusted, schema, "next_state", -box, box), cells, leaves=60, rows=data
        )
    else:
        bounds = bound_by_intervals(cells, trusted, schema, "next_state", inputs=data, evidence=Proved())
    frame = Frame(schema, "next_state", Scaling(np.zeros(inputs), scale), Scaling(np.zeros(2), np.ones(2)))
    return constrained_model(mlp(inputs, 2, (4,)), frame, cells, bounds), trusted


def corrupted(model):
    """Delta understated everywhere."""
    bounds = model.bounds
    if isinstance(bounds, AffineBounds):
        bounds = replace(bounds, remainder=0.1 * bounds.remainder)
    else:
        bounds = replace(bounds, delta=0.3 * bounds.delta)
    return constrained_model(model.network, model.frame, model.cells, bounds)


def check_system(seed, evaluations, kinds=("affine", "interval")):
    function, inputs = random_system(seed)
    for kind in kinds:
        model, trusted = model_of(function, inputs, kind, seed)
        found = attack(model, trusted, evaluations=evaluations, seed=seed)
        assert found.evaluations >= evaluations and 0 < found.max_ratio <= 1.0, (seed, kind, found)
        broken = attack(corrupted(model), trusted, evaluations=min(evaluations, 100_000), seed=seed)
        assert broken.broken, (seed, kind, broken)


@pytest.mark.parametrize("seed", seeds(9, 18))
def test_proved_tethers_hold(seed):
    check_system(seed, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_two_hundred_systems(seed):
    """Over their whole boxes, 100 million evaluations in all: inside leaves, on their faces and in corners."""
    check_system(seed, 500_000, kinds=("affine",))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_two_hundred_systems_over_cells(seed):
    check_system(seed, 100_000, kinds=("interval",))


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
    return problem, config, train_method(problem, TETHERED, config).model


def test_a_parked_car_stays_parked(car):
    model = car[2]
    rng = np.random.default_rng(0)
    start = rng.uniform([-50, -50, -np.pi], [50, 50, np.pi], (300, 3))
    path = rollout(model, start, np.zeros((20, 300, 2)))
    drift = np.hypot(*(path[-1] - path[0])[:, :2].T)
    assert (drift == 0).all()
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(1e3)
    wild = rollout(model, start, np.zeros((20, 300, 2)))
    np.testing.assert_array_equal(wild, path)


def test_attack_on_the_car(car):
    found = attack(car[2], parked_car.TRUSTED, evaluations=100_000)
    assert 0.5 < found.max_ratio <= 1.0
    assert found.evaluations >= 100_000


def test_delta_is_known_everywhere_in_the_box_and_small_near_data(car):
    problem, _, model = car
    tree = model.bounds.tree
    anywhere = model.limits(np.random.default_rng(1).uniform(tree.lower, tree.upper, (5000, 5)))
    assert anywhere.in_domain.all() and np.isfinite(anywhere.delta).all()
    near = model.bounds.remainder_at(problem.data[2].inputs)
    assert (np.quantile(near, 0.99, axis=0)[:2] < 0.01).all()


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


LINE = replace(make_schema(["a"], [], ["y"]), advances=(-1,))
ONE_CELL = Cells(np.zeros((1, 1)), np.empty((0, 2), np.int64), np.ones(1), 1.0, -np.ones(1), np.ones(1))


def test_an_affine_model_has_no_remainder():
    """M affine: one leaf, A is M and only rounding is left."""
    rng = np.random.default_rng(0)
    schema = replace(make_schema(["a", "b", "c"], [], ["y"]), advances=(-1,))
    weights, box = rng.standard_normal((3, 1)), np.full(3, 9.0)
    cells = Cells(np.zeros((1, 3)), np.empty((0, 2), np.int64), np.ones(3), 1.0, -box, box)
    trusted = TrustedModel(lambda s, u: s @ weights + 1.0)
    bounds = affine_bounds(Question(trusted, schema, "next_state", -box, box), cells)
    assert bounds.tree.leaves == 1
    np.testing.assert_allclose(bounds.slope, weights.T, rtol=1e-12)
    assert bounds.remainder.max() < 1e-12


def test_lipschitz_of_the_jacobian():
    trusted = TrustedModel(
        lambda s, u: np.sin(s), jacobian=lambda s, u: np.cos(s)[:, :, None], jacobian_lipschitz=1.0
    )
    question = Question(trusted, LINE, "next_state", np.array([-2.0]), np.array([2.0]))
    bounds = affine_bounds(question, ONE_CELL, evidence=Lipschitz(), leaves=9)
    at = np.linspace(-2, 2, 4001)[:, None]
    missed = np.abs(np.sin(at) - bounds.evaluate(at))
    remainder = bounds.remainder[bounds.tree.find(at)]
    assert (missed <= remainder).all()
    assert (missed > 0.5 * remainder).any()
    with pytest.raises(ValueError, match="evidence `lipschitz` must have constants of the trusted model"):
        affine_bounds(replace(question, trusted=TrustedModel(lambda s, u: s)), ONE_CELL, evidence=Lipschitz())


def test_public_fit_with_an_affine_tether():
    transitions = parked_car.drive(episodes=20, steps=40)
    model = fit(transitions, trusted=parked_car.unicycle, memories=60, bounds="affine", evidence="proved", hidden=(8,),
                training=TrainingConfig(steps=20, evaluate_every=20))  # fmt: skip
    assert isinstance(model.bounds, AffineBounds)
    assert model.bounds.evidence == Proved()


def test_delta_as_the_input(car):
    """A delta asked for is kept everywhere in the box, or refused with where and by how much it is not."""
    problem, config, _ = car
    wanted = replace(config, delta={"x": 0.05, "y": 0.05})
    tether = build_tether(problem, wanted)
    assert (tether.bounds.delta[tether.bounds.output < 2] <= 0.05).all()
    with pytest.raises(CertificateError, match=r"over heading .* that of output '[xy]' is .*, too much by"):
        build_tether(problem, replace(wanted, delta=1e-6, leaves=200))
    with pytest.raises(ValueError, match="`delta` must name outputs"):
        build_tether(problem, replace(wanted, delta={"speed": 1.0}))
    with pytest.raises(ValueError, match="`delta` must come with bounds 'affine'"):
        replace(wanted, bounds="interval")


def test_remainders_converge_at_their_orders():
    """In d = 2, delta falls as K^(-1/d) for intervals over K cells and as L^(-2/d) over L leaves."""
    schema = replace(make_schema(["a", "b"], [], ["y"]), advances=(-1,))
    trusted = TrustedModel(lambda s, u: np.sin(s[:, :1]) * np.cos(s[:, 1:]))
    box = np.full(2, 2.0)
    counts, deltas = [], []
    for side in (6, 12, 24, 48):
        axis = (np.arange(side) + 0.5) * 4 / side - 2
        memories = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        cells = Cells(memories, np.empty((0, 2), np.int64), np.ones(2), np.sqrt(2) * 2 / side, -box, box)
        interval = bound_by_intervals(
            cells,
            trusted,
            schema,
            "next_state",
            inputs=memories,
            evidence=Proved(),
            sampling=SamplingConfig(16, 2),
        )
        question = Question(trusted, schema, "next_state", -box, box)
        affine = affine_bounds(question, cells, leaves=side**2, half_width=0.0)
        counts.append(len(cells))
        deltas.append([np.median(interval.delta), np.median(affine.remainder)])
    slopes = np.polyfit(np.log(counts), np.log(deltas), 1)[0]
    assert slopes[0] == pytest.approx(-0.5, abs=0.1)
    assert slopes[1] == pytest.approx(-1.0, abs=0.1)


def test_rounding_of_a_large_input_that_cancels():
    """(x + y) - y errs by a rounding of y, although its derivative by y is zero."""
    schema = make_schema(["x", "y"], [])
    box = np.array([1.0, 1e6])
    cells = Cells(np.zeros((1, 2)), np.empty((0, 2), np.int64), box, 1.5, -box, box)
    trusted = TrustedModel(lambda s, u: np.stack([s[:, 0] + s[:, 1] + 0.1 - s[:, 1], s[:, 1]], axis=1))
    bounds = affine_bounds(Question(trusted, schema, "increment", -box, box), cells, half_width=0.0)
    frame = Frame(schema, "increment", Scaling(np.zeros(2), box), Scaling(np.zeros(2), np.ones(2)))
    model = constrained_model(mlp(2, 2, (4,)), frame, cells, bounds)
    found = attack(model, trusted, evaluations=100_000)
    assert 0 < found.max_ratio <= 1.0 and found.delta < 1e-8


@pytest.mark.parametrize("name", ["half_width", "remainder"])
def test_malformed_bounds_are_refused(car, name):
    bounds = car[2].bounds
    with pytest.raises(ValueError, match=f"`{name}` must be .*at least 0"):
        replace(bounds, **{name: getattr(bounds, name) - 100.0})


def test_certify_derives_every_leaf_again(car):
    """One leaf's remainder, or its slope, a little off: refused."""
    model = car[2]
    certify(model, parked_car.TRUSTED)
    bounds = model.bounds
    leaf = int(np.argmax(bounds.remainder))
    for name, factor in (("remainder", 0.99), ("slope", 1.5), ("value", 1.5)):
        values = getattr(bounds, name).copy()
        values[leaf] = values[leaf] * factor + (name == "value")
        changed = constrained_model(
            model.network, model.frame, model.cells, replace(bounds, **{name: values})
        )
        with pytest.raises(CertificateError, match="derived anew|must hold at every point"):
            certify(changed, parked_car.TRUSTED)
