"""Losses: squared error on D, and the augmented Lagrangian that pulls towards M on D and Ω.

All of it in units of the target's scale, so that metres and radians weigh alike.

The paper prints ``ψ = δ - |M - f|`` and *adds* ``λψ`` to the loss that is minimised; taken literally
that rewards violation. Here the constraint is ``g = -ψ = |M - f|_inf - δ <= 0``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean over rows and outputs of the squared error, (N, P) each."""
    return torch.nn.functional.mse_loss(outputs, targets)


def violation(outputs: Tensor, trusted: Tensor) -> Tensor:
    """(N,) g(s) = max over outputs of |M_j(s) - out_j(s)|; 0 where M is respected."""
    return (outputs - trusted).abs().amax(dim=1)


@dataclass(frozen=True)
class Multipliers:
    """State of the augmented Lagrangian for one set of inputs (D or Ω).

    Attributes:
        multiplier: λ >= 0.
        penalty: μ > 0.
        last: mean violation at the last update.
    """

    multiplier: float = 0.0
    penalty: float = 1.0
    last: float = float("inf")

    def loss(self, violations: Tensor) -> Tensor:
        """Mean of ``λ g + μ 1[λ > 0 or g > 0] g²`` over (N,) violations."""
        active = violations if self.multiplier > 0 else violations.clamp(min=0.0)
        return (self.multiplier * violations + self.penalty * active.square()).mean()

    def updated(self, mean_violation: float, *, growth: float, ceiling: float) -> Multipliers:
        """One ascent step on λ; μ grows where the violation did not shrink by a tenth.

        λ and μ are capped (the safeguard usual for inequality constraints), because with M and the
        data in conflict no finite multiplier satisfies both.
        """
        multiplier = min(ceiling, max(0.0, self.multiplier + 2 * self.penalty * mean_violation))
        stalled = max(mean_violation, 0.0) > 0.9 * max(self.last, 0.0)
        penalty = min(ceiling, self.penalty * growth) if stalled else self.penalty
        return replace(self, multiplier=multiplier, penalty=penalty, last=mean_violation)
