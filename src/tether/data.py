"""Transitions (D) and probes (Ω): columns, episodes, splits, scaling, angles.

Everything that depends on what a column *means* is settled here, once: angles are wrapped, next
angles are made continuous with the angle they follow, constant columns get scale 1. Behind this
module every array is float64, finite and two-dimensional.

Shapes: ``N`` rows, ``D`` inputs (states then controls), ``P`` outputs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.documents import shorten
from tether.findings import LogReport
from tether.limits import LARGEST_TABLE, MOST_COLUMNS, MOST_ROWS, check_seed, check_whole

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
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        label = names[column] if names is not None else str(column)
        raise ValueError(
            f"`{name}` must be finite; got {matrix[row, column]} at row {row}, column '{shorten(label)}' "
            f"({int(bad.sum())} such values). Drop or repair those rows."
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
        angles: columns in radians that wrap at ±π.
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
        angles = self.input_angles
        if angles.any():
            inputs[:, angles] = wrap_angle(inputs[:, angles])
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

    As many outputs as states pair by position. Otherwise an output named ``x``, ``next_x`` or
    ``x_next`` advances state ``x``, and any other output advances none.
    """
    states = tuple(states)
    labels = tuple(outputs) if outputs is not None else states
    if len(labels) == len(states):
        advances = tuple(range(len(states)))
    else:
        bare = [label.removeprefix("next_").removesuffix("_next") for label in labels]
        advances = tuple(states.index(name) if name in states else -1 for name in bare)
    named = tuple(states[a] if a >= 0 else label for a, label in zip(advances, labels, strict=True))
    schema = Schema(states, tuple(controls), named, dict(units or {}), tuple(angles), advances)
    check_known("units", schema.units, "columns of the data", schema.columns)
    return schema


@dataclass(frozen=True, eq=False)
class Transitions:
    """Observed transitions (the paper's D).

    Build with :meth:`from_arrays` or :func:`tether.read_log`; both check and wrap.

    Attributes:
        states: (N, dx).
        controls: (N, du).
        next_states: (N, P), angles continuous with the state they follow.
        episodes: (N,) integer id of the episode a row came from.
        schema: what the columns mean.
        report: what was done to the log that they were read from, if they were.
    """

    states: Array
    controls: Array
    next_states: Array
    episodes: NDArray[np.int64]
    schema: Schema
    report: LogReport | None = None

    @classmethod
    def from_arrays(
        cls,
        states: ArrayLike,
        controls: ArrayLike,
        next_states: ArrayLike,
        *,
        episodes: ArrayLike | None = None,
        schema: Schema | None = None,
    ) -> Transitions:
        """Transitions from arrays.

        Args:
            states: (N, dx).
            controls: (N, du); du may be 0.
            next_states: (N, P).
            episodes: (N,) ids of any kind; without them all rows are one episode, which cannot be
                split. For rows that are independent pass ``numpy.arange(N)``.
            schema: names, units, angles; by default ``x0, x1, ..., u0, ...``.
        """
        names = (None, None, None) if schema is None else (schema.states, schema.controls, schema.outputs)
        states = check_matrix("states", states, names[0])
        controls = check_matrix("controls", controls, names[1])
        next_states = check_matrix("next_states", next_states, names[2])
        schema = schema or _default_schema(states.shape[1], controls.shape[1], next_states.shape[1])
        rows = len(states)
        if rows == 0:
            raise ValueError("`states` must hold at least one row; got 0. Check the file or the filter.")
        for name, values in [("controls", controls), ("next_states", next_states)]:
            if len(values) != rows:
                raise ValueError(f"`{name}` must have {rows} rows like `states`; got {len(values)}.")
        inputs = schema.wrap_inputs(states, controls)
        states, controls = inputs[:, : len(schema.states)], inputs[:, len(schema.states) :]
        return cls(
            states, controls, schema.unwrap_outputs(states, next_states), _episode_ids(episodes, rows), schema
        )

    def __len__(self) -> int:
        return len(self.states)

    @property
    def inputs(self) -> Array:
        """(N, D): states, then controls."""
        return np.concatenate([self.states, self.controls], axis=1)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Transitions:
        """The given rows, in the given order."""
        return replace(
            self,
            states=self.states[rows],
            controls=self.controls[rows],
            next_states=self.next_states[rows],
            episodes=self.episodes[rows],
        )

    def split(self, *, validation: float = 0.15, test: float = 0.15, seed: int = 0) -> Split:
        """Train, validation and test parts, whole episodes each.

        Rows of one episode are nearly copies of one another; a split by row would measure memory.
        """
        ids = np.unique(self.episodes)
        if len(ids) < 3:
            raise ValueError(
                f"`transitions` must hold at least 3 episodes to be split into train, validation and test; "
                f"got {len(ids)}. Record more episodes, cut long ones with `read_log(..., block=ROWS)` "
                "(command line: `--block ROWS`), or pass `episodes=numpy.arange(N)` (command line: "
                "`--independent-rows`) if the rows are independent of one another."
            )
        order = np.random.default_rng(seed).permutation(ids)
        held_out = [max(1, round(share * len(ids))) for share in (validation, test)]
        cut = [held_out[0], sum(held_out)]
        if cut[1] >= len(ids):
            raise ValueError(
                f"`validation` + `test` must leave at least one training episode; got {validation} + {test} "
                f"of {len(ids)} episodes. Lower them or record more episodes."
            )
        parts = [self.take(np.isin(self.episodes, part)) for part in np.split(order, cut)]
        return Split(train=parts[2], validation=parts[0], test=parts[1])

    def target(self, kind: Target) -> Array:
        """(N, P): what a model is trained to output, the next state or its increment."""
        return self.next_states - self.schema.base(self.states) if kind == "increment" else self.next_states

    def digest(self) -> str:
        """SHA-256 of every value, to tell whether a model was fitted to this data."""
        digest = hashlib.sha256()
        for part in (self.states, self.controls, self.next_states, self.episodes):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Split:
    """Three parts of one set of transitions, no episode in two of them."""

    train: Transitions
    validation: Transitions
    test: Transitions


