"""Every level of evidence over a whole operating box: what it claims holds, what is corrupted is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.evidence import Lipschitz, Proved, Question, Sampled, SamplingConfig, Statistical, as_evidence
from tether.evidence import strongest as strongest_evidence
from tether.foundation.errors import CertificateError, StorageError
from tether.model.assembling import constrained_model
from tether.tethers.calibration import exceedance

STEP = 0.05
SCHEMA = tether.make_schema(["angle", "speed"], ["torque"], angles=["angle"], units={"speed": "rad/s"})


def swing(states, controls):
    """A pendulum."""
    speed = states[:, 1] + STEP * (15 * np.sin(states[:, 0]) + 3 * controls[:, 0])
    return np.stack([states[:, 0] + STEP * speed, speed], axis=1)


def swing_jacobian(states, controls):
    jacobian = np.zeros((len(states), 2, 3))
    jacobian[:, 1] = np.stack(
        [15 * STEP * np.cos(states[:, 0]), np.ones(len(states)), np.full(len(states), 3 * STEP)], axis=1
    )
    jacobian[:, 0] = STEP * jacobian[:, 1]
    jacobian[:, 0, 0] += 1
    return jacobian


def limited(states, controls):
    """The same with its speed clipped, and its angle wrapped by itself: a black box for all that is known."""
    after = swing(states, controls)
    after[:, 1] = np.clip(after[:, 1], -4, 4)
    after[:, 0] = np.remainder(after[:, 0] + np.pi, 2 * np.pi) - np.pi
    return after


KNOWN = tether.TrustedModel(swing, jacobian=swing_jacobian, jacobian_lipschitz=[15 * STEP**2, 15 * STEP])
LEVELS = {
    "lipschitz": (Lipschitz(), KNOWN),
    "statistical": (Statistical(epsilon=0.01, beta=1e-4), tether.TrustedModel(limited)),
    "sampled": (Sampled(), tether.TrustedModel(limited)),
}


def swinging(function, episodes=20, steps=50):
    rng = np.random.default_rng(0)
    states = rng.uniform([-np.pi, -3], [np.pi, 3], (episodes * steps, 2))
    controls = rng.uniform(-2, 2, (episodes * steps, 1))
    after = function(states, controls)
    after[:, 1] -= STEP * 0.2 * after[:, 1] * np.abs(after[:, 1])
    number = np.repeat(np.arange(episodes), steps)
    return tether.Transitions.from_arrays(states, controls, after, episodes=number, schema=SCHEMA)


def fitted(evidence, trusted, *, leaves=400, **given):
    training = tether.TrainingConfig(steps=5, evaluate_every=5)
    config = tether.FitConfig(
        bounds="affine", leaves=leaves, hidden=(8,), evidence=evidence, training=training, **given
    )
    return tether.fit(swinging(trusted.function), trusted=trusted, config=config)


@pytest.fixture(scope="module", params=LEVELS)
def level(request):
    evidence, trusted = LEVELS[request.param]
    return fitted(evidence, trusted), evidence, trusted


@pytest.fixture(scope="module")
def lipschitz():
    return fitted(*LEVELS["lipschitz"])


@pytest.fixture(scope="module")
def statistical():
    """From so few points that fresh draws exceed what they show."""
    return fitted(*LEVELS["statistical"], sampling=SamplingConfig(calls=40_000))


def over_the_box(model, count=60_000):
    """Points anywhere, and in corners of leaves."""
    rng = np.random.default_rng(7)
    tree = model.bounds.tree
    anywhere = rng.uniform(tree.lower, tree.upper, (count, 3))
    lower, upper = tree.boxes()
    leaf = rng.integers(0, len(lower), count)
    corners = np.where(rng.random((count, 3)) < 0.5, lower[leaf], upper[leaf])
    inputs = np.concatenate([anywhere, corners])
    return SCHEMA.wrap_inputs(inputs[:, :2], inputs[:, 2:])


def exceeded(model, trusted, inputs):
    about = (model.bounds, model.cells, trusted, model.schema, model.frame.target)
    return exceedance(*about, inputs=inputs)


def test_from_data_to_certificate_attack_and_file(level, tmp_path: Path):
    model, evidence, trusted = level
    assert model.bounds.evidence == evidence
    certificate = tether.certify(model, trusted)
    assert certificate.evidence == evidence.name
    assert certificate.certified == evidence.certifies
    assert certificate.domain.coverage_box == 1.0
    assert all(np.isfinite(delta.maximum) for delta in certificate.deltas)
    found = tether.attack(model, trusted, evaluations=20_000)
    assert found.broken <= (not evidence.everywhere)
    tether.save(model, tmp_path / "model.safetensors")
    again = tether.load(tmp_path / "model.safetensors")
    assert again.bounds.evidence == evidence
    inputs = over_the_box(model, 500)
    for name in ("lower", "upper", "delta"):
        np.testing.assert_array_equal(
            getattr(again.limits(inputs), name), getattr(model.limits(inputs), name)
        )
    assert tether.certify(again, trusted).as_dict() == certificate.as_dict()


def test_lipschitz_is_never_exceeded(lipschitz):
    seen = exceeded(lipschitz, KNOWN, over_the_box(lipschitz))
    assert seen.exceeded == 0
    assert seen.draws == 120_000


def test_lipschitz_remainders_are_taylors(lipschitz):
    """Half the constant times the squared half-diagonal, and no more than rounding above it."""
    bounds = lipschitz.bounds
    lower, upper = bounds.tree.boxes()
    constant = np.array([15 * STEP**2, 15 * STEP])[bounds.output]
    exact = 0.5 * constant * ((0.5 * (upper - lower)) ** 2).sum(axis=1)
    assert (bounds.remainder >= np.minimum(exact, np.pi)).all()
    assert (bounds.remainder <= np.minimum(exact, np.pi) + 1e-10).all()


def test_the_share_holds_on_draws_of_its_own(statistical):
    trusted = LEVELS["statistical"][1]
    inputs = statistical.bounds.draw(statistical.cells, 60_000, SCHEMA, np.random.default_rng(99))
    assert statistical.limits(inputs).in_domain.all()
    seen = exceeded(statistical, trusted, inputs)
    assert seen.draws == 60_000 and seen.exceeded / seen.draws < 0.01


def test_half_of_the_draws_are_anywhere_in_the_box(statistical):
    inputs = statistical.bounds.draw(statistical.cells, 40_000, SCHEMA, np.random.default_rng(3))
    tree = statistical.bounds.tree
    edge = (inputs[:, 1] > 0.9 * tree.upper[1]) | (inputs[:, 1] < 0.9 * tree.lower[1])
    assert not statistical.cells.locate(inputs[edge]).in_domain.all()
    near = statistical.cells.locate(inputs).in_domain.mean()
    assert 0.5 <= near < 1


def test_the_certificate_states_what_it_rests_on(statistical):
    claim = tether.certify(statistical, LEVELS["statistical"][1]).claim
    for words in (
        "confidence 1 - 0.0001",
        "a share 0.01",
        "independent draws",
        "uniform in the operating box",
    ):
        assert words in claim


def corrupted(model, factor):
    bounds = replace(model.bounds, remainder=factor * model.bounds.remainder)
    return constrained_model(model.network, model.frame, model.cells, bounds)


def test_remainders_made_smaller_are_refused(lipschitz, statistical):
    with pytest.raises(CertificateError, match="derived anew, the remainder of output"):
        tether.certify(corrupted(lipschitz, 0.99), KNOWN)
    with pytest.raises(CertificateError, match="at most a fraction 0.01 of inputs must exceed delta"):
        tether.certify(corrupted(statistical, 0.3), LEVELS["statistical"][1])


def test_constants_that_do_not_hold_are_refused():
    small = tether.TrustedModel(swing, jacobian=swing_jacobian, jacobian_lipschitz=[2 * STEP**2, 2 * STEP])
    model = fitted(Lipschitz(), small)
    with pytest.raises(CertificateError, match="the claim must hold at every point"):
        tether.certify(model, small)
    with pytest.raises(CertificateError, match="derived anew"):
        tether.certify(model, KNOWN)


def test_another_model_is_not_certified(lipschitz, statistical):
    other = replace(KNOWN, function=lambda s, u: swing(s, u) + 0.01 * np.sin(3 * s))
    with pytest.raises(CertificateError, match="must hold|derived anew"):
        tether.certify(lipschitz, other)
    shifted = tether.TrustedModel(lambda s, u: limited(s, u) + 0.5)
    with pytest.raises(CertificateError, match="at most a fraction"):
        tether.certify(statistical, shifted)


def test_turns_that_a_model_takes_by_itself_are_no_jumps(statistical):
    """The angle's model is smooth on the circle, wherever M cuts it."""
    remainder = statistical.bounds.remainder[statistical.bounds.output == 0]
    assert remainder.max() < 0.2


