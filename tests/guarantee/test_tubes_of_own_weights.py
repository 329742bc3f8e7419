"""Tubes for the network at hand: it stays in them, they are nowhere wider, and other code shows them again."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch

import tether
from tether.claims.tubes import attack_tube, load_tube, save_tube, tube
from tether.claims.tubes.network import Weights
from tether.claims.tubes.pieces import cut
from tether.data import Transitions, make_schema
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import train_method
from tether.verification.content import read_content
from tether.verification.networks import FileNetwork
from tether.verification.tubes import verify_tube

SCHEMA = make_schema(["x", "y", "heading"], ["speed", "yaw_rate"], angles=["heading"])
LOWER, UPPER = np.array([-9.0, -9.0, -3.1, -3.0, -1.0]), np.array([9.0, 9.0, 3.1, 3.0, 1.0])
BOX = ([1.0, 2.0, 3.0], [1.1, 2.1, 3.2])
"""Over ±π."""
CONTROLS = np.tile([1.0, 0.3], (8, 1))


def car(states, controls):
    x, y, heading = states.T
    step = 0.1 * controls[:, 0]
    return np.stack(
        [x + step * np.cos(heading), y + step * np.sin(heading), heading + 0.1 * controls[:, 1]], axis=1
    )


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(LOWER, UPPER, (400, 5))
    after = car(inputs[:, :3], inputs[:, 3:]) + 0.05 * np.sin(3 * inputs[:, 2:3])
    data = Transitions.from_arrays(
        inputs[:, :3], inputs[:, 3:], after, episodes=np.arange(400) // 20, schema=SCHEMA
    )
    training = tether.TrainingConfig(steps=20, dtype="float64")
    config = FitConfig(memories=30, leaves=200, hidden=(12, 12), training=training, evidence="proved")
    problem = prepare(data, trusted=car, config=config)
    return train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model


def _louder(model, factor, dtype=torch.float64):
    """Weights at which units change their signs and outputs are cut off here and there."""
    model = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for layer in model.network:
            if isinstance(layer, torch.nn.Linear):
                layer.weight.normal_(0, layer.in_features**-0.5, generator=generator)
                layer.bias.normal_(0, 0.3, generator=generator)
        layer.weight.mul_(factor)
        layer.bias.mul_(factor)
    model.network.to(dtype)
    return model


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("width", [1e-6, 0.05, 0.5, 4.0])
def test_networks_are_held(learned, tmp_path, dtype, width):
    """Corrections at corners and inside lie within what both codes say, and touch it nearly somewhere."""
    model = _louder(learned, 1.0, dtype)
    tether.save(model, tmp_path / "model.safetensors")
    other = FileNetwork(read_content(tmp_path / "model.safetensors"))
    rng = np.random.default_rng(1)
    middle = rng.uniform(0.5 * LOWER, 0.5 * UPPER, (40, 5))
    half = width * rng.random((40, 5)) * (UPPER - LOWER) / 20
    pieces = cut(middle - half, middle + half, middle, SCHEMA.input_angles)
    own = Weights(model).over(pieces)
    assert own.apart.max() > 0
    row = np.repeat(np.arange(len(pieces.row)), 400)
    share = rng.random((len(row), 5))
    share = np.where(rng.random((len(row), 1)) < 0.5, np.round(share), share)
    inputs = np.clip(
        pieces.lower[row] + share * (pieces.upper - pieces.lower)[row], pieces.lower[row], pieces.upper[row]
    )
    inputs = SCHEMA.wrap_inputs(inputs[:, :3], inputs[:, 3:])
    with torch.no_grad():
        raw = model.raw(torch.from_numpy(inputs)).numpy()
    outputs = model.frame.outputs
    true = outputs.center + outputs.scale * raw
    way = inputs - pieces.middle[row]
    way = np.where(SCHEMA.input_angles, (way + np.pi) % (2 * np.pi) - np.pi, way)
    off = np.abs(true - own.value[row] - np.einsum("npd,nd->np", own.slope[row], way))
    assert (off <= own.apart[row]).all()
    low, high = own.ends
    assert ((true >= low[row]) & (true <= high[row])).all()
    assert width < 1e-3 or (off / own.apart[row]).max() > 0.3
    for output in range(3):
        again = other.over(pieces.lower, pieces.upper, pieces.middle, output)
        off = np.abs(true[:, output] - again.value[row] - (again.slope[row] * way).sum(axis=1))
        assert (off <= again.apart[row]).all()
        assert (again.apart <= own.apart[:, output] * (1 + 1e-12)).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("factor", [0.3, 30.0])
def test_rollouts_stay_inside(learned, factor, dtype):
    model = _louder(learned, factor, dtype)
    for start in (BOX, [1.0, 2.0, 3.0]):
        whatever, own = (tube(model, car, start, CONTROLS, weights=weights) for weights in ("any", "own"))
        assert own.complete
        assert "with the weights at hand" in own.words
        assert not attack_tube(model, own, rollouts=2000).broken
        assert (own.lower >= whatever.lower).all()
        assert (own.upper <= whatever.upper).all()
        assert (own.half_width[-1] < 0.6 * whatever.half_width[-1]).all()
    # From a point the network at hand goes one way.
    assert own.half_width.max() < (1e-9 if dtype is torch.float64 else 1e-3)


def test_a_narrower_tube_is_broken(learned):
    model = _louder(learned, 30.0)
    own = tube(model, car, BOX, CONTROLS, weights="own")
    middle, half = 0.5 * (own.lower + own.upper), 0.5 * (own.upper - own.lower)
    narrow = own.__class__(**{**vars(own), "lower": middle - 0.5 * half, "upper": middle + 0.5 * half})
    assert attack_tube(model, narrow, rollouts=2000).broken


def test_boxes_are_cut_by_the_other_tube(learned):
    """Where the tube for any weights is narrower its boxes count; an angle on another turn is left alone."""
    model = _louder(learned, 30.0)
    own = tube(model, car, BOX, CONTROLS, weights="own")
    other = own.__class__(**{**vars(own), "lower": own.lower + 0.01, "weights": None})
    cut_ = own.within(other)
    assert cut_.beside is other
    np.testing.assert_array_equal(cut_.lower, own.lower + 0.01)
    turned = own.__class__(**{**vars(own), "lower": own.lower + 2 * np.pi, "upper": own.upper + 2 * np.pi})
    np.testing.assert_array_equal(own.within(turned).lower[:, 2], own.lower[:, 2])


@pytest.fixture(scope="module", params=[torch.float64, torch.float32])
def made(request, learned, tmp_path_factory):
    """A model file, and the content of a tube of its weights."""
    model, folder = _louder(learned, 30.0, request.param), tmp_path_factory.mktemp("own")
    tether.save(model, folder / "model.safetensors")
    found = tube(model, car, BOX, CONTROLS, weights="own", halvings=1)
    save_tube(found, folder / "tube.json")
    return folder, json.loads((folder / "tube.json").read_text()), model


def _verify(made, content):
    (made[0] / "changed.json").write_text(json.dumps(content))
    return verify_tube(made[0] / "changed.json", car, made[0] / "model.safetensors")


def test_it_is_shown_again(made):
    result = _verify(made, made[1])
    assert "for these weights" in result.statement
    back = load_tube(made[0] / "tube.json")
    assert back.weights == made[1]["weights"]
    assert (back.beside is None) == (made[1]["beside"] is None)


@pytest.mark.parametrize("step", [1, 4, 8])
def test_a_shrunk_set_is_refused(made, step):
    content = copy.deepcopy(made[1])
    for part in content["starts"][0]["parts"]:
        generators = np.array(part["sets"][step]["generators"])
        part["sets"][step]["generators"] = (0.97 * generators).tolist()
    with pytest.raises(tether.CertificateError, match=f"start 0, step {step}"):
        _verify(made, content)


def test_it_is_not_shown_for_any_weights(made):
    """The same sets do not hold whatever the weights."""
    content = copy.deepcopy(made[1])
    content["weights"] = None
    with pytest.raises(tether.CertificateError, match="cannot be shown"):
        _verify(made, content)


def test_other_weights_are_refused(made):
    content = copy.deepcopy(made[1])
    content["weights"] = "0" * 64
    with pytest.raises(tether.CertificateError, match="not of the weights"):
        _verify(made, content)
    with pytest.raises(ValueError, match="must have the weights that the tube is for"):
        attack_tube(_louder(made[2], 2.0), load_tube(made[0] / "tube.json"), rollouts=10)


def test_a_tube_beside_must_be_shown_too(made):
    content = copy.deepcopy(made[1])
    whatever = tube(made[2], car, BOX, CONTROLS)
    save_tube(whatever, made[0] / "any.json")
    beside = json.loads((made[0] / "any.json").read_text())
    content["beside"] = beside
    assert _verify(made, content).moves > len(CONTROLS)
    # Boxes that only a wrong tube beside would allow.
    half = np.array(content["starts"][0]["upper"][4]) - np.array(content["starts"][0]["lower"][4])
    content["starts"][0]["upper"][4] = (np.array(content["starts"][0]["lower"][4]) + 0.9 * half).tolist()
    with pytest.raises(tether.CertificateError, match="must hold the set"):
        _verify(made, content)
    beside["starts"][0]["upper"][4] = content["starts"][0]["upper"][4]
    with pytest.raises(tether.CertificateError, match="must hold the set"):
        _verify(made, content)
    beside["weights"] = content["weights"]
    with pytest.raises(tether.CertificateError, match="must be for any weights"):
        _verify(made, content)


def test_what_cannot_be_had(learned):
    with pytest.raises(ValueError, match="`weights` must be 'any' or 'own'"):
        tube(learned, car, BOX, CONTROLS, weights="mine")
    with pytest.raises(TypeError, match="float32 or float64"):
        tube(_louder(learned, 1.0, torch.bfloat16), car, BOX, CONTROLS, weights="own")
    other = copy.deepcopy(learned)
    other.network = torch.nn.Sequential(*list(other.network)[:-1], torch.nn.Tanh(), list(other.network)[-1])
    with pytest.raises(TypeError, match="`tether.mlp`"):
        tube(other, car, BOX, CONTROLS, weights="own")
    broken = _louder(learned, float("inf"))
    with pytest.raises(ValueError, match="finite weights"):
        tube(broken, car, BOX, CONTROLS, weights="own")


def test_of_a_unit_that_overflows_nothing_is_known(learned, tmp_path):
    """In float32 it is infinite, and cut off; not a large number that a small weight makes moderate."""
    model = copy.deepcopy(learned)
    linear = [layer for layer in model.network if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer in linear:
            layer.weight.zero_()
            layer.bias.zero_()
        linear[0].bias.fill_(1e20)
        linear[1].weight[0, 0] = 1e19
        linear[2].weight[:, 0] = 1e-41
    model.network.float()
    start, still = [1.0, 2.0, 0.5], CONTROLS[:1]
    found = tube(model, car, start, still, weights="own")
    following = model.predict(np.array([start]), still)
    assert found.contains(np.concatenate([np.array([start]), following])).all()
    tether.save(model, tmp_path / "model.safetensors")
    middle = np.array([[*start, *still[0]]])
    other = FileNetwork(read_content(tmp_path / "model.safetensors"))
    assert np.isinf(other.over(middle, middle, middle, 0).apart).all()


def test_an_attack_goes_on_where_rollouts_leave_the_box(learned):
    """They are no numbers after that, and no network is asked about these."""
    edge = learned.bounds.tree.upper[0]
    start = np.array([[edge - 0.7, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = tube(learned, car, start, np.tile([2.5, 0.0], (6, 1)), weights="own")
    assert found.ended.tolist() == [found.ended[0], -1]
    assert 0 < found.ended[0] < 6
    assert not attack_tube(learned, found, rollouts=200).broken
