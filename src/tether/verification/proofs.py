"""Evidence `proved`: the claim of a cell, shown again by ball arithmetic on M's own code.

Along the straight way from a cell's centre c to an input s, ``M(s) - M(c) - J (s - c)`` is the integral of
the derivative's deviation from J, times ``s - c``. Ball and box are convex, so that the way stays inside
both. Write D(x) for a bound on the deviation's length (scaled) over inputs within x of c; it grows with x.
Then ``|M(s) - A(s)| <= |M(c) - A(c)| + (1/ρ ∫_0^ρ D) ρ`` at distance ρ; and the mean of a growing D is
largest at the rim. The integral is at most the sum over any shells of D at their outer radius times their
width.

Where the sum over the stated shells is not enough, shells are made finer, and then boxes are cut into
pieces, those beyond the ball left out. What still cannot be shown is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx

from tether.data import Array
from tether.verification.arrays import evaluate
from tether.verification.claim import ROUNDOFF, Claim
from tether.verification.numbers import Number
from tether.verification.spans import PRECISION, Span, UnboundedError

_ONE: Span = (arb(1), arb(1))
_EFFORTS = ((1, 1), (2, 1), (4, 1), (1, 8), (2, 16))
"""Shells per stated shell and pieces per box, tried in turn."""
_WORTH_EFFORT = 2.0
"""How much more than stated may be needed for finer shells and pieces to be tried: they gain no more."""
_INTERVAL_SHELLS = 4
_M_ROUNDINGS = 32
"""What M's own float64 evaluation may be off by, in roundings of the numbers it returns: an assumption that
every certificate states."""


@contextmanager
def precision() -> Iterator[None]:
    """Flint's working precision, for as long as it is needed."""
    before = ctx.prec
    ctx.prec = PRECISION
    try:
        yield
    finally:
        ctx.prec = before


@dataclass(frozen=True, eq=False)
class Task:
    """What is needed to check any cell of a claim, in this process or another."""

    claim: Claim
    function: Callable[..., Any]

    def shortfall(self, cell: int) -> str | None:
        """What cannot be shown about a cell, in words; None where all can be."""
        with precision():
            region = _Region(self, cell)
            check = _affine_shortfall if self.claim.kind == "affine" else _interval_shortfall
            reason = ""
            for shells, pieces in _EFFORTS:
                try:
                    missing = check(region, shells, pieces)
                except UnboundedError as error:
                    missing = _Shortfall(f"the trusted model has {error}", 1.0)
                if missing is None:
                    return None
                reason = missing.reason
                if not missing.ratio <= _WORTH_EFFORT:
                    break
            return f"cell {cell}: {reason}"


class _Shortfall(NamedTuple):
    """What could not be shown, in words, and how many times the stated number would be needed."""

    reason: str
    ratio: float


def _too_small(output: str, what: str, stated: Any, needed: Any) -> _Shortfall:
    have, want = float(stated), float(needed.upper())
    ratio = want / have if have > 0 else np.inf
    return _Shortfall(f"output '{output}': {what} is {have:.6g}, not the {want:.6g} needed", ratio)


