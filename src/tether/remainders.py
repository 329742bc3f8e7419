"""A first-order model of M in every cell, and how far M can be from it (the remainder).

The remainder is known in shells: within ``radii[k, l]`` of memory k, ``|M - A| <= slopes[k, l] distance +
offset[k]``. Because derivatives vary less over a smaller ball, slopes shrink with the radius, and the
remainder with the square of the distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.cells import Cells, CellSampler
from tether.data import Array, Schema, Target
from tether.errors import CertificateError
from tether.programs import Enclosure, enclose
from tether.ranges import Evidence, SamplingConfig, fitted_slopes, length, target_program
from tether.trusted import TrustedModel

_SHELLS = np.arange(1, 9) / 8
"""Radii of the shells, as fractions of the coverage radius."""
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Remainder:
    """|M - A| within each shell.

    Attributes:
        radii: (K, L) scaled radii, ascending; the last is the outer radius of the cell's coverage.
        slopes: (K, L, P) remainder per unit of scaled distance.
        offset: (K, P) what remains at the memory itself: rounding.
    """

    radii: Array
    slopes: Array
    offset: Array

    def __post_init__(self) -> None:
        if not ((np.diff(self.radii, axis=1) > 0).all() and (self.radii[:, 0] > 0).all()):
            raise ValueError("`radii` must be positive and ascending.")
        for name, values in (("slopes", self.slopes), ("offset", self.offset)):
            if not ((values >= 0) & np.isfinite(values)).all():
                raise ValueError(
                    f"`{name}` must be finite and at least 0; got {values.min()} to {values.max()}."
                )

    def at(self, cell: NDArray[np.int64], distance: Array) -> Array:
        """(N, P) remainder in cells (N,) at scaled distances (N,), at most the last radius."""
        beyond = (self.radii[cell] < distance[:, None]).sum(axis=1)
        shell = np.minimum(beyond, self.radii.shape[1] - 1)
        return self.slopes[cell, shell] * distance[:, None] + self.offset[cell]

    @property
    def rim(self) -> Array:
        """(K, P) remainder at the rim of each coverage region, where it is largest."""
        return self.slopes[:, -1] * self.radii[:, -1:] + self.offset


@dataclass(frozen=True, eq=False)
class Expansion:
    """A(s) = center + jacobian (s - memory), per cell.

    Attributes:
        center: (K, P).
        jacobian: (K, P, D), physical units.
        remainder: how far M can be from it.
    """

    center: Array
    jacobian: Array
    remainder: Remainder

    def evaluate(self, cells: Cells, inputs: Array, cell: NDArray[np.int64]) -> Array:
        """(N, P) A at physical inputs (N, D), each in the given cell."""
        offset = inputs - cells.centers[cell]
        return self.center[cell] + (self.jacobian[cell] @ offset[:, :, None])[:, :, 0]

    def magnitude(self, cells: Cells) -> Array:
        """(K, P) a bound on the size of A over each coverage region."""
        reach = cells.outer_radii[:, None, None] * cells.scale[:, None]
        return np.abs(self.center) + (np.abs(self.jacobian) @ reach)[:, :, 0]


def expand(
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    evidence: Evidence,
    sampling: SamplingConfig = SamplingConfig(),
) -> Expansion:
    """First-order model of M's target around every memory, with a remainder of the given evidence."""
    if evidence == "proved":
        return _expand_proved(cells, trusted, schema, target)
    if evidence == "lipschitz":
        return _expand_lipschitz(cells, trusted, schema, target)
    return _expand_sampled(cells, trusted, schema, target, sampling)


