"""What a network learns from: examples, their rows on a device, and those of each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.data import Array
from tether.learning.config import TrainingConfig
from tether.model import Model
from tether.tethers import RowLimits


@dataclass(frozen=True, eq=False)
class Examples:
    """One set of inputs as training sees it.

    Attributes:
        inputs: (N, D) physical inputs.
        trusted: (N, P) M's target.
        target: (N, P) observed target, None for probes.
        fold: (N,) for an :class:`tether.model.Ensemble`, the number of the network that does not learn from
            the row, and is asked about it when the ensemble is evaluated.
        weight: (N,) by what the rows of an ensemble count; by default alike.
    """

    inputs: Array
    trusted: Array
    target: Array | None = None
    fold: NDArray[np.int64] | None = None
    weight: Array | None = None


@dataclass(frozen=True)
class TrainingData:
    """What a run trains on and what it watches."""

    train: Examples
    train_probes: Examples
    validation: Examples
    validation_probes: Examples


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples on the device, in the network's dtype and in units of the target's centre and scale.

    In those units a network's raw output *is* its prediction, and float32 loses nothing that matters.
    """

    features: Tensor
    """(N, F)."""
    values: Tensor
    """(N, 4, P): M's target, the observed one (NaN for probes), lower and upper bound."""
    fold: Tensor | None = None
    """(N,), see :class:`Examples`."""
    weight: Tensor | None = None
    """(N,), where there are folds."""

    @classmethod
    def of(cls, examples: Examples, model: Model, config: TrainingConfig) -> Rows:
        """Of examples, with the limits that the model has there."""
        scaling = model.frame.outputs
        limits = model.limits(examples.inputs)
        # What a network that is projected predicts is the target itself.
        anchor = 0.0 if model.operator == "project" else limits.anchor[:, None]
        observed = np.full_like(examples.trusted, np.nan) if examples.target is None else examples.target
        trusted, observed = (_near(values, model, limits) for values in (examples.trusted, observed))
        values = np.stack([trusted, observed, limits.lower, limits.upper], axis=1)
        values = (values - anchor - scaling.center) / scaling.scale
        inputs = torch.from_numpy(np.ascontiguousarray(examples.inputs)).to(model.frame.input_center.device)
        features = model.frame.features(inputs).to(config.device, getattr(torch, config.dtype))
        if examples.fold is None:
            return cls(features, _tensor(values, config))
        fold = torch.from_numpy(examples.fold).to(config.device)
        weight = np.ones(len(fold)) if examples.weight is None else examples.weight
        return cls(features, _tensor(values, config), fold, _tensor(weight, config))

    def take(self, numbers: Tensor) -> Rows:
        """Some rows."""
        fold = None if self.fold is None else self.fold[numbers]
        weight = None if self.weight is None else self.weight[numbers]
        return Rows(self.features[numbers], self.values[numbers], fold, weight)

    def then(self, other: Rows) -> Rows:
        """These, and others after them."""
        return Rows(torch.cat([self.features, other.features]), torch.cat([self.values, other.values]))

    def __len__(self) -> int:
        return len(self.features)


def _near(values: Array, model: Model, limits: RowLimits) -> Array:
    """`values` (N, P), of a model with limits with angles moved by whole turns to where it can answer."""
    if not model.tether.bounded:
        return values
    bounded = np.isfinite(limits.lower) & np.isfinite(limits.upper)
    lower, upper = (np.where(bounded, end, limits.anchor) for end in (limits.lower, limits.upper))
    return model.schema.near(values, 0.5 * lower + 0.5 * upper)


def _tensor(values: Array, config: TrainingConfig) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(config.device, getattr(torch, config.dtype))


class _Order:
    """Row numbers of each step: shuffled epochs, a function of (seed, step) alone."""

    def __init__(self, rows: int, batch: int, seed: int) -> None:
        self.rows, self.batch, self.seed = rows, min(batch, rows), seed
        self.per_epoch = rows // self.batch
        self.epoch, self.permutation = -1, torch.empty(0)

    def __call__(self, step: int) -> Tensor:
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
            self.epoch, self.permutation = epoch, torch.randperm(self.rows, generator=generator)
        return self.permutation[place * self.batch : (place + 1) * self.batch]


class Batches:
    """The rows of each step: labelled ones first, then as many probes where the loss needs them."""

    def __init__(self, rows: Rows, probes: Rows | None, batch: int, seed: int) -> None:
        self.orders = [_Order(len(rows), batch, seed)]
        self.everything = rows
        self.labelled = self.orders[0].batch
        if probes is not None:
            self.orders.append(_Order(len(probes), batch, seed + 1))
            self.everything = rows.then(probes)
        self.probed = probes is not None
        self.offset = len(rows)

    def __call__(self, step: int) -> Rows:
        """Those of a step."""
        numbers = self.orders[0](step)
        if self.probed:
            numbers = torch.cat([numbers, self.orders[1](step) + self.offset])
        return self.everything.take(numbers.to(self.everything.features.device))
