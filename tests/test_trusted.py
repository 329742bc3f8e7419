from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import frictionless
from tether.data import Array, Transitions, make_schema
from tether.foundation.errors import TrustedModelError
from tether.trusted import Function, TrustedModel, as_trusted, check_trusted
from tether.trusted.loading import load_trusted

SCHEMA = make_schema(["x", "v"], ["u"])
INPUTS = np.random.default_rng(0).normal(size=(600, 3))


def slowly(states: Array, controls: Array) -> Array:
    time.sleep(0.001)
    return np.sin(states) + np.exp(controls) / 3


# --- the contract, checked at the door


def test_an_honest_model_passes() -> None:
    check_trusted(TrustedModel(frictionless), INPUTS, SCHEMA)


@pytest.mark.parametrize("rows", [1, 2, 31, 600])
def test_any_number_of_rows_is_enough_to_check(rows: int) -> None:
    check_trusted(TrustedModel(frictionless), INPUTS[:rows], SCHEMA)
    with pytest.raises(TrustedModelError, match="finite"):
        check_trusted(TrustedModel(lambda s, u: s * np.nan), INPUTS[:rows], SCHEMA)


def raising(states: Array, controls: Array) -> Array:
    raise KeyError("no such gear")


def writing_states(states: Array, controls: Array) -> Array:
    states += 1.0
    return states.copy()


def writing_controls(states: Array, controls: Array) -> Array:
    controls[:] = 0.0
    return states.copy()


def half_nan(states: Array, controls: Array) -> Array:
    return np.where(np.arange(len(states))[:, None] == 3, [[1.0, np.nan]], states)


class Counting:
    """Answers differently every time."""

    calls = 0

    def __call__(self, states: Array, controls: Array) -> Array:
        self.calls += 1
        return states + self.calls


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raising, r"must not raise; got KeyError: 'no such gear' at test_trusted.py:41 when called with states \(32, 2\)"),
        (lambda s, u: s[:, :1], r"must return shape \(32, 2\) for that many rows; got \(32, 1\)"),
        (lambda s, u: s[0], r"must return shape \(32, 2\) .* got \(2,\)"),
        (lambda s, u: None, r"must return an array of real numbers; got NoneType: values of type NoneType"),
        (lambda s, u: [["a", "b"]] * len(s), r"must return an array of real numbers; got list: values of type <U1"),
        (lambda s, u: [["1", "2"]] * len(s), r"must return an array of real numbers; got list: values of type <U1"),
        (lambda s, u: s + 1j, r"must return an array of real numbers; got ndarray: values of type complex128"),
        (lambda s, u: [[1.0]] * (len(s) - 1) + [[1.0, 2.0]], r"must return an array of real numbers; got list: "),
        (lambda s, u: (s + 1j).astype(object), r"must return an array of real numbers; .* values of type complex"),
        (lambda s, u: {"x": s}, r"must return an array of real numbers; got dict"),
        (lambda s, u: (row for row in s), r"must return an array of real numbers; got generator"),
        (half_nan, r"must return finite numbers; got nan in output 1 for state \[.*\], control \[.*\]"),
        (lambda s, u: s + np.inf, r"must return finite numbers; got inf in output 0"),
        (Counting(), r"must be deterministic; got .* and .* for output 'x' from two calls"),
        (writing_states, r"must not change its arguments; it wrote to them"),
        (writing_controls, r"must not change its arguments; it wrote to them"),
        (lambda s, u: s - s.mean(axis=0), r"must treat rows independently; .* first row alone and in a b"),
        (lambda s, u: s[::-1], r"must treat rows independently; .* first row alone"),
        (lambda s, u: np.cumsum(s, axis=0), r"must treat rows independently; .* last row alone"),
    ],
)  # fmt: skip
def test_a_model_that_breaks_its_contract_is_told_how(function: Function, message: str) -> None:
    with pytest.raises(TrustedModelError, match=f"`trusted` {message}"):
        check_trusted(TrustedModel(function), INPUTS, SCHEMA)


def test_a_batch_may_differ_from_a_row_by_rounding() -> None:
    weights = np.random.default_rng(1).normal(size=(3, 2))
    check_trusted(TrustedModel(lambda s, u: np.concatenate([s, u], 1) @ weights), INPUTS, SCHEMA)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`trusted` must be callable as M\(states, controls\); got str"):
        as_trusted("frictionless")  # type: ignore[arg-type]


