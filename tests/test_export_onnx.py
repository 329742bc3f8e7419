"""ONNX files: what is in them, how they are refused, and that `verify` reads them themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import tether
from conftest import TRUSTED_SOURCE
from test_adapt import learned
from tether.cli.running import run
from tether.export import export
from tether.export.onnx.graph import OPERATORS
from tether.export.pytorch import program_of
from tether.foundation.errors import CertificateError, StorageError


@pytest.fixture(scope="module")
def known():
    """The M that the models here were fitted to."""
    from conftest import frictionless

    return tether.TrustedModel(frictionless)


@pytest.fixture(scope="module")
def files(tmp_path_factory, known) -> list[Path]:
    model = learned(hidden=(8,))
    certificate = tether.certify(model, known).as_dict()
    return export(model, to="onnx", out=tmp_path_factory.mktemp("made"), name="cart", certificate=certificate)


def test_a_file_is_valid_and_says_what_it_is(files):
    assert [path.name for path in files] == ["cart.onnx", "jac_cart.onnx"]
    for path in files:
        held = onnx.load(path)
        onnx.checker.check_model(held, full_check=True)
        assert {node.op_type for node in held.graph.node} <= OPERATORS
        assert [(each.domain, each.version) for each in held.opset_import] == [("", 17), ("ai.onnx.ml", 3)]
        told = {entry.key: entry.value for entry in held.metadata_props}
        assert json.loads(told["tether"])["dtype"] == "float64"
        assert json.loads(told["tether_certificate"])["evidence"] == "proved"
        for word in ("float16", "TF32", "quantised"):
            assert word in told["tether_void"]
    names = [each.name for each in held.graph.output]
    assert names[:5] == ["next_states", "lower", "upper", "delta", "in_domain"]
    assert names[5:] == ["jac_next_states_states", "jac_next_states_controls"]


@pytest.mark.parametrize("rows", [1, 3, 0])
def test_any_number_of_rows(files, rows):
    session = onnxruntime.InferenceSession(files[1], providers=["CPUExecutionProvider"])
    found = session.run(None, {"states": np.zeros((rows, 2)), "controls": np.zeros((rows, 1))})
    assert [part.shape for part in found] == [*[(rows, 2)] * 4, (rows,), (rows, 2, 2), (rows, 2, 1)]


def test_what_is_no_number_lies_in_no_domain(files):
    session = onnxruntime.InferenceSession(files[0], providers=["CPUExecutionProvider"])
    inputs = np.zeros((9, 3))
    for row, value in enumerate((np.nan, np.inf, -np.inf)):
        inputs[3 * row + np.arange(3), np.arange(3)] = value
    _, _, _, delta, inside = session.run(None, {"states": inputs[:, :2], "controls": inputs[:, 2:]})
    assert not inside.any() and np.isinf(delta).all()


def test_verify_reads_the_file_itself(files, known, tmp_path):
    for path in files:
        shown = tether.verify(path, known)
        assert shown.verified and shown.evidence == "proved" and shown.statement.startswith("Every node")
    single = export(learned(hidden=(8,)), to="onnx", out=tmp_path, dtype="float32")
    wider = tether.verify(single[0], known)
    assert all(wider.deltas[name][0] > shown.deltas[name][0] for name in shown.deltas)
    later = export(learned(hidden=(8,)), to="onnx", out=tmp_path / "later", weights="inputs")
    assert tether.verify(later[0], known).verified
    with pytest.raises(CertificateError, match="not verified"):
        tether.verify(files[0], lambda states, controls: states + 0.2 * controls)


def changed(path: Path, out: Path, change) -> Path:
    held = onnx.load(path)
    change(held)
    out.write_bytes(held.SerializeToString())
    return out


def _half(held, name):
    (table,) = (each for each in held.graph.initializer if each.name == name)
    values = onnx.numpy_helper.to_array(table)
    table.CopyFrom(onnx.numpy_helper.from_array(0.5 * values, name))


CHANGES = {
    "a table": lambda held: _half(held, "half width"),
    "leaves": lambda held: _half(held, "leaves"),
    "an operator": lambda held: setattr(held.graph.node[-5], "op_type", "Neg"),
    "an output": lambda held: held.graph.node[-1].input.__setitem__(0, "states"),
    "a threshold": lambda held: _threshold(held),
    "the opset": lambda held: setattr(held.opset_import[0], "version", 18),
    "a word": lambda held: setattr(held.metadata_props[2], "value", "nothing voids it"),
    "a function": lambda held: held.functions.add(name="f", domain="x"),
    "one more node": lambda held: held.graph.node.add(op_type="Identity", input=["states"], output=["more"]),
}  # fmt: skip


def _threshold(held):
    (tree,) = (node for node in held.graph.node if node.op_type == "TreeEnsembleRegressor")
    (values,) = (each.t for each in tree.attribute if each.name == "nodes_values_as_tensor")
    array = onnx.numpy_helper.to_array(values)
    values.CopyFrom(onnx.numpy_helper.from_array(array + 0.1, values.name))


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_file_is_refused(files, known, tmp_path, what):
    path = changed(files[0], tmp_path / "changed.onnx", CHANGES[what])
    with pytest.raises(CertificateError, match="is not what this version of Tether writes"):
        tether.verify(path, known)


def test_a_changed_certificate_is_refused(files, known, tmp_path):
    def lie(held):
        (entry,) = (each for each in held.metadata_props if each.key == "tether_certificate")
        told = json.loads(entry.value)
        told["deltas"][0]["maximum"] *= 0.5
        entry.value = json.dumps(told)

    with pytest.raises(CertificateError, match=r"`deltas\['x'\]"):
        tether.verify(changed(files[0], tmp_path / "changed.onnx", lie), known)


def test_what_is_no_export_is_refused_in_a_line(tmp_path, known):
    path = tmp_path / "other.onnx"
    for content, said in (
        (b"", "no word of Tether"),
        (b"\xff" * 40, "must be an ONNX file exported by Tether"),
    ):
        path.write_bytes(content)
        with pytest.raises(StorageError, match=said):
            tether.verify(path, known)


def test_the_command_exports_and_verifies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("trusted.py").write_text(TRUSTED_SOURCE)
    model = tether.load_trusted("trusted.py:known")
    own = learned(hidden=(8,))
    record, own.record = own.record, own.record | {"trusted_source_sha256": model.source_digest}
    tether.save(own, "model.safetensors")
    own.record = record
    assert run(["export", "model.safetensors", "--to", "onnx", "--out", "made", "--weights", "inputs"]) == 0
    assert run(["verify", "made/model.onnx", "--trusted", "trusted.py:known"]) == 0
    assert "Every node and every table" in capsys.readouterr().out
    assert run(["export", "model.safetensors", "--to", "onnx", "--out", "made"]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    assert run(["export", "model.safetensors", "--to", "c", "--out", "new", "--weights", "inputs"]) == 2
    assert "`weights` must be 'fixed', or 'inputs' with `to` 'onnx'" in capsys.readouterr().err


def test_a_network_of_ones_own_is_refused(tmp_path):
    model = learned(hidden=(8,))
    network, model.network = (
        model.network,
        torch.nn.Sequential(model.network[0], torch.nn.Tanh(), model.network[2]),
    )
    try:
        with pytest.raises(ValueError, match="`tether.mlp` makes to become ONNX; got Sequential"):
            export(model, to="onnx", out=tmp_path)
    finally:
        model.network = network


def test_without_onnx_one_line_names_the_extra(tmp_path, monkeypatch):
    model = learned(hidden=(8,))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"must have onnx.* Run `pip install 'tether-dynamics\[onnx\]'`"):
        export(model, to="onnx", out=tmp_path)


def test_the_default_network_goes_block_by_block(tmp_path):
    """A sum of networks is computed as one, and what it says is the same."""
    model = learned()
    path = export(model, to="onnx", out=tmp_path)[0]
    count = sum(node.op_type == "Gemm" for node in onnx.load(path).graph.node)
    assert count > 10
    inputs = np.random.default_rng(0).normal(size=(200, 3))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(["next_states"], {"states": inputs[:, :2], "controls": inputs[:, 2:]})[0]
    np.testing.assert_allclose(found, model.predict(inputs[:, :2], inputs[:, 2:]), atol=1e-6)


# --- torch


def test_a_torch_program_is_the_model_without_tether(tmp_path):
    model = learned(hidden=(8,))
    (path,) = export(model, to="torch", out=tmp_path)
    inputs = np.random.default_rng(0).normal(size=(60, 3))
    np.save(tmp_path / "inputs.npy", inputs)
    code = (
        "import sys, numpy, torch\n"
        f"rows = torch.from_numpy(numpy.load({str(tmp_path / 'inputs.npy')!r})).requires_grad_()\n"
        f"found = torch.export.load({str(path)!r}).module()(rows[:, :2], rows[:, 2:])\n"
        "(slopes,) = torch.autograd.grad(found['next_states'][:, 1].sum(), rows)\n"
        f"numpy.savez({str(tmp_path / 'found.npz')!r}, slopes=slopes, "
        "**{k: v.detach().numpy() for k, v in found.items()})\n"
        "assert not any(name.split('.')[0] == 'tether' for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    found = np.load(tmp_path / "found.npz")
    told = model.predict(inputs[:, :2], inputs[:, 2:], details=True)
    for name in ("next_states", "lower", "upper", "delta", "in_domain"):
        np.testing.assert_array_equal(found[name], getattr(told, name))
    known = model.linearize(inputs[:, :2], inputs[:, 2:])
    np.testing.assert_allclose(found["slopes"][:, :2], known.states[:, 1], atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_torch_program_of_a_model_without_angles_is_saved(tmp_path, dtype):
    """Nothing turns and nothing bends: several tensors without numbers, which torch takes for one another."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (120, 2))

    def pushed(states, controls):
        return 0.9 * states + 0.1 * np.tanh(controls)

    data = tether.Transitions.from_arrays(
        inputs[:, :1],
        inputs[:, 1:],
        pushed(inputs[:, :1], inputs[:, 1:]),
        episodes=np.arange(120) // 10,
        schema=tether.make_schema(["x"], ["u"]),
    )
    training = tether.TrainingConfig(steps=2)
    model = tether.fit(data, trusted=pushed, memories=5, leaves=20, hidden=(4,), training=training)
    (path,) = export(model, to="torch", out=tmp_path, dtype=dtype)
    rows = torch.from_numpy(inputs.astype(dtype))
    found = torch.export.load(path).module()(rows[:, :1], rows[:, 1:])
    told = model.predict(inputs[:, :1], inputs[:, 1:])
    np.testing.assert_allclose(found["next_states"].detach().numpy(), told, atol=1e-5)


def test_a_torch_program_in_float32_is_the_float32_model(tmp_path):
    single = tether.single_precision(learned(hidden=(8,)))
    program = program_of(learned(hidden=(8,)), "float32").module()
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32))
    found, told = program(rows[:, :2], rows[:, 2:]), single(rows[:, :2], rows[:, 2:])
    for name in ("next_states", "lower", "upper", "delta", "in_domain"):
        assert torch.equal(found[name], getattr(told, name))


def test_a_direct_model_is_no_program(tmp_path):
    with pytest.raises(ValueError, match="`model` must be affine, interval or without a tether"):
        export(learned(bounds="direct", hidden=(8,)), to="torch", out=tmp_path)
