"""A proved model over a box, put together without data or training, for tests that try what it claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import nn

from tether.data import Scaling, Schema, make_schema
from tether.evidence import Evidence, Proved, Question
from tether.geometry.cells import Cells
from tether.model import Frame, Model, mlp
from tether.model.assembling import constrained_model
from tether.model.single import SinglePrecisionModel, SinglePrediction
from tether.tethers.bounds import bound_by_intervals
from tether.tethers.expanding import expand, with_room
from tether.tethers.growth import Aim
from tether.trusted import TrustedModel


@dataclass(frozen=True)
class Shape:
    """What a tether over a box is made with.

    Attributes:
        target: whether next states or increments are bounded.
        leaves: at most, in all trees.
        room: (P,) largest half-width, or one for all.
        most: (P,) delta asked for, infinite for none.
        pinned: (D,) values at which M is followed exactly, NaN where none.
        tolerance: remainder that is good enough.
        evidence: how the remainder is known.
        order: of the models over leaves.
    """

    target: str = "next_state"
    leaves: int = 60
    room: float | np.ndarray = 0.05
    most: float | np.ndarray = np.inf
    pinned: np.ndarray | None = None
    tolerance: float = 1e-6
    evidence: Evidence = field(default_factory=Proved)
    order: int = 1


def boxed_model(
    trusted: TrustedModel,
    schema: Schema,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
    shape: Shape,
) -> Model:
    """A model over the box from `low` to `high` (D,), with memories and half-widths at random."""
    inputs, outputs = len(schema.inputs), len(schema.outputs)
    pinned = np.full(inputs, np.nan) if shape.pinned is None else shape.pinned
    question = Question(trusted, schema, shape.target, low, high, pinned, order=shape.order)  # type: ignore[arg-type]
    aim = Aim(np.full(outputs, shape.tolerance), rng.uniform(low, high, (50, inputs)), shape.leaves)
    scale = np.where(high > low, 0.25 * (high - low), 1.0)
    memories = rng.uniform(low, high, (8, inputs)) / scale
    cells = Cells(memories, np.array([[0, 1]]), scale, 1.0, low, high)
    plain = expand(question, shape.evidence, aim, cells).bounds
    half_width = shape.room * rng.choice([0.0, 0.3, 1.0], (8, outputs))
    most = np.broadcast_to(shape.most, (outputs,)).copy()
    bounds = replace(with_room(plain, half_width, schema), most=most)
    middle, size = 0.5 * low + 0.5 * high, np.maximum(np.abs(low), np.abs(high)).max()
    frame = Frame(
        schema,
        shape.target,  # type: ignore[arg-type]
        Scaling(middle, scale),
        Scaling(np.zeros(outputs), np.full(outputs, 1.0 + size)),
    )
    return constrained_model(mlp(frame.features_width, outputs, (4,)), frame, cells, bounds)


class Constant(nn.Module):
    """A network that says one number, whatever it is asked."""

    def __init__(self, value: float, outputs: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.full((outputs,), value))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.value.expand(len(features), len(self.value))


def with_network(model: Model, network: nn.Module, operator: str = "clip") -> Model:
    """The same tether around another network."""
    return constrained_model(network, model.frame, model.cells, model.bounds, operator=operator)  # type: ignore[arg-type]


def predict(single: SinglePrecisionModel, inputs: np.ndarray) -> SinglePrediction:
    """What a float32 model says of float32 inputs (N, D)."""
    dx, rows = len(single.schema.states), torch.from_numpy(inputs)
    with torch.no_grad():
        return single(rows[:, :dx].contiguous(), rows[:, dx:].contiguous())


def random_system(seed: int) -> tuple[Callable[..., np.ndarray], int]:
    """A polynomial, trigonometric or rational map of 1 to 12 inputs, written as anyone would."""
    rng = np.random.default_rng(seed)
    inputs, kind = int(rng.integers(1, 13)), seed % 3
    first, second = rng.standard_normal((2, inputs, 2))

    def function(states, controls):
        one, two = states @ first, states @ second
        if kind == 0:
            return one * two - 0.3 * one**3 + states[:, :1]
        if kind == 1:
            return np.sin(one) * np.cos(2 * two) + 0.1 * np.tanh(one)
        return one / (2.0 + two**2) + np.sqrt(1.0 + one**2)

    return function, inputs


def tethered(function: Callable[..., np.ndarray], inputs: int, kind: str, seed: int) -> Model:
    """A proved model of a map to two outputs: over a box (`affine`), or by intervals around memories."""
    rng, trusted = np.random.default_rng(seed + 1), TrustedModel(function)
    schema = make_schema([f"s{k}" for k in range(inputs)], [], ["y0", "y1"])
    schema = replace(schema, outputs=("y0", "y1"), advances=(-1, -1))
    box = np.full(inputs, 4.0)
    if kind == "affine":
        return boxed_model(trusted, schema, -box, box, rng, Shape(leaves=40, room=0.1))
    scale = 10.0 ** rng.uniform(-2, 1, inputs)
    memories = rng.standard_normal((30, inputs)) / scale
    cells = Cells(memories, np.array([[0, 1], [1, 2]]), scale, 0.4 / scale.max(), -box, box)
    data = rng.standard_normal((200, inputs))
    bounds = bound_by_intervals(cells, trusted, schema, "next_state", inputs=data, evidence=Proved())
    frame = Frame(schema, "next_state", Scaling(np.zeros(inputs), scale), Scaling(np.zeros(2), np.ones(2)))
    return constrained_model(mlp(inputs, 2, (4,)), frame, cells, bounds)
