"""float32 over boxes: what it returns is within delta of M at the same inputs, exactly, with zero tolerance."""

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import seeds
from tether.claims.certificate import certify, output_deltas
from tether.data import make_schema
from tether.model import mlp
from tether.model.assembling import constrained_model
from tether.model.single import single_delta, single_precision
from tether.trusted import TrustedModel

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from boxed import Constant, Shape, boxed_model, predict, with_network
from fits_systems import write_system


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads that wait for one another are slower than none on rows this few."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def adversarial_inputs(model, rows, rng):
    """float32 inputs: in leaves, in their corners and on their faces, at pinned values, a step to either side."""
    tree, pinned = model.bounds.tree, model.bounds.pinned
    lower, upper = tree.boxes()
    leaf = rng.integers(0, tree.leaves, rows)
    share = rng.random((rows, len(tree.lower)))
    edge = rng.random(share.shape) < rng.choice([0.0, 0.3, 1.0], (rows, 1))
    share = np.where(edge, np.round(share), share)
    inputs = lower[leaf] + share * (upper[leaf] - lower[leaf])
    held = (rng.random(share.shape) < 0.2) & ~np.isnan(pinned)
    inputs = np.where(held, pinned, inputs).astype(np.float32)
    steps = rng.integers(-1, 2, inputs.shape)
    return np.nextafter(
        inputs, np.where(steps > 0, np.inf, np.where(steps < 0, -np.inf, inputs)), dtype=np.float32
    )


def worst_ratio(model, trusted, inputs, *, deltas=None):
    """Largest distance over delta that weights which push to either end, or wild ones, reach; and rows inside.

    Distances are between float64 numbers: the float32 outputs exactly, and M at exactly the float32 inputs.
    """
    exact = inputs.astype(np.float64)
    dx, outputs = len(model.schema.states), len(model.schema.outputs)
    wild = mlp(model.frame.features_width, outputs, (8,), seed=3)
    with torch.no_grad():
        for parameter in wild.parameters():
            parameter.mul_(1e6)
    worst, inside, largest = 0.0, 0.0, single_delta(model)
    networks = [Constant(1e30, outputs), Constant(-1e30, outputs), wild]
    for operator in ("clip", "sigmoid", "project"):
        for network in networks:
            single = single_precision(with_network(model, network, operator))
            found = predict(single, inputs)
            assert found.next_states.dtype == found.delta.dtype == torch.float32
            rows = found.in_domain.numpy()
            assert torch.isinf(found.delta[~found.in_domain]).all()
            assert (model.limits(exact[rows]).in_domain).all()
            delta = found.delta.double().numpy() if deltas is None else deltas
            if not rows.any():
                continue
            values = trusted(exact[rows, :dx], exact[rows, dx:], model.schema)
            distance = model.schema.distance(found.next_states.double().numpy()[rows], values)
            assert (found.delta.double().numpy()[rows] <= largest).all()
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(distance > 0, distance / delta[rows], 0.0)
            worst, inside = max(worst, float(ratio.max())), rows.mean()
    return worst, inside


def system_model(seed):
    """One of the fuzzer's random systems, with angles, kinks, increments, a delta asked for, pinned inputs."""
    rng = np.random.default_rng([seed, 5])
    system = write_system(rng)
    schema = make_schema(system.states, system.controls, system.outputs, angles=system.angles)
    low, high = (np.array(ends, dtype=np.float64) for ends in (system.low, system.high))
    angles = schema.input_angles
    low, high = np.where(angles, -np.pi, low), np.where(angles, np.pi, high)
    pinned = np.full(len(low), np.nan)
    if seed % 3 == 0:
        pinned[0] = rng.choice([0.5 * low[0] + 0.5 * high[0], rng.uniform(low[0], high[0])])
    target = "increment" if seed % 2 and min(schema.advances) >= 0 else "next_state"
    shape = Shape(
        target=target,
        leaves=int(rng.choice([5, 60, 400])),
        room=float(rng.choice([0.0, 1e-6, 0.1])),
        most=float(rng.choice([np.inf, 0.05])),
        pinned=pinned,
    )
    trusted = TrustedModel(system.build())
    return boxed_model(trusted, schema, low, high, rng, shape), trusted


@pytest.mark.parametrize("seed", seeds(14, 40))
def test_random_systems(seed):
    model, trusted = system_model(seed)
    rows = adversarial_inputs(model, 4000, np.random.default_rng(seed))
    worst, share = worst_ratio(model, trusted, rows)
    assert worst <= 1.0
    assert share > 0.2 or not np.isfinite(model.bounds.remainder).all()


