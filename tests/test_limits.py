"""What is too large is refused before anything is allocated for it: in the library, and from a file."""

from __future__ import annotations

import io
import json
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tether
from tether.data import Jitter, Probes, Transitions
from tether.evidence.statistical import draws_allowed, draws_needed
from tether.foundation.atomic import content_digest, read_tensors, write_tensors
from tether.foundation.documents import (
    Misfit,
    items,
    mapping,
    maybe,
    number,
    one_of,
    record,
    share,
    text,
    whole,
)
from tether.foundation.limits import check_number, check_whole, check_widths
from tether.learning.config import TrainingConfig
from tether.model import mlp
from tether.model.monotone import MonotoneNetwork


@pytest.fixture
def lean():
    """Nothing of size may be allocated."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "kilobytes"


CONFIGS: list[tuple[Callable[[], Any], str]] = [
    (lambda: tether.FitConfig(hidden=(200_000, 200_000)), "`hidden` must make a network of at most 100,000,000"),
    (lambda: tether.FitConfig(hidden=(10**400,)), "`hidden` must make a network of at most"),
    (lambda: tether.FitConfig(memories=10**12), "`memories` must be at most 1,000,000; got 1,000,000,000,000"),
    (lambda: tether.FitConfig(seed=2**60), "`seed` must be at most"),
    (lambda: tether.FitConfig(validation=float("nan")), "`validation` must be between 0 and 1; got nan"),
    (lambda: tether.FitConfig(domain={"x": (0.0, float("inf"))}), "`domain` must have finite limits"),
    (lambda: tether.Statistical(epsilon=1e-12), "at most 100,000,000 draws establish it; got 1e-12 with beta"),
    (lambda: tether.Statistical(epsilon=5e-324), "draws establish it; got 4.94066e-324"),
    (lambda: tether.SamplingConfig(per_cell=10**9), "`per_cell` must be at most"),
    (lambda: TrainingConfig(steps=10**10), "`steps` must be at most"),
    (lambda: TrainingConfig(learning_rate=float("nan")), "`learning_rate` must be finite"),
    (lambda: TrainingConfig(device="meta"), "`device` must be one that torch can use; got 'meta'"),
    (lambda: TrainingConfig(patience=0), "`patience` must be at least 1; got 0"),
    (lambda: TrainingConfig(dtype="int8"), "`dtype` must be one of 'float32', 'float64'; got 'int8'"),  # type: ignore[arg-type]
    (lambda: tether.TrustedModel(np.add, jobs=0), "`jobs` must be at least 1, or -1"),
    (lambda: mlp(3, 2, (10**6, 10**6)), "`hidden` must make a network"),
    (lambda: MonotoneNetwork(3, 1, decreasing=[0], hidden=[10**6, 10**6]), "`hidden` must make a network"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), CONFIGS)
def test_settings(make: Callable[[], Any], message: str, lean: None) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert len(str(caught.value)) < 400


def test_kinds_of_numbers() -> None:
    check_whole("n", np.int64(3), most=5)
    for value in (1.5, True, "3", None):
        with pytest.raises(TypeError, match="`n` must be a whole number"):
            check_whole("n", value, most=5)
    with pytest.raises(TypeError, match="`n` must be a number; got 'x'"):
        check_number("n", "x")
    with pytest.raises(TypeError, match="`hidden` must list whole numbers; got '8,8'"):
        check_widths("hidden", "8,8")  # type: ignore[arg-type]


def test_probes(cart: Transitions, lean: None) -> None:
    with pytest.raises(ValueError, match="`count` must be at most"):
        Probes.from_box({}, count=10**12, like=cart)
    with pytest.raises(ValueError, match="`count` must be at most"):
        Probes.from_jitter(cart, count=10**12)


def test_few_draws_may_exceed_a_delta_of_great_confidence() -> None:
    """One minus the upper tail was taken for the lower one, which is lost below 1e-16: far too many were allowed."""
    stats = pytest.importorskip("scipy.stats")
    for beta in (1e-3, 1e-6, 1e-12, 1e-20, 1e-60):
        draws, allowed = draws_needed(0.01, beta), draws_allowed(0.01, beta)
        assert stats.binom.cdf(allowed, draws, 0.01) <= beta
        assert stats.binom.cdf(allowed + 1, draws, 0.01) > beta * (1 - 1e-4)


# --- files


@pytest.fixture(scope="module")
def model(cart: Transitions) -> Any:
    from conftest import frictionless

    evidence = tether.Statistical(epsilon=0.05, beta=1e-2)
    return tether.fit(
        cart, trusted=frictionless, probes=Jitter(), memories=4, hidden=(4,), evidence=evidence,
        training=TrainingConfig(steps=3),
    )  # fmt: skip


def resigned(model: Any, path: Path, change: Callable[[dict, dict], Any]) -> Path:
    tether.save(model, path)
    tensors, metadata = read_tensors(path)
    del metadata["digest"]
    change(tensors, metadata)
    write_tensors(path, tensors, metadata | {"digest": content_digest(tensors, metadata)})
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, m: m.update(epsilon=1e-12), "draws establish it; got 1e-12"),
        (lambda t, m: m.update(epsilon=None), "`epsilon` must be between 0 and 1; got None"),
        (lambda t, m: m["network"].update(widths=[3, 200_000, 200_000, 2]), "`network.0.weight` must hold float32"),
        (lambda t, m: m["network"].update(widths=[10**15, 2]), "`network.widths` must begin with 3 and end with 2"),
        (lambda t, m: m["network"].update(dtype="load"), "`network.dtype` must be one of"),
        (lambda t, m: m["schema"].update(states="xv"), "`schema.states` must be a list; got 'xv'"),
        (lambda t, m: m["schema"].update(units=[]), "`schema.units` must be a table"),
        (lambda t, m: m.update(record=3), "`record` must be a table; got 3"),
        (lambda t, m: m.update(blend=10**9), "`blend` must be a whole number from 0 to 0"),
        (lambda t, m: t.update({"cells.radii": t["cells.radii"] * 1e300}), "`cells.radii` must be at most 1e.150"),
        (lambda t, m: t.update({"cells.edges": t["cells.edges"] + 100}), "`cells.edges` must be numbers of 4 cells"),
        (lambda t, m: t.update({"cells.scale": t["cells.scale"].float()}), "`cells.scale` must hold float64; got float32"),
        (lambda t, m: t.update({"bounds.remainder": t["bounds.remainder"][:-1]}), "`bounds.remainder` must have the shape"),
        (lambda t, m: t.update({"cells.memories": t["cells.memories"][0]}), "`cells.memories` must have the shape"),
        (lambda t, m: t.update({"bounds.slope": t["bounds.slope"] * np.nan}), "`bounds.slope` must be finite"),
        (lambda t, m: t.pop("cells.box_lower"), "`cells.box_lower` is missing"),
        (lambda t, m: t.update(more=t["cells.scale"]), "it must hold nothing else; got `more`"),
    ],
)  # fmt: skip
def test_signed_models_that_cannot_be(
    model: Any, tmp_path: Path, change: Any, message: str, lean: None
) -> None:
    path = resigned(model, tmp_path / "model.safetensors", change)
    with pytest.raises(tether.StorageError, match=message) as caught:
        tether.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000, b"{}", b"[]", b'{"a": 3}', b'{"a": {"dtype": "F64", "shape": [1000000000], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": ["F64"], "shape": [1], "data_offsets": [0, 8]}}', b'{"__metadata__": {"format": "NaN"}}',
        b'{"a": {"dtype": "F64", "shape": [1e400], "data_offsets": [0, 8]}}', b'{"__metadata__": {"format": "[[[["}}',
    ],
)  # fmt: skip
def test_headers_that_cannot_be(tmp_path: Path, header: bytes, lean: None) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(tether.StorageError, match="model.safetensors` must be a"):
        tether.load(path)
    path.write_bytes(struct.pack("<Q", 2**62) + header)
    with pytest.raises(tether.StorageError, match="its header is longer than the file"):
        tether.load(path)


def npz(path: Path, shape: tuple[int, ...], room: int, *, kind: str = "<f8") -> Path:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(room))
    return path


@pytest.mark.parametrize(
    ("shape", "room", "kind", "message"),
    [
        ((10**12,), 0, "<f8", "'x' has another shape than room"),
        ((2**62, 2**62), 8, "<f8", "'x' has another shape than room"),
        ((-1,), 8, "<f8", "'x' has another shape than room"),
        ((1,), 8, "|O", "'x' holds Python objects, which are not read"),
    ],
)
def test_archives_that_lie(
    tmp_path: Path, shape: tuple[int, ...], room: int, kind: str, message: str, lean: None
) -> None:
    path = npz(tmp_path / "a.npz", shape, room, kind=kind)
    with pytest.raises(ValueError, match=f"a.npz` must be an .npz file of plain arrays; {message}"):
        tether.read_transitions(path, states=["x"])


def test_an_archive_that_unpacks_to_too_much(tmp_path: Path, lean: None) -> None:
    path = npz(tmp_path / "a.npz", (1,), 8)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"it holds 4,294,967,294 bytes, and at most 2,147,483,648 are read"):
        tether.read_transitions(path, states=["x"])


def test_a_quote_that_is_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('x,v\n1,2\n"3,4\n5,6\n')
    with pytest.raises(
        ValueError, match="a.csv` must be a CSV file in UTF-8; a quote is not closed at row 2"
    ):
        tether.read_transitions(path, states=["x"])


def test_what_is_wrong_with_a_table_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\nnan\n")
    with pytest.raises(ValueError, match=r"a\.csv: `data` must be finite; got nan at row 1, column 'x'"):
        tether.read_transitions(path, states=["x"])


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (text, 3, "`it` must be a text; got 3"),
        (number, 10**400, "`it` must be a finite number; got a huge number"),
        (number, True, "must be a finite number; got True"),
        (share, 1.5, "must be from 0 to 1; got 1.5"),
        (whole(1, 5), 6, "must be a whole number from 1 to 5; got 6"),
        (one_of("a"), [], "must be one of 'a'"),
        (items(number, count=2), [1], r"must be a list of 2; got \[1\]"),
        (mapping(maybe(text)), {"a": None, "b": 3}, "`b` must be a text; got 3"),
        (record({"a": items(record({"b": text}))}), {"a": [{"b": "x"}, {}]}, r"`a\[1\].b` is missing"),
        (record({}), {"x": json.loads("[" * 40 + "]" * 40)}, "nested at most 32 deep"),
    ],
)
def test_checks_name_the_place(check: Any, value: Any, message: str) -> None:
    with pytest.raises(Misfit, match=message):
        check(value, "")
