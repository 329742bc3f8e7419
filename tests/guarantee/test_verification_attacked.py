"""Attacks on `tether verify`: sizes that overflow, numbers it cannot read, forged certificates, code that `fit` proves."""

import contextlib
import json
import math
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.claims.certificate import certify
from tether.files.storage import save
from tether.foundation.errors import CertificateError, StorageError
from tether.trusted import TrustedModel
from tether.verification.graph import UnboundedError
from tether.verification.tracing import trace

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from boxed import tethered
from signing import rewrite


def waves(states, controls):
    return np.column_stack([np.sin(states[:, 0]) + states[:, 1], np.cos(states[:, 1])])


@pytest.fixture
def file(tmp_path):
    """Writes the file of a model fitted to a function of two inputs."""

    def write(function=waves, kind="affine"):
        model, trusted = tethered(function, 2, kind, 3), TrustedModel(function)
        path = tmp_path / f"{kind}.safetensors"
        save(model, path)
        return path, trusted, model

    return write


# --- case 6: sizes


def overflowing(arrays, metadata):
    arrays["cells.radii"][:] = 1e160
    arrays["cells.box_lower"][:], arrays["cells.box_upper"][:] = -1e300, 1e300
    if "tree.lower" in arrays:
        arrays["tree.lower"][:], arrays["tree.upper"][:] = -1e300, 1e300


def faint_scale(arrays, metadata):
    arrays["cells.memories"] *= 0.0
    arrays["cells.scale"][:] = 5e-324
    arrays["cells.box_lower"][:], arrays["cells.box_upper"][:] = -4.0, 4.0


def put(name, value, place=()):
    def change(arrays, metadata):
        arrays[name][place or ...] = value

    return change


def said(**words):
    return lambda arrays, metadata: metadata.update(words)


def infinite(arrays):
    arrays["bounds.value" if "bounds.value" in arrays else "bounds.center"][0] = np.inf


FORGED = {
    "radii that overflow": overflowing,
    "a scale that underflows": faint_scale,
    "a subnormal radius": put("cells.radii", 5e-324),
    "a radius of NaN": put("cells.radii", np.nan, (0,)),
    "an infinite box": put("cells.box_upper", np.inf),
    "memories far away": put("cells.memories", 1e200, (0,)),
    "a scale of -1": put("cells.scale", -1.0),
    "infinite numbers": lambda arrays, metadata: infinite(arrays),
    "increments of nothing": said(target="increment"),
    "a target of its own": said(target="both"),
    "evidence of no kind": said(evidence=["proved"]),
    "a list as record": said(record=[1]),
}


@pytest.mark.parametrize("kind", ["affine", "interval"])
@pytest.mark.parametrize("name", FORGED)
def test_forged_sizes_and_words_are_refused(file, kind, name):
    path, trusted, _ = file(kind=kind)
    assert tether.verify(path, trusted).verified
    rewrite(path, FORGED[name])
    with pytest.raises((CertificateError, StorageError)):
        tether.verify(path, trusted)


def test_arrays_of_another_type_are_refused(file):
    for name in ("cells.radii", "bounds.value", "bounds.pinned"):
        path, trusted, _ = file()
        rewrite(
            path, lambda arrays, metadata, name=name: arrays.update({name: arrays[name].astype(np.float32)})
        )
        with pytest.raises(StorageError, match=f"`{name}` must hold float64; got float32"):
            tether.verify(path, trusted)


def test_unknown_arrays_are_refused(file):
    path, trusted, _ = file()
    rewrite(path, lambda arrays, metadata: arrays.update({"bounds.extra": np.zeros(3)}))
    with pytest.raises(StorageError, match=r"must hold nothing else; got `bounds\.extra`"):
        tether.verify(path, trusted)


@pytest.mark.parametrize(
    "change",
    [
        {"states": "ab"},
        {"advances": [True, False]},
        {"angles": ["y0", 3]},
        {"units": []},
        {"more": 1},
        {"states": 3},
    ],
)
def test_a_damaged_schema_is_refused(file, change):
    path, trusted, _ = file()
    rewrite(path, lambda arrays, metadata: metadata["schema"].update(change))
    with pytest.raises(StorageError, match="must be a complete Tether model"):
        tether.verify(path, trusted)


