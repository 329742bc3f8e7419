"""Monotone by construction: within delta of M, and never rising in declared inputs, at any weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import tether
from tether.files.storage import _digest
from tether.foundation.atomic import read_tensors, write_tensors
from tether.model import Model

DECLARED = ("dose", "warmth")
M = tether.AffineModel([[0.9, 0.1, -0.5, 0.3, -0.02], [-0.2, 0.8, -0.1, 0.0, -1.5]], [0.4, -0.1])
SMALL = {
    "bounds": "affine",
    "decreasing": DECLARED,
    "memories": 20,
    "hidden": (8, 8),
    "training": tether.TrainingConfig(steps=300, evaluate_every=100, learning_rate=1e-2),
}


def observed(rows: int = 600) -> tether.Transitions:
    """M and something nonlinear besides, whose `dose` acts more where `level` is high."""
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (rows, 2)), rng.uniform(0, 2, (rows, 3))
    more = 0.2 * np.tanh(3 * states) - 0.1 * controls[:, :1] * (1 + states)
    return tether.Transitions.from_arrays(
        states,
        controls,
        M(states, controls) + more,
        episodes=np.arange(rows) // 10,
        schema=tether.make_schema(["level", "trend"], ["dose", "food", "warmth"]),
    )


@pytest.fixture(scope="module")
def data() -> tether.Transitions:
    return observed()


@pytest.fixture(scope="module")
def model(data) -> Model:
    fitted = tether.fit(data, trusted=M, **SMALL)
    assert fitted.tether.kind == "monotone"
    return fitted


@pytest.fixture(params=["trained", "random", "huge", "float64"])
def any_weights(request, model, tmp_path):
    """The same tether with other weights; made from its file, so that nobody else's are changed."""
    tether.save(model, tmp_path / "model.safetensors")
    again = tether.load(tmp_path / "model.safetensors")
    if request.param == "trained":
        return again
    generator = torch.Generator().manual_seed(1)
    size = {"random": 1.0, "huge": 1e6, "float64": 30.0}[request.param]
    with torch.no_grad():
        for parameter in again.network.parameters():
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator))
    if request.param == "float64":
        again.network.double()
    return again


def split(inputs):
    return inputs[:, :2], inputs[:, 2:]


def inputs_near_and_far(rows: int = 4000):
    rng = np.random.default_rng(2)
    return rng.standard_normal((rows, 5)) * 10.0 ** rng.integers(-2, 6, size=(rows, 1))


def raises(rng, inputs, column):
    """Raised by one ulp, by next to nothing, a little and a lot."""
    once = inputs.copy()
    once[:, column] = np.nextafter(once[:, column], np.inf)
    for by in (None, 1e-12, 1e-3, 1.0, 1e4):
        raised = once.copy() if by is None else inputs.copy()
        if by is not None:
            raised[:, column] += by * rng.uniform(size=len(inputs))
        yield raised


def test_raising_a_declared_input_never_raises_an_output(any_weights) -> None:
    inputs, rng = inputs_near_and_far(), np.random.default_rng(3)
    before = any_weights.predict(*split(inputs))
    for name in DECLARED:
        column = any_weights.schema.inputs.index(name)
        for raised in raises(rng, inputs, column):
            assert (any_weights.predict(*split(raised)) <= before).all(), name
    everything = inputs.copy()
    everything[:, [2, 4]] += rng.exponential(size=(len(inputs), 2))
    assert (any_weights.predict(*split(everything)) <= before).all()


def test_every_output_is_within_delta_of_m_everywhere(any_weights) -> None:
    inputs = inputs_near_and_far()
    answers = any_weights.predict(*split(inputs), details=True)
    assert answers.in_domain.all()
    assert (np.abs(answers.next_states - M(*split(inputs))) <= answers.delta).all()
    assert (answers.lower <= answers.next_states).all() and (answers.next_states <= answers.upper).all()


def test_undeclared_inputs_may_raise_it(model) -> None:
    inputs = inputs_near_and_far(500)
    raised = inputs.copy()
    raised[:, :2] += 1.0
    assert (model.predict(*split(raised)) > model.predict(*split(inputs))).any(axis=0).all()


def test_rows_answer_the_same_alone_in_a_batch_and_in_training_mode(any_weights) -> None:
    inputs = inputs_near_and_far(40)
    together = any_weights.predict(*split(inputs))
    alone = np.concatenate([any_weights.predict(*split(inputs[k : k + 1])) for k in range(40)])
    np.testing.assert_array_equal(alone, together)
    many = any_weights.predict(*split(np.tile(inputs, (60, 1))))
    np.testing.assert_array_equal(many, np.tile(together, (60, 1)))
    any_weights.train()
    np.testing.assert_array_equal(any_weights.predict(*split(inputs)), together)


def test_what_overflows_is_refused(model) -> None:
    inputs = np.full((1, 5), 1e308)
    inputs[:, 2:] = -1e308
    with pytest.raises(ValueError, match="inputs must keep the trusted model finite"):
        model.limits(inputs)


def test_it_learns_beyond_m(model, data) -> None:
    error = np.mean((model.predict(data.states, data.controls) - data.next_states) ** 2)
    assert error < 0.5 * np.mean((M(data.states, data.controls) - data.next_states) ** 2)


