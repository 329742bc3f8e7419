"""Columns that follow others by a rule in NumPy: controls by a policy, states that a model does not predict.

For points z of a set, ``rule(z)`` is enclosed to first order, ``value + gain (z - point) ± apart``, so that
what follows stays tied to what it follows: the set's generators are moved by the gain, and a box is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.claims.carrying import Rule, carried_states
from tether.claims.tubes.expansion import Expansion
from tether.claims.tubes.pieces import cut, slack_of, too_many
from tether.claims.tubes.zonotopes import EPS, FAINT, Zonotopes, sum_up
from tether.data import Array, Schema
from tether.programs import EnclosureError, Program, program_of
from tether.trusted.rules import of_predictions


@dataclass(frozen=True, eq=False)
class Tied:
    """What follows N sets.

    Attributes:
        point: (N, D) where the line has its value, as the rule sees it.
        turns: (N, D) whole turns from there to the set.
        value: (N, R).
        gain: (N, R, D).
        center: (N, R).
        generators: (N, R, m) those of the set, moved.
        rest: (N, R) how far what follows may be beside that.
        least: (N, R) at most what the rule gives over the set; infinite where that is not known.
        most: (N, R) at least that.
    """

    point: Array
    turns: Array
    value: Array
    gain: Array
    center: Array
    generators: Array
    rest: Array
    least: Array
    most: Array

    @property
    def line(self) -> dict[str, Array]:
        """What is needed to check it, beside the sets."""
        return {"point": self.point, "turns": self.turns, "value": self.value, "gain": self.gain}


def tied(program: Program, sets: Zonotopes, angles: NDArray[np.bool_], turning: NDArray[np.bool_]) -> Tied:
    """What a rule makes of sets.

    Args:
        program: of the rule; it sees angles in [-π, π).
        sets: N of D columns.
        angles: (D,) which of them are angles.
        turning: (R,) which of the rule's are: whoever is given these wraps them, which loses a rounding.
    """
    lower, upper = sets.hull()
    lost = too_many(lower, upper, angles) | ~np.isfinite(upper - lower).all(axis=1)
    for row in np.flatnonzero(lost):  # anything that can be followed
        lower[row] = upper[row] = sets.center[row] = 0.0
    pieces = cut(lower, upper, sets.center, angles)
    expansion = Expansion.of(program, pieces)
    lines = expansion.candidates(pieces.first)
    over = lines.over(pieces, angles)
    away = expansion.away(lines.slope[:, pieces.row], np.zeros(over[0].shape[2], dtype=bool), over)
    low, high = (
        hull.reduceat(end, pieces.first, axis=1)
        for hull, end in ((np.minimum, away.low), (np.maximum, away.high))
    )
    pick = (high - low).argmin(axis=0)
    value, gain = lines.chosen(pick)
    low, high = (np.take_along_axis(end, pick[None], axis=0)[0] for end in (low, high))
    apart = np.maximum(np.abs(low), np.abs(high)) * (1 + 1e-9)
    turned = 2 * np.pi * pieces.home * angles
    way = sets.center - turned - pieces.point
    loose = slack_of(sets.center) * (turned != 0)
    center = value + np.einsum("npd,nd->np", gain, way)
    size = np.abs(gain)
    sizes = np.abs(value) + np.einsum("npd,nd->np", size, np.abs(way) + sets.radius + loose)
    units = (gain.shape[2] + 16) * EPS
    exact = np.einsum("npd,nd->np", size, loose)
    wrapping = np.where(turning, 2 * slack_of(sizes + apart), 0.0)
    rest = sum_up(np.stack([apart, units * sizes, exact, wrapping], axis=-1)) + FAINT
    rest = np.where(lost[:, None] | np.isnan(rest), np.inf, rest)
    least, most = (
        hull.reduceat(np.where(np.isnan(end), none, end), pieces.first, axis=0)
        + np.where(lost, none, 0.0)[:, None]
        for hull, end, none in ((np.minimum, expansion.low, -np.inf), (np.maximum, expansion.high, np.inf))
    )
    moved = np.matmul(gain, sets.generators)
    return Tied(pieces.point, pieces.home, value, gain, center, moved, rest, least, most)


@dataclass(frozen=True, eq=False)
class Carried:
    """States that a model does not predict, by a rule of states, controls and what it predicts.

    Attributes:
        program: of the rule.
        schema: what the columns mean.
        name: of the function.
    """

    program: Program
    schema: Schema
    name: str

    @classmethod
    def by(cls, rule: Rule, schema: Schema, box: tuple[Array, Array]) -> Carried:
        """The rule, traced over the operating box (D,)."""
        dx, inputs = len(schema.states), len(schema.inputs)
        ends = [np.concatenate([end, end[schema.advanced]]) for end in box]
        finite = np.isfinite(ends[0]) & np.isfinite(ends[1])
        low, high = np.where(finite, ends[0], -1.0), np.where(finite, ends[1], 1.0)

        try:
            program = program_of(of_predictions(rule, inputs - dx), low[None], high[None], dx)
        except EnclosureError as error:
            raise ValueError(f"`carried` must be a rule that can be enclosed; {error}") from None
        names = [schema.states[k] for k in carried_states(schema)]
        if len(program.tape.outputs) != len(names):
            raise ValueError(
                f"`carried` must return {len(names)} columns ({', '.join(names)}); got "
                f"{len(program.tape.outputs)}."
            )
        return cls(program, schema, getattr(rule, "__qualname__", type(rule).__qualname__))

    def beside(self, inputs: Zonotopes, center: Array, generators: Array, rest: Array) -> Tied:
        """The states carried, of sets of inputs and of predictions (N, P), in the order of the outputs."""
        predicted = np.concatenate([generators, rest[:, :, None] * np.eye(rest.shape[1])], axis=2)
        unknown = np.zeros((*inputs.center.shape, rest.shape[1]))
        together = Zonotopes(
            np.concatenate([inputs.center, center], axis=1),
            np.concatenate([np.concatenate([inputs.generators, unknown], axis=2), predicted], axis=1),
        )
        schema = self.schema
        angles = np.concatenate([schema.input_angles, schema.output_angles])
        return tied(self.program, together, angles, schema.input_angles[carried_states(schema)])
