"""What a network at hand adds over boxes of inputs: a line for each output, and how far it may be from it.

Values of a layer's units over a box with middle m are held as affine forms, ``v + K (s - m) + E e ± r`` with
every ``|e_j| <= 1``. A linear layer maps them; a ReLU whose sum may have either sign is put between two
parallel lines, ``λ z + μ ± μ``, which brings one more e (Singh et al., *Fast and Effective Robustness
Certification*, 2018). Where no unit changes its sign the form is exact, and so is the line that comes out.

Held is what torch computes in the network's own precision, not what it would be in real numbers: a sum of n
products, in whatever order, with or without fused steps, is off by at most ``2 (n + 1) u`` of its magnitudes
(u the roundoff of that precision), and by as much in float64 here. Both go into r, and so does what
underflows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from tether.claims.tubes.pieces import Pieces
from tether.claims.tubes.zonotopes import EPS, sum_up
from tether.data import Array
from tether.model import Model

_MOST_NUMBERS = 4_000_000
"""Of one array of forms; more pieces wait."""
_NUMBERS = {torch.float32: np.float32, torch.float64: np.float64}


@dataclass(frozen=True, eq=False)
class Correction:
    """What a network adds to its anchor, before it is cut off, over Q pieces.

    Attributes:
        value: (Q, P) of the line at the middles.
        slope: (Q, P, D) of the line.
        apart: (Q, P) how far the network may be from it; infinite where that is not known.
        spread: (Q, P) how far the line goes over the piece.
    """

    value: Array
    slope: Array
    apart: Array
    spread: Array

    @property
    def ends(self) -> tuple[Array, Array]:
        """(Q, P) least and greatest."""
        extent = (self.apart + self.spread) * (1 + 8 * EPS) + 4 * EPS * np.abs(self.value)
        return self.value - extent, self.value + extent


@dataclass(frozen=True, eq=False)
class _Forms:
    """Affine forms of n units over Q pieces: (Q, n), (Q, n, D), (Q, n, S), (Q, n)."""

    value: Array
    slope: Array
    symbols: Array
    rest: Array
    reach: Array

    @property
    def size(self) -> Array:
        """(Q, n) how far each may be from its value."""
        along = np.matmul(np.abs(self.slope), self.reach[:, :, None])[:, :, 0]
        along = along * (1 + (self.reach.shape[1] + 4) * EPS)
        return sum_up(np.stack([along, sum_up(np.abs(self.symbols)), self.rest], axis=-1))

    def linear(self, weight: Array, bias: Array, unit: float, tiny: float) -> _Forms:
        """After a linear layer, as computed with this roundoff."""
        most = np.abs(weight)
        count = weight.shape[1] + 8
        grown = 1 + count * EPS
        sizes = (np.abs(self.value) + self.size) @ most.T * grown + np.abs(bias)
        rest = self.rest @ most.T * grown + 2 * count * (EPS + unit) * sizes * grown + 2 * count * tiny
        value = self.value @ weight.T + bias
        return _Forms(value, np.matmul(weight, self.slope), np.matmul(weight, self.symbols), rest, self.reach)

    def rectified(self) -> _Forms:
        """After a ReLU."""
        size = self.size
        low, high = self.value - size, self.value + size
        low, high = low - 2 * EPS * np.abs(low), high + 2 * EPS * np.abs(high)
        open_ = (low < 0) & (high > 0)
        with np.errstate(invalid="ignore", over="ignore"):
            share = np.where(open_, high / (high - low), low >= 0)
            # ReLU less the line is 0 where the sum is 0, and greatest at one of the ends.
            more = np.where(open_, 0.5 * np.maximum(-share * low, (1 - share) * high) * (1 + 8 * EPS), 0.0)
        rest = share * self.rest * (1 + 2 * EPS)
        rest = rest + np.where(open_, 8 * EPS * (np.abs(self.value) + size + more), 0.0)
        number = np.cumsum(open_, axis=1) - 1
        fresh = np.zeros((*open_.shape, int(open_.sum(axis=1).max(initial=0))))
        piece, own = np.nonzero(open_)
        fresh[piece, own, number[piece, own]] = more[piece, own]
        symbols = np.concatenate([self.symbols * share[:, :, None], fresh], axis=2)
        value = share * self.value + more
        return _Forms(value, self.slope * share[:, :, None], symbols, rest, self.reach)


class Weights:
    """The network of a model, as layers of numbers."""

    def __init__(self, model: Model) -> None:
        network = model.network
        layers = [layer for layer in network.children() if isinstance(layer, nn.Linear)]
        usual = [nn.Linear, nn.ReLU] * (len(layers) - 1) + [nn.Linear]
        if [type(layer) for layer in network.children()] != usual or model.operator != "clip":
            raise TypeError(
                "`model` must have a network made by `tether.mlp` for a tube of its own weights; got "
                f"{type(network).__name__}. Tubes for any weights do not look at it."
            )
        dtype = layers[0].weight.dtype
        if dtype not in _NUMBERS:
            raise TypeError(
                "`model` must have a network in float32 or float64 for a tube of its own weights; got "
                f"{dtype}. Cast it with `model.network.float()`."
            )
        info = np.finfo(_NUMBERS[dtype])
        self.unit, self.tiny = 0.5 * float(info.eps), float(info.tiny)
        self.largest = 1e-3 * float(info.max)
        self.layers = [
            (layer.weight.detach().cpu().double().numpy(), layer.bias.detach().cpu().double().numpy())
            for layer in layers
        ]
        if not all(np.isfinite(part).all() for layer in self.layers for part in layer):
            raise ValueError("`model` must have finite weights; got NaN or infinity. Train or load it anew.")
        self.frame, self.angles = model.frame, model.schema.input_angles
        self.digest = _digest(model)

    def over(self, pieces: Pieces) -> Correction:
        """The correction over each piece."""
        widest = max(len(bias) for _, bias in self.layers)
        columns = pieces.lower.shape[1] + 2 * len(self.layers) * 32
        chunk = max(1, _MOST_NUMBERS // (widest * columns))
        starts = range(0, len(pieces.row), chunk)
        found = [self._over(pieces, slice(k, k + chunk)) for k in starts]
        return Correction(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _over(self, pieces: Pieces, rows: slice) -> tuple[Array, Array, Array, Array]:
        middle = pieces.middle[rows]
        reach = np.maximum(pieces.upper[rows] - middle, middle - pieces.lower[rows]) * (1 + EPS)
        with np.errstate(all="ignore"):  # what is not finite is not known
            forms, fits = self._features(middle, reach), np.ones(len(middle), dtype=bool)
            for number, (weight, bias) in enumerate(self.layers):
                forms = forms.rectified() if number else forms
                # A unit that overflows is infinite, and stays so whatever it is multiplied with.
                largest = (np.abs(forms.value) + forms.size) @ np.abs(weight).T + np.abs(bias)
                fits &= (largest < self.largest).all(axis=1)
                forms = forms.linear(weight, bias, self.unit, self.tiny)
            size = forms.size
            center, scale = self.frame.outputs.center, self.frame.outputs.scale
            value, slope = center + scale * forms.value, scale[:, None] * forms.slope
            doubt = sum_up(np.abs(forms.symbols)) + forms.rest
            rounding = 16 * EPS * (np.abs(center) + np.abs(scale) * (np.abs(forms.value) + size))
            apart = np.abs(scale) * doubt * (1 + 8 * EPS) + rounding
            spread = np.einsum("qpd,qd->qp", np.abs(slope), reach) * (1 + (reach.shape[1] + 4) * EPS)
            total = np.abs(value) + apart + spread
            # A layer that overflows gives infinities, which are cut off like anything else, or NaN, which is
            # no prediction.
            known = (total < self.largest) & (np.abs(forms.value) + size < self.largest) & fits[:, None]
        return (
            np.where(known, value, 0.0),
            np.where(known[:, :, None], slope, 0.0),
            np.where(known, apart, np.inf),
            np.where(known, spread, 0.0),
        )

    def _features(self, middle: Array, reach: Array) -> _Forms:
        """Scaled inputs, then sines and cosines of angles, as :meth:`tether.model.frame.Frame.features`."""
        inputs, angles = self.frame.inputs, np.flatnonzero(self.angles)
        plain, count, turning = np.flatnonzero(~self.angles), len(middle), len(angles)
        width = len(plain) + 2 * turning
        value, slope = np.zeros((count, width)), np.zeros((count, width, middle.shape[1]))
        symbols, rest = np.zeros((count, width, 2 * turning)), np.zeros((count, width))
        each = np.arange(len(plain))
        value[:, each] = ((middle - inputs.center) / inputs.scale)[:, plain]
        slope[:, each, plain] = 1 / np.abs(inputs.scale[plain]) * np.sign(inputs.scale[plain])
        size = np.abs(value[:, each]) + reach[:, plain] / np.abs(inputs.scale[plain])
        rest[:, each] = (16 * EPS + 2 * self.unit) * size + self.tiny
        turn, near = middle[:, angles], reach[:, angles] < 2
        # By Taylor's theorem, for the second derivative is at most 1; or nothing but the range.
        more = np.where(near, 0.5 * reach[:, angles] ** 2 * (1 + 8 * EPS), 1.0)
        for k, (own, steep) in enumerate(((np.sin(turn), np.cos(turn)), (np.cos(turn), -np.sin(turn)))):
            at = len(plain) + k * turning + np.arange(turning)
            value[:, at], slope[:, at, angles] = np.where(near, own, 0.0), np.where(near, steep, 0.0)
            symbols[:, at, k * turning + np.arange(turning)] = more
            rest[:, at] = 64 * EPS + 4 * self.unit
        return _Forms(value, slope, symbols, rest, reach)


def _digest(model: Model) -> str:
    """SHA-256 of weights and scales: what a tube for the weights at hand rests on beside the tether."""
    digest = hashlib.sha256()
    for layer in model.network.children():
        if isinstance(layer, nn.Linear):
            for part in (layer.weight, layer.bias):
                digest.update(np.ascontiguousarray(part.detach().cpu().numpy()).tobytes())
    for scaling in (model.frame.inputs, model.frame.outputs):
        for part in (scaling.center, scaling.scale):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
