"""What a trusted model (M) is: any callable ``(states (N, dx), controls (N, du)) -> (N, P)``.

It may be a formula, a simulator or a black box. It is checked once, at the door, and called in
batches; a slow one is spread over processes, or over a cluster (:mod:`tether.foundation.executors`).
"""

from __future__ import annotations

import hashlib
import inspect
import multiprocessing
import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether.data import MOST_RADIANS, Array, Schema, Target
from tether.foundation.errors import TrustedModelError
from tether.foundation.executors import in_processes, is_spread
from tether.foundation.limits import check_processes
from tether.foundation.progress import Report

Function = Callable[[Array, Array], ArrayLike]

_BATCH = 1 << 16
_SLOW_BATCH = 256
_CLUSTER_PIECES, _LEAST_SENT, _MOST_SENT = 64, 8, 4096
"""On a cluster: how many pieces a call is cut into, and the rows that one may have."""
_COMPARED = 10_000
_NO_NUMBERS = (str, bytes, complex, type(None))


@dataclass(frozen=True)
class Translation:
    """Where a translated model came from.

    Attributes:
        form: SymPy, CasADi, torch, ONNX or JAX.
        original: its own values, as a function of (states, controls); NaN where it has none.
        tolerance: how far the two may be apart, times 1 + the size of the value: its own roundings.
        inputs: what it calls its inputs, in its order; empty where they have no names.
    """

    form: str
    original: Function
    tolerance: float = 1e-9
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TrustedModel:
    """A trusted model and what is known of it.

    Attributes:
        function: ``(states (N, dx), controls (N, du)) -> (N, P)`` next states; pure, row by row.
        jacobian: ``(states, controls) -> (N, P, D)`` derivative of `function`, where known.
        lipschitz: constants L of M's outputs in physical units: (P, D) with
            ``|M_j(s) - M_j(s')| <= sum_d L_jd |s_d - s'_d|``, or (P,) or a number for the Euclidean
            norm of ``s - s'``.
        increment_lipschitz: the same of ``M(s) - state``, which may be far smaller; without it the
            constants of the increment are derived from `lipschitz` by adding 1.
        jacobian_lipschitz: constants of the Jacobian of M's outputs, (P,) or a number, in physical units:
            ``|J_j(s) - J_j(s')|_2 <= H_j |s - s'|_2``.
        jobs: processes to spread the evaluation over, as joblib counts them (-1: all cores).
        translation: of a model that came in another form, what `function` was translated from.
        black_box: why no proof can look into it, such as the simulator that computes it; "" for none.
    """

    function: Function
    jacobian: Callable[[Array, Array], ArrayLike] | None = None
    lipschitz: ArrayLike | None = None
    increment_lipschitz: ArrayLike | None = None
    jacobian_lipschitz: ArrayLike | None = None
    jobs: int = 1
    translation: Translation | None = None
    black_box: str = ""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(
                f"`trusted` must be callable as M(states, controls); got {type(self.function).__name__}."
            )
        if isinstance(self.function, type):
            raise TypeError(
                f"`trusted` must be a model, not its class; got {self.function.__name__}. Make one of it."
            )
        check_processes("jobs", self.jobs)

    @property
    def name(self) -> str:
        """The function's own name."""
        function = self.function
        return getattr(function, "__qualname__", type(function).__qualname__)

    @property
    def source(self) -> str | None:
        """The function's source text, of a translated model too; None where Python cannot show it."""
        try:
            return inspect.getsource(self.function)
        except (OSError, TypeError):
            return None

    @cached_property
    def source_digest(self) -> str | None:
        """SHA-256 of the function's source text, None where Python cannot show it."""
        return None if self.source is None else hashlib.sha256(self.source.encode()).hexdigest()

    def __call__(
        self, states: Array, controls: Array, schema: Schema, *, progress: Report | None = None
    ) -> Array:
        """M's next states (N, P), angles continuous with the state they follow."""
        batch = self._batch(len(states))
        pieces = ((states[k : k + batch], controls[k : k + batch]) for k in range(0, len(states), batch))
        work = partial(_evaluate, self.function, outputs=len(schema.outputs))
        parts = []
        for part in in_processes(self.jobs).map(work, pieces):
            parts.append(part)
            if progress is not None:
                progress(min(len(parts) * batch, len(states)), len(states))
        outputs = np.concatenate(parts) if parts else np.empty((0, len(schema.outputs)))
        _check_turns(outputs, schema)
        return schema.unwrap_outputs(states, outputs)

    def _batch(self, rows: int) -> int:
        """Rows in one go: by how many there are, not by who is there to do them."""
        if is_spread():
            return min(max(-(-rows // _CLUSTER_PIECES), _LEAST_SENT), _MOST_SENT)
        return _BATCH if self.jobs == 1 else max(1, min(_SLOW_BATCH, -(-rows // 16)))

    def where_it_answers(
        self, inputs: Array, schema: Schema, *, alone: int | None = None
    ) -> tuple[Array, Array]:
        """Those of inputs (N, D) at which M has an answer, and its next states (N, P) there.

        It may have none a scale away from the data, at a negative speed for example. Where it does not answer
        all rows together, they are asked one by one, the first `alone` of them.
        """
        dx = len(schema.states)
        try:
            return inputs, self(inputs[:, :dx], inputs[:, dx:], schema)
        except TrustedModelError:
            asked = inputs[:alone]
            answers = self._one_by_one(asked, schema)
            known = np.isfinite(answers).all(axis=1)
            return asked[known], answers[known]

    def answers(self, inputs: Array, schema: Schema) -> Array:
        """M's next states (N, P) at inputs (N, D); NaN where it has no answer."""
        dx = len(schema.states)
        try:
            return self(inputs[:, :dx], inputs[:, dx:], schema)
        except TrustedModelError:
            return self._one_by_one(inputs, schema)

    def _one_by_one(self, inputs: Array, schema: Schema) -> Array:
        """(N, P), NaN where M has no answer."""
        dx, found = len(schema.states), np.full((len(inputs), len(schema.outputs)), np.nan)
        for k, row in enumerate(inputs[:, None]):
            with suppress(TrustedModelError):
                found[k] = self(row[:, :dx], row[:, dx:], schema)[0]
        return found

    def target(self, inputs: Array, schema: Schema, kind: Target, *, progress: Report | None = None) -> Array:
        """M's target (N, P) at inputs (N, D): its next state, or the increment it predicts."""
        dx = len(schema.states)
        states, controls = np.ascontiguousarray(inputs[:, :dx]), np.ascontiguousarray(inputs[:, dx:])
        outputs = self(states, controls, schema, progress=progress)
        return outputs - schema.base(states) if kind == "increment" else outputs

    def lipschitz_constants(self, schema: Schema, kind: Target) -> Array | None:
        """(P, D) or (P, 1) constants of the target; (P, 1) is for the Euclidean norm. None if unknown."""
        if kind == "increment" and self.increment_lipschitz is not None:
            return _constants("increment_lipschitz", self.increment_lipschitz, schema)
        if self.lipschitz is None:
            return None
        constants = _constants("lipschitz", self.lipschitz, schema)
        if kind == "next_state":
            return constants
        # Sound because subtracting the state changes each difference by at most |s_a - s'_a|.
        added = np.zeros((len(schema.outputs), constants.shape[1]))
        for output, state in enumerate(schema.advances):
            if state >= 0:
                added[output, state if constants.shape[1] > 1 else 0] = 1.0
        return constants + added

    def curvature_constants(self, schema: Schema) -> Array | None:
        """(P,) constants of the Jacobian, the same for next states and increments. None if unknown."""
        if self.jacobian_lipschitz is None:
            return None
        constants = _constants("jacobian_lipschitz", self.jacobian_lipschitz, schema)
        if constants.shape[1] != 1:
            raise ValueError(
                f"`jacobian_lipschitz` must be a number or one per output; got {constants.shape}."
            )
        return constants[:, 0]

    def target_jacobian(self, inputs: Array, schema: Schema, kind: Target) -> Array:
        """(N, P, D) derivative of the target at inputs (N, D), from the Jacobian the user gave."""
        assert self.jacobian is not None
        dx = len(schema.states)
        jacobian = _as_numbers(self.jacobian(inputs[:, :dx], inputs[:, dx:]), "jacobian")
        shape = (len(inputs), len(schema.outputs), inputs.shape[1])
        if jacobian.shape != shape or not np.isfinite(jacobian).all():
            raise TrustedModelError(
                f"`jacobian` must return finite numbers of shape {shape}; got shape {jacobian.shape}."
            )
        if kind == "increment":
            jacobian[:, np.arange(shape[1]), schema.advanced] -= 1.0
        return jacobian


def check_trusted(trusted: TrustedModel, inputs: Array, schema: Schema) -> None:
    """Calls M a few times and raises unless it keeps its contract.

    Checked: it does not raise, returns finite numbers of shape (N, P), gives the same answer twice,
    leaves its arguments alone, and answers a row the same alone as among others. If it was translated from
    another form, the two are compared at 10,000 points: rows of `inputs`, and points between them.

    Args:
        trusted: the model.
        inputs: (N, D) rows to try it on; the first, the last and a few between are taken.
        schema: what the columns mean.
    """
    names = () if trusted.translation is None else trusted.translation.inputs
    if names != tuple(schema.inputs) and sorted(names) == sorted(schema.inputs):
        raise TrustedModelError(
            f"`trusted` must have its inputs in the order of the columns, {', '.join(schema.inputs)}; got "
            f"{', '.join(names)}. Reorder one of them."
        )
    dx = len(schema.states)
    rows = np.unique(np.linspace(0, len(inputs) - 1, 32).astype(np.int64))
    states, controls = inputs[rows, :dx], inputs[rows, dx:]
    outputs = len(schema.outputs)
    first, second = (_evaluate(trusted.function, states, controls, outputs) for _ in range(2))
    _check_same(
        first, second, schema, "must be deterministic", "two calls on the same row", "Fix its random seed."
    )
    # Both ends, because a model that runs on from row to row still answers the first one rightly.
    for place, row in (("first", slice(0, 1)), ("last", slice(len(rows) - 1, None))):
        alone = _evaluate(trusted.function, states[row].copy(), controls[row].copy(), outputs)
        tolerance = 1e-9 * (1 + np.abs(first[row]))
        close = np.where(np.abs(alone - first[row]) <= tolerance, alone, first[row])
        _check_same(
            alone, close, schema, "must treat rows independently", f"the {place} row alone and in a batch",
            "Use axis=-1, not the whole batch.",
        )  # fmt: skip
    if trusted.translation is not None:
        _check_translation(trusted, trusted.translation, inputs, schema)


def _check_translation(
    trusted: TrustedModel, translation: Translation, inputs: Array, schema: Schema
) -> None:
    """Raises where the original, asked once more, says otherwise than its translation."""
    rng = np.random.default_rng(0x7E7)
    own = inputs[rng.permutation(len(inputs))[: _COMPARED // 2]]
    between = rng.uniform(inputs.min(axis=0), inputs.max(axis=0), (_COMPARED - len(own), inputs.shape[1]))
    points, dx = np.concatenate([own, between]), len(schema.states)
    try:
        with np.errstate(all="ignore"):
            theirs = _as_numbers(translation.original(points[:, :dx].copy(), points[:, dx:].copy()))
            ours = _as_numbers(trusted.function(points[:, :dx].copy(), points[:, dx:].copy()))
    except Exception as error:
        raise TrustedModelError(
            f"`trusted` must answer in its own form; {translation.form} raised {type(error).__name__}: "
            f"{error}."
        ) from error
    if ours.shape != theirs.shape:
        raise TrustedModelError(
            f"`trusted` must return shape {ours.shape}; {translation.form} returned {theirs.shape}."
        )
    # Where neither has an answer there is nothing to compare; between the data there may be such places.
    both = np.isfinite(theirs) & np.isfinite(ours)
    with np.errstate(invalid="ignore"):
        wrong = both & (np.abs(ours - theirs) > translation.tolerance * (1 + np.abs(theirs)))
    wrong[: len(own)] |= np.isfinite(theirs[: len(own)]) != np.isfinite(ours[: len(own)])
    if wrong.any():
        row, output = (int(k) for k in np.argwhere(wrong)[0])
        raise TrustedModelError(
            f"`trusted` must be what it was translated from; {translation.form} says "
            f"{float(theirs[row, output])!r} and its translation {float(ours[row, output])!r} for output "
            f"'{schema.outputs[output]}' at {points[row].tolist()}. Please report it."
        )


def _check_same(one: Array, two: Array, schema: Schema, rule: str, what: str, remedy: str) -> None:
    if np.array_equal(one, two):
        return
    row, output = (int(k) for k in np.argwhere(one != two)[0])
    raise TrustedModelError(
        f"`trusted` {rule}; got {float(one[row, output])!r} and {float(two[row, output])!r} for output "
        f"'{schema.outputs[output]}' from {what}. {remedy}"
    )


def _leave(number: int, frame: object) -> None:
    del number, frame
    os._exit(130)


def _evaluate(function: Function, states: Array, controls: Array, outputs: int) -> Array:
    if multiprocessing.parent_process() is not None and threading.current_thread() is threading.main_thread():
        # A worker that is interrupted between two pieces would say so in ten lines; who started it says it.
        signal.signal(signal.SIGINT, _leave)
    # Read-only, because a model that writes into its arguments on some rare row would corrupt the bounds;
    # copied, because a model may return the same buffer every time.
    states, controls = _read_only(states), _read_only(controls)
    # Where M has no answer is told, or is of no account: it is asked beyond the data, too.
    quiet: Any = {kind: "ignore" for kind, what in np.geterr().items() if what == "warn"}
    try:
        with np.errstate(**quiet):
            returned = function(states, controls)
    except (Exception, SystemExit) as error:  # a model that exits would end the program without a word
        if "read-only" in str(error):
            raise TrustedModelError(
                "`trusted` must not change its arguments; it wrote to them. Copy them first."
            ) from error
        raise TrustedModelError(
            f"`trusted` must not raise; got {type(error).__name__}: {error}{_where(error)} when called with "
            f"states {states.shape} and controls {controls.shape}, first state {states[:1].tolist()}. It "
            f"is given all rows at once, states first.{_other_library(str(error))}"
        ) from error
    values = _as_numbers(returned)
    if values.shape != (len(states), outputs):
        raise TrustedModelError(
            f"`trusted` must return shape ({len(states)}, {outputs}) for that many rows; got {values.shape}. "
            "Return a row for each row and a column for each output, the next value of each."
            + _other_library(type(returned).__module__)
        )
    bad = ~np.isfinite(values)
    if bad.any():
        row, output = (int(k) for k in np.argwhere(bad)[0])
        raise TrustedModelError(
            f"`trusted` must return finite numbers; got {values[row, output]} in output {output} for state "
            f"{states[row].tolist()}, control {controls[row].tolist()}. Guard that case or narrow the domain."
        )
    return values


def _other_library(told: str) -> str:
    """What a function of another library's arrays must be, where an error or a type tells of one."""
    if "Tensor" in told:
        return " A function of torch's tensors must be an `nn.Module`."
    if told.startswith("jax"):
        return " Give a JAX function of one row as tether.load_trusted(jax.jit(f), states=, controls=)."
    return ""


def _check_turns(outputs: Array, schema: Schema) -> None:
    """An angle so large has lost the digits that say where on the circle it is."""
    far = (np.abs(outputs) > MOST_RADIANS) & schema.output_angles
    if far.any():
        row, output = (int(k) for k in np.argwhere(far)[0])
        raise TrustedModelError(
            f"`trusted` must return angles of at most {MOST_RADIANS:.3g} rad; got {outputs[row, output]:.6g} "
            f"in output '{schema.outputs[output]}'. Take whole turns off in the model."
        )


def _as_numbers(returned: ArrayLike, name: str = "trusted") -> Array:
    """What M returned as a new float64 array; NumPy would take words and complex numbers for some."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            array = np.asarray(returned)
            if array.dtype.kind not in "biufO":
                raise TypeError(f"values of type {array.dtype}")
            words = (value for value in array.flat if isinstance(value, _NO_NUMBERS))
            if array.dtype.kind == "O" and (wrong := next(words, _NO_NUMBERS)) is not _NO_NUMBERS:
                raise TypeError(f"values of type {type(wrong).__name__}")
            return np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, Warning) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise TrustedModelError(
            f"`{name}` must return an array of real numbers; got {type(returned).__name__}: "
            f"{reason[0].rstrip('.')}. Return a NumPy array of shape (rows, outputs)."
        ) from None


def _read_only(values: Array) -> Array:
    view = values.view()
    view.flags.writeable = False
    return view


def _where(error: BaseException) -> str:
    """File and line at which the model raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if len(frames) > 1 else ""


def _constants(name: str, values: ArrayLike, schema: Schema) -> Array:
    constants = np.asarray(values, dtype=np.float64)
    outputs, inputs = len(schema.outputs), len(schema.inputs)
    if constants.shape not in {(), (outputs,), (outputs, inputs)}:
        raise ValueError(
            f"`{name}` must be a number, ({outputs},) or ({outputs}, {inputs}); got shape {constants.shape}."
        )
    if not np.isfinite(constants).all() or (constants < 0).any():
        raise ValueError(f"`{name}` must be finite and >= 0; got {constants.tolist()}.")
    return (
        constants
        if constants.ndim == 2
        else np.ascontiguousarray(np.broadcast_to(constants, (outputs,)))[:, None]
    )
