"""What an exported C file returns is within delta of M, however it was compiled, whatever the weights."""

from __future__ import annotations

import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest

import tether
from compiled import Compiled, needs_compiler
from tether.export import export
from tether.foundation.errors import CertificateError, StorageError

sys.path.append(str(Path(__file__).parent.parent / "contract"))
from every_model import SUBJECTS, parts, scaled, turning

pytestmark = needs_compiler
CLIPPED = {s.kind: s for s in SUBJECTS if s.operator == "clip"}
WAYS = (
    ("-O0", "-ffp-contract=off"),
    ("-O2", "-ffp-contract=off"),
    ("-O3", "-march=native", "-ffp-contract=fast"),
)
mpmath.mp.dps = 50


def exact_turning(states, controls):
    """M, as real numbers."""
    speed, heading, control = (mpmath.mpf(float(value)) for value in (*states, *controls))
    tenth, third = mpmath.mpf(0.1), mpmath.mpf(0.3)
    return speed + tenth * mpmath.sin(heading) * control, heading + third * speed * control


def distance(one, other, is_angle):
    apart = abs(mpmath.mpf(float(one)) - other)
    return abs(apart - 2 * mpmath.pi * mpmath.nint(apart / (2 * mpmath.pi))) if is_angle else apart


def outside(found, inputs, angles):
    """How many outputs are farther from M than delta, in numbers that do not round."""
    count = 0
    for row in np.flatnonzero(found.in_domain):
        exact = exact_turning(*parts(inputs[row][None])[0], *parts(inputs[row][None])[1])
        for output in range(2):
            apart = distance(found.next_states[row, output], exact[output], angles and output == 1)
            count += apart > mpmath.mpf(float(found.delta[row, output]))
    return count


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["interval", "affine", "affine, angles", "affine, second order"])
def test_no_output_is_outside_delta_of_m_in_exact_numbers(kind, dtype, tmp_path):
    subject = CLIPPED[kind]
    inputs = subject.inputs(150).astype(dtype)
    model = scaled(subject.model(), 1e3)
    for flags in WAYS:
        found = Compiled(model, tmp_path / "made", dtype=dtype, flags=flags).predict(*parts(inputs))
        assert found.in_domain.sum() > 50
        assert outside(found, inputs, "heading" in model.schema.angles) == 0


def test_a_narrower_delta_would_be_found_out(tmp_path):
    """The comparison can fail: of outputs pushed to their limits, many are nearly delta away."""
    subject = CLIPPED["affine"]
    model, inputs = scaled(subject.model(), 1e6), subject.inputs(150)
    found = Compiled(model, tmp_path / "made").predict(*parts(inputs))
    object.__setattr__(found, "delta", 0.5 * found.delta)
    assert outside(found, inputs, False) > 20


@pytest.mark.parametrize("kind", ["interval", "affine, angles", "monotone", "free"])
def test_what_is_not_finite_gives_nan_and_no_domain(kind, tmp_path):
    compiled = Compiled(CLIPPED[kind].model(), tmp_path / "made", flags=("-O3",))
    inputs = np.zeros((9, 3))
    for row, value in enumerate((np.nan, np.inf, -np.inf)):
        for column in range(3):
            inputs[3 * row + column, column] = value
    found = compiled.predict(*parts(inputs))
    assert not found.in_domain.any()
    for name in ("next_states", "lower", "upper", "delta"):
        assert np.isnan(getattr(found, name)).all()
    assert all(np.isnan(part).all() for part in compiled.linearize(*parts(inputs)))


def test_a_network_that_gives_no_number_promises_nothing(tmp_path):
    model = CLIPPED["affine"].model()
    model.network[-1].bias.data[0] = np.inf
    model.network[-1].weight.data[0] = -np.inf
    inputs = CLIPPED["affine"].inputs(100)
    found = Compiled(model, tmp_path / "made").predict(*parts(inputs))
    lost = np.isnan(found.next_states).any(axis=1)
    assert lost.any()
    assert not found.in_domain[lost].any()
    assert np.isinf(found.delta[lost]).all()


def test_memories_are_found_to_the_last_bit(tmp_path):
    """Also halfway between two, where fused products would decide otherwise."""
    model = CLIPPED["interval"].model()
    cells = model.cells
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, len(cells), (2, 4000))
    halfway = 0.5 * (cells.centers[one] + cells.centers[two])
    inputs = np.concatenate([halfway, np.nextafter(halfway, np.inf), cells.centers])
    inputs = model.schema.wrap_inputs(*parts(inputs))
    known = model.predict(*parts(inputs), details=True)
    for flags in WAYS[1:]:
        found = Compiled(model, tmp_path / "made", flags=flags).predict(*parts(inputs))
        assert np.array_equal(found.in_domain, known.in_domain)
        assert np.array_equal(found.lower, known.lower) and np.array_equal(found.delta, known.delta)