NOT_READ = {
    "operator": said(operator="squash"),
    "evidence": said(evidence="certain"),
    "format version": said(format_version=3),
    "no format version": said(format_version="1"),
    "network": said(network={"kind": "mlp", "widths": [2, 9, 2], "dtype": "float64"}),
    "network of no kind": said(network={"kind": "oracle"}),
    "columns of another kind": lambda arrays, metadata: metadata["schema"].update(more=1),
    "edges": put("cells.edges", 10**6),
    "extra": lambda arrays, metadata: arrays.update({"extra": np.zeros(3)}),
    "no frame": lambda arrays, metadata: arrays.pop("frame.inputs.scale"),
    "a frame of NaN": put("frame.inputs.scale", np.nan),
    "infinite slope": put("bounds.slope", np.inf),
    "a slope of NaN": put("bounds.slope", np.nan, (0, 0)),
    "infinite value": put("bounds.value", np.inf, (0,)),
    "a remainder of NaN": put("bounds.remainder", np.nan, (0,)),
    "a ring of nodes": put("tree.left", 0),
    "a name that is half a letter": lambda arrays, metadata: metadata["schema"].update(
        outputs=["y0", "\ud800"]
    ),
}


@pytest.mark.parametrize("name", NOT_READ)
def test_what_is_not_loaded_is_not_verified(file, name):
    path, trusted, _ = file()
    rewrite(path, NOT_READ[name])
    with pytest.raises(StorageError) as loading:
        tether.load(path)
    with pytest.raises(StorageError) as verifying:
        tether.verify(path, trusted)
    assert str(verifying.value) == str(loading.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_infinite_delta_is_no_claim(file, value):
    path, trusted, _ = file(kind="interval")
    rewrite(path, put("bounds.delta", value, (0,)))
    for read in (tether.load, lambda path: tether.verify(path, trusted)):
        with pytest.raises(StorageError, match="`bounds.delta` must be finite"):
            read(path)


def test_messages_do_not_repeat_a_file_without_end(file, tmp_path):
    path, trusted, _ = file()
    rewrite(path, lambda arrays, metadata: metadata["schema"].update(outputs=["y0", "n\n" * 10**5]))
    rewrite(path, put("bounds.remainder", 0.0))
    with pytest.raises(CertificateError, match=r"not verified: leaf \d+") as told:
        tether.verify(path, trusted)
    assert len(str(told.value)) < 1000 and "\n" not in str(told.value)
    place = tmp_path / "c.json"
    place.write_text(json.dumps({"claim": "x" * 10**6}))
    with pytest.raises(StorageError) as told:
        tether.verify(path, trusted, place)
    assert len(str(told.value)) < 1000


def test_pipes_and_devices_are_not_read(file, tmp_path):
    path, trusted, _ = file()
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(StorageError, match="must be a file; it is no plain one"):
            tether.verify(path, trusted, other)
        for read in (tether.load, lambda path: tether.verify(path, trusted)):
            with pytest.raises(StorageError, match="must be a file; it is no plain one"):
                read(other)


# --- case 7: numbers that float64 does not hold

LONG = np.longdouble(1) + np.longdouble(2) ** -60


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: np.add(s, 0.0, dtype=np.longdouble), "dtype="),
        (lambda s: np.add(s, 0.0, casting="unsafe"), "casting="),
        (lambda s: s * LONG, "longdouble|float128"),
        (lambda s: (s * 2**53 - (2**53 + 1) * s) * 0.0 + s, "does not hold exactly"),
        (lambda s: (s + 0j).real, "complex"),
        (lambda s: s.astype(np.longdouble), "conversion"),
        (lambda s: np.add(s, 0.0, out=s.copy(), where=np.ones(s.shape, bool)), "where="),
    ],
)  # fmt: skip
def test_what_is_not_float64_is_refused(file, change, reason):
    path, _, _ = file()
    with pytest.raises(CertificateError, match=reason):
        tether.verify(path, lambda s, u: waves(change(s), u))