def far_system(seed):
    """A map around positions of 1e3 to 1e5, in boxes of some metres, without room: rounding is what delta is.

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
    trusted = TrustedModel(function)
    shape = Shape(target="increment" if seed % 3 else "next_state", room=0.0, leaves=100)
    return boxed_model(trusted, schema, place - 3.0, place + 3.0, rng, shape), trusted


@pytest.mark.parametrize("seed", seeds(10, 24))
def test_far_from_the_origin(seed):
    model, trusted = far_system(seed)
    worst, share = worst_ratio(model, trusted, adversarial_inputs(model, 4000, np.random.default_rng(seed)))
    assert 0 < worst <= 1.0 and share > 0.3


def test_without_the_rounding_term_it_breaks():
    """The same comparison with delta as float64 has it must fail, or the tests above could not."""
    for seed in range(1, 9, 2):
        model, trusted = far_system(seed)
        rows = adversarial_inputs(model, 3000, np.random.default_rng(seed))
        double = model.limits(rows.astype(np.float64)).delta
        worst, _ = worst_ratio(model, trusted, rows, deltas=double)
        assert worst > 1


@pytest.mark.parametrize("seed", range(8))
def test_leaves_are_those_of_float64_exactly(seed):
    """At float32 numbers beside thresholds that are no float32 numbers, thousands of them."""
    model, _ = system_model(seed) if seed % 2 else far_system(seed)
    tree, room = model.bounds.tree, single_precision(model).tether
    inner = np.flatnonzero(tree.cut >= 0)
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(tree.lower, tree.upper, (5000, len(tree.lower))).astype(np.float32)
    if len(inner):
        node = rng.choice(inner, 5000)
        beside = tree.threshold[node].astype(np.float32)
        way = np.where(rng.random(5000) < 0.5, np.float32(np.inf), np.float32(-np.inf))
        beside = np.where(rng.random(5000) < 0.5, beside, np.nextafter(beside, way))
        inputs[np.arange(5000), tree.cut[node]] = beside
    from tether.tethers.leaves import walk

    given = (room.roots, room.cut, room.threshold, room.left, room.right, room.depth)
    found = walk(torch.from_numpy(inputs), *given).numpy()
    assert np.array_equal(found, tree.find(inputs.astype(np.float64)))


@pytest.mark.parametrize("seed", [1, 2, 3, 6, 9, 12])
def test_the_first_order_model_in_rational_arithmetic(seed):
    """A as float32 adds it up, in several orders, fused or not, is within κ S + slack of A without rounding."""
    model, _ = system_model(seed) if seed % 3 == 0 else far_system(seed)
    room, bounds = single_precision(model).tether, model.bounds
    rows = adversarial_inputs(model, 60, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    slack = room.remainder.double().numpy() - bounds.remainder
    for row, leaves in zip(rows, bounds.tree.find(rows.astype(np.float64)), strict=True):
        for leaf in leaves:
            if not np.isfinite(bounds.remainder[leaf]):
                continue
            exact = Fraction(float(bounds.value[leaf])) + sum(
                Fraction(float(j)) * (Fraction(float(x)) - Fraction(float(m)))
                for j, x, m in zip(bounds.slope[leaf], row, bounds.reference, strict=True)
            )
            slope, point = room.slope[leaf].numpy(), room.point[leaf].numpy()
            products = slope * (row - point)
            size = sum(map(Fraction, map(float, np.abs(products))), Fraction(float(room.value[leaf].abs())))
            allowed = Fraction(room.magnified) * size + Fraction(float(slack[leaf]))
            for added in orders(slope, row - point, room.value[leaf].numpy(), rng):
                assert abs(Fraction(float(added)) - exact) <= allowed


def orders(slope, away, value, rng):
    """The sum of products and a value in float32: from either end, in pairs, and with fused products."""
    products = slope * away
    for order in (np.arange(len(products)), rng.permutation(len(products))):
        total = value
        for k in order:
            total = np.float32(total + products[k])
        yield total
        parts = [value, *products[order]]
        while len(parts) > 1:
            parts = [np.float32(sum(parts[k : k + 2], np.float32(0))) for k in range(0, len(parts), 2)]
        yield parts[0]
        fused = value
        for k in order:
            # A product of two float32 numbers is a float64 number; the sum is rounded twice, seldom otherwise.
            fused = np.float32(np.float64(slope[k]) * np.float64(away[k]) + np.float64(fused))
        yield fused


def test_flushing_to_zero_is_covered():
    """Products and sums that are subnormal nearly everywhere, on hardware that makes zeros of them."""
    schema, tiny = make_schema(["a", "b"], []), 2.0**-125

    def function(states, controls):
        a, b = states[:, 0], states[:, 1]
        return np.stack([tiny * (0.3 * a + 0.9 * b), tiny * a * b], axis=1)

    trusted, rng = TrustedModel(function), np.random.default_rng(0)
    low, high = np.array([-1.0, -1.0]), np.array([1.0, 1.0])
    model = boxed_model(trusted, schema, low, high, rng, Shape(room=0.0, leaves=20, tolerance=1e-45))
    single = single_precision(with_network(model, Constant(1e30, 2)))
    inputs = rng.uniform(low, high, (20_000, 2)).astype(np.float32)
    plain = predict(single, inputs).next_states.double().numpy()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor flushes nothing")
    try:
        found = predict(single, inputs)
    finally:
        torch.set_flush_denormal(False)
    values, exact = found.next_states.double().numpy(), inputs.astype(np.float64)
    assert (values != plain).any(axis=1).mean() > 0.5
    assert found.in_domain.all()
    distance = np.abs(values - trusted(exact, exact[:, :0], schema))
    assert (distance <= found.delta.double().numpy()).all()


def test_local_points_round_less_than_one_reference():
    """Where M swings often, values from one reference would be a hundred times as large as M."""

    def function(states, controls):
        return np.sin(40 * states)

    schema, rng = make_schema(["x"], []), np.random.default_rng(0)
    low, high = np.array([-3.0]), np.array([3.0])
    model = boxed_model(TrustedModel(function), schema, low, high, rng, Shape(room=0.0, leaves=4000))
    room, bounds = single_precision(model).tether, model.bounds
    size = np.abs(bounds.value) + np.abs(bounds.slope[:, 0]) * np.maximum(
        *np.abs([end[:, 0] - bounds.reference[0] for end in bounds.tree.boxes()])
    )
    local = room.value.abs().numpy() + np.abs(bounds.slope[:, 0]) * np.ptp(bounds.tree.boxes(), axis=0)[:, 0]
    assert size.max() > 50 * local.max()


def test_pinned_inputs_follow_the_trusted_model_exactly():
    schema = make_schema(["x", "v"], ["force"])

    def function(states, controls):
        speed = states[:, 1] * (1 - 0.1 * np.sin(states[:, 0])) + 0.0 * controls[:, 0]
        return np.stack([states[:, 0] + 0.1 * states[:, 1] * np.cos(states[:, 0]), speed], axis=1)

    trusted, rng = TrustedModel(function), np.random.default_rng(0)
    low, high = np.array([-3.0, -1.0, -1.0]), np.array([3.0, 1.0, 1.0])
    shape = Shape(target="increment", pinned=np.array([np.nan, 0.0, np.nan]), room=0.5, leaves=300)
    model = boxed_model(trusted, schema, low, high, rng, shape)
    inputs = rng.uniform(low, high, (500, 3)).astype(np.float32)
    inputs[:, 1] = 0.0
    for value in (1e30, -1e30):
        found = predict(single_precision(with_network(model, Constant(value, 2))), inputs)
        assert found.in_domain.all()
        assert np.array_equal(found.next_states.numpy(), inputs[:, :2])


def test_delta_asked_for_is_kept_but_for_rounding():
    model, _ = system_model(4)
    half_width, most = model.bounds.half_width + 0.5, np.full(len(model.bounds.most), 0.3)
    bounds = replace(model.bounds, half_width=half_width, most=most)
    model = constrained_model(model.network, model.frame, model.cells, bounds)
    found = predict(single_precision(model), adversarial_inputs(model, 2000, np.random.default_rng(0)))
    double = model.limits(adversarial_inputs(model, 2000, np.random.default_rng(0)).astype(np.float64))
    inside = found.in_domain.numpy()
    excess = found.delta.double().numpy()[inside] - double.delta[inside]
    assert (excess >= 0).all() and excess.max() < 1e-4


def test_in_the_certificate():
    model, trusted = system_model(4)
    assert [d.single for d in output_deltas(model)] == single_delta(model).tolist()
    certificate = certify(model, trusted, points_per_cell=2)
    assert all(d.single is not None and d.single >= d.maximum for d in certificate.deltas)


def test_what_float32_is_too_coarse_for_is_refused():
    model, _ = far_system(2)
    tree = model.bounds.tree
    inner = np.flatnonzero(tree.cut >= 0)
    assert len(inner)
    threshold = tree.threshold.copy()
    threshold[inner[0]] = 1e-40
    bounds = replace(model.bounds, tree=replace(tree, threshold=threshold))
    with pytest.raises(
        ValueError, match="thresholds must be 0 or at least 1.18e-38 in size for float32; got 1e-40"
    ):
        single_precision(constrained_model(model.network, model.frame, model.cells, bounds))
    bounds = replace(model.bounds, value=model.bounds.value + 1e35)
    broken = constrained_model(model.network, model.frame, model.cells, bounds)
    with pytest.raises(ValueError, match="must have numbers far below"):
        single_precision(broken)
    assert output_deltas(broken)[0].single is None
    thin = np.nextafter(tree.lower[0], np.inf)
    bounds = replace(model.bounds, tree=replace(tree, upper=np.r_[thin, tree.upper[1:]]))
    with pytest.raises(ValueError, match="the domain of 's0' must hold a float32 number"):
        single_precision(constrained_model(model.network, model.frame, model.cells, bounds))


def test_nothing_in_it_branches_on_data():
    """So that it can be recorded whole for another runtime."""
    model, _ = far_system(2)
    single = single_precision(model)
    inputs = torch.from_numpy(adversarial_inputs(model, 50, np.random.default_rng(0)))

    class Bare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.single = single

        def forward(self, rows):
            return tuple(self.single.compute(rows))

    recorded = torch.export.export(Bare(), (inputs,)).module()
    for one, two in zip(recorded(inputs), single.compute(inputs), strict=True):
        assert torch.equal(one, two)