class _Region:
    """A cell's coverage region, and M over parts of it."""

    def __init__(self, task: Task, cell: int) -> None:
        claim = task.claim
        self.claim, self.function, self.cell = claim, task.function, cell
        self.center = [arb(value) for value in claim.centers[cell].tolist()]
        self.scale = [arb(value) for value in claim.cells("scale").tolist()]
        self.box = [
            tuple(arb(value) for value in pair)
            for pair in zip(claim.cells("box_lower").tolist(), claim.cells("box_upper").tolist(), strict=True)
        ]
        self.ranked: list[int] | None = None

    def around(self, radius: Any) -> list[Span]:
        """The box around the ball of that radius, cut to the domain; it holds the centre in any case."""
        spans = []
        for c, scale, (low, high) in zip(self.center, self.scale, self.box, strict=True):
            reach = radius * scale
            spans.append(((c - reach).max(low).min(c), (c + reach).min(high).max(c)))
        return spans

    def at_center(self) -> list[Number]:
        """M's target at the centre."""
        return self.targets([[(c, c) for c in self.center]])[0]

    def targets(self, boxes: list[list[Span]]) -> list[list[Number]]:
        """M's target over boxes: next states, or increments."""
        seeded = [[Number(span, {d: _ONE}) for d, span in enumerate(box)] for box in boxes]
        schema = self.claim.schema
        rows = evaluate(self.function, seeded, len(schema.states))
        shape = {len(row) for row in rows}
        if len(rows) != len(boxes) or shape != {len(schema.outputs)}:
            raise UnboundedError(f"{len(rows)} rows of {shape} outputs for {len(boxes)} boxes")
        if self.claim.target != "increment":
            return rows
        return [
            [out - box[a] if a >= 0 else out for out, a in zip(row, schema.advances, strict=True)]
            for row, box in zip(rows, seeded, strict=True)
        ]

    def pieces(self, radius: Any, count: int) -> list[list[Span]]:
        """The box around a ball in about `count` pieces, without those beyond the ball."""
        boxes = [self.around(radius)]
        if count == 1:
            return boxes
        cut = 0
        while len(boxes) < count and cut < count.bit_length() - 1:
            column = self._ranking()[cut % len(self._ranking())]
            boxes = [half for box in boxes for half in _halves(box, column)]
            cut += 1
        return [box for box in boxes if not self._beyond(box, radius)]

    def _beyond(self, box: list[Span], radius: Any) -> bool:
        """Whether a box is certainly farther from the centre than `radius`."""
        squared = arb(0)
        for (low, high), c, scale in zip(box, self.center, self.scale, strict=True):
            gap = ((low - c).max(c - high) / scale).max(arb(0))
            squared += gap * gap
        return bool(squared > radius * radius)

    def _ranking(self) -> list[int]:
        """The inputs along which cutting helps most, by what collapsing each to its middle saves."""
        if self.ranked is None:
            radius = arb(float(self.claim.reach[self.cell]))
            box = self.around(radius)
            doubts = []
            for column in range(len(box)):
                middle = (box[column][0] + box[column][1]) / 2
                thin = [*box[:column], (middle, middle), *box[column + 1 :]]
                try:
                    doubts.append(self._doubt(thin))
                except UnboundedError:
                    doubts.append(np.inf)
            if not np.isfinite(doubts).any():
                self.ranked = list(range(len(box)))
            else:
                # Those that save nothing are not worth a cut.
                worth = [k for k in np.argsort(doubts) if doubts[k] < 0.999 * max(doubts)]
                self.ranked = [int(k) for k in worth][:4] or list(range(len(box)))
        return self.ranked

    def _doubt(self, box: list[Span]) -> float:
        total = 0.0
        for number in self.targets([box])[0]:
            widths = [float((g[1] - g[0]) * self.scale[d]) ** 2 for d, g in number.gradient.items()]
            total += float(np.sqrt(sum(widths))) + 1e-3 * float(number.span[1] - number.span[0])
        return total

    def deviations(self, radii: list[Any], jacobian: Array, pieces: int) -> list[list[Any]]:
        """Per ball and output, the largest length (scaled) of the derivative's deviation from `jacobian`."""
        slopes = [[arb(value) for value in row] for row in jacobian.tolist()]
        parts = [self.pieces(radius, pieces) for radius in radii]
        rows = iter(self.targets([box for boxes in parts for box in boxes]))
        found = []
        for boxes in parts:
            lengths = [[self._length(out, slopes[j]) for j, out in enumerate(next(rows))] for _ in boxes]
            found.append([_largest(column) for column in zip(*lengths, strict=True)])
        return found

    def _length(self, output: Number, slopes: list[Any]) -> Any:
        squared = arb(0)
        for d, (slope, scale) in enumerate(zip(slopes, self.scale, strict=True)):
            part = output.gradient.get(d)
            gap = slope if part is None else (part[1] - slope).max(slope - part[0])
            gap = gap * scale
            squared += gap * gap
        return squared.sqrt()

    def turns(self, output: int, value: Span, stated: float) -> Any:
        """How much to add to M's angle, in whole turns, to compare it with a stated one; 0 for the rest.

        Sound because a distance on the circle is at most that on the line, whatever turns are added.
        """
        if not value[0].is_finite():
            raise UnboundedError("no finite value at the memory")
        if not self.claim.schema.output_angles[output]:
            return arb(0)
        return 2 * arb.pi() * round((stated - float(value[0].mid())) / (2 * np.pi))


def _largest(values: Any) -> Any:
    values = list(values)
    largest = values[0]
    for value in values[1:]:
        largest = largest.max(value)
    return largest


def _halves(box: list[Span], column: int) -> list[list[Span]]:
    low, high = box[column]
    middle = ((low + high) / 2).mid()
    return [[*box[:column], part, *box[column + 1 :]] for part in ((low, middle), (middle, high))]


def _finer(radii: list[Any], count: int) -> list[Any]:
    """Each shell in `count` of equal width."""
    inner = [arb(0), *radii[:-1]]
    return [
        a + (b - a) * k / count if k < count else b
        for a, b in zip(inner, radii, strict=True)
        for k in range(1, count + 1)
    ]


def _means(radii: list[Any], deviations: list[list[Any]]) -> list[list[Any]]:
    """Per radius and output, a bound on the mean deviation over the way from the centre to that radius."""
    means, sums, inner = [], [arb(0)] * len(deviations[0]), arb(0)
    largest = [arb(0)] * len(deviations[0])
    for radius, row in zip(radii, deviations, strict=True):
        # A growing function in any case: only then is its mean largest at the rim.
        largest = [old.max(new) for old, new in zip(largest, row, strict=True)]
        sums = [total + (radius - inner) * value for total, value in zip(sums, largest, strict=True)]
        means.append([total / radius for total in sums])
        inner = radius
    return means


