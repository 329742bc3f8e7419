"""The model in float32 from the first subtraction to the last sum, with a delta for what it then returns.

M is not needed: everything follows from what the bounds claim over whole coverage balls. A float32 model may
therefore pick either of two nearly tied memories, and may be run by anything that keeps to IEEE 754.

Error analysis. ``u = 2^-24`` is the unit roundoff, ``γ_n = n u / (1 - n u)``, a hat marks a float32 number.
Any order of summation and fused products are allowed; matrix products, which hardware may shorten, are not
used. Flushing to zero costs ``2^-126`` per operation, collected in `slack`. For an exact float32 input s:

1. *No cancellation.* Memories are rounded in physical units, ``m̂``, and A is moved there in float64:
   ``A(s) = c' + J (s - m̂)`` with ``c' = c + J (m̂ - m)``. So ``t = fl(s - m̂)`` has a relative error of u,
   whatever the size of s and m.
2. *Distance.* ``fl(t fl(1 / scale))`` has a relative error of γ_4, so the sum of squares one of γ_{D+8}. The
   exact scaled distance to m is thus at most ``r̂ (1 + γ_{D+8}/2) + |(m̂ - m) / scale|_2 + √D 2^-62``. The
   float32 test accepts only what this puts within the outer radius of the float64 claim, and the
   remainder is taken at this bound. Limits of the box and of angles are rounded inwards.
3. *A.* ``p_d = fl(Ĵ_d t_d)`` is within γ_3 |p_d| of ``J_d (s - m̂)_d``. Adding up D of them and ĉ errs by
   γ_D S, where ``S = sum_d |p_d| + |ĉ|``, and rounding c' by γ_1 |ĉ|. So ``|â - A| <= γ_{D+3} S + slack``.
4. *Blending* of B cells, each with a ball that holds s. Computed weights ω sum to 1 up to γ_B, so that they
   are within γ_{B+1} ω of exactly convex ones; the sum of products errs by γ_B. So ``|â - M| <=
   (1 + γ_{B+1}) sum ω (remainder + slack) + γ_{D+2B+4} sum ω S``.
   *Of an angle*, each ``â_k`` is first moved by ``fl(fl(2π) n)``, with n the number of turns between it and
   the nearest cell's ``â_0``. fl(2π) is off by a relative u/2, the product and the difference by u each. As
   ``|2π n| <= S_k + S_0 + π`` and the result is within π of ``â_0``, moving costs at most 4 u T, and T bounds
   the size of the result, with ``T = S_k + S_0 + 4``, which from here on stands for S. The quotient that n is
   rounded from is off by 3 u T / 2π, so that n is right where all cells that take part have a ``remainder +
   κ T`` below π/2 (proof: :mod:`tether.bounds`). Where one has not, delta is π, and it never is more.
5. *Limits.* ``fl(â ± ĥ)`` errs by u (|â| + ĥ); the clamp is exact; ``fl(state + target)`` errs by u |output|.
   The half-width ĥ is the number as computed, so that rounding it costs nothing.
6. *Delta* = ĥ + remainder + κ (S + ĥ) + u |output|, with ``κ = (D + 2B + 8) u (1 + 2^-10) >= γ_{D+2B+5}``,
   and 8 u more where angles are blended.
   All its terms are positive and at most D + B + 8 roundings deep, so that a last factor of
   ``1 + (D + 2B + 24) 2^-23`` makes up for them and for the 1 + γ_{B+1} of step 4.

Interval bounds are rounded inwards; one too narrow for that becomes a single number, and how far that is
outside is added to delta.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.bounds import AffineBounds, Bounds, IntervalBounds
from tether.cells import Cells
from tether.constrained import ConstrainedModel, is_constrained
from tether.data import QUARTER_TURN, Array, Schema, Target
from tether.tethers.blending import PINNED_REACH, RIM, one_turn, opening

Single = NDArray[np.float32]

_UNIT = 2.0**-24
_FLUSHED = 2.0**-126
_LARGEST = 2.0**100
_SCALES = (2.0**-60, 2.0**60)
_ALONE = 2.0**-100
_CHUNK = 1 << 22
_TURNED = 8
"""Roundings more where angles are moved by whole turns before they are blended."""
_HALF_TURN = float(np.float32(np.pi))
"""A float32 number above π."""
_APART = float(np.nextafter(np.float32(QUARTER_TURN), np.float32(0.0)))
"""A float32 number below π/2."""


class SinglePrediction(NamedTuple):
    """What a float32 model says of rows of inputs.

    Attributes:
        next_states: (N, P) float32.
        in_domain: (N,) whether the guarantee covers the row.
        delta: (N, P) float32, distance of `next_states` to M at exactly these inputs; inf outside the domain.
        cell: (N,) the cell that answered: the nearest, or one nearly as near.
    """

    next_states: Tensor
    in_domain: Tensor
    delta: Tensor
    cell: Tensor


def single_precision(model: ConstrainedModel) -> SinglePrecisionModel:
    """`model` executed in float32, with a delta that holds for the float32 numbers it returns.

    The delta has the evidence level of the model's own; `statistical` and `sampled` speak of the cells that
    float64 picks, and say nothing for certain of the few inputs for which float32 picks another.

    Raises:
        ValueError: where float32 is too coarse for the model: a coverage radius is lost to rounding, no
            float32 number lies in the domain box, or a coefficient is too large.
    """
    if not is_constrained(model):
        raise TypeError(
            f"`model` must be a ConstrainedModel; got {type(model).__name__}, which cannot be executed in "
            "float32 with a guarantee. Use it in float64."
        )
    return SinglePrecisionModel(model)


def single_delta(model: ConstrainedModel) -> Array:
    """(K, P) the largest delta that :func:`single_precision` of the model gives in each cell.

    Raises:
        ValueError: where float32 is too coarse for the model.
    """
    return _tables(model).largest_delta


class SinglePrecisionModel(nn.Module):
    """A :class:`ConstrainedModel` in float32; see :func:`single_precision`.

    Its tables are buffers, so that it moves between devices and is exported whole.
    """

    centers: Tensor
    inverse_scale: Tensor
    shift: Tensor
    limit: Tensor
    reach: Tensor
    box_lower: Tensor
    box_upper: Tensor
    lower: Tensor
    upper: Tensor
    spread: Tensor
    center: Tensor
    jacobian: Tensor
    half_width: Tensor
    shells: Tensor
    slopes: Tensor
    offset: Tensor
    pinned: Tensor
    pinned_rate: Tensor
    feature_center: Tensor
    feature_scale: Tensor
    output_center: Tensor
    output_scale: Tensor
    input_angles: Tensor
    output_angles: Tensor
    advances: Tensor

    def __init__(self, model: ConstrainedModel) -> None:
        super().__init__()
        self.network = copy.deepcopy(model.network).float()
        self.schema: Schema = model.schema
        self.target: Target = model.frame.target
        self.operator = model.operator
        tables = _tables(model)
        self.kind = model.bounds.kind
        self.blend = tables.blend
        self.turns = bool(self.blend and self.schema.output_angles.any())
        self.pins = bool(np.any(tables.arrays.get("pinned_rate", 0.0)))
        self.magnified = tables.magnified
        self.compensation = tables.compensation
        for name, values in tables.arrays.items():
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(values)))
        frame = model.frame
        scaling = {
            "feature_center": frame.inputs.center,
            "feature_scale": frame.inputs.scale,
            "output_center": frame.outputs.center,
            "output_scale": frame.outputs.scale,
        }
        for name, values in scaling.items():
            self.register_buffer(name, torch.from_numpy(values.astype(np.float32)))
        for name, flags in {
            "input_angles": self.schema.input_angles,
            "output_angles": self.schema.output_angles,
            "advances": self.schema.advanced,
        }.items():
            self.register_buffer(name, torch.from_numpy(flags))

    def forward(self, states: Tensor, controls: Tensor) -> SinglePrediction:
        """Predictions at float32 states (N, dx) and controls (N, du)."""
        for name, values in (("states", states), ("controls", controls)):
            if values.dtype != torch.float32:
                raise TypeError(
                    f"`{name}` must be float32; got {values.dtype}. Delta is for the inputs as given: round "
                    "them yourself, so that you know which these are."
                )
        if self.centers.dtype != torch.float32:
            raise TypeError(f"a float32 model must stay one; got {self.centers.dtype}. Convert anew.")
        inputs = torch.cat([states, controls], dim=1)
        if not torch.isfinite(inputs).all():
            raise ValueError("inputs must be finite numbers; got NaN or infinity.")
        rows = max(1, _CHUNK // len(self.centers))
        parts = [self.compute(piece) for piece in inputs.split(rows)]
        prediction = SinglePrediction(*(torch.cat(part) for part in zip(*parts, strict=True)))
        if torch.isnan(prediction.next_states).any():
            raise ValueError("the network must give numbers; got NaN. Its weights are damaged.")
        return prediction

    def compute(self, inputs: Tensor) -> SinglePrediction:
        """The same at float32 inputs (N, D), unchecked and without a branch: what an export records."""
        squared = self._squared_distances(inputs)
        nearest, cell = squared.min(dim=1)
        inside = ((inputs >= self.box_lower) & (inputs <= self.box_upper)).all(dim=1)
        in_domain = inside & (nearest <= self.limit[cell])
        room = self._affine(inputs, cell, squared) if self.kind == "affine" else self._interval(cell)
        raw = self.network(self._features(inputs)).float()
        if self.operator == "sigmoid":
            values = room.lower + torch.sigmoid(raw) * (room.upper - room.lower)
        else:
            anchor = torch.zeros_like(raw) if self.operator == "project" else room.anchor
            values = anchor + self.output_center + self.output_scale * raw
        outputs = torch.clamp(values, room.lower, room.upper)
        if self.target == "increment":
            base = torch.where(self.advances >= 0, inputs[:, self.advances], torch.zeros_like(outputs))
            outputs = base + outputs
        delta = (room.spread + _UNIT * outputs.detach().abs()) * self.compensation
        delta = torch.where(self.output_angles, delta.clamp_max(_HALF_TURN), delta)
        delta = torch.where(in_domain[:, None], delta, torch.full_like(delta, torch.inf))
        return SinglePrediction(outputs, in_domain, delta, cell)

    def _squared_distances(self, inputs: Tensor) -> Tensor:
        """(N, K) scaled; column by column, because one matrix product would cancel."""
        total = torch.zeros_like(inputs[:, :1] - self.centers[:, 0])
        for d in range(inputs.shape[1]):
            gap = (inputs[:, d : d + 1] - self.centers[:, d]) * self.inverse_scale[d]
            total = total + gap * gap
        return total

    def _interval(self, cell: Tensor) -> _Room:
        lower = self.lower[cell]
        return _Room(lower, self.upper[cell], torch.zeros_like(lower), self.spread[cell])

    def _affine(self, inputs: Tensor, cell: Tensor, squared: Tensor) -> _Room:
        around, distance, weight = self._around(cell, squared)
        # Products by element: a matrix product may run in less than float32.
        offset = inputs[:, None, None, :] - self.centers[around][:, :, None, :]
        products = self.jacobian[around] * offset
        center = self.center[around]
        anchors, sizes = products.sum(dim=3) + center, products.abs().sum(dim=3) + center.abs()
        shell = (self.shells[around] < distance[:, :, None]).sum(dim=2).clamp_max(self.shells.shape[1] - 1)
        remainder = self.slopes[around, shell] * distance[:, :, None] + self.offset[around]
        apart = torch.zeros_like(anchors[:, 0], dtype=torch.bool)
        if self.turns:
            anchors, sizes, apart = self._one_turn(anchors, sizes, remainder, weight)
        parts = (anchors, self.half_width[around], sizes, remainder)
        anchor, width, size, remainder = ((weight[:, :, None] * part).sum(dim=1) for part in parts)
        width = width * self._opening(inputs)[:, None]
        spread = width + remainder + self.magnified * (size + width)
        spread = torch.where(apart, torch.full_like(spread, _HALF_TURN), spread)
        return _Room(anchor - width, anchor + width, anchor, spread)

    def _one_turn(
        self, anchors: Tensor, sizes: Tensor, remainder: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Step 4 for angles: A (N, B, P) on one turn, their sizes T, and (N, P) where that may fail."""
        angles = self.output_angles
        taking_part = (weight > 0)[:, :, None]
        # At least the size of the cell that the others are moved to, which takes part.
        largest = torch.where(taking_part, sizes, torch.zeros_like(sizes)).amax(dim=1, keepdim=True)
        turned = sizes + largest + 4
        doubt = (remainder + self.magnified * turned) * self.compensation
        apart = ((doubt >= _APART) & taking_part).any(dim=1) & angles
        anchors = torch.where(angles, one_turn(anchors, weight), anchors)
        return anchors, torch.where(angles, turned, sizes), apart

    def _around(self, cell: Tensor, squared: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, B) cells that take part, bounds on the distances to their memories, and weights."""
        if not self.blend:
            own = squared.gather(1, cell[:, None])
            return cell[:, None], self._farthest(own, cell[:, None]), torch.ones_like(own)
        near, around = torch.topk(squared, self.blend + 1, dim=1, largest=False, sorted=True)
        last, near, around = near[:, -1:], near[:, :-1], around[:, :-1]
        rim = (self.reach[around] - near.sqrt()) / (RIM * self.reach[around])
        weight = (last - near) / (last - near[:, :1]).clamp_min(_FLUSHED) * rim.clamp(0, 1)
        # Sound because a cell takes part only if the test of the domain would accept the input there.
        weight = torch.where(near <= self.limit[around], weight, torch.zeros_like(weight)).nan_to_num(0.0)
        total = weight.sum(dim=1, keepdim=True)
        alone = total <= _ALONE
        first = (torch.arange(self.blend, device=cell.device) == 0).to(weight.dtype)
        weight = torch.where(alone, first, weight / torch.where(alone, torch.ones_like(total), total))
        around = torch.where(alone & (first > 0), cell[:, None], around)
        return around, self._farthest(squared.gather(1, around), around), weight

    def _farthest(self, squared: Tensor, cell: Tensor) -> Tensor:
        """At least the exact scaled distance to the unrounded memory."""
        return squared.sqrt() * self.compensation + self.shift[cell]

    def _opening(self, inputs: Tensor) -> Tensor:
        """(N,) as :func:`tether.tethers.blending.opening`."""
        if not self.pins:
            return torch.ones_like(inputs[:, 0])
        return opening(inputs, self.pinned, self.pinned_rate)[:, 0]

    def _features(self, inputs: Tensor) -> Tensor:
        angles = self.input_angles
        plain = (inputs - self.feature_center) / self.feature_scale
        return torch.cat([plain[:, ~angles], inputs[:, angles].sin(), inputs[:, angles].cos()], dim=1)


class _Room(NamedTuple):
    """Limits of the target, what the network is added to, and delta but for the last sum; (N, P)."""

    lower: Tensor
    upper: Tensor
    anchor: Tensor
    spread: Tensor


@dataclass(frozen=True, eq=False)
class _Tables:
    """Everything that is rounded once, when the model is made.

    Attributes:
        arrays: what becomes buffers.
        blend: cells that are blended, 0 for none.
        magnified: κ of the error analysis.
        compensation: the last factor of the error analysis.
        largest_delta: (K, P) float64.
    """

    arrays: dict[str, NDArray]
    blend: int
    magnified: float
    compensation: float
    largest_delta: Array


def _tables(model: ConstrainedModel) -> _Tables:
    cells, bounds = model.cells, model.bounds
    if bounds.kind == "boxes":
        raise ValueError("`model` must have bounds by cell to run in float32; got bounds over boxes.")
    dimensions = cells.memories.shape[1]
    blend = min(bounds.blend, len(cells) - 1) if bounds.kind == "affine" else 0
    blend = blend if blend >= 2 else 0
    angles = model.schema.output_angles
    turned = _TURNED if blend and angles.any() else 0
    magnified = (dimensions + 2 * blend + 8 + turned) * _UNIT * (1 + 2.0**-10)
    compensation = 1 + (dimensions + 2 * blend + 24) * 2 * _UNIT
    balls = _ball_tables(cells, bounds, model.schema)
    if bounds.kind == "interval":
        arrays = _interval_tables(bounds)
        spread = remainder = arrays["spread"].astype(np.float64)
        size = np.maximum(np.abs(arrays["lower"]), np.abs(arrays["upper"])).astype(np.float64)
    else:
        arrays = _affine_tables(cells, bounds, balls, blend)
        size = np.abs(arrays["center"]) + _swing(cells, bounds)
        width, farthest = arrays["half_width"].astype(np.float64), cells.outer_radii * (1 + 64 * _UNIT)
        farthest = farthest * compensation + balls["shift"].astype(np.float64)
        remainder = arrays["slopes"].max(axis=1) * farthest[:, None] + arrays["offset"].astype(np.float64)
        if turned:
            size = np.where(angles, size + size.max(axis=0) + 4, size)
        spread = width + remainder + magnified * (size + width) * compensation
        size = size + width
    _check_sizes(arrays | balls, size)
    if model.frame.target == "increment":
        size = size + _base_size(cells, model.schema)
    # Sums of a row may round up where these did not: more than they can, on top.
    largest = (spread + _UNIT * size * (1 + 2.0**-10)) * compensation**4
    if turned:
        apart = (remainder + magnified * size) * compensation**4 >= _APART
        largest = np.where(apart, np.maximum(largest, _HALF_TURN), largest)
    largest = np.where(angles, np.minimum(largest, _HALF_TURN), largest)
    # Rounded up, so that the factors as executed are no smaller than as derived.
    return _Tables(arrays | balls, blend, float(_up(magnified)), float(_up(compensation)), largest)


def _ball_tables(cells: Cells, bounds: Bounds, schema: Schema) -> dict[str, Single]:
    """Step 2 of the error analysis: memories, limits on squared distances, and the box."""
    dimensions = cells.memories.shape[1]
    if not ((cells.scale >= _SCALES[0]) & (cells.scale <= _SCALES[1])).all():
        raise ValueError(f"`scale` must lie within {_SCALES} for float32; got {cells.scale.tolist()}.")
    centers = _near(cells.centers)
    moved = np.linalg.norm((centers - cells.centers) / cells.scale, axis=1)
    shift = moved * (1 + 1e-12) + np.sqrt(dimensions) * 2.0**-62
    radii = cells.outer_radii
    if bounds.kind == "affine":
        radii = np.minimum(radii, bounds.expansion.remainder.radii[:, -1])
    inner = (radii - shift) / (1 + (dimensions + 12) * _UNIT)
    if not (inner > 2.0**-50).all():
        cell = int(np.argmin(inner))
        raise ValueError(
            "`model` must have coverage radii that rounding to float32 leaves something of; in cell "
            f"{cell} the radius is {radii[cell]:.3g} (scaled) and rounding moves the memory by "
            f"{moved[cell]:.3g}. Move the origin of the inputs nearer to the data, or stay with float64."
        )
    limit = _down(inner * inner * (1 - 2.0**-40))
    lower, upper = _up(cells.box_lower), _down(cells.box_upper)
    # An angle is not wrapped: that would move the input. Beyond [-π, π) it is outside the domain.
    lower = np.where(schema.input_angles, np.maximum(lower, _up(-np.pi)), lower)
    upper = np.where(schema.input_angles, np.minimum(upper, _down(np.nextafter(np.pi, 0.0))), upper)
    if not (lower <= upper).all():
        name = schema.inputs[int(np.argmax(lower > upper))]
        raise ValueError(
            f"the domain of '{name}' must hold a float32 number; it holds none. Widen it by a rounding, or "
            "stay with float64."
        )
    return {
        "centers": centers,
        "inverse_scale": _near(1 / cells.scale),
        # A little more, because adding it rounds.
        "shift": _up(shift * (1 + 2.0**-20)),
        "limit": limit,
        "reach": _down(np.sqrt(limit.astype(np.float64))),
        "box_lower": lower,
        "box_upper": upper,
    }


def _interval_tables(bounds: IntervalBounds) -> dict[str, Single]:
    lower, upper = _up(bounds.lower), _down(bounds.upper)
    narrow = lower > upper
    middle = _near(0.5 * bounds.lower + 0.5 * bounds.upper)
    lower, upper = np.where(narrow, middle, lower), np.where(narrow, middle, upper)
    outside = np.maximum(np.maximum(bounds.lower - lower, upper - bounds.upper), 0.0)
    spread = (bounds.delta + outside) * (1 + 1e-15) + 8 * _FLUSHED
    return {"lower": lower, "upper": upper, "spread": _up(spread)}


def _affine_tables(
    cells: Cells, bounds: AffineBounds, balls: dict[str, Single], blend: int
) -> dict[str, Single]:
    """Coefficients rounded once, and the remainder with the slack of steps 1 and 3."""
    expansion, remainder = bounds.expansion, bounds.expansion.remainder
    dimensions = cells.memories.shape[1]
    moved = balls["centers"] - cells.centers
    center = expansion.center + (expansion.jacobian @ moved[:, :, None])[:, :, 0]
    rough = np.abs(expansion.center) + (np.abs(expansion.jacobian) @ np.abs(moved)[:, :, None])[:, :, 0]
    slack = (dimensions + 4) * np.finfo(np.float64).eps * rough
    reach = float((cells.outer_radii.max() * cells.scale).max())
    largest = 1 + reach + float(np.abs(expansion.jacobian).max()) + float(expansion.magnitude(cells).max())
    slack += (16 + 4 * dimensions + 4 * blend) * _FLUSHED * largest
    pinned = np.isfinite(bounds.pinned)
    return {
        "center": _near(center),
        "jacobian": _near(expansion.jacobian),
        "half_width": _down(bounds.half_width),
        "shells": _down(remainder.radii),
        "slopes": _up(remainder.slopes),
        "offset": _up((remainder.offset + slack) * (1 + 1e-15)),
        "pinned": _near(np.where(pinned, bounds.pinned, 0.0)),
        "pinned_rate": _near(np.where(pinned, 1 / (cells.scale * PINNED_REACH), 0.0)),
    }


def _swing(cells: Cells, bounds: AffineBounds) -> Array:
    """(K, P) at least ``sum_d |p_d|`` within each ball, by Cauchy-Schwarz."""
    steepness = np.linalg.norm(bounds.expansion.jacobian * cells.scale, axis=2)
    return steepness * cells.outer_radii[:, None] * (1 + 64 * _UNIT)


def _base_size(cells: Cells, schema: Schema) -> Array:
    """(K, P) at most as large the state that an increment is added to is in each ball."""
    ball = np.abs(cells.centers) + cells.outer_radii[:, None] * cells.scale
    box = np.maximum(np.abs(cells.box_lower), np.abs(cells.box_upper))
    return schema.base(np.minimum(ball, box)[:, : len(schema.states)])


def _check_sizes(arrays: dict[str, Single], size: Array) -> None:
    finite = all(np.isfinite(values).all() for name, values in arrays.items() if "box" not in name)
    if not finite or not (size < _LARGEST).all():
        raise ValueError(
            f"`model` must have numbers far below {np.finfo(np.float32).max:.3g} for float32; "
            f"got up to {float(np.max(size)):.3g}. Change the units, or stay with float64."
        )


def _near(values: Array) -> Single:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, np.float64).astype(np.float32)


def _down(values: Array | float) -> Single:
    """The largest float32 numbers at most `values`."""
    rounded = _near(np.asarray(values))
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _up(values: Array | float) -> Single:
    """The smallest float32 numbers at least `values`."""
    return -_down(-np.asarray(values, np.float64))
