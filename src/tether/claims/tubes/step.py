"""One step of a tube: from a set of states to one that holds whatever the model can make of them.

Theorem. Let every rollout be in X_t after t steps, up to whole turns of angles, and let its control be in
U_t. If every input ``s = (x, u)`` of ``X_t x U_t`` lies in the operating box, where the model's target is
within ``apart`` of ``L(s) = value + slope (s - point)`` whatever the weights, then the next state is in
``base(s) + L(s) ± apart``, an affine image of the set and a box. Its centre and generators are computed in
floats; what these are off by is added to the box (see :mod:`.zonotopes`), and so is the rounding of the
model's own wrapping of angles. By induction every rollout is in X_t at each step t.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.claims.carrying import carried_states
from tether.claims.tubes.controls import Controls
from tether.claims.tubes.expansion import Expansion, Lines, both
from tether.claims.tubes.limits import Added, Reach, TubeLimits
from tether.claims.tubes.pieces import Pieces, cut, slack_of, too_many
from tether.claims.tubes.ties import Carried, Tied
from tether.claims.tubes.zonotopes import EPS, FAINT, Zonotopes, least_useful, sum_up
from tether.data import Array, Schema
from tether.programs import Program

SPARE = 1e-9
"""What remainders are made larger by, so that other sound arithmetic than ours can show them again."""
_WORTH = 0.1
"""As a share of delta, M's bending over a set for which it is cut in parts."""
_WORTH_OF_OWN = 0.1
"""The same, where the weights are known and half-widths may be far below delta."""
_PART_SHELLS = 2
NO_BOUND = "the trusted model has no bound over the set"


@dataclass(frozen=True, eq=False)
class Taken:
    """A step of N rows, with all that is needed to check it.

    Attributes:
        after: the sets of next states; generators are those of `kept`, then a box.
        kept: (N, k) which generators of the inputs were kept.
        point: (N, D) where L is expanded, as the model sees it.
        turns: (N, D) whole turns from there to the set.
        value: (N, P) of L there.
        slope: (N, P, D).
        apart: (N, P) how far the target may be from L.
        delta: (N, P) the largest distance to M over what was touched.
        feedback: of controls by a policy, what is kept of these.
        carried: of states that are not predicted, likewise.
        faults: by row, why there is no step, in words.
    """

    after: Zonotopes
    kept: NDArray[np.int64]
    point: Array
    turns: Array
    value: Array
    slope: Array
    apart: Array
    delta: Array
    feedback: Any = None
    carried: Any = None
    faults: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Found:
    """A line for each row and output: (N, P) value, (N, P, D) slope, and how far the model may be from it."""

    value: Array
    slope: Array
    apart: Array
    reach: Reach

    @classmethod
    def best(cls, lines: Lines, reach: Reach) -> _Found:
        """Of all candidates the one that leaves least, in the middle of what the model can be."""
        half = 0.5 * (reach.high - reach.low)
        pick = np.where(np.isfinite(half), half, np.inf).argmin(axis=0)
        value, slope = lines.chosen(pick)
        low, high = (np.take_along_axis(end, pick[None], axis=0)[0] for end in (reach.low, reach.high))
        middle = _finite(0.5 * low + 0.5 * high)
        moved = value + middle
        # From the value as it is rounded to either end.
        apart = np.maximum(high - middle, middle - low) + 4 * EPS * (
            np.abs(moved) + np.abs(value) + np.abs(middle)
        )
        return cls(moved, slope, np.where(np.isnan(apart), np.inf, apart), reach)


