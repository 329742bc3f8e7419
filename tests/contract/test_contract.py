"""What every model promises, whatever its tether and operator, in float64 and in float32."""

from __future__ import annotations

import copy
import gc
import inspect

import numpy as np
import pytest
import torch
from every_model import (
    KINDS,
    SUBJECTS,
    any_weights,
    each,
    every,
    parts,
    tensors,
    tethered,
    written,
)

import tether
from tether.claims.attack import attack
from tether.claims.certificate import certify
from tether.foundation.errors import CertificateError
from tether.model.single import single_precision
from tether.tethers.tether import Tether
from tether.verification import verify

single = each(s for s in SUBJECTS if s.single)
not_single = each(s for s in SUBJECTS if not s.single)


def concrete(kind: type) -> set[type]:
    below = {found for child in kind.__subclasses__() for found in concrete(child)}
    return below if inspect.isabstract(kind) else below | {kind}


def test_every_tether_and_operator_is_a_subject():
    ours = {kind for kind in concrete(Tether) if kind.__module__.startswith("tether.")}
    assert {type(subject.model().tether) for subject in SUBJECTS} == ours
    for kind in KINDS:
        operators = {subject.operator for subject in SUBJECTS if subject.kind == kind}
        (tether_,) = {subject.model().tether for subject in SUBJECTS if str(subject) == f"{kind}, clip"}
        assert operators == set(tether_.operators)
        assert {subject.model().operator for subject in SUBJECTS if subject.kind == kind} == operators


@every
def test_outputs_are_inside_the_bounds_at_any_weights(subject):
    inputs = subject.inputs(500)
    for model in any_weights(subject.model()):
        found = model.predict(*parts(inputs), details=True)
        assert (found.next_states >= found.lower).all() and (found.next_states <= found.upper).all()
        forward = model(*tensors(inputs)).detach().numpy()
        assert (forward >= found.lower).all() and (forward <= found.upper).all()


@tethered
def test_outputs_are_within_delta_of_the_trusted_model(subject):
    inputs = subject.inputs(500)
    answers = subject.trusted(*parts(inputs))
    for model in any_weights(subject.model()):
        found = model.predict(*parts(inputs), details=True)
        distance = model.schema.distance(found.next_states, answers)
        assert (distance <= found.delta)[found.in_domain].all()
        assert found.in_domain.mean() > 0.5


@single
def test_in_float32_outputs_are_within_delta_of_the_trusted_model(subject):
    inputs = subject.inputs(500).astype(np.float32)
    answers = subject.trusted(*parts(inputs.astype(np.float64)))
    for model in any_weights(subject.model()):
        found = single_precision(model)(*tensors(inputs))
        assert found.next_states.dtype == torch.float32
        values = found.next_states.detach().double().numpy()
        distance, inside = model.schema.distance(values, answers), found.in_domain.numpy()
        assert (distance <= found.delta.detach().double().numpy())[inside].all()
        assert inside.mean() > 0.5


@not_single
def test_what_float32_cannot_do_it_says_in_a_line(subject):
    with pytest.raises(TypeError, match="cannot be executed in float32 with a guarantee. Use it in float64"):
        single_precision(subject.model())


