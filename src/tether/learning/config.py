"""How a network is trained: the settings of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from tether.foundation.documents import shorten, shown
from tether.foundation.limits import MOST_STEPS, check_number, check_whole

Loss = Literal["squared_error", "augmented_lagrangian"]


@dataclass(frozen=True)
class TrainingConfig:
    """How a network is trained.

    Attributes:
        steps: gradient steps.
        loss: `squared_error` on D, or `augmented_lagrangian` on D and Ω.
        batch: rows of D per step, and of Ω where the loss needs them.
        learning_rate: of Adam, at the start.
        schedule: `cosine` decays the learning rate to zero over the run; `constant` keeps it.
        gamma: γ of the schedule that widens the bounds by γ^step of their width early on.
        update_every: steps between updates of multipliers and penalties.
        penalty_growth: factor of the penalty where the violation stalls.
        ceiling: largest multiplier and penalty.
        evaluate_every: steps between evaluations.
        patience: evaluations without a better validation error before stopping early; None: never.
        dtype: of the network.
        device: of the network.
        checkpoint_seconds: least time between two checkpoints.
    """

    steps: int = 2000
    loss: Loss = "squared_error"
    batch: int = 64
    learning_rate: float = 1e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    gamma: float = 0.0
    update_every: int = 100
    penalty_growth: float = 2.0
    ceiling: float = 100.0
    evaluate_every: int = 100
    patience: int | None = None
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    checkpoint_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "update_every", "evaluate_every"):
            check_whole(name, getattr(self, name), least=1, most=MOST_STEPS)
        if not 0 <= self.gamma < 1:
            raise ValueError(f"`gamma` must be in [0, 1); got {self.gamma}.")
        check_number("learning_rate", self.learning_rate, above=0.0)
        for name in ("ceiling", "checkpoint_seconds"):
            check_number(name, getattr(self, name), least=0.0)
        check_number("penalty_growth", self.penalty_growth, least=1.0, most=1e6)
        if self.patience is not None:
            check_whole("patience", self.patience, least=1, most=MOST_STEPS)
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                options = ", ".join(map(repr, allowed))
                raise ValueError(f"`{name}` must be one of {options}; got {getattr(self, name)!r}.")
        check_device("device", self.device)


_CHOICES = {
    "loss": get_args(Loss),
    "schedule": ("cosine", "constant"),
    "dtype": ("float32", "float64"),
}


def check_device(option: str, name: str) -> None:
    """Raises unless torch can compute on the device; on `meta`, for one, it only pretends to."""
    if name == "cpu":
        return
    try:
        (torch.ones(1, device=name) + 1).cpu()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(
            f"`{option}` must be one that torch can use; got {shown(name)} ({shorten(reason[0])}). Use 'cpu'."
        ) from None
