"""What an exported ONNX file returns is within delta of M, whatever the weights, in either precision."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

from tether.export import export

sys.path.append(str(Path(__file__).parent.parent / "contract"))
from every_model import any_weights, parts, scaled
from test_exported import CLIPPED, outside

LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


def answers(path, inputs, level=LEVELS[1]):
    """What ONNX Runtime says, with the graph as it is or rewritten."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads = level, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    states, controls = parts(inputs)
    found = session.run(None, {"states": states, "controls": controls})
    return SimpleNamespace(**dict(zip((each.name for each in session.get_outputs()), found, strict=True)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["interval", "affine", "affine, angles", "affine, second order"])
def test_no_output_is_outside_delta_of_m_in_exact_numbers(kind, dtype, tmp_path):
    subject = CLIPPED[kind]
    inputs = subject.inputs(150).astype(dtype)
    path = export(scaled(subject.model(), 1e3), to="onnx", out=tmp_path, dtype=dtype)[0]
    for level in LEVELS:
        found = answers(path, inputs, level)
        assert found.in_domain.sum() > 50
        assert outside(found, inputs, kind == "affine, angles" or kind == "interval") == 0


def test_a_narrower_delta_would_be_found_out(tmp_path):
    """The comparison can fail: of outputs pushed to their limits, many are nearly delta away."""
    subject = CLIPPED["affine"]
    inputs = subject.inputs(150)
    found = answers(export(scaled(subject.model(), 1e6), to="onnx", out=tmp_path)[0], inputs)
    found.delta = 0.5 * found.delta
    assert outside(found, inputs, False) > 20


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["interval", "affine, angles"])
def test_any_weights_stay_inside_or_give_no_number(kind, dtype, tmp_path):
    subject = CLIPPED[kind]
    inputs = subject.inputs(100).astype(dtype)
    for number, model in enumerate(any_weights(subject.model())):
        if "Sequential" not in type(model.network).__name__:
            continue
        found = answers(export(model, to="onnx", out=tmp_path / str(number), dtype=dtype)[0], inputs)
        fine = (found.lower <= found.next_states) & (found.next_states <= found.upper)
        assert (fine | np.isnan(found.next_states)).all()
        assert not found.in_domain[np.isnan(found.next_states).any(axis=1)].any()


def test_a_network_that_gives_no_number_promises_nothing(tmp_path):
    model, inputs = CLIPPED["affine"].model(), CLIPPED["affine"].inputs(100)
    model.network[-1].bias.data[0] = np.nan
    found = answers(export(model, to="onnx", out=tmp_path)[0], inputs)
    fine = (found.lower <= found.next_states) & (found.next_states <= found.upper)
    assert (fine.all(axis=1) | ~found.in_domain).all()
    assert np.isinf(found.delta[~found.in_domain]).all()


def test_the_domain_is_never_wider_than_the_library_s(tmp_path):
    """On faces of the box and on the rim of balls, where rounding decides."""
    for kind in ("interval", "affine, angles"):
        model = CLIPPED[kind].model()
        rng = np.random.default_rng(0)
        cells = model.cells
        way = rng.normal(size=(2000, 3))
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        cell = rng.integers(0, len(cells), 2000)
        rim = (cells.memories[cell] + way * cells.radii[cell][:, None]) * cells.scale
        region = model.bounds.region(cells)
        faces = np.where(rng.random((2000, 3)) < 0.5, region.upper, region.lower)
        inputs = np.concatenate([rim, np.nextafter(rim, 0), faces, np.nextafter(faces, np.inf)])
        inputs = model.schema.wrap_inputs(*parts(inputs))
        known = model.predict(*parts(inputs), details=True)
        found = answers(export(model, to="onnx", out=tmp_path / kind)[0], inputs)
        assert not (found.in_domain & ~known.in_domain).any()
        assert (found.in_domain == known.in_domain).mean() > 0.7


def test_angles_are_wrapped_as_the_library_does(tmp_path):
    model = CLIPPED["affine, angles"].model()
    rng = np.random.default_rng(1)
    inputs = np.zeros((3000, 3))
    inputs[:, 1] = rng.uniform(-1, 1, 3000) * 10.0 ** rng.integers(0, 9, 3000)
    inputs[:4, 1] = np.pi, -np.pi, np.nextafter(np.pi, 0), 3 * np.pi
    known = model.predict(*parts(inputs), details=True)
    found = answers(export(model, to="onnx", out=tmp_path)[0], inputs)
    assert np.array_equal(found.in_domain, known.in_domain)
    assert np.array_equal(found.delta, known.delta)
    assert np.allclose(found.next_states, known.next_states, rtol=0, atol=1e-14)