def _expand_proved(cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> Expansion:
    """By the mean-value theorem along the segment from m to s, shell by shell.

    ``M(s) - M(m) - J (s - m)`` is the integral along the segment of the derivative's deviation from J,
    times ``s - m``. Sound because ball and box are convex and hold the memory, so the segment stays
    inside the boxes over which derivatives are enclosed; and because where it passes through shell i,
    the deviation is at most the one enclosed within that shell's radius. Through k shells of equal
    width the integral is at most the mean of the k bounds. Each is the 2-norm of the deviation, by
    Cauchy-Schwarz on the ball.
    """
    dx, centers = len(schema.states), cells.centers
    program = target_program(trusted, schema, target, *_boxes(cells, cells.outer_radii))
    point = enclose(program, centers, centers, states=dx)
    center = trusted.target(centers, schema, target)
    jacobian = 0.5 * (point.jacobian_lower + point.jacobian_upper)
    radii = cells.outer_radii[:, None] * _SHELLS
    enclosed = [
        enclose(program, *_boxes(cells, rim), states=dx, rounding=k == len(_SHELLS) - 1)
        for k, rim in enumerate(radii.T)
    ]
    deviations = [_largest_slope(part, jacobian, cells.scale) for part in enclosed]
    shells = np.arange(1, len(_SHELLS) + 1)[:, None]
    slopes = np.cumsum(np.stack(deviations, axis=1), axis=1) / shells * (1 + 16 * _EPS)
    # M's own float64 evaluation errs by no more than was found over the largest box.
    offset = _gap(center, point, schema) + enclosed[-1].rounding * (1 + 4 * _EPS)
    return Expansion(center, jacobian, _finite(radii, slopes, offset, schema))


def _finite(radii: Array, slopes: Array, offset: Array, schema: Schema) -> Remainder:
    """The remainder, unless it overflowed."""
    wrong = ~(np.isfinite(slopes).all(axis=1) & np.isfinite(offset))
    if wrong.any():
        cell, output = np.argwhere(wrong)[0]
        raise CertificateError(
            f"the trusted model must be bounded over every cell; in cell {cell} the remainder of output "
            f"'{schema.outputs[output]}' overflowed. Use more memories, narrow the domain, or change units."
        )
    return Remainder(radii, slopes, offset)


def _boxes(cells: Cells, radii: Array) -> tuple[Array, Array]:
    """The box around each ball, cut to the domain."""
    reach = radii[:, None] * cells.scale * (1 + 4 * _EPS)
    centers = cells.centers
    slack = 4 * _EPS * np.abs(centers)
    lower = np.minimum(np.maximum(centers - reach - slack, cells.box_lower), centers)
    upper = np.maximum(np.minimum(centers + reach + slack, cells.box_upper), centers)
    return lower, upper


def _largest_slope(enclosed: Enclosure, jacobian: Array, scale: Array) -> Array:
    """(K, P) most that the derivative can differ from `jacobian`, per unit of scaled distance."""
    deviation = np.maximum(enclosed.jacobian_upper - jacobian, jacobian - enclosed.jacobian_lower)
    deviation = deviation + 4 * _EPS * (np.abs(jacobian) + deviation)
    return length(deviation * scale) * (1 + (len(scale) + 16) * _EPS)


def _gap(center: Array, point: Enclosure, schema: Schema) -> Array:
    """(K, P) how far the computed centre can be from M at the memory, on the circle for angles.

    Roundings of M elsewhere in the cell are in proportion to what it returns, with all its turns.
    """
    turns = 2 * np.pi * np.round((center - point.lower) / (2 * np.pi)) * schema.output_angles
    gap = np.maximum(np.abs(center - turns - point.lower), np.abs(center - turns - point.upper))
    return gap + _EPS * (8 * np.abs(center) + 64 * np.abs(turns))


def _expand_lipschitz(cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> Expansion:
    """By Taylor's theorem, from the Jacobian and the constant of the Jacobian the user gives."""
    constants = trusted.curvature_constants(schema)
    if constants is None or trusted.jacobian is None:
        raise ValueError(
            "evidence `lipschitz` for an affine tether must have the trusted model's Jacobian and the "
            "Lipschitz constant of that Jacobian; got "
            + ("no Jacobian" if trusted.jacobian is None else "no constant")
            + ". Pass `TrustedModel(M, jacobian=..., jacobian_lipschitz=...)`, or use another evidence level."
        )
    jacobian = trusted.target_jacobian(cells.centers, schema, target)
    center = trusted.target(cells.centers, schema, target)
    curvature = constants * cells.scale.max() ** 2
    radii = cells.outer_radii[:, None] * _SHELLS
    slopes = 0.5 * radii[:, :, None] * curvature
    return Expansion(center, jacobian, _finite(radii, slopes, np.zeros_like(center), schema))


def _expand_sampled(
    cells: Cells, trusted: TrustedModel, schema: Schema, target: Target, sampling: SamplingConfig
) -> Expansion:
    """From points inside each cell: the largest slope of M - A seen up to each shell. An estimate.

    Few points fall into the inner shells, so that the largest curvature seen has a say there too.
    """
    rng = np.random.default_rng(sampling.seed)
    points = CellSampler(cells).sample(sampling.per_cell, rng=rng)
    count, per_cell, dimensions = points.shape
    values = trusted.target(points.reshape(-1, dimensions), schema, target).reshape(count, per_cell, -1)
    center = trusted.target(cells.centers, schema, target)
    values = schema.near(values, center[:, None])
    if trusted.jacobian is not None:
        jacobian = trusted.target_jacobian(cells.centers, schema, target)
    else:
        jacobian = fitted_slopes((points - cells.centers[:, None]) / cells.scale, values - center[:, None])
        jacobian = jacobian / cells.scale
    offset = points - cells.centers[:, None]
    missed = schema.distance(values, center[:, None] + np.einsum("kpd,ksd->ksp", jacobian, offset))
    distance = np.linalg.norm(offset / cells.scale, axis=2)
    slope = missed / np.maximum(distance, np.finfo(np.float64).tiny)[:, :, None]
    radii = cells.outer_radii[:, None] * _SHELLS
    curvature = (slope / np.maximum(distance, 0.25 * radii[:, -1:])[:, :, None]).max(axis=1)
    shells = [
        np.maximum(
            np.where((distance <= rim[:, None])[:, :, None], slope, 0.0).max(axis=1), curvature * rim[:, None]
        )
        for rim in radii.T
    ]
    slopes = np.stack(shells, axis=1)
    return Expansion(center, jacobian, _finite(radii, slopes, np.zeros_like(center), schema))
