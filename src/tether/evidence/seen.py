"""What can be known of M from its values alone: an M that is a black box, over boxes.

Nothing here is a bound: what is seen of M at some points is called seen, and what it is worth is said by
:class:`Sampled`, nothing, and by :class:`Statistical`, which tries it on fresh draws.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tether.data import HALF_TURN, Array, Schema, Target
from tether.evidence.evidence import Evidence
from tether.evidence.expansions import Expander, Leaves, middles, straight
from tether.evidence.question import Question, on_circle
from tether.geometry.cells import Cells
from tether.trusted import TrustedModel

_POINTS = 12
"""Drawn in each box, half of them among its corners."""
_TAKEN_APART = 2
"""Of those, how many are moved back to the middle input by input, to see what each contributes."""
_STEP = 1e-3
"""Of a box, the step that finds a slope without mistaking a turn of an angle for one."""
_MOST_POINTS = 256
"""Drawn in each box that is kept, at most, for a last look."""
_PAIRS = 256
_LINEAR = 1e-9
_EPS = np.finfo(np.float64).eps
_PIECE = 1 << 22
"""Numbers at once."""


@dataclass(frozen=True)
class Seen(Evidence, ABC):
    """Evidence from values of M."""

    everywhere = False

    def lacking(self, trusted: TrustedModel, kind: str, question: Question | None = None) -> str | None:
        """Nothing: whatever can be called has values."""
        del trusted, kind, question
        return None

    def range_over(self, cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> None:
        """Only what is seen."""
        del cells, trusted, schema, target

    def expander(self, question: Question) -> Expander:
        """From points in every box."""
        return _Seen(question)


class _Seen(Expander):
    """Slopes from the middle along each input, and the largest deviation at any of the points asked.

    Differences of angles are taken on the circle, so that an M that wraps them by itself has no jumps there.
    A leaf takes ``1 + 3 D + 12 + 2 D`` rows of M, and about two of them are looked at for each that is kept.
    Half of the calls that M may be asked are for growing; what the leaves at the end leave of the others is
    for a second look at each, because a corner behind a kink is easily missed.
    """

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        inputs, outputs = len(question.lower), len(question.schema.outputs)
        self.rng = np.random.default_rng([question.sampling.seed, 0xB0C5])
        self.each = 1 + 3 * inputs + _POINTS + _TAKEN_APART * inputs
        first = outputs * self.each + _PAIRS * (2 + 3 * inputs)
        self.left = max(0, question.sampling.calls - first) // 2
        self.most_leaves = outputs + self.left // (2 * self.each)
        self.bends = _bending(question, self.rng)

    def expand(self, output: NDArray[np.int64], lower: Array, upper: Array) -> Leaves:
        """As many boxes at once as memory has room for."""
        size = max(1, _PIECE // (self.each * lower.shape[1]))
        pieces = [slice(k, k + size) for k in range(0, len(output), size)]
        return Leaves.joined([self._expand(output[k], lower[k], upper[k]) for k in pieces])

    def _expand(self, output: NDArray[np.int64], lower: Array, upper: Array) -> Leaves:
        middle, held = middles(lower, upper, self.question.pinned)
        look = _Look.at(lower, upper, middle, self.rng)
        change = self._changes(look, output)
        angle = self.question.schema.output_angles[output][:, None]
        slope = look.slope(change, angle, held)
        missed = on_circle(change - look.along(slope), angle)
        value, remainder = self._ask(middle, output), np.abs(missed).max(axis=1)
        # A jump is better known by its two sides than by a slope across it.
        low, high = change.min(axis=1), change.max(axis=1)
        flat = (0.5 * (high - low) < remainder) & ~held
        slope = np.where(flat[:, None], 0.0, slope)
        value = np.where(flat, value + 0.5 * (low + high), value)
        remainder = np.where(flat, 0.5 * (high - low), remainder)
        remainder = np.where(angle[:, 0], np.minimum(remainder, HALF_TURN), remainder)
        centred = np.ones(len(middle), dtype=bool)
        return Leaves(
            middle, value, slope, remainder, look.shares(missed, angle), centred, straight(len(middle))
        )

    def settle(self, leaves: Leaves, output: NDArray[np.int64], lower: Array, upper: Array) -> Leaves:
        """With the largest deviation of further points."""
        each = min(_MOST_POINTS, self.left // len(output))
        if each == 0:
            return leaves
        found = np.empty(len(output))
        size = max(1, _PIECE // (each * lower.shape[1]))
        for k in (slice(start, start + size) for start in range(0, len(output), size)):
            found[k] = self._farthest(leaves.take(k), output[k], lower[k], upper[k], each)
        return replace(leaves, remainder=np.maximum(leaves.remainder, found))

    def needed(
        self, output: NDArray[np.int64], lower: Array, upper: Array, *, slope: Array, value: Array
    ) -> Array:
        """The largest deviation seen: at most what there is."""
        middle, _ = middles(lower, upper, self.question.pinned)
        nothing = np.zeros(len(output))
        centred = np.ones(len(middle), dtype=bool)
        models = Leaves(middle, value, slope, nothing, np.zeros_like(slope), centred, straight(len(middle)))
        return self._farthest(models, output, lower, upper, _POINTS)

    def _farthest(
        self, models: Leaves, output: NDArray[np.int64], lower: Array, upper: Array, each: int
    ) -> Array:
        """(K,) the largest deviation from models at so many points of each box, a few of them corners."""
        drawn = _drawn(lower, upper, each, self.rng)
        values = self._ask(drawn.reshape(-1, drawn.shape[2]), np.repeat(output, each)).reshape(-1, each)
        away = drawn - models.middle[:, None]
        expected = models.value[:, None] + np.einsum("ksd,kd->ks", away, models.slope)
        angle = self.question.schema.output_angles[output][:, None]
        return np.abs(on_circle(values - expected, angle)).max(axis=1)

    def _changes(self, look: _Look, output: NDArray[np.int64]) -> Array:
        """(K, S) M at the points less M at the middle, of angles within half a turn."""
        count, each, inputs = look.points.shape
        values = self._ask(look.points.reshape(-1, inputs), np.repeat(output, each)).reshape(count, each)
        angle = self.question.schema.output_angles[output][:, None]
        return on_circle(values - values[:, :1], angle)

    def _ask(self, points: Array, output: NDArray[np.int64]) -> Array:
        return self.question.values(points)[np.arange(len(points)), output]


@dataclass(frozen=True, eq=False)
class _Look:
    """Points of boxes, at which M is looked at.

    The middle, a small step along each input, both ends along each, points drawn anywhere, and some of those
    with one input after another put back to the middle.

    Attributes:
        points: (K, S, D).
        middle: (K, D).
    """

    points: Array
    middle: Array

    @classmethod
    def at(cls, lower: Array, upper: Array, middle: Array, rng: np.random.Generator) -> _Look:
        """In boxes (K, D)."""
        count, inputs = lower.shape
        eye = np.eye(inputs, dtype=bool)
        towards = np.where(upper - middle >= middle - lower, upper, lower)
        small = middle + _STEP * (towards - middle)
        ends = [np.where(eye, end[:, None], middle[:, None]) for end in (small, upper, lower)]
        drawn = _drawn(lower, upper, _POINTS, rng)
        apart = np.where(eye, middle[:, None, None], drawn[:, -_TAKEN_APART:, None])
        parts = [middle[:, None], *ends, drawn, apart.reshape(count, -1, inputs)]
        return cls(np.concatenate(parts, axis=1), middle)

    def along(self, slope: Array) -> Array:
        """(K, S) ``slope (s - middle)`` at the points."""
        return np.einsum("ksd,kd->ks", self.points - self.middle[:, None], slope)

    def slope(self, change: Array, angle: NDArray[np.bool_], held: NDArray[np.bool_]) -> Array:
        """(K, D) from end to end of the box; of boxes that hold what is pinned, M's own at that point."""
        inputs = self.middle.shape[1]
        axis = np.arange(inputs)
        away = self.points[:, 1 : 1 + 3 * inputs] - self.middle[:, None]
        small, above, below = (away[:, axis + k * inputs, axis] for k in range(3))
        parts = np.split(change[:, 1 : 1 + 3 * inputs], 3, axis=1)
        own = np.divide(parts[0], small, out=np.zeros_like(small), where=small != 0)
        # What the small step's slope leaves at the ends is less than a turn.
        high, low = (on_circle(parts[k] - own * way, angle) for k, way in ((1, above), (2, below)))
        span = above - below
        more = np.divide(high - low, span, out=np.zeros_like(span), where=span > 0)
        return np.where(held[:, None], own, own + more)

    def shares(self, missed: Array, angle: NDArray[np.bool_]) -> Array:
        """(K, D) what each input contributes to the deviations (K, S) seen, alone or with the others."""
        count, inputs = self.middle.shape
        ends = np.abs(missed[:, 1 + inputs : 1 + 3 * inputs]).reshape(count, 2, inputs).max(axis=1)
        first = 1 + 3 * inputs + _POINTS
        back = missed[:, first:].reshape(count, _TAKEN_APART, inputs)
        change = np.abs(on_circle(missed[:, first - _TAKEN_APART : first, None] - back, angle[:, None]))
        return np.maximum(ends, change.max(axis=1))


