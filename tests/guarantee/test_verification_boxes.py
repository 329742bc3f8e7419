"""`tether verify` of claims over a box: true ones are shown again, and corrupted, re-signed ones are refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.evidence import Lipschitz, Sampled, Statistical
from tether.foundation.errors import CertificateError, StorageError
from tether.verification.content import claim_of, read_content
from tether.verification.draws import drawn
from tether.verification.trees import read_trees

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from boxed import Shape, boxed_model
from fits_systems import write_system
from signing import rewrite

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
        data, trusted=pendulum, bounds="affine", leaves=300, memories=20, hidden=(4,),
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
    assert found.verified and found.unit == "leaves" and found.cells > 10
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
        data, trusted=function, bounds="affine", leaves=200, memories=10, hidden=(4,),
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


def kinked(states, controls):
    """Steep in the first state, whatever the second is, which only advances; a product with 0 decides nothing."""
    wave = 0.5 * np.fmod(2.5 * states[:, 0], 1.0) * states[:, 0] + 0.5 * np.sin(3.0 * controls[:, 0] / 2e-6)
    side = np.where(states[:, 0] + controls[:, 0] * 0.0 > 0.0, np.sin(states[:, 0]), states[:, 0])
    return np.column_stack([states[:, 0] + side, states[:, 1] + wave])


def test_ranges_along_what_is_steep_and_slopes_along_the_rest(tmp_path):
    rng = np.random.default_rng(0)
    low, high = np.array([-1.0, -400.0, -1e-6]), np.array([1.0, 400.0, 1e-6])
    inputs = rng.uniform(low, high, (80, 3))
    states, controls = inputs[:, :2], inputs[:, 2:]
    data = tether.Transitions.from_arrays(
        states, controls, kinked(states, controls), episodes=np.arange(80) // 10
    )
    model = tether.fit(
        data, trusted=kinked, bounds="affine", leaves=200, memories=10, hidden=(4,),
        training=tether.TrainingConfig(steps=2, evaluate_every=2),
    )  # fmt: skip
    tether.save(model, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", kinked).verified


def test_leaves_of_which_nothing_is_known_are_outside_the_domain(tmp_path):
    """A pole: the model around it is saved, loaded, verified and run in float32, and claims nothing there."""

    def pole(states, controls):
        return states + 0.01 / states

    schema, trusted = tether.make_schema(["x"], []), tether.TrustedModel(pole)
    one = np.ones(1)
    model = boxed_model(trusted, schema, -one, one, np.random.default_rng(0), Shape(leaves=60))
    tether.save(model, tmp_path / "model.safetensors")
    (tmp_path / "certificate.json").write_text(json.dumps(tether.certify(model, trusted).as_dict()))
    found = tether.verify(tmp_path, trusted)
    assert found.verified and "nothing is claimed" in found.statement
    again = tether.load(tmp_path / "model.safetensors").predict(
        [[0.0], [0.5]], np.empty((2, 0)), details=True
    )
    assert again.in_domain.tolist() == [False, True] and np.isfinite(again.next_states).all()
    import torch

    rows = torch.tensor([[0.0], [0.5]])
    single = tether.single_precision(model)(rows, rows[:, :0])
    assert single.in_domain.tolist() == [False, True] and single.next_states.isfinite().all()


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


def no_angle(arrays, metadata):
    metadata["target"] = "increment" if metadata["target"] == "next_state" else "next_state"


FORGED = [halved_remainder, no_remainder, other_slope, other_value, other_angle, other_reference,
          threshold_outside, wider_box, exchanged_leaves, gap, cycle, ring, shared_node, one_root,
          cut_of_no_input, threshold_of_nothing, huge_slope, negative_remainder, unclaimed_but_infinite_room,
          no_angle]  # fmt: skip


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


# --- other evidence than proof


def swing(states, controls):
    turned = states[:, 0] + 0.1 * np.sin(states[:, 1])
    return np.stack([turned, states[:, 1] + 0.1 * np.cos(states[:, 0]) * controls[:, 0]], axis=1)


def slopes(states, controls):
    found = np.zeros((len(states), 2, 3))
    found[:, 0, 0] = found[:, 1, 1] = 1.0
    found[:, 0, 1] = 0.1 * np.cos(states[:, 1])
    found[:, 1, 0] = -0.1 * np.sin(states[:, 0]) * controls[:, 0]
    found[:, 1, 2] = 0.1 * np.cos(states[:, 0])
    return found


def known(*constants, jacobian=slopes):
    return tether.TrustedModel(swing, jacobian=jacobian, jacobian_lipschitz=constants or (0.1, 0.2))


LEVELS = {
    "lipschitz": Lipschitz(),
    "statistical": Statistical(epsilon=0.01, beta=1e-3),
    "sampled": Sampled(),
}


@pytest.fixture(params=[("increment", ()), ("next_state", ()), ("increment", ("a",))], ids=str)
def weaker(request, tmp_path):
    """Files of the same model by weaker evidence, by its name."""
    target, angles = request.param
    schema = tether.make_schema(["a", "b"], ["force"], angles=angles)
    high = np.array([np.pi if angles else 3.0, 2.0, 1.0])
    for name, level in LEVELS.items():
        shape = Shape(target=target, leaves=200, tolerance=1e-3, evidence=level)
        model = boxed_model(known(), schema, -high, high, np.random.default_rng(0), shape)
        folder = tmp_path / name
        folder.mkdir()
        tether.save(model, folder / "model.safetensors")
        (folder / "certificate.json").write_text(json.dumps(tether.certify(model, known()).as_dict()))
    return tmp_path


def test_weaker_evidence_is_verified_as_far_as_it_goes(weaker):
    found = {name: tether.verify(weaker / name, known()) for name in LEVELS}
    assert found["lipschitz"].verified and "if those hold" in found["lipschitz"].statement
    assert found["statistical"].verified and "Not refuted: of 4000 fresh" in found["statistical"].statement
    assert found["statistical"].not_vouched[0].startswith("ε and β")
    assert not found["sampled"].verified


def shrunk(arrays, metadata):
    arrays["bounds.remainder"] *= 0.5


def tilted(arrays, metadata):
    arrays["bounds.slope"][:, 1] += 0.05


@pytest.mark.parametrize("change", [shrunk, tilted, other_value, halved_remainder])
def test_constants_do_not_show_less(weaker, change):
    (weaker / "lipschitz" / "certificate.json").unlink()
    rewrite(weaker / "lipschitz" / "model.safetensors", change)
    with pytest.raises(CertificateError, match=r"leaf \d+: output '[ab]': the remainder is .*, not the"):
        tether.verify(weaker / "lipschitz", known())


def test_other_constants_are_not_those_the_claim_rests_on(weaker):
    path = weaker / "lipschitz"
    with pytest.raises(CertificateError, match=r"leaf \d+"):
        tether.verify(path, known(0.12, 0.24))
    with pytest.raises(CertificateError, match=r"leaf \d+"):
        tether.verify(path, known(jacobian=lambda s, u: slopes(s, u) + 0.01))
    with pytest.raises(CertificateError, match="has no `jacobian_lipschitz`"):
        tether.verify(path, swing)
    with pytest.raises(CertificateError, match="must be a number, or one per output"):
        tether.verify(path, tether.TrustedModel(swing, jacobian=slopes, jacobian_lipschitz=np.ones((2, 3))))


def test_draws_refute_less(weaker):
    path = weaker / "statistical"
    (path / "certificate.json").unlink()
    rewrite(path / "model.safetensors", shrunk)
    with pytest.raises(CertificateError, match=r"at most a share 0.01 of inputs may exceed delta; of 4000"):
        tether.verify(path, known())


def test_draws_refute_what_fails_near_memories_alone(weaker):
    """A hundredth of the box, half of the draws."""
    path = weaker / "statistical" / "model.safetensors"
    (path.parent / "certificate.json").unlink()

    def crowded(arrays, metadata):
        leaf = read_trees(arrays).find(np.array([[0.5, 0.5, 0.5]]))[0]
        arrays["bounds.remainder"][leaf] = 1e-9
        arrays["cells.memories"][:] = np.array([0.5, 0.5, 0.5]) / arrays["cells.scale"]
        arrays["cells.radii"][:] = 0.01

    rewrite(path, crowded)
    with pytest.raises(CertificateError, match="may exceed delta"):
        tether.verify(path, known())


def test_draws_are_half_of_the_box_and_half_around_memories(weaker):
    claim = claim_of(read_content(weaker / "statistical" / "model.safetensors"))
    claim.arrays["cells.radii"] = np.full(len(claim.cells("radii")), 1e-3)
    rng = np.random.default_rng(0)
    inputs = np.concatenate([drawn(claim, rng) for _ in range(4)])
    gaps = (inputs[:, None] / claim.cells("scale") - claim.cells("memories")) ** 2
    near = np.sqrt(gaps.sum(axis=2)).min(axis=1) <= 1e-3 * (1 + 1e-9)
    assert abs(near.mean() - 0.5) < 0.02
    low, high = claim.box
    anywhere = inputs[~near]
    assert ((anywhere >= low) & (anywhere <= high)).all()
    assert np.abs(anywhere.mean(axis=0) - 0.5 * (low + high)).max() < 0.03 * (high - low).max()
    assert np.allclose(anywhere.var(axis=0), (high - low) ** 2 / 12, rtol=0.05)


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
    found, claim = tether.verify(copied, pendulum), claim_of(read_content(copied / "model.safetensors"))
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
    arrays = claim_of(read_content(fitted / "model.safetensors")).arrays
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
    trees = claim_of(read_content(fitted / "model.safetensors")).trees
    model = tether.load(fitted / "model.safetensors")
    inputs = np.random.default_rng(0).uniform(model.bounds.tree.lower, model.bounds.tree.upper, (2000, 3))
    found = trees.find(inputs)
    assert np.array_equal(found, model.bounds.tree.find(inputs))
    assert ((trees.lower[found] <= inputs[:, None]) & (inputs[:, None] <= trees.upper[found])).all()


def test_an_angle_that_is_nowhere_is_not_near_anything() -> None:
    from tether.data import HALF_TURN
    from tether.evidence.expansions import expand_boxes
    from tether.programs import program_of

    program = program_of(lambda s, u: 1 / s, np.array([[0.5]]), np.array([[1.0]]), 1)
    leaves = expand_boxes(program, np.array([[-1.0], [0.1]]), np.array([[1.0], [1.0]]), angle=True)
    assert np.isinf(leaves.remainder[0])
    assert leaves.remainder[1] == HALF_TURN
