"""Every tether that becomes ONNX, with every operator: what ONNX Runtime computes is what the library computes."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch
from every_model import SUBJECTS, each, parts, scaled

from compiled import Compiled, needs_compiler
from tether.export import export
from tether.model.single import single_precision

exported = each(s for s in SUBJECTS if s.single)


class Graph:
    """An exported file in ONNX Runtime, one thread."""

    def __init__(self, path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_outputs()]

    def __call__(self, inputs, **more):
        states, controls = parts(inputs)
        answers = self.session.run(None, {"states": states, "controls": controls, **more})
        return dict(zip(self.names, answers, strict=True))


@exported
def test_onnx_is_the_library(subject, tmp_path):
    inputs = subject.inputs(300)
    inputs[:20] *= 7  # beyond the domain, and angles to wrap
    model = scaled(subject.model(), 4.0)  # inside the limits, and on them
    plain, derived, *across = (Graph(path) for path in export(model, to="onnx", out=tmp_path))
    found, known = plain(inputs), model.predict(*parts(inputs), details=True)
    assert np.array_equal(found["in_domain"], known.in_domain) and known.in_domain.any()
    for name in ("next_states", "lower", "upper"):
        assert np.allclose(found[name], getattr(known, name), rtol=1e-14, atol=1e-13), name
    assert np.array_equal(found["delta"], known.delta)
    slopes, more = model.linearize(*parts(inputs)), derived(inputs)
    assert np.allclose(more["jac_next_states_states"], slopes.states, atol=1e-12)
    assert np.allclose(more["jac_next_states_controls"], slopes.controls, atol=1e-12)
    assert np.allclose(more["next_states"], found["next_states"], rtol=1e-14, atol=1e-13)
    assert len(across) == (subject.kind != "interval")
    for graph in across:
        slopes, more = model.linearize(*parts(inputs), across=True), graph(inputs)
        assert np.allclose(more["jac_next_states_states"], slopes.states, atol=1e-10)
        assert np.allclose(more["jac_next_states_controls"], slopes.controls, atol=1e-10)
        assert np.array_equal(more["delta"], found["delta"])


@exported
def test_onnx_in_float32_is_the_library_in_float32(subject, tmp_path):
    inputs = subject.inputs(300).astype(np.float32)
    model = subject.model()
    paths = export(model, to="onnx", out=tmp_path, dtype="float32")
    plain, derived = (Graph(path) for path in paths[:2])
    library = single_precision(model)
    known = library(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts(inputs)))
    found = plain(inputs)
    assert found["next_states"].dtype == np.float32
    assert np.array_equal(found["in_domain"], known.in_domain.numpy()) and found["in_domain"].any()
    assert np.allclose(found["next_states"], known.next_states.detach(), atol=1e-6)
    assert np.allclose(found["delta"], known.delta.detach(), rtol=1e-5)
    slopes, more = library.linearize(*parts(inputs)), derived(inputs)
    assert np.allclose(more["jac_next_states_states"], slopes.states, atol=1e-5)
    assert np.allclose(more["jac_next_states_controls"], slopes.controls, atol=1e-5)


@needs_compiler
@each(s for s in SUBJECTS if s.kind.startswith("affine") and s.single)
def test_slopes_across_leaves_in_float32_are_those_of_c(subject, tmp_path):
    inputs, model = subject.inputs(300).astype(np.float32), subject.model()
    path = export(model, to="onnx", out=tmp_path, dtype="float32")[-1]
    assert path.name == "jac_across_model.onnx"
    compiled = Compiled(model, tmp_path / "made", dtype="float32")
    by_state, by_control = compiled.linearize(*parts(inputs), across=True)
    found = Graph(path)(inputs)
    assert np.allclose(found["jac_next_states_states"], by_state, rtol=1e-3, atol=1e-3)
    assert np.allclose(found["jac_next_states_controls"], by_control, rtol=1e-3, atol=1e-3)


@exported
def test_weights_may_come_in_later(subject, tmp_path):
    model, inputs = subject.model(), subject.inputs(50)
    graph = Graph(export(model, to="onnx", out=tmp_path, weights="inputs")[0])
    assert np.allclose(graph(inputs)["next_states"], model.predict(*parts(inputs)), rtol=1e-14, atol=1e-13)
    other = scaled(subject.model(), -20.0)
    weights = {f"network.{name}": value.numpy() for name, value in other.network.state_dict().items()}
    found = graph(inputs, **weights)["next_states"]
    assert np.allclose(found, other.predict(*parts(inputs)), rtol=1e-14, atol=1e-13)
    assert not np.allclose(found, model.predict(*parts(inputs)), atol=1e-6)


@each(s for s in SUBJECTS if not s.single)
def test_other_kinds_are_refused(subject, tmp_path):
    with pytest.raises(ValueError, match=r"`model` must be affine or interval to become ONNX; got .* kind '"):
        export(subject.model(), to="onnx", out=tmp_path)
    assert not list(tmp_path.iterdir())