def _drawn(lower: Array, upper: Array, each: int, rng: np.random.Generator) -> Array:
    """(K, each, D) points of boxes (K, D), every other one a corner."""
    share = rng.random((len(lower), each, lower.shape[1]))
    share[:, ::2] = np.round(share[:, ::2])
    drawn = lower[:, None] + share * (upper - lower)[:, None]
    return np.clip(drawn, lower[:, None], upper[:, None])


def _bending(question: Question, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(P, D) along which inputs second differences of M were seen, of each alone and with the others."""
    inputs = len(question.lower)
    one, two = rng.uniform(question.lower, question.upper, (2, _PAIRS, inputs))
    eye = np.eye(inputs, dtype=bool)[:, None]
    half = 0.5 * one + 0.5 * two
    moved = [np.where(eye, to, start) for to, start in ((two, one), (half, one), (one, two))]
    asked = np.concatenate([one[None], two[None], *moved])
    values = question.values(asked.reshape(-1, inputs)).reshape(len(asked), _PAIRS, -1)
    there, middle, here = np.split(values[2:], 3)
    angles = question.schema.output_angles
    alone = np.abs(on_circle(values[0] - 2 * middle + there, angles))
    crossed = np.abs(on_circle((values[0] - there) - (here - values[1]), angles))
    least = _LINEAR * np.ptp(values, axis=(0, 1)) + 64 * _EPS * np.abs(values).max(axis=(0, 1))
    return (np.maximum(alone, crossed).max(axis=1) > least).T
