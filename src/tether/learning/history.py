"""What training leaves behind besides the weights: its evaluations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluation:
    """One line of metrics.jsonl; squared errors in physical units, mean over outputs."""

    step: int
    loss: float
    approximation_loss_D: float
    constraint_loss_D_mean: float
    constraint_loss_D_max: float
    constraint_loss_omega_mean: float
    constraint_loss_omega_max: float
    operator_input_spread: float
    """Standard deviation of the network's raw output over validation inputs. Near zero, the network
    has become a constant and the output a fixed point of each cell."""
    operator_saturated: float
    """Share of sigmoid inputs beyond ±8, where the gradient has all but vanished."""
    validation_error: float
    """Squared error in units of each output's scale, mean over outputs and over rows by their weight: what
    the best weights are chosen by, because a choice must not depend on whether a length is in metres."""


@dataclass(frozen=True)
class History:
    """What training left behind, besides the weights (which are those of the best evaluation)."""

    evaluations: tuple[Evaluation, ...]
    best_step: int
    steps: int
    seconds: float

    @property
    def best(self) -> Evaluation:
        """That of the weights that were kept."""
        return next(e for e in self.evaluations if e.step == self.best_step)
