"""Models by the tether they have, put together from its parts."""

from __future__ import annotations

from torch import nn

from tether.data import Array
from tether.geometry.cells import Cells
from tether.model.frame import Frame
from tether.model.model import Model
from tether.model.operators import Operator
from tether.tethers import DirectTether, FreeTether, tether_over
from tether.tethers.bounds import Bounds
from tether.trusted import TrustedModel


def unconstrained_model(network: nn.Module, frame: Frame) -> Model:
    """A network without a tether: Vanilla, Augmented Lagrangian."""
    return Model(network, frame, FreeTether(len(frame.schema.outputs)))


def direct_model(network: nn.Module, frame: Frame, trusted: TrustedModel, half_width: Array) -> Model:
    """M itself at run time, plus a network that stays within `half_width` (P,) of it; no cells.

    With an infinite half-width it is the usual hybrid, M plus an unbounded residual.
    """
    return Model(network, frame, DirectTether(trusted, half_width, frame.schema, frame.target))


def constrained_model(
    network: nn.Module, frame: Frame, cells: Cells, bounds: Bounds, *, operator: Operator = "clip"
) -> Model:
    """A network that cannot leave its bounds (the paper's Γ(f_θ))."""
    return Model(network, frame, tether_over(cells, bounds), operator=operator)