def test_a_refusal_that_is_swallowed_is_still_one(file):
    def sly(states, controls):
        with contextlib.suppress(Exception):
            states = states + 0.0 * np.sort(states, axis=1)
        return waves(states, controls)

    path, _, _ = file()
    with pytest.raises(
        CertificateError, match=r"uses `with`, which may hide errors \(test_verification_attacked"
    ):
        tether.verify(path, sly)


# --- case 8: the certificate, field by field


@pytest.fixture
def written(file, tmp_path):
    path, trusted, model = file()
    data = np.random.default_rng(0).standard_normal((50, 2))
    from tether.data import Transitions

    held_out = Transitions.from_arrays(data, np.empty((50, 0)), waves(data, None), schema=model.schema)
    content = json.loads(json.dumps(certify(model, trusted, transitions=held_out).as_dict()))
    return path, trusted, content, tmp_path / "c.json"


def forged(written, change):
    path, trusted, content, place = written
    change(content)
    place.write_text(json.dumps(content))
    return tether.verify(path, trusted, place)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda c: c["deltas"][0].update(single=c["deltas"][0]["single"] * 0.999), r"deltas\['y0'\].single"),
        (lambda c: c["deltas"][1].update(single=None), r"deltas\['y1'\].single"),
        (lambda c: c.update(claim=c["claim"] + " Everywhere."), "claim"),
        (lambda c: c["assumptions"].pop(), "assumptions"),
        (lambda c: c["assumptions"].append("None of this matters."), "assumptions"),
        (lambda c: c["deltas"][0]["worst_cells"].reverse(), r"deltas\['y0'\].worst_cells"),
        (lambda c: c.update(approved_by="the authorities"), "approved_by"),
        (lambda c: c["domain"].update(everywhere=True), "domain.everywhere"),
        (lambda c: c["deltas"][0].update(reality=0.0), r"deltas\['y0'\].reality"),
    ],
)
def test_forged_fields_are_refused(written, change, field):
    with pytest.raises(CertificateError, match=f"not verified: `{field}` of `c.json` is"):
        forged(written, change)


def test_what_is_not_vouched_for_is_named(written):
    result = forged(written, lambda c: c["domain"].update(coverage_D=1.0))
    assert result.verified
    measured = {"domain.coverage_D", "deltas.held_out", "deltas.remainder[1]"}
    assert set(result.not_vouched) == {"recheck", "trusted_name"} | measured


def test_a_field_given_twice_is_refused(written):
    path, trusted, content, place = written
    place.write_text(json.dumps(content)[:-1] + ', "evidence": "proved"}')
    with pytest.raises(StorageError, match="given twice"):
        tether.verify(path, trusted, place)


# --- case 9, and code as people write it: what `fit` proves is verified


def stacked(s, u):
    both = np.stack([s[:, 0], s[:, 1]], axis=1)
    return np.clip(np.maximum(both, 0.1 * both), -3.0, 3.0)


def joined(s, u):
    both = np.concatenate([s[:, :1] ** 2, np.sin(s[:, 1:])], axis=1)
    return np.minimum(both, 2.0)


def chosen(s, u):
    return np.maximum(np.where(s > -99.0, s, 0.0), np.hstack([s[:, 1:], s[:, :1]]))


def filled(s, u):
    out = np.zeros((len(s), 2))
    out[:, 0] = s[:, 0] + 0.1 * s[:, 1]
    out[:, 1] = s[:, 1] - 0.1 * np.sin(s[:, 0])
    out[:, 1] -= 0.05 * out[:, 0]
    return out


def rows(s, u):
    after = []
    for r in s:
        q = r.copy()
        x, v = q[0], q[1]
        q[0] = x + 0.1 * v
        q[1] = v + 0.1 * (0.3 - 9.81 * math.sin(x))
        after.append(list(q))
    return after


def split(s, u):
    nxt = np.array([s[:, 0], s[:, 1]]).T
    _, v = np.split(nxt, 2, axis=1)
    v += np.tanh(s[:, :1])
    return nxt


