"""Limits that never rise in declared inputs, and the model that stays between them.

M is affine with weights of at most 0 for the declared inputs, so it is its own first-order model; the
half-width depends on a cell that does not look at them; and a clip between limits that do not rise does not
rise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tether.affine import AffineModel
from tether.bounds import PINNED_REACH, Limits
from tether.cells import Cells, Location
from tether.constrained import Frame, LearnedModel, Operator
from tether.data import Array
from tether.monotone.network import MonotoneNetwork

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class MonotoneTether:
    """How far from M an output may be, by a cell that ignores the declared inputs.

    Attributes:
        trusted: M; its weights of the declared inputs are at most 0.
        states: how many of the inputs are states.
        declared: inputs in which nothing may rise, in ascending order.
        cells: over the other inputs, `seen`, alone.
        half_width: (K, P) by cell.
        pinned: (len(seen),) what all probes agree on, NaN elsewhere; see :class:`tether.bounds.AffineBounds`.
    """

    trusted: AffineModel
    states: int
    declared: NDArray[np.int64]
    cells: Cells
    half_width: Array
    pinned: Array

    def __post_init__(self) -> None:
        outputs, inputs = self.trusted.weights.shape
        declared = self.declared.tolist()
        if not declared or declared != sorted(set(declared) & set(range(inputs))) or len(declared) == inputs:
            raise ValueError(
                f"`declared` must be some of {inputs} inputs in ascending order, and leave some; got "
                f"{declared}."
            )
        if not (self.trusted.weights[:, self.declared] <= 0).all():
            raise ValueError(
                "`trusted` must have weights of at most 0 for the declared inputs; got a positive one."
            )
        widths = {self.cells.memories.shape[1], *self.cells.scale.shape, *self.pinned.shape}
        if widths != {inputs - len(declared)}:
            raise ValueError(
                f"`cells` and `pinned` must have a column for each of the {inputs - len(declared)} inputs "
                f"that are not declared; got {sorted(widths)}."
            )
        if self.half_width.shape != (len(self.cells), outputs):
            raise ValueError(
                f"`half_width` must be one for each cell and output, ({len(self.cells)}, {outputs}); got "
                f"{self.half_width.shape}."
            )
        if not ((self.half_width >= 0) & np.isfinite(self.half_width)).all():
            raise ValueError("`half_width` must be finite and at least 0 in every cell.")
        object.__setattr__(self, "_seen", np.setdiff1d(np.arange(inputs), self.declared))

    @property
    def seen(self) -> NDArray[np.int64]:
        """The inputs that are not declared; the only ones that decide the cell."""
        return self._seen  # type: ignore[attr-defined]

    def locate(self, inputs: Array) -> Location:
        """Cells of physical inputs (N, D); every finite input is in the domain, because M is affine."""
        found = self.cells.locate(np.ascontiguousarray(inputs[:, self.seen]))
        return replace(found, in_domain=np.ones(len(inputs), dtype=bool))

    def limits(self, inputs: Array, location: Location) -> Limits:
        """M plus and minus the half-width; the anchor is M at the declared inputs' reference, 0."""
        width = self.half_width[location.cell] * self._opening(inputs)
        silent_inputs = inputs.copy()
        silent_inputs[:, self.declared] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            middle = self.trusted(inputs[:, : self.states], inputs[:, self.states :])
            lower, upper = middle - width, middle + width
            anchor = self.trusted(silent_inputs[:, : self.states], silent_inputs[:, self.states :])
        if not (np.isfinite(lower) & np.isfinite(upper) & np.isfinite(anchor)).all():
            raise ValueError(
                "inputs must keep the trusted model finite; got some so large that it overflows. Check units."
            )
        # Sound because M here is M itself, bit for bit, and each limit is one rounding away from M ± width.
        delta = width * (1 + 2 * EPS) + 2 * EPS * np.maximum(np.abs(lower), np.abs(upper))
        return Limits(lower, upper, anchor, delta)

    def largest_delta(self, size: Array) -> Array:
        """(K, P) distance to M in each cell, where limits are at most `size` (P,) in magnitude."""
        return self.half_width * (1 + 2 * EPS) + 2 * EPS * size

    def _opening(self, inputs: Array) -> Array:
        """(N, 1) share of the half-width that is open: 0 where inputs agree with the probes."""
        columns = ~np.isnan(self.pinned)
        if not columns.any():
            return np.ones((len(inputs), 1))
        away = (inputs[:, self.seen[columns]] - self.pinned[columns]) / self.cells.scale[columns]
        return np.minimum(np.abs(away).max(axis=1, keepdims=True) / PINNED_REACH, 1.0) ** 2


class MonotoneModel(LearnedModel):
    """A network that stays within delta of M and never rises in the declared inputs, whatever its weights.

    Made by :func:`tether.fit` with `decreasing`. Every finite input is in its domain; inputs so large that
    something overflows are refused.

    Args:
        network: non-increasing in the declared features.
        frame: units and scales, of the deviation from the tether's anchor.
        tether: limits that never rise in the declared inputs either.
    """

    def __init__(self, network: MonotoneNetwork, frame: Frame, tether: MonotoneTether) -> None:
        super().__init__(network, frame)
        self.tether: MonotoneTether = tether  # type: ignore[assignment]
        unmet = self.unmet_premise()
        if unmet is not None:
            raise ValueError(f"{unmet}; that is not so.")

    @property
    def operator(self) -> Operator:
        """Always `clip`."""
        return "clip"

    @property
    def decreasing(self) -> tuple[str, ...]:
        """Names of the inputs in which no prediction rises."""
        return tuple(self.schema.inputs[k] for k in self.tether.declared)

    def locate(self, inputs: Array) -> Location:
        """Cell of physical inputs (N, D), whatever their declared inputs."""
        return self.tether.locate(inputs)

    def limits(self, inputs: Array, location: Location) -> Limits:
        """Limits at physical inputs (N, D)."""
        return self.tether.limits(inputs, location)

    def unmet_premise(self) -> str | None:
        """The first premise of the proof that M, tether, frame and network do not meet; None: all are met."""
        tether, frame, schema, network = self.tether, self.frame, self.schema, self.network
        outputs, inputs = tether.trusted.weights.shape
        premises = {
            "M must have a weight for every output and input": (outputs, inputs)
            == (len(schema.outputs), len(schema.inputs)),
            "the tether must know which inputs are states": tether.states == len(schema.states),
            "M's weights of the declared inputs must be at most 0": bool(
                (tether.trusted.weights[:, tether.declared] <= 0).all()
            ),
            "cells must not see the declared inputs": not np.intersect1d(tether.declared, tether.seen).size,
            "half-widths must be finite and at least 0": bool(
                ((tether.half_width >= 0) & np.isfinite(tether.half_width)).all()
            ),
            "scales must be positive": bool(
                (frame.inputs.scale > 0).all() and (frame.outputs.scale > 0).all()
            ),
            "inputs must enter the network in their order, none as an angle": not schema.angles,
            "the network must predict next states": frame.target == "next_state",
            "the network must be monotone in the declared inputs": isinstance(network, MonotoneNetwork)
            and network.declared.tolist() == tether.declared.tolist(),
        }
        return next((premise for premise, holds in premises.items() if not holds), None)