def test_a_slow_model_is_asked_no_more_than_agreed():
    asked = []

    def counting(states, controls):
        asked.append(len(states))
        return limited(states, controls)

    model = fitted(Sampled(), tether.TrustedModel(counting), sampling=SamplingConfig(calls=20_000))
    assert model.record["stopped"] == "calls of the trusted model"
    leaves, rows = model.bounds.tree.leaves, 2 * 1000 * 3  # data, probes and checks of M besides
    assert sum(asked) <= 20_000 + leaves + rows


def test_delta_is_kept(level):
    _, evidence, trusted = level
    model = fitted(evidence, trusted, leaves=6000, delta={"speed": 0.6, "angle": 0.05})
    assert (model.limits(over_the_box(model, 2000)).delta <= [0.05, 0.6]).all()


def question(trusted):
    lower, upper = np.array([-np.pi, -4.0, -2.0]), np.array([np.pi, 4.0, 2.0])
    return Question(trusted, SCHEMA, "increment", lower, upper)


def unbounded(states, controls):
    eigenvalues = np.linalg.eigvals(np.eye(2) * states[:, :1, None])
    return states + 0 * eigenvalues.real


def test_the_strongest_evidence_that_the_model_allows():
    assert strongest_evidence(KNOWN, "affine", question(KNOWN)) == (Proved(), None)
    black = tether.TrustedModel(unbounded)
    level, why = strongest_evidence(black, "affine", question(black))
    assert level == Statistical()
    assert why is not None
    assert "M (unbounded) cannot be proved: `linalg.eigvals` cannot be bounded over a box" in why
    assert "test_evidence_over_boxes.py:" in why
    given = replace(black, jacobian=swing_jacobian, jacobian_lipschitz=1.0)
    assert strongest_evidence(given, "affine", question(given))[0] == Lipschitz()
    assert strongest_evidence(given, "interval", question(given))[0] == Statistical()


