"""`tether verify` of claims over a box: true ones are shown again, and corrupted, re-signed ones are refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from test_verification import rewrite

import tether
from tether.errors import CertificateError, StorageError
from tether.verification.claim import read_claim
from tether.verification.trees import read_trees

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from fits_systems import write_system

REFUSED = (CertificateError, StorageError)


def pendulum(states, controls):
    angle, speed = states[:, 0], states[:, 1]
    speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * controls[:, 0]), -8, 8)
    return np.stack([angle + 0.05 * speed, speed], axis=1)


def heavier(states, controls):
    return pendulum(states, controls) + 0.3 * np.sin(states[:, :1])


def data_of(function, low, high, schema, *, rows=240, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(low, high, (rows, len(low)))
    dx = len(schema.states)
    truth = np.array(function(inputs[:, :dx], inputs[:, dx:]), dtype=float)
    truth += 0.01 * np.ptp(truth, axis=0) * rng.standard_normal(truth.shape)
    return tether.Transitions.from_arrays(
        inputs[:, :dx], inputs[:, dx:], truth, episodes=np.arange(rows) // 10, schema=schema
    )


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A pendulum's model file, its certificate beside it."""
    schema = tether.make_schema(["angle", "speed"], ["torque"], angles=["angle"])
    data = data_of(pendulum, [-3, -4, -2], [3, 4, 2], schema)
    model = tether.fit(
        data, trusted=pendulum, bounds="boxes", leaves=300, memories=20, hidden=(4,),
        training=tether.TrainingConfig(steps=2, evaluate_every=2),
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("boxes")
    tether.save(model, folder / "model.safetensors")
    held_out = data_of(pendulum, [-3, -4, -2], [3, 4, 2], schema, seed=1)
    found = tether.certify(model, pendulum, transitions=held_out).as_dict()
    (folder / "certificate.json").write_text(json.dumps(found))
    return folder


@pytest.fixture
def copied(fitted, tmp_path):
    for name in ("model.safetensors", "certificate.json"):
        (tmp_path / name).write_bytes((fitted / name).read_bytes())
    return tmp_path


def test_a_fit_is_verified_with_its_certificate(fitted):
    found = tether.verify(fitted, pendulum)
    assert found.verified and found.unit == "leaves" and found.cells == 36
    assert {"band", "deltas.held_out", "deltas.remainder[1]", "domain.coverage_D"} <= set(found.not_vouched)
    said = json.loads((fitted / "certificate.json").read_text())
    assert [found.deltas[entry["name"]][0] for entry in said["deltas"]] == [
        entry["maximum"] for entry in said["deltas"]
    ]


@pytest.mark.parametrize("seed", range(12))
def test_random_systems_are_verified(seed, tmp_path):
    system = write_system(np.random.default_rng([seed, 77]))
    function = system.build()
    schema = tether.make_schema(system.states, system.controls, system.outputs, angles=system.angles)
    data = data_of(function, system.low, system.high, schema, rows=80)
    model = tether.fit(
        data, trusted=function, bounds="boxes", leaves=200, memories=10, hidden=(4,),
        training=tether.TrainingConfig(steps=2, evaluate_every=2),
    )  # fmt: skip
    tether.save(model, tmp_path / "model.safetensors")
    (tmp_path / "certificate.json").write_text(json.dumps(tether.certify(model, function).as_dict()))
    if not all(
        np.isfinite(model.bounds.remainder[model.bounds.output == k]).any()
        for k in range(len(system.outputs))
    ):
        with pytest.raises(CertificateError, match="nothing is claimed"):
            tether.verify(tmp_path, function)
        return
    assert tether.verify(tmp_path, function).verified


# --- what a forger changes; each is signed anew


def leaf_of(arrays, output=1):
    """A leaf of an output: the first to the left of its root."""
    node = arrays["tree.roots"][output]
    while arrays["tree.cut"][node] >= 0:
        node = arrays["tree.left"][node]
    return arrays["tree.left"][node]


def inner_nodes(arrays):
    return np.flatnonzero(arrays["tree.cut"] >= 0)


def halved_remainder(arrays, metadata):
    arrays["bounds.remainder"][leaf_of(arrays)] *= 0.5


def smaller_remainders(arrays, metadata):
    arrays["bounds.remainder"] *= 0.9


def no_remainder(arrays, metadata):
    arrays["bounds.remainder"][leaf_of(arrays)] = 0.0


def other_slope(arrays, metadata):
    arrays["bounds.slope"][leaf_of(arrays)] *= 1.02


def other_value(arrays, metadata):
    arrays["bounds.value"][leaf_of(arrays)] += 2.1 * arrays["bounds.remainder"][leaf_of(arrays)]


def other_angle(arrays, metadata):
    arrays["bounds.value"][leaf_of(arrays, 0)] += 2.1 * arrays["bounds.remainder"][leaf_of(arrays, 0)]


def other_reference(arrays, metadata):
    arrays["bounds.reference"] += 0.01


def moved_threshold(arrays, metadata):
    node = inner_nodes(arrays)[0]
    arrays["tree.threshold"][node] += 0.2


def threshold_outside(arrays, metadata):
    arrays["tree.threshold"][inner_nodes(arrays)[0]] = 1e6


def wider_box(arrays, metadata):
    arrays["tree.lower"] *= 1.5
    arrays["tree.upper"] *= 1.5


def exchanged_leaves(arrays, metadata):
    leaves = np.flatnonzero(arrays["tree.cut"] < 0)
    arrays["tree.left"][leaves] = arrays["tree.left"][leaves][::-1]


def gap(arrays, metadata):
    """A node that leads to one leaf on either side; the other is below nothing."""
    node = inner_nodes(arrays)[-1]
    arrays["tree.right"][node] = arrays["tree.left"][node]


def cycle(arrays, metadata):
    node = inner_nodes(arrays)[-1]
    arrays["tree.right"][node] = node


def ring(arrays, metadata):
    """Two nodes below one another, each once, and below no root."""
    first, second = inner_nodes(arrays)[-2:]
    left = arrays["tree.left"]
    above = {int(child): (side, k) for side in ("left", "right") for k in inner_nodes(arrays)
             for child in (arrays[f"tree.{side}"][k],)}  # fmt: skip
    for node, replacement in ((first, left[second]), (second, left[first])):
        side, k = above[int(node)]
        arrays[f"tree.{side}"][k] = replacement
    left[first], left[second] = second, first


def shared_node(arrays, metadata):
    first, second = inner_nodes(arrays)[-2:]
    arrays["tree.left"][second] = arrays["tree.left"][first]


def one_root(arrays, metadata):
    arrays["tree.roots"][1] = arrays["tree.roots"][0]


def cut_of_no_input(arrays, metadata):
    arrays["tree.cut"][inner_nodes(arrays)[0]] = 7


def threshold_of_nothing(arrays, metadata):
    arrays["tree.threshold"][inner_nodes(arrays)[0]] = np.nan


def huge_slope(arrays, metadata):
    arrays["bounds.slope"][leaf_of(arrays)] = 1e140


def negative_remainder(arrays, metadata):
    arrays["bounds.remainder"][leaf_of(arrays)] = -1.0


def unclaimed_but_infinite_room(arrays, metadata):
    arrays["bounds.half_width"][0] = np.inf


def said_statistical(arrays, metadata):
    metadata.update(evidence="statistical", epsilon=0.01, beta=0.01)


def no_angle(arrays, metadata):
    metadata["target"] = "increment" if metadata["target"] == "next_state" else "next_state"


FORGED = [halved_remainder, no_remainder, other_slope, other_value, other_angle, other_reference,
          threshold_outside, wider_box, exchanged_leaves, gap, cycle, ring, shared_node, one_root,
          cut_of_no_input, threshold_of_nothing, huge_slope, negative_remainder, unclaimed_but_infinite_room,
          said_statistical, no_angle]  # fmt: skip


@pytest.mark.parametrize("change", [smaller_remainders, moved_threshold])
def test_what_is_accepted_is_true(copied, change):
    """A little less than `fit` stated may still be so: then it is at every one of many points."""
    (copied / "certificate.json").unlink()
    path = copied / "model.safetensors"
    rewrite(path, change)
    try:
        assert tether.verify(path, pendulum).verified
    except CertificateError:
        return
    model = tether.load(path)
    tree, rng = model.bounds.tree, np.random.default_rng(0)
    inputs = rng.uniform(tree.lower, tree.upper, (200_000, 3))
    limits = model.limits(inputs)
    values = tether.TrustedModel(pendulum).target(inputs, model.schema, model.frame.target)
    ends = [model.schema.distance(values, end) for end in (limits.lower, limits.upper)]
    assert limits.in_domain.all() and (np.maximum(*ends) <= limits.delta).all()


@pytest.mark.parametrize("change", FORGED)
def test_a_corrupted_file_is_refused(copied, change):
    (copied / "certificate.json").unlink()
    rewrite(copied / "model.safetensors", change)
    with pytest.raises(REFUSED):
        tether.verify(copied, pendulum)


def test_a_corrupted_leaf_is_named(copied):
    (copied / "certificate.json").unlink()
    rewrite(copied / "model.safetensors", no_remainder)
    with pytest.raises(
        CertificateError, match=r"not verified: leaf \d+: output 'speed': the remainder is 0, not"
    ):
        tether.verify(copied, pendulum)


def test_another_trusted_model_is_refused(copied):
    def unrecorded(arrays, metadata):
        metadata["record"].pop("trusted_source_sha256", None)

    (copied / "certificate.json").unlink()
    rewrite(copied / "model.safetensors", unrecorded)
    with pytest.raises(CertificateError, match=r"leaf \d+: output"):
        tether.verify(copied, heavier)


@pytest.mark.parametrize("name", ["half_width", "most"])
def test_room_changes_delta_as_the_certificate_says(copied, name):
    """Another room is another claim, true of the other delta; the certificate of the first is refused."""
    before = tether.verify(copied, pendulum).deltas["speed"][0]

    def change(arrays, metadata):
        if name == "half_width":
            arrays["bounds.half_width"] *= 2
        else:
            arrays["bounds.most"][:] = 0.5 * before

    rewrite(copied / "model.safetensors", change)
    with pytest.raises(CertificateError, match=r"`deltas\['angle'\]\.|`deltas\['speed'\]\."):
        tether.verify(copied, pendulum)
    (copied / "certificate.json").unlink()
    found, claim = tether.verify(copied, pendulum), read_claim(copied / "model.safetensors")
    assert found.verified and found.deltas["speed"][0] != before
    model = tether.load(copied / "model.safetensors")
    assert np.array_equal(claim.delta, model.bounds.delta)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("band.probability", lambda said: said["band"].update(probability=0.999)),
        ("band.alpha", lambda said: said["band"].update(alpha=1e-6)),
        ("band.episodes", lambda said: said["band"].update(episodes=10**6)),
        ("band.sure", lambda said: said["band"].update(sure=True)),
        ("band", lambda said: said.update(band=None)),
        ("domain.coverage_box", lambda said: said["domain"].update(coverage_box=0.5)),
        ("domain.radius", lambda said: said["domain"].update(radius=[1.0, 1.0])),
        ("domain.box", lambda said: said["domain"]["box"].update(speed=[-9.0, 9.0])),
        ("deltas['speed'].remainder", lambda said: said["deltas"][1].update(remainder=[1e-9, None])),
        ("deltas['speed'].single", lambda said: said["deltas"][1].update(single=0.1)),
        ("deltas['speed'].worst_cells", lambda said: said["deltas"][1].update(worst_cells=[0])),
        ("deltas['speed'].maximum", lambda said: said["deltas"][1].update(maximum=1e-3)),
    ],
)
def test_a_certificate_that_says_else_is_refused(copied, field, change):
    said = json.loads((copied / "certificate.json").read_text())
    change(said)
    (copied / "certificate.json").write_text(json.dumps(said))
    with pytest.raises(CertificateError) as refusal:
        tether.verify(copied, pendulum)
    assert f"`{field}`" in str(refusal.value)