def sums(s, u):
    turn = np.array([[0.9, -0.2], [0.2, 0.9]])
    a = np.einsum("nd,pd->np", s, turn) + np.cumsum(s, axis=1) + np.tensordot(s, turn, axes=([1], [0]))
    return a + np.polyval([0.1, -0.2, 0.0], s) + np.arcsinh(s) + np.log2(s**2 + 1) + np.logaddexp(s, 0.0)


@pytest.mark.parametrize("kind", ["affine", "interval"])
@pytest.mark.parametrize(
    "function", [stacked, joined, chosen, filled, rows, split, sums], ids=lambda f: f.__name__
)
def test_what_fit_proves_is_verified(file, function, kind):
    path, trusted, _ = file(function, kind)
    assert tether.verify(path, trusted).verified


# --- conditions: of each row for itself, and each counted once


def six_ifs(s, u):
    out = np.zeros_like(s)
    for k, (x, v) in enumerate(s):
        y = x
        for level in (-9.0, -8.0, -7.0, 7.0, 8.0, 9.0):
            y = y - 0.05 * x
            if v > level:
                y = y + 0.1 * v
        out[k] = [y, v]
    return out


def three_clamps(s, u):
    return np.array(
        [[max(-9.0, min(9.0, x)), max(-9.0, min(9.0, v)) + max(-9.0, min(9.0, x + v))] for x, v in s]
    )


def elifs(s, u):
    out = s.copy()
    for k, (x, v) in enumerate(s):
        for step in range(60):
            if x < step - 70.0:
                out[k, 1] = v + step
                break
    return out


@pytest.mark.parametrize("function", [six_ifs, three_clamps, elifs], ids=lambda f: f.__name__)
def test_conditions_of_rows_are_counted_once(file, function):
    path, trusted, model = file(function)
    assert model.bounds.evidence.name == "proved"
    assert tether.verify(path, trusted).verified


def reversed_rows(s, u):
    out = s.copy()
    for k in range(len(s)):
        if s[-1 - k, 0] > 0:
            out[k] = 2.0 * s[k]
    return out


def first_decides(s, u):
    return 2.0 * s if s[0, 0] > 0 else 3.0 * s


def last_decides(s, u):
    return 2.0 * s if s[-1, 0] > 0 else 3.0 * s


def any_decides(s, u):
    return 2.0 * s if (s[:, 0] > 0).any() else 3.0 * s


def carried(s, u):
    out, seen = s.copy(), False
    for k in range(len(s)):
        seen = seen or bool(s[k, 0] > 0)
        if seen:
            out[k, 1] = 5.0
    return out


@pytest.mark.parametrize(
    "function",
    [reversed_rows, first_decides, last_decides, any_decides, carried],
    ids=lambda f: f.__name__,
)
def test_conditions_of_another_row_are_refused(function):
    with pytest.raises(UnboundedError, match="rows that depend on one another"):
        trace(function, 2, 0, 2)


def parity(s, u):
    odd = False
    for x, _ in s:
        odd = odd != bool(x > 0)
    alone = len(s) == 1 or bool(s[0, 0] > 0) == bool(s[1, 0] > 0)
    return np.array([[x if alone or odd else 9.0, v] for x, v in s])


def spike(x):
    return np.maximum(0.0, 1.0 - 1e6 * np.abs(x - 0.3))


def with_spikes(s, y):
    return np.stack([s[:, 0] + y, s[:, 1]], axis=1)


class Remembers:
    """What it was given last is mixed into what it returns."""

    def __init__(self):
        self.last = None

    def __call__(self, s, u):
        last = s if self.last is None else self.last[: len(s)]
        self.last = s
        return s + 100.0 * (s - last)


class RemembersAnswers(Remembers):
    def __call__(self, s, u):
        last = s if self.last is None else self.last
        self.last = s
        return 2.0 * s if last[0, 0] > 0 else 3.0 * s