@dataclass(frozen=True)
class Emphasis:
    """A region of the probe box that receives a share of the probes of its own.

    Attributes:
        box: as for :meth:`Probes.from_box`; columns left out keep the outer box's range.
        share: fraction of all probes placed here, in (0, 1].
    """

    box: Box
    share: float


@dataclass(frozen=True)
class Jitter:
    """Probes to be made from the training data once that is known; see :meth:`Probes.from_jitter`.

    Jittering all data instead would put near-copies of test inputs among the training probes.
    """

    spread: float = 0.1
    count: int | None = None

    def __post_init__(self) -> None:
        _check_spread(self.spread)
        if self.count is not None:
            check_whole("count", self.count, least=1, most=MOST_ROWS)


@dataclass(frozen=True, eq=False)
class Probes:
    """Inputs without labels, placed where conformance matters most (the paper's Ω).

    Attributes:
        states: (N, dx).
        controls: (N, du).
        schema: what the columns mean.
    """

    states: Array
    controls: Array
    schema: Schema

    @classmethod
    def from_arrays(cls, states: ArrayLike, controls: ArrayLike, *, schema: Schema) -> Probes:
        """Probes from arrays (N, dx) and (N, du)."""
        states = check_matrix("probes", states, schema.states)
        controls = check_matrix("probes", controls, schema.controls)
        if len(states) == 0 or len(states) != len(controls):
            raise ValueError(
                f"`probes` must have at least one row and as many states as controls; "
                f"got {len(states)} and {len(controls)}."
            )
        inputs = schema.wrap_inputs(states, controls)
        return cls(inputs[:, : len(schema.states)], inputs[:, len(schema.states) :], schema)

    @classmethod
    def from_box(
        cls,
        box: Box,
        *,
        count: int,
        like: Transitions,
        emphasis: Sequence[Emphasis] = (),
        seed: int = 0,
    ) -> Probes:
        """Probes drawn uniformly from a box.

        Args:
            box: range ``(low, high)`` or a fixed value by column name; a column left out spans the
                range it has in `like`.
            count: number of probes.
            like: transitions that name the columns and fill in missing ranges.
            emphasis: regions that receive a share of the probes of their own.
            seed: of the draw.
        """
        check_probes(count, like.schema)
        check_seed("seed", seed)
        shares = [region.share for region in emphasis]
        if sum(shares) > 1 + 1e-9 or any(not 0 < share <= 1 for share in shares):
            raise ValueError(f"emphasis shares must be in (0, 1] and add up to at most 1; got {shares}.")
        rng = np.random.default_rng(seed)
        inputs = like.inputs
        outer = _box_limits(box, like.schema, inputs.min(axis=0), inputs.max(axis=0))
        boxes = [*(_box_limits(region.box, like.schema, *outer) for region in emphasis), outer]
        # The running total is rounded, not each share, so that the parts always add up to `count`.
        totals = [0, *(min(count, round(total * count)) for total in np.cumsum(shares)), count]
        drawn = [
            rng.uniform(low, high, size=(rows, len(low)))
            for (low, high), rows in zip(boxes, np.diff(totals), strict=True)
        ]
        return cls._from_inputs(rng.permutation(np.concatenate(drawn)), like.schema)

    @classmethod
    def from_jitter(
        cls, transitions: Transitions, *, spread: float = 0.1, count: int | None = None, seed: int = 0
    ) -> Probes:
        """Probes around the data: rows of `transitions` moved by `spread` standard deviations."""
        _check_spread(spread)
        if count is not None:
            check_probes(count, transitions.schema)
        check_seed("seed", seed)
        rng = np.random.default_rng(seed)
        inputs = transitions.inputs
        rows = rng.choice(len(inputs), size=count or len(inputs), replace=(count or 0) > len(inputs))
        noise = rng.standard_normal((len(rows), inputs.shape[1])) * inputs.std(axis=0) * spread
        return cls._from_inputs(inputs[rows] + noise, transitions.schema)

    @classmethod
    def _from_inputs(cls, inputs: Array, schema: Schema) -> Probes:
        dx = len(schema.states)
        return cls.from_arrays(inputs[:, :dx], inputs[:, dx:], schema=schema)

    def __len__(self) -> int:
        return len(self.states)

    @property
    def inputs(self) -> Array:
        """(N, D): states, then controls."""
        return np.concatenate([self.states, self.controls], axis=1)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Probes:
        """The given rows, in the given order."""
        return replace(self, states=self.states[rows], controls=self.controls[rows])


