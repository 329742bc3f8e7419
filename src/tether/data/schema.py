"""What columns mean: names, units, angles.

Everything that depends on what a column *means* is settled here, once: angles are wrapped, next
angles are made continuous with the angle they follow. Behind this room every array is float64, finite
and two-dimensional.

Shapes: ``N`` rows, ``D`` inputs (states then controls), ``P`` outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.foundation.documents import shorten, such
from tether.foundation.limits import MOST_COLUMNS

Array = NDArray[np.float64]
Target = Literal["next_state", "increment"]
Box = Mapping[str, float | tuple[float, float]]

HALF_TURN = float(np.nextafter(np.pi, 4.0))
"""The float64 number above π: no two angles are farther apart on the circle."""
QUARTER_TURN = 0.5 * np.pi
"""The float64 number below π/2: two distances below it add up to less than half a turn."""
MOST_RADIANS = 2.0**28
"""How large an angle may be for :func:`near` to bring it to another turn without loss."""
# 2π in parts: times a number of turns below 2^26 the first two are exact, and the last is what float64 lacks.
_TURN_HIGH = float(np.ldexp(np.floor(np.ldexp(2 * np.pi, 24)), -24))
_TURN_PARTS = (_TURN_HIGH, 2 * np.pi - _TURN_HIGH, 2.4492935982947064e-16)


def wrap_angle(angles: Array) -> Array:
    """Angles in [-π, π); an angle already there comes back bit for bit."""
    turns = np.floor((angles + np.pi) / (2 * np.pi))
    wrapped = angles - 2 * np.pi * turns
    # Rounding may leave the half-open interval by an ulp at either end; both ends are -π.
    wrapped = np.where((wrapped >= -np.pi) & (wrapped < np.pi), wrapped, -np.pi)
    return np.where((angles >= -np.pi) & (angles < np.pi), angles, wrapped)


def near(values: Array, reference: Array) -> Array:
    """`values` plus whole turns, within half a turn of `reference`; bit for bit where they are already.

    Turns of exactly 2π, not of its float64 neighbour: for values of up to `MOST_RADIANS` the result is off by
    a few roundings of ``|reference| + 2π``, however many turns were taken off.
    """
    # Twice, because the number of turns between large values is itself a rounded quotient.
    for _ in range(2):
        turns = np.floor((values - reference + np.pi) / (2 * np.pi))
        for part in _TURN_PARTS:
            values = values - turns * part
    return values


def check_matrix(name: str, values: ArrayLike, names: Sequence[str] | None = None) -> Array:
    """`values` as a finite float64 matrix; raises naming the first bad row and column."""
    try:
        given = np.asarray(values)
        if given.dtype.kind == "c":
            raise TypeError("complex numbers")
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`{name}` must hold numbers; got {type(values).__name__} ({error}).") from None
    if matrix.ndim != 2:
        raise ValueError(
            f"`{name}` must have 2 dimensions (rows, columns); got shape {matrix.shape}. "
            "Reshape a single column with `values[:, None]`."
        )
    if names is not None and matrix.shape[1] != len(names):
        raise ValueError(
            f"`{name}` must have {len(names)} columns ({shorten(', '.join(names))}); got "
            f"{matrix.shape[1]}. Give one column per name."
        )
    if not np.isfinite(matrix).all():
        bad = ~np.isfinite(matrix)
        row, column = (int(k) for k in np.argwhere(bad)[0])
        label = names[column] if names is not None else str(column)
        raise ValueError(
            f"`{name}` must be finite; got {matrix[row, column]} at row {row}, column '{shorten(label)}' "
            f"({such(int(bad.sum()), 'value')}). Drop or repair those rows."
        )
    return np.ascontiguousarray(matrix)


def check_known(option: str, given: Iterable[str], kind: str, known: Sequence[str]) -> None:
    """Raises where a name is none of those known, which are of some `kind`."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(
            f"`{option}` must name {kind} ({shorten(', '.join(known))}); got {shorten(', '.join(unknown))}."
        )


