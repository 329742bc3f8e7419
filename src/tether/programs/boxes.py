"""`enclose`: a model's range and derivatives over many boxes at once."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from tether.foundation.kernels import in_threads
from tether.programs.explaining import explain
from tether.programs.interpreter import LANES, interpret_boxes, registers
from tether.programs.program import Array, Program
from tether.programs.refusal import EnclosureError
from tether.programs.tracing import Function, trace
from tether.trusted.reading.twins import difference

Pair = tuple[Array, Array]

_CHECKED_POINTS = 2048
_FEW_ROWS = (2, 1, 5)
_COMPARED = 64
_MOST_FOLLOWED = 16
_followed: dict[Any, Function] = {}
"""Those of which it was seen that their code is followed rightly; kept, so that none takes their identity."""


@dataclass(frozen=True, eq=False)
class Range:
    """Bounds of M over each box.

    Attributes:
        lower: (K, P), at most the least value of M over each box.
        upper: (K, P), at least the greatest.
    """

    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Enclosure(Range):
    """Bounds of M and of its partial derivatives over each box.

    For any points s and m of one box, ``M(s) - M(m)`` lies in ``J (s - m)``.

    Attributes:
        jacobian_lower: (K, P, D), at most the least value of each partial derivative over each box.
        jacobian_upper: (K, P, D), at least the greatest.
        rounding: (K, P), at least how far NumPy's float64 value of M can be from its exact value; NaN where
            that was not asked for.
    """

    jacobian_lower: Array
    jacobian_upper: Array
    rounding: Array


def enclose(
    function: Function | Program,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    states: int,
    splits: int = 0,
    rounding: bool = True,
) -> Enclosure:
    """Bound M and its derivatives over K boxes.

    Args:
        function: M, ``(states (K, dx), controls (K, du)) -> (K, P)``, row by row, in NumPy; or its program.
        lower: (K, D) lower corners of the boxes.
        upper: (K, D) upper corners.
        states: how many of the D inputs are states (dx); the rest are controls.
        splits: how many times to halve each box, along the input that widens M's first-order
            model most there; the result is the hull over its ``2**splits`` parts. Boxes over which
            the derivative is constant are not halved.
        rounding: whether to bound NumPy's own rounding too, which takes a third of the time.

    Returns:
        The enclosure over each box.

    Raises:
        EnclosureError: M uses an operation that cannot be bounded over a box.
        ValueError: corners are not finite, not ordered, or of different shapes.
    """
    low, high = _check_boxes(lower, upper, states)
    if splits < 0:
        raise ValueError(f"`splits` must be 0 or more; got {splits}.")
    program = program_of(function, low, high, states)
    whole = _enclose_once(program, low, high, rounding)
    return _split(program, (low, high), whole, splits) if splits else whole


def enclose_range(function: Function | Program, lower: ArrayLike, upper: ArrayLike, *, states: int) -> Range:
    """Bound M over K boxes, without derivatives; arguments as for `enclose`."""
    low, high = _check_boxes(lower, upper, states)
    return _range(program_of(function, low, high, states), low, high)


def program_of(function: Function | Program, lower: Array, upper: Array, states: int) -> Program:
    """M's program, checked against M itself at points of the boxes before anything is proved from it."""
    if isinstance(function, Program):
        return function
    points = _points(lower, upper) if len(lower) else lower
    before = _told(function, points, states)
    program = trace(function, states=states, controls=lower.shape[1] - states)
    _check_program(program, function, points, states)
    _check_twins(program, function, lower, upper, states)
    if before != _told(function, points, states):
        raise EnclosureError(
            "`function` must be pure; it returns other numbers than before it was called on symbols. It must "
            "not keep anything from call to call."
        )
    return program


def _told(function: Function, points: Array, states: int) -> list[bytes] | None:
    """What M returns for rows alone and together, bit by bit; None where it raises."""
    few = points[:_COMPARED]
    try:
        return [
            _values(function, rows, states).tobytes() for rows in (few, *(few[k : k + 1] for k in range(4)))
        ]
    except EnclosureError:
        return None


