"""Evidence `proved`: the interval of every cell, shown again by interval arithmetic on M's own code.

Along the straight way from a cell's centre c to an input s, ``M(s) - M(c)`` is the integral of the
derivative, times ``s - c``. Ball and box are convex, so that the way stays inside both. Write D(x) for a
bound on the derivative's length (scaled) over inputs within x of c; it grows with x. Then ``|M(s) - M(c)| <=
(1/ρ ∫_0^ρ D) ρ`` at distance ρ; and the mean of a growing D is largest at the rim. The integral is at most
the sum over any shells of D at their outer radius times their width.

Where that is not enough, shells are made finer, and then boxes are cut into pieces, those beyond the ball
left out. What still cannot be shown is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tether.foundation.executors import current
from tether.verification import intervals
from tether.verification.cellclaims import CellClaim
from tether.verification.claim import HALF_TURN, Claim
from tether.verification.elementary import constant
from tether.verification.graph import Node, UnboundedError
from tether.verification.interpreter import Enclosure, enclose, exact_values, reason
from tether.verification.intervals import Array, add_down, add_up, divide_up, multiply_up, root_up
from tether.verification.roundings import interval_rounding
from tether.verification.tracing import Program

Index = NDArray[np.int64]
_EFFORTS = ((1, 1), (2, 1), (4, 1), (1, 8), (2, 16))
"""Shells per stated shell and pieces per box, tried in turn."""
_WORTH_EFFORT = 2.0
"""How much more than stated may be needed for finer shells and pieces to be tried: they gain no more."""
_INTERVAL_SHELLS = 4
_BOXES = 4096
"""Boxes in one go: what fits into a processor's cache."""


def target_program(program: Program, claim: Claim) -> Program:
    """The program of M's target: next states, or increments."""
    if claim.target != "increment":
        return program
    nodes, outputs, lines = list(program.nodes), list(program.outputs), list(program.lines)
    for output, state in enumerate(claim.schema.advances):
        if state >= 0:
            nodes += [Node("input", (), state), Node("subtract", (outputs[output], len(nodes)))]
            lines += ["", ""]
            outputs[output] = len(nodes) - 1
    return Program(tuple(nodes), tuple(lines), tuple(outputs))


def shortfalls(claim: CellClaim, program: Program) -> Iterator[tuple[int, str | None]]:
    """How many cells more were looked at, and what cannot be shown of the first that fails."""
    pieces = [np.arange(start, min(start + _BOXES, len(claim))) for start in range(0, len(claim), _BOXES)]
    shown = current().map(partial(_first_shortfall, claim, program), zip(pieces))
    yield from zip(map(len, pieces), shown, strict=True)


@dataclass(frozen=True, eq=False)
class _Verdict:
    """What was shown of n cells.

    Attributes:
        shown: (n,) whether everything was.
        ratio: (n,) how many times what is stated would be needed; infinite where no effort can help.
        words: per cell that fails, why.
    """

    shown: NDArray[np.bool_]
    ratio: Array
    words: dict[int, str]


def _first_shortfall(claim: CellClaim, program: Program, cells: Index) -> str | None:
    waiting = cells
    for effort, (shells, pieces) in enumerate(_EFFORTS):
        verdict = _interval(_Region(claim, program, waiting), shells, pieces)
        failed = ~verdict.shown
        if not failed.any():
            return None
        last = effort == len(_EFFORTS) - 1
        hopeless = failed & (last | ~(verdict.ratio <= _WORTH_EFFORT))
        if hopeless.any():
            cell = int(waiting[hopeless.argmax()])
            return f"cell {cell}: {verdict.words[cell]}"
        waiting = waiting[failed]
    return None