def test_a_contract_broken_later_is_noticed_later() -> None:
    model = TrustedModel(lambda s, u: np.where(s > 1e6, np.nan, s))
    with pytest.raises(
        TrustedModelError, match=r"finite numbers; got nan in output 1 for state \[0.0, 2000000"
    ):
        model(np.array([[0.0, 1.0], [0.0, 2e6]]), np.zeros((2, 1)), SCHEMA)


# --- batches and processes


def test_no_rows_give_no_rows() -> None:
    assert TrustedModel(frictionless)(np.empty((0, 2)), np.empty((0, 1)), SCHEMA).shape == (0, 2)


def test_more_rows_than_a_batch_come_back_in_order() -> None:
    states = np.arange(2 * 70_000, dtype=float).reshape(-1, 2)
    sizes: list[int] = []

    def identity(states: Array, controls: Array) -> Array:
        sizes.append(len(states))
        return states

    outputs = TrustedModel(identity)(states, np.zeros((70_000, 1)), SCHEMA)
    np.testing.assert_array_equal(outputs, states)
    assert len(sizes) == 2


def test_processes_give_the_same_numbers_as_one() -> None:
    states, controls = INPUTS[:, :2], INPUTS[:, 2:]
    serial = TrustedModel(slowly)(states, controls, SCHEMA)
    reports: list[tuple[int, int]] = []
    parallel = TrustedModel(slowly, jobs=2)(
        states, controls, SCHEMA, progress=lambda done, total: reports.append((done, total))
    )
    np.testing.assert_array_equal(parallel, serial)
    assert reports[-1] == (600, 600)
    assert len(reports) >= 8
    assert reports == sorted(set(reports))


def test_a_function_from_a_file_travels_to_processes(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("GRAVITY = 9.81\n")
    (tmp_path / "falling.py").write_text(
        "import os\nimport numpy as np\nfrom neighbour import GRAVITY\n\n"
        "def fall(states, controls):\n    return np.tanh(states) - GRAVITY\n\n"
        "def where(states, controls):\n    return np.full(states.shape, float(os.getpid()))\n"
    )
    states, controls = INPUTS[:, :2], INPUTS[:, 2:]
    model = load_trusted(f"{tmp_path}/falling.py:fall")
    serial = model(states, controls, SCHEMA)
    np.testing.assert_array_equal(serial, np.tanh(states) - 9.81)
    np.testing.assert_array_equal(TrustedModel(model.function, jobs=2)(states, controls, SCHEMA), serial)
    where = load_trusted(f"{tmp_path}/falling.py:where")
    home = where(states, controls, SCHEMA)[0, 0]
    assert home not in TrustedModel(where.function, jobs=2)(states, controls, SCHEMA)


def test_a_model_that_raises_in_a_process_is_quoted() -> None:
    with pytest.raises(TrustedModelError, match="must not raise; got KeyError: 'no such gear'"):
        TrustedModel(raising, jobs=2)(INPUTS[:, :2], INPUTS[:, 2:], SCHEMA)


def test_progress_of_one_process() -> None:
    reports: list[tuple[int, int]] = []
    model = TrustedModel(lambda s, u: s)
    model(np.zeros((70_000, 2)), np.zeros((70_000, 1)), SCHEMA, progress=lambda *r: reports.append(r))
    assert reports == [(65536, 70_000), (70_000, 70_000)]


# --- what is done with the answers


def test_an_increment_is_what_the_model_adds(cart: Transitions) -> None:
    model = TrustedModel(frictionless)
    increments = model.target(cart.inputs, cart.schema, "increment")
    added = 0.1 * np.stack([cart.states[:, 1], cart.controls[:, 0]], axis=1)
    np.testing.assert_allclose(increments, added, atol=1e-15)
    np.testing.assert_array_equal(
        model.target(cart.inputs, cart.schema, "next_state"), frictionless(cart.states, cart.controls)
    )


def test_angles_of_the_model_are_continuous_with_the_state() -> None:
    schema = make_schema(["theta"], ["u"], angles=["theta"])
    model = TrustedModel(lambda s, u: (s + u + np.pi) % (2 * np.pi) - np.pi)
    outputs = model(np.array([[3.0], [-3.0]]), np.array([[0.5], [-0.5]]), schema)
    np.testing.assert_allclose(outputs, [[3.5], [-3.5]])


def test_the_source_is_hashed_where_there_is_one() -> None:
    one, same = TrustedModel(frictionless), TrustedModel(frictionless)
    assert one.source_digest == same.source_digest != TrustedModel(slowly).source_digest
    assert one.name == "frictionless"
    assert TrustedModel(np.add).source_digest is None
    assert TrustedModel(Counting()).name == "Counting"


# --- Lipschitz constants

LINEAR = np.array([[1.0, -0.1, 0.0], [0.3, 0.5, 2.0]])


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (2.0, [[2.0], [2.0]]),
        (3, [[3.0], [3.0]]),
        ([2.0, 5.0], [[2.0], [5.0]]),
        (np.abs(LINEAR), np.abs(LINEAR).tolist()),
    ],
)
def test_constants_of_every_accepted_shape(given_, expected) -> None:
    constants = TrustedModel(frictionless, lipschitz=given_).lipschitz_constants(SCHEMA, "next_state")
    assert constants is not None
    assert constants.tolist() == expected