@every
def test_a_file_gives_back_the_same_bits(subject, tmp_path):
    model, again = subject.model(), tether.load(written(subject, tmp_path), trusted=subject.trusted)
    inputs = subject.inputs()
    one, two = (m.predict(*parts(inputs), details=True) for m in (model, again))
    for name in ("next_states", "lower", "upper", "delta", "cell", "in_domain"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert torch.equal(model(*tensors(inputs)), again(*tensors(inputs)))
    assert (again.operator, again.tether.kind, again.record) == (
        model.operator,
        model.tether.kind,
        model.record,
    )
    if subject.single:
        rows = tensors(inputs.astype(np.float32))
        for ours, theirs in zip(single_precision(model)(*rows), single_precision(again)(*rows), strict=True):
            assert torch.equal(ours, theirs)


@every
def test_no_rows_give_no_rows(subject):
    model = subject.model()
    none = model.schema.wrap_inputs(np.empty((0, 2)), np.empty((0, 1)))
    assert model(*tensors(none)).shape == model.predict(*parts(none)).shape == (0, 2)
    assert model.predict(*parts(none), details=True).delta.shape == (0, 2)
    for across in (False, True):
        found = model.linearize(*parts(none), across=across)
        assert found.states.shape == (0, 2, 2) and found.controls.shape == (0, 2, 1)
    if subject.single:
        found = single_precision(model)(*tensors(none.astype(np.float32)))
        assert found.next_states.shape == found.delta.shape == (0, 2)


@every
def test_a_copy_is_the_same_and_its_own(subject):
    model = subject.model()
    other, inputs = copy.deepcopy(model), subject.inputs()
    before = model.predict(*parts(inputs))
    np.testing.assert_array_equal(other.predict(*parts(inputs)), before)
    with torch.no_grad():
        for parameter in other.network.parameters():
            parameter.mul_(-3)
    np.testing.assert_array_equal(model.predict(*parts(inputs)), before)


@tethered
def test_the_state_holds_the_geometry(subject):
    """A model whose geometry is erased is what it was once it gets its state back, in forward and predict."""
    model, inputs = subject.model(), subject.inputs()
    state = {name: values.clone() for name, values in model.state_dict().items()}
    assert any(name.startswith("tether.") for name in state)
    other = copy.deepcopy(model)
    erased = {name: torch.zeros_like(values) for name, values in state.items() if "half_width" in name}
    erased |= {name: state[name] - 7 for name in ("tether.lower", "tether.upper") if name in state}
    assert erased
    other.load_state_dict(state | erased)
    found, changed = (m.predict(*parts(inputs), details=True) for m in (model, other))
    assert (changed.upper - changed.lower < found.upper - found.lower).any() or (
        changed.lower < found.lower
    ).any()
    forward = other(*tensors(inputs)).detach().numpy()
    np.testing.assert_allclose(forward, changed.next_states, rtol=0, atol=1e-12)
    other.load_state_dict(state)
    back = other.predict(*parts(inputs), details=True)
    for name in ("next_states", "lower", "upper", "delta", "cell", "in_domain"):
        np.testing.assert_array_equal(getattr(back, name), getattr(found, name))
    assert torch.equal(other(*tensors(inputs)), model(*tensors(inputs)))


@tethered
def test_an_attack_finds_nothing(subject):
    found = attack(subject.model(), subject.trusted, evaluations=4000)
    assert not found.broken
    assert 0.5 < found.max_ratio <= 1
    assert found.evaluations >= 4000


def test_of_a_free_model_there_is_nothing_to_attack_certify_or_verify(tmp_path):
    (subject,) = (s for s in SUBJECTS if not s.tethered)
    with pytest.raises(TypeError, match="`model` must be constrained; got one whose tether is unconstrained"):
        attack(subject.model(), subject.trusted)
    with pytest.raises(CertificateError, match="`model` must be a constrained model"):
        certify(subject.model(), subject.trusted)
    with pytest.raises(ValueError, match="this one has no tether to verify"):
        verify(written(subject, tmp_path), subject.trusted)


@tethered
def test_the_claim_is_certified_and_verified(subject, tmp_path):
    """Two codes that share nothing agree on delta; what cannot be shown is named."""
    certificate = certify(subject.model(), subject.trusted)
    assert certificate.certified and certificate.evidence == "proved"
    shown = verify(written(subject, tmp_path), subject.trusted)
    assert shown.verified and shown.evidence == "proved"
    for delta in certificate.deltas:
        assert shown.deltas[delta.name] == pytest.approx((delta.maximum, delta.median), rel=1e-12)
    assert bool(shown.not_vouched) == (subject.kind in ("monotone", "direct"))


@each(s for s in SUBJECTS if s.operator == "clip" or s.kind == "affine, angles")
def test_models_are_exported(subject):
    model = subject.model()
    given = tensors(subject.inputs(20))
    few = [part[:7] for part in given]
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, given, dynamic_shapes=({0: batch}, {0: batch}))
    assert torch.equal(program.module()(*few), model(*few))
    slopes = []
    for computed in (model, program.module()):
        rows = torch.cat(few, dim=1).requires_grad_()
        slopes += torch.autograd.grad(computed(*parts(rows)).sum(), rows)
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


@every
def test_models_are_moved(subject):
    model, given = subject.model(), tensors(subject.inputs(20))
    nowhere = copy.deepcopy(model).to("meta")
    assert nowhere(*(part.to("meta") for part in given)).shape == model(*given).shape


def test_what_a_program_asks_must_be_there():
    (subject,) = (s for s in SUBJECTS if s.kind == "direct")
    model, given = subject.model(), tensors(subject.inputs(20))
    program = torch.export.export(model, given).module()
    asked = program(*given)
    assert torch.equal(asked, model(*given))
    del model
    gc.collect()
    with pytest.raises(RuntimeError, match="that this program was exported from must still be there"):
        program(*given)


@each(s for s in SUBJECTS if s.single and s.kind != "affine" and s.operator == "clip")
def test_in_float32_models_are_exported(subject):
    model = single_precision(subject.model())
    given = tensors(subject.inputs(20).astype(np.float32))
    few = [part[:7] for part in given]
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, given, dynamic_shapes=({0: batch}, {0: batch}))
    for ours, theirs in zip(program.module()(*few), model(*few), strict=True):
        assert torch.equal(ours, theirs)


@single
def test_in_float32_everything_known_is_said(subject):
    model, inputs = single_precision(subject.model()), subject.inputs().astype(np.float32)
    found = model.predict(*parts(inputs), details=True)
    np.testing.assert_array_equal(found.next_states, model.predict(*parts(inputs)))
    for name, known in model(*tensors(inputs))._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), known.detach().numpy())
    for part in (found.next_states, found.lower, found.upper, found.delta):
        assert part.dtype == np.float32 and part.shape == (len(inputs), 2)
    for weights in any_weights(subject.model()):
        other = single_precision(weights).predict(*parts(inputs))
        assert (found.lower <= other).all() and (other <= found.upper).all()