def _check_program(program: Program, function: Function, points: Array, states: int) -> None:
    """At each point M's own float64 value must lie in the program's enclosure of that point."""
    if not len(points):
        return
    enclosed = evaluate(program, points, points, derivatives=False)
    # Where a branch raises, or M is not defined, there is nothing to compare.
    defined = ~np.isnan(enclosed.lower).any(axis=1)
    points, enclosed = points[defined], Range(enclosed.lower[defined], enclosed.upper[defined])
    if not len(points):
        return
    for rows in _FEW_ROWS:  # what it has kept of the trace shows where it is called as it was there
        _values(function, np.resize(points, (rows, points.shape[1])), states)
    values = _values(function, points, states)
    if values.shape != enclosed.lower.shape:
        raise ValueError(f"`function` must return shape {enclosed.lower.shape}; got {values.shape}.")
    # Where NumPy overflows on its way there is nothing to compare either.
    wrong = np.isfinite(values) & ((values < enclosed.lower) | (values > enclosed.upper))
    if wrong.any():
        row, output = (int(k) for k in np.argwhere(wrong)[0])
        raise EnclosureError(
            f"`function` must give what its operations say; got {float(values[row, output])!r} for output "
            f"{output} at {points[row].tolist()}, where they give {float(enclosed.lower[row, output])!r}. "
            "It must not keep anything from call to call, or look at how many rows there are."
        )


def _check_twins(program: Program, function: Function, lower: Array, upper: Array, states: int) -> None:
    """Raises where M's code with other numbers in it is not followed rightly; looks once at each M."""
    key = (program.digest, *_parts(function))
    if not len(lower) or key in _followed:
        return

    def follow(twin: Function, points: Array, batches: bool) -> Pair | None:
        try:
            traced = trace(twin, states=states, controls=lower.shape[1] - states, batches=batches)
        except (EnclosureError, ValueError):
            return None
        enclosed = evaluate(traced, points, points, derivatives=False)
        return enclosed.lower, enclosed.upper

    found = difference(function, lower, upper, states, int(program.digest[:12], 16), follow)
    if found is not None:
        raise EnclosureError(
            f"`function` must be code that can be followed reliably; {found}. Write it more plainly, or use "
            "evidence `statistical`."
        )
    _followed[key] = function
    while len(_followed) > _MOST_FOLLOWED:
        del _followed[next(iter(_followed))]


def _parts(function: Function) -> tuple[Any, ...]:
    """By which a function is known: itself; if it is made anew each time, its code and what is around it."""
    cells = getattr(function, "__closure__", None)
    if not cells:
        return (id(function),)
    around = inspect.getclosurevars(function).nonlocals.values()
    return (id(function.__code__), *(p.tobytes() if isinstance(p, np.ndarray) else id(p) for p in around))


def _values(function: Function, points: Array, states: int) -> Array:
    try:
        with np.errstate(all="ignore"):
            result = np.array(function(points[:, :states].copy(), points[:, states:].copy()))
            if result.dtype.kind in "fiub":
                return result.astype(np.float64)
    except (Exception, SystemExit) as error:
        raise EnclosureError(
            f"`function` must not raise; got {type(error).__name__}: {error} for {len(points)} rows."
        ) from error
    raise EnclosureError(
        f"`function` must return real numbers; got an array of {result.dtype} for {len(points)} rows. It "
        "must not keep anything from call to call."
    )


def _points(lower: Array, upper: Array) -> Array:
    """Points of the boxes: centres, corners, and points anywhere in them; the same each time."""
    rng = np.random.default_rng(0x7E7)
    rows = rng.integers(0, len(lower), _CHECKED_POINTS)
    share = rng.random((_CHECKED_POINTS, lower.shape[1]))
    share[::4] = 0.5
    share[1::4] = np.round(share[1::4])
    low, high = lower[rows], upper[rows]
    return np.clip(low * (1 - share) + high * share, low, high)


def _check_boxes(lower: ArrayLike, upper: ArrayLike, states: int) -> Pair:
    low, high = (np.array(corner, dtype=np.float64, order="C") for corner in (lower, upper))
    if low.shape != high.shape:
        raise ValueError(f"`lower` and `upper` must have one shape; got {low.shape} and {high.shape}.")
    if low.ndim != 2:
        raise ValueError(f"`lower` must have shape (K, D); got {low.shape}.")
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError("`lower` and `upper` must be finite; got NaN or infinity.")
    if (low > high).any():
        raise ValueError(f"`lower` must be <= `upper`; got {low[low > high][0]} > {high[low > high][0]}.")
    if not 0 <= states <= low.shape[1]:
        raise ValueError(f"`states` must lie between 0 and {low.shape[1]} inputs; got {states}.")
    return low, high