def test_the_default_is_the_strongest_and_says_why():
    assert fitted(None, KNOWN).bounds.evidence == Proved()
    model = fitted(None, tether.TrustedModel(lambda s, u: swing(s, u) + 0 * unbounded(s, u)))
    assert model.bounds.evidence == Statistical()
    assert "cannot be bounded over a box" in model.record["why"]


def test_names_and_numbers_at_the_door():
    assert as_evidence("proved") == Proved()
    assert as_evidence(None) is None
    assert as_evidence("statistical", epsilon=0.1, beta=None) == Statistical(epsilon=0.1)
    with pytest.raises(ValueError, match="`evidence` must be one of 'proved', .*; got 'certain'"):
        as_evidence("certain")
    with pytest.raises(ValueError, match="`epsilon` must come with evidence `statistical`; got `proved`"):
        as_evidence("proved", epsilon=0.1)
    with pytest.raises(ValueError, match="evidence `lipschitz` must have constants"):
        fitted("lipschitz", tether.TrustedModel(swing))


def test_a_file_without_its_numbers_is_refused(statistical, tmp_path: Path):
    from tether.foundation.atomic import content_digest, read_tensors, write_tensors

    path = tmp_path / "model.safetensors"
    tether.save(statistical, path)
    tensors, metadata = read_tensors(path)
    metadata["epsilon"] = None
    metadata.pop("digest")
    metadata["digest"] = content_digest(tensors, metadata)
    write_tensors(path, tensors, metadata)
    with pytest.raises(StorageError, match="`epsilon` must be between 0 and 1"):
        tether.load(path)
