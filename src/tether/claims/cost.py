"""What constraining costs in accuracy: the paper's bound and a sharper one, checked on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import nn

from tether.data import Array, Transitions
from tether.model import Model


@dataclass(frozen=True)
class ApproximationCost:
    """What constraining costs in accuracy, checked on held-out rows for a bare network f_θ.

    Attributes:
        epsilon: per output, the largest error of f_θ.
        alpha_diameter: per output, α max|S| of the paper's Theorem; None for a network whose
            Lipschitz constant is not known.
        paper_bound: per output, 2ε + α max|S|.
        paper_holds: share of rows and outputs that respect the paper's bound.
        sharp_holds: share that respect ``|Γ(f) - x| <= |f - x| + t``, with t the tether miss.
        tether_miss: per output, the largest distance of the truth from the bounds.
        tether_miss_share: share of rows and outputs whose truth lies outside the bounds.
    """

    epsilon: tuple[float, ...]
    alpha_diameter: tuple[float, ...] | None
    paper_bound: tuple[float, ...] | None
    paper_holds: float | None
    sharp_holds: float
    tether_miss: tuple[float, ...]
    tether_miss_share: float

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ApproximationCost:
        """From what ``certificate.json`` holds, which a newer version may have added to."""
        return cls(**{field.name: content[field.name] for field in fields(cls)})


def approximation_cost(model: Model, unconstrained: Model, transitions: Transitions) -> ApproximationCost:
    """Clips `unconstrained` to the bounds of `model` and checks both bounds on the error it then has."""
    states, controls = transitions.states, transitions.controls
    bounds = model.predict(states, controls, details=True)
    middle = 0.5 * bounds.lower + 0.5 * bounds.upper
    bare = model.schema.near(unconstrained.predict(states, controls), middle)
    truth = model.schema.near(transitions.next_states, middle)
    clipped = np.minimum(np.maximum(bare, bounds.lower), bounds.upper)
    error, bare_error = np.abs(clipped - truth), np.abs(bare - truth)
    miss = np.maximum(np.maximum(bounds.lower - truth, truth - bounds.upper), 0.0)
    rounding = 8 * np.finfo(np.float64).eps * (np.abs(truth) + np.abs(bare))
    epsilon = bare_error.max(axis=0)
    # The paper's bound speaks of cells.
    slopes = None if model.tether.memories is None else _output_slopes(unconstrained)
    reach = None if slopes is None else slopes * 2 * model.cells.radii.max()
    paper = None if reach is None else 2 * epsilon + reach
    return ApproximationCost(
        epsilon=tuple(epsilon.tolist()),
        alpha_diameter=None if reach is None else tuple(reach.tolist()),
        paper_bound=None if paper is None else tuple(paper.tolist()),
        paper_holds=None if paper is None else float((error <= paper).mean()),
        sharp_holds=float((error <= bare_error + miss + rounding).mean()),
        tether_miss=tuple(miss.max(axis=0).tolist()),
        tether_miss_share=float((miss > 0).mean()),
    )


def _output_slopes(model: Model) -> Array | None:
    """(P,) Lipschitz constants of the prediction per unit of scaled distance; None if not known."""
    if not isinstance(model.network, nn.Sequential):
        return None
    slope = 1.0
    for layer in model.network:
        if isinstance(layer, nn.Linear):
            slope *= float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
        elif not isinstance(layer, nn.ReLU):
            return None
    scale, schema = model.frame.inputs.scale, model.schema
    # A plain input enters the network divided by its scale, an angle by way of its sine and cosine.
    slope *= max([1.0, *scale[schema.input_angles]])
    slopes = slope * model.frame.outputs.scale
    return (
        slopes + schema.base(scale[None, : len(schema.states)])[0]
        if model.frame.target == "increment"
        else slopes
    )