@dataclass(frozen=True, eq=False)
class _Region:
    """The coverage regions of some cells, and M over parts of them."""

    claim: CellClaim
    program: Program
    cells: Index

    def around(self, radii: Array) -> tuple[Array, Array]:
        """(n, D) the boxes around balls of radii (n,), cut to the domain; they hold the centre."""
        claim, center = self.claim, self.claim.centers[self.cells]
        reach = multiply_up(radii[:, None], claim.cells("scale"))
        low = np.maximum(add_down(center, -reach), claim.cells("box_lower"))
        high = np.minimum(add_up(center, reach), claim.cells("box_upper"))
        return np.minimum(low, center), np.maximum(high, center)

    def at_center(self) -> tuple[Array, Array]:
        """(n, P) least and greatest that the exact value of M's target at the centres can be."""
        return exact_values(self.program, self.claim.centers[self.cells])

    def pieces(self, radii: Array, count: int) -> Iterator[tuple[Array, Array, NDArray[np.bool_]]]:
        """The boxes in about `count` pieces: their ends, and (n,) which of them may reach into the ball."""
        low, high = self.around(radii)
        if count == 1:
            yield low, high, np.ones(len(low), dtype=bool)
            return
        cuts, ranking = count.bit_length() - 1, self._ranking(low, high)
        rows = np.arange(len(low))
        for pattern in range(1 << cuts):
            part = low.copy(), high.copy()
            for cut in range(cuts):
                column = ranking[:, cut % ranking.shape[1]]
                middle = 0.5 * part[0][rows, column] + 0.5 * part[1][rows, column]
                part[1 - (pattern >> cut & 1)][rows, column] = middle
            yield *part, ~self._beyond(*part, radii)

    def _beyond(self, low: Array, high: Array, radii: Array) -> NDArray[np.bool_]:
        """Whether boxes are certainly farther from the centre than the radius."""
        center, scale = self.claim.centers[self.cells], self.claim.cells("scale")
        gap = np.maximum(np.maximum(add_down(low, -center), add_down(center, -high)), 0.0)
        scaled = np.maximum(intervals.down(gap / scale), 0.0)
        total = np.zeros(len(low))
        for column in scaled.T:
            total = add_down(total, np.maximum(intervals.down(column * column), 0.0))
        return total > multiply_up(radii, radii)

    def _ranking(self, low: Array, high: Array) -> NDArray[np.int64]:
        """(n, up to 4) the inputs along which cutting helps most: collapsing them saves most."""
        doubts = []
        for column in range(low.shape[1]):
            thin = low.copy(), high.copy()
            thin[0][:, column] = thin[1][:, column] = 0.5 * low[:, column] + 0.5 * high[:, column]
            doubts.append(self._doubt(*thin))
        doubt = np.nan_to_num(np.stack(doubts, axis=1), nan=np.inf)
        return np.argsort(doubt, axis=1, kind="stable")[:, : min(4, low.shape[1])]

    def _doubt(self, low: Array, high: Array) -> Array:
        found, scale = enclose(self.program, low, high, slopes=True), self.claim.cells("scale")
        total = np.zeros(len(low))
        with np.errstate(all="ignore"):
            for output, slopes in enumerate(found.slopes):
                widths = [((part[1] - part[0]) * scale[d]) ** 2 for d, part in slopes.items()]
                total += np.sqrt(sum(widths)) + 1e-3 * (found.upper[output] - found.lower[output])
        return total

    def survey(self, radii: Array, pieces: int) -> _Survey:
        """M and the length of its derivative over the balls of some radii (n, R)."""
        count, shells = radii.shape
        stacked = replace(self, cells=np.repeat(self.cells, shells))
        whole: _Survey | None = None
        for low, high, reaches in stacked.pieces(radii.ravel(), pieces):
            found = enclose(self.program, low, high, slopes=True)
            length = self._lengths(found)
            part = _Survey(found.lower.T, found.upper.T, found.error.T, length)
            part = part if pieces == 1 else part.only(reaches)
            whole = part if whole is None else whole.joined(part)
        assert whole is not None
        return whole.reshaped(count, shells)

    def _lengths(self, found: Enclosure) -> Array:
        """(B, P) the largest length (scaled) of the derivative."""
        scale, none = self.claim.cells("scale"), np.zeros(found.lower.shape[1])
        with np.errstate(all="ignore"):
            lengths = [
                # A derivative that is constant is a number, not an array.
                _length([none, *(none + _largest(part, scale[d]) for d, part in slopes.items())])
                for slopes in found.slopes
            ]
        return np.stack(lengths, axis=1)

    def turns(self, lower: Array, upper: Array, stated: Array) -> tuple[Array, Array]:
        """(n, P) what to add to M's angles, in whole turns, to compare them with stated ones; 0 for the rest.

        Sound because a distance on the circle is at most that on the line, whatever turns are added.
        """
        middle = 0.5 * lower + 0.5 * upper
        count = np.round((stated - middle) / (2 * np.pi)) * self.claim.schema.output_angles
        count = np.where(np.isfinite(count), count, 0.0)
        return intervals.multiply((count, count), _TURN)


def _largest(slope: intervals.Interval, scale: float) -> Array:
    """The largest size of a derivative along an input, scaled."""
    return multiply_up(np.maximum(np.abs(slope[0]), np.abs(slope[1])), scale)


def _length(parts: list[Array]) -> Array:
    """Euclidean length, rounded up; in units of the largest part, so that no square vanishes or overflows."""
    largest = np.maximum.reduce(parts)
    unit = np.where((largest > 0) & (largest < np.inf), largest, 1.0)
    total = np.zeros_like(largest)
    for part in parts:
        share = divide_up(part, unit)
        total = add_up(total, multiply_up(share, share))
    return multiply_up(root_up(total), unit)


_TURN = constant(lambda: 2 * arb.pi())


@dataclass(frozen=True, eq=False)
class _Survey:
    """Over each ball: M's range, its error in float64, and its derivative's length; (..., P) each."""

    lower: Array
    upper: Array
    error: Array
    length: Array

    def only(self, reaches: NDArray[np.bool_]) -> _Survey:
        """Nothing at all where a piece does not reach into its ball."""
        keep = reaches[:, None]
        empty = (np.inf, -np.inf, 0.0, 0.0)
        parts = (self.lower, self.upper, self.error, self.length)
        return _Survey(*(np.where(keep, part, none) for part, none in zip(parts, empty, strict=True)))

    def joined(self, other: _Survey) -> _Survey:
        """Both together; NaN stays."""
        return _Survey(
            np.minimum(self.lower, other.lower),
            np.maximum(self.upper, other.upper),
            np.maximum(self.error, other.error),
            np.maximum(self.length, other.length),
        )

    def reshaped(self, *shape: int) -> _Survey:
        """With the first axis in several."""
        parts = (self.lower, self.upper, self.error, self.length)
        return _Survey(*(part.reshape(*shape, part.shape[-1]) for part in parts))


