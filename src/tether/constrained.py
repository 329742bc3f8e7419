"""Models by the tether they have: a network that cannot leave its bounds (the paper's Γ(f_θ)), and rivals.

Each is a :class:`Model` and nothing more: what is here puts its tether together.
"""

from __future__ import annotations

from typing import TypeGuard

from torch import nn

from tether.bounds import Bounds
from tether.cells import Cells
from tether.data import Array
from tether.model import Frame, Linearization, Model, Operator, Prediction, constrain, kind_of, mlp
from tether.tethers import DirectTether, FreeTether, tether_over
from tether.trusted import TrustedModel

__all__ = [
    "ConstrainedModel",
    "DirectModel",
    "Frame",
    "Linearization",
    "Operator",
    "Prediction",
    "UnconstrainedModel",
    "constrain",
    "is_constrained",
    "is_direct",
    "mlp",
]


class UnconstrainedModel(Model):
    """A network without a tether: Vanilla, Augmented Lagrangian."""

    def __init__(self, network: nn.Module, frame: Frame) -> None:
        super().__init__(network, frame, FreeTether(len(frame.schema.outputs)))


class DirectModel(Model):
    """M itself at run time, plus a network that stays within ``half_width`` of it; no cells.

    With an infinite half-width it is the usual hybrid, M plus an unbounded residual.

    Args:
        network: any module from features (N, F) to (N, P).
        frame: units and scales, of the deviation from M.
        trusted: M.
        half_width: (P,) how far an output may be from M.
    """

    tether: DirectTether

    def __init__(self, network: nn.Module, frame: Frame, trusted: TrustedModel, half_width: Array) -> None:
        super().__init__(network, frame, DirectTether(trusted, half_width, frame.schema, frame.target))


class ConstrainedModel(Model):
    """A network that cannot leave the bounds of the cell its input lies in.

    Args:
        network: any module from features (N, F) to (N, P); see :meth:`Frame.features`.
        frame: units and scales; of the deviation from A for affine bounds.
        cells: which input belongs where.
        bounds: what each cell allows.
        operator: see :func:`constrain`. With `project` the frame is that of the target itself: the network
            knows nothing of A.
    """

    def __init__(
        self, network: nn.Module, frame: Frame, cells: Cells, bounds: Bounds, *, operator: Operator = "clip"
    ) -> None:
        super().__init__(network, frame, tether_over(cells, bounds), operator=operator)


def is_direct(model: object) -> TypeGuard[DirectModel]:
    """Whether a model asks M at run time, however it was put together."""
    return kind_of(model) == DirectTether.kind


def is_constrained(model: object) -> TypeGuard[ConstrainedModel]:
    """Whether a model has bounds by cell, however it was put together."""
    return kind_of(model) in ("interval", "affine", "boxes")
