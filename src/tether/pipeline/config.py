"""Everything a fit can be told, and what is settled before it begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tether.affine import AffineModel
from tether.constrained import (
    Operator,
)
from tether.data import Array, Box, Schema, Target, Transitions, check_known
from tether.documents import shorten
from tether.limits import MOST_LEAVES, MOST_MEMORIES, check_seed, check_whole, check_widths
from tether.logs.wrapping import check_wrapped
from tether.ranges import Evidence, SamplingConfig
from tether.training import TrainingConfig
from tether.trusted import TrustedModel

TetherKind = Literal["interval", "affine", "boxes"]
_LARGEST_FACTOR = 1e9
"""Beyond it squares of distances come near what float64 can hold."""


@dataclass(frozen=True)
class FitConfig:
    """Everything a fit can be told.

    Attributes:
        memories: number of memories (and cells).
        bounds: `interval`, the paper's constant range per cell; `affine`, a first-order model of M per cell
            and as much room as the data ask for; or `boxes`, first-order models over a whole operating box,
            cut where M bends.
        leaves: with `boxes`, into how many of them the box may be cut, for all outputs together.
        alpha: with `boxes`, share of observed rows that may lie outside the room they are given.
        unseen: with `boxes`, what is done where no data are: M is followed (`follow`), or the room is as wide
            as the widest (`open`).
        delta: with affine bounds, the distance to M to stay within, one number or one per output name;
            `memories` is then where the search for enough of them starts.
        metric: what makes cells small along an input: its spread in the `data`, or also how much the
            `trusted` model bends along it; by default the former for interval bounds, as in the paper,
            and the latter for affine ones.
        stretch: by how much larger cells are along an input than the metric makes them, by name; at 100 a
            change of that input all but never changes the cell.
        noise: standard deviation, in units of an input's scale and by its name, of what is added to the
            network's features while it trains, so that it leans less on an input that M explains.
        target: predict next states or increments; by default increments where every output
            advances a state, because interval bounds on them are tighter.
        evidence: how delta is known; `lipschitz` needs constants in the trusted model, `proved` an M
            written with NumPy functions, `statistical` only draws from it. By default `lipschitz` where M
            has constants, else `sampled`.
        decreasing: inputs in which no prediction may rise, exactly; needs affine bounds and an M that is a
            :class:`tether.AffineModel` with weights of at most 0 for them. See `docs/guarantees.md`.
        not_angles: columns that jump by a turn like an angle that wraps, and are none.
        operator: constraining operator; `clip` learns faster and ends more accurate than the paper's
            `sigmoid` on everything measured so far. `project` is HardNet's, for comparison.
        smooth: with affine bounds, blend those of neighbouring cells, so that predictions do not jump
            where cells meet.
        follow: where probes make an affine tether follow M exactly: at inputs that share the values on
            which all probes agree (`agreed`: at rest, wherever that is), or in every cell that holds a probe
            (`cells`). A cell without labelled data follows M in either case.
        hidden: layer widths of the network; None: with `boxes`, the best on validation episodes of a linear
            one and a few larger ones, else (256, 256).
        coverage: quantile of held-out inputs that the coverage radius must reach.
        reach: the coverage radius, as a multiple of what covers that quantile; where M is all but affine,
            more reach costs next to nothing.
        domain: limits of inputs by name, beyond which nothing is claimed.
        validation: share of episodes (and probes) held out to choose radius and weights.
        test: share of episodes (and probes) held out to measure.
        sampling: how hard M's range is searched.
        training: how the network is trained.
        seed: of split, memories, samples, weights and batches.
    """

    memories: int = 1000
    bounds: TetherKind = "interval"
    leaves: int = 20_000
    alpha: float = 0.01
    unseen: Literal["follow", "open"] = "follow"
    delta: float | Mapping[str, float] | None = None
    metric: Literal["data", "trusted"] | None = None
    stretch: Mapping[str, float] | None = None
    noise: Mapping[str, float] | None = None
    target: Target | None = None
    evidence: Evidence | None = None
    decreasing: tuple[str, ...] = ()
    not_angles: tuple[str, ...] = ()
    operator: Operator = "clip"
    smooth: bool = False
    follow: Literal["agreed", "cells"] = "agreed"
    hidden: tuple[int, ...] | None = None
    coverage: float = 0.995
    reach: float = 1.25
    domain: Box | None = None
    validation: float = 0.15
    test: float = 0.15
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        check_whole("memories", self.memories, least=1, most=MOST_MEMORIES)
        check_widths("hidden", self.hidden or ())
        check_whole("leaves", self.leaves, least=1, most=MOST_LEAVES)
        if not 0 < self.coverage <= 1:
            raise ValueError(f"`coverage` must be in (0, 1]; got {self.coverage}.")
        for name in ("validation", "test", "alpha"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be between 0 and 1; got {getattr(self, name)}.")
        if not 1 <= self.reach <= _LARGEST_FACTOR:
            raise ValueError(f"`reach` must be from 1 to {_LARGEST_FACTOR:g}; got {self.reach}.")
        if self.delta is not None and self.bounds == "interval":
            raise ValueError(
                "`delta` must come with bounds 'affine' or 'boxes'; got 'interval', whose delta follows from "
                "the number of memories. Choose bounds 'affine' (command line: `--bounds affine`), or leave "
                "`delta` out."
            )
        if self.smooth and self.bounds != "affine":
            raise ValueError(
                f"`smooth` must come with bounds 'affine'; got '{self.bounds}', whose bounds are steps."
            )
        if self.smooth and self.follow == "cells":
            raise ValueError(
                "`follow` must be 'agreed' with `smooth`; got 'cells', whose neighbours would be blended in."
            )
        self._check_names()
        self._check_domain()
        self._check_decreasing()
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {_options(allowed)}; got {getattr(self, name)!r}.")

    def _check_names(self) -> None:
        for name in ("decreasing", "not_angles"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"`{name}` must be a tuple of names; got the text {getattr(self, name)!r}.")

    def _check_domain(self) -> None:
        for name, limits in (self.domain or {}).items():
            low, high = limits if isinstance(limits, tuple | list) else (limits, limits)
            if not -math.inf < low <= high < math.inf:
                raise ValueError(
                    f"`domain` must have finite limits, low <= high; got {low}:{high} for '{shorten(name)}'."
                )

    def _check_decreasing(self) -> None:
        """Settings that mean nothing, or something else, to a tether that is monotone by construction."""
        if not self.decreasing:
            return
        if self.bounds != "affine":
            raise ValueError(
                f"`decreasing` must come with bounds 'affine'; got '{self.bounds}', whose bounds are steps."
            )
        allowed = {
            "delta": (None,), "smooth": (False,), "operator": ("clip",), "target": (None, "next_state"),
            "evidence": (None, "proved"), "metric": (None, "data"), "noise": (None,), "domain": (None,),
        }  # fmt: skip
        for name, values in allowed.items():
            given = getattr(self, name)
            if given not in values:
                wanted = " or ".join(repr(value) for value in values)
                raise ValueError(f"`{name}` must be {wanted} with `decreasing`; got {given!r}. Leave it out.")


_CHOICES = {
    "target": (None, "next_state", "increment"),
    "bounds": ("interval", "affine", "boxes"),
    "unseen": ("follow", "open"),
    "metric": (None, "data", "trusted"),
    "evidence": (None, "sampled", "statistical", "lipschitz", "proved"),
    "operator": ("sigmoid", "clip", "project"),
    "follow": ("agreed", "cells"),
}


def _options(allowed: tuple[str | None, ...]) -> str:
    return ", ".join(f"'{choice}'" for choice in allowed if choice is not None)


def resolve_inputs(option: str, values: Mapping[str, float] | None, schema: Schema, default: float) -> Array:
    """(D,) one number for each input: those given by name, `default` for the others."""
    given = values or {}
    check_known(option, given, "inputs", schema.inputs)
    least, most = 1 / _LARGEST_FACTOR, _LARGEST_FACTOR
    bad = [name for name, value in given.items() if not least <= value <= most]
    if bad:
        raise ValueError(
            f"`{option}` must be from {least:g} to {most:g}; got {given[bad[0]]} for '{bad[0]}'."
        )
    return np.array([given.get(name, default) for name in schema.inputs], dtype=np.float64)


def resolve_decreasing(decreasing: tuple[str, ...], schema: Schema, trusted: TrustedModel) -> AffineModel:
    """M as an affine model, after checking that nothing need rise in the inputs declared."""
    check_known("decreasing", decreasing, "inputs", schema.inputs)
    if schema.angles:
        raise ValueError(
            "`decreasing` must come with columns that do not wrap; got angles "
            f"{shorten(', '.join(schema.angles))}."
        )
    if set(decreasing) == set(schema.inputs):
        raise ValueError("`decreasing` must leave some inputs, for cells to be over; got all of them.")
    model = trusted.function
    if not isinstance(model, AffineModel):
        raise TypeError(
            f"`decreasing` must come with an affine trusted model; got {trusted.name}. Pass "
            "`tether.AffineModel(weights, intercept)`."
        )
    shape = (len(schema.outputs), len(schema.inputs))
    if model.weights.shape != shape:
        raise ValueError(
            f"`trusted` must have weights of shape (outputs, inputs) = {shape}; got {model.weights.shape}."
        )
    for name in decreasing:
        weights = model.weights[:, schema.inputs.index(name)]
        if (weights > 0).any():
            output = int(np.argmax(weights))
            raise ValueError(
                f"`decreasing` must name inputs whose weights in M are at most 0; got {weights[output]:.6g} "
                f"for '{name}' in output '{schema.outputs[output]}'. Leave it out, or refit M with that sign."
            )
    return model


def check_angles(transitions: Transitions, not_angles: tuple[str, ...]) -> None:
    """Raises where an output looks like an angle that wraps and was not declared as one."""
    schema = transitions.schema
    check_known("not_angles", not_angles, "columns of the data", schema.columns)
    both = sorted(set(not_angles) & set(schema.angles))
    if both:
        raise ValueError(f"`not_angles` must name no angle; got {shorten(', '.join(both))}, declared as one.")
    for output, name in enumerate(schema.outputs):
        state = schema.advances[output]
        if state < 0 or name in schema.angles or name in not_angles:
            continue
        now, after = transitions.states[:, state], transitions.next_states[:, output]
        check_wrapped(name, now, after)


def resolve_target(target: Target | None, transitions: Transitions) -> Target:
    """The target asked for, or increments where the data allow them."""
    possible = min(transitions.schema.advances, default=-1) >= 0
    if target == "increment" and not possible:
        raise ValueError(
            "target 'increment' must have outputs that each advance a state; got outputs "
            f"{shorten(', '.join(transitions.schema.outputs))}. Use target 'next_state'."
        )
    return target or ("increment" if possible else "next_state")


def resolve_budget(delta: float | Mapping[str, float] | None, schema: Schema) -> Array | None:
    """(P,) delta of each output, infinite where none was asked for; None where none at all was."""
    if delta is None:
        return None
    named = delta if isinstance(delta, Mapping) else dict.fromkeys(schema.outputs, delta)
    check_known("delta", named, "outputs", schema.outputs)
    budget = np.array([named.get(name, np.finfo(np.float64).max) for name in schema.outputs])
    if not (budget > 0).all():
        raise ValueError(f"`delta` must be positive; got {delta}.")
    return budget


def resolve_evidence(evidence: Evidence | None, kind: TetherKind, trusted: TrustedModel) -> Evidence:
    """The evidence level asked for, after checking that it can be had; or the best that constants give."""
    if kind == "boxes":
        if evidence not in (None, "proved"):
            raise ValueError(f"`evidence` must be 'proved' with bounds 'boxes'; got '{evidence}'.")
        return "proved"
    if kind == "interval":
        known = trusted.lipschitz is not None or trusted.increment_lipschitz is not None
        needs = "Pass `TrustedModel(M, lipschitz=...)`"
    else:
        known = trusted.jacobian is not None and trusted.jacobian_lipschitz is not None
        needs = "Pass `TrustedModel(M, jacobian=..., jacobian_lipschitz=...)`"
    if evidence == "lipschitz" and not known:
        raise ValueError(
            f"evidence `lipschitz` must have constants of the trusted model; got none. {needs}, or use "
            "evidence `sampled`, `statistical` or `proved`."
        )
    return evidence or ("lipschitz" if known else "sampled")