MIXED = {
    "roll 2": lambda s, u: with_spikes(s, np.roll(spike(s[:, 0]), 2)),
    "roll 2 of the reverse": lambda s, u: with_spikes(s, np.roll(spike(s[:, 0])[::-1], 1)),
    "squares": lambda s, u: with_spikes(s, spike(s[:, 0])[np.arange(len(s)) ** 2 % len(s)]),
    "dealt": lambda s, u: with_spikes(
        s, spike(s[:, 0]).reshape(2, -1).ravel(order="F") if len(s) % 2 == 0 else spike(s[:, 0])
    ),
    "counted to 2": lambda s, u: with_spikes(s, (len(s) - 1) * (len(s) - 2) * spike(s[:, 0])),
    "counted to 5": lambda s, u: with_spikes(s, (len(s) - 1) * (len(s) - 2) * (len(s) - 5) * spike(s[:, 0])),
    "first row": lambda s, u: with_spikes(s, spike(s[0, 0])),
    "differences": lambda s, u: with_spikes(s, np.diff(spike(s[:, 0]), prepend=spike(s[:1, 0]))),
    "averaged": lambda s, u: s - s.mean(axis=0),
    "parity": parity,
    "all rows": lambda s, u: s if all(abs(x - 0.3) > 1e-7 for x in s[:, 0]) else s + 1.0,
    "memory": Remembers(),
    "memory of answers": RemembersAnswers(),
    "K of a broadcast": lambda s, u: with_spikes(
        s, (np.broadcast_to(spike(s[:, 0]), (2, len(s))) * 1.0).T.ravel(order="K").reshape(2, -1)[1]
        if len(s) > 2 else spike(s[:, 0])
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_are_mixed_are_refused(name):
    with pytest.raises(UnboundedError):
        trace(MIXED[name], 2, 0, 2)


def test_a_count_of_rows_that_verify_draws_is_refused(file):
    def counted(s, u):
        n = len(s)
        return waves(s, u) + (n - 1) * (n - 2) * (n - 5) * spike(s) * 1e-3

    path, _, _ = file()
    with pytest.raises(CertificateError, match="how many rows"):
        tether.verify(path, counted)


def test_the_statement_says_what_is_assumed_of_rows(file):
    path, trusted, _ = file()
    said = re.search(r"checked on batches of ([\d, and]+) rows", tether.verify(path, trusted).statement)
    assert said is not None
    assert {1, 2, 5, 6} <= set(map(int, re.findall(r"\d+", said[1])))


def test_a_guard_over_the_batch_is_a_guard_of_each_row():
    def guarded(s, u):
        if (s[:, 0] > 50).any() or not (s[:, 1] < 50).all():
            raise ValueError("too fast")
        return 2.0 * s

    assert "unset" in [node.operation for node in trace(guarded, 2, 0, 2).nodes]


def test_a_row_that_raises_is_not_a_row_that_decides():
    def guarded(s, u):
        for x, _ in s:
            if x > 50:
                raise ValueError("too fast")
        return 2.0 * s

    assert "unset" in [node.operation for node in trace(guarded, 2, 0, 2).nodes]


def test_scalars_do_not_alias():
    """Case 2: NumPy copies the scalar before the row is assigned to."""
    program = trace(rows, 2, 0, 2)
    first, second = program.outputs
    angle = program.nodes[program.nodes[[n.operation for n in program.nodes].index("sin")].arguments[0]]
    assert angle[:3] == ("input", (), 0) and program.nodes[first].operation == "add" != program.nodes[second]


def test_names_are_put_back():
    before = np.zeros, np.array, math.sin
    with pytest.raises(UnboundedError):
        trace(lambda s, u: 1 // 0, 1, 0, 1)
    assert (np.zeros, np.array, math.sin) == before


# --- types and layouts: the trace is refused, or is what NumPy computes


def bump(x):
    return np.maximum(0.0, 1.0 - abs(x - 0.3125) * 8.0)


def beside(s, y):
    return np.column_stack([s[:, 0] + y, s[:, 1]])


def integers(s, u):
    k = np.where(s[:, 0] > 5, 1, 0)
    k[:] = 1.6 * bump(s[:, 0])
    return beside(s, k)


def masks(s, u):
    k = np.zeros_like(s[:, 0] > 5)
    k[:] = 0.3 * bump(s[:, 0])
    return beside(s, k)


def mask_assigned(s, u):
    k = s[:, 0] > 5
    k[:] = 0.3 * bump(s[:, 0])
    return beside(s, k)


def half(s, u):
    return beside(s, np.exp(s[:, 0] > -5) * bump(s[:, 0]))


def single(s, u):
    k = np.zeros(len(s))
    k[:] = np.where(s[:, 0] > 5, np.float32(0.1), np.float32(0.2)) * 0.3
    return beside(s, k * bump(s[:, 0]))


def weak(s, u):
    return beside(s, np.array([np.float32(1) * math.sin(x) for x in s[:, 0]]))


def counted(s, u):
    return beside(s, (s > -5).sum(axis=1) // 2 * bump(s[:, 0]))


def counted_einsum(s, u):
    return beside(s, np.einsum("ij->i", s > -5) * bump(s[:, 0]))


def cast(s, u):
    return beside(s, (s[:, 0] > 0).astype(int) * bump(s[:, 0]))


def floored(s, u):
    k = np.array([math.floor(x) for x in s[:, 0]])
    k[:] = 1.6 * bump(s[:, 0])
    return beside(s, k)


def signs(s, u):
    return np.array([[x + (abs(x > 0) + abs(v > 0)), v] for x, v in s])


def flat(s, u):
    k = s > 5
    k.flat = 0.3
    return s + k


def diagonal(s, u):
    k = s > 5
    np.fill_diagonal(k, 0.3)
    return s + k


def objects_viewed(s, u):
    return beside(s, s.view(np.ndarray).sum(axis=1))


def buffer(s, u):
    return beside(s, np.where(np.frombuffer(bump(s[:, 0]).copy()) > 0.5, 100.0, 0.0))


def nan_ignored(s, u):
    return np.fmax(s, 0.0)


def is_nan(s, u):
    return np.where(s != s, 0.0, s)


OBJECTS = np.array([2**60, 1], dtype=object)


def python_integers(s, u):
    a = np.zeros(2, dtype=object)
    a[0] = 2**60
    return beside(s, ((a[0] + 1) - 2**60) * bump(s[:, 0]))


OF_OBJECTS = {
    "zeros": lambda: np.zeros(2, dtype=object),
    "empty": lambda: np.empty(2, object),
    "full": lambda: np.full(2, 2**60, dtype="O"),
    "array": lambda: np.array([2**60, 1], dtype=object),
    "asarray": lambda: np.asarray([2**60, 1.0], dtype=np.dtype(object)),
    "array of an array": lambda: np.array(OBJECTS),
    "without end": lambda: np.array([2**70, 1]),
    "put": lambda: (lambda a: (a.__setitem__(slice(None), OBJECTS), a)[1])(np.zeros(2)),
    "filled": lambda: np.full(2, OBJECTS),
    "like": lambda: np.full_like(np.zeros(2), 2**60, dtype=object),
    "zeros like": lambda: np.zeros_like(np.zeros(2), object),
    "cast": lambda: np.zeros(2).astype(object),
    "eye": lambda: np.eye(2, dtype=object)[0],
    "sum": lambda: np.zeros((2, 2)).sum(axis=0, dtype=object),
    "ufunc": lambda: np.add(np.zeros(2), 2**60, dtype=object),
}


@pytest.mark.parametrize("name", OF_OBJECTS)
def test_objects_are_refused_or_stay_objects(name):
    def function(s, u):
        a = OF_OBJECTS[name]()
        a[0] = 2**60
        return beside(s, ((a[0] + 1) - 2**60) * bump(s[:, 0]))

    try:
        program = trace(function, 2, 0, 2)
    except UnboundedError:
        return
    point = np.array([[0.3125, 0.5]])
    np.testing.assert_array_equal(value_of(program, point[0]), function(point, None)[0])


@pytest.mark.parametrize(
    "function",
    [
        python_integers,
        *(integers, masks, mask_assigned, half, single, weak, counted, counted_einsum, cast, floored, signs),
        *(objects_viewed, buffer, nan_ignored, is_nan, flat, diagonal),
    ],
    ids=lambda f: f.__name__,
)
def test_types_that_are_not_float64_are_refused(function):
    with pytest.raises(UnboundedError):
        trace(function, 2, 0, 2)


def layout_of_max(s, u):
    z = np.asfortranarray(np.stack([s * 0, s * 0], axis=2)).max(axis=2)
    q = z.T.reshape(-1)
    q[: len(s)] += 100 * bump(s[:, 0])
    return s + z


def layout_of_einsum(s, u):
    z = np.einsum("ij,jk->ki", s, np.zeros((2, 2)), optimize=True)
    q = z.reshape(-1)
    q[: len(s)] += 100 * bump(s[:, 0])
    return s + z.T


def layout_of_zeros(s, u):
    z = np.zeros(s.shape, order="F")
    q = z.T.reshape(-1)
    q[: len(s)] += 100 * bump(s[:, 0])
    return s + z + np.array(z, order="C").reshape(-1, 2) + np.array(z).T.reshape(2, -1).T


def astype_itself(s, u):
    z = np.zeros_like(s)
    y = z.astype(float, order="C", copy=False)
    y[:, 0] += 100 * bump(s[:, 0])
    w = z.astype(float, copy=True)
    w[:, 1] += 7.0
    return s + z


def conjugated(s, u):
    z = np.zeros_like(s)
    z.conj()[:, 0] += 100 * bump(s[:, 0])
    np.conj(z)[:, 1] += 7.0
    return s + z


def iterated(s, u):
    def many(value):
        try:
            return list(value)
        except TypeError:
            return [value]

    return np.array([[x + 100 * sum(many(bump(x))), v] for x, v in s])


def conditions(s, u):
    out = np.zeros_like(s)
    for k, (x, v) in enumerate(s):
        out[k] = [x > 0, v > 0]
    out[:, 0] += 0.5 + (out[:, 0] + out[:, 0])
    out[:, 0] += s[:, 0] > 0
    out[:, 1] = np.concatenate([(s[:, :1] > 0), s[:, 1:]], axis=1).max(axis=1)
    return (
        out
        + (s > 0.1) * 2.0
        + np.where(np.where(s > 0, s < 0.5, False), s, 1.0)
        + (s > 0).mean(axis=1)[:, None]
    )


def value_of(program, row):
    """The program worked out in float64."""
    known = {
        "sum": lambda *v: sum(v), "select": lambda c, a, b: a if c else b,
        "and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b), "not": lambda a: not a,
    }  # fmt: skip
    values = []
    for node in program.nodes:
        if node.operation == "input":
            values.append(row[node.data])
        elif node.operation == "constant":
            values.append(float.fromhex(node.data))
        elif node.operation == "truth":
            values.append(node.data)
        else:
            rule = known.get(node.operation) or getattr(np, node.operation)
            values.append(rule(*(values[k] for k in node.arguments)))
    return [values[k] for k in program.outputs]


@pytest.mark.parametrize(
    "function",
    [layout_of_max, layout_of_einsum, layout_of_zeros, astype_itself, conjugated, iterated, conditions],
    ids=lambda f: f.__name__,
)
def test_a_trace_computes_what_numpy_does(function):
    points = np.array([[0.3125, 0.5], [0.25, -0.75]])
    try:
        program = trace(function, 2, 0, 2)
    except UnboundedError:
        pytest.skip("refused")
    for count in (1, 2):
        expected = function(points[:count].copy(), np.empty((count, 0)))
        np.testing.assert_allclose([value_of(program, row) for row in points[:count]], expected, rtol=1e-12)


def test_numpy_itself_is_left_alone():
    """Compiled code, as that of `numpy.random`, looks names up in the module."""

    def function(s, u):
        noise = np.random.default_rng(0).multivariate_normal([0.0], [[1.0]], 3)
        return s + float(noise.sum()) * np.ones(2)

    before = np.zeros, np.array
    program = trace(function, 2, 0, 2)
    assert (np.zeros, np.array) == before
    points = np.array([[0.3125, 0.5]])
    assert value_of(program, points[0]) == function(points, points[:, :0])[0].tolist()