@dataclass(frozen=True, eq=False)
class Stepper:
    """What all steps share.

    Attributes:
        limits: what the tether says of sets.
        schema: what the columns mean.
        program: M's target as a program; None where M is not to be used.
        generators: at most how many a set may have.
        halvings: how often sets are cut over which M bends much.
        carried: the states that the model does not predict; None where it predicts all.
    """

    limits: TubeLimits
    schema: Schema
    program: Program | None
    generators: int
    halvings: int
    carried: Carried | None = None

    def begin(self, lower: Array, upper: Array) -> Zonotopes:
        """Sets that hold boxes of start states (N, dx), and what wrapping makes of their angles."""
        angles = self.schema.input_angles[: lower.shape[1]]
        outside = np.maximum(np.abs(lower), np.abs(upper)) >= np.pi
        more = np.where(angles & outside, 2 * slack_of(np.maximum(np.abs(lower), np.abs(upper))), 0.0)
        low = np.where(more > 0, np.nextafter(lower - more, -np.inf), lower)
        high = np.where(more > 0, np.nextafter(upper + more, np.inf), upper)
        return Zonotopes.boxes(low, high)

    def take(self, states: Zonotopes, controls: Controls, step: int) -> Taken:
        """One step of all rows; rows that cannot go on have a fault and are not to be used."""
        with np.errstate(all="ignore"):  # what is not finite ends a tube
            return self._take(states, controls, step)

    def _take(self, states: Zonotopes, controls: Controls, step: int) -> Taken:
        inputs, feedback = controls.joined(states, step)
        if self.carried is not None:  # a generator of each control, so that those that follow have one number
            inputs = inputs.padded(states.generators.shape[2] + len(self.schema.controls))
        lower, upper = inputs.hull()
        if feedback is not None:  # where controls are, beside being in the set
            own = states.center.shape[1]
            lower[:, own:] = np.maximum(lower[:, own:], feedback["lower"])
            upper[:, own:] = np.minimum(upper[:, own:], feedback["upper"])
        faults = self._outside(lower, upper)
        for row in faults:  # anything that can be followed
            lower[row] = upper[row] = inputs.center[row] = self._somewhere(inputs.center[row])
        pieces = cut(lower, upper, inputs.center, self.schema.input_angles)
        found = self._found(pieces)
        value, slope, apart = found.value, found.slope, found.apart * (1 + SPARE)
        reach = found.reach
        for row in np.flatnonzero(reach.unknown).tolist():
            faults.setdefault(row, "it reaches inputs at which nothing is known of the trusted model")
        for row in np.flatnonzero(~np.isfinite(apart).all(axis=1)).tolist():
            faults.setdefault(row, NO_BOUND)
        center, generators, rest, rounding = self._image(inputs, pieces, value, slope, _finite(apart))
        carried = None
        if self.carried is not None:
            tie = self.carried.beside(inputs, center, generators, rest)
            for row in np.flatnonzero(~np.isfinite(tie.rest).all(axis=1)).tolist():
                faults.setdefault(row, "the rule that carries states has no bound over the set")
            carried = {**tie.line, "box": rest}
            center, generators, rest = _together(center, generators, rest, rounding, tie)
        order = self.order
        after, kept = self._collected(center[:, order], generators[:, order], rest[:, order])
        line = (pieces.point, pieces.home, value, slope, apart)
        return Taken(after, kept, *line, reach.delta, feedback, carried, faults)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """(dx,) where each state is among those predicted and those carried."""
        schema = self.schema
        return np.argsort(np.concatenate([schema.advanced, carried_states(schema)]))

    def _found(self, pieces: Pieces) -> _Found:
        """The best line of each row and output, and how far the model may be from it."""
        parts = [self.limits.lines(pieces)]
        expansion = None if self.program is None else Expansion.of(self.program, pieces)
        if expansion is not None:
            parts.append(expansion.candidates(pieces.first))
        known = [part for part in parts if part is not None]
        added = self.limits.added(pieces)
        if added is not None:
            value, slope = (part[pieces.first] for part in added.line)
            known += [Lines(part.value + value, part.slope + slope) for part in known]
        lines = Lines(
            *(np.concatenate([getattr(part, name) for part in known]) for name in ("value", "slope"))
        )
        reach, shares = self._reach(lines, pieces, expansion, added)
        if expansion is not None and shares is not None:
            reach = self._refined(lines, pieces, reach, shares, expansion)
        return _Found.best(lines, reach)

    def _reach(
        self, lines: Lines, pieces: Pieces, expansion: Expansion | None, added: Added | None
    ) -> tuple[Reach, Array | None]:
        """Where the model can be beside lines, and what each input contributes to the doubt about M."""
        over = lines.over(pieces, self.schema.input_angles)
        if expansion is None:
            return self.limits.reach(lines, pieces, over, None, added), None
        slope, angles = lines.slope[:, pieces.row], self.schema.output_angles
        away, near = expansion.away(slope, angles, over), None
        if added is not None:
            rest, moved = added.taken_off(slope, over, expansion.reach)
            near = expansion.away(rest, angles, moved)
        return self.limits.reach(lines, pieces, over, away, added, near), away.shares

    def _refined(self, lines: Lines, pieces: Pieces, reach: Reach, shares: Array, whole: Expansion) -> Reach:
        """Where M's bending, not delta, makes most of the doubt: M over parts of the pieces once more."""
        half = _half(reach)
        worth = 1 + _WORTH if self.limits.weights is None else _WORTH_OF_OWN
        rows = np.flatnonzero((half > worth * reach.delta).any(axis=1) & np.isfinite(half).all(axis=1))
        if not len(rows) or not self.halvings or self.program is None:
            return reach
        doubt = (
            np.where(np.isfinite(shares), shares, 0.0).min(axis=0)
            / np.maximum(half[pieces.row], 1e-300)[..., None]
        ).max(axis=1)
        # What NumPy rounds anywhere in a piece it rounds at most in each part of it.
        rounding = np.maximum.reduceat(whole.rounding, pieces.first, axis=0)
        parts = pieces.refined(rows, doubt, self.halvings)
        expansion = Expansion.of(self.program, parts, _PART_SHELLS, rounding[rows][parts.row])
        finer, _ = self._reach(lines.take(rows), parts, expansion, self.limits.added(parts))
        low, high = reach.low.copy(), reach.high.copy()
        known = low[:, rows], high[:, rows]
        low[:, rows], high[:, rows] = both(known, (finer.low, finer.high), self.schema.output_angles)
        return replace(reach, low=low, high=high)

    def _image(
        self, inputs: Zonotopes, pieces: Pieces, value: Array, slope: Array, apart: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Predicted states, ``base(s) + L(s) ± apart``: centre (N, P), generators, a box, roundings in it."""
        schema = self.schema
        base = np.eye(len(schema.inputs))[schema.advanced] if self.limits.target == "increment" else 0.0
        # The way from the point that L is expanded at to the centre, but for whole turns.
        turned = 2 * np.pi * pieces.home * schema.input_angles
        way = inputs.center - turned - pieces.point
        loose = slack_of(inputs.center) * (turned != 0)
        # A next state that is an angle is on the turn of the wrapped state; an increment is added to the
        # state.
        start = (
            np.einsum("pd,nd->np", base, inputs.center)
            if np.ndim(base)
            else (turned[:, schema.advanced] * schema.output_angles)
        )
        center = start + value + np.einsum("npd,nd->np", slope, way)
        generators = np.matmul(slope + base, inputs.generators)
        # |slope + base| may itself be rounded: both are counted.
        size = np.abs(slope) + np.abs(base)
        extent = np.abs(way) + inputs.radius + loose
        sizes = np.abs(start) + np.abs(value) + np.einsum("npd,nd->np", size, extent)
        units = (slope.shape[2] + 16) * EPS
        exact = np.einsum("npd,nd->np", np.abs(slope), loose)
        rounding = sum_up(np.stack([units * sizes, exact], axis=-1)) + FAINT
        rest = sum_up(
            np.stack([apart, units * sizes, exact, self._wrapping() + np.zeros_like(apart)], axis=-1)
        )
        rest = np.where(sizes + apart == 0, 0.0, rest + (slope.shape[2] + 2) * FAINT)
        return center, generators, rest, rounding

    def _wrapping(self) -> Array:
        """(P,) what is lost where a predicted angle is brought back to [-π, π)."""
        return np.where(self.schema.output_angles, 2 * slack_of(self.limits.largest), 0.0)

    def _collected(
        self, center: Array, generators: Array, rest: Array
    ) -> tuple[Zonotopes, NDArray[np.int64]]:
        """Sets of these generators and a box, with the least useful ones in the box."""
        used = np.flatnonzero((generators != 0).any(axis=(0, 1)))
        most = max(0, self.generators - center.shape[1])
        kept = used[least_useful(generators[:, :, used], most)]
        dropped = np.ones(generators.shape[::2], dtype=bool)
        np.put_along_axis(dropped, kept, False, axis=1)
        extra = sum_up(np.abs(generators) * dropped[:, None])
        box = np.where(extra == 0, rest, np.nextafter(rest + extra, np.inf))
        left = np.take_along_axis(generators, kept[:, None], axis=2)
        return Zonotopes(center, np.concatenate([left, box[:, :, None] * np.eye(box.shape[1])], axis=2)), kept

    def _outside(self, lower: Array, upper: Array) -> dict[int, str]:
        """Rows whose inputs may leave the operating box, and by which input."""
        schema, (least, most) = self.schema, self.limits.box
        round_ = schema.input_angles & (least <= -np.pi) & (most >= np.nextafter(np.pi, 0.0))
        wide = too_many(lower, upper, schema.input_angles)
        faults = {row: "an angle is not known any more" for row in np.flatnonzero(wide).tolist()}
        # What is at π is seen at -π, which a box that is not the whole circle does not hold as well.
        beyond = (lower < least) | (upper > most) | (schema.input_angles & (upper >= np.pi))
        out = (beyond & ~round_) | ~np.isfinite(upper - lower)
        for row in np.flatnonzero(out.any(axis=1)).tolist():
            column = int(np.argmax(out[row]))
            faults[row] = may_leave(
                schema, column, (lower[row, column], upper[row, column]), (least[column], most[column])
            )
        return faults

    def _somewhere(self, center: Array) -> Array:
        return np.clip(np.where(np.isfinite(center), center, 0.0), *self.limits.box)


def may_leave(schema: Schema, column: int, ends: tuple[Any, Any], box: tuple[Any, Any]) -> str:
    """That an input may leave the operating box, in words."""
    return (
        f"'{schema.inputs[column]}' may be between {ends[0]:.6g} and {ends[1]:.6g}, and the operating box "
        f"ends at {box[0]:.6g} and {box[1]:.6g}"
    )


def _half(reach: Reach) -> Array:
    """(N, P) half of what the best candidate leaves."""
    return (0.5 * (reach.high - reach.low)).min(axis=0)


def _together(
    center: Array, generators: Array, rest: Array, rounding: Array, tie: Tied
) -> tuple[Array, Array, Array]:
    """Predicted states, then those carried, which are tied to the box of the first as well.

    Roundings of the first are counted once more in both: who checks a step need not have the same ones.
    """
    own = np.concatenate([generators, rest[:, :, None] * np.eye(rest.shape[1])], axis=2)
    gain = np.abs(tie.gain[:, :, tie.gain.shape[2] - rest.shape[1] :])
    more = sum_up(np.concatenate([gain * rounding[:, None], tie.rest[:, :, None]], axis=2))
    return (
        np.concatenate([center, _finite(tie.center)], axis=1),
        np.concatenate([own, _finite(tie.generators)], axis=1),
        np.concatenate([2 * rounding, _finite(more)], axis=1),
    )


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)
