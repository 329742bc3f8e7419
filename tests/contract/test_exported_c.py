"""Every tether with every operator, exported: what C computes is what the library computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from every_model import SUBJECTS, each, parts, scaled

from compiled import Compiled, needs_compiler
from tether.export import export
from tether.model.single import single_precision

exported = each(s for s in SUBJECTS if s.kind != "direct")
single = each(s for s in SUBJECTS if s.single)
pytestmark = needs_compiler


def agree(one, many):
    """Rows together are rows alone, but for the order of a network's sums."""
    for name in ("lower", "upper", "delta", "in_domain"):
        assert np.array_equal(getattr(one, name), getattr(many, name), equal_nan=name != "in_domain"), name
    eps = np.finfo(one.next_states.dtype).eps
    assert np.allclose(one.next_states, many.next_states, rtol=100 * eps, atol=100 * eps, equal_nan=True)


@exported
def test_c_is_the_library(subject, tmp_path):
    inputs = subject.inputs(300)
    inputs[:20] *= 7  # beyond the domain, and angles to wrap
    model = scaled(subject.model(), 4.0)  # inside the limits, and on them
    compiled = Compiled(model, tmp_path / "made")
    found, known = compiled.predict(*parts(inputs)), model.predict(*parts(inputs), details=True)
    assert np.array_equal(found.in_domain, known.in_domain)
    for name in ("next_states", "lower", "upper"):
        ours, theirs = getattr(known, name), getattr(found, name)
        assert np.allclose(theirs, ours, rtol=1e-14, atol=1e-14 * np.abs(inputs).max(), equal_nan=True), name
    assert np.array_equal(found.delta, known.delta)
    agree(found, compiled.predict(*parts(inputs), many=True))
    by_state, by_control = compiled.linearize(*parts(inputs))
    slopes = model.linearize(*parts(inputs))
    assert np.allclose(by_state, slopes.states, atol=1e-12)
    assert np.allclose(by_control, slopes.controls, atol=1e-12)


@single
def test_c_in_float32_is_the_library_in_float32(subject, tmp_path):
    inputs = subject.inputs(300).astype(np.float32)
    model = subject.model()
    compiled = Compiled(model, tmp_path / "made", dtype="float32", flags=("-O2",))
    library = single_precision(model)
    known = library(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts(inputs)))
    found = compiled.predict(*parts(inputs))
    assert np.array_equal(found.in_domain, known.in_domain.numpy())
    assert found.in_domain.any()
    assert np.allclose(found.next_states, known.next_states.detach(), atol=1e-6)
    assert (found.lower <= found.next_states).all() and (found.next_states <= found.upper).all()
    assert np.allclose(found.delta, known.delta.detach(), rtol=1e-5)
    agree(found, compiled.predict(*parts(inputs), many=True))
    slopes = library.linearize(*parts(inputs))
    by_state, by_control = compiled.linearize(*parts(inputs))
    assert np.allclose(by_state, slopes.states, atol=1e-5) and np.allclose(
        by_control, slopes.controls, atol=1e-5
    )


def test_a_model_that_asks_m_at_run_time_is_refused(tmp_path):
    (direct,) = (s for s in SUBJECTS if s.kind == "direct")
    with pytest.raises(ValueError, match="must not call the trusted model at run time.*'direct'.*'affine'"):
        export(direct.model(), to="c", out=tmp_path)
    assert not list(tmp_path.iterdir())


@each(s for s in SUBJECTS if s.kind in ("monotone", "free"))
def test_without_a_proof_there_is_no_float32(subject, tmp_path):
    with pytest.raises(ValueError, match="`dtype` must be 'float64' for a model of kind"):
        export(subject.model(), to="c", out=tmp_path, dtype="float32")