def test_a_file_gives_the_same_model_again(any_weights, tmp_path) -> None:
    tether.save(any_weights, tmp_path / "again.safetensors")
    again = tether.load(tmp_path / "again.safetensors")
    inputs = inputs_near_and_far(300)
    one, other = (each.predict(*split(inputs), details=True) for each in (any_weights, again))
    for name in ("next_states", "lower", "upper", "delta", "cell"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert again.decreasing == DECLARED and again.record == any_weights.record
    assert tether.certify(again, M).as_dict() == tether.certify(any_weights, M).as_dict()


def changed(path, **metadata):
    """The file with other metadata and a digest that fits."""
    tensors, before = read_tensors(path)
    before.pop("digest")
    after = before | metadata
    write_tensors(path, tensors, after | {"digest": _digest(tensors, after)})


def test_files_of_another_kind_or_version_are_refused(model, tmp_path) -> None:
    path = tmp_path / "model.safetensors"
    tether.save(model, path)
    assert tether.verify(path, M).verified
    changed(path, kind="convex")
    with pytest.raises(tether.StorageError, match="`kind` must be one of .*; got 'convex'"):
        tether.load(path)
    changed(path, kind="monotone", format_version=3)
    with pytest.raises(tether.StorageError, match="must have format version at most 2; got 3"):
        tether.load(path)


def test_a_file_whose_premises_do_not_hold_is_refused(model, tmp_path) -> None:
    path = tmp_path / "model.safetensors"
    for name, values, message in (
        ("weights", -M.weights, "weights of at most 0 for the declared inputs"),
        ("half_width", -1 - model.tether.half_width.numpy(), "`half_width` must be finite and at least 0"),
        ("declared", np.array([2, 3]), "the network must be monotone in the declared inputs"),
    ):
        tether.save(model, path)
        tensors, metadata = read_tensors(path)
        metadata.pop("digest")
        tensors[f"monotone.{name}"] = torch.from_numpy(values)
        if name == "declared":
            tensors["monotone.weights"][:, 3] = -1.0
        write_tensors(path, tensors, metadata | {"digest": _digest(tensors, metadata)})
        with pytest.raises(tether.StorageError, match=message):
            tether.load(path)


def test_the_certificate_states_both_halves(model) -> None:
    certificate = tether.certify(model, M)
    assert (
        certificate.certified
        and certificate.evidence == "proved"
        and certificate.monotonicity.declared == DECLARED
    )
    assert "within delta of the trusted model" in certificate.claim
    assert "never raises the prediction" in certificate.monotonicity.claim
    for k in range(2):
        assert certificate.deltas[k].maximum >= model.tether.half_width[:, k].max() > 0
    assert certificate.conformance.recheck.points == 320 and certificate.conformance.recheck.max_ratio <= 1
    other = tether.AffineModel(M.weights, M.intercept + 1e-12)
    with pytest.raises(tether.CertificateError, match="must be the model the tether was built with"):
        tether.certify(model, other)
    with pytest.raises(tether.CertificateError, match=r"must be the `tether.AffineModel` .* got .*lambda"):
        tether.certify(model, lambda states, controls: M(states, controls))


def test_attacked_it_holds_and_a_false_claim_does_not(model) -> None:
    found = tether.attack(model, M, evaluations=20_000)
    assert not found.broken and found.evaluations == 20_000
    assert 0.9 < found.max_ratio <= 1 and set(found.inputs) == set(model.schema.inputs)
    other = tether.AffineModel(M.weights, M.intercept + 0.1)
    assert tether.attack(model, other, evaluations=1000).broken


def test_float32_execution_is_refused(model) -> None:
    with pytest.raises(TypeError, match="`model` must be interval or affine; got monotone"):
        tether.single_precision(model)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bounds": "interval"}, "`decreasing` must come with bounds 'affine'; got 'interval'"),
        ({"delta": 0.1}, "`delta` must be None with `decreasing`; got 0.1"),
        ({"operator": "sigmoid"}, "`operator` must be 'clip' with `decreasing`"),
        ({"target": "increment"}, "`target` must be None or 'next_state' with `decreasing`"),
        ({"evidence": "sampled"}, r"`evidence` must be None or Proved\(\) with `decreasing`"),
        ({"domain": {"dose": (0, 3)}}, "`domain` must be None with `decreasing`"),
        ({"decreasing": ("doses",)}, "`decreasing` must name inputs .*; got doses"),
        (
            {"decreasing": ("dose", "level")},
            "whose weights in M are at most 0; got 0.9 for 'level' in output 'level'",
        ),
        ({"decreasing": ("level", "trend", "dose", "food", "warmth")}, "`decreasing` must leave some inputs"),
    ],
)
def test_settings_that_do_not_go_together_are_named(data, settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        tether.fit(data, trusted=M, **SMALL | settings)


def test_other_models_networks_and_columns_are_named(data) -> None:
    with pytest.raises(TypeError, match=r"an affine trusted model; got .*lambda.*Pass `tether.AffineModel"):
        tether.fit(data, trusted=lambda states, controls: M(states, controls), **SMALL)
    with pytest.raises(TypeError, match="`network` must be left out with `decreasing`"):
        tether.fit(data, trusted=M, network=torch.nn.Linear(5, 2), **SMALL)
    with pytest.raises(TypeError, match="`decreasing` must be a tuple of names; got the text 'dose'"):
        tether.fit(data, trusted=M, **SMALL | {"decreasing": "dose"})
    with pytest.raises(ValueError, match=r"weights of shape \(outputs, inputs\) = \(2, 5\); got \(1, 5\)"):
        tether.fit(data, trusted=tether.AffineModel(M.weights[:1], [0.0]), **SMALL)
    turning = replace(data, schema=replace(data.schema, angles=("level",)))
    with pytest.raises(ValueError, match="must come with columns that do not wrap; got angles level"):
        tether.fit(turning, trusted=M, **SMALL)