@dataclass(frozen=True)
class Scaling:
    """Centre and positive scale of each column, (C,) each."""

    center: Array
    scale: Array


def fit_scaling(values: Array) -> Scaling:
    """Mean and standard deviation of each column of (N, C); a constant column gets scale 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = values.mean(axis=0), values.std(axis=0)
    if not np.isfinite(scale).all():
        column = int(np.argmax(~np.isfinite(scale)))
        raise ValueError(
            f"columns must be small enough for their variance to be a number; got values up to "
            f"{np.abs(values[:, column]).max():.3g} in column {column}. Change its unit."
        )
    # The deviation of a constant column is rounding noise, not zero.
    constant = scale <= 1e-12 * np.maximum(np.abs(values).max(axis=0), np.finfo(np.float64).tiny)
    return Scaling(center, np.where(constant, 1.0, scale))


def _check_spread(spread: float) -> None:
    if not np.isfinite(spread) or spread < 0:
        raise ValueError(f"`spread` must be a finite number >= 0; got {spread}.")


def check_probes(count: int, schema: Schema) -> None:
    """Raises unless so many rows fit into memory."""
    check_whole("count", count, least=1, most=LARGEST_TABLE // (8 * len(schema.inputs)))


def _default_schema(dx: int, du: int, outputs: int) -> Schema:
    states = [f"x{k}" for k in range(dx)]
    names = states if outputs == dx else [f"y{k}" for k in range(outputs)]
    return make_schema(states, [f"u{k}" for k in range(du)], names)


def _episode_ids(episodes: ArrayLike | None, rows: int) -> NDArray[np.int64]:
    if episodes is None:
        return np.zeros(rows, dtype=np.int64)
    ids = np.asarray(episodes)
    if ids.shape != (rows,):
        raise ValueError(f"`episodes` must have shape ({rows},); got {ids.shape}. Give one id per row.")
    return number_episodes(ids)


def number_episodes(ids: NDArray[Any]) -> NDArray[np.int64]:
    """(N,) episodes counted as they first appear.

    Sorting instead would number the text of a ``.csv`` (10 before 2) unlike the numbers of an
    ``.npz``, and one seed would split the same data in two ways.
    """
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in ids.tolist()], dtype=np.int64)


def _box_limits(box: Box, schema: Schema, low: Array, high: Array) -> tuple[Array, Array]:
    check_known("box", box, "inputs", schema.inputs)
    low, high = low.copy(), high.copy()
    for name, limits in box.items():
        column = schema.inputs.index(name)
        low[column], high[column] = limits if isinstance(limits, (tuple, list)) else (limits, limits)
    wrong = ~(np.isfinite(low) & np.isfinite(high) & (low <= high))
    if wrong.any():
        column = int(np.argmax(wrong))
        raise ValueError(
            f"`box` must have finite limits, low <= high; got {low[column]}:{high[column]} for "
            f"'{schema.inputs[column]}'."
        )
    return low, high