def evaluate(
    program: Program, lower: Array, upper: Array, *, derivatives: bool, rounding: bool = True
) -> Enclosure:
    """The interpreter on all cores; undefined outputs are NaN."""
    rows, outputs = len(lower), len(program.tape.outputs)
    low, high = np.empty((rows, outputs)), np.empty((rows, outputs))
    shape = (rows, outputs, program.dimensions) if derivatives else (rows, 0, 0)
    slopes = np.zeros(shape), np.zeros(shape)
    effort = 0 if not derivatives else 2 if rounding else 1
    errors = np.full((rows, outputs), np.nan)
    filled = (low, high, *slopes, errors)

    def run(blocks: slice) -> None:
        part = slice(blocks.start * LANES, min(blocks.stop * LANES, rows))
        interpret_boxes(
            program.tape,
            lower[part],
            upper[part],
            effort,
            registers(program.tape),
            *(array[part] for array in filled),
        )

    in_threads(run, -(-rows // LANES))
    return Enclosure(low, high, *slopes, errors)


def _range(program: Program, lower: Array, upper: Array) -> Range:
    enclosed = evaluate(program, lower, upper, derivatives=False)
    _refuse_undefined(program, np.isnan(enclosed.lower).any(axis=1), lower, upper)
    return Range(enclosed.lower, enclosed.upper)


def _enclose_once(program: Program, lower: Array, upper: Array, rounding: bool = True) -> Enclosure:
    enclosed = evaluate(program, lower, upper, derivatives=True, rounding=rounding)
    undefined = np.isnan(enclosed.lower).any(axis=1) | np.isnan(enclosed.jacobian_lower).any(axis=(1, 2))
    _refuse_undefined(program, undefined, lower, upper)
    return enclosed


def _refuse_undefined(program: Program, undefined: Any, lower: Array, upper: Array) -> None:
    if undefined.any():
        row = int(undefined.argmax())
        _raise(program, lower[row], upper[row], row)


def _raise(program: Program, lower: Array, upper: Array, row: int) -> NoReturn:
    raise EnclosureError(explain(program, lower, upper, row))


def _split(program: Program, boxes: Pair, whole: Enclosure, splits: int) -> Enclosure:
    """Halve, enclose the parts, and take hulls; only for boxes that this can tighten."""
    gain = _widening(whole, boxes)
    chosen = np.flatnonzero(gain.max(axis=1, initial=0.0) > 1e-12)
    if not len(chosen):
        return whole
    parts, owner, enclosure = (
        (boxes[0][chosen], boxes[1][chosen]),
        np.arange(len(chosen)),
        Enclosure(**{name: bound[chosen] for name, bound in vars(whole).items()}),
    )
    for _ in range(splits):
        parts, owner = _halve(parts, owner, _widening(enclosure, parts))
        enclosure = _enclose_once(program, *parts)
    fields = {}
    order = np.argsort(owner, kind="stable")
    for name, bound in vars(enclosure).items():
        least = name.endswith("lower")
        reduce = np.minimum if least else np.maximum
        hulls = reduce.reduceat(bound[order], np.arange(0, len(owner), 2**splits), axis=0)
        fields[name] = getattr(whole, name).copy()
        inner = np.maximum if least else np.minimum  # both are sound, so is their overlap
        fields[name][chosen] = inner(fields[name][chosen], hulls)
    return Enclosure(**fields)


def _widening(enclosure: Enclosure, boxes: Pair) -> Array:
    """Per box and input (K, D): its share in the width of the first-order model, worst over outputs."""
    with np.errstate(all="ignore"):
        doubt = (enclosure.jacobian_upper - enclosure.jacobian_lower) * (boxes[1] - boxes[0])[:, None, :]
        size = np.maximum(np.abs(enclosure.jacobian_upper), np.abs(enclosure.jacobian_lower))
        scale = (size * (boxes[1] - boxes[0])[:, None, :]).sum(axis=-1, keepdims=True)
        share = np.where(scale > 0, doubt / scale, 0.0)
    return np.nan_to_num(share, nan=1.0, posinf=1.0).max(axis=1, initial=0.0)


def _halve(parts: Pair, owner: Any, widening: Array) -> tuple[Pair, Any]:
    lower, upper = parts
    rows, widest = np.arange(len(lower)), widening.argmax(axis=1)
    middle = lower[rows, widest] / 2 + upper[rows, widest] / 2
    middle = np.clip(middle, lower[rows, widest], upper[rows, widest])
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[rows, widest], right_lower[rows, widest] = middle, middle
    halves = (np.concatenate([lower, right_lower]), np.concatenate([left_upper, upper]))
    return halves, np.concatenate([owner, owner])