def test_no_constants_known() -> None:
    assert TrustedModel(frictionless).lipschitz_constants(SCHEMA, "increment") is None


@pytest.mark.parametrize(
    "given_", [np.ones(3), np.ones((3, 2)), np.ones((2, 2)), np.ones((2, 1)), np.ones((1, 2, 3))]
)
def test_constants_of_other_shapes_are_refused(given_: Array) -> None:
    with pytest.raises(ValueError, match=r"`lipschitz` must be a number, \(2,\) or \(2, 3\); got shape"):
        TrustedModel(frictionless, lipschitz=given_).lipschitz_constants(SCHEMA, "next_state")


@pytest.mark.parametrize("given_", [-1.0, np.nan, np.inf, [1.0, -2.0]])
def test_constants_must_be_numbers_that_bound(given_) -> None:
    with pytest.raises(ValueError, match="`lipschitz` must be finite and >= 0; got"):
        TrustedModel(frictionless, lipschitz=given_).lipschitz_constants(SCHEMA, "next_state")


def test_constants_of_the_increment_are_used_where_given() -> None:
    model = TrustedModel(frictionless, lipschitz=[1.5, 1.5], increment_lipschitz=0.1)
    increment, whole = (model.lipschitz_constants(SCHEMA, kind) for kind in ("increment", "next_state"))
    assert increment is not None and increment.tolist() == [[0.1], [0.1]]
    assert whole is not None and whole.tolist() == [[1.5], [1.5]]


def test_constants_of_the_increment_alone_say_nothing_of_the_next_state() -> None:
    model = TrustedModel(frictionless, increment_lipschitz=0.1)
    assert model.lipschitz_constants(SCHEMA, "next_state") is None


def test_derived_constants_add_one_where_the_output_advances() -> None:
    schema = make_schema(["x", "v"], ["u"], ["v", "power", "x"])
    constants = TrustedModel(frictionless, lipschitz=np.zeros((3, 3))).lipschitz_constants(
        schema, "increment"
    )
    assert constants is not None and constants.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    constants = TrustedModel(frictionless, lipschitz=[2.0, 3.0, 4.0]).lipschitz_constants(schema, "increment")
    assert constants is not None and constants.tolist() == [[3.0], [3.0], [5.0]]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_derived_constants_of_the_increment_are_sound(seed: int, per_input: bool) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(2, 3)) * rng.choice([0.01, 1.0, 10.0], size=(2, 3))
    model = TrustedModel(
        lambda s, u: np.concatenate([s, u], axis=1) @ matrix.T,
        lipschitz=np.abs(matrix) if per_input else np.linalg.norm(matrix, axis=1),
    )
    constants = model.lipschitz_constants(SCHEMA, "increment")
    assert constants is not None
    one, other = rng.normal(size=(2, 200, 3)) * rng.choice([0.0, 1.0], size=(2, 200, 3))
    change = np.abs(model.target(one, SCHEMA, "increment") - model.target(other, SCHEMA, "increment"))
    gap = np.abs(one - other)
    reach = gap @ constants.T if per_input else np.linalg.norm(gap, axis=1)[:, None] * constants[:, 0]
    assert (change <= reach * (1 + 1e-9) + 1e-9).all()
