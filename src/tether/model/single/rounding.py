"""float32 numbers near, below and above float64 ones, and the factors that roundings add up to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema

Single = NDArray[np.float32]

UNIT = 2.0**-24
"""Relative error of one float32 operation."""
FLUSHED = 2.0**-126
"""The least number that is not subnormal: what flushing to zero costs at most."""
HALF_TURN = float(np.float32(np.pi))
"""A float32 number above π."""
_LARGEST = 2.0**100


def near(values: Array) -> Single:
    """The nearest float32 numbers."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, np.float64).astype(np.float32)


def down(values: Array | float) -> Single:
    """The largest float32 numbers at most `values`."""
    rounded = near(np.asarray(values))
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def up(values: Array | float) -> Single:
    """The smallest float32 numbers at least `values`."""
    return -down(-np.asarray(values, np.float64))


def magnification(roundings: int) -> float:
    """κ of the error analysis: at least γ of three roundings fewer."""
    return roundings * UNIT * (1 + 2.0**-10)


def compensation_of(terms: int) -> float:
    """The last factor of the error analysis, for a delta of so many terms."""
    return 1 + (terms + 24) * 2 * UNIT


def domain_box(lower: Array, upper: Array, schema: Schema) -> dict[str, Single]:
    """(D,) limits of the float32 domain: those of a box rounded inwards, to numbers that are not subnormal.

    Raises:
        ValueError: where no float32 number is left of an input's range.
    """
    low, high = _normal(up(lower), up=True), _normal(down(upper), up=False)
    low = np.where(schema.input_angles, np.maximum(low, up(-np.pi)), low)
    high = np.where(schema.input_angles, np.minimum(high, down(np.nextafter(np.pi, 0.0))), high)
    if not (low <= high).all():
        name = schema.inputs[int(np.argmax(low > high))]
        raise ValueError(
            f"the domain of '{name}' must hold a float32 number; it holds none. Widen it by a rounding, or "
            "stay with float64."
        )
    return {"box_lower": low, "box_upper": high}


def _normal(values: Single, *, up: bool) -> Single:
    """`values`, subnormal ones moved to the next number above or below that is not."""
    away = np.float32(FLUSHED) if up else np.float32(-FLUSHED)
    beyond = np.where((values > 0) == up, away, np.float32(0.0))
    return np.where(subnormal(values), beyond, values)


def subnormal(values: Single) -> NDArray[np.bool_]:
    """Which numbers some hardware takes for zeros."""
    return (values != 0) & (np.abs(values) < np.float32(FLUSHED))


def check_sizes(arrays: dict[str, Single], size: Array) -> None:
    """Raises unless all numbers are far from overflowing."""
    finite = all(np.isfinite(values).all() for values in arrays.values())
    if not finite or not (size < _LARGEST).all():
        raise ValueError(
            f"`model` must have numbers far below {np.finfo(np.float32).max:.3g} for float32; "
            f"got up to {float(np.max(size)):.3g}. Change the units, or stay with float64."
        )
