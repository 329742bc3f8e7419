"""float32 as executed: what it returns is within delta of M at the same inputs, by exact comparison, zero tolerance."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_affine_tethers import model_of, random_system

from conftest import seeds
from tether.claims.certificate import certify, output_deltas
from tether.data import Scaling, make_schema
from tether.evidence import Proved
from tether.fitting import FitConfig, build_tether, prepare
from tether.geometry.cells import Cells
from tether.model import Frame, mlp
from tether.model.assembling import constrained_model
from tether.model.single import single_delta, single_precision
from tether.report.tables import delta_grid
from tether.tethers.bounds import IntervalBounds, bound_by_intervals
from tether.trusted import TrustedModel
from tether_studies import parked_car


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads that wait for one another are slower than none on rows this few."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Constant(torch.nn.Module):
    """A network that says one number, whatever it is asked."""

    def __init__(self, value, outputs):
        super().__init__()
        self.value = torch.nn.Parameter(torch.full((outputs,), value))

    def forward(self, features):
        return self.value.expand(len(features), len(self.value))


def with_network(model, network, operator="clip"):
    return constrained_model(network, model.frame, model.cells, model.bounds, operator=operator)


def adversarial_inputs(model, rows, rng):
    """float32 inputs: inside balls, on rims, on the memories, near faces between cells and on faces of the box."""
    cells = model.cells
    dimensions = cells.memories.shape[1]
    direction = rng.standard_normal((rows, dimensions))
    kind = rng.integers(0, 3, rows)
    direction[kind == 1] = np.sign(direction[kind == 1])
    direction[kind == 2] *= np.eye(dimensions)[rng.integers(0, dimensions, (kind == 2).sum())]
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    cell = rng.integers(0, len(cells), rows)
    share = rng.choice([0.0, 1e-3, 0.3, 0.9, 1 - 1e-5, 1 - 1e-6, 1.0], rows) * rng.choice(
        [1.0, rng.random()], rows
    )
    scaled = cells.memories[cell] + (cells.radii[cell] * share)[:, None] * direction
    between = rng.random(rows) < 0.15
    other = rng.integers(0, len(cells), between.sum())
    scaled[between] = 0.5 * (cells.memories[cell[between]] + cells.memories[other])
    inputs = scaled * cells.scale
    faces = rng.random(inputs.shape) < 0.03
    inputs = np.where(
        faces, np.where(rng.random(inputs.shape) < 0.5, cells.box_lower, cells.box_upper), inputs
    )
    inputs = inputs.astype(np.float32)
    # A step off where rounding put it, either way: just inside and just outside of rims and faces.
    steps = rng.integers(-1, 2, inputs.shape)
    return np.nextafter(
        inputs, np.where(steps > 0, np.inf, np.where(steps < 0, -np.inf, inputs)), dtype=np.float32
    )


def predict(single, inputs):
    dx = len(single.schema.states)
    rows = torch.from_numpy(inputs)
    with torch.no_grad():
        return single(rows[:, :dx].contiguous(), rows[:, dx:].contiguous())


def worst_ratio(model, trusted, inputs, *, deltas=None):
    """Largest distance over delta that weights which push to either end, or wild ones, reach; and rows in the domain.

    Distances are between float64 numbers: the float32 outputs exactly, and M at exactly the float32 inputs.
    """
    exact = inputs.astype(np.float64)
    dx, outputs = len(model.schema.states), len(model.schema.outputs)
    values = trusted(exact[:, :dx], exact[:, dx:], model.schema)
    wild = mlp(model.frame.features_width, outputs, (8,), seed=3)
    with torch.no_grad():
        for parameter in wild.parameters():
            parameter.mul_(1e6)
    worst, inside, largest = 0.0, 0, single_delta(model)
    networks = [Constant(1e30, outputs), Constant(-1e30, outputs), Constant(torch.inf, outputs), wild]
    for operator in ("clip", "sigmoid", "project"):
        for network in networks:
            single = single_precision(with_network(model, network, operator))
            found = predict(single, inputs)
            assert found.next_states.dtype == found.delta.dtype == torch.float32
            rows = found.in_domain.numpy()
            assert torch.isinf(found.delta[~found.in_domain]).all()
            delta = (found.delta.double().numpy() if deltas is None else deltas(found))[rows]
            distance = model.schema.distance(found.next_states.double().numpy(), values)[rows]
            assert (found.delta.double().numpy()[rows] <= largest).all()
            # What the float32 test accepts, the float64 model accepts but for which of two tied cells it picks.
            gaps = (exact[rows] - model.cells.centers[found.cell.numpy()[rows]]) / model.cells.scale
            assert (
                np.linalg.norm(gaps, axis=1)
                <= model.cells.outer_radii[found.cell.numpy()[rows]] * (1 + 1e-13)
            ).all()
            assert model.cells.in_box(exact[rows]).all()
            if rows.any():
                worst = max(worst, float((distance / delta).max()))
            inside += int(rows.sum())
    return worst, inside / (2 * len(networks) * len(inputs))


@pytest.fixture(scope="module", params=["interval"])
def car(request):
    transitions = parked_car.drive(episodes=30, steps=60)
    config = FitConfig(
        memories=250,
        bounds=request.param,
        evidence="proved",
        domain=parked_car.DOMAIN,
        hidden=(8,),
    )
    probes = parked_car.parked(transitions, count=1800)
    problem = prepare(transitions, trusted=parked_car.TRUSTED, probes=probes, config=config)
    tether = build_tether(problem, config)
    frame = problem.frame(tether.target)
    network = mlp(frame.features_width, 3, (8,))
    return problem, constrained_model(network, frame, tether.cells, tether.bounds)


def test_the_car(car):
    model = car[1]
    rng = np.random.default_rng(0)
    worst, share = worst_ratio(model, parked_car.TRUSTED, adversarial_inputs(model, 20_000, rng))
    assert 0.3 < worst <= 1.0 and share > 0.3


def test_float32_covers_what_float64_does(car):
    problem, model = car
    single = single_precision(model)
    for part in (problem.data[2], problem.probes[2]):
        inputs = part.inputs.astype(np.float32)
        accepted = model.limits(inputs.astype(np.float64)).in_domain
        found = predict(single, inputs)
        assert found.in_domain.numpy()[accepted].mean() >= 0.99
        dx = len(model.schema.states)
        reference = model.predict(inputs[:, :dx], inputs[:, dx:], details=True)
        both = accepted & found.in_domain.numpy() & (found.cell.numpy() == reference.cell)
        np.testing.assert_allclose(
            found.next_states.numpy()[both], reference.next_states[both], rtol=1e-5, atol=1e-4
        )
        ratio = found.delta.double().numpy()[both] / reference.delta[both]
        print(
            f"{model.bounds.kind}, blend {getattr(model.bounds, 'blend', 0)}: float32 covers "
            f"{100 * found.in_domain.numpy()[accepted].mean():.2f} % of what float64 does; delta32 / delta64 median "
            f"{np.median(ratio):.7f}, largest {ratio.max():.4g}; largest excess {np.max(found.delta.double().numpy()[both] - reference.delta[both]):.3g}"
        )
    largest, before = single_delta(model), model.bounds.delta.max(axis=0)
    print("worst cell, delta32 / delta64:", (largest / before).round(7))
    assert (largest >= before).all() and (largest <= 1.01 * before + 1e-4).all()


def test_in_the_certificate(car):
    _, model = car
    deltas = output_deltas(model)
    assert [d.single for d in deltas] == single_delta(model).tolist()
    assert "float32" in delta_grid(deltas, "proved").header
    certificate = certify(model, parked_car.TRUSTED, points_per_cell=2)
    assert all(d["single"] >= d["maximum"] for d in certificate.as_dict()["deltas"])
    assert any("single_precision" in line for line in certificate.conformance.assumptions)


@pytest.mark.parametrize("seed", seeds(12, 36))
@pytest.mark.parametrize("kind", ["interval"])
def test_random_systems(seed, kind):
    function, inputs = random_system(seed)
    model, trusted = model_of(function, inputs, kind, seed)
    rows = adversarial_inputs(model, 3000, np.random.default_rng(seed))
    worst, share = worst_ratio(model, trusted, rows)
    assert 0 < worst <= 1.0 and share > 0.3


def far_system(seed, kind):
    """A map of 2 to 5 inputs around positions of 1e3 to 1e5, with cells of about a metre: rounding is what delta is.

    Half of them are affine, so that A is M and nothing but rounding stands between them.
    """
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(2, 6))
    place = 10.0 ** rng.uniform(3, 5) * rng.choice([-1, 1], inputs)
    slope = rng.standard_normal((inputs, inputs))
    bend = 0.0 if seed % 2 else 0.01

    def function(states, controls):
        away = states - place
        return states + 0.1 * (away @ slope) + bend * np.sin(away)

    schema = make_schema([f"s{k}" for k in range(inputs)], [])
    scale = 10.0 ** rng.uniform(-1, 0.5, inputs)
    memories = (place + rng.standard_normal((25, inputs)) * scale) / scale
    box = 4 * scale
    cells = Cells(memories, np.array([[0, 1]]), scale, 1.0, place - box, place + box)
    trusted = TrustedModel(function)
    target = "increment" if seed % 3 else "next_state"
    data = memories * scale
    assert kind == "interval"
    bounds = bound_by_intervals(cells, trusted, schema, target, inputs=data, evidence=Proved())
    frame = Frame(schema, target, Scaling(place, scale), Scaling(np.zeros(inputs), scale))
    return constrained_model(mlp(inputs, inputs, (4,)), frame, cells, bounds), trusted


@pytest.mark.parametrize("kind", ["interval"])
@pytest.mark.parametrize("seed", seeds(10, 24))
def test_far_from_the_origin(seed, kind):
    model, trusted = far_system(seed, kind)
    rows = adversarial_inputs(model, 3000, np.random.default_rng(seed))
    worst, share = worst_ratio(model, trusted, rows)
    assert 0 < worst <= 1.0 and share > 0.1


@pytest.mark.parametrize("operator", ["clip", "sigmoid", "project"])
def test_nan_weights_raise(operator):
    model, _ = far_system(1, "interval")
    single = single_precision(with_network(model, Constant(torch.nan, len(model.schema.outputs)), operator))
    with pytest.raises(ValueError, match="the network must give numbers; got NaN"):
        predict(single, model.cells.centers.astype(np.float32))


def test_inputs_must_be_float32_and_finite(car):
    single = single_precision(car[1])
    with pytest.raises(TypeError, match="`states` must be float32; got torch.float64"):
        single(torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, 2))
    with pytest.raises(ValueError, match="inputs must be finite"):
        single(torch.full((1, 3), torch.nan), torch.zeros(1, 2))
    with pytest.raises(TypeError, match="a float32 model must stay one; got torch.float64"):
        single.double()(torch.zeros(1, 3), torch.zeros(1, 2))


def test_an_angle_beyond_half_a_turn_is_outside(car):
    single = single_precision(car[1])
    pi = np.float32(np.pi)
    assert float(pi) > np.pi
    heading = np.array(
        [pi, -pi, 4.0, np.nextafter(pi, np.float32(0)), -np.nextafter(pi, np.float32(0))], np.float32
    )
    memory = car[1].cells.centers[0].astype(np.float32)
    inputs = np.repeat(memory[None], 5, axis=0)
    inputs[:, 2] = heading
    found = predict(single, inputs)
    assert not found.in_domain[:3].any()
    assert single.tether.box_upper[2] == heading[3] and single.tether.box_lower[2] == heading[4]


def one_cell(place, radius, *, upper=9.0):
    schema = make_schema(["x"], [])
    cells = Cells(
        np.array([[place]]),
        np.empty((0, 2), np.int64),
        np.ones(1),
        radius,
        np.array([place - 9.0]),
        np.array([place + upper]),
    )
    bounds = IntervalBounds(
        np.array([[0.1]]), np.array([[0.1]]), np.array([[1.0]]), np.zeros((1, 1)), Proved()
    )
    frame = Frame(schema, "increment", Scaling(np.zeros(1), np.ones(1)), Scaling(np.zeros(1), np.ones(1)))
    return constrained_model(mlp(1, 1, (2,)), frame, cells, bounds)


def test_what_float32_is_too_coarse_for_is_refused():
    with pytest.raises(
        ValueError, match=r"in cell 0 the radius is 0.01 \(scaled\) and rounding moves the memory by"
    ):
        single_precision(one_cell(1e6 + 0.03, 0.01))
    assert output_deltas(one_cell(1e6 + 0.03, 0.01))[0].single is None
    with pytest.raises(ValueError, match="the domain of 'x' must hold a float32 number"):
        single_precision(replace_box(one_cell(0.1, 1.0), 0.1, 0.1))
    model = one_cell(0.0, 1.0)
    bounds = replace(model.bounds, upper=np.array([[1e39]]))
    model = constrained_model(model.network, model.frame, model.cells, bounds)
    with pytest.raises(ValueError, match="must have numbers far below"):
        single_precision(model)


def replace_box(model, lower, upper):
    cells = replace(model.cells, box_lower=np.array([lower]), box_upper=np.array([upper]))
    return constrained_model(model.network, model.frame, cells, model.bounds)


def test_an_interval_narrower_than_float32():
    """[0.1, 0.1] holds no float32 number: the output is the nearest one, and delta says so."""
    single = single_precision(one_cell(0.0, 1.0))
    assert single.tether.lower == single.tether.upper == np.float32(0.1)
    outside = abs(float(np.float32(0.1)) - 0.1)
    assert outside > 0 and float(single.tether.spread) >= 1.0 + outside


def test_nothing_in_it_branches_on_data():
    """So that it can be recorded whole for another runtime."""
    model, _ = far_system(3, "interval")
    single = single_precision(model)
    inputs = torch.from_numpy(model.cells.centers.astype(np.float32))

    class Bare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.single = single

        def forward(self, rows):
            return tuple(self.single.compute(rows))

    recorded = torch.export.export(Bare(), (inputs,)).module()
    for one, two in zip(recorded(inputs), single.compute(inputs), strict=True):
        assert torch.equal(one, two)
