from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import tether
from conftest import frictionless
from tether import Model, StorageError, TrainingConfig, Transitions, TrustedModel
from tether.files.storage import _digest, peek
from tether.foundation.atomic import read_tensors, write_bytes, write_json, write_tensors, write_text
from tether.model import mlp
from tether.model.assembling import constrained_model, direct_model, unconstrained_model
from tether.tethers import FreeTether, IntervalTether

BRIEF: dict[str, Any] = {"memories": 8, "hidden": (8,), "seed": 3}


def fit(cart: Transitions, *, dtype: Any = "float32", **settings: Any) -> Model:
    training = TrainingConfig(steps=20, evaluate_every=10, dtype=dtype)
    known = TrustedModel(frictionless, lipschitz=1.2)
    return tether.fit(cart, trusted=known, training=training, **({"bounds": "interval"} | BRIEF | settings))


@pytest.fixture(scope="module")
def model(cart: Transitions) -> Model:
    return fit(cart)


@pytest.fixture
def saved(model: Model, tmp_path: Path) -> Path:
    tether.save(model, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def assert_same_predictions(one: Any, other: Any, cart: Transitions) -> None:
    before, after = (m.predict(cart.states, cart.controls, details=True) for m in (one, other))
    for name in ("next_states", "lower", "upper", "cell", "in_domain", "delta"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name), strict=True)


def rewrite(path: Path, change: Any) -> None:
    """Lets `change(tensors, metadata)` edit a file in place and writes it as valid safetensors."""
    tensors, metadata = read_tensors(path)
    change(tensors, metadata)
    write_tensors(path, tensors, metadata)


# --- there and back


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operator", ["clip", "sigmoid", "project"])
def test_a_loaded_model_predicts_bit_for_bit(
    cart: Transitions, tmp_path: Path, dtype: str, operator: str
) -> None:
    model = fit(cart, dtype=dtype, operator=operator, evidence="lipschitz")
    tether.save(model, tmp_path / "m.safetensors")
    loaded = tether.load(tmp_path / "m.safetensors")
    assert loaded.tether.kind in ("interval", "affine")
    assert next(loaded.network.parameters()).dtype == getattr(torch, dtype)
    assert_same_predictions(model, loaded, cart)
    assert loaded.operator == operator
    assert loaded.bounds.evidence.name == "lipschitz"
    assert loaded.bounds.lemma is not None
    assert loaded.schema == model.schema
    np.testing.assert_array_equal(loaded.cells.edges, model.cells.edges)
    assert loaded.record == json.loads(json.dumps(model.record))
    assert loaded.record["data_sha256"] == cart.digest()
    known = TrustedModel(frictionless, lipschitz=1.2)
    assert tether.certify(loaded, known) == tether.certify(model, known)


def test_saving_what_was_loaded_changes_nothing(saved: Path) -> None:
    again = saved.with_name("again.safetensors")
    tether.save(tether.load(saved), again)
    (tensors, metadata), (tensors_again, metadata_again) = read_tensors(saved), read_tensors(again)
    assert metadata_again == metadata
    assert tensors_again.keys() == tensors.keys()
    assert all(torch.equal(tensors[name], tensors_again[name]) for name in tensors)
    assert again.read_bytes() == saved.read_bytes()


def test_a_folder_that_is_not_there_is_named(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"absent/m\.safetensors` must be in a folder; .*Make it first"):
        tether.save(tether.load(saved), tmp_path / "absent" / "m.safetensors")


def test_the_folder_of_a_run_is_its_model(saved: Path, cart: Transitions) -> None:
    assert_same_predictions(tether.load(saved), tether.load(saved.parent), cart)
    (saved.parent / "checkpoints").mkdir()
    with pytest.raises(
        ValueError, match="must be a finished run; this one is not. Continue it with `--resume`"
    ):
        tether.load(saved.parent)


def test_a_model_of_one_memory(cart: Transitions, tmp_path: Path) -> None:
    model = fit(cart, memories=1)
    tether.save(model, tmp_path / "m.safetensors")
    assert_same_predictions(model, tether.load(tmp_path / "m.safetensors"), cart)


def test_an_unconstrained_model(model: Model, cart: Transitions, tmp_path: Path) -> None:
    bare = unconstrained_model(model.network, model.frame)
    tether.save(bare, tmp_path / "m.safetensors")
    loaded = tether.load(tmp_path / "m.safetensors")
    assert loaded.tether.kind == "unconstrained"
    assert_same_predictions(bare, loaded, cart)


