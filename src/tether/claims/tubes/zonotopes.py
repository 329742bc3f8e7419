"""Zonotopes, many at once: centres and generators as the floats say, and what rounding adds to them.

A zonotope is the set of all ``center + generators b`` with every ``|b_j| <= 1``, in real numbers: floats
stand for themselves. Whatever float arithmetic loses on the way from one to the next is bounded and added:

Lemma (rounding). A sum of n products of floats, in whatever order, is off by at most ``n 2**-52`` of the sum
of their magnitudes, if nothing under- or overflows (Higham, *Accuracy and Stability*, 3.1: ``n u / (1 - n
u)`` with ``u = 2**-53``, and ``n u < 1/2``); what underflows adds less than ``n 1e-322``. The sum of
magnitudes is itself computed, and made larger by as many units. So a sum of magnitudes that is multiplied
by ``1 + (n + 2) 2**-52`` and given ``n 1e-322`` more is not below the exact one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array

EPS = 2.0**-52
FAINT = 1e-322


@dataclass(frozen=True, eq=False)
class Zonotopes:
    """N sets of points with n coordinates.

    Attributes:
        center: (N, n).
        generators: (N, n, m).
    """

    center: Array
    generators: Array

    @classmethod
    def boxes(cls, lower: Array, upper: Array) -> Zonotopes:
        """The boxes from lower (N, n) to upper, or a few roundings more."""
        center = np.clip(0.5 * lower + 0.5 * upper, lower, upper)
        half = np.maximum(_up(upper - center), _up(center - lower))
        return cls(center, half[:, :, None] * np.eye(half.shape[1]))

    @property
    def radius(self) -> Array:
        """(N, n) at least how far each coordinate goes from the centre."""
        return sum_up(np.abs(self.generators))

    def hull(self) -> tuple[Array, Array]:
        """(N, n) lower and upper ends of a box that holds each."""
        return around(self.center, self.radius)

    def padded(self, count: int) -> Zonotopes:
        """With so many generators, those that are new of length 0."""
        missing = count - self.generators.shape[2]
        return Zonotopes(self.center, np.pad(self.generators, ((0, 0), (0, 0), (0, missing))))

    def take(self, rows: NDArray) -> Zonotopes:
        """Some of them."""
        return Zonotopes(self.center[rows], self.generators[rows])


def sum_up(magnitudes: Array) -> Array:
    """Sums over the last axis of numbers of at least 0, rounded up; of zeros 0, and NaN stays."""
    total, count = magnitudes.sum(axis=-1), magnitudes.shape[-1]
    return np.where(total == 0, 0.0, total * (1 + (count + 2) * EPS) + (count + 1) * FAINT)


def around(center: Array, radius: Array) -> tuple[Array, Array]:
    """``center - radius`` rounded down and ``center + radius`` rounded up; exact where the radius is 0."""
    lower, upper = np.nextafter(center - radius, -np.inf), np.nextafter(center + radius, np.inf)
    return np.where(radius == 0, center, lower), np.where(radius == 0, center, upper)


def least_useful(generators: Array, most: int) -> NDArray[np.int64]:
    """(N, k) the generators to keep where at most so many may be, in their order (Girard, 2005).

    Those that lie along an axis, or are short beside the set, lose least where a box replaces them.
    """
    count = generators.shape[2]
    if count <= most:
        return np.broadcast_to(np.arange(count), (len(generators), count))
    size = np.abs(generators)
    whole = size.sum(axis=2, keepdims=True)
    share = np.divide(size, whole, out=np.zeros_like(size), where=whole > 0)
    loss = share.sum(axis=1) - share.max(axis=1, initial=0.0)
    return np.sort(np.argpartition(-loss, most - 1, axis=1)[:, :most], axis=1)


def _up(values: Array) -> Array:
    return np.where(values == 0, 0.0, np.nextafter(values, np.inf))