def test_angles_are_wrapped_as_the_library_does(tmp_path):
    model = CLIPPED["affine, angles"].model()
    rng = np.random.default_rng(1)
    inputs = np.zeros((3000, 3))
    inputs[:, 1] = rng.uniform(-1, 1, 3000) * 10.0 ** rng.integers(0, 9, 3000)
    inputs[:4, 1] = np.pi, -np.pi, np.nextafter(np.pi, 0), 3 * np.pi
    known = model.predict(*parts(inputs), details=True)
    for flags in WAYS:
        found = Compiled(model, tmp_path / "made", flags=flags).predict(*parts(inputs))
        assert np.array_equal(found.in_domain, known.in_domain)
        assert np.array_equal(found.delta, known.delta)
        assert np.allclose(found.next_states, known.next_states, rtol=0, atol=1e-14)


def test_a_monotone_model_never_rises_in_c_either(tmp_path):
    subject = CLIPPED["monotone"]
    for number, size in enumerate((1.0, 50.0)):
        model = scaled(subject.model(), size)
        compiled = Compiled(model, tmp_path / str(number), flags=WAYS[2])
        rng = np.random.default_rng(2)
        inputs = np.repeat(rng.uniform(-2, 2, (500, 3)), 8, axis=0)
        steps = np.sort(rng.choice([1e-16, 1e-12, 1e-3], (500, 8)) * rng.uniform(0, 1, (500, 8)), axis=1)
        inputs[:, 2] += steps.reshape(-1)
        after = compiled.predict(*parts(inputs)).next_states.reshape(500, 8, 2)
        assert (np.diff(after, axis=1) <= 0).all()


# --- verification of the file itself


@pytest.fixture(scope="module", params=["interval", "affine, angles", "monotone"])
def written(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    model = CLIPPED[request.param].model()
    certificate = tether.certify(model, CLIPPED[request.param].trusted).as_dict()
    export(model, to="c", out=folder, name="cart", certificate=certificate)
    return folder / "cart.c", CLIPPED[request.param].trusted


def test_the_file_alone_is_verified(written):
    path, trusted = written
    found = tether.verify(path, trusted)
    assert found.verified
    assert found.statement.startswith("Every line of the C file is what its model is written as in float64.")


def test_a_float32_file_is_verified_with_its_own_delta(tmp_path):
    model = CLIPPED["affine"].model()
    export(model, to="c", out=tmp_path, name="cart", dtype="float32")
    found = tether.verify(tmp_path / "cart.c", turning)
    wide = tether.verify(export(model, to="c", out=tmp_path / "wide", name="cart")[1], turning)
    for name, (most, _) in found.deltas.items():
        assert most > wide.deltas[name][0]
    assert tuple(most for most, _ in found.deltas.values()) == pytest.approx(
        tether.model.single.single_delta(model).tolist(), rel=1e-12
    )


def test_another_m_is_refused(written):
    def other(states, controls):
        return 1.01 * turning(states, controls)

    with pytest.raises(CertificateError, match="not verified"):
        tether.verify(written[0], other)


def mutated(text, rng):
    """The file with one thing changed: a digit, a letter, a line lost or doubled, a number of a table."""
    kind, place = rng.integers(5), int(rng.integers(len(text)))
    lines = text.splitlines(keepends=True)
    line = int(rng.integers(len(lines)))
    if kind == 0:
        return "".join(lines[:line] + lines[line + 1 :])
    if kind == 1:
        return "".join([*lines[: line + 1], lines[line], *lines[line + 1 :]])
    if kind == 2:
        return text[:place] + chr(rng.integers(32, 127)) + text[place:]
    if kind == 3:
        other = int(rng.integers(len(lines)))
        lines[line], lines[other] = lines[other], lines[line]
        return "".join(lines)
    return text[:place] + chr(rng.integers(32, 127)) + text[place + 1 :]


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_changed_file_is_refused(written, count, tmp_path):
    path, trusted = written
    text, rng = path.read_text(), np.random.default_rng(count)
    for _ in range(count):
        changed = mutated(text, rng)
        if changed == text:
            continue
        (tmp_path / "cart.c").write_text(changed)
        try:
            found = tether.verify(tmp_path / "cart.c", trusted)
        except (CertificateError, StorageError):
            continue
        # What was measured on data is told apart, and is all that may differ.
        assert "recheck" in found.not_vouched
        assert _without_certificate(changed) == _without_certificate(text)


def _without_certificate(text):
    head, _, rest = text.partition("/* certificate\n")
    return head, rest.partition("\n*/\n")[2]


def test_a_file_written_anew_for_other_numbers_is_refused(tmp_path):
    """Whoever changes the model inside and writes all else to fit still has to prove it."""
    model = CLIPPED["affine"].model()
    model.tether.remainder *= 0.5
    model.tether.derive()
    export(model, to="c", out=tmp_path, name="cart")
    with pytest.raises(CertificateError, match="the remainder is"):
        tether.verify(tmp_path / "cart.c", turning)


def test_a_file_that_is_no_export_is_one_line(tmp_path):
    for text in ("", "int main(void) { return 0; }\n", "/* about\n{}\n*/\n"):
        (tmp_path / "other.c").write_text(text)
        with pytest.raises(StorageError, match="must be a C file exported by Tether"):
            tether.verify(tmp_path / "other.c", turning)
