"""A run of training as it stands after a step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tether.learning.config import TrainingConfig
from tether.learning.descent import constrain_in_training
from tether.learning.history import Evaluation
from tether.learning.losses import Multipliers
from tether.model import Model

_WARM_SHARE = 4
_MEMORY = 9.0
"""An ensemble is judged and kept by the mean of its weights over about the last ninth of the steps: where it
is stopped early, the learning rate is still high, and the last steps alone are half chance."""


@dataclass(eq=False)
class Run:
    """Everything that changes while training goes on."""

    model: Model
    config: TrainingConfig
    optimizer: torch.optim.Optimizer
    step: int = 0
    multipliers: list[Multipliers] = field(default_factory=lambda: [Multipliers(), Multipliers()])
    sums: Tensor = field(default_factory=lambda: torch.zeros(2, dtype=torch.float64))
    evaluations: list[Evaluation] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_step: int = 0
    seconds: float = 0.0
    random_state: Tensor = field(default_factory=lambda: torch.empty(0))
    averages: list[Tensor] = field(default_factory=list)
    """Of the weights over the last steps, parameter by parameter; none where the last step's are judged."""

    @property
    def parameters(self) -> list[Tensor]:
        """As they are descended."""
        return [parameter.detach() for parameter in self.model.network.parameters()]

    @property
    def warm_start(self) -> int:
        """Steps without the operator, as HardNet has them: `project` has no gradient outside the bounds."""
        return self.config.steps // _WARM_SHARE if self.model.operator == "project" else 0

    @property
    def best_loss(self) -> float:
        """Validation error of the best evaluation so far."""
        losses = [e.validation_error for e in self.evaluations if e.step == self.best_step]
        return losses[0] if losses else math.inf

    def respond(self, raw: Tensor, lower: Tensor, upper: Tensor, widening: float = 0.0) -> Tensor:
        """What is predicted where the network answers `raw` (N, P), between limits that may be wider."""
        if not self.model.tether.bounded:
            return raw
        if widening:
            # The paper's second line raises the upper bound from the lower one; a typo for this.
            width = widening * (upper - lower)
            lower, upper = lower - width, upper + width
        return constrain_in_training(raw, lower, upper, self.model.operator)

    def take_mean(self) -> None:
        """With the weights of the step that was taken."""
        for mean, values in zip(self.averages, self.parameters, strict=True):
            mean.lerp_(values, _MEMORY / (self.step + _MEMORY))

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network with the means of its weights, for as long as it is judged."""
        if not self.averages:
            yield
            return
        descended = [values.clone() for values in self.parameters]
        self._set(self.averages)
        try:
            yield
        finally:
            self._set(descended)

    def _set(self, given: list[Tensor]) -> None:
        for values, others in zip(self.parameters, given, strict=True):
            values.copy_(others)