def test_trees_are_refused_by_verification_alone(fitted):
    """Without the checks of the format, which share no code with these."""
    arrays = read_claim(fitted / "model.safetensors").arrays
    read_trees(arrays)
    for change in (
        gap,
        cycle,
        ring,
        shared_node,
        one_root,
        cut_of_no_input,
        threshold_of_nothing,
        threshold_outside,
    ):
        own = {name: values.copy() for name, values in arrays.items()}
        change(own, {})
        with pytest.raises(CertificateError, match="not verified: (trees|node)"):
            read_trees(own)


def test_leaves_lie_where_inputs_are_led(fitted):
    trees = read_claim(fitted / "model.safetensors").trees
    model = tether.load(fitted / "model.safetensors")
    inputs = np.random.default_rng(0).uniform(model.bounds.tree.lower, model.bounds.tree.upper, (2000, 3))
    found = trees.find(inputs)
    assert np.array_equal(found, model.bounds.tree.find(inputs))
    assert ((trees.lower[found] <= inputs[:, None]) & (inputs[:, None] <= trees.upper[found])).all()


def test_an_angle_that_is_nowhere_is_not_near_anything() -> None:
    from tether.data import HALF_TURN
    from tether.leaves import expand_boxes
    from tether.programs import program_of

    program = program_of(lambda s, u: 1 / s, np.array([[0.5]]), np.array([[1.0]]), 1)
    leaves = expand_boxes(program, np.array([[-1.0], [0.1]]), np.array([[1.0], [1.0]]), angle=True)
    assert np.isinf(leaves.remainder[0])
    assert leaves.remainder[1] == HALF_TURN