@dataclass(frozen=True)
class Schema:
    """What the columns mean.

    Attributes:
        states: names of the state columns.
        controls: names of the control columns.
        outputs: names of the predicted columns; an output that advances a state bears its name.
        units: unit of a column, by name; a missing one is dimensionless.
        angles: columns in radians that wrap at ±π; :func:`make_schema` gives them that unit.
        advances: per output, the index of the state column it is the next value of, or -1.
    """

    states: tuple[str, ...]
    controls: tuple[str, ...]
    outputs: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    angles: tuple[str, ...] = ()
    advances: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        names = self.inputs
        for text in (*names, *self.outputs, *self.units.values()):
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                raise ValueError(
                    f"names and units must be text that UTF-8 can hold; got {text!r:.60}. Rename it."
                )
        if max(len(names), len(self.outputs)) > MOST_COLUMNS:
            raise ValueError(f"`states` and `controls` must be at most {MOST_COLUMNS:,} columns; got more.")
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise ValueError(
                f"column names must be distinct; got {shorten(', '.join(repeated))} twice. Rename one."
            )
        if not self.states or not self.outputs:
            raise ValueError("`states` must name at least one column, and so must the outputs; got none.")
        if len(set(self.outputs)) != len(self.outputs):
            raise ValueError(f"outputs must be distinct; got {shorten(', '.join(self.outputs))}. Rename one.")
        if len(self.advances) != len(self.outputs) or not set(self.advances) <= set(
            range(-1, len(self.states))
        ):
            raise ValueError(
                f"`advances` must give a state's index, or -1, for each of {len(self.outputs)} outputs; "
                f"got {self.advances}. Use `make_schema`."
            )
        check_known("angles", self.angles, "columns of the data", self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of inputs and outputs, each once."""
        return tuple(dict.fromkeys((*self.inputs, *self.outputs)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs: states, then controls."""
        return self.states + self.controls

    # Cached, because a prediction of one row asks for them and has no time to build them.
    @cached_property
    def input_angles(self) -> NDArray[np.bool_]:
        """Which inputs wrap, (D,)."""
        return np.array([name in self.angles for name in self.inputs], dtype=bool)

    @cached_property
    def turning(self) -> NDArray[np.int64]:
        """Columns of the inputs that wrap."""
        return np.flatnonzero(self.input_angles)

    @cached_property
    def output_angles(self) -> NDArray[np.bool_]:
        """Which outputs wrap, (P,)."""
        return np.array([name in self.angles for name in self.outputs], dtype=bool)

    @cached_property
    def advanced(self) -> NDArray[np.int64]:
        """`advances` as an array, (P,)."""
        return np.array(self.advances, dtype=np.int64)

    @property
    def rolls_out(self) -> bool:
        """Whether the outputs advance every state, so that predictions can be fed back."""
        return sorted(self.advances) == list(range(len(self.states)))

    def unit(self, name: str) -> str:
        """Unit of a column, empty where none was given."""
        return self.units.get(name, "")

    def base(self, states: Array) -> Array:
        """(N, P): the current value of each output, 0 for an output that advances no state."""
        if self.advances and min(self.advances) >= 0:
            return states.take(self.advanced, axis=1)
        return np.where(self.advanced >= 0, states[:, self.advanced], 0.0)

    def distance(self, one: Array, other: Array) -> Array:
        """|one - other| per output (N, P), on the circle for angles."""
        line = np.abs(one - other)
        if not self.output_angles.any():
            return line
        circle = np.minimum(np.abs(near(one, other) - other), np.pi)
        return np.where(self.output_angles, circle, line)

    def near(self, values: Array, reference: Array) -> Array:
        """`values` (..., P) with angles moved by whole turns to within half a turn of `reference`."""
        if not self.output_angles.any():
            return values
        return np.where(self.output_angles, near(values, reference), values)

    def farthest(self, values: Array, lower: Array, upper: Array) -> Array:
        """(N, P) distance from `values` to the farthest of all numbers between the limits.

        On a circle that may be neither end: an arc that holds the point opposite reaches half a turn away.
        """
        ends = np.maximum(self.distance(lower, values), self.distance(upper, values))
        if not self.output_angles.any():
            return ends
        opposite = near(lower, values) - values + (upper - lower) >= np.pi
        return np.where(self.output_angles & opposite, np.pi, ends)

    def capped(self, delta: Array) -> Array:
        """`delta` (..., P) of angles cut to half a turn: on the circle nothing is farther."""
        return np.where(self.output_angles, np.minimum(delta, HALF_TURN), delta)

    def wrap_inputs(self, states: Array, controls: Array) -> Array:
        """(N, D) inputs, angles in [-π, π)."""
        inputs = np.concatenate([states, controls], axis=1)
        if self.angles:
            given = inputs.take(self.turning, axis=1)
            if not (np.abs(given) < np.pi).all():
                inputs[:, self.turning] = wrap_angle(given)
        return inputs

    def unwrap_outputs(self, states: Array, outputs: Array) -> Array:
        """(N, P) outputs whose angles are continuous with the (wrapped) angle they follow."""
        # A copy in any case: what is returned outlives the caller's array.
        return np.array(self.near(outputs, self.base(states)))


def make_schema(
    states: Sequence[str],
    controls: Sequence[str],
    outputs: Sequence[str] | None = None,
    *,
    units: Mapping[str, str] | None = None,
    angles: Sequence[str] = (),
) -> Schema:
    """A schema that knows which output advances which state.

    An output named ``x``, ``next_x`` or ``x_next`` advances state ``x``. Where one of as many outputs as
    states has another name, they pair by position; elsewhere it advances none.

    Raises:
        ValueError: some of as many outputs are named after states, and not in the place of these.
    """
    states = tuple(states)
    labels = tuple(outputs) if outputs is not None else states
    bare = [label.removeprefix("next_").removesuffix("_next") for label in labels]
    advances = tuple(states.index(name) if name in states else -1 for name in bare)
    if len(labels) == len(states) and -1 in advances:
        misplaced = [k for k, state in enumerate(advances) if state not in (-1, k)]
        if misplaced:
            label, state = labels[misplaced[0]], states[advances[misplaced[0]]]
            raise ValueError(
                "outputs must stand in the order of the states, or be named after all of them; got "
                f"'{label}' in the place of '{states[misplaced[0]]}', though '{state}' is a state."
            )
        advances = tuple(range(len(states)))
    named = tuple(states[a] if a >= 0 else label for a, label in zip(advances, labels, strict=True))
    schema = Schema(
        states, tuple(controls), named, with_radians(units or {}, angles), tuple(angles), advances
    )
    check_known("units", schema.units, "columns of the data", schema.columns)
    return schema


_DEGREES = ("deg", "degs", "degree", "degrees", "°", "deg.")


def with_radians(units: Mapping[str, str], angles: Sequence[str]) -> dict[str, str]:
    """Units with that of angles, which are in radians; raises where they are said to be in degrees."""
    wrong = next((name for name in angles if units.get(name, "").strip().lower() in _DEGREES), None)
    if wrong is not None:
        raise ValueError(
            f"`angles` must be in radians; got '{shorten(wrong)}' in '{units[wrong]}'. Convert it, and M, to "
            "radians."
        )
    return {**dict.fromkeys(angles, "rad"), **units}