def _finer(radii: Array, count: int) -> Array:
    """Each shell of (n, L) in `count` of about equal width."""
    inner = np.concatenate([np.zeros_like(radii[:, :1]), radii[:, :-1]], axis=1)
    parts = [inner + (radii - inner) * (k / count) for k in range(1, count)] + [radii]
    return np.stack(parts, axis=2).reshape(len(radii), -1)


def _means(radii: Array, lengths: Array) -> Array:
    """(n, R, P) a bound on the mean length over the way from the centre to each radius."""
    # A growing function in any case: only then is its mean largest at the rim.
    growing = np.maximum.accumulate(lengths, axis=1)
    total, inner, means = np.zeros_like(lengths[:, 0]), np.zeros(len(radii)), []
    for shell in range(radii.shape[1]):
        width = np.maximum(add_up(radii[:, shell], -inner), 0.0)
        total = add_up(total, multiply_up(width[:, None], growing[:, shell]))
        inner = radii[:, shell]
        means.append(divide_up(total, inner[:, None]))
    return np.stack(means, axis=1)


def _gap(region: _Region, point: tuple[Array, Array], stated: Array) -> Array:
    """(n, P) how far M at the centre can be from a stated number, on the circle for angles."""
    low, high = intervals.add(point, region.turns(*point, stated))
    return np.maximum(add_up(high, -stated), add_up(stated, -low))


def _interval(region: _Region, shells: int, pieces: int) -> _Verdict:
    """Whatever is between `lower` and `upper` must be within delta of whatever M can be."""
    claim, cells = region.claim, region.cells
    center, lower, upper, delta = (
        claim.bounds(name)[cells] for name in ("center", "lower", "upper", "delta")
    )
    reach = claim.reach[cells]
    radii = _finer(reach[:, None], shells * _INTERVAL_SHELLS if shells > 1 else 1)
    found = region.survey(radii, pieces)
    point = region.at_center()
    with np.errstate(all="ignore"):
        change = multiply_up(_means(radii, found.length)[:, -1], reach[:, None])
        gap = _gap(region, point, center)
        error = found.error[:, -1]
        tolerance = 1e-9 * (np.abs(center) + np.abs(upper - lower) + change + claim.base) + 2 * error + 1e-300
        # Both hold what M returns, the one as it is and the other with M's error; so does their overlap.
        strayed = add_up(change, error)
        low = np.maximum(found.lower[:, -1], add_down(point[0], -strayed))
        high = np.minimum(found.upper[:, -1], add_up(point[1], strayed))
        low, high = intervals.add((low, high), region.turns(low, high, 0.5 * lower + 0.5 * upper))
        own = np.maximum(np.abs(low), np.abs(high))
        rounding = interval_rounding(claim, cells, own)
        needed = add_up(np.maximum(add_up(upper, -low), add_up(high, -lower)), rounding)
    unknown = np.isnan(needed).any(axis=1) | np.isnan(gap).any(axis=1)
    # No two angles are farther apart than half a turn.
    trivial = claim.schema.output_angles & (delta >= HALF_TURN)
    placed, enough = gap <= tolerance, (needed <= delta) | trivial
    words, ratio = {}, np.ones(len(cells))
    for row in np.flatnonzero(unknown | ~(placed & enough).all(axis=1)):
        if unknown[row]:
            text = _no_bound(region, int(row))
        elif not placed[row].all():
            output = int(np.argmin(placed[row]))
            away = gap[row, output]
            text = f"{claim.output(output)}: M at the memory is off the stated center by {away:.6g}"
            ratio[row] = np.inf
        else:
            output = int(np.argmin(enough[row]))
            text = _too_small(claim, output, "delta", delta[row, output], needed[row, output])
            ratio[row] = needed[row, output] / delta[row, output] if delta[row, output] > 0 else np.inf
        words[int(cells[row])] = text
    return _Verdict((placed & enough).all(axis=1) & ~unknown, ratio, words)


def _too_small(claim: CellClaim, output: int, what: str, have: float, want: float) -> str:
    return f"{claim.output(output)}: {what} is {have:.6g}, not the {want:.6g} needed"


def _no_bound(region: _Region, row: int) -> str:
    """Why nothing is known of a cell."""
    one = replace(region, cells=region.cells[row : row + 1])
    low, high = one.around(one.claim.reach[one.cells])
    try:
        return f"the trusted model has {reason(region.program, low, high)}"
    except UnboundedError as error:  # pragma: no cover (the program was run on these boxes before)
        return f"the trusted model has {error}"
