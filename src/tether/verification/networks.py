"""What the network of a model file adds over boxes of inputs, computed in balls by code of its own.

A ball is a middle and a radius. Every unit of a layer is held over a box as ``c + k (s - m) + g e`` with
every ``|e_j| <= 1``, where c, k and g are balls of which the radii are gathered in one number per unit.
Products of matrices are those of NumPy; with u the roundoff, a sum of n products is off by less than ``1.01 n
u`` of its magnitudes (n u < 0.01), in whatever order. What the network's own precision loses is
counted in the same way: it is its computed values that are held.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.foundation.errors import CertificateError
from tether.verification.claim import ROUNDOFF
from tether.verification.content import Content
from tether.verification.intervals import Array, Interval

_NUMBERS = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
_UP = 1 + 16 * ROUNDOFF
"""More than a few roundings of numbers of one sign."""
_FRAME = ("inputs.center", "inputs.scale", "outputs.center", "outputs.scale")


@dataclass(frozen=True, eq=False)
class NetworkRange:
    """One output of a network over B boxes: within `apart` of a line, and between two numbers.

    Attributes:
        value: (B,) of the line at the boxes' middles.
        slope: (B, D).
        apart: (B,) infinite where nothing is known.
        low: (B,).
        high: (B,).
    """

    value: Array
    slope: Array
    apart: Array
    low: Array
    high: Array

    def beside(self, share: Array) -> Array:
        """(B,) how far a share (B,) of it may be from that share of the line, as it is rounded."""
        size = np.abs(self.value) + np.maximum(np.abs(self.low), np.abs(self.high))
        rounded = np.where(share == 1, 0.0, 8 * ROUNDOFF * size)
        return (share * self.apart + rounded) * _UP


@dataclass(frozen=True, eq=False)
class _Units:
    """(B, n) c, (B, n, D) k, (B, n, S) g, and (B, n) how far all of it may be off."""

    c: Array
    k: Array
    g: Array
    off: Array
    reach: Array

    def extent(self) -> Array:
        """(B, n) the largest way from c."""
        terms = self.k.shape[2] + self.g.shape[2] + 2
        total = (np.abs(self.k) @ self.reach[:, :, None])[:, :, 0] + np.abs(self.g).sum(axis=2) + self.off
        return total * (1 + 2 * terms * ROUNDOFF)


class FileNetwork:
    """The network of a model file, read from its bytes."""

    def __init__(self, content: Content) -> None:
        spec, held = content.words["network"], content.weights
        if spec["kind"] != "mlp" or content.words.get("operator") != "clip":
            raise CertificateError("not verified: only what MLPs add is known for the weights at hand.")
        digest = hashlib.sha256()
        self.layers = []
        for number in range(len(spec["widths"]) - 1):
            weight, bias = (
                _read(held[f"network.{2 * number}.{part}"], digest) for part in ("weight", "bias")
            )
            self.layers.append((weight, bias))
        self.frame = {name: content.arrays[f"frame.{name}"] for name in _FRAME}
        for name in _FRAME:
            digest.update(np.ascontiguousarray(self.frame[name]).tobytes())
        self.digest = digest.hexdigest()
        precision = np.finfo(_NUMBERS[held["network.0.weight"]["dtype"]])
        self.unit, self.tiny, self.most = (
            0.5 * float(precision.eps),
            float(precision.tiny),
            float(precision.max),
        )
        if max(spec["widths"]) * self.unit > 0.009:
            raise CertificateError("not verified: the network is too wide for its roundings to be counted.")
        self.angles = content.schema.input_angles

    def over(self, low: Array, high: Array, middle: Array, output: int) -> NetworkRange:
        """One output over boxes (B, D) with these points in them."""
        reach = np.maximum(high - middle, middle - low) * _UP
        with np.errstate(all="ignore"):  # what is not finite is not known
            units, fits = self._features(middle, reach), np.ones(len(middle), dtype=bool)
            for number, (weight, bias) in enumerate(self.layers):
                last = number == len(self.layers) - 1
                rows = slice(output, output + 1) if last else slice(None)
                units = _cut(units) if number else units
                # A unit that overflows is infinite, and stays so whatever it is multiplied with.
                sizes = (np.abs(units.c) + units.extent()) @ np.abs(weight).T + np.abs(bias)
                fits &= (sizes < 1e-3 * self.most).all(axis=1)
                units = self._summed(units, weight[rows], bias[rows])
            center, scale = (self.frame[f"outputs.{name}"][output] for name in ("center", "scale"))
            own = np.abs(units.g).sum(axis=(1, 2)) * (1 + 2 * units.g.shape[2] * ROUNDOFF) + units.off[:, 0]
            size = np.abs(units.c[:, 0]) + units.extent()[:, 0]
            value, slope = center + scale * units.c[:, 0], scale * units.k[:, 0]
            apart = abs(scale) * own * _UP + 8 * ROUNDOFF * (abs(center) + abs(scale) * size) * _UP
            known = (size < 1e-3 * self.most) & np.isfinite(apart) & fits
            value, apart = np.where(known, value, 0.0), np.where(known, apart, np.inf)
            slope = np.where(known[:, None], slope, 0.0)
            wide = (np.abs(slope) * reach).sum(axis=1) * (1 + 2 * reach.shape[1] * ROUNDOFF) + apart
            wide = wide * _UP + 2 * ROUNDOFF * np.abs(value)
        return NetworkRange(value, slope, apart, value - wide, value + wide)

    def _features(self, middle: Array, reach: Array) -> _Units:
        """Scaled inputs in their order without angles, then sines of all angles, then cosines."""
        boxes, inputs = middle.shape
        plain, turning = np.flatnonzero(~self.angles), np.flatnonzero(self.angles)
        count, more = len(plain) + 2 * len(turning), 2 * len(turning)
        c, k = np.zeros((boxes, count)), np.zeros((boxes, count, inputs))
        g, off = np.zeros((boxes, count, more)), np.zeros((boxes, count))
        for place, column in enumerate(plain.tolist()):
            center, scale = (self.frame[f"inputs.{name}"][column] for name in ("center", "scale"))
            c[:, place] = (middle[:, column] - center) / scale
            k[:, place, column] = 1 / scale
            size = np.abs(c[:, place]) + reach[:, column] / abs(scale)
            # Two roundings here and two there, one of the slope, and that of the network's precision.
            off[:, place] = (8 * ROUNDOFF + 1.01 * self.unit) * size + self.tiny
        for number, column in enumerate(turning.tolist()):
            near = reach[:, column] < 2
            curved = np.where(near, 0.5 * reach[:, column] ** 2 * _UP, 1.0)
            sine, cosine = np.sin(middle[:, column]), np.cos(middle[:, column])
            pairs = ((number, sine, cosine), (number + len(turning), cosine, -sine))
            for place, value, steep in pairs:
                at = len(plain) + place
                c[:, at], k[:, at, column] = np.where(near, value, 0.0), np.where(near, steep, 0.0)
                g[:, at, place] = curved
                # Four units in the last place of values here and there, and of slopes over a reach of 2.
                off[:, at] = 40 * ROUNDOFF + 1.01 * self.unit
        return _Units(c, k, g, off, reach)

    def _summed(self, units: _Units, weight: Array, bias: Array) -> _Units:
        count = weight.shape[1] + 2
        size = np.abs(weight)
        sizes = ((np.abs(units.c) + units.extent()) @ size.T + np.abs(bias)) * (1 + 2 * count * ROUNDOFF)
        off = units.off @ size.T * (1 + 2 * count * ROUNDOFF)
        off = off + 1.01 * count * (self.unit + 2 * ROUNDOFF) * sizes + count * self.tiny
        return _Units(units.c @ weight.T + bias, weight @ units.k, weight @ units.g, off * _UP, units.reach)


def _cut(units: _Units) -> _Units:
    """ReLU: between ``share z`` and as much more as it can be; by a sum of either sign one more e."""
    wide = units.extent() * _UP
    low, high = (
        units.c - wide - 2 * ROUNDOFF * np.abs(units.c),
        units.c + wide + 2 * ROUNDOFF * np.abs(units.c),
    )
    either = (low < 0) & (high > 0)
    share = np.where(either, high / np.where(either, high - low, 1.0), np.where(high > 0, 1.0, 0.0))
    half = np.where(either, 0.5 * np.maximum(-share * low, (1 - share) * high) * _UP, 0.0)
    off = share * units.off * _UP + np.where(either, 4 * ROUNDOFF * (np.abs(units.c) + wide + half), 0.0)
    order = np.cumsum(either, axis=1) - 1
    fresh = np.zeros((*either.shape, int(either.sum(axis=1).max(initial=0))))
    box, unit = np.nonzero(either)
    fresh[box, unit, order[box, unit]] = half[box, unit]
    g = np.concatenate([units.g * share[:, :, None], fresh], axis=2)
    return _Units(share * units.c + half, units.k * share[:, :, None], g, off, units.reach)


def cut_off(ends: Interval, least: Array, most: Array) -> Interval:
    """What lies between ends, cut off at a half-width between least and most. No rounding."""
    low, high = ends
    below = np.where(low >= 0, np.minimum(low, least), np.maximum(low, -most))
    return below, np.where(high >= 0, np.minimum(high, most), np.maximum(high, -least))


def less_share(ends: Interval, least: Array, most: Array, share: Array) -> Interval:
    """The same less a share of what was there before: linear between its corners, so extreme at one."""
    low, high = (np.broadcast_to(end, most.shape) for end in ends)
    below, above = np.full(most.shape, np.inf), np.full(most.shape, -np.inf)
    for corner in (low, high, -most, -least, least, most):
        at = np.clip(corner, low, high)
        one, two = cut_off((at, at), least, most)
        slack = 2 * ROUNDOFF * (2 * np.abs(at) + most)
        below = np.minimum(below, one - share * at - slack)
        above = np.maximum(above, two - share * at + slack)
    return below, above


def _read(tensor: dict[str, Any], digest: Any) -> Array:
    if tensor["dtype"] not in _NUMBERS:
        raise CertificateError(
            "not verified: networks in float32 or float64 alone are known for the weights at hand."
        )
    digest.update(bytes(tensor["data"]))
    values = np.frombuffer(tensor["data"], dtype=_NUMBERS[tensor["dtype"]]).reshape(tensor["shape"])
    if not np.isfinite(values).all():
        raise CertificateError("not verified: the network's weights are not finite.")
    return values.astype(np.float64)