def direct(model: Model, *, half_width: float = 0.3, trusted: Any = frictionless) -> Model:
    return direct_model(model.network, model.frame, TrustedModel(trusted), np.full(2, half_width))


@pytest.mark.parametrize("half_width", [0.3, np.inf])
def test_a_direct_model_and_its_trusted_one(
    model: Model, cart: Transitions, tmp_path: Path, half_width: float
) -> None:
    saved = direct(model, half_width=half_width)
    tether.save(saved, tmp_path / "m.safetensors")
    for trusted in (frictionless, TrustedModel(frictionless, jobs=1)):
        loaded = tether.load(tmp_path / "m.safetensors", trusted=trusted)
        assert loaded.tether.kind == "direct"
        assert_same_predictions(saved, loaded, cart)
    # Saved again, it is the same file: what M is recognised by does not depend on data.
    tether.save(loaded, tmp_path / "again.safetensors")
    assert read_tensors(tmp_path / "again.safetensors")[1] == read_tensors(tmp_path / "m.safetensors")[1]


def test_a_direct_model_without_its_trusted_one(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    tether.save(direct(model), path)
    with pytest.raises(
        StorageError, match=r"must be loaded with its trusted model.*Pass `trusted=M`"
    ) as told:
        tether.load(path)
    assert "\n" not in str(told.value)
    seen = peek(path)
    assert seen.tether.kind == "direct" and seen.tether.half_width.tolist() == [0.3, 0.3]
    with pytest.raises(ValueError, match="read without its trusted model"):
        seen.predict(np.zeros((1, 2)), np.zeros((1, 1)))


@pytest.mark.parametrize("shift", [1.0, 1e-6, np.nan])
def test_a_direct_model_with_another_trusted_one(model: Model, tmp_path: Path, shift: float) -> None:
    path = tmp_path / "m.safetensors"
    tether.save(direct(model), path)
    message = (
        "must return finite" if np.isnan(shift) else "must be the model .* was saved with; at input .*'x'"
    )
    with pytest.raises(ValueError, match=message) as told:
        tether.load(path, trusted=lambda s, u: frictionless(s, u) + np.array([shift, 0.0]))
    assert "\n" not in str(told.value)


def test_a_trusted_model_that_does_not_answer_everywhere(
    model: Model, cart: Transitions, tmp_path: Path
) -> None:
    """Undefined below the mean speed: it is recognised by where it does answer, and refused if that is nowhere."""
    least = model.frame.inputs.center[1]

    def halved(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
        return frictionless(states, controls) if (states[:, 1] >= least).all() else states / 0

    path = tmp_path / "m.safetensors"
    with np.errstate(all="ignore"):
        tether.save(direct(model, trusted=halved), path)
    assert len(read_tensors(path)[0]["direct.inputs"]) == 6
    assert isinstance(tether.load(path, trusted=halved), Model)
    with pytest.raises(StorageError, match="`trusted` must answer at the centre"):
        tether.save(direct(model, trusted=lambda s, u: np.full((len(s), 2), np.nan)), path)


class Wide(nn.Module):
    """A network that Tether did not make."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(features)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_of_the_users_own_must_be_given(
    model: Model, cart: Transitions, tmp_path: Path, dtype: torch.dtype
) -> None:
    own = constrained_model(Wide().to(dtype), model.frame, model.cells, model.bounds)
    tether.save(own, tmp_path / "m.safetensors")
    with pytest.raises(StorageError, match="its network is a Wide of yours: pass `network=`"):
        tether.load(tmp_path / "m.safetensors")
    # Made in float32, as a user would: the weights of the file must not be rounded to it.
    assert_same_predictions(own, tether.load(tmp_path / "m.safetensors", network=Wide()), cart)


def test_a_network_of_another_shape_is_refused(saved: Path) -> None:
    with pytest.raises(StorageError, match="must be a complete Tether model"):
        tether.load(saved, network=mlp(3, 2, (7,)))


# --- files that are not what they should be


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 64, b"\xff" * 4096])
def test_a_file_of_another_kind(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)
    with pytest.raises(
        StorageError, match=r"must be a safetensors file written by Tether; it cannot be read"
    ):
        tether.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file(saved: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(StorageError, match="it cannot be read"):
        tether.load(saved)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="must be a file; there is none"):
        tether.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"format": '"another"'}])
def test_a_safetensors_file_of_somebody_else(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    safetensors.torch.save_file({"weight": torch.zeros(3)}, tmp_path / "m.safetensors", metadata)
    with pytest.raises(StorageError, match="of another kind"):
        tether.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    "tensor", ["network.0.weight", "bounds.lower", "cells.memories", "frame.inputs.scale"]
)
def test_one_flipped_bit_of_a_tensor_is_noticed(saved: Path, tensor: str) -> None:
    content = bytearray(saved.read_bytes())
    length = int.from_bytes(content[:8], "little")
    start = json.loads(content[8 : 8 + length])[tensor]["data_offsets"][0]
    content[8 + length + start] ^= 1
    saved.write_bytes(content)
    with pytest.raises(StorageError, match="must match its own digest; its contents were changed"):
        tether.load(saved)


@pytest.mark.parametrize(
    ("key", "value"),
    [("evidence", "sampled"), ("kind", "unconstrained"), ("operator", "sigmoid"), ("record", {})],
)
def test_a_claim_changed_in_the_metadata_is_noticed(saved: Path, key: str, value: Any) -> None:
    rewrite(saved, lambda tensors, metadata: metadata.update({key: value}))
    with pytest.raises(StorageError, match="must match its own digest"):
        tether.load(saved)


def test_an_operator_that_is_not_known_is_refused(saved: Path) -> None:
    def change(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        metadata["operator"] = "squash"
        metadata.pop("digest")
        metadata["digest"] = _digest(tensors, metadata)

    rewrite(saved, change)
    with pytest.raises(StorageError, match=r"`operator` must be one of 'sigmoid', .*; got 'squash'\. "):
        tether.load(saved)


def test_a_model_whose_limits_would_be_lost_is_not_saved(model: Model, tmp_path: Path) -> None:
    class Tied(IntervalTether):
        """Limits of one's own under a known name."""

    class Named(FreeTether):
        kind = "named"

    for own in (Tied(model.cells, model.bounds), Named(2)):
        message = f"`model` must have a tether of a kind that Tether can read back; got {type(own).__name__}"
        with pytest.raises(TypeError, match=message):
            tether.save(Model(model.network, model.frame, own), tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_rewriting_without_a_change_is_not_a_change(saved: Path) -> None:
    rewrite(saved, lambda tensors, metadata: None)
    tether.load(saved)


def test_a_tensor_taken_out_is_noticed(saved: Path) -> None:
    rewrite(saved, lambda tensors, metadata: tensors.pop("bounds.delta"))
    with pytest.raises(StorageError, match="must match its own digest"):
        tether.load(saved)


WRITTEN_BY_1 = Path(__file__).parent / "written_by_1"


def test_a_file_of_format_1_gives_the_same_numbers() -> None:
    model = tether.load(WRITTEN_BY_1 / "interval.safetensors")
    found = model.predict([[0.1, 0.2]], [[0.3]], details=True)
    assert found.next_states.tolist() == [[0.10162339872385687, 0.21583990112306553]]  # as they were then
    assert found.in_domain.all() and np.isfinite(found.delta).all()


def test_bounds_around_memories_of_format_1_are_refused_with_a_remedy() -> None:
    with pytest.raises(
        StorageError, match=r"affine.safetensors` must have bounds over boxes; .* Fit again\."
    ):
        tether.load(WRITTEN_BY_1 / "affine.safetensors")


def test_a_newer_format_says_upgrade(saved: Path) -> None:
    rewrite(saved, lambda tensors, metadata: metadata.update(format_version=3))
    with pytest.raises(
        StorageError, match=r"format version at most 2; got 3\. It was written by a newer Tether"
    ):
        tether.load(saved)


@pytest.mark.parametrize("version", [None, "1", [1]])
def test_a_format_version_that_is_none(saved: Path, version: Any) -> None:
    rewrite(saved, lambda tensors, metadata: metadata.update(format_version=version))
    with pytest.raises(StorageError, match="must have a format version; got"):
        tether.load(saved)


# --- whole or absent


class Interrupted(BaseException):
    """Stands for whatever may end a process in the middle of a write."""


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    saved: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def interrupted(handle: int) -> None:
        raise Interrupted

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(Interrupted):
        tether.save(unconstrained_model(model.network, model.frame), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_write_killed_before_the_rename_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_text(path, "old")
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "import tether.foundation.atomic\n"
        "os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"tether.foundation.atomic.write_text(Path({str(path)!r}), 'new' * 100000)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_a_written_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    write_bytes(tmp_path / "ours", b"")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_with_what_json_has_no_word_for_is_not_written(tmp_path: Path, value: float) -> None:
    write_json(tmp_path / "r.json", {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "r.json", {"a": value})
    assert json.loads((tmp_path / "r.json").read_text()) == {"a": 1}