def _affine_shortfall(region: _Region, shells: int, pieces: int) -> _Shortfall | None:
    """For every stated shell: slope times distance plus offset must be at least |M - A|.

    A blend of cells needs no more: it is an average of A's, and the distance from M to an average is at
    most the average of the distances.
    """
    claim, cell = region.claim, region.cell
    stated = [arb(value) for value in claim.bounds("radii")[cell].tolist()]
    radii = _finer(stated, shells)
    deviations = region.deviations(radii, claim.bounds("jacobian")[cell], pieces)
    means = _means(radii, deviations)[shells - 1 :: shells]
    needed = affine_rounding(claim, cell)
    for output, value in enumerate(region.at_center()):
        center = claim.bounds("center")[cell, output]
        turns = region.turns(output, value.span, center)
        gap = max_gap(value.span, turns, center) + arb(float(needed[output]))
        name = claim.schema.outputs[output]
        offset = arb(float(claim.bounds("offset")[cell, output]))
        if not gap <= offset:
            return _too_small(name, "the offset", offset, gap)._replace(ratio=np.inf)
        for shell, radius in enumerate(stated):
            slope = arb(float(claim.bounds("slopes")[cell, shell, output]))
            missing = (means[shell][output] - slope).max(arb(0)) * radius
            # What a slope lacks by roundings may be made up for by the offset.
            if not gap + missing <= offset:
                return _too_small(name, f"the slope of shell {shell}", slope, means[shell][output])
    return None


def _interval_shortfall(region: _Region, shells: int, pieces: int) -> _Shortfall | None:
    """Whatever is between `lower` and `upper` must be within delta of whatever M can be."""
    claim, cell = region.claim, region.cell
    reach = arb(float(claim.reach[cell]))
    radii = _finer([reach], shells * _INTERVAL_SHELLS if shells > 1 else 1)
    still = np.zeros((len(claim.schema.outputs), len(claim.schema.inputs)))
    means = _means(radii, region.deviations(radii, still, pieces))[-1]
    rows = region.targets(region.pieces(reach, pieces))
    rounding = interval_rounding(claim, cell)
    for output, value in enumerate(region.at_center()):
        name = claim.schema.outputs[output]
        center, lower, upper = (claim.bounds(key)[cell, output] for key in ("center", "lower", "upper"))
        turns, change = region.turns(output, value.span, center), means[output] * reach
        gap = max_gap(value.span, turns, center)
        if not gap <= 1e-9 * (abs(center) + abs(upper - lower) + float(change.abs_upper())) + 1e-300:
            reason = f"output '{name}': M at the memory is off the stated center by {float(gap.upper()):.6g}"
            return _Shortfall(reason, np.inf)
        # Both hold M, so that their overlap does.
        least = (-_largest(-row[output].span[0] for row in rows)).max(value.span[0] - change) + turns
        greatest = _largest(row[output].span[1] for row in rows).min(value.span[1] + change) + turns
        # Two roundings of M's own largest value, besides those of the size of the bounds.
        own = 2 * ROUNDOFF * least.abs_upper().max(greatest.abs_upper())
        needed = (arb(float(upper)) - least).max(greatest - arb(float(lower))) + arb(rounding[output]) + own
        if not needed <= arb(float(claim.bounds("delta")[cell, output])):
            return _too_small(name, "delta", claim.bounds("delta")[cell, output], needed)
    return None


def max_gap(value: Span, turns: Any, stated: Any) -> Any:
    """How far a value can be from a stated number."""
    exact = arb(float(stated))
    return (value[1] + turns - exact).max(exact - value[0] - turns)


def affine_rounding(claim: Claim, cell: int) -> Array:
    """(P,) roundings that an offset must cover: of A, of the limits and delta, of the base, and of M.

    A(s) takes D differences, D products and a sum of D + 1 numbers; the limits and the base one sum each;
    delta four operations. With u the roundoff this is (D + 4) u of the size of A, 7 u of the half-width,
    4 u of the remainder and one of the base; M may be off by 32 u of what it returns (2 u of its distance
    from A), and twice that of its turns, of which unwrapping an angle passes through a few.
    """
    scale, inputs = claim.cells("scale"), len(claim.schema.inputs)
    radius = claim.bounds("radii")[cell, -1]
    size = np.abs(claim.bounds("center")[cell]) + np.abs(claim.bounds("jacobian")[cell]) @ (scale * radius)
    remainder = claim.bounds("slopes")[cell, -1] * radius
    width = claim.bounds("half_width")[cell]
    turns = 2 * np.pi * claim.schema.output_angles
    roundings = (inputs + 4 + _M_ROUNDINGS) * size + 7 * width + 6 * remainder
    roundings = roundings + (1 + _M_ROUNDINGS) * claim.base + 2 * _M_ROUNDINGS * turns
    return roundings * ROUNDOFF * (1 + 1e-9)


def interval_rounding(claim: Claim, cell: int) -> list[float]:
    """(P,) roundings that an interval's delta must cover: of the base, and of M; the limits have none."""
    size = np.maximum(np.abs(claim.bounds("lower")[cell]), np.abs(claim.bounds("upper")[cell]))
    turns = 2 * np.pi * claim.schema.output_angles
    roundings = (1 + _M_ROUNDINGS) * (size + claim.base) + 2 * _M_ROUNDINGS * turns
    return (roundings * ROUNDOFF * (1 + 1e-9)).tolist()
